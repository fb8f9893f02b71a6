"""Waits and streams as coroutines of one event loop, with one reader for all of them.

While somebody waits or follows, the process looks at the event table twice a second, and ten times
a second for a while after each change. Idle processes do not look at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import orjson

from ironic_lite import errors
from ironic_lite.api.feed.events import Event, Filter
from ironic_lite.api.feed.tail import PAGE, News, Tail
from ironic_lite.api.wire.later import Stream, Suspension
from ironic_lite.core import metrics
from ironic_lite.core.configuration import Configuration

LOG = logging.getLogger(__name__)

T = TypeVar("T")

QUIET_SECONDS = 0.5
"""Time between two looks."""
BUSY_SECONDS = 0.1
"""Time between two looks for `_BUSY_FOR` seconds after a change."""
_BUSY_FOR = 10.0
_LONGEST_LOOK = 5.0
"""Seconds after which a waiting request looks again in any case."""
BOOKMARK_SECONDS = 15.0
"""Time without an event after which a stream gets a line with the cursor alone."""
_CHUNK = 64 * 1024
"""Bytes after which a chunk of lines is complete."""
STREAM_BYTES = 4 * 1024 * 1024
"""Bytes after which a stream ends, and the client continues with its cursor.

granian takes every chunk at once and keeps it until the client reads it. It does not report how
much it keeps, so all that a stream has sent may be in memory.
"""
ALL_BYTES = 256 * 1024 * 1024
"""Bytes that all streams of the process may have sent, before the next one to send ends."""
HEADERS = [
    ("Content-Type", "application/x-ndjson"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),
]


class Run(Protocol):
    """Runs a blocking function in a thread: `thread_pool.ThreadPool.run`."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """Return the function's result."""


class Transport(Protocol):
    """The part of RSGI's stream object that this module uses."""

    async def send_bytes(self, data: bytes) -> None:
        """Send a chunk; return when the server takes the next one."""


class Watchers:
    """The waiting requests and the streams of a process; used in its event loop only.

    :param run: runs a blocking function in a thread.
    """

    def __init__(self, tail: Tail, run: Run, conf: Configuration) -> None:
        self._tail = tail
        self._run = run
        self._most = int(conf.api.max_watchers)
        self._stream_seconds = float(conf.api.stream_seconds)
        self._count = 0
        self._ticker: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._by_node: dict[str, set[asyncio.Event]] = {}
        self._by_filter: dict[asyncio.Event, Callable[[Event], bool]] = {}
        self._streams: dict[asyncio.Event, _Sender] = {}
        self._closing = False
        self._behind = False
        self._shared: dict[tuple[Filter, int, int], _Lines] = {}

    @property
    def count(self) -> int:
        """The number of waiting requests and streams."""
        return self._count

    @contextlib.contextmanager
    def place(self, kind: str) -> Iterator[None]:
        """Count a waiting request or a stream for the length of the block.

        :param kind: ``wait`` or ``stream``, for the metrics.
        :raises errors.TooManyRequests: there are too many.
        """
        if self._count >= self._most:
            raise errors.TooManyRequests(limit=self._most, option="max_watchers")
        self._count += 1
        metrics.BOARD.count("watches_total", kind)
        if self._ticker is None:
            self._ticker = self._loop.create_task(self._tick())
        try:
            yield
        finally:
            self._count -= 1

    async def close(self) -> None:
        """End all streams and waits: they send their last line or answer."""
        self._closing = True
        self._wake_all()
        until = self._loop.time() + 0.5
        while self._count and self._loop.time() < until:
            await asyncio.sleep(0.01)
        if self._ticker is not None:
            self._ticker.cancel()

    # -- the reader --------------------------------------------------------------------------

    async def _tick(self) -> None:
        """Look at the table while anybody waits."""
        busy_until = 0.0
        try:
            while self._count and not self._closing:
                news = await self._look()
                if news is not None:
                    self._dispatch(news)
                    if news.seen:
                        busy_until = self._loop.time() + _BUSY_FOR
                if news is None or not news.more:
                    busy = self._loop.time() < busy_until
                    await asyncio.sleep(BUSY_SECONDS if busy else QUIET_SECONDS)
        finally:
            self._ticker = None
            self._shared.clear()

    async def _look(self) -> News | None:
        try:
            news = await self._run(self._tail.look)
        except errors.Unavailable as why:
            if not self._behind:
                LOG.warning("Cannot follow the event table: %s", why)
            self._behind = True
            self._wake_all()
            return None
        self._behind = False
        return news

    def _dispatch(self, news: News) -> None:
        if news.settled:
            self._shared.clear()
        for event in news.seen:
            for waiter in self._by_node.get(event.row["node_uuid"], ()):
                waiter.set()
        for waiter, accepts in self._by_filter.items():
            if not waiter.is_set() and any(map(accepts, news.settled)):
                waiter.set()
        if news.settled:
            for waiter in self._streams:
                waiter.set()

    def _wake_all(self) -> None:
        for waiters in self._by_node.values():
            for waiter in waiters:
                waiter.set()
        for waiter in (*self._by_filter, *self._streams):
            waiter.set()

    # -- waits -------------------------------------------------------------------------------

    async def wait(
        self, suspension: Suspension, again: Callable[[], Awaitable[Suspension | None]]
    ) -> bool:
        """Handle a suspended request again after each change, until it is answered.

        :param again: handles the request; returns None once it is answered.
        :return: False if the process stops before the answer.
        """
        with self._waiter(suspension) as waiter:
            left: Suspension | None = suspension
            # The row may have changed before the waiter was registered, so the first pause is 0.
            pause = 0.0
            while left is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(waiter.wait(), pause)
                waiter.clear()
                left = await again()
                if left is not None:
                    if self._closing:
                        return False
                    pause = min(_LONGEST_LOOK, max(left.seconds, 0.0))
        return True

    @contextlib.contextmanager
    def _waiter(self, suspension: Suspension) -> Iterator[asyncio.Event]:
        waiter = asyncio.Event()
        node, accepts = suspension.node, suspension.accepts
        if node is not None:
            self._by_node.setdefault(node, set()).add(waiter)
        if accepts is not None:
            self._by_filter[waiter] = accepts
        try:
            yield waiter
        finally:
            self._by_filter.pop(waiter, None)
            if node is not None:
                self._by_node[node].discard(waiter)
                if not self._by_node[node]:
                    del self._by_node[node]

    # -- streams -----------------------------------------------------------------------------

    async def stream(self, stream: Stream, transport: Transport) -> None:
        """Send events until the client leaves, or a limit of the stream is reached."""
        sender = _Sender(transport)
        waiter = asyncio.Event()
        self._streams[waiter] = sender
        try:
            await self._follow(stream, sender, waiter)
        finally:
            del self._streams[waiter]

    async def _follow(self, stream: Stream, sender: _Sender, waiter: asyncio.Event) -> None:
        cursor, left = stream.after, stream.limit
        until = self._loop.time() + self._stream_seconds * random.uniform(0.9, 1.1)
        while True:
            waiter.clear()
            try:
                found = await self._following(stream, cursor)
            except errors.Unavailable:
                self._behind = True
                found = _Lines([], cursor, more=False)
            lines = found.lines if left is None else found.lines[:left]
            taken = await sender.send(lines)
            left = None if left is None else left - taken
            whole = taken == len(found.lines)
            cursor = found.cursor if whole else lines[taken - 1][0]
            end = self._end(left, until, sender)
            if end is not None:
                await sender.bookmark(cursor, end)
                return
            if sender.silent >= BOOKMARK_SECONDS:
                await sender.bookmark(cursor)
            if not found.more:
                pause = min(until - self._loop.time(), BOOKMARK_SECONDS - sender.silent)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(waiter.wait(), max(0.0, pause))

    def _end(self, left: int | None, until: float, sender: _Sender) -> str | None:
        """Return why a stream ends now, or None."""
        if left == 0:
            return "limit"
        if sender.full or sum(one.bytes for one in self._streams.values()) > ALL_BYTES:
            return "size"
        if self._closing:
            return "closing"
        if self._behind:
            return "behind"
        return "time" if self._loop.time() >= until else None

    async def _following(self, stream: Stream, cursor: int) -> _Lines:
        """Return the lines that follow a cursor; equal streams share them."""
        settled = self._tail.settled
        if cursor >= settled:
            return _Lines([], cursor, more=False)
        key = (stream.choice, cursor, settled)
        known = self._shared.get(key)
        if known is None or stream.skipped:
            known = await self._read(stream.choice, cursor, settled)
            if stream.skipped:
                lines = [line for line in known.lines if line[0] not in stream.skipped]
                return known._replace(lines=lines)
            self._shared[key] = known
        return known

    async def _read(self, choice: Filter, cursor: int, settled: int) -> _Lines:
        events = self._tail.events(cursor, settled)
        if events is not None:
            lines = [(event.id, event.line) for event in events if choice.accepts(event)]
            return _Lines(lines, settled, more=False)

        older = await self._run(lambda: self._tail.page(choice, after=cursor, upto=settled))
        full = len(older) == PAGE
        lines = [(event.id, event.line) for event in older]
        return _Lines(lines, lines[-1][0] if full else settled, more=full)


class _Lines(NamedTuple):
    """Lines with their ids, the cursor after them, and whether more can be read at once."""

    lines: list[tuple[int, bytes]]
    cursor: int
    more: bool


class _Sender:
    """Sends the lines of one stream, up to `STREAM_BYTES`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._last = time.monotonic()
        self.bytes = 0
        """Bytes sent so far."""

    @property
    def silent(self) -> float:
        """Seconds since the last line."""
        return time.monotonic() - self._last

    @property
    def full(self) -> bool:
        """True if the stream must end."""
        return self.bytes >= STREAM_BYTES

    async def send(self, lines: Sequence[tuple[int, bytes]]) -> int:
        """Send lines in chunks; return how many were sent before the stream was full."""
        taken = 0
        for count, chunk in _chunks(lines):
            if self.full:
                break
            await self._send(chunk)
            taken += count
        return taken

    async def bookmark(self, cursor: int, end: str | None = None) -> None:
        """Send a line with the cursor alone, or the last line of the stream."""
        line = {"cursor": str(cursor)} | ({"end": end} if end else {})
        await self._send(orjson.dumps(line) + b"\n")

    async def _send(self, chunk: bytes) -> None:
        await self._transport.send_bytes(chunk)
        self.bytes += len(chunk)
        self._last = time.monotonic()


def _chunks(lines: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Join lines to chunks of up to 64 KiB; yield each with the number of its lines."""
    gathered: list[bytes] = []
    size = 0
    for _, line in lines:
        if gathered and size + len(line) > _CHUNK:
            yield len(gathered), b"".join(gathered)
            gathered, size = [], 0
        gathered.append(line)
        size += len(line)
    if gathered:
        yield len(gathered), b"".join(gathered)
