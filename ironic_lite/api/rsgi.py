"""Requests of the event loop: the RSGI application that granian calls.

Each request has one coroutine. The body is read here, in the event loop, before a thread is taken.
`middleware.RequestMiddleware` blocks, so it runs in a pool of threads: once for a request without a
body, twice for a request with a body (for the head, then for the whole). Only answers that wait for
nothing (``/livez``) come from the event loop itself.

A route that waits or streams belongs here too, as a coroutine between `RequestMiddleware.admit` and
the answer. `_Answer.send` is the one place that would use ``protocol.response_stream`` instead.

RSGI: https://github.com/emmett-framework/granian/blob/master/docs/spec/RSGI.md
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import Protocol

from granian import rsgi

from ironic_lite import errors
from ironic_lite.api import middleware
from ironic_lite.api.traffic import body_reader, source_limit, thread_pool
from ironic_lite.api.wire import refusals, request
from ironic_lite.api.wire.request import Environ
from ironic_lite.core.configuration import Configuration

_MOST_THREADS = 1024
_LAST_SECONDS = 1.0
"""Seconds that answered requests may take to end when the process stops."""
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""Replaces a header value that is not text, so that an unreadable condition is not ignored."""
_NOTHING = io.BytesIO()
_CGI = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}


class Exchange(body_reader.Source, Protocol):
    """The part of RSGI's protocol object that this module uses."""

    def response_empty(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Answer without a body."""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Answer with a body."""


class Application:
    """Answers the requests of one event loop; must be built in that loop.

    :param inner: answers one request in a thread.
    """

    def __init__(self, inner: middleware.RequestMiddleware, conf: Configuration) -> None:
        self._front = inner
        self._bodies = inner.bodies
        self._sources = source_limit.SourceLimit(conf)
        self._threads = thread_pool.ThreadPool(_MOST_THREADS)

    async def close(self) -> None:
        """Wait for answered requests to end, then stop the threads."""
        await self._threads.drain(_LAST_SECONDS)
        self._threads.close()

    async def __rsgi__(self, scope: rsgi.Scope, protocol: Exchange) -> None:
        """Answer one request."""
        environ, answer = environment(scope), _Answer(protocol)
        try:
            place = self._sources.enter(environ)
            if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
                try:
                    await self._answer_with_body(environ, answer, protocol)
                finally:
                    self._sources.leave(place)
            elif self._front.immediate(environ):
                self._answer_bodiless(environ, answer, place)
            else:
                try:
                    await self._threads.finish(
                        lambda: self._answer_bodiless(environ, answer, place)
                    )
                except errors.Unavailable:  # no thread has started
                    self._sources.leave(place)
                    raise
        except (refusals.Refusal, errors.Error) as why:
            answer.send(self._front.refuse(environ, answer, why))

    def _answer_bodiless(self, environ: Environ, answer: _Answer, place: str) -> None:
        """Answer a request without a body."""
        try:
            parts = self._front(environ, answer)
        finally:
            # Free the slot before the client has its answer and sends the next request.
            self._sources.leave(place)
        answer.send(parts)

    async def _answer_with_body(
        self, environ: Environ, answer: _Answer, protocol: Exchange
    ) -> None:
        """Answer a request that has, or may have, a body.

        :raises refusals.Refusal: the body is refused.
        :raises errors.Error: memory or threads are exhausted.
        """
        run = self._threads.run
        limit = await run(lambda: self._admit_request(environ, answer))
        if limit is None:
            return
        try:
            if limit:
                await self._read_and_answer(environ, limit, protocol)
            await run(lambda: answer.send(self._front.answer(environ, answer)))
        finally:
            self._bodies.release(environ)

    def _admit_request(self, environ: Environ, answer: _Answer) -> int | None:
        """Return the KiB the body may have, None if the request has been refused."""
        try:
            return self._front.admit(environ)
        except Exception as why:
            answer.send(self._front.refuse(environ, answer, why))
            return None

    async def _read_and_answer(self, environ: Environ, limit: int, protocol: Exchange) -> None:
        call: request.Call = environ[request.CALL]
        try:
            call.body = await self._bodies.receive(environ, limit, protocol, anonymous=call.public)
        except rsgi.ProtocolClosed:  # type: ignore[attr-defined]  # exported, but not marked so
            raise body_reader.incomplete() from None


class _Answer:
    """Passes the answer of a WSGI application to RSGI; used as ``start_response``."""

    __slots__ = ("_headers", "_protocol", "_status")

    def __init__(self, protocol: Exchange) -> None:
        self._protocol = protocol
        self._status = 500
        self._headers: list[tuple[str, str]] = []

    def __call__(self, status: str, headers: list[tuple[str, str]], _info: object = None) -> None:
        self._status = int(status[:3])
        self._headers = headers

    def send(self, parts: Iterable[bytes]) -> None:
        """Pass status, headers and body to the server, from any thread."""
        body = b"".join(parts)
        if body:
            self._protocol.response_bytes(self._status, self._headers, body)
        else:
            self._protocol.response_empty(self._status, self._headers)


def environment(scope: rsgi.Scope) -> Environ:
    """Return the WSGI environment (PEP 3333) of a request without its body.

    Header names with an underscore are left out, because X_Forwarded_For would become
    X-Forwarded-For.
    """
    server, _, port = scope.server.rpartition(":")
    environ: Environ = {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": _latin_text(scope.path),
        "QUERY_STRING": _latin_text(scope.query_string),
        "SERVER_NAME": server,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.scheme,
        "wsgi.input": _NOTHING,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    names = scope.headers.keys()
    pairs = scope.headers.items()
    for name, value in pairs:
        _add_header(environ, name, value)
    if len(names) != len(pairs):
        # A name occurs twice, or its value is not text and is missing from the pairs.
        for name in names:
            if _environ_key(name) not in environ:
                _add_header(environ, name, _UNREADABLE)
    # A target in absolute form contains the host (RFC 9112, 3.2.2).
    if scope.authority:
        environ["HTTP_HOST"] = scope.authority
    return environ


def _add_header(environ: Environ, name: str, value: str) -> None:
    if "_" not in name:
        key = _environ_key(name)
        before = environ.get(key)
        environ[key] = value if before is None else f"{before},{value}"


def _environ_key(name: str) -> str:
    return _CGI.get(name) or "HTTP_" + name.upper().replace("-", "_")


def _latin_text(text: str) -> str:
    """Return text as WSGI represents it: one character for each byte of its UTF-8."""
    return text if text.isascii() else text.encode().decode("latin-1")
