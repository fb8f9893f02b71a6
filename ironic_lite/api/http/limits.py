"""Limits on requests: those of one client address, the bodies in memory, and concurrency."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Protocol

from ironic_lite import errors
from ironic_lite.api.http import refusals, request
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import Configuration
from ironic_lite.core.slots import Slots
from ironic_lite.rpc.stub import RpcCall, Send

# Limit the concurrent requests of one client address.

_PER_ADDRESS = "max_requests_per_address"


class SourceLimit:
    """Counts requests by client address ; thread-safe.

    The addresses of one IPv6 network of 64 bits count together. A request counts from its head to
    its answer, including the wait for its body. All clients of a unix socket are one address.
    """

    def __init__(self, conf: Configuration) -> None:
        self._most = int(conf.api[_PER_ADDRESS])
        self._proxied = bool(conf.api.enable_proxy_headers_parsing)
        self._slots = Slots(None, self._most)

    def enter(self, environ: Json) -> str:
        """Count a request; return the argument for `leave`.

        :raises errors.TooManyRequests: its address has too many running requests.
        """
        if not self._most:
            return ""
        place = request.client_network(request.client_address(environ, proxied=self._proxied))
        if place and not self._slots.take(place):
            raise errors.TooManyRequests(limit=f"{self._most} of one address", option=_PER_ADDRESS)
        return place

    def leave(self, place: str) -> None:
        """Stop counting a request."""
        if place:
            self._slots.free(place)


# Read request bodies, limited in size, in time and in total memory.
#
# A body is read after the head of its request was admitted, and before the request enters its
# concurrency limit (`limits`). `BodyReader.receive` reads in the event loop of the server, so a
# slow client holds no thread. `BodyReader.read` serves callers in the same process.
#
# A body that is cut off or wrongly framed is refused (RFC 9112, 8), so part of a body is never
# taken as the whole. With a Content-Length the number of bytes decides. A chunked body has no
# length, and only iteration over the body allows a size limit. That iteration does not raise when
# the server meets a broken chunk. But granian ends a complete body with one empty piece, and a
# broken body, or one with trailers, with two. If granian changes this, chunked bodies are refused,
# and `tests/acceptance/test_http_server.py` fails.

KIB = 1024
MIB = KIB * KIB
_FREE = 16 * KIB
"""Uncounted bytes of each body; max_connections limits their sum."""
_HELD = "ironic_lite.held"
"""WSGI environment: the counted bytes of the body, and whether its sender needs no login."""
_BODY_SHARE = 4
"""Divisor of the memory: the part that bodies of senders without a login may take."""
_DISCARDED = 16 * MIB
"""Bytes read and discarded beyond a body's limit; larger bodies are cut off."""
_SLOWEST = 64 * KIB
"""Received bytes that extend the time limit of a body by a second."""
_PAUSE = 0.02
"""Seconds between two checks for free memory."""
_LAST = (("Connection", "close"),)
_LENGTH = re.compile(r"[0-9]{1,18}")


class BodySource(Protocol):
    """The body of a request as the server provides it: the protocol object of RSGI."""

    def __call__(self) -> Awaitable[bytes]:
        """Return the whole body; raises if it is incomplete."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over pieces of the body."""


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
            raise incomplete_body()
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


class BodyReader:
    """Reads bodies; one object serves all requests of a process.

    :param memory: MiB that the bodies of all running requests may take, until they are answered.
    :param patience: seconds that a body waits for free memory.
    :param seconds: time limit of a body, plus one for each 64 KiB of it that are kept.
    """

    def __init__(self, *, memory: int = 256, patience: float = 1.0, seconds: float = 60.0) -> None:
        self._memory = memory
        self.budget = Slots(memory * MIB, memory * MIB // _BODY_SHARE)
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
        self, environ: Json, limit: int, source: BodySource, *, anonymous: bool = False
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
        self, body: _Body, source: BodySource, deadline: asyncio.Timeout, *, anonymous: bool
    ) -> None:
        begin = asyncio.get_running_loop().time()
        ended = False
        async for piece in source:
            if ended:
                raise incomplete_body()
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
            raise incomplete_body()

    def release(self, environ: Json) -> None:
        """Free the memory counted for this request's body."""
        held, anonymous = environ.pop(_HELD, (0, False))
        if held:
            self.budget.free(_key(anonymous), size=held)

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
        if more and not self.budget.take(_key(anonymous), size=more):
            return False
        body.environ[_HELD] = held + more, anonymous
        body.size = size
        body.pieces.append(piece)
        return True

    def _check_patience(self, until: float) -> None:
        if time.monotonic() >= until:
            limit = f"{self._memory} MiB of bodies"
            raise errors.TooManyRequests(limit=limit, option="max_body_memory_mib")


def _key(anonymous: bool) -> str | None:
    """Return the key of bodies whose senders need no login: they share a part."""
    return "anonymous" if anonymous else None


def _body_pieces(body: _Body) -> Iterator[bytes]:
    """Read a WSGI input in pieces, because one read may return less than requested."""
    source = body.environ["wsgi.input"]
    while (left := body.wanted - body.size) > 0 and (piece := source.read(min(left, _FREE))):
        yield piece


def incomplete_body() -> refusals.Refusal:
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


# Concurrency limits of a process, one for each cause of waiting.
#
# A request may wait for its body, for a conductor, or for the database. Each kind has a limit of
# its own, above which requests get 503, so that waiting requests of one kind do not block the
# others. Nodes can be read while no conductor answers, and changes are accepted while ten thousand
# agents send heartbeats. Each connection has a thread, so no request waits where it could not be
# refused.

READS = "reads"
CHANGES = "changes"
AGENTS = "agents"
QUESTIONS = "questions"

_OPTIONS: Mapping[str, str] = {
    # kind of request: the option of [api] with its limit
    READS: "max_reads",
    CHANGES: "max_changes",
    AGENTS: "max_agent_requests",
    QUESTIONS: "max_questions",
}
_OF_AGENTS = ("/lookup", "/heartbeat", "/continue_inspection")
_NODES, _PLAN = "/nodes/", "/plan"  # a plan changes nothing
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_SHARE = 2
"""Divisor of calls for reads and of memory: the part of one project, and of one address."""
PATIENCE = 1.0
"""Seconds that a request waits for a free slot before it is refused."""


def room_of(method: str, path: str) -> str:
    """Return the concurrency limit that a request counts against.

    :param path: below ``/v1``.
    """
    if path.startswith(_OF_AGENTS):
        return AGENTS
    plans = method == "POST" and path.startswith(_NODES) and path.endswith(_PLAN)
    return READS if method in _READING or plans else CHANGES


class ConcurrencyLimits:
    """The slots of one process; one object serves all its threads.

    :param patience: seconds to wait for a slot, by default `PATIENCE`.
    """

    def __init__(self, conf: Configuration, *, patience: float | None = None) -> None:
        self._limits = {name: int(conf.api[option]) for name, option in _OPTIONS.items()}
        self._slots = {
            name: Slots(count, max(1, count // _SHARE)) for name, count in self._limits.items()
        }
        self._patience = PATIENCE if patience is None else patience
        self._here = threading.local()

    @contextlib.contextmanager
    def enter(self, room: str, project: str | None = None) -> Iterator[None]:
        """Hold a slot for the length of the block.

        :param project: holds at most half of the slots; None: no project is counted.
        :raises errors.TooManyRequests: no slot became free in time.
        """
        slots, option = self._slots[room], _OPTIONS[room]
        if not slots.take(project, seconds=self._patience):
            limit, share = self._limits[room], max(1, self._limits[room] // _SHARE)
            if project is not None and slots.held_by(project) >= share:
                raise errors.TooManyRequests(limit=f"{share} of one project", option=option)
            raise errors.TooManyRequests(limit=limit, option=option)
        before, self._here.room = getattr(self._here, "room", None), room
        try:
            yield
        finally:
            self._here.room = before
            slots.free(project)

    def limit_question(self, call: RpcCall, send: Send) -> Any:
        """Hold a second slot during a conductor call of a read; an interceptor of these calls.

        One project holds at most half of these slots, because its machines may be silent.

        :raises errors.TooManyRequests: as `enter`.
        """
        if getattr(self._here, "room", None) != READS:
            return send(call)
        with self.enter(QUESTIONS, call.context.project):
            return send(call)


LARGE_ANSWER = 128 * 1024
"""Bytes from which an answer counts for the memory of unsent answers."""
_SEND_PATIENCE = 5.0


class UnsentAnswers:
    """Memory that large answers take until their clients have read them; for one event loop.

    A client that reads nothing keeps its connection and the server keeps its answer, so only a
    limit of all answers bounds the memory.
    """

    def __init__(self, conf: Configuration) -> None:
        self._mib = int(conf.api.max_answer_memory_mib)
        self._most = self._mib * 1024 * 1024
        self._held: dict[str, int] = {}
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def hold(self, size: int, place: str, *, must: bool) -> AsyncIterator[None]:
        """Count an answer for the length of the block.

        :param place: the network of the client, "" for none.
        :param must: the request has changed something, so its answer is always sent.
        :raises errors.TooManyRequests: the memory did not become free in time.
        """
        if not must and not self._fits(size, place):
            await self._wait_for_room(size, place)
        self._held[place] = self._held.get(place, 0) + size
        try:
            yield
        finally:
            left = self._held.pop(place) - size
            if left:
                self._held[place] = left

    async def _wait_for_room(self, size: int, place: str) -> None:
        """Wait for free memory; waiting answers take some, too, so few may wait."""
        end = time.monotonic() + _SEND_PATIENCE
        if self._waiting + size > self._most // _SHARE:
            end = 0.0
        self._waiting += size
        try:
            while not self._fits(size, place):
                if time.monotonic() >= end:
                    limit = f"{self._mib} MiB of answers that clients have not read yet"
                    raise errors.TooManyRequests(limit=limit, option="max_answer_memory_mib")
                await asyncio.sleep(_PAUSE)
        finally:
            self._waiting -= size

    def _fits(self, size: int, place: str) -> bool:
        its = self._held.get(place, 0) + size if place else size
        return sum(self._held.values()) + size <= self._most and its <= max(
            size, self._most // _SHARE
        )
