"""HTTP whose answers end: in time, in size, and where they say."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gzip
import http.client
import pathlib
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ironic_lite.core import bounded_http
from tests.emulators import redfish

Serve = Callable[[Callable[[socket.socket], None]], int]
OK = b"HTTP/1.1 200 OK\r\n"
LIMITS = bounded_http.Limits(connect=30, whole=30, size=1_000_000)
SHORT = bounded_http.Limits(connect=30, whole=1, size=1_000_000)
GENEROUS = 20  # seconds within which what has one second must have ended


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that answers each connection by a function, and returns the port."""
    with contextlib.ExitStack() as opened:
        over = threading.Event()

        def put(answer: Callable[[socket.socket], None]) -> int:
            listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
            listener.settimeout(0.1)

            def work() -> None:
                while not over.is_set():
                    with contextlib.suppress(OSError):
                        client, _ = listener.accept()
                        with client:
                            client.settimeout(30)
                            answer(client)

            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            opened.callback(thread.join)
            opened.callback(over.set)
            return int(listener.getsockname()[1])

        yield put


MIB = 1024 * 1024
FREE = 2 * MIB
LARGE_LIMIT = 80 * MIB
FAR = bounded_http.Limits(connect=30, whole=GENEROUS, size=90_000_000)


def _content_with_memory(port: int) -> bytes:
    made = bounded_http.Connection("127.0.0.1", port, limits=FAR)
    with (
        bounded_http.AnswerMemory(LARGE_LIMIT, GENEROUS) as memory,
        contextlib.closing(made),
        made.exchange("GET", "/", {}) as answer,
    ):
        return bounded_http.content(answer, LARGE_LIMIT, memory)


def test_large_answer_waits_for_memory_and_small_ones_do_not(serve: Serve) -> None:
    large = serve(said(OK + b"Content-Length: 3000000\r\n\r\n" + b"x" * 3_000_000))
    small = serve(said(OK + b"Content-Length: 5\r\n\r\nsmall"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with bounded_http.AnswerMemory(bounded_http.MEMORY, 30) as other:
            other.read(bounded_http.MEMORY + FREE)
            waiting = pool.submit(_content_with_memory, large)
            assert {_content_with_memory(small) for _ in range(20)} == {b"small"}
            assert not waiting.done()
            late = bounded_http.AnswerMemory(LARGE_LIMIT, 0.1)
            with late, pytest.raises(bounded_http.NoMemory, match="take all 192 MiB"):
                late.read(3 * MIB)
        assert len(waiting.result(GENEROUS)) == 3_000_000


def test_large_answers_that_trickle_do_not_delay_others(serve: Serve) -> None:
    begin = OK + b"Content-Length: 50000000\r\n\r\n" + b"x" * 3_000_000
    begun = threading.Semaphore(0)

    def trickle(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(begin)
        begun.release()
        over.wait(GENEROUS)

    over = threading.Event()
    ports = [serve(trickle) for _ in range(3)]
    large = serve(said(OK + b"Content-Length: 8000000\r\n\r\n" + b"x" * 8_000_000))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        slow = [pool.submit(_content_with_memory, port) for port in ports]
        for _ in slow:
            assert begun.acquire(timeout=GENEROUS)
        assert len(pool.submit(_content_with_memory, large).result(GENEROUS / 2)) == 8_000_000
        assert not any(one.done() for one in slow)
        over.set()
        for one in slow:
            with pytest.raises(bounded_http.AnswerCutOff):
                one.result(GENEROUS)


def test_large_answers_that_grow_together_all_end_within_the_memory() -> None:
    held: dict[int, int] = {}
    most = []
    together = threading.Barrier(8)

    def grow(number: int) -> None:
        with bounded_http.AnswerMemory(LARGE_LIMIT, 60) as memory:
            for size in range(0, LARGE_LIMIT + 1, MIB):
                memory.read(size)
                held[number] = memory.taken
                most.append(sum(held.copy().values()))
                if size == 15 * MIB:
                    together.wait(GENEROUS)
            held[number] = 0

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(grow, range(8)))
    assert 100 * MIB < max(most) <= bounded_http.MEMORY


def test_memory_counts_the_values_of_an_answer_before_they_are_parsed(serve: Serve) -> None:
    body = b"[" + b"0," * 500_000 + b"0]"
    port = serve(said(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body))
    made = bounded_http.Connection("127.0.0.1", port, limits=FAR)
    with (
        bounded_http.AnswerMemory(LARGE_LIMIT, GENEROUS) as memory,
        contextlib.closing(made),
        made.exchange("GET", "/", {}) as answer,
    ):
        bounded_http.content(answer, LARGE_LIMIT, memory)
        assert memory.taken > 50_000_000


def said(text: bytes) -> Callable[[socket.socket], None]:
    def answer(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(text)

    return answer


def dripping(begin: bytes, more: bytes) -> Callable[[socket.socket], None]:
    """Return an answer of which a bit comes now and then, for as long as somebody listens."""

    def answer(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(begin)
        client.settimeout(0.05)
        gone = False
        while not gone:
            try:
                client.sendall(more)
                gone = not client.recv(1)
            except TimeoutError:
                continue
            except OSError:
                return

    return answer


def waiting(over: threading.Event) -> Callable[[socket.socket], None]:
    """Return what accepts a connection and then does nothing."""

    def answer(client: socket.socket) -> None:
        over.wait(60)

    return answer


def fetched(port: int, limits: bounded_http.Limits = LIMITS, limit: int = 1_000_000) -> bytes:
    made = bounded_http.Connection("127.0.0.1", port, limits=limits)
    with contextlib.closing(made), made.exchange("GET", "/", {"Connection": "close"}) as answer:
        return bounded_http.content(answer, limit)


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"", b""),
        (b"HTTP/1", b"1"),
        (OK + b"X: ", b"y"),
        (OK, b"X: y\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (OK + b"\r\n", b" "),
        (OK + b"Content-Length: 1000000\r\n\r\n", b" "),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
    ],
)
def test_an_answer_that_comes_in_drips_ends_in_time(
    serve: Serve, begin: bytes, more: bytes
) -> None:
    port = serve(dripping(begin, more))
    start = time.monotonic()
    with pytest.raises((TimeoutError, http.client.HTTPException)):
        fetched(port, SHORT)
    assert time.monotonic() - start < GENEROUS


def test_a_receiver_that_takes_nothing_ends_the_sending_in_time(serve: Serve) -> None:
    over = threading.Event()
    port = serve(waiting(over))
    made = bounded_http.Connection("127.0.0.1", port, limits=SHORT)
    start = time.monotonic()
    with contextlib.closing(made), pytest.raises(TimeoutError):
        made.exchange("POST", "/", {}, b" " * 50_000_000)
    over.set()
    assert time.monotonic() - start < GENEROUS


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"\r\n" + b" " * 2_000_000,
        OK + b"Content-Length: 99999999999\r\n\r\n" + b" " * 2_000_000,
        OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n" + b" " * 2_000_000,
        (OK + b"X: " + b"y" * 60_000 + b"\r\n") + (b"Y: " + b"y" * 60_000 + b"\r\n") * 99,
        b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" * 100_000,
        OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b" " * 10_000_000, mtime=0),
    ],
    ids=["plain", "length", "chunk", "headers", "continue", "packed"],
)
def test_an_answer_without_end_is_cut_off(serve: Serve, answer: bytes) -> None:
    def send(client: socket.socket) -> None:
        client.recv(65536)
        with contextlib.suppress(OSError):
            client.sendall(answer)

    with pytest.raises((bounded_http.AnswerTooLarge, http.client.HTTPException)):
        fetched(serve(send))


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 10\r\n\r\nabc",
        OK + b"Transfer-Encoding: chunked\r\n\r\na\r\nabc",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        OK + b"Content-Encoding: gzip\r\n\r\nabc",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
    ],
)
def test_an_answer_that_is_cut_short_is_an_error(serve: Serve, answer: bytes) -> None:
    with pytest.raises((http.client.HTTPException, OSError)):
        fetched(serve(said(answer)))


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"Content-Length: 3\r\n\r\nabcdef", b"abc"),
        (OK + b"Content-Length: 3, 3\r\n\r\nabc", b"abc"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3  \r\nabc\r\n0\r\nX: y\r\n\r\n", b"abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"\r\nabc", b"abc"),
        (b"HTTP/1.0 200\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", b""),
        (OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"abc", mtime=0), b"abc"),
    ],
)
def test_odd_answers_are_read_as_far_as_they_say(serve: Serve, answer: bytes, body: bytes) -> None:
    assert fetched(serve(said(answer))) == body


def test_tls_has_the_same_bounds_and_checks_the_name(serve: Serve, tmp_path: pathlib.Path) -> None:
    certificate, key = redfish.certificate(tmp_path)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate, key)

    def drip(client: socket.socket) -> None:
        with own.wrap_socket(client, server_side=True) as secured:
            dripping(OK + b"\r\n", b" ")(secured)

    port = serve(drip)
    tls = bounded_http.tls_context()
    tls.load_verify_locations(cafile=str(certificate))
    for host, wanted in (("127.0.0.1", TimeoutError), ("localhost", ssl.SSLError)):
        made = bounded_http.Connection(host, port, limits=SHORT, tls=tls)
        start = time.monotonic()
        with (
            contextlib.closing(made),
            pytest.raises(wanted),
            made.exchange("GET", "/", {"Connection": "close"}) as answer,
        ):
            bounded_http.content(answer, 1_000_000)
        assert time.monotonic() - start < GENEROUS


def test_a_tls_handshake_without_end_is_a_connection_that_was_not_made(serve: Serve) -> None:
    over = threading.Event()
    port = serve(waiting(over))
    limits = bounded_http.Limits(connect=1, whole=30, size=1000)
    made = bounded_http.Connection("127.0.0.1", port, limits=limits, tls=bounded_http.tls_context())
    with pytest.raises(bounded_http.ConnectTimeout):
        made.connect()
    over.set()


def test_a_name_without_address_is_told(serve: Serve) -> None:
    for host in ("nobody.invalid", "a" * 64 + ".invalid", "a..b"):
        with pytest.raises(OSError, match=r".*"):
            bounded_http.Connection(host, 80, limits=LIMITS).connect()


def test_a_silent_address_of_a_name_leaves_time_for_the_next(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names often have an address of IPv6 that no network leads to."""
    port = serve(said(OK + b"\r\n"))
    with contextlib.ExitStack() as opened:
        full = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # what its queue has no room for gets no answer
            waits = opened.enter_context(socket.socket())
            waits.setblocking(False)
            waits.connect_ex(full.getsockname())
        places = [full.getsockname(), ("127.0.0.1", port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        limits = bounded_http.Limits(connect=2, whole=30, size=1000)
        made = bounded_http.Connection("bmc", port, limits=limits)
        opened.enter_context(contextlib.closing(made)).connect()
        assert made.sock.getpeername()[1] == port


def test_json_that_would_take_much_memory_is_not_parsed() -> None:
    body = b"[" + b'{"":0},' * 2_000_000 + b"0]"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(bounded_http.TooManyValues):
        bounded_http.json_value(body)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB
    assert bounded_http.json_value(body[:8] + b"0]") == [{"": 0}, 0]
