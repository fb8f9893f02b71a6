"""Turns to write come to all who wait, in their order, and none is lost."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from ironic_lite.db.engine import fair_lock as module
from ironic_lite.db.engine.fair_lock import FairLock


def until(what: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_threads_get_the_lock_in_their_order() -> None:
    turns, served = FairLock(), []

    def write(number: int) -> None:
        assert turns.acquire(30)
        served.append(number)
        turns.release()

    assert turns.acquire(0)
    threads = []
    for number in range(20):
        threads.append(threading.Thread(target=write, args=(number,)))
        threads[-1].start()
        until(lambda: turns.waiting == len(threads))
    turns.release()
    for thread in threads:
        thread.join(30)
    assert served == list(range(20))
    assert turns.acquire(0)


def _waits(turns: FairLock) -> tuple[threading.Thread, threading.Event]:
    """Let somebody wait for a turn, take it and give it back."""
    came = threading.Event()

    def wait() -> None:
        assert turns.acquire(30)
        came.set()
        turns.release()

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: turns.waiting == 1)
    return thread, came


def test_thread_that_has_waited_long_is_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BRIEF_PATIENCE", 0.0)
    turns = FairLock()
    assert turns.acquire(0)
    waiting, came = _waits(turns)
    turns.release()
    taken = turns.acquire(0)
    assert not taken or came.is_set()  # the turn was the other's, awake or not
    assert came.wait(30)
    waiting.join(30)
    if taken:
        turns.release()
    assert turns.acquire(0)


def test_overtaken_thread_gets_the_lock_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BRIEF_PATIENCE", 3600.0)
    turns = FairLock()
    assert turns.acquire(0)
    waiting, came = _waits(turns)
    with turns._guard:  # as if who gives it back took it again before the other has woken
        turns._high[0].rung = True
        turns._high[0].bell.release()
    until(lambda: not turns._high[0].rung)
    assert not came.is_set()
    turns.release()
    assert came.wait(30)
    waiting.join(30)
    assert turns.acquire(0)


def _served(turns: FairLock, low: Sequence[bool]) -> list[int]:
    """Let threads wait in this order, low for low priority; return the order of their turns."""
    served: list[int] = []

    def write(number: int) -> None:
        with module.low_priority() if low[number] else contextlib.nullcontext():
            assert turns.acquire(30)
            served.append(number)
            turns.release()

    assert turns.acquire(0)
    threads = []
    for number in range(len(low)):
        threads.append(threading.Thread(target=write, args=(number,)))
        threads[-1].start()
        until(lambda: turns.waiting == len(threads))
    turns.release()
    for thread in threads:
        thread.join(30)
    return served


def test_work_in_the_background_waits_behind_clients() -> None:
    assert _served(FairLock(), [True, True, False, False]) == [2, 3, 0, 1]


def test_work_in_the_background_gets_a_share_beside_many_clients() -> None:
    served = _served(FairLock(), [True, True, *[False] * 10])
    places = [served.index(number) for number in (0, 1)]
    assert places[0] <= module.SHARE and places[1] <= 2 * module.SHARE + 1


def test_several_places_are_handed_on_at_once() -> None:
    turns = FairLock(2)
    assert turns.acquire(0) and turns.acquire(0) and not turns.acquire(0)
    waiting, came = _waits(turns)
    turns.release()
    assert came.wait(30)
    waiting.join(30)
    turns.release()
    assert turns.acquire(0) and turns.acquire(0) and not turns.acquire(0)


def test_work_in_the_background_leaves_places_for_clients() -> None:
    turns = FairLock(3, low_places=2)
    with module.low_priority():
        assert turns.acquire(0) and turns.acquire(0) and not turns.acquire(0)
    assert turns.acquire(0) and not turns.acquire(0)
    with module.low_priority():
        turns.release()
    turns.release()
    assert turns.acquire(0) and turns.acquire(0) and not turns.acquire(0)


def test_place_of_low_priority_goes_to_the_next_of_low_priority() -> None:
    turns, came = FairLock(3, low_places=1), threading.Event()

    def wait() -> None:
        with module.low_priority():
            assert turns.acquire(30)
            came.set()
            turns.release()

    with module.low_priority():
        assert turns.acquire(0)
    assert turns.acquire(0)
    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: turns.waiting == 1)
    turns.release()
    assert not came.wait(0.05)
    with module.low_priority():
        turns.release()
    assert came.wait(30)
    thread.join(30)


def test_thread_that_gives_up_does_not_block_the_lock() -> None:
    turns = FairLock()
    assert turns.acquire(0)
    assert not turns.acquire(0.01)
    turns.release()
    assert turns.acquire(0)


def test_many_writers_exclude_each_other() -> None:
    turns, inside, most, done = FairLock(), [0], [0], []

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
