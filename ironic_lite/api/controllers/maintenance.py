"""Maintenance: the operator's mark that conductors must leave a node alone."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from ironic_lite.api.resources import enrolment, node_lookup, preferred
from ironic_lite.api.service import Service
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request

Handler = TypeVar("Handler", bound=Callable[..., Any])


def _expose_begin(path: str, first: expose.First | None = None) -> Callable[[Handler], Handler]:
    accepted = HTTPStatus.ACCEPTED
    words = (types.word, types.word)
    return expose.expose(
        "PUT",
        path,
        *words,
        status=accepted,
        body=expose.TYPED,
        first=first,
        around=preferred.change,
    )


def _expose_end(path: str) -> Callable[[Handler], Handler]:
    return expose.expose(
        "DELETE", path, types.word, status=HTTPStatus.ACCEPTED, around=preferred.change
    )


class Maintenance(expose.Controller):
    """/v1/nodes/{node}/maintenance."""

    @_expose_begin("/nodes/{ident}/maintenance", first=node_lookup.present)
    def begin(self, request: Request, ident: str, reason: str | None = None) -> preferred.Accepted:
        """Put a node into maintenance."""
        return _set_maintenance(self.service, request, ident, on=True, reason=reason)

    @_expose_begin("/nodes/maintenance/{node_ident}", first=node_lookup.present)
    def begin_named(
        self, request: Request, node_ident: str, reason: str | None = None
    ) -> preferred.Accepted:
        """Put a node into maintenance, by the path of the first clients."""
        return _set_maintenance(self.service, request, node_ident, on=True, reason=reason)

    @_expose_begin("/nodes/maintenance", first=node_lookup.present)
    def begin_asked(
        self, request: Request, node_ident: str, reason: str | None = None
    ) -> preferred.Accepted:
        """Put the node that the query names into maintenance."""
        return _set_maintenance(self.service, request, node_ident, on=True, reason=reason)

    @_expose_end("/nodes/{ident}/maintenance")
    def end(self, request: Request, ident: str) -> preferred.Accepted:
        """Take a node out of maintenance; clear reason and fault."""
        return _set_maintenance(self.service, request, ident, on=False)

    @_expose_end("/nodes/maintenance/{node_ident}")
    def end_named(self, request: Request, node_ident: str) -> preferred.Accepted:
        """Take a node out of maintenance, by the path of the first clients."""
        return _set_maintenance(self.service, request, node_ident, on=False)

    @_expose_end("/nodes/maintenance")
    def end_asked(self, request: Request, node_ident: str) -> preferred.Accepted:
        """Take the node that the query names out of maintenance."""
        return _set_maintenance(self.service, request, node_ident, on=False)


def _set_maintenance(
    service: Service, request: Request, ident: str, *, on: bool, reason: str | None = None
) -> preferred.Accepted:
    node = enrolment.set_maintenance(service, request, ident, on=on, reason=reason)
    return preferred.Accepted(node, ended=True, body={"node": node, "maintenance": on})
