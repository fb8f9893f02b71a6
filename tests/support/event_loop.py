"""An asyncio loop in a thread of its own, for tests that talk to servers by blocking calls."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 60.0


class Loop:
    """The loop; its methods are called by other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def call(self, act: Callable[[], T]) -> T:
        """Return the result of a call in the thread of the loop."""

        async def work() -> T:
            return act()

        return self.wait(work())


@contextlib.contextmanager
def running() -> Iterator[Loop]:
    """Run a loop until the end of the block; its tasks are cancelled then."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield Loop(loop)
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
