"""The server of transports without a broker: frames, connections, hostile bytes, and its end."""

from __future__ import annotations

import contextlib
import os
import pathlib
import queue
import resource
import socket
import ssl
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.conductor.engine.workers import Workers
from ironic_lite.core import config, context, threads
from ironic_lite.core.context import Context
from ironic_lite.db.engine import fair_lock
from ironic_lite.rpc import client
from ironic_lite.rpc.server import CallKeepalives
from ironic_lite.rpc.sockets import frames, server
from ironic_lite.rpc.sockets.server import Listener, ServerSocket, SocketServer
from tests.support import direct_rpc, rpc_conductor
from tests.support.rpc_conductor import ONE, Serve
from tests.support.thread_limit import no_new_threads

# The server of transports without a broker: answers first, then the work that calls have left.

SECONDS = 10.0
LIMIT = 100_000


class Methods:
    """Carries out calls by functions of a test."""

    def __init__(self) -> None:
        self.call: Callable[[Any], Any] = lambda _: None

    def dispatch(self, incoming: Any) -> Any:
        """Return what the test's function returns for a message."""
        return self.call(incoming)


class Client:
    """A client with one connection."""

    def __init__(self, address: Any, sock: socket.socket | None = None) -> None:
        """Connect to a server, by a socket of the caller if it has one."""
        self.sock = sock or socket.socket()
        self.sock.settimeout(SECONDS)
        self.sock.connect(address)
        self._reader = frames.Reader(LIMIT)
        self._received: list[Any] = []

    def send(self, ident: int = 1, **args: Any) -> None:
        """Send a call."""
        message = {"method": "work", "args": args}
        body = {"id": ident, "ctxt": {}, "msg": message, "reply": True}
        self.sock.sendall(frames.encode(body, LIMIT))

    def receive(self) -> Any:
        """Return the next answer."""
        while not self._received:
            data = self.sock.recv(LIMIT)
            assert data, "the server has closed the connection"
            self._received += self._reader.feed(data)
        return self._received.pop(0)


class Room:
    """A server of one thread, its methods, and a client."""

    def __init__(self) -> None:
        sock = socket.create_server(("127.0.0.1", 0))
        self.address = sock.getsockname()
        self.methods = Methods()
        listening = Listener([ServerSocket(sock)], LIMIT)
        self.server = SocketServer(lambda: listening, self.methods, 1)
        self.server.start()
        self.client = Client(self.address)

    def accept_client(self) -> None:
        """Wait until the server has accepted the client; all calls return "done" from now on."""
        self.methods.call = lambda _: "done"
        self.client.send()
        assert self.client.receive() == {"id": 1, "result": "done"}


@pytest.fixture
def room() -> Iterator[Room]:
    """A running server."""
    made = Room()
    yield made
    made.client.sock.close()
    made.server.stop()
    made.server.wait()


class Long:
    """Work that begins, and ends when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.thread: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __call__(self) -> None:
        self.thread.put(threading.current_thread().name)
        self.begun.set()
        self.gate.wait(SECONDS)


@pytest.fixture
def long() -> Iterator[Long]:
    """Work that ends with the test at the latest."""
    made = Long()
    yield made
    made.gate.set()


def is_freed(kept: weakref.ref[Any]) -> bool:
    """Return whether an object is freed, once the threads that have passed it on have left it."""
    end, pause = time.monotonic() + SECONDS, threading.Event()
    while kept() is not None and time.monotonic() < end:
        pause.wait(0.001)
    return kept() is None


def test_message_is_freed_before_deferred_work(room: Room, long: Long) -> None:
    kept: list[weakref.ref[Any]] = []

    def call(incoming: Any) -> str:
        kept.append(weakref.ref(incoming))
        assert threads.defer(long)
        return "done"

    room.methods.call = call
    room.client.send(password="secret")
    assert room.client.receive() == {"id": 1, "result": "done"}
    assert long.begun.wait(SECONDS)
    assert is_freed(kept[0])


class Call:
    """A call whose caller wants keepalives."""

    def __init__(self) -> None:
        self.client_timeout = 0.01
        self.message = {"method": "work"}
        self.kept = threading.Event()

    def heartbeat(self) -> None:
        """Record a keepalive."""
        self.kept.set()


def test_message_whose_caller_got_a_keepalive_is_freed() -> None:
    signs, call = CallKeepalives(), Call()
    with signs.during(call):
        assert call.kept.wait(SECONDS)
    kept = weakref.ref(call)
    del call
    assert is_freed(kept)
    signs.end()


def test_keepalives_without_a_thread_are_sent_for_the_next_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    signs, first, second = CallKeepalives(), Call(), Call()
    with no_new_threads(), signs.during(first):
        assert "No keepalives" in caplog.text
    with signs.during(second):
        assert second.kept.wait(SECONDS)
    assert not first.kept.is_set()
    signs.end()


def test_connection_without_a_thread_waits_for_one_and_others_are_answered(room: Room) -> None:
    room.accept_client()
    with no_new_threads():
        late = Client(room.address)
        late.send()
        room.client.send(ident=2)
        assert room.client.receive() == {"id": 2, "result": "done"}
    room.client.sock.close()
    assert late.receive() == {"id": 1, "result": "done"}
    late.sock.close()


def test_connection_without_any_thread_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.ExitStack() as opened:
        sock = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening = Listener([ServerSocket(sock)], LIMIT)
        listening.start(lambda _: None)
        opened.callback(listening.cleanup)
        with no_new_threads():
            client = Client(sock.getsockname())
            opened.enter_context(client.sock)
            assert client.sock.recv(1) == b""
    assert "thread" in caplog.text


@contextlib.contextmanager
def limit_of_files(soft: int) -> Iterator[None]:
    """Let the system refuse descriptors from the number ``soft`` on."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def wait_for_refusal(caplog: pytest.LogCaptureFixture) -> None:
    """Wait until the server has logged that it cannot accept a connection."""
    end, pause = time.monotonic() + SECONDS, threading.Event()
    while "Too many open files" not in caplog.text and time.monotonic() < end:
        pause.wait(0.001)
    assert "Cannot accept an RPC connection" in caplog.text


def test_connection_waits_while_there_is_no_descriptor(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.accept_client()
    sock = socket.socket()
    with limit_of_files(3):
        late = Client(room.address, sock)
        late.send()
        wait_for_refusal(caplog)
        room.client.send()
        assert room.client.receive() == {"id": 1, "result": "done"}, "others are answered"
    assert late.receive() == {"id": 1, "result": "done"}
    late.sock.close()
    room.client.send(ident=2)
    assert room.client.receive() == {"id": 2, "result": "done"}


def test_connection_that_fails_to_open_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    faults = [RuntimeError("no context")]

    def context() -> ssl.SSLContext:
        if faults:
            raise faults.pop()
        return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    with contextlib.ExitStack() as opened:
        sock = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening = Listener([ServerSocket(sock, context=context)], LIMIT)
        listening.start(lambda _: None)
        opened.callback(listening.cleanup)
        refused, accepted = (opened.enter_context(socket.socket()) for _ in range(2))
        for one in (refused, accepted):
            one.connect(sock.getsockname())
            one.settimeout(SECONDS)
        with contextlib.suppress(ConnectionError):
            assert refused.recv(1) == b""
        accepted.sendall(b"GET / HTTP/1.1\r\n\r\n")
        accepted.recv(9)  # it is refused by TLS
    assert "no context" in caplog.text
    assert "Refused an RPC client" in caplog.text


def test_client_that_is_gone_before_its_authentication_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def context() -> ssl.SSLContext:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    with contextlib.ExitStack() as opened:
        sock = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        with socket.create_connection(sock.getsockname()) as scan:
            scan.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        listening = Listener([ServerSocket(sock, context=context)], LIMIT)
        listening.start(lambda _: None)
        opened.callback(listening.cleanup)
        client = opened.enter_context(socket.create_connection(sock.getsockname()))
        client.settimeout(SECONDS)
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client.recv(9)
    assert "Refused an RPC client" in caplog.text
    assert "unexpectedly" not in caplog.text


def test_connections_beyond_the_limit_are_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 2)
    room = Room()
    room.accept_client()
    late = [Client(room.address) for _ in range(20)]
    used = len(os.listdir("/proc/self/fd"))
    for one in late:
        one.send()
        assert one.receive() == {"id": 1, "result": "done"}
        assert len(os.listdir("/proc/self/fd")) <= used + 2
        one.sock.close()
    room.client.sock.close()
    room.server.stop()
    room.server.wait()


def test_answer_goes_out_before_deferred_work(room: Room, long: Long) -> None:
    room.methods.call = lambda _: threads.defer(long)
    room.client.send()
    assert room.client.receive() == {"id": 1, "result": True}
    assert long.begun.wait(SECONDS), "the same thread begins the work after the answer"
    room.methods.call = lambda _: "next"
    room.client.send(2)
    assert room.client.receive() == {"id": 2, "result": "next"}, "another thread has its place"


def test_deferred_work_is_done_although_the_answer_cannot_be_encoded(
    room: Room, long: Long, caplog: pytest.LogCaptureFixture
) -> None:
    class Untold(Exception):
        def __str__(self) -> str:
            raise LookupError("no text")

    def call(_: Any) -> Any:
        assert threads.defer(long)
        raise Untold

    room.methods.call = call
    room.client.send()
    assert long.begun.wait(SECONDS)
    assert "answer of RPC method work" in caplog.text
    assert "no text" in caplog.text


def test_stopped_server_does_not_wait_for_deferred_work(room: Room, long: Long) -> None:
    room.methods.call = lambda _: threads.defer(long)
    room.client.send()
    assert long.begun.wait(SECONDS)
    room.server.stop()
    waiter = threading.Thread(target=room.server.wait, daemon=True)
    waiter.start()
    waiter.join(SECONDS)
    assert not waiter.is_alive()
    assert not long.gate.is_set()


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Workers of a conductor."""
    made = Workers(4)
    yield made
    made.close()


def run(workers: Workers, work: Callable[[], None]) -> None:
    """Run work of a conductor."""
    workers.claim()
    workers.run(work)


def test_idle_workers_have_no_deferred_work(room: Room, long: Long, workers: Workers) -> None:
    room.methods.call = lambda _: run(workers, long)
    room.client.send()
    assert room.client.receive()
    assert long.begun.wait(SECONDS)
    assert not workers.wait_idle(0.01)
    long.gate.set()
    assert workers.wait_idle(SECONDS)


def test_second_work_of_a_call_runs_in_the_pool_of_workers(
    room: Room, long: Long, workers: Workers
) -> None:
    second = Long()

    def call(_: Any) -> None:
        run(workers, long)
        run(workers, second)

    room.methods.call = call
    room.client.send()
    assert second.begun.wait(SECONDS), "it does not wait for the first"
    assert long.begun.wait(SECONDS)
    assert long.thread.get(timeout=SECONDS).startswith("rpc-")
    assert second.thread.get(timeout=SECONDS).startswith("worker-")
    second.gate.set()


def test_next_call_of_a_thread_has_neither_context_nor_priority_of_its_work(
    room: Room, workers: Workers
) -> None:
    seen = queue.SimpleQueue[tuple[str, object, bool]]()

    def note() -> None:
        name = threading.current_thread().name
        seen.put((name, context.current(), fair_lock.has_low_priority()))

    asked = context.Context("req-1")

    def call(incoming: Any) -> None:
        note()
        if incoming.message["args"]:
            context.enter(asked)
            run(workers, note)
            context.enter(None)

    room.methods.call = call
    room.client.send(first=True)
    assert room.client.receive()["id"] == 1
    assert workers.wait_idle(SECONDS)
    pool = room.server.listener.pool  # type: ignore[union-attr]
    end, pause = time.monotonic() + SECONDS, threading.Event()
    while not pool.idle and time.monotonic() < end:
        pause.wait(0.001)
    # Another thread serves the first client now, so the idle one gets the second.
    second = Client(room.address)
    second.send()
    assert second.receive()["id"] == 1
    second.sock.close()
    found = [seen.get(timeout=SECONDS) for _ in range(3)]
    assert len({name for name, *_ in found}) == 1
    assert [rest for _, *rest in found] == [[None, False], [asked, True], [None, False]]


# One connection of a server, which other threads may hang up.

MUCH = b"x" * 2**22
LINE_LIMIT = 2**23

Pair = tuple[server.Line, socket.socket]
"""A line with a running call, and the socket of the client."""

CALL = {"id": 1, "ctxt": {}, "msg": {"method": "work"}, "reply": True}


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A line with a running call, and the socket of its client."""
    ours, peer = socket.socketpair()
    line = server.Line(ours, 2**20)
    with peer:
        peer.sendall(frames.encode(CALL, LINE_LIMIT))
        line.receive()
        yield line, peer
    line.close()


def sent(line: server.Line) -> float:
    """Return the seconds after which sending much to a peer that reads nothing has failed."""
    begun = time.monotonic()
    with pytest.raises(OSError, match=r"."):
        line.answer(MUCH)
    return time.monotonic() - begun


def test_hang_up_ends_a_send_that_waits(pair: Pair) -> None:
    line, peer = pair
    with futures.ThreadPoolExecutor(1) as pool:
        sending = pool.submit(sent, line)
        rpc_conductor.until(lambda: peer.recv(1, socket.MSG_PEEK))
        frames.hang_up(line.sock)
        assert sending.result(rpc_conductor.SECONDS) < frames.SEND_SECONDS / 2
    assert not line.running


def test_drained_line_is_hung_up_after_its_answer(pair: Pair) -> None:
    line, peer = pair
    line.drain()
    assert not line.hung_up()
    line.answer(b"a")
    assert peer.recv(9) + peer.recv(9) == b"a"


def test_closed_client_is_noticed(pair: Pair) -> None:
    line, peer = pair
    assert not line.hung_up()
    peer.close()
    assert line.hung_up()


# Frames: whatever way the bytes are cut, the same messages come out.

FRAMES_LIMIT = 2**20

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
BODIES = st.lists(st.dictionaries(st.text(), JSON), max_size=4)


@given(BODIES, st.lists(st.integers(1, 50)))
def test_frames_cut_anywhere_come_out_whole(bodies: list[dict[str, Any]], cuts: list[int]) -> None:
    data = b"".join(frames.encode(body, FRAMES_LIMIT) for body in bodies)
    reader = frames.Reader(FRAMES_LIMIT)
    found = []
    for size in [*cuts, len(data)]:
        found += list(reader.feed(data[:size]))
        data = data[size:]
    found += list(reader.feed(data))
    assert found == bodies


def test_a_reader_asks_for_more_within_a_large_frame() -> None:
    reader = frames.Reader(2**30)
    small = reader.wanted
    assert list(reader.feed(frames.HEADER.pack(2**29))) == []
    assert small < reader.wanted <= 2**20


def test_a_frame_that_announces_too_much_is_refused_before_it_comes() -> None:
    reader = frames.Reader(FRAMES_LIMIT)
    with pytest.raises(frames.FrameTooLarge, match=r"2\.0 MiB.*1 MiB.*frame_limit_mib"):
        list(reader.feed(frames.HEADER.pack(2 * FRAMES_LIMIT)))


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"1", b"null", b"\xff\xfe", b'{"a": NaN}'])
def test_frame_that_is_no_json_object_is_refused(payload: bytes) -> None:
    reader = frames.Reader(FRAMES_LIMIT)
    with pytest.raises(frames.BadFrame):
        list(reader.feed(frames.HEADER.pack(len(payload)) + payload))


def test_a_refusal_tells_sizes_and_reason() -> None:
    why = frames.FrameTooLarge(2 * FRAMES_LIMIT, FRAMES_LIMIT, "answer")
    (body,) = frames.Reader(FRAMES_LIMIT).feed(frames.refusal(why, 7))
    assert body["id"] == 7
    assert str(frames.refused(body)) == str(why)
    (body,) = frames.Reader(FRAMES_LIMIT).feed(frames.refusal(frames.BadFrame("no")))
    assert isinstance(frames.refused(body), frames.BadFrame)
    assert frames.refused({"id": 1, "result": None}) is None


# A server gets bytes no client of ours would send; a client gets an answer it does not take.

Connect = Callable[[str], client.RpcClient]
HEADER = frames.HEADER

GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "ones": b"\xff" * 4096,
    "nuls": b"\0" * 4096,
    "not json": HEADER.pack(3) + b"{{{",
    "not utf-8": HEADER.pack(4) + b'"\xff\xfe"',
    "a list": HEADER.pack(2) + b"[]",
    "an empty object": HEADER.pack(2) + b"{}",
    "wrong types": frames.encode({"id": "1", "ctxt": [], "msg": None}, 999),
    "a message without method": frames.encode({"id": 1, "ctxt": {}, "msg": {}}, 999),
    "a context without request id": frames.encode(
        {"id": 1, "ctxt": {"user": 1}, "msg": {"method": "who", "args": {}}, "reply": True}, 999
    ),
    "a method that is no text": frames.encode(
        {"id": 1, "ctxt": {}, "msg": {"method": 7, "args": []}, "reply": True}, 999
    ),
    "half a frame": HEADER.pack(1000) + b"{",
    "half a length": b"\0\0",
    "nothing": b"",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_the_server_lives_on_after(
    *, what: str, brokerless: str, raw: Raw, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    caller = connect(brokerless)
    for _ in range(3):
        with raw() as line:
            line.sendall(GARBAGE[what])
        assert caller.call(ctxt, "echo", host=ONE, word=what) == what


def test_the_sender_of_garbage_is_told_and_hung_up(brokerless: str, raw: Raw, serve: Serve) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    with raw() as line:
        line.sendall(GARBAGE["http"])
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := line.recv(4096):
                said += chunk
    (body,) = frames.Reader(2**20).feed(said)
    assert "frame_limit_mib" in body["refused"]["reason"]


def test_a_client_that_sends_slowly_does_not_delay_others(
    brokerless: str, raw: Raw, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    request = {"id": 1, "ctxt": ctxt.as_dict(), "msg": {"method": "who"}, "reply": True}
    frame = frames.encode(request, 2**20)
    with raw() as line:
        for byte in frame:
            line.sendall(bytes([byte]))
            if byte % 8 == 0:
                assert connect(brokerless).call(ctxt, "who", host=ONE) == ONE
        (body,) = frames.Reader(2**20).feed(line.recv(4096))
    assert body == {"id": 1, "result": ONE}


def test_a_server_with_a_lower_limit_refuses_and_goes_on(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context, one_mib: Callable[[], None]
) -> None:
    caller = connect(brokerless)
    one_mib()
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    for size in (2, 40):
        with pytest.raises(errors.TooLarge, match="1 MiB"):
            caller.call(ctxt, "echo", host=ONE, word="x" * (size * 2**20))
    assert caller.call(ctxt, "who", host=ONE) == ONE


def test_an_answer_beyond_the_server_s_limit_is_too_large(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context, one_mib: Callable[[], None]
) -> None:
    caller = connect(brokerless)
    one_mib()
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    with pytest.raises(errors.TooLarge, match="answer"):
        caller.call(ctxt, "large", host=ONE, size=2 * 2**20)
    assert caller.call(ctxt, "who", host=ONE) == ONE


def test_an_answer_beyond_the_client_s_limit_is_too_large(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context, one_mib: Callable[[], None]
) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    one_mib()
    caller = connect(brokerless)
    with pytest.raises(errors.TooLarge, match="answer"):
        caller.call(ctxt, "large", host=ONE, size=2 * 2**20)
    assert caller.call(ctxt, "who", host=ONE) == ONE


def test_the_default_limit_has_room_for_a_config_drive_of_64_mib() -> None:
    assert frames.frame_limit(config.CONF) > 64 * 2**20


Raw = Callable[[], contextlib.AbstractContextManager[socket.socket]]
"""Connects to the conductor ONE with the means of the standard library."""


@pytest.fixture
def raw(brokerless: str, folder: pathlib.Path, request: pytest.FixtureRequest) -> Raw:
    if brokerless != direct_rpc.URL:
        return lambda: _unix(folder)
    options = request.getfixturevalue("direct_options")
    return lambda: direct_rpc.connected(options, ONE)


@contextlib.contextmanager
def _unix(folder: pathlib.Path) -> Iterator[socket.socket]:
    (path,) = (folder / "rpc").glob(f"*@{ONE}")
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(rpc_conductor.SECONDS)
        line.connect(str(path))
        yield line
