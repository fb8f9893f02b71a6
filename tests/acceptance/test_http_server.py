"""The HTTP server of the API as a process: broken, slow and silent clients, signals, its end."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.support import service
from tests.support.service import API_UP, HOST, PATIENCE, Program, Service

BODY_SECONDS, HEAD_SECONDS, OF_ONE, UNSENT_MIB = 2, 2, 100, 34
MORE = (
    f"[api]\nbody_timeout = {BODY_SECONDS}\nhead_timeout = {HEAD_SECONDS}\n"
    f"max_requests_per_address = {OF_ONE}\nmax_answer_memory_mib = {UNSENT_MIB}\n"
)
STRANGER = "127.0.0.2"
REASON = b'{"reason": "told by a body that came whole"}'
HEARTBEAT = b"POST /v1/heartbeat/x HTTP/1.1\r\nHost: localhost\r\n"
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class Rig:
    """A service with one node, and the process that serves its API."""

    def __init__(self, found: Service, program: Program) -> None:
        self.service = found
        self.program = program
        self.node = found.create("node-1")

    @property
    def api(self) -> psutil.Process:
        """The process that serves now."""
        return psutil.Process(self.program.pids(API_UP)[-1])

    def connect(self, source: str = HOST) -> socket.socket:
        line = socket.create_connection((HOST, self.service.port), PATIENCE, (source, 0))
        line.settimeout(PATIENCE)
        return line

    def head(self, *headers: str, method: str = "PUT", path: str = "/maintenance") -> bytes:
        lines = (f"{method} /v1/nodes/{self.node}{path} HTTP/1.1", "Host: localhost", *headers)
        return "\r\n".join((*lines, "Content-Type: application/json", "", "")).encode()

    def say(self, data: bytes, *, end: bool = False) -> list[int]:
        """Send something over a connection of its own; return the statuses until it is closed."""
        with self.connect() as line:
            line.sendall(data)
            if end:
                line.shutdown(socket.SHUT_WR)
            return statuses(line)

    def maintenance(self) -> bool:
        return bool(self.service.get(f"/v1/nodes/{self.node}")["maintenance"])


def statuses(line: socket.socket) -> list[int]:
    """Return the statuses of all answers until the server closes."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while part := line.recv(1 << 16):
            got += part
    return [int(one) for one in STATUS.findall(got)]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with service.service(MORE) as found:
        program = found.start()
        found.up()
        yield Rig(found, program)


@pytest.mark.parametrize(
    ("path", "accepted", "coding"),
    [
        ("/v1/openapi.json", "gzip, deflate", "gzip"),
        ("/v1/openapi.json", "gzip;q=0", None),
        ("/v1/openapi.json", "identity", None),
        ("/v1/nodes", "gzip", None),
    ],
)
def test_long_json_is_compressed_for_clients_that_take_gzip(
    rig: Rig, path: str, accepted: str, coding: str | None
) -> None:
    line = http.client.HTTPConnection(HOST, rig.service.port, timeout=PATIENCE)
    with contextlib.closing(line):
        line.request("GET", path, headers={"Accept-Encoding": accepted})
        answer = line.getresponse()
        body = answer.read()
    assert (answer.status, answer.getheader("Content-Encoding")) == (200, coding)
    if coding:
        assert answer.getheader("Vary") == "Accept-Encoding"
        body, packed = gzip.decompress(body), body
        assert len(packed) < len(body) / 4
    assert json.loads(body) == rig.service.get(path)


def test_answers_that_nobody_reads_are_bounded(rig: Rig) -> None:
    """Large nodes fill a page early; a client that stops reading delays large answers alone."""
    for number in range(24):
        rig.service.create(f"large-{number}", extra={"text": "x" * 1_000_000})
    found, path = [], "/v1/nodes/detail"
    while path:
        page = rig.service.get(path)
        assert len(json.dumps(page)) < 9 * 1024 * 1024
        found += [node["name"] for node in page["nodes"]]
        path = page.get("next", "").removeprefix(rig.service.url)
    assert len(found) == len(set(found)) == 25
    before = rig.api.memory_info().rss
    ask = b"GET /v1/nodes/detail HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as opened:
        found_statuses = []
        for _ in range(6):
            line = opened.enter_context(rig.connect())
            line.sendall(ask)
            found_statuses.append(statuses_of_one(line))
        assert found_statuses == [200, 200, 503, 503, 503, 503]
        assert rig.service.get("/v1/nodes?limit=1")
        stranger = opened.enter_context(rig.connect(STRANGER))
        stranger.sendall(ask)
        assert statuses_of_one(stranger) == 200
        assert rig.api.memory_info().rss - before < 150 * 1024 * 1024
    assert len(rig.service.get("/v1/nodes/detail")["nodes"]) > 5
    for number in range(24):
        rig.service.ask("DELETE", f"/v1/nodes/large-{number}").raise_for_status()


def statuses_of_one(line: socket.socket) -> int:
    """Return the status of the next answer."""
    line.settimeout(PATIENCE)
    found = STATUS.match(line.recv(100, socket.MSG_WAITALL))
    assert found is not None
    return int(found[1])


CHUNKED = "Transfer-Encoding: chunked"
SIZE = f"{len(REASON):x}".encode()


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (CHUNKED, SIZE + b"\r\n" + REASON[:20]),
        (CHUNKED, SIZE + b"\r\n" + REASON + b"\r\n"),
        (CHUNKED, SIZE + b"\r\n" + REASON + b"\r\nzz\r\n"),
        (CHUNKED, b"zz\r\n"),
        (f"Content-Length: {len(REASON) + 1}", REASON),
        (f"Content-Length: {1 << 16}", REASON),
        (f"Content-Length: {len(REASON)}\r\nContent-Length: 5", REASON),
        ("Content-Length: 1e3", REASON),
    ],
)
def test_a_body_that_is_not_whole_changes_nothing(rig: Rig, header: str, body: bytes) -> None:
    assert rig.say(rig.head(header) + body, end=True) == [400]
    assert not rig.maintenance()


def test_a_body_with_trailers_changes_nothing(rig: Rig) -> None:
    # Its client must not end its side: a request that came whole is dropped then, unanswered.
    body = SIZE + b"\r\n" + REASON + b"\r\n0\r\nX-Trailer: 1\r\n\r\n"
    assert rig.say(rig.head(CHUNKED, "Connection: close") + body) == [400]
    assert not rig.maintenance()


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_body_in_chunks_is_carried_out(rig: Rig, pieces: int) -> None:
    step = len(REASON) // pieces + 1
    parts = [REASON[at : at + step] for at in range(0, len(REASON), step)]
    chunks = b"".join(f"{len(one):x}\r\n".encode() + one + b"\r\n" for one in parts)
    head = rig.head(CHUNKED, "Connection: close")
    assert rig.say(head + chunks + b"0\r\n\r\n") == [202]
    assert rig.maintenance()
    assert rig.say(rig.head("Connection: close", method="DELETE")) == [202]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Transfer-Encoding: gzip, chunked", 400),
        ("Transfer-Encoding: identity, chunked", 400),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked, gzip", 400),
        ("Transfer-Encoding: gzip", 400),
    ],
)
def test_a_body_in_another_coding_changes_nothing(rig: Rig, header: str, status: int) -> None:
    chunks = SIZE + b"\r\n" + REASON + b"\r\n0\r\n\r\n"
    assert rig.say(rig.head(header) + chunks) == [status]
    assert not rig.maintenance()


def test_a_request_needs_a_host(rig: Rig) -> None:
    assert rig.say(b"GET /v1/nodes HTTP/1.1\r\nConnection: close\r\n\r\n") == [400]
    assert rig.say(b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n") == [
        400
    ]
    assert rig.say(b"GET /livez HTTP/1.0\r\n\r\n") == [200]


def test_a_client_that_expects_to_continue_is_told(rig: Rig) -> None:
    expects = "Expect: 100-continue"
    with rig.connect() as line:
        line.sendall(rig.head(expects, f"Content-Length: {len(REASON)}", "Connection: close"))
        assert line.recv(100).startswith(b"HTTP/1.1 100 ")
        line.sendall(REASON)
        assert statuses(line) == [202]
    assert rig.say(rig.head("Connection: close", method="DELETE")) == [202]
    assert rig.say(rig.head(expects, f"Content-Length: {1 << 30}", "Connection: close")) == [413]


def test_pipelined_requests_are_answered_in_order(rig: Rig) -> None:
    get = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = get.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    requests = get % b"/v1/nodes" + get % b"/v1/nothing" + last % b"/livez"
    assert rig.say(requests) == [200, 404, 200]


@pytest.mark.parametrize(("size", "status"), [(50_000, 200), (200_000, 431)])
def test_a_head_is_bounded(rig: Rig, size: int, status: int) -> None:
    request = rig.head(f"X-Large: {'x' * size}", "Connection: close", method="GET", path="")
    assert rig.say(request) == [status]


def test_slow_clients_are_ended_and_leave_nothing_behind(rig: Rig) -> None:
    kinds = {
        "silent": b"",
        "half a head": HEARTBEAT[:-9],
        "half a body": HEARTBEAT + b"Content-Length: 300\r\n\r\n{",
        "half a large body": HEARTBEAT + b"Content-Length: 90000\r\n\r\n{",
        "half a chunk": HEARTBEAT + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{",
    }
    rig.maintenance()
    api, locks = rig.api, locked(rig)
    assert locks
    files, threads = api.num_fds(), api.num_threads()
    for _ in range(2):
        with contextlib.ExitStack() as opened:
            lines = {
                kind: [opened.enter_context(rig.connect(STRANGER)) for _ in range(25)]
                for kind in kinds
            }
            for kind, some in lines.items():
                for line in some:
                    line.sendall(kinds[kind])
            begin = time.monotonic()
            assert not rig.maintenance()
            assert time.monotonic() - begin < PATIENCE / 4
            for kind, some in lines.items():
                told = {tuple(statuses(line)) for line in some}
                assert told == {(408,) if "body" in kind or "chunk" in kind else ()}, kind
    cut = [rig.connect(STRANGER) for _ in range(50)]
    for line in cut:
        line.sendall(kinds["half a body"])
        line.close()
    rig.service.session.close()
    service.until(lambda: api.num_fds() <= files, "descriptors as before")
    service.until(lambda: api.num_threads() <= threads, "threads as before")
    assert rig.api.pid == api.pid
    assert locked(rig) == locks


def locked(rig: Rig) -> set[tuple[str, str]]:
    """Return the locks that the API holds: which files, which bytes."""
    files = {os.stat(path).st_ino for path in (rig.service.folder / "state").glob("*.sqlite*")}
    rows = [line.split() for line in pathlib.Path("/proc/locks").read_text("ascii").splitlines()]
    ours = [row for row in rows if row[1] == "POSIX" and row[4] == str(rig.api.pid)]
    return {(row[5], row[6]) for row in ours if int(row[5].rpartition(":")[2]) in files}


def test_requests_of_one_address_are_bounded_and_others_are_served(rig: Rig) -> None:
    half = HEARTBEAT + b"Content-Length: 300\r\n\r\n{"
    with contextlib.ExitStack() as opened:
        lines = [opened.enter_context(rig.connect(STRANGER)) for _ in range(OF_ONE + 5)]
        for line in lines:
            line.sendall(half)
        assert not rig.maintenance()
        told = [statuses(line) for line in lines]
    assert sorted(told) == [[408]] * OF_ONE + [[503]] * 5


HARMLESS = ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGINT", "SIGQUIT", "SIGALRM", "SIGIO", "SIGPIPE")


@pytest.mark.parametrize("number", [signal.Signals[name] for name in HARMLESS], ids=HARMLESS)
def test_a_signal_that_means_nothing_changes_nothing(rig: Rig, number: signal.Signals) -> None:
    api = rig.api
    api.send_signal(number)
    for _ in range(3):
        assert not rig.maintenance()
    assert rig.api.pid == api.pid
    assert service.alive(api)


def test_a_process_that_is_stopped_answers_what_it_has_and_is_started_again(rig: Rig) -> None:
    api = rig.api
    with rig.connect() as line, rig.connect() as idle:
        line.sendall(rig.head(f"Content-Length: {len(REASON)}") + REASON[:5])
        idle.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(1000).startswith(b"HTTP/1.1 200 ")
        rig.maintenance()
        api.terminate()
        assert idle.recv(1000) == b""  # it accepts no more, and says goodbye to those who wait
        line.sendall(REASON[5:])
        answer = line.recv(1000)
        assert answer.startswith(b"HTTP/1.1 202 ")
        assert b"connection: close" in answer
    rig.service.session.close()
    service.until(lambda: rig.program.pids(API_UP)[-1] != api.pid, "another process")
    service.until(rig.maintenance, "what was asked at the end")
    assert rig.say(rig.head("Connection: close", method="DELETE")) == [202]


def test_a_second_service_at_the_same_address_is_refused(rig: Rig) -> None:
    other = rig.service.start("ironic-lite-api")
    assert other.process.wait(PATIENCE) != 0
    assert "Address already in use" in other.said()


def test_the_whole_stops_in_time_beside_clients_that_do_nothing() -> None:
    with service.service(MORE) as found, contextlib.ExitStack() as opened:
        program = found.start()
        found.up()
        rig = Rig(found, program)
        for data in (b"", b"GET / HT", rig.head("Content-Length: 300")):
            opened.enter_context(rig.connect()).sendall(data)
        begin = time.monotonic()
        assert program.stop() == 0
        assert time.monotonic() - begin < PATIENCE / 2
        with pytest.raises(ConnectionRefusedError):
            rig.connect()
