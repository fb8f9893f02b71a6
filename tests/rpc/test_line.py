"""One connection of ``local://`` that ends while other threads use it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent import futures

import pytest

from ironic_lite.rpc.sockets import incoming, kernel
from tests.support import rpc_conductor

MUCH = b"x" * 2**22


@pytest.fixture
def pair() -> Iterator[tuple[incoming.Line, socket.socket]]:
    ours, peer = socket.socketpair()
    line = incoming.Line(ours, 2**20)
    with peer:
        yield line, peer
    line.close()


def sent(line: incoming.Line) -> float:
    """Return the seconds after which sending much to a peer that reads nothing has failed."""
    begun = time.monotonic()
    with pytest.raises(OSError, match=r"."):
        line.answer(MUCH, final=False)
    return time.monotonic() - begun


def test_close_ends_a_send_that_waits_and_frees_the_descriptor_after_it(
    pair: tuple[incoming.Line, socket.socket],
) -> None:
    line, peer = pair
    with futures.ThreadPoolExecutor(1) as pool:
        sending = pool.submit(sent, line)
        rpc_conductor.until(lambda: peer.recv(1, socket.MSG_PEEK))
        number = line.sock.fileno()
        line.close()
        assert sending.result(rpc_conductor.SECONDS) < kernel.SEND_SECONDS / 2
    assert line.sock.fileno() == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_descriptor_stays_open_as_long_as_a_thread_uses_it(
    pair: tuple[incoming.Line, socket.socket],
) -> None:
    """Its number would go to the next file of the process, and an answer with it."""
    line, _ = pair
    inside, go_on = threading.Event(), threading.Event()

    def use() -> int:
        line._enter()
        inside.set()
        go_on.wait(rpc_conductor.SECONDS)
        number = line.sock.fileno()
        line._leave()
        return number

    with futures.ThreadPoolExecutor(1) as pool:
        used = pool.submit(use)
        assert inside.wait(rpc_conductor.SECONDS)
        line.close()
        go_on.set()
        assert used.result(rpc_conductor.SECONDS) >= 0
    assert line.sock.fileno() == -1


def test_a_line_that_is_closed_takes_no_answer(
    pair: tuple[incoming.Line, socket.socket],
) -> None:
    line, peer = pair
    line.close()
    line.close()
    with pytest.raises(BrokenPipeError):
        line.answer(b"x", final=False)
    assert line.hung_up()
    assert peer.recv(1) == b""
