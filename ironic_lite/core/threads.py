"""The threads of a process: native ones for the oslo libraries, and pools of threads."""

from __future__ import annotations

import collections
import contextlib
import importlib
import itertools
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator

# Native threads for the oslo libraries, chosen before the first is imported.
#
# Entry points and the tests call `native` as their first statement; library
# modules never do.
#
# An entry in ``sys.modules`` keeps eventlet from being imported. The public function
# ``oslo_service.backend.init_backend(THREADING)`` is not enough: oslo.messaging, oslo.utils and
# oslo.service's own modules import eventlet wherever it is installed, and oslo.service requires it.
# With eventlet, an idle ``ironic-lite`` takes 158 MiB PSS instead of 122, and a start takes 0.4 s
# more of 2.5 s processor time (oslo.messaging 18.3, oslo.service 4.8, eventlet 0.41). A test fails
# when the libraries stop importing eventlet: the entry can go then.


def native() -> None:
    """Keep eventlet out of this process and select oslo.service's threading backend.

    Repeated calls are harmless. In a program that has loaded eventlet or chosen a backend before,
    the loaded module and the chosen backend stay.
    """
    if "eventlet" not in sys.modules:
        # None makes `import eventlet` an ImportError, which the oslo libraries are prepared for.
        sys.modules["eventlet"] = None  # type: ignore[assignment]
    # Imported here and not above, because eventlet must be masked first.
    backend = importlib.import_module("oslo_service.backend")
    if backend.get_backend_type() is None:
        backend.init_backend(backend.BackendType.THREADING)


# A pool of threads that gives work to the thread which has worked last.
#
# The data of that thread are still in the caches of the processor. If all threads take turns, as in
# ``concurrent.futures``, a short piece of work takes up to twice the CPU time.

LOG = logging.getLogger(__name__)

Work = Callable[[], None]
IDLE_SECONDS = 60.0
"""Time after which a thread without work ends."""
_MOST_TOGETHER = 32
"""Threads of one call of `run_within`."""

_HERE = threading.local()


@contextlib.contextmanager
def deferring() -> Iterator[list[Work]]:
    """Let the block leave one piece of work, by `defer`, to this thread; the caller runs it."""
    _HERE.deferred = deferred = list[Work]()
    try:
        yield deferred
    finally:
        _HERE.deferred = None


def defer(work: Work) -> bool:
    """Leave work to this thread, for the end of its call; return False if that is not possible.

    No other thread has to be woken, which takes longer than a short call.
    """
    deferred: list[Work] | None = getattr(_HERE, "deferred", None)
    if deferred is None or deferred:
        return False
    deferred.append(work)
    return True


Seat = queue.SimpleQueue[Work | None]
"""The place where one thread waits for work; None ends the thread."""


class WarmPool:
    """Runs pieces of work, each in one of its threads, which start when first needed.

    While the system refuses another thread, work waits in order for the threads that there are.

    :param most: threads; further work waits in order.
    :param name: begin of the threads' names.
    """

    def __init__(self, most: int, name: str, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._most = most
        self._name = name
        self._idle_seconds = idle_seconds
        self._guard = threading.Lock()
        self._ended = threading.Condition(self._guard)
        self._idle: list[Seat] = []
        self._waiting: collections.deque[Work] = collections.deque()
        # The number of threads.
        self.threads = 0
        self._numbers = itertools.count()
        self._outside = 0  # threads that have stepped out
        # True if new work is refused.
        self.closed = False

    @property
    def idle(self) -> int:
        """The number of threads without work."""
        return len(self._idle)

    def run(self, work: Work) -> None:
        """Run ``work`` in a thread; an exception that it raises is logged.

        :raises RuntimeError: the pool is closed, or the system refuses the first thread.
        """
        with self._guard:
            if self.closed:
                raise RuntimeError(f"The pool of threads {self._name} is closed")
            if self._idle:
                self._idle.pop().put(work)
                return
            self._waiting.append(work)
            if self.threads < self._most:
                self._try_to_start()

    def step_out(self, work: Work) -> None:
        """Run work of another pool in this thread; another thread may take its place meanwhile."""
        with self._guard:
            self.threads -= 1
            self._outside += 1
            if self._waiting:
                self._try_to_start()
            self._ended.notify_all()
        try:
            work()
        finally:
            with self._guard:
                self.threads += 1
                self._outside -= 1

    def close(self) -> None:
        """Refuse new work, and forget work that waits; running work continues."""
        with self._guard:
            self._waiting.clear()
            self._ended.notify_all()
        self.drain(0)

    def drain(self, seconds: float | None = None) -> bool:
        """Refuse new work and wait for all other work; return whether it has ended.

        :param seconds: the longest wait; None waits without limit.
        """
        with self._guard:
            self.closed = True
            idle, self._idle = self._idle, []
            for seat in idle:
                seat.put(None)
            return self._ended.wait_for(lambda: self.threads == 0 and not self._waiting, seconds)

    def _try_to_start(self) -> None:
        """Start a thread for the oldest work that waits; without a thread, it waits in its place.

        :raises RuntimeError: there is no other thread either; the only work that waits is dropped.
        """
        seat, name = Seat(), f"{self._name}-{next(self._numbers)}"
        seat.put(self._waiting[0])  # an argument would stay alive as long as the thread
        try:
            threading.Thread(target=self._serve, args=(seat,), name=name, daemon=True).start()
        except RuntimeError:  # a limit of processes or of memory
            if not self.threads and not self._outside:
                self._waiting.popleft()
                raise
            return
        self._waiting.popleft()
        self.threads += 1

    def _serve(self, seat: Seat) -> None:
        work = seat.get()
        while work is not None:
            try:
                work()
            except BaseException:  # work that waits needs this thread
                LOG.exception("A thread of the pool %s has caught an error", self._name)
            work = None  # finished objects must not stay alive until the next work
            work = self._next_work(seat)

    def _next_work(self, seat: Seat) -> Work | None:
        """Return the next work of this thread, or None, which ends it."""
        with self._guard:
            surplus = self.threads > self._most  # another thread took the place of this one
            if self._waiting and not surplus:
                return self._waiting.popleft()
            if surplus or self.closed:
                self._end_thread()
                return None
            self._idle.append(seat)
        try:
            work = seat.get(timeout=self._idle_seconds)
        except queue.Empty:
            with self._guard:
                if seat in self._idle:
                    self._idle.remove(seat)
                    self._end_thread()
                    return None
            work = seat.get()  # it, or the end of the pool, came just now
        if work is None:
            with self._guard:
                self._end_thread()
        return work

    def _end_thread(self) -> None:
        """Stop counting this thread, under the same guard as the decision that it ends.

        Otherwise new work could wait for a thread that ends without looking for it.
        """
        self.threads -= 1
        self._ended.notify_all()


def run_within(acts: Iterable[Callable[[], object]], seconds: float, name: str) -> bool:
    """Run functions in parallel; return True if all have ended in time without an error.

    A function that hangs delays the caller no longer than that, and continues in the background
    until the process ends. Functions that are not begun in time are dropped, and errors are logged.
    If the system has no more threads, the caller's thread runs the functions; then the last one
    that begins in time may exceed it.

    :param seconds: the time.
    :param name: of the work, for the threads and the log.
    """
    left = collections.deque(acts)
    results: list[bool] = []  # grows in many threads, which needs no lock
    count, end = len(left), time.monotonic() + seconds

    def work() -> None:
        with contextlib.suppress(IndexError):
            act = left.popleft()  # the first one is begun however late
            while True:
                results.append(_succeeds(act, name))
                if time.monotonic() >= end:
                    return
                act = left.popleft()

    threads = list[threading.Thread]()
    with contextlib.suppress(RuntimeError):  # the system has no more threads
        for _ in range(min(_MOST_TOGETHER, count)):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            threads.append(thread)
    if not threads:
        work()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return results.count(True) == count


def _succeeds(act: Callable[[], object], name: str) -> bool:
    try:
        act()
    except Exception:
        LOG.exception("A part of the %s failed", name)
        return False
    return True
