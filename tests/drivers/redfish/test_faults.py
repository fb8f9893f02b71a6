"""A BMC that is down, slow, lying or has other credentials: each tells what it is, soon enough."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import pathlib
import re
import socket
import ssl
import time
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import bounded_http, config
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import management, power
from ironic_lite.drivers.redfish.bmc import resources, transport
from tests.emulators import liar as liars
from tests.emulators import redfish
from tests.support import bmc_tasks

POWER = power.RedfishPower()
SYSTEM = f"GET {liars.SYSTEM}"
ROOT = f"GET {liars.ROOT}"


def error_of(task: bmc_tasks.BmcTask) -> errors.Error:
    with pytest.raises(errors.Error) as caught:
        POWER.get_power_state(task)
    return caught.value


# -- nobody there -----------------------------------------------------------------------------


def test_a_closed_port_is_connection_refused_after_all_attempts() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        task = bmc_tasks.task_at(address)
        config.CONF.set_override("connection_retry_interval", 2, group="redfish")
        error = error_of(task)
    assert isinstance(error, errors.BmcUnreachable)
    assert error.message == (
        f"Cannot reach the BMC at {address}: connection refused, nothing listens there. "
        "Check the address and the network."
    )
    assert error.retryable
    assert task.pauses == [2, 2]


def test_a_name_nobody_knows_is_named() -> None:
    # A machine without name service takes seconds to find out: once is enough.
    config.CONF.set_override("connection_attempts", 1, group="redfish")
    try:
        error = error_of(bmc_tasks.task_at("http://bmc.invalid"))
    finally:
        config.CONF.clear_override("connection_attempts", group="redfish")
    assert isinstance(error, errors.BmcUnreachable)
    assert "http://bmc.invalid: its name cannot be resolved" in error.message


@pytest.mark.parametrize(
    "number", [errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EADDRNOTAVAIL]
)
def test_an_address_without_route_is_told_in_the_words_of_the_system(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The error is made up: each machine has other networks, and other errors for an address."""
    words = os.strerror(number)

    def connect(_self: socket.socket, _address: Any) -> None:
        raise OSError(number, words)

    monkeypatch.setattr(socket.socket, "connect", connect)
    error = error_of(bmc_tasks.task_at("http://192.0.2.1"))
    assert isinstance(error, errors.BmcUnreachable)
    assert f"no connection ({words.lower()})" in error.message
    assert error.retryable


def test_a_connection_that_is_not_accepted_times_out() -> None:
    config.CONF.set_override("connect_timeout", 1, group="redfish")
    config.CONF.set_override("connection_attempts", 1, group="redfish")
    try:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            address = full.getsockname()
            held = [socket.socket() for _ in range(4)]
            for client in held:  # they fill the queue; nobody accepts
                client.setblocking(False)
                client.connect_ex(address)
            error = error_of(bmc_tasks.task_at(f"http://127.0.0.1:{address[1]}"))
            for client in held:
                client.close()
    finally:
        config.CONF.clear_override("connection_attempts", group="redfish")
    assert isinstance(error, errors.BmcUnreachable)
    assert "no connection within 1 s" in error.message


# -- slow -------------------------------------------------------------------------------------


@pytest.mark.parametrize("trick", [liars.silent, liars.drips, liars.drips_body])
def test_a_bmc_that_takes_too_long_is_given_up_whatever_it_sends_meanwhile(
    liar: liars.Liar, trick: liars.Trick
) -> None:
    bmc_tasks.wait_for_answers(1)
    liar.tricks[SYSTEM] = trick
    start = time.monotonic()
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, errors.BmcUnreachable)
    assert "no complete answer within 1 s" in error.message
    assert liar.log.count(SYSTEM) == 1
    assert time.monotonic() - start < 30


# -- lying ------------------------------------------------------------------------------------

HTML = b"<html><head><title>Welcome</title></head><body>Please enable JavaScript</body></html>"
INFO = "@Message.ExtendedInfo"
HPE = {
    "error": {
        "code": "iLO.0.10.ExtendedInfo",
        "message": "See @Message.ExtendedInfo for more information.",
        INFO: [
            {"MessageId": "iLO.2.14.UnsupportedOperation", "MessageArgs": ["Boot", 7]},
            {"MessageId": "iLO.2.14.Other"},
        ],
    }
}
LIES: dict[str, tuple[liars.Trick, str]] = {
    "html": (
        liars.says(200, HTML, Content_Type="text/html"),
        "is not JSON: 85 bytes, content type text/html",
    ),
    "truncated": (liars.says(200, b'{"PowerState": "O'), "is not JSON"),
    "empty": (liars.says(200, b""), "is not JSON"),
    "list": (liars.says(200, ["On"]), "is not a JSON object but list"),
    "number": (liars.says(200, 7), "is not a JSON object but int"),
    "deep": (liars.says(200, b"[" * 100_000), "is not JSON"),
    "binary": (liars.says(200, bytes(range(256))), "is not JSON"),
    "power is a number": (liars.says(200, {"PowerState": 1}), "PowerState of .* is int"),
    "teapot": (liars.says(418, {"error": {"message": "Short and stout"}}), "HTTP 418 .Short"),
    "error is a list": (liars.says(500, [1, 2]), "internal error: HTTP 500"),
    "error is a word": (liars.says(500, {"error": "boom"}), r"internal error: HTTP 500 \(boom\)"),
    "error is html": (liars.says(500, HTML), "internal error: HTTP 500"),
    "error entries": (
        liars.says(
            400, {"error": {"@Message.ExtendedInfo": ["x", {"Message": "Out of paper"}, 3]}}
        ),
        "refused the request: HTTP 400 .x Out of paper",
    ),
    "error ids and arguments alone": (
        liars.says(400, HPE),
        r"HTTP 400 \(iLO.2.14.UnsupportedOperation \(Boot, 7\) iLO.2.14.Other\)",
    ),
    "error message with marks": (
        liars.says(400, {"error": {INFO: [{"Message": "%1 is no %2", "MessageArgs": ["A", "B"]}]}}),
        r"HTTP 400 \(A is no B\)",
    ),
    "error code alone": (
        liars.says(400, {"error": {"code": "Base.1.8.InsufficientPrivilege"}}),
        r"HTTP 400 \(Base.1.8.InsufficientPrivilege\)",
    ),
    "error is plain text": (
        liars.says(500, b"Flash is\x00 worn\xff out\r\n", Content_Type="text/plain"),
        "HTTP 500 .Flash is worn\ufffd out",
    ),
    "error is a page": (
        liars.says(500, b"<html><head><title>x</title></head><body>Out &amp; over</body></html>"),
        r"HTTP 500 \(Out & over\)",
    ),
    "error is text in JSON": (liars.says(400, "Not now"), r"HTTP 400 \(Not now\)"),
    "error is a list of texts": (liars.says(400, ["Not", "now"]), r"HTTP 400 \(Not now\)"),
    "error is a list of messages": (
        liars.says(400, {"error": [{"Message": "Not"}, {"message": "now"}]}),
        r"HTTP 400 \(Not now\)",
    ),
    "error has a language": (
        liars.says(400, {"error": {"message": {"lang": "en-US", "value": "Not now"}}}),
        r"HTTP 400 \(Not now\)",
    ),
    "error entry has a language": (
        liars.says(400, {"error": {INFO: [{"Message": {"lang": "en", "value": "Not now"}}]}}),
        r"HTTP 400 \(Not now\)",
    ),
    "error entries without an error": (
        liars.says(400, {INFO: [{"Message": "Not now"}]}),
        r"HTTP 400 \(Not now\)",
    ),
    "error is a number": (
        liars.says(400, {"error": 17, "message": "Not now"}),
        r"HTTP 400 \(Not now\)",
    ),
    "error is a detail": (liars.says(400, {"detail": "Not now"}), r"HTTP 400 \(Not now\)"),
}


@pytest.mark.parametrize("name", LIES)
def test_an_answer_that_cannot_be_used_is_described(liar: liars.Liar, name: str) -> None:
    trick, said = LIES[name]
    liar.tricks[SYSTEM] = trick
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, errors.BmcBadAnswer)
    assert liar.address in error.message
    assert re.search(said, error.message)


@pytest.mark.parametrize(
    ("trick", "kind", "said"),
    [
        (liars.hangs_up, errors.BmcUnreachable, "it hung up without an answer"),
        (liars.ends_early, errors.BmcBadAnswer, "its answer is truncated"),
        (liars.babbles, errors.BmcBadAnswer, "it does not speak HTTP"),
    ],
)
def test_a_connection_that_breaks_is_described(
    liar: liars.Liar, trick: liars.Trick, kind: type[errors.Error], said: str
) -> None:
    liar.tricks[SYSTEM] = trick
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, kind)
    assert said in error.message


@pytest.mark.parametrize("document", [{}, {"Systems": 3}, {"Systems": {"@odata.id": 3}}])
def test_a_service_root_that_is_none_is_described(liar: liars.Liar, document: Any) -> None:
    liar.tricks[ROOT] = liars.says(200, document)
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, errors.BmcBadAnswer)
    assert "it is not Redfish" in error.message


def test_service_root_without_systems_asks_for_the_system(liar: liars.Liar) -> None:
    del liar.tree["/redfish/v1"]["Systems"]
    task = bmc_tasks.task_at(liar.address)
    error = error_of(task)
    assert isinstance(error, errors.InvalidParameter)
    assert "driver_info/redfish_system_id" in error.message and "lists no systems" in error.message
    task = bmc_tasks.task_at(liar.address, redfish_system_id=liars.SYSTEM)
    assert POWER.get_power_state(task) == base.POWER_OFF


def test_documents_that_stay_in_memory_with_a_login_are_small(liar: liars.Liar) -> None:
    """One owner may have many BMCs, and their logins are kept."""
    good = liar.tree["/redfish/v1"]
    liar.tree["/redfish/v1"] = {**good, "Oem": [{"a": number} for number in range(2000)]}
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, errors.BmcBadAnswer) and "its service root takes" in error.message
    liar.tree["/redfish/v1"] = good
    path = f"{liars.SYSTEM}{'x' * 2048}"
    liar.tree["/redfish/v1/Systems"]["Members"] = [{"@odata.id": path}]
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, errors.BmcBadAnswer) and "path of its system has" in error.message


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (b'"a\xe9b"', "a\ufffdb"),
        (b'"a\x00b"', "ab"),
        (b'"a\\u0000b"', "ab"),
        (b'"a\\ud800b"', "a\ufffdb"),
        (b'"a\tb"', "a\tb"),
        (b"NaN", None),
        (b"-Infinity", None),
    ],
)
@pytest.mark.parametrize(
    ("begin", "end"), [(b"", b""), (b"\xef\xbb\xbf", b"\x00\x00")], ids=["bare", "marked"]
)
def test_one_broken_property_loses_only_itself(
    liar: liars.Liar, told: bytes, shown: Any, begin: bytes, end: bytes
) -> None:
    raw = json.dumps({**liar.tree[liars.SYSTEM], "PowerState": "On", "AssetTag": 0}).encode()
    raw = raw.replace(b'"AssetTag": 0', b'"AssetTag": ' + told)
    liar.tricks[SYSTEM] = liars.says(200, begin + raw + end)
    task = bmc_tasks.task_at(liar.address)
    assert POWER.get_power_state(task) == base.POWER_ON
    assert resources.system(task)["AssetTag"] == shown


def test_something_that_is_no_redfish_at_all_is_told_from_a_missing_system(
    liar: liars.Liar,
) -> None:
    error = error_of(bmc_tasks.task_at(f"{liar.address}/other"))
    assert isinstance(error, errors.BmcBadAnswer)
    assert "no Redfish service at /other/; check redfish_address" in error.message


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_cut_off(
    liar: liars.Liar, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LIMIT", 100_000)
    body = b" " * 1_000_000
    headers = {"Content_Encoding": "gzip"} if packed else {}
    liar.tricks[SYSTEM] = liars.says(200, gzip.compress(body) if packed else body, **headers)
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, errors.BmcBadAnswer)
    assert "the answer is larger than" in error.message


def test_an_answer_of_too_many_values_is_not_parsed(
    liar: liars.Liar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "MOST_MARKS", 1000)
    liar.tricks[SYSTEM] = liars.says(200, b'{"PowerState": "On", "a": [' + b"0," * 2000 + b"0]}")
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, errors.BmcBadAnswer)
    assert "JSON with more than 1000 of the characters" in error.message


def test_a_large_answer_without_memory_fails_and_says_so(liar: liars.Liar) -> None:
    liar.tricks[SYSTEM] = liars.says(200, b'{"PowerState": "On", "a": "%s"}' % (b"x" * 3_000_000))
    config.CONF.set_override("read_timeout", 1, group="redfish")
    task = bmc_tasks.task_at(liar.address)
    with bounded_http.AnswerMemory(bounded_http.MEMORY, 30) as others:
        others.read(2 * bounded_http.MEMORY)
        error = error_of(task)
    assert isinstance(error, errors.BmcUnreachable)
    assert "its answer is large, and those of other machines take the memory" in error.message


def test_a_redirection_with_a_body_without_end_is_cut_off(
    liar: liars.Liar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LIMIT", 100_000)
    body = gzip.compress(b" " * 1_000_000)
    turn = {"Location": liars.ROOT, "Content_Encoding": "gzip"}
    liar.tricks[SYSTEM] = liars.says(307, body, **turn)
    assert "the answer is larger than" in error_of(bmc_tasks.task_at(liar.address)).message


def test_redirections_in_a_circle_end_soon(liar: liars.Liar) -> None:
    liar.tricks[SYSTEM] = liars.says(307, Location=liars.SYSTEM)
    config.CONF.set_override("connection_attempts", 1, group="redfish")
    try:
        error = error_of(bmc_tasks.task_at(liar.address))
    finally:
        config.CONF.clear_override("connection_attempts", group="redfish")
    assert "Exceeded 3 redirects" in error.message
    assert liar.log.count(SYSTEM) == 4


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirection_that_turns_an_order_into_a_question_is_no_success(
    liar: liars.Liar, status: int
) -> None:
    liar.tricks[f"POST {liars.RESET}"] = liars.says(status, Location=liars.SYSTEM)
    with pytest.raises(errors.BmcBadAnswer, match=f"redirects a POST by {status}"):
        POWER.set_power_state(bmc_tasks.task_at(liar.address), base.POWER_ON)


def test_a_redirection_that_keeps_an_order_is_followed(liar: liars.Liar) -> None:
    liar.tricks["POST /old"] = liars.says(307, Location=liars.RESET)
    liar.tree[liars.SYSTEM]["Actions"]["#ComputerSystem.Reset"]["target"] = "/old"
    POWER.set_power_state(bmc_tasks.task_at(liar.address), base.POWER_ON)
    assert liar.sent == ["On"]


def test_a_redirection_to_another_host_is_not_followed(liar: liars.Liar) -> None:
    liar.users = {"root": "secret"}
    with liars.Liar() as other:
        liar.tricks[SYSTEM] = liars.says(307, Location=f"{other.address}{liars.SYSTEM}")
        task = bmc_tasks.task_at(liar.address, redfish_username="root", redfish_password="secret")
        error = error_of(task)
        assert other.log == []
    assert isinstance(error, errors.BmcBadAnswer)
    assert "it redirects to http://127.0.0.1" in error.message


def test_a_redirection_on_the_same_host_is_followed(liar: liars.Liar) -> None:
    old = "/redfish/v1/Systems/old"
    liar.tricks[f"GET {old}"] = liars.says(307, Location=liars.SYSTEM)
    task = bmc_tasks.task_at(liar.address, redfish_system_id=old)
    assert POWER.get_power_state(task) == base.POWER_OFF


def test_a_link_to_another_host_is_looked_up_on_the_bmc_itself(liar: liars.Liar) -> None:
    liar.members = [f"http://10.255.255.1{liars.SYSTEM}"]
    assert POWER.get_power_state(bmc_tasks.task_at(liar.address)) == base.POWER_OFF


# -- which system -----------------------------------------------------------------------------


def test_a_system_that_is_not_there_is_named_with_those_that_are(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address, redfish_system_id="/redfish/v1/Systems/9")
    error = error_of(task)
    assert isinstance(error, errors.InvalidParameter)
    assert error.message == (
        f"driver_info/redfish_system_id: the BMC at {liar.address} has no system "
        f"/redfish/v1/Systems/9; it has {liars.SYSTEM}"
    )


def test_several_systems_need_a_choice(emulator: redfish.Emulator) -> None:
    error = error_of(bmc_tasks.task_at(emulator.address))
    assert isinstance(error, errors.InvalidParameter)
    assert emulator.machines[0].system_id in error.message
    assert "and 30 more; name one of them" in error.message


@pytest.mark.parametrize("named", [None, "/redfish/v1/Systems/9"])
def test_a_bmc_that_lists_no_system_may_be_starting(liar: liars.Liar, named: str | None) -> None:
    """Steps that wait for it must not end with what looks like a wrong driver_info."""
    liar.members = []
    error = error_of(bmc_tasks.task_at(liar.address, redfish_system_id=named))
    assert isinstance(error, errors.BmcUnreachable)
    said = f"does not have the system {named} and lists no system" if named else "lists no system"
    assert f"{said}. It may be starting; retry later" in error.message


# -- credentials ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["basic", "session", "auto"])
def test_wrong_credentials_are_told_with_the_user_and_without_the_password(
    liar: liars.Liar, kind: str
) -> None:
    liar.users = {"root": "right"}
    task = bmc_tasks.task_at(
        liar.address,
        redfish_username="root",
        redfish_password="hunter2",
        redfish_auth_type=kind,
    )
    error = error_of(task)
    assert isinstance(error, errors.BmcAccessDenied)
    assert "refused the credentials of user root: HTTP 401" in error.message
    assert not error.retryable
    assert "hunter2" not in str(error.as_data())


@pytest.mark.parametrize("kind", ["basic", "session", "auto"])
def test_service_root_behind_a_login_is_read_with_the_credentials(
    liar: liars.Liar, kind: str
) -> None:
    liar.users, liar.habits.root_needs_login = {"root": "right"}, True
    login = {"redfish_username": "root", "redfish_auth_type": kind}
    task = bmc_tasks.task_at(liar.address, **login, redfish_password="right")
    assert POWER.get_power_state(task) == base.POWER_OFF
    assert liar.logins == (kind != "basic")
    liar.requests.clear()
    error = error_of(bmc_tasks.task_at(liar.address, **login, redfish_password="wrong"))
    assert "refused the credentials of user root" in error.message
    # Credentials that were sent are to blame, and they are sent once.
    assert ["Authorization" in one.headers for one in liar.requests] == [False, True]


def test_wrong_credentials_do_not_hammer_the_bmc(liar: liars.Liar) -> None:
    liar.users = {"root": "right"}
    error_of(
        bmc_tasks.task_at(
            liar.address,
            redfish_username="root",
            redfish_password="wrong",
            redfish_auth_type="session",
        )
    )
    assert liar.log.count(f"POST {liars.SESSIONS}") == 1


def test_no_credentials_where_some_are_wanted(liar: liars.Liar) -> None:
    liar.users = {"root": "right"}
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, errors.BmcAccessDenied)
    assert "requires a login" in error.message


def test_a_user_without_rights_is_told_from_a_wrong_password(liar: liars.Liar) -> None:
    liar.tricks[f"POST {liars.RESET}"] = liars.says(403, {"error": {"message": "Read only."}})
    task = bmc_tasks.task_at(liar.address, redfish_username="guest", redfish_password="x")
    with pytest.raises(
        errors.BmcAccessDenied, match=r"does not allow this to user guest.*Read only"
    ):
        POWER.set_power_state(task, base.POWER_ON)


def test_a_bmc_that_echoes_the_password_does_not_get_it_into_an_error(liar: liars.Liar) -> None:
    liar.tricks[SYSTEM] = liars.says(500, {"error": {"message": "bad login root/hunter2"}})
    task = bmc_tasks.task_at(liar.address, redfish_username="root", redfish_password="hunter2")
    error = error_of(task)
    assert "hunter2" not in str(error.as_data())
    assert "root/***" in error.message


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_bmc_that_is_starting_is_retryable(liar: liars.Liar, status: int) -> None:
    liar.tricks[SYSTEM] = liars.says(status)
    error = error_of(bmc_tasks.task_at(liar.address))
    assert isinstance(error, errors.BmcUnreachable)
    assert f"is not ready: HTTP {status}" in error.message
    assert liar.log.count(SYSTEM) == config.CONF.redfish.connection_attempts


@pytest.mark.parametrize(("status", "times"), [(503, 2), (502, 1), (504, 1)])
def test_change_is_repeated_if_the_bmc_has_not_begun_it(
    liar: liars.Liar, status: int, times: int
) -> None:
    title = f"PATCH {liars.SYSTEM}"
    liar.tricks[title] = liars.says_first(1, liars.says(status))
    task = bmc_tasks.task_at(liar.address)
    with contextlib.nullcontext() if times > 1 else pytest.raises(errors.BmcUnreachable):
        management.RedfishManagement().set_boot_device(task, "pxe")
    assert liar.log.count(title) == times


# -- TLS --------------------------------------------------------------------------------------


def test_the_emulator_with_tls_is_trusted_only_with_its_authority(
    certificate: tuple[pathlib.Path, pathlib.Path], caplog: pytest.LogCaptureFixture
) -> None:
    path, key = certificate
    with redfish.Emulator(certificate=path, key=key) as bmc:
        error = error_of(bmc_tasks.task_at(bmc.address))
        assert isinstance(error, errors.BmcBadAnswer)
        assert "is not trusted: self-signed certificate" in error.message
        assert "redfish_verify_ca" in error.message

        trusted = bmc_tasks.task_at(bmc.address, redfish_verify_ca=str(path))
        assert POWER.get_power_state(trusted) == base.POWER_OFF
        wrong_name = bmc_tasks.task_at(
            bmc.address.replace("127.0.0.1", "localhost"), redfish_verify_ca=str(path)
        )
        assert "localhost" in error_of(wrong_name).message

        blind = bmc_tasks.task_at(bmc.address, redfish_verify_ca=False)
        for _ in range(3):
            assert POWER.get_power_state(blind) == base.POWER_OFF
        warnings = [text for text in caplog.messages if "is not verified" in text]
        assert warnings == [f"The certificate of the BMC at {bmc.address} is not verified."]


def test_the_tls_settings_of_a_node_reach_the_wire(
    certificate: tuple[pathlib.Path, pathlib.Path],
) -> None:
    path, key = (str(part) for part in certificate)
    with liars.Liar(tls=(path, key)) as bmc:
        common = {"redfish_verify_ca": path, "redfish_tls_minimum_version": "1.3"}
        assert POWER.get_power_state(bmc_tasks.task_at(bmc.address, **common)) == base.POWER_OFF
        old = bmc.server.http.socket
        assert isinstance(old, ssl.SSLSocket)
        old.context.maximum_version = ssl.TLSVersion.TLSv1_2
        error = error_of(bmc_tasks.task_at(bmc.address, **common, redfish_username="other"))
        assert isinstance(error, errors.BmcBadAnswer)
        assert "TLS with the BMC" in error.message
        assert "version" in error.message


def test_https_to_a_port_that_speaks_http_is_told(liar: liars.Liar) -> None:
    error = error_of(bmc_tasks.task_at(liar.address.replace("http:", "https:")))
    assert isinstance(error, errors.BmcBadAnswer)
    assert "TLS with the BMC" in error.message


def test_a_ca_file_without_certificate_is_told(liar: liars.Liar, tmp_path: pathlib.Path) -> None:
    empty = tmp_path / "ca.pem"
    empty.write_text("nothing")
    task = bmc_tasks.task_at("https://127.0.0.1:1", redfish_verify_ca=str(empty))
    assert "redfish_verify_ca" in error_of(task).message
