"""Connections that clients leave open after a 408: these are closed, and no others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.api.traffic import overdue
from ironic_lite.api.wire import faults

HOST = "127.0.0.1"
MOMENT = 0.1
LATE = faults.Refusal(408, b"late")
OTHER = b"what another client is told at the same moment"


class Line:
    """A connection: the end of a client, ours, and a thread that reads from ours."""

    def __init__(self, door: socket.socket) -> None:
        self.client = socket.create_connection(door.getsockname(), timeout=60)
        self.ours, _ = door.accept()
        self.got: list[bytes] = []

    def answer(self, environ: dict[str, Any], why: faults.Refusal) -> None:
        self.ours.sendall(why.body)

    def awaited(self, late: overdue.Overdue, seconds: float = 0.0) -> None:
        """Have its body waited for."""
        environ = {"REMOTE_ADDR": f"::ffff:{HOST}", overdue.ANSWER: self.answer}
        arrival = overdue.Arrival(environ, seconds=seconds, rate=1, refusal=LATE)
        late.add(arrival)

        def read() -> None:
            self.got.append(self.ours.recv(1))
            late.remove(arrival)

        threading.Thread(target=read, daemon=True).start()

    def hears(self) -> bytes:
        return self.client.recv(100)


@pytest.fixture
def door() -> Iterator[socket.socket]:
    with socket.create_server((HOST, 0)) as made:
        yield made


@pytest.fixture
def late(door: socket.socket) -> overdue.Overdue:
    return overdue.Overdue(door.getsockname(), moment=MOMENT)


def test_who_stays_is_closed_and_whoever_was_not_answered_then_is_left_alone(
    door: socket.socket, late: overdue.Overdue
) -> None:
    in_time, idle, stays = Line(door), Line(door), Line(door)
    in_time.awaited(late, seconds=60)
    stays.awaited(late)
    assert stays.hears() == LATE.body
    assert stays.hears() == b""
    for line in (in_time, idle):
        line.client.setblocking(False)
        with pytest.raises(BlockingIOError):
            line.hears()


def test_nobody_is_closed_while_it_is_not_known_for_certain_who_stays(
    door: socket.socket, late: overdue.Overdue
) -> None:
    other, stays = Line(door), Line(door)
    stays.awaited(late)
    assert stays.hears() == LATE.body
    other.ours.sendall(OTHER)
    assert other.hears() == OTHER
    stays.client.settimeout(10 * MOMENT)
    with pytest.raises(TimeoutError):
        stays.hears()
    other.client.close()  # it was idle
    other.ours.close()
    stays.client.settimeout(60)
    assert stays.hears() == b""


def test_nobody_is_closed_for_one_that_does_not_take_its_answer(
    door: socket.socket, late: overdue.Overdue
) -> None:
    other, deaf = Line(door), Line(door)
    deaf.ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            deaf.ours.send(bytes(1 << 16))
    deaf.ours.setblocking(True)
    deaf.answer = lambda environ, why: other.ours.sendall(OTHER)  # type: ignore[method-assign]
    threading.Event().wait(2 * overdue._LATE)  # that it was sent something before is long ago
    deaf.awaited(late)
    assert other.hears() == OTHER
    other.client.settimeout(10 * MOMENT)
    with pytest.raises(TimeoutError):
        other.hears()


def test_many_who_stay_are_closed_together(door: socket.socket, late: overdue.Overdue) -> None:
    lines = [Line(door) for _ in range(5)]
    for line in lines:
        line.awaited(late)
    for line in lines:
        assert (line.hears(), line.hears()) == (LATE.body, b"")


def test_nothing_is_looked_at_while_nothing_is_awaited(
    door: socket.socket, late: overdue.Overdue
) -> None:
    goes, stays = Line(door), Line(door)
    goes.awaited(late)
    goes.client.close()
    while late._some.is_set():
        threading.Event().wait(MOMENT)
    stays.awaited(late)
    assert (stays.hears(), stays.hears()) == (LATE.body, b"")
