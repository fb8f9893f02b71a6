"""``direct://``: names as addresses, certificates of both sides, strangers, and hung peers."""

from __future__ import annotations

import array
import contextlib
import errno
import math
import os
import pathlib
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures

import oslo_messaging
import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.rpc import client, contract, notifier, server, transport
from ironic_lite.rpc.sockets import client as socket_client
from ironic_lite.rpc.sockets import direct as direct_transport
from ironic_lite.rpc.sockets import frames
from ironic_lite.rpc.sockets import server as socket_server
from tests.support import certificates, direct_rpc, docs_pages, rpc_conductor
from tests.support.rpc_conductor import ONE, TWO, Serve

Connect = Callable[[str], client.RpcClient]
Spawn = Callable[[str, str], "rpc_conductor.Process"]

HEADER = frames.HEADER


@pytest.fixture
def changed(
    direct: str, direct_options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Set options of [direct] for the transports that are built after the call."""

    def change(**values: object) -> None:
        found = {name: str(value) for name, value in values.items()}
        for name, value in direct_rpc.environment(found).items():
            monkeypatch.setenv(name, value)

    return change


def reason(caught: pytest.ExceptionInfo[errors.NoConductor]) -> str:
    """Return why a conductor did not get a call."""
    assert type(caught.value) is errors.ConductorNotListening, "nothing was sent"
    return str(caught.value.facts["reason"])


# -- names and addresses -------------------------------------------------------------------------


def test_processes_of_a_machine_use_successive_ports(
    direct: str, direct_options: dict[str, str], serve: Serve, connect: Connect, ctxt: Context
) -> None:
    for name in (ONE, TWO):
        serve(direct, name, rpc_conductor.Endpoint(name))
    caller = connect(direct)
    assert [caller.call(ctxt, "who", host=name) for name in (TWO, ONE)] == [TWO, ONE]
    for number in range(2):
        with direct_rpc.plain(direct_options, number):
            pass


@pytest.mark.parametrize("number", ["0", "1", "02", "100", ""])
def test_name_with_a_number_that_no_process_has_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="host"):
        config.CONF.set_override("host", f"{ONE}:{number}")


@pytest.mark.parametrize("number", ["2", "10", "99"])
def test_name_of_a_further_process_is_allowed(number: str) -> None:
    config.CONF.set_override("host", f"{ONE}:{number}")
    config.CONF.clear_override("host")


def test_name_that_cannot_be_resolved_is_an_error_with_advice(
    direct: str, connect: Connect, ctxt: Context
) -> None:
    for name in ("no-such-host.invalid", "a..b", "x" * 70):
        with pytest.raises(errors.NoConductor) as caught:
            connect(direct).call(ctxt, "who", host=name)
        assert name in reason(caught)
    with pytest.raises(errors.NoConductor) as caught:
        connect(direct).call(ctxt, "who", host="no-such-host.invalid")
    assert "[DEFAULT]host" in reason(caught)


def test_call_needs_the_name_of_a_conductor(
    direct: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint = rpc_conductor.Endpoint()
    serve(direct, ONE, endpoint)
    target = oslo_messaging.Target(topic="any")
    bus = transport.build(direct).bus
    for way in ({}, {"fanout": True}):
        with pytest.raises(frames.NoServerNamed):
            oslo_messaging.get_rpc_client(bus, target).prepare(**way).cast({}, "note", word=1)
    with pytest.raises(errors.Error):
        connect(direct).call(ctxt, "who", host=None)
    assert endpoint.seen == []


def test_conductor_of_another_name_at_the_address_gets_no_call(
    changed: Callable[..., None], direct_options: dict[str, str], connect: Connect, ctxt: Context
) -> None:
    one = server.Server(transport.build("direct://"), ONE, rpc_conductor.Endpoint())
    one.start()
    changed(port=int(direct_options["port"]) - 1)
    with pytest.raises(errors.NoConductor) as caught:
        connect("direct://").call(ctxt, "who", host=TWO)
    assert f"is {ONE}, not {TWO}" in reason(caught)
    one.stop()
    assert one.wait(rpc_conductor.SECONDS)


def test_second_conductor_at_a_port_is_refused(direct: str, serve: Serve) -> None:
    serve(direct, ONE, rpc_conductor.Endpoint())
    second = server.Server(transport.build(direct), ONE, rpc_conductor.Endpoint())
    with pytest.raises(errors.Unavailable, match=r"host = machine:2.*bind_host"):
        second.start()


def test_address_of_another_machine_is_a_configuration_error(
    changed: Callable[..., None],
) -> None:
    changed(bind_host="192.0.2.1")
    one = server.Server(transport.build("direct://"), ONE, rpc_conductor.Endpoint())
    with pytest.raises(config.ConfigError, match="bind_host"):
        one.start()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="NOT TESTED: no IPv6 here")
def test_all_addresses_of_both_families_can_be_served(
    changed: Callable[..., None], serve: Serve, connect: Connect, ctxt: Context
) -> None:
    changed(bind_host="::")
    serve("direct://", "127.0.0.1", rpc_conductor.Endpoint())
    assert connect("direct://").call(ctxt, "who", host="127.0.0.1") == ONE


# -- configuration -------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["direct://host", "direct://:6386", "direct:///path"])
def test_url_with_an_address_is_refused(direct: str, url: str) -> None:
    with pytest.raises(config.ConfigError, match=r"\[direct\]port"):
        transport.build(url)


@pytest.mark.parametrize("name", ["cert_file", "key_file", "ca_file"])
@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_file_that_cannot_be_used_is_named_at_the_start(
    tmp_path: pathlib.Path, changed: Callable[..., None], name: str, content: str | None
) -> None:
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_text(content)
    changed(**{name: path})
    with pytest.raises(config.ConfigError) as caught:
        transport.build("direct://")
    assert str(path) in caught.value.message
    assert f"{name} " in caught.value.message


def test_certificates_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(config.ConfigError) as caught:
        transport.build("direct://")
    for name in ("cert_file", "key_file", "ca_file"):
        assert f"[direct]{name}" in caught.value.message


def test_key_with_a_password_is_refused_without_a_question(
    tmp_path: pathlib.Path, direct_options: dict[str, str], changed: Callable[..., None]
) -> None:
    key = tmp_path / "secret.key"
    command = ["openssl", "pkey", "-aes256", "-passout", "pass:sesame"]
    subprocess.run([*command, "-in", direct_options["key_file"], "-out", str(key)], check=True)
    changed(key_file=key)
    with pytest.raises(config.ConfigError, match="no password"):
        transport.build("direct://")


@pytest.fixture
def notes(direct: str) -> Iterator[Callable[..., notifier.Notifier]]:
    """Build the notifier of a configuration with direct://."""
    transport.configured()
    transport.register_notifications(config.CONF)
    config.CONF.set_override("transport_url", direct)
    config.CONF.set_override("notification_level", "info")

    def build(driver: str, url: str | None = None) -> notifier.Notifier:
        config.CONF.set_override("driver", [driver], group=notifier.GROUP)
        config.CONF.set_override("transport_url", url, group=notifier.GROUP)
        return notifier.build(config.CONF, "ironic-api", lambda _: ())

    yield build
    for name in ("transport_url", "notification_level"):
        config.CONF.clear_override(name)
    for name in ("driver", "transport_url"):
        config.CONF.clear_override(name, group=notifier.GROUP)


def test_notifications_need_a_broker_of_their_own(
    notes: Callable[..., notifier.Notifier],
) -> None:
    for url in (None, "direct://"):
        with pytest.raises(config.ConfigError, match="direct:// carries no notifications"):
            notes("messagingv2", url)
    assert notes("log").on
    assert notes("messagingv2", "rabbit://guest:guest@127.0.0.1:1/").on


# -- certificates --------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: pathlib.Path) -> certificates.Authority:
    """An authority that the conductors of `direct` do not trust."""
    return certificates.Authority(tmp_path, "stranger")


def test_conductor_of_another_authority_gets_no_call(
    *,
    direct: str,
    serve: Serve,
    changed: Callable[..., None],
    connect: Connect,
    authority: certificates.Authority,
    ctxt: Context,
) -> None:
    endpoint = rpc_conductor.Endpoint()
    serve(direct, ONE, endpoint)
    changed(ca_file=authority.file)
    with pytest.raises(errors.NoConductor) as caught:
        connect(direct).call(ctxt, "note", host=ONE, word=1)
    assert "certificate of the conductor at localhost" in reason(caught)
    assert endpoint.seen == []


def test_client_of_another_authority_is_refused(
    *,
    direct: str,
    serve: Serve,
    changed: Callable[..., None],
    connect: Connect,
    authority: certificates.Authority,
    ctxt: Context,
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint = rpc_conductor.Endpoint()
    serve(direct, ONE, endpoint)
    cert, key = authority.issue("client", "localhost")
    changed(cert_file=cert, key_file=key)
    for attempt in (connect(direct).call, connect(direct).cast):
        with pytest.raises(errors.NoConductor) as caught:
            attempt(ctxt, "note", host=ONE, word=1)
        assert "no TLS with the conductor at localhost" in reason(caught)
        assert "UNKNOWN_CA" in reason(caught)
    assert endpoint.seen == []
    refused = [one for one in caplog.messages if one.startswith("Refused an RPC client at")]
    assert len(refused) == 1, "once, however many there are"


def replace_files(new: Iterable[pathlib.Path], used: Iterable[pathlib.Path]) -> None:
    """Put other files in the place of those that a conductor uses."""
    for one, other in zip(new, used, strict=True):
        shutil.copy(one, other)


@pytest.mark.parametrize(
    ("host", "days", "text"),
    [("other.example.org", 9, "valid for other.example.org, .*localhost"), (ONE, -1, "valid from")],
)
def test_conductor_whose_certificate_clients_refuse_does_not_start(
    *, tmp_path: pathlib.Path, changed: Callable[..., None], host: str, days: int, text: str
) -> None:
    authority = certificates.Authority(tmp_path)
    cert, key = authority.issue(ONE, host, days=days)
    changed(ca_file=authority.file, cert_file=cert, key_file=key)
    one = server.Server(transport.build("direct://"), ONE, rpc_conductor.Endpoint())
    with pytest.raises(config.ConfigError, match=rf"\[direct\]cert_file .*{text}"):
        one.start()


@pytest.mark.parametrize("side", ["client", "server"])
def test_expired_certificate_is_refused(
    *,
    tmp_path: pathlib.Path,
    changed: Callable[..., None],
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    side: str,
) -> None:
    authority = certificates.Authority(tmp_path)
    good, bad = (authority.issue(name, "localhost", days=d) for name, d in (("g", 9), ("b", -1)))
    changed(ca_file=authority.file)
    own_cert, own_key = authority.issue("own", "localhost", days=9)
    changed(cert_file=own_cert, key_file=own_key)
    serve("direct://", ONE, rpc_conductor.Endpoint())
    if side == "server":
        replace_files(bad, (own_cert, own_key))
    cert, key = bad if side == "client" else good
    changed(cert_file=cert, key_file=key)
    with pytest.raises(errors.NoConductor) as caught:
        connect("direct://").call(ctxt, "who", host=ONE)
    assert "expired" in reason(caught).lower()


def test_certificate_of_another_host_is_refused(
    tmp_path: pathlib.Path,
    changed: Callable[..., None],
    serve: Serve,
    connect: Connect,
    ctxt: Context,
) -> None:
    authority = certificates.Authority(tmp_path)
    cert, key = authority.issue("own", "localhost")
    changed(ca_file=authority.file, cert_file=cert, key_file=key)
    serve("direct://", ONE, rpc_conductor.Endpoint())
    replace_files(authority.issue("localhost", "other.example.org", "127.0.0.1"), (cert, key))
    with pytest.raises(errors.NoConductor) as caught:
        connect("direct://").call(ctxt, "who", host=ONE)
    assert "localhost" in reason(caught)
    assert "mismatch" in reason(caught)


def _stranger(options: dict[str, str], **parts: object) -> ssl.SSLContext:
    """Return the TLS context of a client that is not ours."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(options["ca_file"])
    for name, value in parts.items():
        setattr(context, name, value)
    return context


def test_client_without_certificate_or_of_old_tls_receives_and_calls_nothing(
    direct: str, direct_options: dict[str, str], serve: Serve
) -> None:
    endpoint = rpc_conductor.Endpoint()
    serve(direct, ONE, endpoint)
    request = {"id": 1, "ctxt": {}, "msg": {"method": "note", "args": {"word": 1}}}
    old = _stranger(direct_options, maximum_version=ssl.TLSVersion.TLSv1_2)
    old.load_cert_chain(direct_options["cert_file"], direct_options["key_file"])
    for context in (_stranger(direct_options), old):
        received = b""
        with (
            pytest.raises(OSError, match=r"."),
            direct_rpc.plain(direct_options) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as line,
        ):
            line.sendall(frames.encode(request, 999))
            received = line.recv(999)
        assert received == b""
    assert endpoint.seen == []


def test_renewed_files_are_used_without_a_restart(
    *,
    tmp_path: pathlib.Path,
    changed: Callable[..., None],
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    caplog: pytest.LogCaptureFixture,
) -> None:
    authority = certificates.Authority(tmp_path)
    cert, key = authority.issue("used", "localhost")
    changed(ca_file=authority.file, cert_file=cert, key_file=key)
    serve("direct://", ONE, rpc_conductor.Endpoint())

    def serial() -> str:
        options = {"cert_file": str(cert), "key_file": str(key), "ca_file": str(authority.file)}
        port = config.CONF.direct.port
        with direct_rpc.connected({**options, "port": str(port)}) as line:
            return str((line.getpeercert() or {})["serialNumber"])

    first = serial()
    new_cert, new_key = authority.issue("renewed", "localhost")
    kept = connect("direct://")
    assert kept.call(ctxt, "who", host=ONE) == ONE
    shutil.copy(new_cert, cert)
    # The certificate without its key: what was valid stays in use, until both have been replaced.
    with pytest.raises(config.ConfigError):
        transport.build("direct://")
    with direct_rpc.plain({"port": str(config.CONF.direct.port)}):
        pass
    rpc_conductor.until(lambda: "stay in use" in caplog.text)
    shutil.copy(new_key, key)
    assert serial() != first
    assert kept.call(ctxt, "who", host=ONE) == ONE


def test_certificates_of_the_documentation_work_and_sign_no_others(
    *,
    tmp_path: pathlib.Path,
    changed: Callable[..., None],
    serve: Serve,
    connect: Connect,
    ctxt: Context,
) -> None:
    page = (docs_pages.DOCS / "scaling.rst").read_text(encoding="utf-8")
    _, _, block = page.partition(".. code-block:: sh\n\n   openssl req")
    commands, _, _ = f"openssl req{block}".partition("\n\nCopy")
    made = commands.replace("one.example.org", "localhost")
    subprocess.run(["sh", "-ec", made], cwd=tmp_path, check=True, capture_output=True)

    def use(host: str) -> None:
        changed(
            cert_file=tmp_path / f"{host}.pem",
            key_file=tmp_path / f"{host}.key",
            ca_file=tmp_path / "rpc-ca.pem",
        )

    use("localhost")
    serve("direct://", ONE, rpc_conductor.Endpoint())
    use("two.example.org")
    assert connect("direct://").call(ctxt, "who", host=ONE) == ONE
    shown = ["openssl", "x509", "-noout", "-ext", "basicConstraints", "-in", "localhost.pem"]
    said = subprocess.run(shown, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "CA:FALSE" in said.stdout
    assert stat.S_IMODE((tmp_path / "localhost.key").stat().st_mode) == 0o600


# -- strangers and slow clients ------------------------------------------------------------------


def test_strangers_do_not_keep_clients_out(
    *,
    direct: str,
    direct_options: dict[str, str],
    serve: Serve,
    changed: Callable[..., None],
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_server, "STALLED_SECONDS", 3600.0)
    changed(connect_timeout=int(rpc_conductor.SECONDS))
    serve(direct, ONE, rpc_conductor.Endpoint())
    with contextlib.ExitStack() as opened:
        strangers = [
            opened.enter_context(direct_rpc.plain(direct_options))
            for _ in range(socket_server.STRANGERS + 9)
        ]
        assert connect(direct).call(ctxt, "who", host=ONE) == ONE
        assert strangers[0].recv(1) == b"", "the oldest was hung up"


def test_clients_that_connect_at_once_wait_for_their_turn(
    *,
    direct: str,
    serve: Serve,
    changed: Callable[..., None],
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("STALLED_SECONDS", "SILENT_SECONDS"):
        monkeypatch.setattr(socket_server, name, 3600.0)
    monkeypatch.setattr(socket_server, "STRANGERS", 8)
    most = []

    class Counted(socket_server.Listener):
        def _await_room(self) -> None:
            most.append(len(self._strangers))
            super()._await_room()

    monkeypatch.setattr(socket_server, "Listener", Counted)
    changed(connect_timeout=int(rpc_conductor.SECONDS))
    serve(direct, ONE, rpc_conductor.Endpoint())
    caller = connect(direct)
    with futures.ThreadPoolExecutor(300) as pool:
        calls = [pool.submit(caller.call, ctxt, "who", host=ONE) for _ in range(300)]
        assert {call.result() for call in calls} == {ONE}
    assert 1 < max(most) <= 8


def test_strangers_delay_a_client_until_they_count_as_silent(
    *,
    direct: str,
    direct_options: dict[str, str],
    serve: Serve,
    changed: Callable[..., None],
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_server, "STALLED_SECONDS", 3600.0)
    monkeypatch.setattr(socket_server, "STRANGERS", 8)
    changed(connect_timeout=int(rpc_conductor.SECONDS))
    serve(direct, ONE, rpc_conductor.Endpoint())
    caller = connect(direct)
    with contextlib.ExitStack() as opened:
        begun = time.monotonic()
        for _ in range(3 * 8):
            opened.enter_context(direct_rpc.plain(direct_options))
        assert caller.call(ctxt, "who", host=ONE) == ONE
        assert time.monotonic() - begun >= 3 * socket_server.SILENT_SECONDS


def test_strangers_that_send_byte_by_byte_do_not_keep_clients_out(
    *,
    direct: str,
    direct_options: dict[str, str],
    serve: Serve,
    changed: Callable[..., None],
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_server, "STALLED_SECONDS", 3600.0)
    monkeypatch.setattr(socket_server, "STRANGERS", 4)
    changed(connect_timeout=int(rpc_conductor.SECONDS))
    serve(direct, ONE, rpc_conductor.Endpoint())
    over = threading.Event()

    def drip() -> None:
        with direct_rpc.plain(direct_options) as line, contextlib.suppress(OSError):
            line.sendall(b"\x16\x03\x01\x10\x00")  # the head of a record of 4096 bytes
            while not over.wait(0.1):
                line.sendall(b"\x01")

    with futures.ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(drip)
        try:
            assert connect(direct).call(ctxt, "who", host=ONE) == ONE
        finally:
            over.set()


def test_handshake_that_does_not_end_is_hung_up(
    direct: str, direct_options: dict[str, str], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "STALLED_SECONDS", 0.2)
    serve(direct, ONE, rpc_conductor.Endpoint())
    # The first bytes of a record of TLS.
    for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
        with direct_rpc.plain(direct_options) as line:
            line.sendall(sent)
            assert line.recv(1) == b""


def test_message_that_does_not_end_is_hung_up_and_others_stay(
    *,
    direct: str,
    direct_options: dict[str, str],
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_server, "STALLED_SECONDS", 0.2)
    serve(direct, ONE, rpc_conductor.Endpoint())
    caller = connect(direct)
    pid = caller.call(ctxt, "pid", host=ONE)
    with (
        direct_rpc.connected(direct_options) as idle,
        direct_rpc.connected(direct_options) as half,
        direct_rpc.connected(direct_options) as torn,
    ):
        half.sendall(HEADER.pack(1000) + b"{")
        assert half.recv(1) == b""
        # The head of a record of TLS, and the first of its 256 bytes.
        os.write(torn.fileno(), b"\x17\x03\x03\x01\x00x")
        assert torn.recv(1) == b""
        idle.settimeout(0)
        with pytest.raises(ssl.SSLWantReadError):
            idle.recv(1)
    assert caller.call(ctxt, "pid", host=ONE) == pid


def test_frame_beyond_the_limit_is_refused_by_its_header(
    direct: str, direct_options: dict[str, str], serve: Serve
) -> None:
    serve(direct, ONE, rpc_conductor.Endpoint())
    with direct_rpc.connected(direct_options) as line:
        line.sendall(HEADER.pack(2**32 - 1))
        (body,) = frames.Reader(2**20).feed(line.recv(4096))
    assert "frame_limit_mib" in body["refused"]["reason"]


# -- lost and hung peers -------------------------------------------------------------------------


def test_absent_conductor_is_an_error_at_once(direct: str, connect: Connect, ctxt: Context) -> None:
    begun = time.monotonic()
    with pytest.raises(errors.NoConductor) as caught:
        connect(direct).call(ctxt, "who", host=ONE, timeout=3600)
    assert "Connection refused" in reason(caught)
    assert time.monotonic() - begun < rpc_conductor.SECONDS / 2


def test_hung_conductor_is_not_called_after_the_limit_to_connect(
    direct: str, spawn: Spawn, changed: Callable[..., None], connect: Connect, ctxt: Context
) -> None:
    process = spawn(direct, ONE)
    rpc_conductor.stop(process)
    changed(connect_timeout=1)
    with pytest.raises(errors.NoConductor) as caught:
        connect(direct).call(ctxt, "note", host=ONE, timeout=3600, word="late")
    assert "does not answer in time" in reason(caught)
    process.send_signal(signal.SIGCONT)
    changed(connect_timeout=60)
    assert connect(direct).call(ctxt, "noted", host=ONE) == []


def test_call_without_a_limit_outlasts_the_limit_to_connect(
    direct: str, serve: Serve, changed: Callable[..., None], ctxt: Context
) -> None:
    serve(direct, ONE, rpc_conductor.Endpoint())
    changed(connect_timeout=1)
    transport.build(direct)  # registers the options
    url = oslo_messaging.TransportURL.parse(config.CONF, direct)
    caller = direct_transport.DirectDriver(config.CONF, url)
    target = oslo_messaging.Target(topic=contract.TOPIC, server=ONE)
    message = {"method": "held", "args": {"seconds": 2}, "version": contract.VERSION}
    answer = caller.send(target, ctxt.as_dict(), message, wait_for_reply=True, timeout=None)
    assert answer == "released"
    caller.cleanup()


def test_connections_of_both_sides_notice_a_silent_machine() -> None:
    limits = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
    with contextlib.ExitStack() as opened:
        serving = opened.enter_context(direct_transport.listen_tcp("127.0.0.1", 0, 9))
        port = serving.getsockname()[1]
        ours = opened.enter_context(direct_transport.connect_tcp("127.0.0.1", port, 5, 9))
        theirs = opened.enter_context(serving.accept()[0])
        for sock in (ours, theirs):
            options = [sock.getsockopt(socket.IPPROTO_TCP, name) for name in limits]
            assert options == [9000, 3, 3]
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


DROP = array.array("B", struct.pack("@HBBI", 6, 0, 0, 0))
"""A program for a socket's filter: keep no byte of any packet."""
SO_ATTACH_FILTER = 26


def fall_silent(sock: socket.socket) -> None:
    """Let the kernel drop all that arrives for a socket, as if its machine were gone."""
    program = struct.pack("@HP", 1, DROP.buffer_info()[0])
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


@pytest.mark.parametrize("sent", [b"", b"x"], ids=["idle", "with a message under way"])
def test_connection_to_a_silent_machine_ends(sent: bytes) -> None:
    with contextlib.ExitStack() as opened:
        serving = opened.enter_context(direct_transport.listen_tcp("127.0.0.1", 0, 60))
        ours = opened.enter_context(
            direct_transport.connect_tcp("127.0.0.1", serving.getsockname()[1], 60, 2)
        )
        theirs = opened.enter_context(serving.accept()[0])
        fall_silent(theirs)
        ours.sendall(sent)
        ours.settimeout(rpc_conductor.SECONDS)
        with pytest.raises(OSError, match="timed out") as caught:
            ours.recv(1)
        assert caught.value.errno == errno.ETIMEDOUT, "the kernel's limit, not the test's"


def heard(sock: socket.socket, address: str) -> socket_client.Connection:
    """Return a connection to a server that is not asked whether it reads."""
    found = socket_client.Connection(sock, address, 99)
    found.heard_at = math.inf
    return found


def test_connections_that_are_no_longer_used_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    def connect(address: str, deadline: float | None) -> socket_client.Connection:
        ours, theirs = socket.socketpair()
        made.append(theirs)
        return heard(ours, address)

    pool = socket_client.Pool(connect)

    def use(depth: int) -> None:
        pool.use("one", b"x", lambda _: use(depth - 1) if depth else None)

    use(2)
    assert len(made) == 3
    pool.post("one", b"y")
    monkeypatch.setattr(socket_client, "IDLE_SECONDS", -1.0)
    pool.post("one", b"z")
    for sock in made:
        sock.settimeout(rpc_conductor.SECONDS)
    received = [sock.recv(9) for sock in made]
    assert b"".join(sorted(received)) == b"xxxyz"
    assert [sock.recv(9) for sock in made] == [b""] * 3
    monkeypatch.setattr(socket_client, "IDLE_SECONDS", 60.0)
    use(0)
    made[3].setblocking(False)
    assert made[3].recv(9) == b"x"
    with pytest.raises(BlockingIOError):
        made[3].recv(9)
    pool.close()
    for sock in made:
        sock.close()


def test_connections_to_conductors_that_are_gone_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with contextlib.ExitStack() as opened:
        made: list[socket.socket] = []

        def connect(address: str, deadline: float | None) -> socket_client.Connection:
            ours, theirs = socket.socketpair()
            made.append(opened.enter_context(theirs))
            theirs.settimeout(rpc_conductor.SECONDS)
            return heard(ours, address)

        pool = opened.enter_context(contextlib.closing(socket_client.Pool(connect)))
        pool.post("gone", b"x")
        pool.post("also gone", b"y")
        monkeypatch.setattr(socket_client, "IDLE_SECONDS", -1.0)
        pool.post("new", b"z")
        assert [sock.recv(9) for sock in made] == [b"x", b"y", b"z"]
        assert [sock.recv(9) for sock in made[:2]] == [b"", b""]


def test_restarted_conductor_is_found_by_a_kept_client_and_no_call_is_sent_twice(
    direct: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    first, caller = spawn(direct, ONE), connect(direct)
    pid = caller.call(ctxt, "pid", host=ONE)
    first.kill()
    first.wait()
    spawn(direct, ONE)
    assert caller.call(ctxt, "pid", host=ONE) != pid
    caller.call(ctxt, "note", host=ONE, word="once")
    assert caller.call(ctxt, "noted", host=ONE) == ["once"]


def test_large_messages_of_many_threads_arrive_whole(
    direct: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    serve(direct, ONE, rpc_conductor.Endpoint())
    caller = connect(direct)
    words = [str(number) * (3 * 2**20 + number) for number in range(6)]
    with futures.ThreadPoolExecutor(6) as pool:
        answers = pool.map(lambda word: caller.call(ctxt, "echo", host=ONE, word=word), words)
        assert list(answers) == words
