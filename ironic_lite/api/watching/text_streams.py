"""Streams of a growing text, such as the log of a run.

A stream ends with its text, or as a stream of events does; then its last line says so, and the
client asks again. An empty line after `SILENT_SECONDS` shows that the connection lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Iterator

from ironic_lite import errors
from ironic_lite.api.watching.sender import STREAM_BYTES, Transport
from ironic_lite.api.wire.later import Piece, TextStream
from ironic_lite.core import clock
from ironic_lite.domain import run_log

HEADERS = [
    ("Content-Type", "text/plain; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),
    ("X-Content-Type-Options", "nosniff"),
]
SILENT_SECONDS = 15.0
LOOK_SECONDS = 5.0
"""Longest time between two reads, because lines may be stored without an event."""
_LONGEST = 1800.0
_PAUSE = 0.5


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


def last_line(end: str) -> bytes:
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
            await transport.send_bytes(last_line("behind"))
            return
        if chunk := progress.chunk(piece.text):
            await transport.send_bytes(chunk)
        if piece.last:
            return
        if (reason := end()) is not None:
            await transport.send_bytes(last_line(reason))
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(waiter.wait(), LOOK_SECONDS)


def lines(stream: TextStream) -> Iterator[bytes]:
    """Yield the chunks of a stream in a thread of its own, for WSGI servers."""
    progress = Progress(_LONGEST, stream.login_seconds)
    while True:
        try:
            piece = stream.read()
        except errors.Unavailable:
            yield last_line("behind")
            return
        if chunk := progress.chunk(piece.text):
            yield chunk
        if piece.last:
            return
        if (end := progress.end()) is not None:
            yield last_line(end)
            return
        time.sleep(_PAUSE)
