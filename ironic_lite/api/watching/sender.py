"""The lines of one stream, sent in bounded chunks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol

import orjson

from ironic_lite.core.json_types import Json

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
