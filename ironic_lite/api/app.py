"""Put the API together: `front` around Pecan, Pecan around the controllers.

A request goes ``front`` (request id, version, who) -> `Application` (route, body) -> the exposed
method of a controller -> ``render``; errors fly back to ``front``.

To add a resource, write a module in ``controllers`` with a `expose.Controller` whose methods are
exposed, and name the class in ``controllers.ALL``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pecan.core
from oslo_config import cfg

from ironic_lite.api import controllers, front
from ironic_lite.api.fleet import Fleet
from ironic_lite.api.health import probes
from ironic_lite.api.login import identify
from ironic_lite.api.reach import Client
from ironic_lite.api.service import Service
from ironic_lite.api.traffic import arrivals, overdue, rooms
from ironic_lite.api.wire import exchange, render, routes, signatures
from ironic_lite.db import traits
from ironic_lite.db.session import Database
from ironic_lite.rpc import notifier
from ironic_lite.rpc.notifier import Notifier

# Shared by all applications of a process: Pecan keeps it in a global.
_LOCAL = threading.local()


class Application(pecan.core.Pecan):  # type: ignore[misc]  # Pecan ships no types
    """Pecan, with our table of routes in place of its walk over attributes."""

    def __init__(
        self,
        table: routes.Table,
        service: Service,
        places: rooms.Rooms,
        bodies: arrivals.Arrivals,
    ) -> None:
        super().__init__(
            root=table,
            default_renderer=render.NAME,
            custom_renderers={render.NAME: render.Renderer},
            hooks=[],
            context_local_factory=lambda: _LOCAL,
            request_cls=exchange.Request,
            response_cls=exchange.Answer,
        )
        self.service = service
        self._rooms = places
        self._arrivals = bodies

    def __call__(
        self, environ: exchange.Environ, start_response: exchange.StartResponse
    ) -> Iterable[bytes]:
        """Answer one request, in a place of the room that it belongs to, once its body is there.

        :raises errors.Crowded: there is none.
        :raises errors.Forbidden: the rule of its route does not let it pass.
        :raises faults.Refusal: nothing answers there, or its body cannot be had.
        """
        call: exchange.Call = environ[exchange.CALL]
        method = environ["REQUEST_METHOD"]
        found = call.found = self.root.find(method, call.path, call.version.minor)
        call.route = found.route.path or "/"
        call.access.enter(found.rule)
        try:
            if found.route.receives:
                call.body = self._arrivals.read(environ, found.route.limit, strange=call.public)
            with self._rooms.enter(rooms.room_of(method, call.path)):
                answer: Iterable[bytes] = super().__call__(environ, start_response)
                return answer
        finally:
            self._arrivals.forget(environ)

    def find_controller(self, state: Any) -> tuple[Any, list[Any], dict[str, Any]]:
        """Return the handler and its arguments; the body is not yet parsed.

        Stock Pecan reads arguments out of every body and query, and guesses types, before it calls.
        """
        request: exchange.Request = state.request
        local = pecan.core.state
        local.request, local.response = request, state.response
        request.answer = state.response
        request.pecan["content_type"] = "application/json"
        call: exchange.Call = request.environ[exchange.CALL]
        found, request.body = call.found, call.body
        state.controller = local.controller = found.handler
        return found.handler, [request, *found.words], {}


def listening(database: Database, conf: cfg.ConfigOpts) -> Notifier:
    """Return whom the writers of the API tell what they have committed (S5.29).

    :raises config.ConfigError: notifications cannot be sent as configured.
    """
    return notifier.build(
        conf, "ironic-api", lambda node: database.read(lambda conn: traits.get(conn, node))
    )


def routed(
    database: Database,
    client: Client,
    conf: cfg.ConfigOpts,
    told: Notifier | None = None,
    *,
    late: overdue.Overdue | None = None,
) -> Application:
    """Return what `front` hands requests to.

    :param client: how conductors are called: `rpc.client.Client`.
    :param told: from `listening`, for a caller who closes it; None makes one.
    :param late: see `arrivals.Arrivals`.
    """
    signatures.remember()
    told = told or listening(database, conf)
    places = rooms.Rooms(conf)
    service = Service(database, rooms.Client(client, places), Fleet(database, conf), conf, told)
    rows = (row for each in controllers.ALL for row in each(service).rows())
    bodies = arrivals.Arrivals(
        memory=conf.api.max_body_memory_mib, seconds=conf.api.body_timeout, late=late
    )
    return Application(routes.Table(rows), service, places, bodies)


def build(
    database: Database,
    client: Client,
    conf: cfg.ConfigOpts,
    told: Notifier | None = None,
    *,
    late: overdue.Overdue | None = None,
) -> front.Front:
    """Return the whole API as a WSGI application; the parameters are those of `routed`.

    :raises config.ConfigError: as `routed`, or [api]auth_strategy cannot be followed.
    """
    inner = routed(database, client, conf, told, late=late)
    watched = probes.table(conf, lambda: inner.service)
    return front.Front(inner, conf, identify.way(conf), watched)
