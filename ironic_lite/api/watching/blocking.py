"""Waits and streams for WSGI servers: each holds a thread of the server, so they are few.

The service's own server uses `watchers` instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from ironic_lite import errors
from ironic_lite.api.feed.tail import Tail
from ironic_lite.api.wire import refusals, request
from ironic_lite.api.wire.later import Stream, Suspension
from ironic_lite.api.wire.request import Environ, StartResponse

MOST = 16
"""Requests of a process that may wait or stream at once."""
_PAUSE = 0.2
_LONGEST_LOOK = 5.0
_STREAM_SECONDS = 1800.0

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
            why = errors.TooManyRequests(limit=MOST, option="max_watchers")
            return request.refuse(environ, start_response, refusals.of(why))
        if isinstance(later, Stream):
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
            self._sleep(later)

    def _sleep(self, suspension: Suspension) -> None:
        """Return after an event that the request waits for, or when it must look again."""
        until = time.monotonic() + min(_LONGEST_LOOK, suspension.seconds)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(_PAUSE, left))
            news = self._tail().look()
            if any(event.row["node_uuid"] == suspension.node for event in news.seen):
                return
            if suspension.accepts is not None and any(map(suspension.accepts, news.settled)):
                return

    def _stream(
        self, stream: Stream, held: _Held, start_response: StartResponse
    ) -> Iterator[bytes]:
        start_response("200 OK", [*held.extra, ("Content-Type", "application/x-ndjson")])
        return self._lines(stream)

    def _lines(self, stream: Stream) -> Iterator[bytes]:
        tail, cursor, left = self._tail(), stream.after, stream.limit
        until, end = time.monotonic() + _STREAM_SECONDS, "time"
        try:
            while end == "time" and time.monotonic() < until:
                tail.look()
                for event in tail.page(stream.choice, after=cursor, upto=tail.settled):
                    cursor = event.id
                    if event.id in stream.skipped:
                        continue
                    yield event.line
                    left = None if left is None else left - 1
                    if left == 0:
                        end = "limit"
                        break
                else:
                    time.sleep(_PAUSE)
            yield orjson.dumps({"cursor": str(cursor), "end": end}) + b"\n"
        finally:
            self._places.release()


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
