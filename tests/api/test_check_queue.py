"""Who has failed least is checked first; nobody waits in vain for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ironic_lite.api.auth import check_queue, failures
from ironic_lite.api.auth.check_queue import CheckQueue, Full, Rank


class Callers:
    """Threads that ask for a place, and write down the order in which they get it."""

    def __init__(self, queue: CheckQueue) -> None:
        self.queue = queue
        self.order: list[str] = []
        self.threads: list[threading.Thread] = []

    def come(self, name: str, rank: Rank, waiting: int, *, doubtful: bool = False) -> None:
        """Have a caller ask, and return when ``waiting`` callers wait."""

        def ask() -> None:
            try:
                with self.queue.place(rank, doubtful=doubtful):
                    self.order.append(name)
            except Full:
                self.order.append(f"{name} refused")

        self.threads.append(threading.Thread(target=ask))
        self.threads[-1].start()
        until(lambda: self.queue.waiting == waiting)

    def end(self) -> list[str]:
        for each in self.threads:
            each.join(60)
        return self.order


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_callers_that_failed_least_go_first() -> None:
    callers = Callers(check_queue.CheckQueue(1, 10, 60.0))
    with callers.queue.place((0,), doubtful=False):
        for number, (name, rank) in enumerate([("c", 9), ("a", 0), ("d", 9), ("b", 1)], 1):
            callers.come(name, (rank,), number)
    assert callers.end() == ["a", "b", "c", "d"]


def test_a_full_queue_refuses_who_goes_last() -> None:
    callers = Callers(check_queue.CheckQueue(1, 2, 60.0))
    with callers.queue.place((0,), doubtful=False):
        callers.come("flood", (9,), 1)
        callers.come("other", (5,), 2)
        callers.come("user", (0,), 2)
        until(lambda: callers.order == ["flood refused"])
        with pytest.raises(Full), callers.queue.place((9,), doubtful=False):
            pass
    assert callers.end() == ["flood refused", "user", "other"]


def test_callers_that_failed_often_get_one_slot_at_most() -> None:
    callers = Callers(check_queue.CheckQueue(2, 10, 60.0))
    with callers.queue.place((9,), doubtful=True):
        callers.come("flood", (9,), 1, doubtful=True)
        callers.come("user", (9,), 1)
        until(lambda: callers.order == ["user"])
    assert callers.end() == ["user", "flood"]


def test_a_caller_who_waits_for_too_long_is_refused() -> None:
    queue = check_queue.CheckQueue(1, 10, 0.0)
    with queue.place((0,), doubtful=False):
        with pytest.raises(Full), queue.place((0,), doubtful=False):
            pass
        assert queue.waiting == 0
    with queue.place((0,), doubtful=False):
        pass


def test_failures_are_forgotten_after_a_minute_and_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "_MOST", 3)
    now = [0.0]
    counted = failures.Failures(lambda: now[0])
    counted.note("a", "b")
    counted.note("a", "c")
    counted.note("d")
    assert [counted.count(key) for key in "abcd"] == [2, 0, 1, 1]
    now[0] = 60.0
    assert [counted.count(key) for key in "abcd"] == [0, 0, 0, 0]
