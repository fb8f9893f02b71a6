"""A process that ends loses no connection: not those that wait, nor those that come now."""

from __future__ import annotations

import socket
import threading

import pytest

from ironic_lite.api.traffic import farewell

HOST = "127.0.0.1"
SHORT = 0.2


@pytest.fixture
def door() -> socket.socket:
    return socket.create_server((HOST, 0))


def test_what_waits_is_accepted_before_the_socket_goes_and_later_ones_are_refused(
    door: socket.socket,
) -> None:
    address = door.getsockname()
    early = socket.create_connection(address, timeout=5)
    early_end: list[socket.socket] = []
    accepting = threading.Timer(SHORT, lambda: early_end.append(door.accept()[0]))
    with early:
        accepting.start()
        farewell._empty(address)  # returns when nobody waits any more
        assert early_end
        with pytest.raises(TimeoutError):  # neither accepted nor refused: tried again by TCP
            socket.create_connection(address, timeout=SHORT)
        early.sendall(b"still heard")
        assert early_end[0].recv(100) == b"still heard"
        farewell.stop_accepting(address)
        early_end[0].close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)


def test_a_server_that_cannot_be_asked_meets_nobody_any_more(door: socket.socket) -> None:
    address = door.getsockname()
    door.setblocking(False)
    farewell.stop_accepting(address)
    with pytest.raises(BlockingIOError):
        door.accept()
    door.close()
