"""Traits of a node, by which schedulers choose machines."""

from __future__ import annotations

import functools
from collections.abc import Callable
from http import HTTPStatus
from typing import TypedDict

from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import idempotency, node_lookup
from ironic_lite.api.validation import schemas
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, nodes
from ironic_lite.domain import history

_SINCE = 37
_READ = ("uuid", "generation")
_write = functools.partial(expose.expose, since=_SINCE, status=HTTPStatus.NO_CONTENT, waits=True)
_delete = functools.partial(_write, "DELETE")
_put = functools.partial(_write, "PUT", below=HTTPStatus.METHOD_NOT_ALLOWED, body=expose.WHOLE)


class TraitList(TypedDict):
    """All traits of a node or runbook."""

    traits: list[str]


class Traits(expose.Controller):
    """The list /v1/nodes/{node}/traits and its members."""

    @expose.expose("GET", "/nodes/{ident}/traits", since=_SINCE, below=HTTPStatus.NOT_ACCEPTABLE)
    def index(self, request: Request, ident: str) -> TraitList:
        """Return all traits of a node, sorted."""
        row = node_lookup.fetch(self.service, request, ident, ("uuid",), with_traits=True)
        return {"traits": row["traits"]}

    @_put("/nodes/{ident}/traits")
    def replace(self, request: Request, ident: str) -> None:
        """Set all traits of a node."""
        wanted = schemas.trait_list(request.json)
        self._write(request, ident, "traits", wanted, nodes.replace_traits)

    @_delete("/nodes/{ident}/traits")
    def clear(self, request: Request, ident: str) -> None:
        """Remove all traits from a node."""
        self._write(request, ident, "traits", [], nodes.replace_traits)

    @_put("/nodes/{ident}/traits/{trait}")
    def add(self, request: Request, ident: str, trait: str) -> None:
        """Add one trait to a node; an existing trait is accepted."""
        place = f"/v1/nodes/{ident}/traits"
        wanted = schemas.single_trait(request.json, trait, place)
        self._write(request, ident, "added", wanted, nodes.add_trait)
        request.answer.headers.append(("Location", f"{request.base}{place}/{wanted}"))

    @_delete("/nodes/{ident}/traits/{trait}")
    def remove(self, request: Request, ident: str, trait: str) -> None:
        """Remove one trait from a node that has it."""
        self._write(request, ident, "removed", trait, nodes.remove_trait)

    def _write(
        self, request: Request, ident: str, what: str, given: object, act: Callable[..., None]
    ) -> None:
        """Change the traits of a node and record the event.

        :param what: key of the event's data for the traits ``given``.
        :param act: called with them in the transaction, such as `nodes.add_trait`.
        """
        columns = None if self.service.notifier.on else _READ
        node = node_lookup.fetch(self.service, request, ident, columns)
        event = history.event_row(request.who, node["uuid"], "traits_updated", {what: given})

        def write(conn: Connection) -> None:
            act(conn, node["uuid"], given, generation=node["generation"])
            events.add(conn, [event])

        idempotency.write_change(self.service, request, write)
        if self.service.notifier.on:
            about = {**node, "updated_at": event["at"]}
            self.service.notifier.tell(request.who, [event], about)
