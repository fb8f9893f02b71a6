"""One process of the API: HTTP by granian in an event loop, until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
import io
import os
import pathlib
import queue
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import uvloop
from granian import constants, http, log, rsgi
from granian.server import embed

from ironic_lite import errors
from ironic_lite.api import app, health, middleware
from ironic_lite.api.auth import identify
from ironic_lite.api.http import limits, listen_socket, refusals, request, watchers
from ironic_lite.api.http.request import Environ, Later, Stream, Suspension, TextStream
from ironic_lite.api.middleware import Wsgi
from ironic_lite.api.service import Extension
from ironic_lite.core import certificate_files, config
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine import session
from ironic_lite.feed import Tail
from ironic_lite.rpc import client, transport

# Threads for the blocking part of requests, called from an event loop.
#
# ``concurrent.futures.ThreadPoolExecutor`` keeps every thread it has started, so one busy minute
# would cost the stacks of hundreds of threads permanently. Each of its calls also builds two
# futures, a tenth of the cost of a cheap request. This pool serves one event loop only.

T = TypeVar("T")
_IDLE_SECONDS = 5.0
_PAUSE = 0.005
"""Seconds between two checks for idle threads."""
LATEST = 0.05
"""Longest delay in seconds of a result None of `ThreadPool.finish`."""


class ThreadPool:
    """A pool of threads; built, called and closed in its event loop.

    :param most: threads; further calls wait in order.
    :param idle_seconds: time after which an unused thread ends.
    """

    def __init__(self, most: int, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: list[Any] = []
        self._woken = False
        """True if the loop has been woken for waiting results."""
        self._adding = threading.Lock()
        # All three change only in the event loop, so they need no lock.
        # The number of threads.
        self.threads = 0
        self._free = 0
        """Threads that wait for a call; below 0, the calls that wait for a thread."""
        self._unused = 0
        """The fewest free threads since the last check."""
        self._timer = self._loop.call_later(idle_seconds, self._trim_threads)
        self._late: asyncio.TimerHandle | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in another thread; return its result or raise its exception.

        :raises errors.Unavailable: there is no thread, and the system refuses to start one.
        """
        return await self._call_in_thread(work, late=False)

    async def finish(self, work: Callable[[], T]) -> T:
        """Work like `run`, but return up to 50 ms later if the result is None.

        Waking the loop takes a large part of the time of a cheap request. Use this if None means
        that nothing is left to do; the next call delivers the result.
        """
        if self._late is None:
            self._late = self._loop.call_later(LATEST, self._settle_late)
        return await self._call_in_thread(work, late=True)

    def _call_in_thread(self, work: Callable[[], T], *, late: bool) -> asyncio.Future[T]:
        if self._done:
            self._deliver_results()
        if self._free <= 0 and self.threads < self._most:
            self._start_thread()
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.put((work, future, late))
        self._free -= 1
        self._unused = min(self._unused, self._free)
        return future

    async def drain(self, seconds: float) -> None:
        """Wait until no call is running, at most for ``seconds``."""
        until = self._loop.time() + seconds
        while self._free < self.threads and self._loop.time() < until:
            await asyncio.sleep(_PAUSE)
            self._deliver_results()
        # Lets the coroutines that wait for results continue before this returns.
        await asyncio.sleep(0)

    def close(self) -> None:
        """Make threads end once they have no work."""
        self._timer.cancel()
        if self._late is not None:
            self._late.cancel()
        self._end_threads(self.threads)

    def _start_thread(self) -> None:
        name = f"request-{self.threads}"
        try:
            threading.Thread(target=self._serve_calls, name=name, daemon=True).start()
        except RuntimeError as why:  # a limit of processes or of memory
            if self.threads:
                return  # the call waits for one of these
            raise errors.Unavailable(f"The service has no thread ({why}); retry later.") from None
        self.threads += 1
        self._free += 1

    def _serve_calls(self) -> None:
        calls, loop = self._calls, self._loop
        while (call := calls.get()) is not None:
            work, future, late = call
            value = error = None
            try:
                value = work()
            except BaseException as why:
                error = why
            with self._adding:
                self._done.append((future, value, error))
                # Waking the loop is expensive; only the first of several results does it.
                eager = not late or value is not None or error is not None
                wake = not self._woken and eager
                self._woken = self._woken or wake
            # Finished objects must not stay alive until the next call.
            del call, work, future, value, error
            if wake:
                try:
                    loop.call_soon_threadsafe(self._deliver_results)
                except RuntimeError:  # the loop is closed, so nothing waits for the result
                    return

    def _deliver_results(self) -> None:
        """Deliver all waiting results."""
        with self._adding:
            done, self._done, self._woken = self._done, [], False
        for future, value, error in done:
            self._free += 1
            if future.cancelled():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def _settle_late(self) -> None:
        self._deliver_results()
        waiting = self._free < self.threads
        self._late = self._loop.call_later(LATEST, self._settle_late) if waiting else None

    def _trim_threads(self) -> None:
        """End the threads that were not needed since the last check."""
        if self._unused > 0:
            self._end_threads(self._unused)
        self._unused = self._free
        self._timer = self._loop.call_later(self._idle_seconds, self._trim_threads)

    def _end_threads(self, count: int) -> None:
        self.threads -= count
        self._free -= count
        for _ in range(count):
            self._calls.put(None)


# Requests of the event loop: the RSGI application that granian calls.
#
# Each request has one coroutine. The body is read here, in the event loop, before a thread is
# taken. `middleware.RequestMiddleware` blocks, so it runs in a pool of threads: for a whole
# request, or for the head and then for the rest of a request with a body. Only what waits for
# nothing is done in the event loop: some answers (``/livez``), and the check of such a head if no
# login has to be checked.
#
# A handler that wants to wait or to stream leaves a record in its `request.Call` (`request.Later`).
# The coroutine of the request then waits without a thread and calls the handler again, or streams.
#
# RSGI: https://github.com/emmett-framework/granian/blob/master/docs/spec/RSGI.md

_MOST_THREADS = 1024
_COMPRESSED_FROM = 8 * 1024
"""Bytes of a body from which compression saves packets."""
_FAST = 1
"""A higher level of gzip takes several times as long for a tenth less of JSON."""
_LAST_SECONDS = 1.0
"""Seconds that answered requests may take to end when the process stops."""
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""Replaces a header value that is not text, so that an unreadable condition is not ignored."""
_NOTHING = io.BytesIO()
_CGI = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}


class Exchange(limits.BodySource, Protocol):
    """The part of RSGI's protocol object that this module uses."""

    def response_empty(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Answer without a body."""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Answer with a body."""

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> watchers.Transport:
        """Begin an answer whose body is sent in pieces."""

    async def client_disconnect(self) -> None:
        """Return when the client has closed its connection."""


class EventLoopApplication:
    """Answers the requests of one event loop; must be built in that loop.

    :param inner: answers one request in a thread.
    :param tail: the newest events.
    """

    def __init__(
        self, inner: middleware.RequestMiddleware, conf: Configuration, tail: Tail
    ) -> None:
        self._front = inner
        self._bodies = inner.bodies
        self._sources = limits.SourceLimit(conf)
        self._threads = ThreadPool(_MOST_THREADS)
        self._unsent = limits.UnsentAnswers(conf)
        self._watchers = watchers.Watchers(tail, self._threads.run, conf)

    async def end_watches(self) -> None:
        """End streams and waits, because the process stops."""
        await self._watchers.close()

    async def close(self) -> None:
        """Wait for answered requests to end, then stop the threads."""
        await self._threads.drain(_LAST_SECONDS)
        self._threads.close()

    async def __rsgi__(self, scope: rsgi.Scope, protocol: Exchange) -> None:
        """Answer one request."""
        environ, answer = request_environment(scope), _Answer(protocol)
        place = ""
        try:
            place = self._sources.enter(environ)
            if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
                later = await self._answer_with_body(environ, answer, place, protocol)
            elif self._front.immediate(environ):
                later = self._answer(self._front, environ, answer, place)
            else:
                later = await self._answer_in_thread(self._front, environ, answer, place)
            if later is not None:
                await self._watch(later, environ, place, answer, protocol)
            if answer.large:
                await self._send_large(environ, answer, place, protocol)
        except (refusals.Refusal, errors.Error) as why:
            answer.large = b""
            answer.send(self._front.refuse(environ, answer, why))
        finally:
            self._bodies.release(environ)

    async def _send_large(
        self, environ: Environ, answer: _Answer, place: str, protocol: Exchange
    ) -> None:
        """Send a large answer, and count its memory until the client has read it or has left.

        :raises errors.TooManyRequests: too many answers are unsent, and this one changed nothing.
        """
        must = environ["REQUEST_METHOD"] != "GET"
        async with self._unsent.hold(len(answer.large), place, must=must):
            transport = protocol.response_stream(answer.status, answer.headers)
            # granian copies the answer, and reports when the whole response has left.
            await transport.send_bytes(answer.large)
            answer.large = b""
            await protocol.client_disconnect()

    async def _answer_in_thread(
        self, front: Wsgi, environ: Environ, answer: _Answer, place: str
    ) -> Later | None:
        """Answer a request as `_answer`, in a thread."""
        try:
            return await self._threads.finish(lambda: self._answer(front, environ, answer, place))
        except errors.Unavailable:  # no thread has started
            self._sources.leave(place)
            raise

    def _answer(self, front: Wsgi, environ: Environ, answer: _Answer, place: str) -> Later | None:
        """Answer a request, or return how its handler wants to go on.

        :param front: the middleware, or its `answer` for a request whose head it has admitted.
        """
        try:
            parts = front(environ, answer)
        finally:
            # Free the slot before the client has its answer and sends the next request.
            self._sources.leave(place)
        later = answer.finish(environ, parts)
        if later is None:
            self._bodies.release(environ)
        return later

    async def _watch(
        self,
        later: Later,
        environ: Environ,
        source: str,
        answer: _Answer,
        protocol: Exchange,
    ) -> None:
        """Let a request wait or stream until it is answered, or its client leaves.

        :param source: the network of the client.
        :raises errors.TooManyRequests: too many requests wait or stream.
        """
        call: request.Call = environ[request.CALL]
        call.waited = True
        if isinstance(later, Suspension):
            work = asyncio.ensure_future(self._wait(later, source, environ, answer))
        else:
            place = self._watchers.place("stream", source, call.access.counted_project)
            work = asyncio.ensure_future(self._stream(later, place, answer, protocol))
        gone = asyncio.ensure_future(protocol.client_disconnect())
        await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

    async def _stream(
        self,
        stream: Stream | TextStream,
        place: contextlib.AbstractContextManager[None],
        answer: _Answer,
        protocol: Exchange,
    ) -> None:
        # The send may notice first that the client has left.
        gone = contextlib.suppress(rsgi.ProtocolClosed)  # type: ignore[attr-defined]  # as below
        with place, gone:
            if isinstance(stream, TextStream):
                headers = [*answer.extra, *watchers.TEXT_HEADERS]
                transport = protocol.response_stream(200, headers)
                await self._watchers.stream_text(stream, transport)
                return
            transport = protocol.response_stream(200, [*answer.extra, *watchers.EVENT_HEADERS])
            await self._watchers.stream(stream, transport)

    async def _wait(
        self, suspension: Suspension, source: str, environ: Environ, answer: _Answer
    ) -> None:
        """Handle a request again until it has an answer.

        A request that the service is too busy to handle again goes on waiting, and gets the last
        answer that it had: its work may have been accepted.
        """
        clock = asyncio.get_running_loop().time
        access = environ[request.CALL].access
        until = clock() + suspension.seconds
        last = suspension

        def answered() -> Later | None:
            parts = self._front.answer(environ, answer)
            if answer.unavailable and answer.kept and environ[request.CALL].later is None:
                return dataclasses.replace(last, seconds=until - clock())
            return answer.finish(environ, parts)

        async def again() -> Suspension | None:
            nonlocal until, last
            try:
                later = await self._threads.run(answered)
            except errors.Unavailable:  # no thread has started
                later = dataclasses.replace(last, seconds=until - clock())
            if not isinstance(later, Suspension):
                return None
            if later.seconds <= 0:
                answer.send_kept()
                return None
            last, until = later, clock() + later.seconds
            return later.within(access.login_seconds)

        try:
            with self._watchers.place("wait", source, access.counted_project):
                begun = suspension.within(access.login_seconds)
                if not await self._watchers.wait(begun, again):
                    answer.send_kept()
        except errors.TooManyRequests:
            call: request.Call = environ[request.CALL]
            if not call.accepted:
                call.heeded = ""
                raise
            answer.send_kept()  # the conductor has accepted the work

    async def _answer_with_body(
        self, environ: Environ, answer: _Answer, place: str, protocol: Exchange
    ) -> Later | None:
        """Answer a request that has, or may have, a body, or return how it wants to go on.

        :raises refusals.Refusal: the body is refused.
        :raises errors.Error: memory or threads are exhausted.
        """
        admitted = False
        try:
            if self._front.admits_at_once:
                limit = self._admit_request(environ, answer)
            else:
                limit = await self._threads.run(lambda: self._admit_request(environ, answer))
            if limit:
                await self._read_body(environ, limit, protocol)
            admitted = limit is not None
        finally:
            if not admitted:
                self._sources.leave(place)
        if not admitted:
            return None
        return await self._answer_in_thread(self._front.answer, environ, answer, place)

    def _admit_request(self, environ: Environ, answer: _Answer) -> int | None:
        """Return the KiB the body may have, None if the request has been refused."""
        try:
            return self._front.admit(environ)
        except Exception as why:
            answer.send(self._front.refuse(environ, answer, why))
            return None

    async def _read_body(self, environ: Environ, limit: int, protocol: Exchange) -> None:
        call: request.Call = environ[request.CALL]
        try:
            call.body = await self._bodies.receive(environ, limit, protocol, anonymous=call.public)
        except rsgi.ProtocolClosed:  # type: ignore[attr-defined]  # exported, but not marked so
            raise limits.incomplete_body() from None


class _Answer:
    """Passes the answer of a WSGI application to RSGI; used as ``start_response``."""

    __slots__ = ("_protocol", "headers", "kept", "large", "status")

    def __init__(self, protocol: Exchange) -> None:
        self._protocol = protocol
        self.large = b""
        """A large body, which the coroutine of the request sends."""
        self.status = 500
        self.headers: list[tuple[str, str]] = []
        self.kept: tuple[int, list[tuple[str, str]], Iterable[bytes]] | None = None
        """The answer of a suspended request, if the time were over."""

    @property
    def extra(self) -> list[tuple[str, str]]:
        """The headers without those of the body."""
        return [pair for pair in self.headers if not pair[0].startswith("Content-")]

    @property
    def unavailable(self) -> bool:
        """True if the application has answered 503."""
        return self.status == HTTPStatus.SERVICE_UNAVAILABLE

    def finish(self, environ: Environ, parts: Iterable[bytes]) -> Later | None:
        """Send the answer, or return how its handler wants to go on instead."""
        call: request.Call = environ[request.CALL]
        later, call.later = call.later, None
        if later is None:
            self.send(self._compress(environ, parts))
        else:
            self.kept = (self.status, self.headers, parts)
        return later

    def _compress(self, environ: Environ, parts: Iterable[bytes]) -> Iterable[bytes]:
        """Return the body, compressed if it is long JSON and the client takes gzip.

        An answer with an entity tag is short, and a compressed one would need another tag.
        """
        parts = tuple(parts)
        named = dict(self.headers)
        size = sum(map(len, parts))
        long = size >= _COMPRESSED_FROM and named.get("Content-Type") == "application/json"
        if not long or "ETag" in named or not request.takes_coding(environ, "gzip", "*"):
            return parts
        body = gzip.compress(b"".join(parts), _FAST, mtime=0)
        self.headers = [
            *(pair for pair in self.headers if pair[0] != "Content-Length"),
            ("Content-Length", str(len(body))),
            ("Content-Encoding", "gzip"),
            ("Vary", "Accept-Encoding"),
        ]
        return (body,)

    def send_kept(self) -> None:
        """Send the answer that a suspended request has now."""
        if self.kept is not None:
            self.status, self.headers, parts = self.kept
            self.send(parts)

    def __call__(self, status: str, headers: list[tuple[str, str]], _info: Any = None) -> None:
        self.status = int(status[:3])
        self.headers = headers

    def send(self, parts: Iterable[bytes]) -> None:
        """Pass status, headers and body to the server, from any thread."""
        body = b"".join(parts)
        if len(body) > limits.LARGE_ANSWER:
            self.large = body
        elif body:
            self._protocol.response_bytes(self.status, self.headers, body)
        else:
            self._protocol.response_empty(self.status, self.headers)


def request_environment(scope: rsgi.Scope) -> Environ:
    """Return the WSGI environment (PEP 3333) of a request without its body.

    Header names with an underscore are left out, because X_Forwarded_For would become
    X-Forwarded-For.
    """
    # A unix socket has only a path, and its clients have no address.
    server, _, port = (scope.server if scope.client else "localhost:80").rpartition(":")
    environ: Environ = {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": _latin_text(scope.path),
        "QUERY_STRING": _latin_text(scope.query_string),
        "SERVER_NAME": server,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        # Clients of a unix socket are one source of requests: that of the proxy before it.
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]") or "unix",
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


STOP_SECONDS = 25.0
"""Seconds that requests may take during a stop; then their connections are cut off."""
_LARGEST_HEAD = 64 * 1024
"""Bytes of a request's headers; also the read-ahead of each connection."""
_PROBE_SECONDS = 0.01
_CLOSING_SECONDS = 0.1
"""Seconds in which the server closes its socket; it does not report it."""
_PRIVATE = 0o177
"""Mask that keeps other users from a unix socket until it has its mode."""
_FILES = 1024
"""File descriptors for everything except client connections."""
_LOGGING = {"handlers": {}, "formatters": {}, "loggers": {"_granian": {"propagate": True}}}
"""Makes granian log through the service's own handlers."""


def serve(
    conf: Configuration,
    address: listen_socket.ListenAddress,
    *,
    begin: Callable[[], object],
    listening: Callable[[], object],
    page: health.ReadinessPage,
    extensions: tuple[Extension, ...],
) -> None:
    """Answer requests until SIGTERM, then finish the running requests.

    Database and RPC are opened here, so that the caller may fork before.

    :param begin: called when all is ready but the socket; may wait. The database may be made
        meanwhile.
    :param address: from `listen_socket.reserve`. Each process opens its own socket there, and Linux
        divides connections among the sockets (SO_REUSEPORT).
    :param listening: called once the socket accepts connections.
    :param page: the last result of the readiness of all processes at this address.
    :param extensions: of the features that are on.
    :raises RuntimeError: granian has stopped by itself.
    """
    _allow_files(conf.api.max_connections)
    database = session.configured(conf)
    told = app.listening(database, conf)
    try:
        tail = Tail(database)
        caller = client.RpcClient(transport.get())
        application = app.build(
            database, caller, conf, told, tail, page=page, extensions=extensions
        )
        begin()
        # uvloop wakes up faster, and each request takes two or three wake-ups.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve_until_stopped(application, conf, address, tail, listening))
    finally:
        told.close()
        database.close()


def check(conf: Configuration) -> None:
    """Check the login configuration before processes are started.

    :raises config.ConfigError: callers cannot be identified as configured.
    """
    identify.way(conf)


async def _serve_until_stopped(
    inner: middleware.RequestMiddleware,
    conf: Configuration,
    address: listen_socket.ListenAddress,
    tail: Tail,
    listening: Callable[[], object],
) -> None:
    application = EventLoopApplication(inner, conf, tail)
    server = _embedded_server(application, conf, address)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    serving = asyncio.create_task(server.serve())
    waiting = asyncio.create_task(stopping.wait())
    probing = asyncio.create_task(_wait_until_listening(conf, address, listening))
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    probing.cancel()
    if serving.done():
        waiting.cancel()
        serving.result()
        raise RuntimeError("granian has stopped by itself")
    server.stop()  # type: ignore[no-untyped-call]
    # A client whose stream ends connects again at once, and must not reach this socket.
    await asyncio.sleep(_CLOSING_SECONDS)
    await application.end_watches()
    # A client that reads its answer too slowly is cut off when the process ends.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(serving, STOP_SECONDS)
    await application.close()


async def _wait_until_listening(
    conf: Configuration, address: listen_socket.ListenAddress, listening: Callable[[], object]
) -> None:
    """Call ``listening`` once the address accepts a connection; the server has no hook for it."""
    path = address.path
    while True:
        try:
            if path is None:
                _, writer = await asyncio.open_connection(*address)
            else:
                _, writer = await asyncio.open_unix_connection(listen_socket.claimed(path))
        except OSError:
            await asyncio.sleep(_PROBE_SECONDS)
        else:
            writer.close()
            if path is not None:
                listen_socket.publish(path, conf.api.unix_socket_mode)
            listening()
            return


def _embedded_server(
    application: EventLoopApplication, conf: Configuration, address: listen_socket.ListenAddress
) -> embed.Server:
    pair = config.api_certificate(conf)
    certificate, key = (None, None) if pair is None else map(pathlib.Path, pair)
    if pair is not None:
        certificate_files.note_use(listen_socket.CERTIFICATE, pair[0])
    if address.path is not None:
        os.umask(_PRIVATE)  # this process makes no other file that others read
    return embed.Server(
        application,
        address=address.host,
        port=address.port,
        uds=address.path and listen_socket.claimed(address.path),
        interface=constants.Interfaces.RSGI,
        # granian never closes idle connections of HTTP/2.
        http=constants.HTTPModes.http1,
        websockets=False,
        backlog=listen_socket.MOST_WAITING,
        backpressure=conf.api.max_connections,
        http1_settings=http.HTTP1Settings(
            header_read_timeout=1000 * conf.api.head_timeout, max_buffer_size=_LARGEST_HEAD
        ),
        # Hides granian's warning at each start that embedding is new.
        log_level=log.LogLevels.error,
        log_dictconfig=_LOGGING,
        ssl_cert=certificate,
        ssl_key=key,
        ssl_protocol_min=constants.SSLProtocols(f"tls{conf.api.server_tls_minimum_version}"),
    )


def _allow_files(connections: int) -> None:
    """Raise this process's limit of open files as far as needed and allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
