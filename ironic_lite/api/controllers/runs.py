"""Runs: the verbs that were carried out on a node, and the steps of each.

Ironic does not have runs: every version of this API has them, and documents of nodes omit them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import orjson

from ironic_lite import errors
from ironic_lite.api.resources import (
    node_lookup,
    pages,
    queries,
    run_documents,
    run_logs,
    run_places,
    run_times,
    views,
)
from ironic_lite.api.validation import rules, types
from ironic_lite.api.watching import waits
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.later import TextStream
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import nodes, runs
from ironic_lite.domain import fields
from ironic_lite.records import Run

_CURRENT = "current"
_READ_LOG = "baremetal:node:log:get"
_LISTED = tuple(field.name for field in fields.RUN)
"""The fields of a list, also of one in detail, if the client names none."""
_NODE = ("uuid", "provision_state")
_NODE_OF_ONE = (*_NODE, *run_times.MACHINE)
_PLAIN = (
    ("Content-Type", "text/plain; charset=utf-8"),
    ("X-Content-Type-Options", "nosniff"),  # the text of a machine is never a page
)


class Runs(expose.Controller):
    """The list /v1/nodes/{node}/runs and its members."""

    @expose.expose("GET", "/nodes/{ident}/runs", types.word, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return a page of a node's runs, the newest first: two statements."""
        query = pages.query(self.service, request, queries.NODES_RUNS)
        names = query.fields if query.chosen else _LISTED
        shown = views.plan(views.LISTED_NODES_RUNS, names, request.version, full=False)
        node, own = node_lookup.fetch_beside(
            self.service, request, ident, _NODE, run_documents.READ
        )
        rows = self.service.database.read(
            lambda conn: runs.page(
                conn,
                node["uuid"],
                columns=shown.columns,
                where={**query.where, **own},
                marker_id=query.marker,
                direction=query.direction,
                limit=query.limit,
            )
        )
        run_places.add(self.service, request, shown, rows)
        keys = [row["uuid"] for row in rows]
        documents = run_documents.several(request, node["uuid"], shown, rows)
        return pages.body(request, query, "runs", documents, keys)

    @expose.expose("GET", "/nodes/{ident}/runs/{run}", types.word, types.word, raw_query=True)
    def show(self, request: Request, ident: str, run: str) -> Json:
        """Return one run with its steps: by its UUID, or ``current`` for the active run.

        With ``wait``, answer when the run has ended, or is as ``until`` says.
        """
        given, wait = waits.split(request.query, self.service.conf, waits.of_run)
        chosen = queries.one(queries.NODES_RUN, given, version=request.version)
        node = self._find_node(request, ident, run, _NODE_OF_ONE, run_documents.READ)
        # The current run stays the same one while the request waits for its end.
        known = request.call.notes.setdefault("run", run)
        row = self._find_run(request, node, known, or_newest=wait is not None)
        if wait is not None:
            request.call.notes["run"] = row["uuid"]
            waits.check_run(request, wait, row, run_documents.READ)
        return run_documents.show(self.service, request, node["uuid"], row, chosen, machine=node)

    @expose.expose("GET", "/nodes/{ident}/runs/{run}/log", types.word, types.word, types.boolean)
    def log(
        self, request: Request, ident: str, run: str, follow: bool = False
    ) -> orjson.Fragment | None:
        """Return the log of a run as text: four statements; with ``follow`` as it grows.

        ``current`` is the active run, or the newest one.
        """
        node = self._find_node(request, ident, run, _NODE, _READ_LOG)
        row = self._find_run(request, node, run, or_newest=True)
        if not request.access.reads(_READ_LOG, row):
            raise errors.Forbidden(what=_READ_LOG)
        reader = run_logs.Reader(self.service.database, row)
        if follow:
            request.call.later = TextStream(
                reader.piece, node["uuid"], request.access.login_seconds
            )
            return None
        request.answer.headers.extend(_PLAIN)
        return orjson.Fragment(reader.text().encode())

    def _find_node(
        self, request: Request, ident: str, run: str, columns: Sequence[str], rule: str
    ) -> Json:
        """Return a node that the caller may see, or one of whose runs is the caller's own.

        :param rule: for the caller's own runs. It guards the node, too, if it allows none of them.
        :raises errors.NodeNotFound, errors.Forbidden: as `node_lookup.fetch`.
        """
        try:
            return node_lookup.fetch_beside(self.service, request, ident, columns, rule)[0]
        except errors.NodeNotFound:
            if not (rules.uuid_like(ident) and rules.uuid_like(run)):
                raise
            node, known = rules.uuid(ident, "node"), rules.uuid(run, "run")
            with contextlib.suppress(errors.NotFound):
                row = self.service.database.read(lambda conn: runs.get(conn, known))
                if row["node_uuid"] == node and request.access.reads(rule, row):
                    request.access.settle()
                    return self.service.database.read(lambda conn: nodes.get(conn, node, columns))
            raise

    def _find_run(self, request: Request, node: Json, run: str, *, or_newest: bool) -> Run:
        """Return the row of a node's run that the caller may see.

        :param or_newest: the newest run stands for the current one that has just ended.
        :raises errors.NotFound: the node does not have this run, or has no active run.
        """
        if run == _CURRENT:
            choose = runs.latest if or_newest else runs.current
            found = self.service.database.read(lambda conn: choose(conn, node["uuid"]))
            if found is None or not run_documents.visible(request, found):
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
        if row["node_uuid"] != node["uuid"] or not run_documents.visible(request, row):
            raise errors.NotFound(what="Run", ident=known)
        return row
