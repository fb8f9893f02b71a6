"""Runs: the verbs that were carried out on a node, and the steps of each.

Ironic does not have runs: every version of this API has them, and documents of nodes omit them.
"""

from __future__ import annotations

import datetime

from ironic_lite import errors
from ironic_lite.api.resources import node_lookup, pages, queries, views
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose, links
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import runs
from ironic_lite.records import Run, RunStep

_CURRENT = "current"
_HIDDEN = ("id", "run_uuid")  # internal columns of a step
_NODE = ("uuid", "provision_state")


class Runs(expose.Controller):
    """The list /v1/nodes/{node}/runs and its members."""

    @expose.expose("GET", "/nodes/{ident}/runs", types.word, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return a page of a node's runs, the newest first: two statements."""
        query = pages.query(self.service, request, queries.RUNS)
        shown = views.plan(views.RUNS, query.fields, request.version, full=False)
        node = node_lookup.fetch(self.service, request, ident, _NODE)
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
        return pages.body(request, query, "runs", _run_documents(request, node, shown, rows), last)

    @expose.expose("GET", "/nodes/{ident}/runs/{run}", types.word, types.word, raw_query=True)
    def show(self, request: Request, ident: str, run: str) -> Json:
        """Return one run with its steps: by its UUID, or ``current`` for the active run."""
        chosen = queries.one(queries.RUN, request.query, version=request.version)
        names = chosen or tuple(field.name for field in queries.RUN.table)
        shown = views.plan(views.RUNS, names, request.version, full=False)
        node = node_lookup.fetch(self.service, request, ident, _NODE)
        row = self._find_run(node, run)
        full: Json = {**row}
        kept = {column: full[column] for column in shown.columns}
        if "steps" in shown.computed:
            found = self.service.database.read(lambda conn: runs.steps(conn, row["uuid"]))
            kept["steps"] = [_step_document(step) for step in found]
        return _run_documents(request, node, shown, [kept])[0]

    def _find_run(self, node: Json, run: str) -> Run:
        """Return the row of a node's run.

        :raises errors.NotFound: the node does not have this run, or has no active run.
        """
        if run == _CURRENT:
            found = self.service.database.read(lambda conn: runs.current(conn, node["uuid"]))
            if found is None:
                raise errors.NotFound(
                    f"Node {node['uuid']} has no active run; it is in the state "
                    f'"{node["provision_state"]}". GET /v1/nodes/{node["uuid"]}/runs lists its '
                    "earlier runs."
                )
            return found
        if not rules.uuid_like(run):
            raise errors.NotFound(what="Run", ident=run)
        known = rules.uuid(run, "run")
        row = self.service.database.read(lambda conn: runs.get(conn, known))
        if row["node_uuid"] != node["uuid"]:
            raise errors.NotFound(what="Run", ident=known)
        return row


def _run_documents(request: Request, node: Json, plan: views.Plan, rows: list[Json]) -> list[Json]:
    linker = links.Linker(request.base, f"nodes/{node['uuid']}/runs")
    return plan.show_all(
        rows, linker, _add_duration if "duration_seconds" in plan.computed else None
    )


def _add_duration(row: Json) -> None:
    row["duration_seconds"] = _duration_seconds(row["started_at"], row["ended_at"])


def _duration_seconds(
    start: datetime.datetime | None, end: datetime.datetime | None
) -> float | None:
    """Return the duration in seconds, up to now without an end; None without a start."""
    if start is None:
        return None
    return round(max(0.0, ((end or clock.now()) - start).total_seconds()), 3)


def _step_document(row: RunStep) -> Json:
    """Return the document of a step; secret arguments are masked."""
    shown = {name: value for name, value in row.items() if name not in _HIDDEN}
    shown["args"] = masking.mask(row["args"])
    priority = row["priority"]
    shown["priority"] = int(priority) if float(priority).is_integer() else priority
    shown["duration_seconds"] = _duration_seconds(row["started_at"], row["ended_at"])
    return shown
