"""One process of the API: HTTP by granian in an event loop, until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import resource
import signal
from collections.abc import Callable

import uvloop
from granian import constants, http, log
from granian.server import embed

from ironic_lite.api import app, middleware, rsgi
from ironic_lite.api.auth import identify
from ironic_lite.api.health import readiness
from ironic_lite.api.traffic import listen_socket
from ironic_lite.core import certificate_files, config
from ironic_lite.core.configuration import Configuration
from ironic_lite.db.engine import session
from ironic_lite.feed.tail import Tail
from ironic_lite.rpc import client, transport

STOP_SECONDS = 25.0
"""Seconds that requests may take during a stop; then their connections are cut off."""
_LARGEST_HEAD = 64 * 1024
"""Bytes of a request's headers; also the read-ahead of each connection."""
_PROBE_SECONDS = 0.01
_FILES = 1024
"""File descriptors for everything except client connections."""
_LOGGING = {"handlers": {}, "formatters": {}, "loggers": {"_granian": {"propagate": True}}}
"""Makes granian log through the service's own handlers."""


def serve(
    conf: Configuration,
    address: listen_socket.Address,
    *,
    begin: Callable[[], object],
    listening: Callable[[], object],
    page: readiness.Page,
) -> None:
    """Answer requests until SIGTERM, then finish the running requests.

    Database and RPC are opened here, so that the caller may fork before.

    :param begin: called when all is ready but the socket; may wait. The database may be made
        meanwhile.
    :param address: from `listen_socket.reserve`. Each process opens its own socket there, and Linux
        divides connections among the sockets (SO_REUSEPORT).
    :param listening: called once the socket accepts connections.
    :param page: the last result of the readiness of all processes at this address.
    :raises RuntimeError: granian has stopped by itself.
    """
    _allow_files(conf.api.max_connections)
    database = session.configured(conf)
    told = app.listening(database, conf)
    try:
        tail = Tail(database)
        application = app.build(
            database, client.Client(transport.get()), conf, told, tail, page=page
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
    address: listen_socket.Address,
    tail: Tail,
    listening: Callable[[], object],
) -> None:
    application = rsgi.Application(inner, conf, tail)
    server = _embedded_server(application, conf, address)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    serving = asyncio.create_task(server.serve())
    waiting = asyncio.create_task(stopping.wait())
    probing = asyncio.create_task(_wait_until_listening(address, listening))
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    probing.cancel()
    if serving.done():
        waiting.cancel()
        serving.result()
        raise RuntimeError("granian has stopped by itself")
    server.stop()  # type: ignore[no-untyped-call]
    await application.end_watches()
    # A client that reads its answer too slowly is cut off when the process ends.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(serving, STOP_SECONDS)
    await application.close()


async def _wait_until_listening(
    address: listen_socket.Address, listening: Callable[[], object]
) -> None:
    """Call ``listening`` once the address accepts a connection; the server has no hook for it."""
    while True:
        try:
            _, writer = await asyncio.open_connection(*address)
        except OSError:
            await asyncio.sleep(_PROBE_SECONDS)
        else:
            writer.close()
            listening()
            return


def _embedded_server(
    application: rsgi.Application, conf: Configuration, address: listen_socket.Address
) -> embed.Server:
    pair = config.api_certificate(conf)
    certificate, key = (None, None) if pair is None else map(pathlib.Path, pair)
    if pair is not None:
        certificate_files.note_use(listen_socket.CERTIFICATE, pair[0])
    host, port = address
    return embed.Server(
        application,
        address=host,
        port=port,
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
