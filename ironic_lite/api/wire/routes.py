"""The table of routes, collected from the controllers, and the search in it.

Only exposed methods can be reached. Pecan's own routing would take words of the URL as attribute
names, and a query argument as the method.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from types import MethodType
from typing import Any, NamedTuple

from ironic_lite.api import policy
from ironic_lite.api.wire import misrouted, refusals

_BODILESS = frozenset({"GET", "DELETE"})
BODY_LIMIT = 1024
"""The largest body in KiB, unless a route sets another limit."""
_SHOWN = 64
_METHODS = "methods"
"""Below ``vendor_passthru``: a list for GET, the name of a vendor method for other HTTP methods."""
# Before their version these paths answer like unknown paths. On other paths, a method that no
# version has is answered with 405 in every version.
_UNSEEN = re.compile(
    r"/nodes/\{ident\}/(?!(management|states)/|traits|volume$).+"
    r"|/(portgroups/\{ident\}/ports|runbooks/\{ident\}/traits|volume/).*"
)
_ROUTED = re.compile(r"\w+ /(runbooks|deploy_templates)\b|PUT /nodes/\{ident\}/traits")
"""Before their version these are refused in the form of the router."""
_EXAMINED = re.compile(
    r"/nodes/\{ident\}/(states/(boot_mode|secure_boot)|traits)|/lookup|/heartbeat(/\{ident\})?"
    r"|/drivers/\{name\}/raid/logical_disk_properties"
)
"""Paths whose arguments are read before their version is checked, as in Ironic."""
_STATES = re.compile(r"/nodes/[^/]+/states/[^/]+")
_WAY = "GET /v1/openapi.json lists all paths."


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    ``path`` is written as ``/nodes/{ident}/states``, below ``/v1``. ``since`` is the first minor
    version with it; older versions are answered ``below``. ``limit`` is the largest body in KiB.
    ``reads`` is set if a body is read although the method is DELETE or GET.

    The OpenAPI document also uses: the ``status`` of an answer; the ``body`` that is read
    ("ignored", "typed", "whole"); ``raw_query``, set if a table of ``queries`` reads the query;
    ``prefers``, the function of `resources.preferred` that heeds the header Prefer, or ""; and
    the ``arguments`` after the request, as name, type, and whether mandatory. ``examine`` raises
    the faults in the form of a request, and takes the controller first.
    """

    method: str
    path: str
    since: int = 1
    below: HTTPStatus = HTTPStatus.NOT_FOUND
    limit: int = BODY_LIMIT
    reads: bool = False
    status: int = HTTPStatus.OK
    body: str = "ignored"
    raw_query: bool = False
    prefers: str = ""
    arguments: tuple[tuple[str, Any, bool], ...] = ()
    examine: Callable[..., object] = dataclasses.field(
        default=lambda *_arguments, **_more: None, compare=False, repr=False
    )

    @property
    def receives(self) -> bool:
        """True if a body is received, even if it is ignored."""
        return self.reads or self.method not in _BODILESS


class Found(NamedTuple):
    """A route, its bound handler, the words for ``{...}``, and its policy rule.

    A route without a rule admits only callers that no rules apply to. ``refusal`` is raised after
    the form of the request was examined.
    """

    route: Route
    handler: MethodType
    words: list[str]
    rule: policy.Rule | None
    refusal: refusals.Refusal | None = None


class Handler(NamedTuple):
    """A method of a controller, before a controller is made."""

    controller: type
    function: Callable[..., Any]


class Place:
    """A word of a path: the words that may follow it, its handlers, and their policy rules."""

    __slots__ = ("any", "handlers", "rules", "words")

    def __init__(self) -> None:
        self.words: dict[str, Place] = {}
        self.any: Place | None = None
        self.handlers: dict[str, tuple[Route, Handler]] = {}
        self.rules: dict[str, policy.Rule | None] = {}


def tree(rows: Iterable[tuple[Route, Handler]]) -> Place:
    """Return the place that all paths begin at."""
    top = Place()
    for route, handler in rows:
        place = top
        for word in route.path.split("/")[1:]:
            if word.startswith("{"):
                place.any = place.any or Place()
                place = place.any
            else:
                place = place.words.setdefault(word, Place())
        if route.method in place.handlers:
            raise RuntimeError(f"two handlers for {route.method} {route.path}")
        place.handlers[route.method] = (route, handler)
        place.rules[route.method] = policy.guard(route.method, route.path)
    return top


class Table:
    """All routes of an application.

    :param top: the result of `tree`, which applications share.
    :param controllers: the application's own, by class.
    """

    def __init__(self, top: Place, controllers: Mapping[type, object]) -> None:
        self._top = top
        self._controllers = controllers

    def find(self, method: str, path: str, version: int) -> Found:
        """Return the route and handler of ``method`` on ``path`` at a minor version.

        A literal word of a path takes precedence over ``{...}``.

        :raises refusals.Refusal: 400 for an identifier that is neither UUID nor name, 404, 405 with
            Allow, or the status the route sets for older versions.
        """
        fault = misrouted.malformed(path)
        if fault is not None:
            form = refusals.handled if misrouted.by_handler(method, path) else refusals.routed
            raise form(HTTPStatus.BAD_REQUEST, fault)
        place, words = self._walk_path(path, method)
        if method in place.handlers:
            route, handler = place.handlers[method]
            if route.since <= version:
                return Found(route, self._bound(handler), words, place.rules[method])
        living = {known: pair for known, pair in place.handlers.items() if pair[0].since <= version}
        if living and method not in place.handlers:
            raise _no_such_method(method, living, words)
        refusal = self._absent_refusal(place, method)
        if method not in place.handlers:
            raise refusal
        route, handler = place.handlers[method]
        if not _EXAMINED.fullmatch(route.path):
            raise refusal
        return Found(route, self._bound(handler), words, place.rules[method], refusal)

    def _bound(self, handler: Handler) -> MethodType:
        return MethodType(handler.function, self._controllers[handler.controller])

    def _walk_path(self, path: str, method: str) -> tuple[Place, list[str]]:
        place: Place | None = self._top
        words = []
        for word in path.split("/")[1:]:
            assert place is not None
            following = place.words.get(word)
            if following is not None and word == _METHODS and method not in following.handlers:
                following = None
            if following is None and word:
                following = place.any
                words.append(word)
            if following is None:
                if method != "GET" and _STATES.fullmatch(path):
                    raise _not_allowed(method, "")
                lost = f"There is no {word[:_SHOWN]!r} at this place of the path."
                lost = lost if word and "//" not in path else "The path has // in it."
                raise refusals.routed(HTTPStatus.NOT_FOUND, f"{lost} {_WAY}")
            place = following
        assert place is not None
        return place, words

    @staticmethod
    def _absent_refusal(place: Place, method: str) -> refusals.Refusal:
        """Return the refusal at a place without handlers for this version."""
        if not place.handlers:
            below = f"Below it there is: {', '.join(sorted(place.words))}." if place.words else _WAY
            return refusals.routed(HTTPStatus.NOT_FOUND, f"Nothing answers at this path. {below}")
        oldest = min((route for route, _ in place.handlers.values()), key=lambda one: one.since)
        route, _ = place.handlers.get(method, (oldest, None))
        unseen = _UNSEEN.fullmatch(route.path) is not None
        if method not in {"HEAD", *place.handlers} and not unseen:
            status = misrouted.below(method, route.path)
            if status is None:
                return _not_allowed(method, "")
            return refusals.handled(status, f"{route.path} has no {method} in this version.")
        text = f"{route.method} {route.path} needs API version 1.{route.since} or newer."
        by_router = unseen or _ROUTED.match(f"{route.method} {route.path}")
        form = refusals.routed if by_router else refusals.handled
        if route.below is HTTPStatus.METHOD_NOT_ALLOWED:
            return form(route.below, text, (("Allow", ""),))
        return form(route.below if method in place.handlers else HTTPStatus.NOT_FOUND, text)


def _no_such_method(
    method: str, living: Mapping[str, tuple[Route, Any]], words: Sequence[str]
) -> refusals.Refusal:
    """Return Ironic's answer to a method that a path does not have."""
    allow = ", ".join(sorted(living))
    path = next(iter(living.values()))[0].path
    status = misrouted.status(method, path, words)
    if status is None:
        return _not_allowed(method, allow)
    return refusals.handled(status, f"{path} has no {method}. It has {allow}.")


def _not_allowed(method: str, allow: str) -> refusals.Refusal:
    """Return the refusal with 405.

    :param allow: the methods of the path, "" for none at this version.
    """
    has = f"It has {allow}." if allow else "It has none in this version."
    text = f"This path has no {method[:_SHOWN]}. {has}"
    return refusals.routed(HTTPStatus.METHOD_NOT_ALLOWED, text, (("Allow", allow),))
