"""Turns to write come in the order in which they were asked for, and none is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ironic_lite.db.turns import Complaints, Turns


def until(what: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_first_come_first_served() -> None:
    turns, served = Turns(), []

    def write(number: int) -> None:
        assert turns.acquire(30)
        served.append(number)
        turns.release()

    assert turns.acquire(0)
    threads = []
    for number in range(20):
        threads.append(threading.Thread(target=write, args=(number,)))
        threads[-1].start()
        until(lambda: len(turns._waiting) == len(threads))
    turns.release()
    for thread in threads:
        thread.join(30)
    assert served == list(range(20))
    assert turns.acquire(0)


def test_nobody_overtakes_who_waits() -> None:
    turns, came = Turns(), threading.Event()
    assert turns.acquire(0)

    def wait() -> None:
        assert turns.acquire(30)
        came.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: len(turns._waiting) == 1)
    turns.release()
    assert not turns.acquire(0)  # the turn is the other's, awake or not
    assert came.wait(30)
    turns.release()
    waiting.join(30)
    assert turns.acquire(0)


def test_who_gives_up_waiting_costs_nobody_a_turn() -> None:
    turns = Turns()
    assert turns.acquire(0)
    assert not turns.acquire(0.01)
    turns.release()
    assert turns.acquire(0)


def test_many_writers_exclude_each_other() -> None:
    turns, inside, most, done = Turns(), [0], [0], []

    def write() -> None:
        for _ in range(50):
            if turns.acquire(0.0005):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1
                turns.release()
        done.append(1)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (most[0], len(done)) == (1, 8)
    assert turns.acquire(0)


def test_a_fault_is_told_once_until_it_is_over() -> None:
    complaints = Complaints()
    assert complaints.new("disk full")
    assert not complaints.new("disk full")
    assert complaints.new("server gone")
    with complaints:
        pass
    assert complaints.new("disk full")
