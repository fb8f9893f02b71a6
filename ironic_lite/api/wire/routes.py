"""Find the handler of a method and a path in a table collected from the controllers.

Only what a controller exposes can be reached: Pecan's own walk takes words of the URL for attribute
names, and a query argument for the method.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from ironic_lite.api import policy
from ironic_lite.api.wire import faults

_BODILESS = frozenset({"GET", "DELETE"})
BODY_LIMIT = 1024
"""The largest body in KiB, where a route does not say another."""
_SHOWN = 64
_WAY = "GET /v1/openapi.json lists all paths."


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    ``path`` is written as ``/nodes/{ident}/states``, below ``/v1``; ``since`` is the minor version
    from which on it exists, below it the answer is ``below``; ``limit`` bounds the body, in KiB.
    ``reads`` says that a body is read although the method is DELETE or GET.

    The others are what the document of the API tells: the ``status`` of an answer, the ``body``
    that is read ("ignored", "typed", "whole"), whether the query is read by a table of ``queries``
    (``raw_query``), and the ``arguments`` after the request: name, type, and whether it must be
    given.
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
    arguments: tuple[tuple[str, Any, bool], ...] = ()

    @property
    def receives(self) -> bool:
        """Whether a body is received, whatever becomes of it."""
        return self.reads or self.method not in _BODILESS


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A route, its handler bound to a controller, the words that stood for ``{...}``, and its rule.

    A route without a rule is for those only whom no rules bind.
    """

    route: Route
    handler: Callable[..., Any]
    words: list[str]
    rule: policy.Rule | None


class _Place:
    """A word of a path: what may follow it, and what answers here."""

    __slots__ = ("any", "handlers", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Place] = {}
        self.any: _Place | None = None
        self.handlers: dict[str, tuple[Route, Callable[..., Any]]] = {}


class Table:
    """All routes of the service."""

    def __init__(self, rows: Iterable[tuple[Route, Callable[..., Any]]]) -> None:
        self._top = _Place()
        self.routes: list[Route] = []
        for route, handler in rows:
            self._add(route, handler)

    def _add(self, route: Route, handler: Callable[..., Any]) -> None:
        place = self._top
        for word in route.path.split("/")[1:]:
            if word.startswith("{"):
                place.any = place.any or _Place()
                place = place.any
            else:
                place = place.words.setdefault(word, _Place())
        if route.method in place.handlers:
            raise RuntimeError(f"two handlers for {route.method} {route.path}")
        place.handlers[route.method] = (route, handler)
        self.routes.append(route)

    def find(self, method: str, path: str, version: int) -> Found:
        """Return what answers ``method`` on ``path`` at minor version ``version``.

        A plain word of a path wins over ``{...}``.

        :raises faults.Refusal: 404, 405 with Allow, or what the route says for older versions.
        """
        place, words = self._walk(path)
        living = {known: pair for known, pair in place.handlers.items() if pair[0].since <= version}
        if method in living:
            route, handler = living[method]
            return Found(route, handler, words, policy.guard(route.method, route.path))
        if living:
            allow = ", ".join(sorted(living))
            text = f"This path has no {method[:_SHOWN]}. It has {allow}."
            raise faults.routed(HTTPStatus.METHOD_NOT_ALLOWED, text, (("Allow", allow),))
        raise self._absent(place, method)

    def _walk(self, path: str) -> tuple[_Place, list[str]]:
        place: _Place | None = self._top
        words = []
        for word in path.split("/")[1:]:
            assert place is not None
            following = place.words.get(word)
            if following is None and word:
                following = place.any
                words.append(word)
            if following is None:
                lost = f"There is no {word[:_SHOWN]!r} at this place of the path."
                lost = lost if word and "//" not in path else "The path has // in it."
                raise faults.routed(HTTPStatus.NOT_FOUND, f"{lost} {_WAY}")
            place = following
        assert place is not None
        return place, words

    @staticmethod
    def _absent(place: _Place, method: str) -> faults.Refusal:
        """Return the refusal at a place where nothing answers this version."""
        if not place.handlers:
            below = f"Below it there is: {', '.join(sorted(place.words))}." if place.words else _WAY
            return faults.routed(HTTPStatus.NOT_FOUND, f"Nothing answers at this path. {below}")
        oldest = min((route for route, _ in place.handlers.values()), key=lambda one: one.since)
        route, _ = place.handlers.get(method, (oldest, None))
        newer = route.below if route.method == method else HTTPStatus.NOT_FOUND
        text = f"{route.method} {route.path} needs API version 1.{route.since} or newer."
        return faults.routed(newer, text)
