"""Maintenance: the operator's sign that a node is not to be worked on."""

from __future__ import annotations

from http import HTTPStatus

from ironic_lite.api.resources import enrolment
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request


class Maintenance(expose.Controller):
    """/v1/nodes/{node}/maintenance."""

    @expose.expose(
        "PUT",
        "/nodes/{ident}/maintenance",
        types.word,
        types.word,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
    )
    def begin(self, request: Request, ident: str, reason: str | None = None) -> None:
        """Put a node into maintenance."""
        enrolment.set_maintenance(self.service, request, ident, on=True, reason=reason)

    @expose.expose("DELETE", "/nodes/{ident}/maintenance", types.word, status=HTTPStatus.ACCEPTED)
    def end(self, request: Request, ident: str) -> None:
        """Take a node out of maintenance; the reason and the fault go with it."""
        enrolment.set_maintenance(self.service, request, ident, on=False)
