"""driver_info of Redfish nodes: every key, what it becomes, and what is refused in which words."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import bounded_http, config
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import power
from ironic_lite.drivers.redfish.bmc import info
from tests.emulators import liar as liars
from tests.support import bmc_tasks


def parsed(**values: Any) -> info.RedfishInfo:
    return info.parse({"redfish_address": "https://bmc"} | values)


@pytest.mark.parametrize(
    ("given", "address", "prefix"),
    [
        ("bmc.example.org", "https://bmc.example.org", "/redfish/v1/"),
        ("http://10.0.0.1", "http://10.0.0.1", "/redfish/v1/"),
        ("HTTPS://BMC.example.org:443/", "https://bmc.example.org", "/redfish/v1/"),
        ("http://bmc:80", "http://bmc", "/redfish/v1/"),
        ("http://bmc:443", "http://bmc:443", "/redfish/v1/"),
        ("bmc:8443", "https://bmc:8443", "/redfish/v1/"),
        (" https://bmc ", "https://bmc", "/redfish/v1/"),
        ("https://bmc/redfish/v1", "https://bmc", "/redfish/v1/"),
        ("https://proxy/rack1/bmc7/redfish/v1/", "https://proxy", "/rack1/bmc7/redfish/v1/"),
        ("2001:db8::1", "https://[2001:db8::1]", "/redfish/v1/"),
        ("http://2001:db8::1", "http://[2001:db8::1]", "/redfish/v1/"),
        ("[2001:DB8::1]:8000", "https://[2001:db8::1]:8000", "/redfish/v1/"),
        ("https://[2001:db8::1]/custom", "https://[2001:db8::1]", "/custom/"),
    ],
)
def test_an_address_becomes_scheme_host_port_and_the_path_of_the_root(
    given: str, address: str, prefix: str
) -> None:
    node = parsed(redfish_address=given)
    assert (node.address, node.root_prefix) == (address, prefix)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("address", "ftp://bmc", "needs http or https"),
        ("address", "https://", "does not name a host"),
        ("address", "https://b mc", "must not contain spaces"),
        ("address", "https://bmc:99999", "is not a host with an optional port"),
        ("address", "https://bmc:x", "is not a host with an optional port"),
        ("address", "https://bmc:0", "port 0"),
        ("address", "https://[2001:db8::1", "is not a host"),
        ("address", "https://-bmc", "does not name a host"),
        ("address", f"https://{'b' * 254}", "more than 253 characters"),
        ("address", "https://root:calvin@bmc", "must not contain credentials"),
        ("address", "https://bmc/redfish?x=1", r"without \? or #"),
        ("address", True, "must be a string, not bool"),
        ("address", "https://bmc\x00", "NUL"),
        ("system_id", "1", "must be the path of a system"),
        ("system_id", "https://bmc/redfish/v1/Systems/1", "must be the path of a system"),
        ("system_id", "//evil/redfish", "must be the path of a system"),
        ("system_id", ["/a"], "must be a string, not list"),
        ("username", 1e30, "must be a string, not float"),
        ("password", {}, "must be a string, not dict"),
        ("password", "\ud800", "lone surrogates"),
        ("verify_ca", "/no/such/file", "must be true, false, or the name of a PEM file"),
        ("verify_ca", "a" * 5000, "must be true, false, or the name of a PEM file"),
        ("verify_ca", 0.5, "must be true, false, or the name of a PEM file"),
        ("auth_type", "magic", "must be one of auto, basic, session"),
        ("auth_type", True, "must be one of"),
        ("tls_minimum_version", "1.0", "must be one of 1.1, 1.2, 1.3"),
        ("tls_ciphers", "ROT13", "names no cipher"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_the_reason(
    name: str, value: Any, said: str
) -> None:
    with pytest.raises(errors.InvalidParameter, match=f"driver_info/redfish_{name}: .*{said}"):
        parsed(**{"redfish_username": "root", f"redfish_{name}": value})
    with pytest.raises(errors.InvalidParameter, match=said):
        info.check({f"redfish_{name}": value})


@pytest.mark.parametrize(("given", "text"), [(12345, "12345"), (-1, "-1"), (1.5, "1.5")])
def test_login_of_digits_may_be_a_number(given: object, text: str) -> None:
    """Ironic's command line sends ``--driver-info redfish_password=12345`` as a number."""
    found = parsed(redfish_username=given, redfish_password=given)
    assert (found.username, found.password) == (text, text)


@pytest.mark.parametrize("value", [-1, "soon", 1.5, True, []])
def test_seconds_are_whole_and_not_negative(value: Any) -> None:
    with pytest.raises(errors.InvalidParameter, match="must be a whole number of seconds"):
        parsed(firmware_update_unresponsive_bmc_wait=value)


@pytest.mark.parametrize("value", [300, "300"])
def test_seconds_may_come_as_text(value: Any) -> None:
    assert parsed(firmware_update_unresponsive_bmc_wait=value).unresponsive_wait == 300


@pytest.mark.parametrize(
    ("given", "verify"),
    [
        (True, True),
        (False, False),
        ("True", True),
        ("no", False),
        ("0", False),
        ("on", True),
        (1, True),
    ],
)
def test_verification_may_come_as_text(given: Any, verify: bool) -> None:
    assert parsed(redfish_verify_ca=given).verify is verify


def test_options_are_the_defaults_of_nodes(tmp_path: pathlib.Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.touch()

    def parse(**given: Any) -> info.RedfishInfo:
        own = {f"redfish_{name}": value for name, value in given.items()}
        return info.parse(
            {"redfish_address": "bmc", **own},
            verify_ca=str(bundle),
            tls_minimum_version="1.3",
            tls_ciphers="HIGH",
        )

    node = parse()
    assert (node.verify, node.tls_minimum_version, node.tls_ciphers) == (str(bundle), "1.3", "HIGH")
    node = parse(verify_ca="false", tls_minimum_version=1.2, tls_ciphers="ALL")
    assert (node.verify, node.tls_minimum_version, node.tls_ciphers) == (False, "1.2", "ALL")
    assert parse(verify_ca=True).verify == str(bundle)
    with pytest.raises(errors.LocalFileError, match=r"\[redfish\]verify_ca is no file or folder"):
        info.parse({"redfish_address": "bmc"}, verify_ca=str(tmp_path / "gone"))
    assert info.parse({"redfish_address": "bmc"}, verify_ca="False").verify is False


def test_verification_may_name_a_file_or_folder_below_the_one_of_the_operator(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "rack").mkdir()
    (tmp_path / "rack" / "ca.pem").touch()

    def verify(name: str) -> bool | str:
        given = {"redfish_address": "bmc", "redfish_verify_ca": name}
        return info.parse(given, ca_folder=str(tmp_path)).verify

    assert verify("rack") == str(tmp_path / "rack")
    for name in ("rack/ca.pem", str(tmp_path / "rack" / "ca.pem"), "rack/../rack/ca.pem"):
        assert verify(name) == str(tmp_path / "rack" / "ca.pem")


def test_defaults_are_the_only_system_verified_without_login() -> None:
    assert parsed() == info.RedfishInfo("https://bmc")
    assert info.parse({"redfish_address": "bmc"}, auth_type="basic").auth_type == "basic"


def test_empty_values_count_as_missing() -> None:
    empty = {f"redfish_{name}": "" for name in ("username", "password", "system_id", "auth_type")}
    assert parsed(**empty, redfish_verify_ca=None) == parsed()


def test_a_password_needs_a_user() -> None:
    with pytest.raises(errors.MissingParameter, match="driver_info/redfish_username"):
        parsed(redfish_password="secret")


def test_password_is_in_no_repr_and_no_error() -> None:
    assert "secret" not in repr(parsed(redfish_username="root", redfish_password="secret"))
    with pytest.raises(errors.InvalidParameter) as caught:
        parsed(redfish_address="https://root:secret@bmc")
    assert "secret" not in str(caught.value)


def test_a_slash_at_the_end_of_a_system_id_counts_for_nothing() -> None:
    given = parsed(redfish_system_id="/redfish/v1/Systems/1/").system_id
    assert given == "/redfish/v1/Systems/1"


def test_a_system_id_with_odd_characters_is_quoted_once() -> None:
    odd = parsed(redfish_system_id="/redfish/v1/Systems/ä%20b").system_id
    assert odd == "/redfish/v1/Systems/%C3%A4%20b"


def test_the_manual_names_every_key() -> None:
    manual = pathlib.Path(__file__).parents[3] / "docs" / "redfish.rst"
    text = manual.read_text(encoding="utf-8")
    assert [name for name in info.FIELDS if f"``{name}``" not in text] == []


# Files of authorities: names of the API are looked for in one folder, and never opened blindly.

POWER = power.RedfishPower()


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """``[redfish]ca_folder``, with a secret beside it."""
    made = tmp_path / "ca"
    made.mkdir()
    (tmp_path / "secret.pem").write_text("secret")
    config.CONF.set_override("ca_folder", str(made), group="redfish")
    yield made
    config.CONF.clear_override("ca_folder", group="redfish")


def refusal(name: str) -> str:
    with pytest.raises(errors.InvalidParameter) as caught:
        POWER.get_power_state(bmc_tasks.task_at("https://127.0.0.1:1", redfish_verify_ca=name))
    return caught.value.message


def test_every_refused_path_has_the_same_text_whether_it_exists_or_not(
    folder: pathlib.Path,
) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(str(folder / "socket"))
    (folder / "out").symlink_to(folder.parent / "secret.pem")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "round").symlink_to(folder / "round")
    (folder / "empty.pem").write_text("no certificate")
    (folder / "none").mkdir()
    names = [
        *("pipe", "socket", "out", "zero", "round", "empty.pem", "none", "missing"),
        *(
            "/dev/zero",
            "/dev/stdin",
            "/proc/self/environ",
            "/etc/shadow",
            "/etc/passwd",
            "/nowhere",
        ),
        *("../secret.pem", "../../../etc/passwd", "a" * 5000, f"{folder}-not", "..", "/"),
        *("a\nb", "empty.pem/x", "é\u2028"),
    ]
    done: list[str] = []
    worker = threading.Thread(target=lambda: done.extend(map(refusal, names)), daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive(), f"it hangs at {names[len(done)]}"
    assert len(done) == len(names)
    assert set(done) == {f"driver_info/redfish_verify_ca: {info.CA_REFUSAL}"}


def test_a_file_that_becomes_a_pipe_after_the_look_does_not_hold_the_thread(
    folder: pathlib.Path,
) -> None:
    file = folder / "ca.pem"
    file.touch()
    place = info.find_ca_path("ca.pem", str(folder))
    seen = info.ca_state(place)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(errors.InvalidParameter):
        info.load_ca(bounded_http.tls_context(), seen)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(errors.InvalidParameter):
        info.load_ca(bounded_http.tls_context(), seen)


@pytest.mark.parametrize("name", ["rack/ca.pem", "rack", "{folder}/rack", "{folder}/rack/ca.pem"])
def test_certificates_of_a_file_and_of_a_folder_are_trusted(
    folder: pathlib.Path, certificate: tuple[pathlib.Path, pathlib.Path], name: str
) -> None:
    path, key = certificate
    (folder / "rack").mkdir()
    pem = f"Our authority, größer:\n{path.read_text()}\n{key.read_text()}"
    (folder / "rack" / "ca.pem").write_text(pem, encoding="utf-8")
    (folder / "rack" / "0a1b2c3d.0").symlink_to("ca.pem")
    (folder / "rack" / "README").write_text("Nothing.")
    os.mkfifo(folder / "rack" / "pipe")
    (folder / "rack" / "zero").symlink_to("/dev/zero")
    with liars.Liar(tls=(str(path), str(key))) as bmc:
        task = bmc_tasks.task_at(bmc.address, redfish_verify_ca=name.format(folder=folder))
        assert POWER.get_power_state(task) == base.POWER_OFF


def test_an_exchanged_file_is_read_anew_at_the_next_login(
    folder: pathlib.Path, certificate: tuple[pathlib.Path, pathlib.Path]
) -> None:
    path, key = certificate
    (folder / "ca.pem").write_text("nothing yet")
    with liars.Liar(tls=(str(path), str(key))) as bmc:
        task = bmc_tasks.task_at(bmc.address, redfish_verify_ca="ca.pem")
        with pytest.raises(errors.InvalidParameter):
            POWER.get_power_state(task)
        shutil.copyfile(path, folder / "ca.pem")
        assert POWER.get_power_state(task) == base.POWER_OFF


def test_a_node_that_names_no_file_needs_no_folder() -> None:
    found = info.parse({"redfish_address": "bmc", "redfish_verify_ca": "yes"}, ca_folder="/nowhere")
    assert found.verify is True
