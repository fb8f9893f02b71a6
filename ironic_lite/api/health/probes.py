"""Probes for monitoring: liveness, readiness, metrics.

They are answered before versions and routes. All but ``/metrics`` need no login.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

import orjson

from ironic_lite import errors
from ironic_lite.api.health.exposition import Exposition
from ironic_lite.api.health.readiness import Page, Readiness
from ironic_lite.api.service import Service
from ironic_lite.api.wire import parsing, request
from ironic_lite.api.wire.request import Environ, StartResponse
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Json

_TEXT = "text/plain; charset=UTF-8"
_JSON = "application/json"
_PARTS = ("api", "fleet")
_METHODS = frozenset({"GET", "HEAD"})


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a probe."""

    status: int
    body: bytes
    kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """One path.

    ``guarded`` means that a login is needed, as for any request. ``any_method`` is set for a path
    that load balancers ask with other methods, such as OPTIONS. ``immediate`` means that the answer
    waits for nothing, so an event loop may give it.
    """

    path: str
    ask: Callable[[Environ], Answer]
    guarded: bool = False
    any_method: bool = False
    immediate: bool = False

    def takes(self, method: str) -> bool:
        """Return whether the probe answers this method."""
        return self.any_method or method in _METHODS

    def answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request that `middleware` has opened."""
        environ[request.CALL].route = self.path
        found = self.ask(environ)
        headers = [
            ("Content-Type", found.kind),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        return request.send(environ, start_response, found.status, found.body, headers)


def table(
    conf: Configuration, service: Callable[[], Service], page: Page | None = None
) -> Mapping[str, Probe]:
    """Return the enabled probes by path.

    :param service: returns the objects that requests use.
    :param page: what the processes of an API share of their readiness.
    """
    readiness, exposition = Readiness(service, page), Exposition(service)

    def ready(_environ: Environ) -> Answer:
        well, results = readiness.ask()
        status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(status, orjson.dumps(results), _JSON)

    def scraped(environ: Environ) -> Answer:
        parts = _asked_parts(environ)
        accept = environ.get("HTTP_ACCEPT") or ""
        text, kind = exposition.text(accept, api="api" in parts, fleet="fleet" in parts)
        return Answer(HTTPStatus.OK, text, kind)

    found = [Probe("/livez", _answer_alive, immediate=True), Probe("/readyz", ready)]
    if conf.healthcheck.enabled:
        off = conf.healthcheck.disable_by_file_path
        found.append(
            Probe("/healthcheck", lambda asked: _answer_healthcheck(asked, off), any_method=True)
        )
    if conf.metrics.enabled:
        found.append(Probe("/metrics", scraped, guarded=not conf.metrics.public))
    return {probe.path: probe for probe in found}


def _answer_alive(_environ: Environ) -> Answer:
    """Answer that the process is alive, without any check."""
    return Answer(HTTPStatus.OK, b'{"status":"alive"}', _JSON)


def _answer_healthcheck(environ: Environ, off: str | None) -> Answer:
    """Answer like oslo.middleware's healthcheck, which load balancers know."""
    away = off is not None and os.path.exists(off)
    reasons = [] if off is None else ["DISABLED BY FILE" if away else "OK"]
    status = HTTPStatus.SERVICE_UNAVAILABLE if away else HTTPStatus.OK
    if environ["REQUEST_METHOD"] == "HEAD" and not away:
        return Answer(HTTPStatus.NO_CONTENT, b"", _TEXT)
    if _JSON in (environ.get("HTTP_ACCEPT") or ""):
        return Answer(status, orjson.dumps({"detailed": False, "reasons": reasons}), _JSON)
    return Answer(status, "\n".join(reasons).encode(), _TEXT)


def _asked_parts(environ: Environ) -> tuple[str, ...]:
    query: Json = parsing.query(environ.get("QUERY_STRING") or "")
    only = query.pop("only", None)
    if query or only not in {None, *_PARTS}:
        name = next(iter(query), "only")
        raise errors.InvalidParameter(path=name, reason="only=api and only=fleet are known")
    return _PARTS if only is None else (only,)
