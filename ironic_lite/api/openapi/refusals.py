"""Which refusals a route can answer with, by what it reads, names and changes: its row says it."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from ironic_lite.api import policy
from ironic_lite.api.wire.routes import Route

_READING = frozenset({"GET", "HEAD"})

Applies = Callable[[Route], bool]


def _named(route: Route) -> bool:
    """Something is named that may not be there, or the route itself is not in older versions."""
    return "{" in route.path or route.since > 1


def bound(route: Route) -> bool:
    """Tell whether If-Match can bind a change to the node as it was read."""
    return route.method != "GET" and route.path.startswith("/nodes/{ident}")


_TABLE: tuple[tuple[HTTPStatus, Applies], ...] = (
    # Arguments that nobody knows, a path that is no text, a header of a login that is none.
    (HTTPStatus.BAD_REQUEST, lambda _: True),
    (HTTPStatus.UNAUTHORIZED, lambda route: not policy.public(route.path)),
    (
        HTTPStatus.FORBIDDEN,
        lambda route: policy.guard(route.method, route.path) is not None,
    ),
    (HTTPStatus.NOT_FOUND, _named),
    # A version that nobody speaks.
    (HTTPStatus.NOT_ACCEPTABLE, lambda _: True),
    (HTTPStatus.REQUEST_TIMEOUT, lambda route: route.receives),
    (HTTPStatus.CONFLICT, lambda route: route.method not in _READING),
    (HTTPStatus.PRECONDITION_FAILED, bound),
    (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, lambda route: route.receives),
    # A fault of ours, or of a BMC that is asked.
    (HTTPStatus.INTERNAL_SERVER_ERROR, lambda _: True),
    # Too many requests, a database or a conductor that is away.
    (HTTPStatus.SERVICE_UNAVAILABLE, lambda _: True),
)


def of(route: Route, *, paged: bool) -> set[int]:
    """Return the status codes of a route's refusals, those apart that its row of `answers` adds.

    :param paged: a row can be named after which a list goes on.
    """
    found = {int(status) for status, applies in _TABLE if applies(route)}
    return found | {int(HTTPStatus.NOT_FOUND)} if paged else found
