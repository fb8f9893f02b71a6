"""One process of the API: answers, with granian, what comes to a socket, until a signal."""

from __future__ import annotations

import pathlib
import socket
from typing import Any

from granian import constants, http, log, net
from granian.server import mp
from oslo_config import cfg

from ironic_lite.api import app, front
from ironic_lite.api.login import identify
from ironic_lite.api.traffic import farewell, listening, overdue
from ironic_lite.api.wire import exchange, faults
from ironic_lite.db import session
from ironic_lite.rpc import client, transport

_LARGEST_HEAD = 64 * 1024
"""Bytes of a request's headers; also what is read ahead of each connection."""
_IDLE_SECONDS = 60
_LOGGING = {"handlers": {}, "formatters": {}, "loggers": {"_granian": {"propagate": True}}}
"""Have granian log through our own handlers."""


def serve(conf: cfg.ConfigOpts, opened: socket.socket) -> None:
    """Answer requests until SIGTERM or SIGINT, or until ``farewell.CLOSE``; those in hand are
    finished then.

    Database and RPC are opened here, so that a fork may come before.

    :param opened: from `listening.listen`; this process gives it away.
    """
    database = session.configured(conf)
    told = app.listening(database, conf)
    late = overdue.Overdue(opened.getsockname())
    application = app.build(database, client.Client(transport.get()), conf, told, late=late)
    kept = isinstance(opened, listening.Handed)
    farewell.prepare(opened.getsockname(), application.close, kept=kept)
    pair = (conf.api.ssl_cert_file, conf.api.ssl_key_file)
    certificate, key = (pathlib.Path(path) if path else None for path in pair)
    try:
        _Granian(
            "ironic_lite",
            interface=constants.Interfaces.WSGI,
            # Of HTTP/2, idle connections are never closed, and one can ask for hundreds of threads.
            http=constants.HTTPModes.http1,
            websockets=False,
            backlog=listening.MOST_WAITING,
            # Each request is looked at at once: those beyond a limit are refused, not queued.
            backpressure=conf.api.max_connections,
            blocking_threads=conf.api.max_connections,
            http1_settings=http.HTTP1Settings(max_buffer_size=_LARGEST_HEAD),
            blocking_threads_idle_timeout=_IDLE_SECONDS,
            log_level=log.LogLevels.warning,
            log_dictconfig=_LOGGING,
            ssl_cert=certificate,
            ssl_key=key,
            ssl_protocol_min=constants.SSLProtocols.tls12,
        ).run(application, opened)
    finally:
        told.close()
        database.close()


def check(conf: cfg.ConfigOpts) -> None:
    """Make sure that callers can be known as configured, before processes are started.

    :raises config.ConfigError: they cannot.
    """
    identify.way(conf)


class _Granian(mp.MPServer):
    """Granian's worker without its master: the process that calls `run` is the worker.

    Granian's own master opens a socket for each worker with SO_REUSEPORT: a second service on the
    same port goes unnoticed, and a worker that dies takes its waiting connections along.
    """

    def run(self, application: front.Front, opened: socket.socket) -> None:
        """Serve until a signal."""
        holder: Any = net.SocketHolder  # type: ignore[attr-defined]  # its stub is incomplete
        # From here on, granian closes it.
        self._shd = holder(opened.detach(), False, self.backlog)
        self._ssp = self._sso = None
        self.runtime_mode = constants.RuntimeModes.mt
        _make_answerable()
        worker = self._spawn_worker(0, self._spawn_wsgi_worker, lambda: application)
        worker.inner.run()


def _make_answerable() -> None:
    """Have granian leave an `overdue.Answer` in the environment of each request."""
    inside: Any = mp  # it offers no way to what sends its answers
    wrapped = inside._wsgi_call_wrap

    def wrap(*args: Any, **kwargs: Any) -> Any:
        inner = wrapped(*args, **kwargs)

        def call(protocol: Any, scope: dict[str, Any]) -> Any:
            def answer(environ: dict[str, Any], why: faults.Refusal) -> None:
                headers = exchange.refusal_headers(environ, why)
                protocol.response_bytes(why.status, headers, why.body)

            scope[overdue.ANSWER] = answer
            return inner(protocol, scope)

        return call

    inside._wsgi_call_wrap = wrap
