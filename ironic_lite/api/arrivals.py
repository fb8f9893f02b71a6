"""Take the body of a request off the wire, bounded in its size, and in what all bodies hold.

WSGI knows no time limit: a read returns when the client has sent, or is gone. So how many requests
with a body are in hand is bounded as well, by `rooms`: else clients that stop in the middle of one
would shut everybody out.
"""

from __future__ import annotations

import re
import threading
import time
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api import faults

KIB = 1024
MIB = KIB * KIB
_PART = 64 * KIB
"""Bytes read at once; what a body has up to here is not counted: `rooms` bounds their number."""
_HELD = "ironic_lite.held"
"""Where the counted bytes of a request's body stand in its WSGI environment."""
_DISCARDED = 16 * KIB * KIB
"""Bytes of a body too large that are read all the same; who sends more is cut off."""
_LENGTH = re.compile(r"[0-9]{1,18}")


class Arrivals:
    """Where bodies are waited for; one serves all requests of a process.

    :param memory: MiB that the bodies of all requests in hand may take, until they are answered.
    :param patience: seconds that a body waits for others to be answered.
    """

    def __init__(self, *, memory: int = 256, patience: float = 1.0) -> None:
        self._memory = memory
        self._held = 0
        self._left = threading.Condition()
        self._patience = patience

    @property
    def held(self) -> int:
        """The bytes that are counted now."""
        return self._held

    def read(self, environ: dict[str, Any], limit: int) -> bytes:
        """Return the body; `forget` it when the request has been answered.

        :param limit: in KiB.
        :raises faults.Refusal: 413 for a larger one, 400 for one shorter than its length says, or
            with a length that is no number.
        :raises errors.Crowded: the bodies of others take too much.
        """
        stated = environ.get("CONTENT_LENGTH") or ""
        if not stated and not environ.get("HTTP_TRANSFER_ENCODING"):
            return b""
        if stated and not _LENGTH.fullmatch(stated):
            raise _refused("The Content-Length header is not a number.")
        length = int(stated) if stated else None
        most = limit * KIB
        source = environ["wsgi.input"]
        if length is not None and length > most:
            if not environ.get("HTTP_EXPECT"):  # else it has not begun to send
                _discard(source, length)
            raise _too_large(limit)
        body = self._drained(environ, most + 1 if length is None else length)
        if len(body) > most:
            _discard(source, _DISCARDED)
            raise _too_large(limit)
        if length is not None and len(body) < length:
            raise _refused("The request body ends before the length that was announced.")
        return body

    def forget(self, environ: dict[str, Any]) -> None:
        """Let others have what this request's body took."""
        size = environ.pop(_HELD, 0)
        if size:
            with self._left:
                self._held -= size
                self._left.notify_all()

    def _drained(self, environ: dict[str, Any], size: int) -> bytes:
        """Read ``size`` bytes or to the end: one read of a WSGI input may give less.

        What has come is counted, not what was announced: to announce costs nothing.
        """
        source, left = environ["wsgi.input"], size
        parts: list[bytes] = []
        while left > 0 and (part := source.read(min(left, _PART))):
            if parts:
                self._count(environ, len(part))
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _count(self, environ: dict[str, Any], size: int) -> None:
        most = self._memory * MIB
        until = time.monotonic() + self._patience
        with self._left:
            while self._held + size > most:
                if not self._left.wait(until - time.monotonic()):
                    raise errors.Crowded(
                        limit=f"{self._memory} MiB of bodies", option="max_body_memory_mib"
                    )
            self._held += size
            environ[_HELD] = environ.get(_HELD, 0) + size


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
