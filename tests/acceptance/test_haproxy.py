"""The shipped configuration of haproxy, before two real APIs."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest
import requests

from tests.support.ports import free_port
from tests.support.service import CONDUCTOR_UP, HOST, ROOT, Service, family, service, until

CONFIGURATION = ROOT / "etc" / "ironic-lite" / "examples" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin")
HEAD_SECONDS = 2
"""Instead of the ten seconds of the shipped file."""
IDLE_SECONDS = 5
"""Instead of the 75 seconds of the shipped file."""
LARGE = 5
"""Nodes whose list is larger than what sockets and haproxy hold for a client that does not read."""
OTHERS = 4
"""Connections of the APIs at most besides: checks, and those that clients keep for a while."""

pytestmark = [
    pytest.mark.skipif(
        HAPROXY is None, reason="NOT TESTED: haproxy is not installed; apt-get install haproxy"
    ),
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
    pytest.mark.xdist_group("haproxy"),
]


def _configured(port: int, apis: list[int], certificate: pathlib.Path) -> str:
    """Return the shipped file with addresses of this test, and quicker."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    for old, new in (
        ("bind :6385 ssl crt /etc/haproxy/metal.pem", f"bind {HOST}:{port} ssl crt {certificate}"),
        ("one.example.org:6385", f"{HOST}:{apis[0]}"),
        ("two.example.org:6385", f"{HOST}:{apis[1]}"),
        ("timeout client 75s", f"timeout client {IDLE_SECONDS}s"),
        ("timeout http-request 10s", f"timeout http-request {HEAD_SECONDS}s"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def _certificate(folder: pathlib.Path) -> pathlib.Path:
    key, certificate, both = (folder / name for name in ("key.pem", "cert.pem", "both.pem"))
    subject = ["-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:{HOST}", "-days", "2"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *curve, "-keyout", key, "-out", certificate, *subject]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=60)
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    return both


@contextlib.contextmanager
def _haproxy(folder: pathlib.Path, apis: list[int]) -> Iterator[int]:
    """Run haproxy with the shipped configuration; give its port."""
    port, settings = free_port(), folder / "haproxy.cfg"
    settings.write_text(_configured(port, apis, _certificate(folder)), encoding="utf-8")
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(
            [str(HAPROXY), "-db", "-f", str(settings)], stdout=log, stderr=log
        )
    try:
        yield port
    finally:
        process.kill()
        process.wait(60)
        print((folder / "haproxy.log").read_text(errors="replace")[-3000:])


@pytest.fixture(scope="module")
def balanced() -> Iterator[tuple[Service, int, list[int]]]:
    """Two APIs and a conductor behind haproxy: the service, its port, and the APIs' pids."""
    more = "[api]\nenable_proxy_headers_parsing = true\n"
    with service(more) as found:
        apis = [found.port, free_port()]
        found.start("ironic-lite-dbsync", "upgrade").process.wait(120)
        other = found.folder / "other.conf"
        other.write_text(f"[api]\nport = {apis[1]}\n", encoding="utf-8")
        pids = [
            found.start("ironic-lite-api").pid,
            found.start("ironic-lite-api", "--config-file", str(other)).pid,
        ]
        conductor = found.start("ironic-lite-conductor")
        until(lambda: conductor.pids(CONDUCTOR_UP), "the conductor")
        with _haproxy(found.folder, apis) as port:
            until(lambda: _get(port).ok, "haproxy")
            yield found, port, pids


def _get(port: int, path: str = "/v1/nodes", **headers: str) -> requests.Response:
    return requests.get(f"https://{HOST}:{port}{path}", headers=headers, verify=False, timeout=60)


def _tls(port: int) -> ssl.SSLSocket:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return trusting.wrap_socket(socket.create_connection((HOST, port), 60))


def test_links_name_the_address_that_clients_use(balanced: tuple[Service, int, list[int]]) -> None:
    _, port, _ = balanced
    answer = _get(port, "/v1", **{"X-Forwarded-Host": "evil.example"})
    assert answer.json()["links"][0]["href"].startswith(f"https://{HOST}:{port}/")


def test_a_slow_head_is_ended_while_others_are_served(
    balanced: tuple[Service, int, list[int]],
) -> None:
    _, port, _ = balanced
    with contextlib.ExitStack() as opened:
        slow = [opened.enter_context(_tls(port)) for _ in range(40)]
        for one in slow:
            one.sendall(b"GET /v1/nodes HTTP/1.1\r\nHost: ")
        begun = time.monotonic()
        assert _get(port).ok
        assert [one.recv(1000)[:12] for one in slow] == [b"HTTP/1.1 408"] * len(slow)
        assert time.monotonic() - begun >= HEAD_SECONDS - 1


def test_a_client_that_does_not_read_is_ended_and_the_api_is_free_of_it(
    balanced: tuple[Service, int, list[int]],
) -> None:
    found, port, pids = balanced
    for number in range(LARGE):
        found.create(f"large-{number}", extra={"text": "x" * 900_000})
    with contextlib.ExitStack() as opened:
        unread = []
        for _ in range(3 * OTHERS):
            unread.append(opened.enter_context(_tls(port)))
            unread[-1].sendall(_ASKED)  # at once, as the time of a head is limited
        until(lambda: _connections(pids) >= len(unread), "their requests at the APIs")
        assert _get(port).ok
        until(lambda: not _clients(port), "the end of their connections")
        until(lambda: _connections(pids) <= OTHERS, "the end of those behind them")
        for one in unread:
            with contextlib.suppress(OSError):  # reset, or ended within a record of TLS
                assert _read(one) < LARGE * 900_000
    for number in range(LARGE):
        assert found.ask("DELETE", f"/v1/nodes/large-{number}").status_code == 204


_ASKED = b"GET /v1/nodes/detail HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def _connections(pids: list[int]) -> int:
    """Return the number of connections that the APIs have."""
    workers = [process for pid in pids for process in family(pid)]
    found = [one for process in workers for one in process.net_connections("tcp")]
    return sum(one.status == psutil.CONN_ESTABLISHED for one in found)


def _clients(port: int) -> int:
    """Return the number of connections that clients have with haproxy."""
    (balancer,) = [one for one in psutil.Process().children() if one.name() == "haproxy"]
    found = [one for one in balancer.net_connections("tcp") if one.laddr.port == port]
    return sum(one.status == psutil.CONN_ESTABLISHED for one in found)


def _read(one: socket.socket) -> int:
    """Return the number of bytes until the end."""
    return sum(len(part) for part in iter(lambda: one.recv(65536), b""))


def test_a_client_that_closes_its_side_is_answered(
    balanced: tuple[Service, int, list[int]],
) -> None:
    _, port, _ = balanced
    with _tls(port) as half:
        half.sendall(_ASKED)
        socket.socket.shutdown(half, socket.SHUT_WR)  # TLS stays, for the answer
        assert half.recv(12) == b"HTTP/1.1 200"


def test_one_source_takes_no_connections_from_others(
    balanced: tuple[Service, int, list[int]],
) -> None:
    _, port, _ = balanced
    with contextlib.ExitStack() as opened:
        for _ in range(150):
            one = opened.enter_context(socket.socket())
            one.bind(("127.0.0.9", 0))
            one.connect((HOST, port))
        assert _get(port).ok
        late = opened.enter_context(socket.socket())
        late.bind(("127.0.0.9", 0))
        late.settimeout(60)
        with contextlib.suppress(ConnectionError):
            late.connect((HOST, port))
            assert late.recv(1) == b""


def test_no_request_is_lost_when_an_api_is_restarted(
    balanced: tuple[Service, int, list[int]],
) -> None:
    found, port, pids = balanced
    first = next(one for one in found.running() if one.pid == pids[0])
    answers = []
    first.process.send_signal(signal.SIGTERM)
    while first.process.poll() is None:
        answers.append(_get(port).status_code)
    answers += [_get(port).status_code for _ in range(20)]
    assert set(answers) == {200}
