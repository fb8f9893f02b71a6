"""Take the body of a request off the wire, bounded in its size and in the threads that wait for it.

WSGI knows no time limit: a read returns when the client has sent, or is gone. So not all threads
may read: else some dozens of clients that stop in the middle of a body would shut everybody out.
"""

from __future__ import annotations

import re
import threading
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api import faults

SEATS = 192
KIB = 1024
_PART = 64 * KIB
_DISCARDED = 16 * KIB * KIB
"""Bytes of a body too large that are read all the same; who sends more is cut off."""
_LENGTH = re.compile(r"[0-9]{1,18}")


class Arrivals:
    """Where bodies are waited for; one serves all requests of a process.

    :param seats: how many bodies may be on their way at once; fewer than there are threads.
    :param patience: seconds that a request waits for one of the seats.
    """

    def __init__(self, *, seats: int = SEATS, patience: float = 1.0) -> None:
        self._seats = threading.BoundedSemaphore(seats)
        self._patience = patience

    def read(self, environ: dict[str, Any], limit: int) -> bytes:
        """Return the body.

        :param limit: in KiB.
        :raises faults.Refusal: 413 for a larger one, 400 for one shorter than its length says, or
            with a length that is no number.
        :raises errors.Unavailable: too many bodies are on their way.
        """
        stated = environ.get("CONTENT_LENGTH") or ""
        if not stated and not environ.get("HTTP_TRANSFER_ENCODING"):
            return b""
        if stated and not _LENGTH.fullmatch(stated):
            raise _refused("The Content-Length header is not a number.")
        if not self._seats.acquire(timeout=self._patience):
            raise errors.Unavailable(
                "Too many requests have sent only a part of their bodies; retry later."
            )
        try:
            return _taken(environ, int(stated) if stated else None, limit)
        finally:
            self._seats.release()


def _taken(environ: dict[str, Any], length: int | None, limit: int) -> bytes:
    most = limit * KIB
    source = environ["wsgi.input"]
    if length is not None and length > most:
        if not environ.get("HTTP_EXPECT"):  # else it has not begun to send
            _discard(source, length)
        raise _too_large(limit)
    body = _drained(source, most + 1 if length is None else length)
    if len(body) > most:
        _discard(source, _DISCARDED)
        raise _too_large(limit)
    if length is not None and len(body) < length:
        raise _refused("The request body ends before the length that was announced.")
    return body


def _drained(source: Any, size: int) -> bytes:
    """Read ``size`` bytes or to the end: one read of a WSGI input may give less."""
    parts: list[bytes] = []
    while size > 0 and (part := source.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _discard(source: Any, size: int) -> None:
    """Read and forget up to ``size`` bytes of a body that is refused anyway.

    A client that is still sending would not see the refusal: its connection would break.
    """
    left = min(size, _DISCARDED)
    while left > 0 and (part := source.read(min(left, _PART))):
        left -= len(part)


def _too_large(limit: int) -> faults.Refusal:
    text = errors.TooLarge(limit=limit).message
    return faults.guarded(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


def _refused(text: str) -> faults.Refusal:
    return faults.guarded(HTTPStatus.BAD_REQUEST, text)
