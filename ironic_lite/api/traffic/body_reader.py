"""Read request bodies, limited in size, in time and in total memory.

A body is read after the head of its request was admitted, and before the request enters its
concurrency limit (`limits`). `Reader.receive` reads in the event loop of the server, so a slow
client holds no thread. `Reader.read` serves other WSGI servers, which have their own time limits.

A body that is cut off or wrongly framed is refused (RFC 9112, 8), so part of a body is never taken
as the whole. With a Content-Length the number of bytes decides. A chunked body has no length, and
only iteration over the body allows a size limit. That iteration does not raise when the server
meets a broken chunk. But granian ends a complete body with one empty piece, and a broken body, or
one with trailers, with two. If granian changes this, chunked bodies are refused, and
`tests/acceptance/test_http_server.py` fails.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from http import HTTPStatus
from typing import Protocol

from ironic_lite import errors
from ironic_lite.api.wire import refusals
from ironic_lite.core.json_types import Json

KIB = 1024
MIB = KIB * KIB
_FREE = 16 * KIB
"""Uncounted bytes of each body; max_connections limits their sum."""
_HELD = "ironic_lite.held"
"""WSGI environment: the counted bytes of the body, and whether its sender needs no login."""
_SHARE = 4
"""Divisor of the memory: the part that bodies of senders without a login may take."""
_DISCARDED = 16 * MIB
"""Bytes read and discarded beyond a body's limit; larger bodies are cut off."""
_SLOWEST = 64 * KIB
"""Received bytes that extend the time limit of a body by a second."""
_PAUSE = 0.02
"""Seconds between two checks for free memory."""
_LAST = (("Connection", "close"),)
_LENGTH = re.compile(r"[0-9]{1,18}")


class Source(Protocol):
    """The body of a request as the server provides it: the protocol object of RSGI."""

    def __call__(self) -> Awaitable[bytes]:
        """Return the whole body; raises if it is incomplete."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over pieces of the body."""


class Budget:
    """Memory that the bodies of all running requests may take; thread-safe.

    :param most: bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._anonymous = 0
        self._guard = threading.Lock()

    @property
    def held(self) -> int:
        """The bytes counted now."""
        return self._held

    def take(self, size: int, *, anonymous: bool) -> bool:
        """Count ``size`` bytes; return False without counting if they exceed the limit."""
        with self._guard:
            shared = self._anonymous + size if anonymous else 0
            if self._held + size > self._most or shared > self._most // _SHARE:
                return False
            self._held += size
            self._anonymous += size * anonymous
            return True

    def give(self, size: int, *, anonymous: bool) -> None:
        """Stop counting ``size`` bytes."""
        with self._guard:
            self._held -= size
            self._anonymous -= size * anonymous


class _Body:
    """A body while it is read.

    :param limit: in KiB.
    :raises refusals.Refusal: 400 for a length that is not a number, or both forms of framing.
    """

    __slots__ = ("environ", "length", "limit", "most", "pieces", "size")

    def __init__(self, environ: Json, limit: int) -> None:
        stated = environ.get("CONTENT_LENGTH") or ""
        chunked = bool(environ.get("HTTP_TRANSFER_ENCODING"))
        if stated and not _LENGTH.fullmatch(stated):
            raise _body_refused("The Content-Length header is not a number.")
        if stated and chunked:
            raise _body_refused("The request has both Content-Length and Transfer-Encoding.")
        self.environ = environ
        self.length = int(stated) if stated else None if chunked else 0
        self.limit = limit
        self.most = limit * KIB
        self.pieces: list[bytes] = []
        self.size = 0

    @property
    def large(self) -> bool:
        """True if the body exceeds the limit, by its announced length or the bytes read."""
        return self.size > self.most or (self.length is not None and self.length > self.most)

    @property
    def silent(self) -> bool:
        """True if the client waits for "100 Continue" before it sends the body."""
        return bool(self.environ.get("HTTP_EXPECT"))

    @property
    def wanted(self) -> int:
        """Most bytes to read."""
        if self.large:
            return self.most + _DISCARDED
        return self.most + 1 if self.length is None else self.length

    def whole(self) -> bytes:
        """Return the whole body.

        :raises refusals.Refusal: too large, or shorter than announced.
        """
        if self.large:
            text = errors.TooLarge(limit=self.limit).message
            raise refusals.guarded(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        if self.length is not None and self.size != self.length:
            raise incomplete()
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


class Reader:
    """Reads bodies; one object serves all requests of a process.

    :param memory: MiB that the bodies of all running requests may take, until they are answered.
    :param patience: seconds that a body waits for free memory.
    :param seconds: time limit of a body, plus one for each 64 KiB of it that are kept.
    """

    def __init__(self, *, memory: int = 256, patience: float = 1.0, seconds: float = 60.0) -> None:
        self._memory = memory
        self.budget = Budget(memory * MIB)
        self._patience = patience
        self._seconds = seconds

    def read(self, environ: Json, limit: int, *, anonymous: bool = False) -> bytes:
        """Return the body from ``wsgi.input``; call `release` after the answer.

        :param limit: in KiB.
        :param anonymous: the request needs no login.
        :raises refusals.Refusal: 413 for a body over the limit, 400 for a body shorter than its
            length, or for a length that is not a number.
        :raises errors.TooManyRequests: the other bodies take too much memory.
        """
        body = _Body(environ, limit)
        if body.length != 0 and not (body.large and body.silent):
            for piece in _body_pieces(body):
                until = time.monotonic() + self._patience
                while not self._keep_piece(body, piece, anonymous=anonymous):
                    self._check_patience(until)
                    time.sleep(_PAUSE)
        return body.whole()

    async def receive(
        self, environ: Json, limit: int, source: Source, *, anonymous: bool = False
    ) -> bytes:
        """Return the body like `read`, in the event loop and within the time limit.

        :raises refusals.Refusal: as for `read`; 408 if it takes too long.
        :raises RuntimeError: from the server, the body is incomplete.
        """
        body = _Body(environ, limit)
        if body.length == 0 or (body.large and body.silent):
            return body.whole()
        try:
            async with asyncio.timeout(self._seconds) as deadline:
                if body.length is not None and body.length <= min(_FREE, body.most):
                    return await source()
                await self._collect_pieces(body, source, deadline, anonymous=anonymous)
        except TimeoutError:
            raise _too_late(self._seconds) from None
        return body.whole()

    async def _collect_pieces(
        self, body: _Body, source: Source, deadline: asyncio.Timeout, *, anonymous: bool
    ) -> None:
        begin = asyncio.get_running_loop().time()
        ended = False
        async for piece in source:
            if ended:
                raise incomplete()
            ended = not piece
            until = time.monotonic() + self._patience
            while not self._keep_piece(body, piece, anonymous=anonymous):
                self._check_patience(until)
                await asyncio.sleep(_PAUSE)
            if body.size > body.most + _DISCARDED:
                return
            # Discarded bytes do not extend the time limit.
            if not body.large:
                deadline.reschedule(begin + self._seconds + body.size / _SLOWEST)
        if body.length is None and not ended:
            raise incomplete()

    def release(self, environ: Json) -> None:
        """Free the memory counted for this request's body."""
        held, anonymous = environ.pop(_HELD, (0, False))
        if held:
            self.budget.give(held, anonymous=anonymous)

    def _keep_piece(self, body: _Body, piece: bytes, *, anonymous: bool) -> bool:
        """Add a received piece; return False without adding if its memory is not free.

        Received bytes are counted instead of the announced length, because an announcement costs a
        client nothing. Pieces of a body over the limit are discarded. The body is still read,
        because a client that is still sending would not see the refusal.
        """
        size = body.size + len(piece)
        if body.large or size > body.most:
            self.release(body.environ)
            body.pieces.clear()
            body.size = size
            return True
        held, _ = body.environ.get(_HELD, (0, anonymous))
        more = max(0, size - _FREE - held)
        if more and not self.budget.take(more, anonymous=anonymous):
            return False
        body.environ[_HELD] = held + more, anonymous
        body.size = size
        body.pieces.append(piece)
        return True

    def _check_patience(self, until: float) -> None:
        if time.monotonic() >= until:
            limit = f"{self._memory} MiB of bodies"
            raise errors.TooManyRequests(limit=limit, option="max_body_memory_mib")


def _body_pieces(body: _Body) -> Iterator[bytes]:
    """Read a WSGI input in pieces, because one read may return less than requested."""
    source = body.environ["wsgi.input"]
    while (left := body.wanted - body.size) > 0 and (piece := source.read(min(left, _FREE))):
        yield piece


def incomplete() -> refusals.Refusal:
    """Return the refusal of a body that was cut off or is wrongly framed."""
    refusal = _body_refused("The request body is incomplete or wrongly framed; send it again.")
    refusal.headers = _LAST
    return refusal


def _too_late(seconds: float) -> refusals.Refusal:
    text = (
        f"The request body did not come within {seconds:g} s ([api]body_timeout) and a second for "
        "each 64 KiB; send it again over a new connection."
    )
    refusal = refusals.guarded(HTTPStatus.REQUEST_TIMEOUT, text)
    refusal.headers = _LAST
    return refusal


def _body_refused(text: str) -> refusals.Refusal:
    return refusals.guarded(HTTPStatus.BAD_REQUEST, text)
