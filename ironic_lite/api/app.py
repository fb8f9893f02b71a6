"""Build the API: `middleware` around Pecan, Pecan around the controllers.

A request passes ``middleware`` (request id, version, login), `Application` (route) and `Root`, then
reaches the exposed method of a controller and ``render``. Exceptions return to ``middleware``.

To add a resource, write a module in ``controllers`` with an `expose.Controller` whose methods are
exposed. Then add the class to ``controllers.ALL``, or to the `Extension` of a feature.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pecan

from ironic_lite.api import controllers, health, middleware, policy
from ironic_lite.api.auth import identify
from ironic_lite.api.http import expose, limits, refusals, request
from ironic_lite.api.resources import idempotency
from ironic_lite.api.service import Client, ConductorRouter, Extension, LockWaiters, Service
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.queries.step_durations import UsualTimes
from ironic_lite.feed import Tail
from ironic_lite.rpc import notifier
from ironic_lite.rpc.notifier import Notifier

# Shared by all applications of a process, because Pecan keeps it in a global.
_LOCAL = threading.local()


class Root:
    """The one controller Pecan can reach; the table of routes contains the others.

    Pecan's own routing takes words of the URL as attribute names of controllers. Therefore
    `request.Request.path_info` directs every request to this controller.
    """

    @pecan.expose(template=refusals.TEMPLATE, content_type="application/json")  # type: ignore[untyped-decorator]
    def index(self) -> Any:
        """Return the value that the handler of the current request returns."""
        return pecan.request.handle()


class Application(pecan.Pecan):  # type: ignore[misc]  # Pecan ships no types
    """Pecan with the service's table of routes in front."""

    def __init__(
        self,
        table: expose.Table,
        service: Service,
        places: limits.ConcurrencyLimits,
    ) -> None:
        super().__init__(
            root=Root(),
            default_renderer=refusals.NAME,
            custom_renderers={refusals.NAME: refusals.Renderer},
            hooks=[],
            guess_content_type_from_ext=False,
            context_local_factory=lambda: _LOCAL,
            request_cls=request.Request,
            response_cls=request.Answer,
        )
        self.service = service
        self.table = table
        self._rooms = places
        self._repeats = idempotency.Repeats(service, table)

    def admit(self, environ: request.Environ) -> int:
        """Find the handler of a request; return the KiB its body may have, 0 for no body.

        :raises refusals.Refusal: no handler has this path, method and version.
        :raises errors.Forbidden: the caller does not pass a rule that needs no object.
        """
        call: request.Call = environ[request.CALL]
        found = call.found = self.table.find(
            environ["REQUEST_METHOD"], call.path, call.version.minor
        )
        call.route = found.route.path or "/"
        call.access.enter(found.rule)
        return found.route.limit if found.route.receives else 0

    def __call__(
        self, environ: request.Environ, start_response: request.StartResponse
    ) -> Iterable[bytes]:
        """Answer an admitted request within the concurrency limit of its group.

        :raises errors.TooManyRequests: the group has no free slot.
        """
        room = limits.room_of(environ["REQUEST_METHOD"], environ[request.CALL].path)
        with self._rooms.enter(room):
            if idempotency.HEADER in environ:
                return self._repeats.answer(environ, start_response, self._act)
            return self._act(environ, start_response)

    def _act(
        self, environ: request.Environ, start_response: request.StartResponse
    ) -> Iterable[bytes]:
        answer: Iterable[bytes] = super().__call__(environ, start_response)
        return answer

    def find_controller(self, state: Any) -> tuple[Callable[..., Any], list[Any], Json]:
        """Return `Root.index`, which answers every request, without Pecan's search.

        The search takes a twentieth of the time of a GET.

        :param state: Pecan's state, with the request and the answer.
        """
        _LOCAL.request, _LOCAL.response = state.request, state.response
        state.controller = self.root.index
        return state.controller, [], {}

    def handle_hooks(self, *_arguments: object) -> None:
        """Do nothing, because there are no hooks; Pecan's own search for them takes longer."""

    def invoke_controller(
        self,
        controller: Callable[..., Any],
        args: Sequence[Any],
        kwargs: JsonView,
        state: Any,
    ) -> None:
        """Render the result of the controller into the answer.

        Stock Pecan inspects the controller's signature for each request, to drop unknown arguments.
        That takes a fifth of the time of a GET, and `Root.index` has no arguments.

        :param state: Pecan's state, with the request and the answer.
        """
        state.request.answer = state.response
        state.response.body = refusals.Renderer.render(
            refusals.TEMPLATE, controller(*args, **kwargs)
        )


def listening(database: Database, conf: Configuration) -> Notifier:
    """Return the notifier that the API's writers use after a commit.

    Requirement S5.29.

    :raises config.ConfigError: notifications cannot be sent as configured.
    """
    return notifier.build(
        conf, "ironic-api", lambda node: database.read(lambda conn: nodes.get_traits(conn, node))
    )


def routed(
    database: Database,
    client: Client,
    conf: Configuration,
    told: Notifier | None = None,
    tail: Tail | None = None,
    *,
    extensions: tuple[Extension, ...] = (),
) -> Application:
    """Return the application that `middleware` passes requests to.

    :param client: calls conductors: `rpc.client.RpcClient`.
    :param told: the result of `listening`, which the caller closes; None builds a new one.
    :param tail: the newest events; None builds a new one.
    :param extensions: of the features that are on.
    """
    told = told or listening(database, conf)
    places = limits.ConcurrencyLimits(conf)
    service = Service(
        database,
        client,
        places.limit_question,
        ConductorRouter(database, conf),
        conf,
        told,
        LockWaiters(conf),
        tail or Tail(database),
        UsualTimes(database),
        extensions,
    )
    for each in extensions:
        policy.add(each.rules)
    served = controllers.of(extensions)
    table = expose.Table(_tree(served), {each: each(service) for each in served})
    return Application(table, service, places)


@functools.cache
def _tree(served: tuple[type[expose.Controller], ...]) -> expose.PathNode:
    """Return the routes of these controllers, which applications of a process share."""
    return expose.tree(
        (route, expose.Handler(each, function))
        for each in served
        for route, function in each.exposed()
    )


def build(
    database: Database,
    client: Client,
    conf: Configuration,
    told: Notifier | None = None,
    tail: Tail | None = None,
    *,
    page: health.ReadinessPage | None = None,
    extensions: tuple[Extension, ...] = (),
) -> middleware.RequestMiddleware:
    """Return the whole API as a WSGI application; parameters as for `routed`.

    :param page: as of `health.probe_table`.
    :raises config.ConfigError: as for `routed`, or [api]auth_strategy cannot be used.
    """
    inner = routed(database, client, conf, told, tail, extensions=extensions)
    watched: dict[str, middleware.Direct] = dict(
        health.probe_table(conf, lambda: inner.service, page)
    )
    for each in extensions:
        watched |= each.files(conf)
    return middleware.RequestMiddleware(inner, conf, identify.way(conf), watched)
