"""Erasure records of one node and of all nodes, and the keys that verify them.

Ironic does not have them: every version of this API has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import orjson

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy import ANYONE, Rule
from ironic_lite.api.policy.node_rules import ANY_READER, OWNER_SEES, READER, node_rule
from ironic_lite.api.resources import node_lookup, pages, queries
from ironic_lite.api.service import Extension
from ironic_lite.api.validation import rules
from ironic_lite.core.json_types import Json
from ironic_lite.domain import erasure_records, fields
from ironic_lite.domain.fields import Field, Type
from ironic_lite.features.erasures import rows as erasures_rows

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas


FIELDS: tuple[Field, ...] = fields.shown(
    Field("uuid"),
    Field("node_uuid"),
    Field("node_name"),
    Field("run_uuid"),
    fields.moment("at"),
    Field("result"),
    Field("level"),
    Field("serials", type=Type.LIST),
    Field("key"),
    Field("sha256"),
)


def _read_result(value: str, path: str) -> str:
    """Read the result of an erasure record."""
    return queries.read_one_of(value, path, "a result of an erasure", erasure_records.RESULTS)


_OF_ERASURES = (
    queries.Filter("serial", 1, queries.read_text),
    queries.Filter("since", 1, queries.read_moment),
    queries.Filter("result", 1, _read_result),
)
NODES_ERASURES = queries.RESOURCES["NODES_ERASURES"] = queries.Resource(
    FIELDS, _OF_ERASURES, fields_since=1, detail_since=None, direction="desc"
)
ERASURES = queries.RESOURCES["ERASURES"] = queries.Resource(
    FIELDS,
    (queries.Filter("node", 1, queries.read_ident), *_OF_ERASURES),
    fields_since=1,
    detail_since=None,
    direction="desc",
)


class Erasures(expose.Controller):
    """The records of a node, those of all nodes, and the keys that verify them."""

    @expose.expose("GET", "/nodes/{ident}/erasures", raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return a page of a node's records, the newest first: two statements."""
        query = pages.query(self.service, request, NODES_ERASURES)
        node = node_lookup.fetch(self.service, request, ident, ("uuid",))
        own = node_lookup.own_filters(request, "baremetal:node:erasures:get")
        return self._page(request, query, {**query.where, **own, "node_uuid": node["uuid"]})

    @expose.expose("GET", "/erasures", raw_query=True)
    def fleet(self, request: Request) -> Json:
        """Return a page of all records: to a project those of its time, also of deleted nodes."""
        query = pages.query(self.service, request, ERASURES)
        where = node_lookup.where_visible(self.service, request, query.where)
        return self._page(request, query, where)

    def _page(self, request: Request, query: queries.Query, where: Json) -> Json:
        columns = (*query.fields, *(("uuid",) if "uuid" not in query.fields else ()))
        known = tuple(name for name in columns if name != "links")
        rows = self.service.database.read(
            lambda conn: erasures_rows.page(conn, columns=known, where=where, **query.place)
        )
        shown = [{name: each.get(name) for name in query.fields} for each in rows]
        return pages.body(request, query, "erasures", shown, [each["uuid"] for each in rows])

    @expose.expose("GET", "/erasures/{erasure}")
    def show(self, request: Request, erasure: str) -> orjson.Fragment:
        """Return a record: the exact bytes that were signed."""
        return orjson.Fragment(self._record(request, erasure)["statement"].encode())

    @expose.expose("GET", "/erasures/{erasure}/signature")
    def signature(self, request: Request, erasure: str) -> orjson.Fragment:
        """Return the 64 bytes of a record's signature."""
        found = self._record(request, erasure)["signature"]
        if found is None:
            raise errors.NotFound(what="Signature of the erasure record", ident=erasure)
        request.answer.headers.append(("Content-Type", "application/octet-stream"))
        return orjson.Fragment(bytes.fromhex(found))

    @expose.expose("GET", "/erasures/keys/{key}")
    def key(self, request: Request, key: str) -> orjson.Fragment:
        """Return a public key, PEM."""
        pem = self.service.database.read(lambda conn: erasures_rows.public_key(conn, key))
        request.answer.headers.append(("Content-Type", "application/x-pem-file"))
        return orjson.Fragment(pem.encode())

    def _record(self, request: Request, erasure: str) -> Json:
        owner = request.access.only()
        if not rules.uuid_like(erasure):
            raise errors.NotFound(what="Erasure record", ident=erasure)
        known = rules.uuid(erasure, "erasure")
        found: Json = self.service.database.read(
            lambda conn: erasures_rows.get(conn, known, owner=owner)
        )
        return found


def _answers() -> Mapping[str, Schemas]:
    from ironic_lite.api.openapi.answers import OBJECT  # noqa: PLC0415
    from ironic_lite.api.openapi.parts import Schemas  # noqa: PLC0415

    return {
        "GET /erasures/{erasure}": Schemas(OBJECT),
        "GET /erasures/{erasure}/signature": Schemas(other_type="application/octet-stream"),
        "GET /erasures/keys/{key}": Schemas(other_type="application/x-pem-file"),
    }


EXTENSION = Extension(
    (Erasures,),
    (
        node_rule(
            "erasures:get", OWNER_SEES, "See the erasure records of a node.", "GET ./erasures"
        ),
        Rule(
            "baremetal:erasure:list",
            ANY_READER,
            "Read erasure records of the own project's nodes.",
            ("GET /erasures", "GET /erasures/{erasure}", "GET /erasures/{erasure}/signature"),
        ),
        Rule("baremetal:erasure:list_all", READER, "Read the erasure records of all nodes."),
        Rule(
            "baremetal:erasure:key",
            ANYONE,
            "Read the public keys of erasure records.",
            ("GET /erasures/keys/{key}",),
        ),
    ),
    _answers,
)
