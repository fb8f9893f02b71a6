"""Threads for the blocking part of requests, called from an event loop.

``concurrent.futures.ThreadPoolExecutor`` keeps every thread it has started, so one busy minute
would cost the stacks of hundreds of threads permanently. Each of its calls also builds two futures,
a tenth of the cost of a cheap request. This pool serves one event loop only.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ironic_lite import errors

T = TypeVar("T")
_IDLE_SECONDS = 5.0
_PAUSE = 0.005
"""Seconds between two checks for idle threads."""
LATEST = 0.05
"""Longest delay in seconds of a result None of `ThreadPool.finish`."""


class ThreadPool:
    """A pool of threads; built, called and closed in its event loop.

    :param most: threads; further calls wait in order.
    :param idle_seconds: time after which an unused thread ends.
    """

    def __init__(self, most: int, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: list[Any] = []
        self._woken = False
        """True if the loop has been woken for waiting results."""
        self._adding = threading.Lock()
        # All three change only in the event loop, so they need no lock.
        self._threads = 0
        self._free = 0
        """Threads that wait for a call; below 0, the calls that wait for a thread."""
        self._unused = 0
        """The fewest free threads since the last check."""
        self._timer = self._loop.call_later(idle_seconds, self._trim_threads)
        self._late: asyncio.TimerHandle | None = None

    @property
    def threads(self) -> int:
        """The number of threads."""
        return self._threads

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in another thread; return its result or raise its exception.

        :raises errors.Unavailable: there is no thread, and the system refuses to start one.
        """
        return await self._call_in_thread(work, late=False)

    async def finish(self, work: Callable[[], T]) -> T:
        """Work like `run`, but return up to 50 ms later if the result is None.

        Waking the loop takes a large part of the time of a cheap request. Use this if None means
        that nothing is left to do; the next call delivers the result.
        """
        if self._late is None:
            self._late = self._loop.call_later(LATEST, self._settle_late)
        return await self._call_in_thread(work, late=True)

    def _call_in_thread(self, work: Callable[[], T], *, late: bool) -> asyncio.Future[T]:
        if self._done:
            self._deliver_results()
        if self._free <= 0 and self._threads < self._most:
            self._start_thread()
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.put((work, future, late))
        self._free -= 1
        self._unused = min(self._unused, self._free)
        return future

    async def drain(self, seconds: float) -> None:
        """Wait until no call is running, at most for ``seconds``."""
        until = self._loop.time() + seconds
        while self._free < self._threads and self._loop.time() < until:
            await asyncio.sleep(_PAUSE)
            self._deliver_results()
        # Lets the coroutines that wait for results continue before this returns.
        await asyncio.sleep(0)

    def close(self) -> None:
        """Make threads end once they have no work."""
        self._timer.cancel()
        if self._late is not None:
            self._late.cancel()
        self._end_threads(self._threads)

    def _start_thread(self) -> None:
        name = f"request-{self._threads}"
        try:
            threading.Thread(target=self._serve_calls, name=name, daemon=True).start()
        except RuntimeError as why:  # a limit of processes or of memory
            if self._threads:
                return  # the call waits for one of these
            raise errors.Unavailable(f"The service has no thread ({why}); retry later.") from None
        self._threads += 1
        self._free += 1

    def _serve_calls(self) -> None:
        calls, loop = self._calls, self._loop
        while (call := calls.get()) is not None:
            work, future, late = call
            value = error = None
            try:
                value = work()
            except BaseException as why:
                error = why
            with self._adding:
                self._done.append((future, value, error))
                # Waking the loop is expensive; only the first of several results does it.
                eager = not late or value is not None or error is not None
                wake = not self._woken and eager
                self._woken = self._woken or wake
            # Finished objects must not stay alive until the next call.
            del call, work, future, value, error
            if wake:
                try:
                    loop.call_soon_threadsafe(self._deliver_results)
                except RuntimeError:  # the loop is closed, so nothing waits for the result
                    return

    def _deliver_results(self) -> None:
        """Deliver all waiting results."""
        with self._adding:
            done, self._done, self._woken = self._done, [], False
        for future, value, error in done:
            self._free += 1
            if future.cancelled():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def _settle_late(self) -> None:
        self._deliver_results()
        waiting = self._free < self._threads
        self._late = self._loop.call_later(LATEST, self._settle_late) if waiting else None

    def _trim_threads(self) -> None:
        """End the threads that were not needed since the last check."""
        if self._unused > 0:
            self._end_threads(self._unused)
        self._unused = self._free
        self._timer = self._loop.call_later(self._idle_seconds, self._trim_threads)

    def _end_threads(self, count: int) -> None:
        self._threads -= count
        self._free -= count
        for _ in range(count):
            self._calls.put(None)
