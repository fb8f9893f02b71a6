"""Requests that wait or stream, answered in this process by the server's own application.

Each request gets an event loop of its own; its answer is returned when it is complete.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from ironic_lite.api import middleware, server
from ironic_lite.api.http import request
from ironic_lite.api.http.request import Environ, StartResponse
from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.feed import Tail
from tests.support.wsgi_client import Client


def waiting_client(app: middleware.Wsgi, database: Database) -> Client:
    """Return a client whose requests wait and stream."""
    return Client(WaitingApplication(app, database))


class WaitingApplication:
    """Answers as the server does, to a caller in this process.

    :param app: the API, a `middleware.RequestMiddleware`.
    :param before_again: called before a waiting request is handled again.
    """

    def __init__(
        self,
        app: middleware.Wsgi,
        database: Database,
        before_again: Callable[[], object] = lambda: None,
    ) -> None:
        self._app: Any = app
        self._tail = Tail(database)
        self._before_again = before_again

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return asyncio.run(self._answer(environ, start_response))

    async def _answer(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        front: Any = _Front(self._app, environ, self._before_again)
        application = server.EventLoopApplication(front, config.CONF, self._tail)
        protocol: Any = _Protocol(environ["wsgi.input"].read())
        try:
            await application.__rsgi__(_scope(environ), protocol)
            status, headers = await protocol.begun
        finally:
            await application.end_watches()
            await application.close()
        start_response(f"{status} ", headers)
        return list(protocol.pieces)


class _Front:
    """Leaves the facts about a request in the environment of its caller."""

    def __init__(self, app: Any, theirs: Environ, before_again: Callable[[], object]) -> None:
        self._app = app
        self._theirs = theirs
        self._before_again = before_again
        self.bodies = app.bodies
        self.admits_at_once = app.admits_at_once
        self.immediate = app.immediate
        self.refuse = app.refuse

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        parts: Iterable[bytes] = self._app(environ, start_response)
        self._theirs[request.CALL] = environ[request.CALL]
        return parts

    def admit(self, environ: Environ) -> int:
        try:
            return int(self._app.admit(environ))
        finally:
            self._theirs[request.CALL] = environ[request.CALL]

    def answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ[request.CALL].waited:
            self._before_again()
        parts: Iterable[bytes] = self._app.answer(environ, start_response)
        return parts


class _Protocol:
    """RSGI's protocol object: the body of one request, and its answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[tuple[int, Any]] = self._loop.create_future()
        self.pieces: list[bytes] = []

    async def __call__(self) -> bytes:
        return self._body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def client_disconnect(self) -> None:
        """Wait for ever: the client stays until it has its answer."""
        await asyncio.Event().wait()

    def response_empty(self, status: int, headers: list[tuple[str, str]]) -> None:
        self._loop.call_soon_threadsafe(self.begun.set_result, (status, headers))

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.pieces.append(body)
        self.response_empty(status, headers)

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> _Protocol:
        self.response_empty(status, headers)
        return self

    async def send_bytes(self, data: bytes) -> None:
        self.pieces.append(data)


class _Headers(dict[str, str]):
    """The headers of a request, each once."""


def _scope(environ: Environ) -> Any:
    plain = {
        key.removeprefix("HTTP_").replace("_", "-").lower(): value
        for key, value in environ.items()
        if value and (key.startswith("HTTP_") or key in {"CONTENT_TYPE", "CONTENT_LENGTH"})
    }
    return types.SimpleNamespace(
        method=environ["REQUEST_METHOD"],
        path=environ["PATH_INFO"],
        query_string=environ["QUERY_STRING"],
        server="127.0.0.1:6385",
        client="127.0.0.1:4321",
        http_version="1.1",
        scheme="http",
        authority=None,
        headers=_Headers(plain),
    )
