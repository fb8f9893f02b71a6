"""The server of transports without a broker: answers first, then the work that calls have left."""

from __future__ import annotations

import queue
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.core import warm_pool
from ironic_lite.rpc.deadlines.call_keepalives import CallKeepalives
from ironic_lite.rpc.sockets import frames
from ironic_lite.rpc.sockets.listener import Listener, ServerSocket
from ironic_lite.rpc.sockets.server import SocketServer

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

    def __init__(self, address: Any) -> None:
        self.sock = socket.create_connection(address, SECONDS)
        self._reader = frames.Reader(LIMIT)

    def send(self, ident: int = 1, **args: Any) -> None:
        """Send a call."""
        message = {"method": "work", "args": args}
        body = {"id": ident, "ctxt": {}, "msg": message, "reply": True, "monitor": None}
        self.sock.sendall(frames.encode(body, LIMIT))

    def receive(self) -> Any:
        """Return the next answer."""
        while True:
            for body in self._reader.feed(self.sock.recv(LIMIT)):
                return body


class Room:
    """A server of one thread, its methods, and a client."""

    def __init__(self) -> None:
        sock = socket.create_server(("127.0.0.1", 0))
        self.methods = Methods()
        listening = Listener([ServerSocket(sock)], LIMIT)
        self.server = SocketServer(lambda: listening, self.methods, 1)
        self.server.start()
        self.client = Client(sock.getsockname())


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
