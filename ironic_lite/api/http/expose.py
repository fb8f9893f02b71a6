"""Expose a method of a controller over HTTP, its arguments typed by their annotations.

::

    class Power(expose.Controller):

        @expose.expose("PUT", "/nodes/{ident}/states/power", status=202, body=expose.TYPED)
        def change(
            self, request: Request, ident: str, target: str, timeout: int | None = None
        ) -> None:
            ...

The first arguments are the words in place of ``{...}`` in the path. The others come from the query
string and, with ``TYPED``, from the keys of the JSON body. With ``WHOLE`` the method reads
``request.json`` itself; with ``raw_query`` it reads ``request.query``. The method returns JSON of
plain values (never WSME objects), or None for no body. It raises ``errors``.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import wsme.types

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.http import refusals
from ironic_lite.api.http.request import Request
from ironic_lite.api.validation import types as argument_types
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import vocabulary

if TYPE_CHECKING:
    from ironic_lite.api.service import Service


# Methods that a path does not have and that Ironic does not answer with 405.
#
# Ironic's router passes the words of such a path as arguments to the handler of another path. That
# handler answers 400, or 404 if it takes a word as the name of a node.

_SHOWN_IDENTIFIER = 200
_LISTS = r"(chassis|nodes|ports|portgroups|volume/connectors|volume/targets)"
_BELOW = (
    r"/(chassis/\{ident\}/nodes|(nodes|portgroups)/\{ident\}/ports"
    r"|nodes/\{ident\}/(portgroups|volume/connectors|volume/targets))"
)
_VALIDATE = r"/nodes(/\{ident\})?/validate"
_REFUSED: tuple[tuple[str, HTTPStatus, re.Pattern[str]], ...] = tuple(
    (method, status, re.compile(pattern))
    for method, status, pattern in (
        (
            "POST",
            HTTPStatus.BAD_REQUEST,
            rf"/({_LISTS}|allocations|deploy_templates|inspection_rules)/\{{ident\}}"
            rf"|/{_LISTS}/detail|{_BELOW}(/detail)?|{_VALIDATE}"
            r"|/nodes/\{ident\}/(vifs/\{vif\}|vmedia/\{device_types\})",
        ),
        (
            "PATCH",
            HTTPStatus.BAD_REQUEST,
            rf"/({_LISTS}|deploy_templates|inspection_rules|runbooks)"
            rf"|/{_LISTS}/detail|{_BELOW}(/detail)?|{_VALIDATE}",
        ),
        (
            "DELETE",
            HTTPStatus.NOT_FOUND,
            r"(/nodes|/portgroups|/chassis/\{ident\}/nodes|/nodes/\{ident\}/portgroups)/detail|"
            + _VALIDATE,
        ),
        (
            "DELETE",
            HTTPStatus.BAD_REQUEST,
            rf"/({_LISTS}|deploy_templates|runbooks)|/{_LISTS}/detail|{_BELOW}(/detail)?"
            r"|/nodes/\{ident\}/vifs",
        ),
        (
            "PUT",
            HTTPStatus.BAD_REQUEST,
            r"/nodes/\{ident\}/management/indicators|/nodes/(management/boot_device|states/console)",
        ),
    )
)
_CHECKED = re.compile(r"/(node|portgroup)s/([^/]+)")


def misrouted_status(method: str, path: str, words: Sequence[str]) -> HTTPStatus | None:
    """Return Ironic's status for a method that a path does not have; None for 405.

    :param path: in the form of the table of routes, such as ``/nodes/{ident}``.
    :param words: the words of the request in place of ``{...}``.
    """
    for known, code, pattern in _REFUSED:
        if known == method and pattern.fullmatch(path):
            return code if all(map(_is_ident, words)) else HTTPStatus.BAD_REQUEST
    return None


_BELOW_VERSION: tuple[tuple[HTTPStatus, re.Pattern[str]], ...] = (
    (
        HTTPStatus.METHOD_NOT_ALLOWED,
        re.compile(
            r"(POST|PATCH) /(allocations|inspection_rules)(/\{ident\})?|DELETE /allocations"
        ),
    ),
    (
        HTTPStatus.BAD_REQUEST,
        re.compile(r"(POST|PATCH) /nodes/\{ident\}/traits(/\{trait\})?"),
    ),
    (
        HTTPStatus.NOT_FOUND,
        re.compile(
            r"POST /portgroups/\{ident\}|(PATCH|DELETE) /portgroups"
            r"|(POST|PATCH|DELETE) /portgroups/detail"
        ),
    ),
)


def status_below_version(method: str, path: str) -> HTTPStatus | None:
    """Return Ironic's status for a method of a path newer than the version."""
    asked = f"{method} {path}"
    return next((code for code, pattern in _BELOW_VERSION if pattern.fullmatch(asked)), None)


_BY_HANDLER = re.compile(
    r"PUT /nodes/[^/]+/management(/.*)?|GET /nodes/[^/]+/states(/.*)?"
    r"|GET /nodes/[^/]+/management/(boot_device|indicators).*"
    r"|PUT /nodes/[^/]+/states/(?!target_raid_config).*|(PUT|DELETE) /nodes/[^/]+/maintenance"
    r"|\w+ /nodes/[^/]+/vendor_passthru(/.*)?"
)


def is_for_handler(method: str, path: str) -> bool:
    """Return whether Ironic checks the identifier in a handler instead of its router."""
    return _BY_HANDLER.fullmatch(f"{method} {path}") is not None


def _is_ident(word: str) -> bool:
    return bool(vocabulary.NAME.fullmatch(word) or vocabulary.UUID.fullmatch(word))


def malformed_identifier(path: str) -> str | None:
    """Return the fault in an identifier, checked before a handler is searched."""
    found = _CHECKED.match(path)
    if found is None or _is_ident(found[2]):
        return None
    return f"Expected UUID or name for {found[1]}: {found[2]}"[:_SHOWN_IDENTIFIER]


# The table of routes, collected from the controllers, and the search in it.
#
# Only exposed methods can be reached. Pecan's own routing would take words of the URL as attribute
# names, and a query argument as the method.

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
    the ``arguments`` beside the path, as name, type, and whether mandatory.
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

    @property
    def receives(self) -> bool:
        """True if a body is received, even if it is ignored."""
        return self.reads or self.method not in _BODILESS


class Found(NamedTuple):
    """A route, its bound handler, the words for ``{...}``, and its policy rule.

    A route without a rule admits only callers that no rules apply to.
    """

    route: Route
    handler: MethodType
    words: list[str]
    rule: policy.Rule | None


class Handler(NamedTuple):
    """A method of a controller, before a controller is made."""

    controller: type
    function: Callable[..., Any]


class PathNode:
    """A word of a path: the words that may follow it, its handlers, and their policy rules."""

    __slots__ = ("any", "handlers", "rules", "words")

    def __init__(self) -> None:
        self.words: dict[str, PathNode] = {}
        self.any: PathNode | None = None
        self.handlers: dict[str, tuple[Route, Handler]] = {}
        self.rules: dict[str, policy.Rule | None] = {}


def tree(rows: Iterable[tuple[Route, Handler]]) -> PathNode:
    """Return the place that all paths begin at."""
    top = PathNode()
    for route, handler in rows:
        place = top
        for word in route.path.split("/")[1:]:
            if word.startswith("{"):
                place.any = place.any or PathNode()
                place = place.any
            else:
                place = place.words.setdefault(word, PathNode())
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

    def __init__(self, top: PathNode, controllers: Mapping[type, object]) -> None:
        self._top = top
        self._controllers = controllers

    def find(self, method: str, path: str, version: int) -> Found:
        """Return the route and handler of ``method`` on ``path`` at a minor version.

        A literal word of a path takes precedence over ``{...}``.

        :raises refusals.Refusal: 400 for an identifier that is neither UUID nor name, 404, 405 with
            Allow, or the status the route sets for older versions.
        """
        fault = malformed_identifier(path)
        if fault is not None:
            form = refusals.handled if is_for_handler(method, path) else refusals.routed
            raise form(HTTPStatus.BAD_REQUEST, fault)
        place, words = self._walk_path(path, method)
        if method in place.handlers:
            route, handler = place.handlers[method]
            if route.since <= version:
                return Found(route, self._bound(handler), words, place.rules[method])
        living = {known: pair for known, pair in place.handlers.items() if pair[0].since <= version}
        if living and method not in place.handlers:
            raise _no_such_method(method, living, words)
        raise self._absent_refusal(place, method)

    def _bound(self, handler: Handler) -> MethodType:
        return MethodType(handler.function, self._controllers[handler.controller])

    def _walk_path(self, path: str, method: str) -> tuple[PathNode, list[str]]:
        place: PathNode | None = self._top
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
    def _absent_refusal(place: PathNode, method: str) -> refusals.Refusal:
        """Return the refusal at a place without handlers for this version."""
        if not place.handlers:
            below = f"Below it there is: {', '.join(sorted(place.words))}." if place.words else _WAY
            return refusals.routed(HTTPStatus.NOT_FOUND, f"Nothing answers at this path. {below}")
        oldest = min((route for route, _ in place.handlers.values()), key=lambda one: one.since)
        route, _ = place.handlers.get(method, (oldest, None))
        unseen = _UNSEEN.fullmatch(route.path) is not None
        if method not in {"HEAD", *place.handlers} and not unseen:
            status = status_below_version(method, route.path)
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
    status = misrouted_status(method, path, words)
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


Function = TypeVar("Function", bound=Callable[..., Any])
Around = Callable[["Service", Request, Callable[[], Any]], Any]
_ROUTES = "_ironic_lite_routes"
_PAUSES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)
"""Longest pauses in seconds before each retry of a change that met a concurrent change."""


class Body(enum.Enum):
    """The use a method makes of the request's body."""

    IGNORED = "ignored"
    TYPED = "typed"
    WHOLE = "whole"


IGNORED = Body.IGNORED
TYPED = Body.TYPED
WHOLE = Body.WHOLE


class Controller:
    """The methods of one resource."""

    def __init__(self, service: Service) -> None:
        self.service = service

    @classmethod
    def exposed(cls) -> Iterator[tuple[Route, Callable[..., Any]]]:
        """Yield each exposed method, not bound, with its route."""
        for name in sorted(vars(cls)):
            for route in getattr(vars(cls)[name], _ROUTES, ()):
                yield route, vars(cls)[name]


def expose(
    method: str,
    path: str | tuple[str, ...],
    *types: object,
    status: HTTPStatus | int = HTTPStatus.OK,
    since: int = 1,
    below: HTTPStatus = HTTPStatus.NOT_FOUND,
    body: Body = IGNORED,
    limit: int = BODY_LIMIT,
    raw_query: bool = False,
    waits: bool = False,
    around: Around | None = None,
) -> Callable[[Function], Function]:
    """Return the decorator.

    :param path: or several paths; those with fewer words take the others from query or body.
    :param types: WSME types of the arguments after ``request``, if not those of annotations.
    :param status: of the answer, unless the method sets ``request.answer.status``.
    :param since: the first minor version with this route; older versions are answered ``below``.
    :param limit: the largest body, in KiB.
    :param waits: wait briefly for a locked node, because the method itself writes nodes or their
        records. Conductors wait by themselves for calls they receive.
    :param around: carries out the method in another way, such as `resources.preferred.verb`.
    """

    def decorate(function: Function) -> Function:
        known = _declared_arguments(function, types)

        @functools.wraps(function)
        def answer(self: Controller, request: Request, *words: str) -> Any:
            request.answer.status = int(status)
            given = _read_arguments(known, request, words, body=body, raw_query=raw_query)
            act: Callable[[], Any] = functools.partial(function, self, request, **given)
            if around is not None:
                act = functools.partial(around, self.service, request, act)
            act = functools.partial(_retry_concurrent_updates, act)
            if waits:
                act = functools.partial(self.service.lock_waiters.until_free, act)
            found = act()
            request.access.leave()
            return found

        reads = method in {"GET", "DELETE"} and body is not IGNORED
        use = (reads, int(status), body.value, raw_query, getattr(around, "__name__", ""))
        route = Route(method, "", since, below, limit, *use)
        paths = (path,) if isinstance(path, str) else path
        setattr(answer, _ROUTES, [_route_at(one, route, known) for one in paths])
        return answer  # type: ignore[return-value]  # same calls, seen from the routes

    return decorate


@dataclasses.dataclass(frozen=True, slots=True)
class _Argument:
    """The type of a method's argument, and whether a request must give it."""

    type: wsme.types.UserType
    mandatory: bool

    def read(self, value: object) -> Any:
        """Return a value of the query or the body, converted to the type.

        :raises errors.InvalidParameter: or ValueError, if the value is not of the type.
        """
        if value is None:
            return None
        return wsme.types.validate_value(self.type, self.type.frombasetype(value))


_TYPES: Mapping[str, wsme.types.UserType] = {
    "str": argument_types.word,
    "bool": argument_types.boolean,
    "int": argument_types.integer,
    "float": argument_types.number,
}
"""Types of arguments by their annotations, which may end with ``| None``."""


def _declared_arguments(
    function: Callable[..., object], types: Sequence[wsme.types.UserType]
) -> dict[str, _Argument]:
    """Return the arguments of a method after ``self`` and ``request``, by name.

    :raises TypeError: types and arguments differ in number, or a type is not a user type.
    """
    own = list(inspect.signature(function).parameters.values())[2:]
    types = types or [_TYPES.get(one.annotation.removesuffix(" | None")) for one in own]
    if len(own) != len(types) or not all(map(wsme.types.isusertype, types)):
        raise TypeError(f"{function.__qualname__}: {len(own)} arguments, types {types}")
    return {
        one.name: _Argument(kind, one.default is inspect.Parameter.empty)
        for one, kind in zip(own, types, strict=True)
    }


def _route_at(path: str, route: Route, known: Mapping[str, _Argument]) -> Route:
    """Return a route at one of its paths; the words of the path are no arguments beside it."""
    listed = [(name, one.type, one.mandatory) for name, one in known.items()]
    return dataclasses.replace(route, path=path, arguments=tuple(listed[path.count("{") :]))


def _retry_concurrent_updates(act: Callable[[], object]) -> Any:
    """Call ``act``; retry if another request changes its node meanwhile.

    A failed ``act`` has changed nothing; a retry reads the node again.

    :raises errors.ConcurrentUpdate: after all retries; the answer asks the client to retry.
    """
    for longest in _PAUSES:
        try:
            return act()
        except errors.ConcurrentUpdate:
            time.sleep(random.uniform(0, longest))
    return act()


def _read_arguments(
    known: Mapping[str, _Argument],
    request: Request,
    words: Sequence[str],
    *,
    body: Body,
    raw_query: bool,
) -> Json:
    """Return the arguments by name, from the path, the query and a typed body."""
    given: Json = dict(zip(known, words, strict=False))
    if not raw_query:
        given.update(_typed_values(known, request.query, len(words)))
    sent = request.json if body is TYPED else None
    if not isinstance(sent, dict | None):
        raise errors.InvalidRequest("The request body must be a JSON object.")
    given.update(_typed_values(known, sent or {}, len(words)))
    for name, one in known.items():
        if one.mandatory and given.get(name) is None:
            raise errors.MissingParameter(path=name)
    return given


def _typed_values(known: Mapping[str, _Argument], given: JsonView, taken: int) -> Json:
    """Return the values in ``given``, converted to the types of the arguments.

    :param taken: the number of leading arguments that the path has given already.
    """
    if not given:
        return {}
    free = dict(list(known.items())[taken:])
    errors.UnexpectedArguments.check(given, free)
    found = {}
    for name, value in given.items():
        try:
            found[name] = free[name].read(value)
        except errors.InvalidParameter as why:
            reason = why.facts.get("reason", why.message)
            raise errors.InvalidParameter(path=name, reason=reason) from None
        except (TypeError, ValueError, OverflowError) as why:
            raise errors.InvalidParameter(path=name, reason=str(why)) from None
    return found
