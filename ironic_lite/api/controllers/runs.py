"""Runs: what has been done to a node, verb by verb, and the steps of each.

Ours, not Ironic's: every version has them, and no document of a node speaks of them.
"""

from __future__ import annotations

import datetime
from typing import Any

from ironic_lite import clock, errors, masking
from ironic_lite.api.resources import documents, idents, pages, queries
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose, links
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import runs

Json = dict[str, Any]

_CURRENT = "current"
_HIDDEN = ("id", "run_uuid")  # columns of a step that say nothing to a caller
_NODE = ("uuid", "provision_state")


class Runs(expose.Controller):
    """The list /v1/nodes/{node}/runs and its members."""

    @expose.expose("GET", "/nodes/{ident}/runs", types.word, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return a page of a node's runs, the newest first: two statements."""
        query = pages.query(self.service, request, queries.RUNS)
        shown = documents.plan(documents.RUNS, query.fields, request.version, full=False)
        node = idents.fetch(self.service, request, ident, _NODE)
        rows = self.service.database.read(
            lambda conn: runs.page(
                conn,
                node["uuid"],
                columns=shown.columns,
                where=query.where,
                marker_id=query.marker,
                direction=query.direction,
                limit=query.limit,
            )
        )
        last = rows[-1]["uuid"] if rows else ""
        return pages.body(request, query, "runs", _shown(request, node, shown, rows), last)

    @expose.expose("GET", "/nodes/{ident}/runs/{run}", types.word, types.word, raw_query=True)
    def show(self, request: Request, ident: str, run: str) -> Json:
        """Return one run with its steps: by its UUID, or ``current`` for the one under way."""
        chosen = queries.one(queries.RUN, request.query, version=request.version)
        names = chosen or tuple(field.name for field in queries.RUN.table)
        shown = documents.plan(documents.RUNS, names, request.version, full=False)
        node = idents.fetch(self.service, request, ident, _NODE)
        row = self._find(node, run)
        kept = {column: row[column] for column in shown.columns}
        if "steps" in shown.computed:
            found = self.service.database.read(lambda conn: runs.steps(conn, row["uuid"]))
            kept["steps"] = [_step(step) for step in found]
        return _shown(request, node, shown, [kept])[0]

    def _find(self, node: Json, run: str) -> Json:
        """Return the row of a node's run.

        :raises errors.NotFound: the node has no such run, or none is under way.
        """
        if run == _CURRENT:
            found = self.service.database.read(lambda conn: runs.current(conn, node["uuid"]))
            if found is None:
                raise errors.NotFound(
                    f"Nothing is under way on node {node['uuid']}, which is in the state "
                    f'"{node["provision_state"]}". GET /v1/nodes/{node["uuid"]}/runs lists what '
                    "has been done to it."
                )
            return found
        if not rules.uuid_like(run):
            raise errors.NotFound(what="Run", ident=run)
        known = rules.uuid(run, "run")
        row = self.service.database.read(lambda conn: runs.get(conn, known))
        if row["node_uuid"] != node["uuid"]:
            raise errors.NotFound(what="Run", ident=known)
        return row


def _shown(request: Request, node: Json, plan: documents.Plan, rows: list[Json]) -> list[Json]:
    linker = links.Linker(request.base, f"nodes/{node['uuid']}/runs")
    return plan.show_all(rows, linker, _compute if "duration_seconds" in plan.computed else None)


def _compute(row: Json) -> None:
    row["duration_seconds"] = _seconds(row["started_at"], row["ended_at"])


def _seconds(start: datetime.datetime | None, end: datetime.datetime | None) -> float | None:
    """Return how long something took, or has taken up to now; None before it began."""
    if start is None:
        return None
    return round(max(0.0, ((end or clock.now()) - start).total_seconds()), 3)


def _step(row: Json) -> Json:
    """Show a step: what is secret among its arguments is hidden."""
    shown = {name: value for name, value in row.items() if name not in _HIDDEN}
    shown["args"] = masking.mask(row["args"])
    priority = row["priority"]
    shown["priority"] = int(priority) if float(priority).is_integer() else priority
    shown["duration_seconds"] = _seconds(row["started_at"], row["ended_at"])
    return shown
