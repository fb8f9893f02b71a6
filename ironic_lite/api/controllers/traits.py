"""Traits of a node: what schedulers match machines by."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api import expose, happenings, idents, rules, schemas, types
from ironic_lite.api.exchange import Request
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
        node = idents.fetch(self.service, request, ident, _READ)

        def write(conn: Connection) -> None:
            traits.replace(conn, node["uuid"], wanted, generation=node["generation"])
            self._record(conn, request, node, {"traits": wanted})

        self.service.database.write(write)

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
        node = idents.fetch(self.service, request, ident, _READ)

        def write(conn: Connection) -> None:
            traits.replace(conn, node["uuid"], [], generation=node["generation"])
            self._record(conn, request, node, {"traits": []})

        self.service.database.write(write)

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
        if request.json:
            raise errors.InvalidRequest(
                "A single trait is set without a body. To set all, PUT a list to "
                f"/v1/nodes/{ident}/traits."
            )
        wanted = rules.trait(trait)
        node = idents.fetch(self.service, request, ident, _READ)

        def write(conn: Connection) -> None:
            traits.add(conn, node["uuid"], wanted, generation=node["generation"])
            self._record(conn, request, node, {"added": wanted})

        self.service.database.write(write)
        location = f"{request.base}/v1/nodes/{ident}/traits/{wanted}"
        request.answer.headers.append(("Location", location))

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
        node = idents.fetch(self.service, request, ident, _READ)

        def write(conn: Connection) -> None:
            traits.remove(conn, node["uuid"], trait, generation=node["generation"])
            self._record(conn, request, node, {"removed": trait})

        self.service.database.write(write)

    @staticmethod
    def _record(conn: Connection, request: Request, node: Json, data: Json) -> None:
        events.add(conn, [happenings.of(request.who, node["uuid"], "traits_updated", data)])
