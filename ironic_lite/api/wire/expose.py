"""Expose a method of a controller over HTTP, its arguments typed by WSME.

::

    class Power(expose.Controller):

        @expose.expose("PUT", "/nodes/{ident}/states/power", types.word, types.word, types.integer,
                       status=202, body=expose.TYPED)
        def change(self, request, ident, target, timeout=None):
            ...

The first arguments are the words in place of ``{...}`` in the path. The others come from the query
string and, with ``TYPED``, from the keys of the JSON body. With ``WHOLE`` the method reads
``request.json`` itself; with ``raw_query`` it reads ``request.query``. The method returns JSON of
plain values (never WSME objects), or None for no body. It raises ``errors``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import inspect
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import wsme.types

from ironic_lite import errors
from ironic_lite.api.wire import misrouted
from ironic_lite.api.wire.request import Request
from ironic_lite.api.wire.routes import BODY_LIMIT, Route
from ironic_lite.core.json_types import Json, JsonView

if TYPE_CHECKING:
    from ironic_lite.api.service import Service

Handler = TypeVar("Handler", bound=Callable[..., Any])
Around = Callable[["Service", Request, Callable[[], Any]], Any]
First = Callable[["Service", Request, str], object]
Form = Callable[[Any, Request], object]
_ROUTE = "_ironic_lite_route"
_NAMED = "node_ident"
"""The argument of a query with the node, on paths of the first clients."""
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
            route = getattr(vars(cls)[name], _ROUTE, None)
            if route is not None:
                yield route, vars(cls)[name]


def expose(
    method: str,
    path: str,
    *types: object,
    status: HTTPStatus | int = HTTPStatus.OK,
    since: int = 1,
    below: HTTPStatus = HTTPStatus.NOT_FOUND,
    body: Body = IGNORED,
    limit: int = BODY_LIMIT,
    raw_query: bool = False,
    waits: bool = False,
    first: First | None = None,
    form: Form | None = None,
    around: Around | None = None,
) -> Callable[[Handler], Handler]:
    """Return the decorator.

    :param types: WSME types of the method's arguments after ``request``, in their order.
    :param status: of the answer, unless the method sets ``request.answer.status``.
    :param since: the first minor version with this route; older versions are answered ``below``.
    :param limit: the largest body, in KiB.
    :param waits: wait briefly for a locked node, because the method itself writes nodes or their
        records. Conductors wait by themselves for calls they receive.
    :param first: refuses a missing resource, by the first word of the path, before the values that
        the method itself refuses.
    :param form: raises the faults of the query, or of a whole body, that are reported before a
        missing right. The method checks them, too.
    :param around: carries out the method in another way, such as `resources.preferred.verb`.
    """

    def decorate(function: Handler) -> Handler:
        known = _declared_arguments(function, types)

        @functools.wraps(function)
        def answer(self: Controller, request: Request, *words: str) -> Any:
            request.answer.status = int(status)
            look = _look(self, request, words, first)
            act = _around(around, self, request, function, read(request, words, look))
            if waits:
                act = functools.partial(self.service.lock_waiters.until_free, act)
            found = _refuse_missing_first(act, look)
            request.access.leave()
            return found

        reads = method in {"GET", "DELETE"} and body is not IGNORED
        read = functools.partial(_read_arguments, known, body=body, raw_query=raw_query)
        route = Route(method, path, since, below, limit, reads, int(status), body.value)
        more: Json = {"raw_query": raw_query, "prefers": getattr(around, "__name__", "")}
        more["arguments"] = tuple((name, one.type, one.mandatory) for name, one in known.items())
        more["examine"] = functools.partial(_examine_request, method, path, read, form, first)
        setattr(answer, _ROUTE, dataclasses.replace(route, **more))
        return answer  # type: ignore[return-value]  # same calls, seen from the routes

    return decorate


def _around(  # bound together, in the order of a call
    around: Around | None,
    controller: Controller,
    request: Request,
    function: Callable[..., Any],
    given: Json,
) -> Callable[[], Any]:
    """Return the call of a method, carried out by ``around`` if there is one, with its retries."""
    work = functools.partial(function, controller, request, **given)
    if around is not None:
        work = functools.partial(around, controller.service, request, work)
    return functools.partial(_retry_concurrent_updates, work)


def _examine_request(  # noqa: PLR0917  # the first five are bound by position
    method: str,
    path: str,
    read: Callable[..., object],
    form: Form | None,
    first: First | None,
    controller: Controller,
    request: Request,
    words: Sequence[str],
    *,
    routed: bool,
) -> None:
    """Raise the faults that are reported before a refused request's own refusal.

    :param routed: the refusal is about the version, not about a right.
    """
    fault = misrouted.wrong_identifier(path, words)
    if fault is not None:
        raise errors.InvalidRequest(fault)
    read(request, words, _nothing)
    patched = method == "PATCH" and "vendor_passthru" not in path
    if patched and not isinstance(request.json, list):
        raise errors.InvalidRequest("A patch is a list of operations.")
    if form is not None:
        with contextlib.suppress(errors.NotAcceptable):
            form(controller, request)
    if routed:
        _look(controller, request, words, first)()


def _nothing() -> None:
    """Look for no resource."""


def _look(
    controller: Controller, request: Request, words: Sequence[str], first: First | None
) -> Callable[[], object]:
    """Return a function that refuses a missing resource by ``first``."""
    if first is None:
        return _nothing
    word = words[0] if words else request.query.get(_NAMED, "")
    return functools.partial(first, controller.service, request, word)


def _refuse_missing_first(act: Callable[[], object], look: Callable[[], object]) -> Any:
    """Return the result of ``act``; the refusal of ``look`` replaces a fault in the request."""
    try:
        return act()
    except errors.InvalidRequest:
        look()
        raise


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


def _declared_arguments(
    function: Callable[..., object], types: Sequence[wsme.types.UserType]
) -> dict[str, _Argument]:
    """Return the arguments of a method after ``self`` and ``request``, by name.

    :raises TypeError: types and arguments differ in number, or a type is not a user type.
    """
    own = list(inspect.signature(function).parameters.values())[2:]
    if len(own) != len(types) or not all(map(wsme.types.isusertype, types)):
        raise TypeError(f"{function.__qualname__}: {len(own)} arguments, types {types}")
    return {
        one.name: _Argument(kind, one.default is inspect.Parameter.empty)
        for one, kind in zip(own, types, strict=True)
    }


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
    look: Callable[[], object],
    *,
    body: Body,
    raw_query: bool,
) -> Json:
    """Return the arguments by name, from the path, the query and a typed body.

    :param look: refuses a missing resource, before a mandatory null or a body that is no object.
    """
    given: Json = dict(zip(known, words, strict=False))
    if not raw_query:
        given.update(_typed_values(known, request.query, len(words)))
    free = all(name in given for name, one in known.items() if one.mandatory)
    try:
        sent = request.json if body is TYPED else None
    except errors.InvalidRequest:
        if free:
            look()
        raise
    if isinstance(sent, dict):
        given.update(_typed_values(known, sent, len(words)))
    missing = [name for name, one in known.items() if one.mandatory and given.get(name) is None]
    if not isinstance(sent, dict | None):
        if free:
            look()
        raise errors.InvalidRequest("The request body must be a JSON object.")
    if missing:
        if missing[0] in given:
            look()
        raise errors.MissingParameter(path=missing[0])
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
