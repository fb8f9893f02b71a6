"""Runs of all nodes: what was done in the fleet, and what has failed.

Ironic does not have runs: every version of this API has them.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import (
    node_lookup,
    overdue_runs,
    pages,
    queries,
    run_documents,
    run_places,
    run_times,
    views,
)
from ironic_lite.api.validation import rules, types
from ironic_lite.api.watching import waits
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import fleet_runs, nodes, runs
from ironic_lite.records import Run

_READ = run_documents.READ_OF_FLEET
_NODE = ("uuid", "name", *run_times.MACHINE, *OWNERS)


class FleetRuns(expose.Controller):
    """The list /v1/runs and its members."""

    @expose.expose("GET", "/runs", raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of runs, the newest first, by one statement.

        The filters ``node``, ``driver`` and ``resource_class`` need one more each. With
        ``overdue``, those that have been overdue longest come first.
        """
        query = pages.query(self.service, request, queries.RUNS)
        shown = views.plan(views.LISTED_RUNS, query.fields, request.version, full=False)
        where = node_lookup.where_visible(self.service, request, query.where)
        if where.pop("overdue", False):
            rows = overdue_runs.page(self.service, query, shown.columns, where)
        else:
            rows = self.service.database.read(
                lambda conn: fleet_runs.page(
                    conn,
                    columns=shown.columns,
                    where=where,
                    marker_id=query.marker,
                    direction=query.direction,
                    limit=query.limit,
                )
            )
        run_places.add(self.service, request, shown, rows)
        keys = [row["uuid"] for row in rows]
        documents = run_documents.several(request, None, shown, rows)
        return pages.body(request, query, "runs", documents, keys)

    @expose.expose("GET", "/runs/{run}", types.word, raw_query=True)
    def show(self, request: Request, run: str) -> Json:
        """Return one run with its steps; ``wait`` and ``until`` as below its node."""
        given, wait = waits.split(request.query, self.service.conf, waits.of_run)
        chosen = queries.one(queries.RUN, given, version=request.version)
        if not rules.uuid_like(run):
            raise errors.NotFound(what="Run", ident=run)
        known = rules.uuid(run, "run")
        row, node = self.service.database.read(lambda conn: _read_run(conn, request, known))
        waits.check_run(request, wait, row, _READ)
        if not request.access.reads("baremetal:node:get", node):  # its former owner
            node = {**node, "name": None}
        return run_documents.show(
            self.service, request, node["uuid"], row, chosen, machine=node, resource=views.RUNS
        )


def _read_run(conn: Connection, request: Request, known: str) -> tuple[Run, Json]:
    """Return the rows of a run and of its node: two statements.

    :raises errors.NotFound: the run does not exist, the caller may not see its node, or the run has
        ended and was of another owner.
    :raises errors.Forbidden: the caller may see the node, but no runs.
    """
    row = runs.get(conn, known)
    node = nodes.get(conn, row["node_uuid"], _NODE)
    if request.access.reads(_READ, row):  # also by the owner of its time
        request.access.settle()
        return row, node
    missing = errors.NotFound(what="Run", ident=known)
    own = request.access.own_sides(_READ) or {}
    request.access.node(node, missing, "baremetal:node:get" if any(own.values()) else _READ)
    if not run_documents.visible(request, row, _READ):
        raise missing
    return row, node
