"""Waits and streams for WSGI servers: each holds a thread of the server, so they are few.

The service's own server uses `watchers` instead.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ironic_lite import errors
from ironic_lite.api.watching import text_streams
from ironic_lite.api.watching.sender import bookmark
from ironic_lite.api.wire import refusals, request
from ironic_lite.api.wire.later import Stream, Suspension, TextStream
from ironic_lite.api.wire.request import Environ, StartResponse
from ironic_lite.feed.tail import PAGE, NewEvents, Tail

MOST = 16
"""Requests of a process that may wait or stream at once."""
_PAUSE = 0.2
_LONGEST_LOOK = 5.0
_STREAM_SECONDS = 1800.0
_BOOKMARK_SECONDS = 15.0

Wsgi = Callable[[Environ, StartResponse], Iterable[bytes]]


class BlockingWatches:
    """A WSGI application that lets the requests of another one wait or stream.

    :param again: handles an admitted request again: `middleware.RequestMiddleware.answer`.
    :param tail: returns the newest events.
    """

    def __init__(self, inner: Wsgi, again: Wsgi, tail: Callable[[], Tail]) -> None:
        self._inner = inner
        self._again = again
        self._tail = tail
        self._places = threading.BoundedSemaphore(MOST)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        held = _Held()
        parts = self._inner(environ, held)
        call: request.Call = environ[request.CALL]
        later, call.later = call.later, None
        if later is None:
            start_response(held.status, held.headers)
            return parts
        call.waited = True
        if not self._places.acquire(blocking=False):
            if call.accepted:  # the conductor has accepted the work
                start_response(held.status, held.headers)
                return parts
            call.heeded = ""
            text = f"Under this server, {MOST} requests of a process may wait; retry later."
            why = errors.Unavailable(text)
            return request.refuse(environ, start_response, refusals.of(why))
        if not isinstance(later, Suspension):
            return self._stream(later, held, start_response)
        try:
            return self._wait(environ, start_response)
        finally:
            self._places.release()

    def _wait(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        call: request.Call = environ[request.CALL]
        while True:
            held = _Held()
            parts = self._again(environ, held)
            later, call.later = call.later, None
            if not isinstance(later, Suspension):
                start_response(held.status, held.headers)
                return parts
            self._sleep(later.within(call.access.login_seconds))

    def _sleep(self, suspension: Suspension) -> None:
        """Return after an event that the request waits for, or when it must look again."""
        woken = threading.Event()

        def hear(news: NewEvents) -> None:
            seen = any(event.row["node_uuid"] == suspension.node for event in news.seen)
            choice = suspension.choice
            settled = news.unread or (choice and any(map(choice.accepts, news.settled)))
            if seen or settled:
                woken.set()

        until = time.monotonic() + min(_LONGEST_LOOK, suspension.next_call)
        tail = self._tail()
        with tail.listening(hear):
            while (left := until - time.monotonic()) > 0 and not woken.wait(min(_PAUSE, left)):
                with contextlib.suppress(errors.Unavailable):
                    tail.look()

    def _stream(
        self, stream: Stream | TextStream, held: _Held, start_response: StartResponse
    ) -> Iterable[bytes]:
        if isinstance(stream, TextStream):
            start_response("200 OK", [*held.extra, *text_streams.HEADERS])
            return _Body(text_streams.lines(stream), self._places.release)
        start_response("200 OK", [*held.extra, ("Content-Type", "application/x-ndjson")])
        return _Body(_lines(self._tail(), stream), self._places.release)


class _Body:
    """The lines of a stream; frees its place even if the server never begins to read them."""

    def __init__(self, lines: Iterator[bytes], free: Callable[[], None]) -> None:
        self._lines = lines
        self._free: Callable[[], None] | None = free

    def __iter__(self) -> Iterator[bytes]:
        """Return the lines."""
        try:
            yield from self._lines
        finally:
            self.close()

    def close(self) -> None:
        """Free the place; servers call this at the end of every answer (PEP 3333)."""
        free, self._free = self._free, None
        if free is not None:
            free()


def _lines(tail: Tail, stream: Stream) -> Iterator[bytes]:
    """Yield the lines of a stream; a line with the cursor alone shows whether the client lives."""
    cursor, left, removed = stream.after, stream.limit, stream.removed
    end, told = "time", time.monotonic()
    until = told + min(_STREAM_SECONDS, stream.login_seconds)
    # The first line comes at once: a client sees that no proxy on the way holds lines back.
    yield bookmark(cursor, trimmed=cursor < removed)
    while end == "time" and time.monotonic() < until:
        try:
            tail.look()
            settled = tail.settled
            events = tail.page(stream.choice, after=cursor, upto=settled)
            newest = tail.removed() if settled > cursor else stream.removed
        except errors.Unavailable:
            end = "behind"
            break
        if newest > max(cursor, removed):
            removed = newest
            yield bookmark(cursor, trimmed=True)
        full = len(events) == PAGE
        for event in events:
            cursor, told = event.id, time.monotonic()
            if event.id in stream.skipped:
                continue
            yield event.line
            left = None if left is None else left - 1
            if left == 0:
                end = "limit"
                break
        if end == "time" and not full:
            cursor = max(cursor, settled)
            if time.monotonic() - told >= _BOOKMARK_SECONDS:
                told = time.monotonic()
                yield bookmark(cursor)
            time.sleep(_PAUSE)
    by_login = end == "time" and stream.login_seconds < _STREAM_SECONDS
    yield bookmark(cursor, end="login" if by_login else end)


class _Held:
    """The beginning of an answer that may not be sent; used as ``start_response``."""

    def __init__(self) -> None:
        self.status = "500 Internal Server Error"
        self.headers: list[tuple[str, str]] = []

    def __call__(self, status: str, headers: list[tuple[str, str]], _info: Any = None) -> None:
        self.status, self.headers = status, headers

    @property
    def extra(self) -> list[tuple[str, str]]:
        """The headers without those of the body."""
        return [pair for pair in self.headers if not pair[0].startswith("Content-")]
