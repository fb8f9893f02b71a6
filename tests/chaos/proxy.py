"""A way to a server, on TCP, on which connections are cut, stalled, or lost in mid-commit."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator

from tests.support.ports import HOST, free_port

_CHUNK = 1 << 16
_PATIENCE = 20.0
COMMIT = b"COMMIT"


class Proxy:
    """One port of our own before another; everything passes until something is done to it."""

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self.commits_lost = 0
        self._to = port
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._losing: tuple[int, bool] = (0, False)
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        self._do(self._listen)

    def close(self) -> None:
        """Cut everything and listen no more."""
        self._do(self._end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    # -- what is done to it ------------------------------------------------------------------

    def cut(self) -> int:
        """Cut all connections there are; return how many."""
        return self._do(self._cut)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Let nothing through, without a word, for the length of a block."""
        self._call(self._flows.clear)
        try:
            yield
        finally:
            self._call(self._flows.set)

    def lose_commits(self, count: int, *, done: bool) -> None:
        """Cut so many connections at their next COMMIT: behind it (``done``) or before it."""
        self._losing = (count, done)

    # -- inside ------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _do(self, act: Callable[[], Awaitable[int]]) -> int:
        async def run() -> int:
            return await act()

        future: concurrent.futures.Future[int] = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return future.result(_PATIENCE)

    def _call(self, act: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(act)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        return 0

    async def _end(self) -> int:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        return await self._cut()

    async def _cut(self) -> int:
        cut = list(self._open)
        for writer in cut:
            writer.transport.abort()
        self._open.clear()
        return len(cut) // 2

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self._to)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._open |= pair
        state = {"lost": False}
        ways = (
            self._pump(reader, far_writer, pair, state, asks=True),
            self._pump(far_reader, writer, pair, state, asks=False),
        )
        for way in ways:
            task = asyncio.ensure_future(way)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pair: set[asyncio.StreamWriter],
        state: dict[str, bool],
        *,
        asks: bool,
    ) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(_CHUNK):
                await self._flows.wait()
                if not asks and state["lost"]:
                    break  # the answer to a COMMIT that was carried out
                if asks and self._loses(data):
                    state["lost"] = True
                    if not self._losing[1]:
                        break
                writer.write(data)
                await writer.drain()
        self._open -= pair
        for one in pair:
            one.transport.abort()

    def _loses(self, data: bytes) -> bool:
        left, done = self._losing
        if not left or COMMIT not in data:
            return False
        self._losing = (left - 1, done)
        self.commits_lost += 1
        return True


@contextlib.contextmanager
def before(port: int) -> Iterator[Proxy]:
    """Give a proxy before a port."""
    proxy = Proxy(port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
