"""The server of transports without a broker: answers first, then the work that calls have left."""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.conductor.work.workers import Workers
from ironic_lite.core import context, warm_pool
from ironic_lite.db.engine import fair_lock
from ironic_lite.rpc.deadlines.call_keepalives import CallKeepalives
from ironic_lite.rpc.sockets import ciphers, frames
from ironic_lite.rpc.sockets.listener import Listener, ServerSocket
from ironic_lite.rpc.sockets.server import SocketServer
from tests.support.thread_limit import no_new_threads

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
        body = {"id": ident, "ctxt": {}, "msg": message, "reply": True, "monitor": None}
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
        self.fault: Exception | None = None
        self.cipher: Callable[[], ciphers.Cipher] = ciphers.Plain
        listening = Listener([ServerSocket(sock, cipher=self._new_cipher)], LIMIT)
        self.server = SocketServer(lambda: listening, self.methods, 1)
        self.server.start()
        self.client = Client(self.address)

    def accept_client(self) -> None:
        """Wait until the server has accepted the client; all calls return "done" from now on."""
        self.methods.call = lambda _: "done"
        self.client.send()
        assert self.client.receive() == {"id": 1, "result": "done"}

    def _new_cipher(self) -> ciphers.Cipher:
        if self.fault is not None:
            raise self.fault
        return self.cipher()


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
        assert warm_pool.defer(long)
        return "done"

    room.methods.call = call
    room.client.send(password="secret")
    assert room.client.receive() == {"id": 1, "result": "done"}
    assert long.begun.wait(SECONDS)
    assert is_freed(kept[0])


def test_message_whose_caller_got_a_keepalive_is_freed(room: Room) -> None:
    signs, sent = CallKeepalives(), threading.Event()
    kept: list[weakref.ref[Any]] = []

    def call(incoming: Any) -> None:
        kept.append(weakref.ref(incoming))
        incoming.client_timeout = 0.01
        with signs.during(incoming):
            assert sent.wait(SECONDS)

    room.methods.call = call
    room.client.send()
    assert room.client.receive() == {"id": 1, "beat": True}
    sent.set()
    while "beat" in room.client.receive():
        pass
    assert is_freed(kept[0])
    signs.end()


class Call:
    """A call whose caller wants keepalives."""

    def __init__(self) -> None:
        self.client_timeout = 0.01
        self.message = {"method": "work"}
        self.kept = threading.Event()

    def heartbeat(self) -> None:
        """Record a keepalive."""
        self.kept.set()


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


def test_call_without_a_thread_is_refused_and_the_next_is_answered(room: Room) -> None:
    room.methods.call = lambda _: "done"
    with no_new_threads():
        room.client.send()
        assert "thread" in str(room.client.receive()["failure"])
    room.client.send(ident=2)
    assert room.client.receive() == {"id": 2, "result": "done"}


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


def test_connection_waits_while_other_threads_take_every_descriptor(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.accept_client()
    sock = socket.socket()
    with limit_of_files(3):  # the spare descriptor cannot be opened again either
        late = Client(room.address, sock)
        late.send()
        wait_for_refusal(caplog)
        room.client.send()
        assert room.client.receive() == {"id": 1, "result": "done"}, "others are answered"
    # It is refused if the limit ends just while the server tries its spare descriptor.
    with contextlib.suppress(ConnectionError):
        assert late.receive() == {"id": 1, "result": "done"}
    late.sock.close()
    room.client.send(ident=2)
    assert room.client.receive() == {"id": 2, "result": "done"}


def test_connection_without_a_descriptor_is_refused_at_once(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.accept_client()
    sock = socket.socket()
    taken = [os.open(os.devnull, os.O_RDONLY)]
    with limit_of_files(taken[0] + 1):
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        refused = Client(room.address, sock)
        with contextlib.suppress(ConnectionError):
            assert refused.sock.recv(1) == b""
        wait_for_refusal(caplog)
    for one in taken:
        os.close(one)
    again = Client(room.address)
    again.send()
    assert again.receive() == {"id": 1, "result": "done"}
    for client in (refused, again):
        client.sock.close()


def test_connection_that_fails_to_open_ends_no_other(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.accept_client()
    room.fault = RuntimeError("no cipher")
    refused = Client(room.address)
    with contextlib.suppress(ConnectionError):
        assert refused.sock.recv(1) == b""
    assert "no cipher" in caplog.text
    room.fault = None
    room.client.send()
    assert room.client.receive() == {"id": 1, "result": "done"}
    refused.sock.close()


class _Broken(ciphers.Plain):
    """A cipher that fails when its connection is already registered."""

    @property
    def established(self) -> bool:  # type: ignore[override]
        """Raise an error."""
        raise RuntimeError("no state")


def test_connection_that_fails_after_its_registration_is_forgotten(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.accept_client()
    spare = socket.socket()  # made now, so that it does not take the server's descriptor
    room.cipher = _Broken
    refused = Client(room.address)
    with contextlib.suppress(ConnectionError):
        assert refused.sock.recv(1) == b""
    room.cipher = ciphers.Plain
    again = Client(room.address, spare)
    again.send()
    assert again.receive() == {"id": 1, "result": "done"}
    assert "no state" in caplog.text  # written before the next connection is accepted
    for client in (refused, again):
        client.sock.close()


def test_answer_goes_out_before_deferred_work(room: Room, long: Long) -> None:
    room.methods.call = lambda _: warm_pool.defer(long)
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
        assert warm_pool.defer(long)
        raise Untold

    room.methods.call = call
    room.client.send()
    assert long.begun.wait(SECONDS)
    assert "answer of RPC method work" in caplog.text
    assert "no text" in caplog.text


def test_stopped_server_does_not_wait_for_deferred_work(room: Room, long: Long) -> None:
    room.methods.call = lambda _: warm_pool.defer(long)
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
    for ident, args in ((1, {"first": True}), (2, {})):
        room.client.send(ident, **args)
        assert room.client.receive()["id"] == ident
        assert workers.wait_idle(SECONDS)
    found = [seen.get(timeout=SECONDS) for _ in range(3)]
    assert len({name for name, *_ in found}) == 1
    assert [rest for _, *rest in found] == [[None, False], [asked, True], [None, False]]
