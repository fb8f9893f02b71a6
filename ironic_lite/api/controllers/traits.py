"""Traits of a node: what schedulers match machines by."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from ironic_lite.api.resources import happenings, idents
from ironic_lite.api.validation import schemas, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import events, traits
from ironic_lite.db.session import Connection

Json = dict[str, Any]

_SINCE = 37
_READ = ("uuid", "generation")


class Traits(expose.Controller):
    """The list /v1/nodes/{node}/traits and its members."""

    @expose.expose(
        "GET", "/nodes/{ident}/traits", types.word, since=_SINCE, below=HTTPStatus.NOT_ACCEPTABLE
    )
    def index(self, request: Request, ident: str) -> Json:
        """Return all traits of a node, sorted."""
        row = idents.fetch(self.service, request, ident, ("uuid",), with_traits=True)
        return {"traits": row["traits"]}

    @expose.expose(
        "PUT",
        "/nodes/{ident}/traits",
        types.word,
        since=_SINCE,
        below=HTTPStatus.NOT_ACCEPTABLE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
    )
    def replace(self, request: Request, ident: str) -> None:
        """Set all traits of a node."""
        wanted = schemas.trait_list(request.json)
        self._write(
            request,
            ident,
            {"traits": wanted},
            lambda conn, node, generation: traits.replace(
                conn, node, wanted, generation=generation
            ),
        )

    @expose.expose(
        "DELETE",
        "/nodes/{ident}/traits",
        types.word,
        since=_SINCE,
        below=HTTPStatus.NOT_ACCEPTABLE,
        status=HTTPStatus.NO_CONTENT,
    )
    def clear(self, request: Request, ident: str) -> None:
        """Take all traits from a node."""
        self._write(
            request,
            ident,
            {"traits": []},
            lambda conn, node, generation: traits.replace(conn, node, [], generation=generation),
        )

    @expose.expose(
        "PUT",
        "/nodes/{ident}/traits/{trait}",
        types.word,
        types.word,
        since=_SINCE,
        below=HTTPStatus.NOT_ACCEPTABLE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
    )
    def add(self, request: Request, ident: str, trait: str) -> None:
        """Give a node one more trait; one it has already is no fault."""
        place = f"/v1/nodes/{ident}/traits"
        wanted = schemas.single_trait(request.json, trait, place)
        self._write(
            request,
            ident,
            {"added": wanted},
            lambda conn, node, generation: traits.add(conn, node, wanted, generation=generation),
        )
        request.answer.headers.append(("Location", f"{request.base}{place}/{wanted}"))

    @expose.expose(
        "DELETE",
        "/nodes/{ident}/traits/{trait}",
        types.word,
        types.word,
        since=_SINCE,
        below=HTTPStatus.NOT_ACCEPTABLE,
        status=HTTPStatus.NO_CONTENT,
    )
    def remove(self, request: Request, ident: str, trait: str) -> None:
        """Take one trait from a node that has it."""
        self._write(
            request,
            ident,
            {"removed": trait},
            lambda conn, node, generation: traits.remove(conn, node, trait, generation=generation),
        )

    def _write(
        self, request: Request, ident: str, data: Json, act: Callable[[Connection, str, int], None]
    ) -> None:
        """Change the traits of a node and tell of it.

        :param data: what is kept of the change.
        :param act: given connection, UUID and generation, inside the transaction.
        """
        columns = None if self.service.notifier.on else _READ
        node = idents.fetch(self.service, request, ident, columns)
        told = happenings.of(request.who, node["uuid"], "traits_updated", data)

        def write(conn: Connection) -> None:
            act(conn, node["uuid"], node["generation"])
            events.add(conn, [told])

        self.service.database.write(write)
        if self.service.notifier.on:
            about = {**node, "updated_at": told["at"]}
            self.service.notifier.tell(request.who, [told], about)
