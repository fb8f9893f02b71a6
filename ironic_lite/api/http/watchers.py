"""Requests that wait for a change, and streams of events and texts.

They are answered from the rows that each change writes in its own transaction (`feed`). A process
keeps nothing that must survive it: the position of a client is its cursor.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import orjson

from ironic_lite import errors
from ironic_lite.api.http.request import Piece, Stream, Suspension, TextStream
from ironic_lite.core import clock, log_lines, metrics
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import Configuration
from ironic_lite.domain import run_log
from ironic_lite.feed import PAGE, Event, Filter, NewEvents, Tail

# The lines of one stream, sent in bounded chunks.

_CHUNK = 64 * 1024
"""Bytes after which a chunk of lines is complete."""
STREAM_BYTES = 1024 * 1024
"""Bytes after which a stream ends, and the client continues with its cursor.

granian takes every chunk at once and keeps it until the client reads it. It does not report how
much it keeps, so all that a stream has sent may be in memory.
"""


class Transport(Protocol):
    """The part of RSGI's stream object that a stream uses."""

    async def send_bytes(self, data: bytes) -> None:
        """Send a chunk; return when the server takes the next one."""


def bookmark(cursor: int, *, end: str | None = None, trimmed: bool = False) -> bytes:
    """Return a line without an event.

    :param end: the reason, in the last line of a stream.
    :param trimmed: events after the cursor have been removed.
    """
    line: Json = {"cursor": str(cursor)}
    if trimmed:
        line["trimmed"] = True
    if end is not None:
        line["end"] = end
    return orjson.dumps(line) + b"\n"


class Sender:
    """Sends the lines of one stream, up to `STREAM_BYTES`.

    :param removed: the largest id of a removed event at the start of the stream.
    """

    def __init__(self, transport: Transport, removed: int) -> None:
        self._transport = transport
        self._last = time.monotonic()
        self.bytes = 0
        """Bytes sent so far."""
        self.counted = 0
        """Bytes that `count` has returned."""
        self.behind = False
        """True if the database could not be read."""
        self.removed = removed
        """The largest id of a removed event, as far as the client was told."""

    @property
    def silent(self) -> float:
        """Seconds since the last line."""
        return time.monotonic() - self._last

    @property
    def full(self) -> bool:
        """True if the stream must end."""
        return self.bytes >= STREAM_BYTES

    def count(self) -> int:
        """Return the bytes sent since the last call."""
        more = self.bytes - self.counted
        self.counted = self.bytes
        return more

    async def send(self, lines: Sequence[tuple[int, bytes]]) -> int:
        """Send lines in chunks; return how many were sent before the stream was full."""
        taken = 0
        for count, chunk in _chunks(lines):
            if self.full:
                break
            await self._send(chunk)
            taken += count
        return taken

    async def bookmark(self, cursor: int, *, end: str | None = None, trimmed: bool = False) -> None:
        """Send a line without an event; see `bookmark`."""
        await self._send(bookmark(cursor, end=end, trimmed=trimmed))

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


# Streams of a growing text, such as the log of a run.
#
# A stream ends with its text, or as a stream of events does; then its last line says so, and the
# client asks again. An empty line after `SILENT_SECONDS` shows that the connection lives.

TEXT_HEADERS = [
    ("Content-Type", "text/plain; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),
    ("X-Content-Type-Options", "nosniff"),
]
SILENT_SECONDS = 15.0
LOOK_SECONDS = 5.0
"""Longest time between two reads, because lines may be stored without an event."""


class Progress:
    """The bytes and the time that one stream has used.

    :param seconds: its longest life.
    :param login_seconds: the time until the login of the caller ends.
    """

    def __init__(self, seconds: float, login_seconds: float = math.inf) -> None:
        self._until = time.monotonic() + seconds
        self._login = time.monotonic() + login_seconds
        self._last = time.monotonic()
        self.bytes = 0
        """Bytes sent so far."""
        self.counted = 0
        """Bytes that `count` has returned."""

    def count(self) -> int:
        """Return the bytes sent since the last call."""
        more = self.bytes - self.counted
        self.counted = self.bytes
        return more

    def chunk(self, text: str) -> bytes:
        """Return the next bytes to send, which may be none; an empty line after long silence."""
        if not text and time.monotonic() - self._last < SILENT_SECONDS:
            return b""
        self._last = time.monotonic()
        data = (text or "\n").encode()
        self.bytes += len(data)
        return data

    def end(self, *, closing: bool = False, full: bool = False) -> str | None:
        """Return why the stream ends before its text, or None.

        :param full: all streams of the process have sent too much, and this one has to end.
        """
        if time.monotonic() >= self._login:
            return "login"
        if closing:
            return "closing"
        if full or self.bytes >= STREAM_BYTES:
            return "size"
        return "time" if time.monotonic() >= self._until else None


def last_text_line(end: str) -> bytes:
    """Return the last line of a stream that ends before its text."""
    text = f"(this stream ends: {end}; ask again to go on)"
    return f"{run_log.line(clock.now(), run_log.RUN, text)}\n".encode()


async def send(
    stream: TextStream,
    transport: Transport,
    progress: Progress,
    *,
    read: Callable[[Callable[[], Piece]], Awaitable[Piece]],
    waiter: asyncio.Event,
    end: Callable[[], str | None],
) -> None:
    """Send a text until it ends, the client leaves, or a limit is reached.

    :param read: runs a blocking function in a thread.
    :param waiter: set when there may be more to read, or when the process stops.
    :param end: returns why the stream ends before its text, or None.
    """
    while True:
        waiter.clear()
        try:
            piece = await read(stream.read)
        except errors.Unavailable:
            await transport.send_bytes(last_text_line("behind"))
            return
        if chunk := progress.chunk(piece.text):
            await transport.send_bytes(chunk)
        if piece.last:
            return
        if (reason := end()) is not None:
            await transport.send_bytes(last_text_line(reason))
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(waiter.wait(), LOOK_SECONDS)


# Waits and streams as coroutines of one event loop, with one reader for all of them.
#
# While somebody waits or follows, the process looks at the event table twice a second, and ten
# times a second for a while after each change. Idle processes do not look at all.

LOG = logging.getLogger(__name__)

T = TypeVar("T")
Key = TypeVar("Key")

QUIET_SECONDS = 0.5
"""Time between two looks."""
BUSY_SECONDS = 0.1
"""Time between two looks for `_BUSY_FOR` seconds after a change."""
_BUSY_FOR = 10.0
LONGEST_LOOK = 30.0
"""Seconds after which a waiting request is handled again in any case."""
FAULT_PAUSE = 5.0
"""Seconds between two looks while the table cannot be read."""
_MOST_HANDLED = 16
"""Waiting requests that are handled again at once; the other slots stay for ordinary requests."""
_MOST_PAGES = 4
"""Pages that streams read from the table at once."""
_SHARE, _LEAST_SHARE = 4, 16
"""One address may have a quarter of the places, or 16."""
_OF_PROJECTS = "all projects"
BOOKMARK_SECONDS = 15.0
"""Time without an event after which a stream gets a line with the cursor alone."""
ALL_BYTES = 256 * 1024 * 1024
"""Bytes that all streams of the process may have sent, before the next one to send ends."""
EVENT_HEADERS = [
    ("Content-Type", "application/x-ndjson"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),
]


class Run(Protocol):
    """Runs a blocking function in a thread: `server.ThreadPool.run`."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """Return the function's result."""


class Watchers:
    """The waiting requests and the streams of a process; used in its event loop only.

    :param run: runs a blocking function in a thread.
    """

    def __init__(self, tail: Tail, run: Run, conf: Configuration) -> None:
        self._tail = tail
        self._run = run
        self._most = int(conf.api.max_watchers)
        self._most_of_one = max(self._most // _SHARE, _LEAST_SHARE)
        self._most_of_projects = max(self._most * 3 // 4, 1)
        self._most_of_project = max(self._most // 2, 1)
        self._stream_seconds = float(conf.api.stream_seconds)
        # The number of waiting requests and streams.
        self.count = 0
        self._sources: collections.Counter[str] = collections.Counter()
        self._ticker: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._by_node: dict[str, set[asyncio.Event]] = {}
        self._by_choice: dict[Filter, set[asyncio.Event]] = {}
        self._streams: dict[asyncio.Event, Sender] = {}
        self._texts = 0
        # The bytes that the present streams have sent.
        self.sent = 0
        self._handling = asyncio.Semaphore(_MOST_HANDLED)
        self._paging = asyncio.Semaphore(_MOST_PAGES)
        self._closing = False
        self._busy_until = 0.0
        self._shared: dict[tuple[Filter, int, int], _Lines] = {}
        self._complaints = log_lines.LogThrottle()

    @contextlib.contextmanager
    def place(self, kind: str, source: str, project: str | None = None) -> Iterator[None]:
        """Count a waiting request or a stream for the length of the block.

        :param kind: ``wait`` or ``stream``, for the metrics.
        :param source: the network of the client, "" without a limit.
        :param project: of the caller; None for the whole system, for which places are kept.
        :raises errors.TooManyRequests: there are too many, in all, or of this client or project.
        """
        if self.count >= self._most or (source and self._sources[source] >= self._most_of_one):
            limit = f"{self._most}, or {self._most_of_one} of one address,"
            raise errors.TooManyRequests(limit=limit, option="max_watchers")
        mine = () if project is None else (f"project {project}", _OF_PROJECTS)
        most = (self._most_of_project, self._most_of_projects)
        for name, bound in zip(mine, most, strict=False):
            if self._sources[name] >= bound:
                raise errors.TooManyRequests(limit=f"{bound} of {name}", option="max_watchers")
        self.count += 1
        self._sources.update((source, *mine))
        metrics.BOARD.count("watches_total", kind)
        if self._ticker is None:
            self._ticker = self._loop.create_task(self._tick())
        try:
            yield
        finally:
            self.count -= 1
            self._sources.subtract((source, *mine))
            for name in (source, *mine):
                if not self._sources[name]:
                    del self._sources[name]

    async def close(self) -> None:
        """End all streams and waits: they send their last line or answer."""
        self._closing = True
        self._wake_all()
        until = self._loop.time() + 0.5
        while self.count and self._loop.time() < until:
            await asyncio.sleep(0.01)
        if self._ticker is not None:
            self._ticker.cancel()

    # -- the reader --------------------------------------------------------------------------

    async def _tick(self) -> None:
        """Look at the table while there are waiting requests or streams."""
        try:
            with self._tail.listening(self._hear):
                while self.count and not self._closing:
                    more = await self._look()
                    self._shared.clear()
                    if not more:
                        busy = self._loop.time() < self._busy_until
                        await asyncio.sleep(BUSY_SECONDS if busy else QUIET_SECONDS)
        finally:
            self._ticker = None

    async def _look(self) -> bool:
        """Look at the table; return whether more can be read at once."""
        try:
            with self._complaints:
                return (await self._run(self._tail.look)).more
        except errors.Unavailable as why:
            if self._complaints.new("unavailable"):
                LOG.warning("Cannot follow the event table: %s", why)
        except Exception as why:
            if self._complaints.new(type(why).__name__):
                LOG.exception("Cannot follow the event table")
        for waiter, sender in self._streams.items():
            sender.behind = True
            waiter.set()
        await asyncio.sleep(FAULT_PAUSE)
        return False

    def _hear(self, news: NewEvents) -> None:
        """Pass on the news of any look of this process, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._dispatch, news)

    def _dispatch(self, news: NewEvents) -> None:
        if news.seen:
            self._busy_until = self._loop.time() + _BUSY_FOR
        for event in news.seen:
            for waiter in self._by_node.get(event.row["node_uuid"], ()):
                waiter.set()
        if not (news.settled or news.unread):
            return
        self._shared.clear()
        for choice, waiters in self._by_choice.items():
            if news.unread or any(map(choice.accepts, news.settled)):
                for waiter in waiters:
                    waiter.set()
        for waiter in self._streams:
            waiter.set()

    def _wake_all(self) -> None:
        for waiters in (*self._by_node.values(), *self._by_choice.values()):
            for waiter in waiters:
                waiter.set()
        for waiter in self._streams:
            waiter.set()

    # -- waits -------------------------------------------------------------------------------

    async def wait(
        self, suspension: Suspension, again: Callable[[], Awaitable[Suspension | None]]
    ) -> bool:
        """Handle a suspended request again after each change, until it is answered.

        :param again: handles the request; returns None once it is answered.
        :return: False if the process stops before the answer.
        """
        left: Suspension | None = suspension
        while left is not None:
            left = await self._wait_for(left, again)
            if left is not None and self._closing:
                return False
        return True

    async def _wait_for(
        self, suspension: Suspension, again: Callable[[], Awaitable[Suspension | None]]
    ) -> Suspension | None:
        """Wait as a suspension says; return the next one that waits for something else."""
        about = (suspension.node, suspension.choice)
        # The row may have changed before the waiter was registered, so the first pause is 0.
        pause = suspension.next_call if about == (None, None) else 0.0
        with self._waiter(suspension) as waiter:
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(waiter.wait(), pause)
                waiter.clear()
                async with self._handling:
                    left = await again()
                if left is None or self._closing or (left.node, left.choice) != about:
                    return left
                pause = min(LONGEST_LOOK, left.next_call)

    @contextlib.contextmanager
    def _waiter(self, suspension: Suspension) -> Iterator[asyncio.Event]:
        waiter = asyncio.Event()
        with contextlib.ExitStack() as registered:
            if suspension.node is not None:
                registered.enter_context(_among(self._by_node, suspension.node, waiter))
            if suspension.choice is not None:
                registered.enter_context(_among(self._by_choice, suspension.choice, waiter))
            yield waiter

    # -- streams -----------------------------------------------------------------------------

    async def stream(self, stream: Stream, transport: Transport) -> None:
        """Send events until the client leaves, or a limit of the stream is reached."""
        sender = Sender(transport, stream.removed)
        waiter = asyncio.Event()
        self._streams[waiter] = sender
        try:
            await self._follow(stream, sender, waiter)
        finally:
            del self._streams[waiter]
            self.sent -= sender.counted

    async def stream_text(self, stream: TextStream, transport: Transport) -> None:
        """Send a text as it grows, until it ends."""

        async def read(work: Callable[[], Piece]) -> Piece:
            async with self._paging:
                return await self._run(work)

        waiter = asyncio.Event()
        seconds = self._stream_seconds * random.uniform(0.9, 1.1)
        progress = Progress(seconds, stream.login_seconds)

        def end() -> str | None:
            self.sent += progress.count()
            return progress.end(closing=self._closing, full=self._exceeds_share(progress.bytes))

        self._texts += 1
        try:
            with _among(self._by_node, stream.node, waiter):
                await send(stream, transport, progress, read=read, waiter=waiter, end=end)
        finally:
            self._texts -= 1
            self.sent -= progress.counted

    async def _follow(self, stream: Stream, sender: Sender, waiter: asyncio.Event) -> None:
        cursor, left = stream.after, stream.limit
        login = self._loop.time() + stream.login_seconds
        until = self._loop.time() + self._stream_seconds * random.uniform(0.9, 1.1)
        # The first line comes at once: a client sees that no proxy on the way holds lines back.
        await sender.bookmark(cursor, trimmed=cursor < sender.removed and not stream.complete)
        while True:
            waiter.clear()
            found = await self._following(stream, cursor, sender)
            if found.removed > max(cursor, sender.removed):
                sender.removed = found.removed
                await sender.bookmark(cursor, trimmed=True)
            lines = found.lines if left is None else found.lines[:left]
            taken = await sender.send(lines)
            self.sent += sender.count()
            left = None if left is None else left - taken
            if taken == len(found.lines):
                cursor = found.cursor
            elif taken:
                cursor = lines[taken - 1][0]
            end = self._end(left, until, login, sender)
            if end is not None:
                await sender.bookmark(cursor, end=end)
                return
            if sender.silent >= BOOKMARK_SECONDS:
                await sender.bookmark(cursor)
            if not found.more:
                pause = min(min(until, login) - self._loop.time(), BOOKMARK_SECONDS - sender.silent)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(waiter.wait(), max(0.0, pause))

    def _end(self, left: int | None, until: float, login: float, sender: Sender) -> str | None:
        """Return why a stream ends now, or None.

        :param until: the end of its time; ``login`` is the end of the caller's login.
        """
        if self._loop.time() >= login:
            return "login"
        if left == 0:
            return "limit"
        if sender.full or self._exceeds_share(sender.bytes):
            return "size"
        if self._closing:
            return "closing"
        if sender.behind:
            return "behind"
        return "time" if self._loop.time() >= until else None

    def _exceeds_share(self, sent: int) -> bool:
        """Return whether a stream must end because all streams have sent too much.

        :param sent: bytes of the stream; only a stream above the mean ends.
        """
        count = len(self._streams) + self._texts
        return self.sent > ALL_BYTES and sent * count >= self.sent

    async def _following(self, stream: Stream, cursor: int, sender: Sender) -> _Lines:
        """Return the lines that follow a cursor; equal streams share those of kept events."""
        settled = self._tail.settled
        if cursor >= settled:
            return _Lines([], cursor, more=False)
        key = (stream.choice, cursor, settled)
        found = self._shared.get(key)
        if found is None:
            events = self._tail.events(cursor, settled)
            if events is None:
                found = await self._older(stream.choice, cursor, settled, sender)
            else:
                choice = stream.choice
                chosen = (choice.shown(event) for event in events if choice.accepts(event))
                lines = [(event.id, event.line) for event in chosen]
                found = self._shared[key] = _Lines(lines, settled, more=False)
        if stream.skipped:
            kept = [line for line in found.lines if line[0] not in stream.skipped]
            return found._replace(lines=kept)
        return found

    async def _older(self, choice: Filter, cursor: int, settled: int, sender: Sender) -> _Lines:
        """Return lines of events that are read from the table."""

        def read() -> tuple[Sequence[Event], int]:
            return self._tail.page(choice, after=cursor, upto=settled), self._tail.removed()

        try:
            async with self._paging:
                older, removed = await self._run(read)
        except errors.Unavailable:
            sender.behind = True
            return _Lines([], cursor, more=False)
        full = len(older) == PAGE
        lines = [(event.id, event.line) for event in older]
        return _Lines(lines, lines[-1][0] if full else settled, more=full, removed=removed)


@contextlib.contextmanager
def _among(table: dict[Key, set[asyncio.Event]], key: Key, waiter: asyncio.Event) -> Iterator[None]:
    """Register a waiter under a key for the length of the block."""
    table.setdefault(key, set()).add(waiter)
    try:
        yield
    finally:
        table[key].discard(waiter)
        if not table[key]:
            del table[key]


class _Lines(NamedTuple):
    """Lines with their ids, and the cursor after them.

    :ivar more: more can be read at once.
    :ivar removed: the largest id of a removed event, 0 if the lines are not from the table.
    """

    lines: list[tuple[int, bytes]]
    cursor: int
    more: bool
    removed: int = 0
