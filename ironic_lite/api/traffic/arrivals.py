"""Take the body of a request off the wire, bounded in its size, its time, and in what all hold.

It is taken before the request enters a room (`rooms`), so clients that stop in the middle of one
keep nobody out; `overdue` sends them away.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.traffic import overdue
from ironic_lite.api.wire import faults

KIB = 1024
MIB = KIB * KIB
_PART = 16 * KIB
"""Bytes read at once; what a body has up to here is not counted: there is a buffer of that size for
each connection anyway, and max_connections bounds these."""
_HELD = "ironic_lite.held"
"""Where the counted bytes of a request's body stand in its WSGI environment."""
_STRANGE = "ironic_lite.strange"
"""Where it says there that its sender needs no login."""
_SHARE = 4
"""What those take together is this part of all: they are to keep nobody out who has logged in."""
_DISCARDED = 16 * KIB * KIB
"""Bytes of a body too large that are read all the same; who sends more is cut off."""
_SLOWEST = 64 * KIB
"""Bytes that lengthen the time of a body by a second, once they have come."""
_LAST = (("Connection", "close"),)
_LENGTH = re.compile(r"[0-9]{1,18}")


class Arrivals:
    """Where bodies are waited for; one serves all requests of a process.

    :param memory: MiB that the bodies of all requests in hand may take, until they are answered.
    :param patience: seconds that a body waits for others to be answered.
    :param seconds: that a body may take, and one more for each 64 KiB of it that have come.
    :param late: sees to the bodies that take longer; None where that is the server's affair.
    """

    def __init__(
        self,
        *,
        memory: int = 256,
        patience: float = 1.0,
        seconds: float = 60.0,
        late: overdue.Overdue | None = None,
    ) -> None:
        self._memory = memory
        self._held = 0
        self._strange = 0
        self._left = threading.Condition()
        self._patience = patience
        self._seconds = seconds
        self._late = late

    @property
    def held(self) -> int:
        """The bytes that are counted now."""
        return self._held

    def read(self, environ: dict[str, Any], limit: int, *, strange: bool = False) -> bytes:
        """Return the body; `forget` it when the request has been answered.

        :param limit: in KiB.
        :param strange: nobody has to log in to send it.
        :raises faults.Refusal: 413 for a larger one, 400 for one shorter than its length says, or
            with a length that is no number, 408 for one that took too long: its client knows.
        :raises errors.Crowded: the bodies of others take too much.
        """
        environ[_STRANGE] = strange
        stated = environ.get("CONTENT_LENGTH") or ""
        if not stated and not environ.get("HTTP_TRANSFER_ENCODING"):
            return b""
        if stated and not _LENGTH.fullmatch(stated):
            raise _refused("The Content-Length header is not a number.")
        length = int(stated) if stated else None
        most = limit * KIB
        refusal = _too_late(self._seconds)
        if length is not None and length > most:
            refusal = _too_large(limit)
            if not environ.get("HTTP_EXPECT"):  # else it has not begun to send
                self._discard(environ, length, refusal)
            raise refusal
        body = self._drained(environ, most + 1 if length is None else length, refusal)
        if len(body) > most:
            refusal = _too_large(limit)
            self._discard(environ, _DISCARDED, refusal)
            raise refusal
        if length is not None and len(body) < length:
            raise _refused("The request body ends before the length that was announced.")
        return body

    def forget(self, environ: dict[str, Any]) -> None:
        """Let others have what this request's body took."""
        size = environ.pop(_HELD, 0)
        if size:
            with self._left:
                self._held -= size
                self._strange -= size * environ[_STRANGE]
                self._left.notify_all()

    def _drained(self, environ: dict[str, Any], size: int, refusal: faults.Refusal) -> bytes:
        """Read ``size`` bytes or to the end: one read of a WSGI input may give less.

        What has come is counted, not what was announced: to announce costs nothing.
        """
        parts: list[bytes] = []
        with self._awaited(environ, refusal) as arrival:
            for part in _parts(environ["wsgi.input"], size, arrival):
                if parts:
                    self._count(environ, len(part))
                parts.append(part)
        return b"".join(parts)

    def _discard(self, environ: dict[str, Any], size: int, refusal: faults.Refusal) -> None:
        """Read and forget some of a body that is refused anyway.

        A client that is still sending would not see the refusal: its connection would break.
        """
        with self._awaited(environ, refusal) as arrival:
            for _ in _parts(environ["wsgi.input"], min(size, _DISCARDED), arrival):
                pass

    @contextlib.contextmanager
    def _awaited(
        self, environ: dict[str, Any], refusal: faults.Refusal
    ) -> Iterator[overdue.Arrival]:
        """Have the block, which reads a body, end in time.

        :raises faults.Refusal: what was given; its client has been told already.
        """
        arrival = overdue.Arrival(environ, seconds=self._seconds, rate=_SLOWEST, refusal=refusal)
        if self._late is None:
            yield arrival
            return
        self._late.add(arrival)
        try:
            yield arrival
        finally:
            if self._late.remove(arrival):
                raise refusal

    def _count(self, environ: dict[str, Any], size: int) -> None:
        most, strange = self._memory * MIB, environ[_STRANGE]
        until = time.monotonic() + self._patience
        with self._left:
            while self._held + size > most or (strange and self._strange + size > most // _SHARE):
                if not self._left.wait(until - time.monotonic()):
                    raise errors.Crowded(
                        limit=f"{self._memory} MiB of bodies", option="max_body_memory_mib"
                    )
            self._held += size
            self._strange += size * strange
            environ[_HELD] = environ.get(_HELD, 0) + size


def _parts(source: Any, size: int, arrival: overdue.Arrival) -> Iterator[bytes]:
    left = size
    while left > 0 and (part := source.read(min(left, _PART))):
        yield part
        left -= len(part)
        arrival.size += len(part)


def _too_late(seconds: float) -> faults.Refusal:
    text = (
        f"The request body did not come within {seconds:g} s ([api]body_timeout) and a second for "
        "each 64 KiB; send it again over a new connection."
    )
    refusal = faults.guarded(HTTPStatus.REQUEST_TIMEOUT, text)
    refusal.headers = _LAST
    return refusal


def _too_large(limit: int) -> faults.Refusal:
    text = errors.TooLarge(limit=limit).message
    return faults.guarded(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


def _refused(text: str) -> faults.Refusal:
    return faults.guarded(HTTPStatus.BAD_REQUEST, text)
