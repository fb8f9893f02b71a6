"""Status codes of the refusals of a route, derived from its row in the table of routes."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from ironic_lite.api import policy
from ironic_lite.api.openapi import preferences
from ironic_lite.api.wire.routes import Route

_OF_AGENTS = ("/lookup", "/heartbeat", "/continue_inspection")
_READING = frozenset({"GET", "HEAD"})

Applies = Callable[[Route], bool]


def _may_be_missing(route: Route) -> bool:
    """Return whether a named object may be missing, or the route is missing in older versions."""
    asked = any(name == "node_ident" for name, _, _ in route.arguments)
    return "{" in route.path or route.since > 1 or asked


def bound(route: Route) -> bool:
    """Return whether If-Match can make a change depend on the version of the node or batch."""
    return route.method != "GET" and route.path.startswith(("/nodes/", "/batches/{ident}"))


def keyed(route: Route) -> bool:
    """Return whether a request can have an Idempotency-Key."""
    return route.method not in _READING and not policy.public(route.path)


def _may_fail(route: Route) -> bool:
    """Return whether a request can wait for work that may fail."""
    return route.prefers in preferences.FAILING and not route.path.startswith("/drivers/")


_TABLE: tuple[tuple[HTTPStatus, Applies], ...] = (
    # Unknown arguments, a path that is not text, a malformed Authorization header.
    (HTTPStatus.BAD_REQUEST, lambda _: True),
    (HTTPStatus.UNAUTHORIZED, lambda route: not policy.public(route.path)),
    (
        HTTPStatus.FORBIDDEN,
        lambda route: policy.guard(route.method, route.path) is not None,
    ),
    (HTTPStatus.NOT_FOUND, _may_be_missing),
    (
        HTTPStatus.METHOD_NOT_ALLOWED,
        lambda route: route.below is HTTPStatus.METHOD_NOT_ALLOWED,
    ),
    # An unsupported version.
    (HTTPStatus.NOT_ACCEPTABLE, lambda _: True),
    (HTTPStatus.REQUEST_TIMEOUT, lambda route: route.receives),
    (HTTPStatus.CONFLICT, lambda route: route.method not in _READING),
    (HTTPStatus.PRECONDITION_FAILED, bound),
    (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, lambda route: route.receives),
    # Of ramdisks, or with an Idempotency-Key while too many answers are kept.
    (
        HTTPStatus.TOO_MANY_REQUESTS,
        lambda route: route.path.startswith(_OF_AGENTS) or keyed(route),
    ),
    # The Idempotency-Key belongs to another request.
    (HTTPStatus.UNPROCESSABLE_ENTITY, keyed),
    # With Prefer: wait=N, the work has failed.
    (HTTPStatus.FAILED_DEPENDENCY, _may_fail),
    # An error of the service or of a BMC.
    (HTTPStatus.INTERNAL_SERVER_ERROR, lambda _: True),
    # Too many requests, or an unavailable database or conductor.
    (HTTPStatus.SERVICE_UNAVAILABLE, lambda _: True),
)


def of(route: Route, *, paged: bool) -> set[int]:
    """Return the status codes of a route's refusals, without those of its row in `answers`.

    :param paged: the route is a list with a marker.
    """
    found = {int(status) for status, applies in _TABLE if applies(route)}
    return found | {int(HTTPStatus.NOT_FOUND)} if paged else found
