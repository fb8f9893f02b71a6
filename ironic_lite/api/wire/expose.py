"""Expose a controller's method under a method and path, its arguments typed by WSME.

::

    class Power(expose.Controller):

        @expose.expose("PUT", "/nodes/{ident}/states/power", types.word, types.word, types.integer,
                       status=202, body=expose.TYPED)
        def change(self, request, ident, target, timeout=None):
            ...

The first arguments are the words that stand for ``{...}`` in the path; the others come from the
query string and, with ``TYPED``, from the keys of the JSON body. With ``WHOLE`` the method reads
``request.json`` itself; with ``raw_query`` it reads ``request.query``. What it returns is JSON of
plain values (never WSME objects), or None for no body. It raises ``errors``.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import pecan
import wsme
import wsme.api
import wsme.rest.args
import wsme.rest.json
import wsme.types

from ironic_lite import errors
from ironic_lite.api.wire import render
from ironic_lite.api.wire.exchange import Request
from ironic_lite.api.wire.routes import BODY_LIMIT, Route

if TYPE_CHECKING:
    from ironic_lite.api.service import Service

Handler = TypeVar("Handler", bound=Callable[..., Any])
_ROUTE = "_ironic_lite_route"
_PAUSES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)
"""How long at most, in seconds, one who was overtaken waits before trying again."""


class Body(enum.Enum):
    """What a method does with the request's body."""

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
        """Give each exposed method, not bound, with its route."""
        for name in sorted(vars(cls)):
            route = getattr(vars(cls)[name], _ROUTE, None)
            if route is not None:
                yield route, vars(cls)[name]

    def rows(self) -> Iterator[tuple[Route, Callable[..., Any]]]:
        """Give each exposed method, bound, with its route."""
        for name in sorted(vars(type(self))):
            method = getattr(self, name)
            route = getattr(method, _ROUTE, None)
            if route is not None:
                yield route, method


def expose(
    method: str,
    path: str,
    *types: Any,
    status: HTTPStatus | int = HTTPStatus.OK,
    since: int = 1,
    below: HTTPStatus = HTTPStatus.NOT_FOUND,
    body: Body = IGNORED,
    limit: int = BODY_LIMIT,
    raw_query: bool = False,
) -> Callable[[Handler], Handler]:
    """Return the decorator.

    :param types: WSME types of the method's arguments after ``request``, in their order.
    :param status: of an answer the method does not give another to (``request.answer.status``).
    :param since: the minor version from which on the route exists; below it the answer is
        ``below``.
    :param limit: the largest body, in KiB.
    """

    def decorate(function: Handler) -> Handler:
        wsme.signature(None, wsme.types.HostRequest, *types)(function)
        definition = wsme.api.FunctionDefinition.get(function)
        definition.resolve_types(wsme.types.registry)
        known = {argument.name: argument for argument in definition.arguments}

        @functools.wraps(function)
        def answer(self: Controller, request: Request, *words: str) -> Any:
            request.answer.status = int(status)
            given = _arguments(known, request, words, body, raw_query=raw_query)
            found = _insist(functools.partial(function, self, request, **given))
            request.access.leave()
            return found

        pecan.expose(template=render.TEMPLATE, content_type="application/json")(answer)
        reads = method in {"GET", "DELETE"} and body is not IGNORED
        told = tuple((one.name, one.datatype, one.mandatory) for one in definition.arguments)
        route = Route(method, path, since, below, limit, reads)
        route = dataclasses.replace(route, status=int(status), body=body.value, arguments=told)
        setattr(answer, _ROUTE, dataclasses.replace(route, raw_query=raw_query))
        return answer  # type: ignore[return-value]  # same calls, seen from Pecan

    return decorate


def _insist(act: Callable[[], Any]) -> Any:
    """Do ``act`` again if others change its node between its reading and its writing.

    Then nothing of it has been done, and what it asks for it asks of the node as it is by now.

    :raises errors.Overtaken: after all these times still; callers are told to come again.
    """
    for longest in _PAUSES:
        try:
            return act()
        except errors.Overtaken:
            time.sleep(random.uniform(0, longest))
    return act()


def _arguments(
    known: Mapping[str, Any],
    request: Request,
    words: Sequence[str],
    body: Body,
    *,
    raw_query: bool,
) -> dict[str, Any]:
    """Return a method's arguments by name: from the path, the query and, if typed, the body."""
    given: dict[str, Any] = dict(zip(known, words, strict=False))
    if not raw_query:
        given.update(_typed(known, request.query, len(words), wsme.rest.args.from_param))
    if body is TYPED:
        given.update(_typed(known, _object(request), len(words), wsme.rest.json.fromjson))
    for name, argument in known.items():
        if argument.mandatory and given.get(name) is None:
            raise errors.MissingParameter(path=name)
    return given


def _object(request: Request) -> Mapping[str, Any]:
    value = request.json
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise errors.InvalidRequest("The request body must be a JSON object.")
    return value


def _typed(
    known: Mapping[str, Any],
    given: Mapping[str, Any],
    taken: int,
    read: Callable[[Any, Any], Any],
) -> dict[str, Any]:
    """Return the arguments in ``given`` as their types have them.

    :param taken: how many of the known ones the path has given already.
    """
    if not given:
        return {}
    free = dict(list(known.items())[taken:])
    errors.UnexpectedArguments.check(given, free)
    found = {}
    for name, value in given.items():
        kind = free[name].datatype
        try:
            found[name] = wsme.types.validate_value(kind, read(kind, value))
        except errors.InvalidParameter as why:
            reason = why.facts.get("reason", why.message)
            raise errors.InvalidParameter(path=name, reason=reason) from None
        except (TypeError, ValueError, OverflowError) as why:
            raise errors.InvalidParameter(path=name, reason=str(why)) from None
    return found
