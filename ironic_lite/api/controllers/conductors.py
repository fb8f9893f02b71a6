"""Conductors: their hosts, liveness, hardware types and counters."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.api.resources import pages, queries
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose, links
from ironic_lite.api.wire.request import Request
from ironic_lite.core import bmc_metrics
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import conductors
from ironic_lite.domain import fields

Rows = list[Json]

_SINCE = 49


def _form_of_list(_self: Conductors, request: Request) -> None:
    queries.check_form(queries.CONDUCTORS, request.query)


def _form_of_one(_self: Conductors, request: Request) -> None:
    queries.check_form_of_one(queries.CONDUCTORS, request.query)


class Conductors(expose.Controller):
    """The collection /v1/conductors and its members.

    There are few conductors, so one statement reads all, and pages are made here.
    """

    @expose.expose("GET", "/conductors", since=_SINCE, raw_query=True, form=_form_of_list)
    def index(self, request: Request) -> Json:
        """Return a page of conductors, including offline ones."""
        query = pages.query(self.service, request, queries.CONDUCTORS)
        rows = self._conductor_rows(with_drivers="drivers" in query.fields)
        # Python cannot compare None with a value; NULL comes first, as in the database.
        rows.sort(key=lambda row: (row[query.sort] is not None, row[query.sort], row["id"]))
        if query.direction == "desc":
            rows.reverse()
        some = _rows_after(rows, query.marker)[: query.limit]
        shown = [_conductor_document(request, row, query.fields) for row in some]
        keys = [row["hostname"] for row in some]
        return pages.body(request, query, "conductors", shown, keys)

    @expose.expose(
        "GET",
        "/conductors/{hostname}",
        types.word,
        since=_SINCE,
        raw_query=True,
        form=_form_of_one,
    )
    def show(self, request: Request, hostname: str) -> Json:
        """Return one conductor."""
        chosen = queries.one(queries.CONDUCTORS, request.query, version=request.version)
        names = chosen or tuple(field.name for field in fields.CONDUCTOR)
        for row in self._conductor_rows(with_drivers="drivers" in names):
            if row["hostname"] == hostname:
                return _conductor_document(request, row, names)
        raise errors.ConductorNotFound(conductor=hostname)

    @expose.expose("GET", "/conductors/{hostname}/counters", types.word, since=_SINCE)
    def counters(self, request: Request, hostname: str) -> Json:
        """Return the counters of one conductor since its start: one statement."""
        row = self.service.database.read(lambda conn: conductors.counters(conn, hostname))
        counters = row["counters"] or bmc_metrics.Counters().snapshot() | {"since": None}
        return {"hostname": hostname, "updated_at": row["updated_at"], **counters}

    def _conductor_rows(self, *, with_drivers: bool) -> Rows:
        """Return all conductors with ``online`` (liveness) and ``drivers`` (hardware types)."""
        rows = self.service.database.read(conductors.all)
        drivers = self._hardware_types() if with_drivers else {}
        for row in rows:
            row["online"] = self.service.fleet.lives(row)
            row["drivers"] = sorted(drivers.get(row["hostname"], ())) if row["online"] else []
        return rows

    def _hardware_types(self) -> dict[str, set[str]]:
        rows = self.service.database.read(conductors.members)
        return {row["hostname"]: row["hardware_types"] for row in rows}


def _rows_after(rows: Rows, marker: str | None) -> Rows:
    if marker is None:
        return rows
    for place, row in enumerate(rows):
        if row["hostname"] == marker:
            return rows[place + 1 :]
    raise errors.NotFound(what="Marker", ident=marker)


def _conductor_document(request: Request, row: Json, names: tuple[str, ...]) -> Json:
    known = fields.by_name(fields.CONDUCTOR)
    found = {name: row[known[name].stored or name] for name in names if name != "links"}
    found["links"] = links.pair(request.base, f"conductors/{row['hostname']}")
    return found
