"""The shipped configuration of haproxy, before two real APIs."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
import time
from collections.abc import Iterator

import psutil
import pytest
import requests

from tests.support import balancer
from tests.support.ports import free_port
from tests.support.service import CONDUCTOR_UP, HOST, Service, alive, family, service, until

HEAD_SECONDS = 2
"""Instead of the ten seconds of the shipped file."""
IDLE_SECONDS = 5
"""Instead of the 75 seconds of the shipped file."""
LARGE = 5
"""Nodes whose list is larger than what sockets and haproxy hold for a client that does not read."""
QUICKER = {
    "timeout client 75s": f"timeout client {IDLE_SECONDS}s",
    "timeout http-request 10s": f"timeout http-request {HEAD_SECONDS}s",
}
OTHERS = 4
"""Connections of the APIs at most besides: checks, and those that clients keep for a while."""

pytestmark = [
    balancer.NEEDED,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
    pytest.mark.xdist_group("haproxy"),
]


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
        addresses = [f"{HOST}:{api}" for api in apis]
        with balancer.run(found.folder, addresses, changes=QUICKER) as port:
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


@contextlib.contextmanager
def paused(processes: list[psutil.Process]) -> Iterator[None]:
    """Stop processes for the length of a block."""
    for one in processes:
        one.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for one in processes:
            one.send_signal(signal.SIGCONT)


def fault(answer: requests.Response) -> str:
    """Return the text of an error body, as clients parse it."""
    assert answer.headers["Content-Type"].startswith("application/json")
    return str(json.loads(answer.json()["error_message"])["faultstring"])


def test_apis_answer_for_themselves_when_none_is_ready(
    balanced: tuple[Service, int, list[int]],
) -> None:
    found, port, _ = balanced
    (conductor,) = [one for one in found.running() if one.pids(CONDUCTOR_UP)]
    with paused(family(conductor.pid)):
        log = found.folder / "haproxy.log"
        until(lambda: "Running on backup" in log.read_text(), "no API that is ready")
        body = {"driver": "fake-hardware"}
        refused = requests.post(
            f"https://{HOST}:{port}/v1/nodes", json=body, verify=False, timeout=60
        )
        assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (503, True)
        assert "tester" in fault(refused)
        assert "X-OpenStack-Request-Id" in refused.headers
        assert _get(port).ok
    until(lambda: _get(port, "/readyz").ok, "the conductor")


def test_balancer_without_apis_answers_as_an_api_does(
    balanced: tuple[Service, int, list[int]],
) -> None:
    _, port, pids = balanced
    apis = [process for pid in pids for process in family(pid)]
    for one in apis:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    until(lambda: not any(map(alive, apis)), "the end of the APIs")
    answer = _get(port)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "retry later" in fault(answer)
