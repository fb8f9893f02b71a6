"""Runs: the verbs that were carried out on nodes, the steps of each, their stops and their history.

Ironic does not have runs or stops: every version of this API has them, and documents of nodes omit
them.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request, TextStream
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import (
    idempotency,
    node_lookup,
    pages,
    queries,
    run_documents,
    views,
    waits,
)
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, shapes
from ironic_lite.core import clock, masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView, Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, fleet_runs, nodes, runs, step_durations
from ironic_lite.domain import fields, history, states, step_times
from ironic_lite.domain.run_stops import (
    How,
    Stop,
    StopDocument,
    StopProgress,
    ends_uncleaned,
    stoppable,
)
from ironic_lite.domain.states import Kind, State
from ironic_lite.records import Event, Run, RunStep

# Runs with a step that takes much longer than usual, or than its deadline.

MOST_OVERDUE = 1000
"""Runs that are listed, those that have been overdue longest among those that pass the filters."""


def overdue_page(
    service: Service, query: queries.Query, columns: Sequence[str], where: RowView
) -> list[Row]:
    """Return a page of overdue runs, those that have been overdue longest first.

    Statements: one for each 500 steps that have been under way for long, one for each step whose
    usual duration is not known, and one for each 1000 overdue runs until enough pass the filters.

    :param columns: of ``fleet_runs.page``, with uuid.
    :param where: the filters of ``fleet_runs.page``.
    :raises errors.NotFound: the marker is not one of these runs.
    """
    ordered = _find(service, where.get("of_owner"))
    rows = _filter(service, ordered, columns, where)
    if query.direction == "asc":
        rows.reverse()
    first = 0
    if query.marker is not None:
        found = [place for place, row in enumerate(rows, 1) if row["uuid"] == query.marker]
        if not found:
            raise errors.NotFound(what="Overdue run", ident=query.marker)
        first = found[0]
    return rows[first : first + query.limit]


def _filter(
    service: Service, ordered: Sequence[str], columns: Sequence[str], where: RowView
) -> list[Row]:
    """Return the first `MOST` of some runs that pass the filters, in their order."""
    found: list[Row] = []
    for first in range(0, len(ordered), MOST_OVERDUE):
        some = ordered[first : first + MOST_OVERDUE]
        chosen = {**where, "uuid": some}
        rows = service.database.read(
            lambda conn, chosen=chosen: fleet_runs.page(  # type: ignore[misc]
                conn, columns=columns, where=chosen, limit=MOST_OVERDUE
            )
        )
        places = {uuid: place for place, uuid in enumerate(some)}
        found += sorted(rows, key=lambda row: places[row["uuid"]])
        if len(found) >= MOST_OVERDUE:
            break
    return found[:MOST_OVERDUE]


def _find(service: Service, owner: str | None) -> list[str]:
    """Return the UUIDs of overdue runs, those that have been overdue longest first."""
    now = clock.now()
    known: dict[str, datetime.datetime] = {}
    began = clock.ago(step_times.OVERDUE_SECONDS)
    for step in step_durations.long_steps(service.database, began, owner=owner):
        usual = service.usual.of(
            step["interface"], step["step"], step["driver"], step["resource_class"]
        )
        late = step_times.overdue_of(usual, step["started_at"], now)
        since = late.since if late is not None else step["overdue_at"]
        if since is not None and (late is not None or step_durations.is_marked_overdue(step)):
            known[step["run_uuid"]] = min(since, known.get(step["run_uuid"], since))
    return sorted(known, key=lambda run: known[run])


# Stops of runs in requests: their bodies, and the checks under the lock of the node's row.

STOP_COLUMNS = (
    *("uuid", *history.STANDING, "run_uuid", "run_stop"),
    *("automated_clean", *masking.TEXT_FIELDS),
)
_LONGEST_REASON = 255
_UNDER_WAY = ("running", "waiting")


class AcceptedStop(NamedTuple):
    """A stop that was accepted; ``waits`` True: no conductor works on the node."""

    stop: Stop
    waits: bool


def read_stop(body: Any) -> Json:
    """Return how, after and reason of a request.

    :raises errors.InvalidParameter: with the path of the value.
    """
    shapes.check("stop", body, "", "Schema error for stop")
    reason = rules.text((body.get("reason") or "").strip(), "reason", length=_LONGEST_REASON)
    return {"how": How(body["how"]), "after": body.get("after"), "reason": reason}


def request_stop(
    conn: Connection,
    node_uuid: str,
    run: str | None,
    given: Json,
    who: Context,
    *,
    cleans: bool = True,
) -> AcceptedStop:
    """Write the stop of a run, in place of an earlier one that has not happened.

    :param run: UUID; None for the active run.
    :param cleans: automated cleaning applies to nodes without a setting of their own.
    :raises errors.NotFound: the node does not have this run, or has no active run.
    :raises errors.Conflict: the run has ended, or no step follows at which it could stop.
    :raises errors.InvalidParameter: ``after`` is no ordinal of the run.
    """
    node, known = _active_run(conn, node_uuid, run)
    if not stoppable(node["provision_state"]):
        reason = f"its run in the state {node['provision_state']} has no steps to stop between"
        raise errors.Conflict(node=node_uuid, reason=reason)
    if ends_uncleaned(node["provision_state"], node["automated_clean"], cleans=cleans):
        reason = "its deletion ends without cleaning, so it has no step to stop before"
        raise errors.Conflict(node=node_uuid, reason=reason)
    if known is not None and known.progress is StopProgress.TAKEN:
        reason = "an earlier stop of its run is being carried out"
        raise errors.Conflict(node=node_uuid, reason=reason)
    _check_stop_place(node, runs.steps(conn, node["run_uuid"]), given["after"])
    now = clock.now().isoformat()
    reason = masking.mask_of_node(node, prose=True)(given["reason"])
    wanted = {**given, "reason": reason}
    stop = Stop(run=node["run_uuid"], requester=who.user, at=now, **wanted)
    runs.put_stop(conn, node_uuid, stop.run, stop.text)
    _add_stop_event(conn, node, who, "stop_requested", stop)
    return AcceptedStop(stop, waits=states.kind(State(node["provision_state"])) is Kind.WAIT)


def take_stop_back(conn: Connection, node_uuid: str, run: str | None, who: Context) -> None:
    """Remove the stop of a run.

    :raises errors.NotFound: as `request_stop`, or the run has no stop.
    :raises errors.Conflict: the run has ended, or the stop has happened.
    """
    node, known = _active_run(conn, node_uuid, run)
    if known is None:
        raise errors.NotFound(f"No stop was requested for the run {node['run_uuid']}.")
    if known.progress is not StopProgress.ASKED:
        advice = "; unhold continues the run, abort ends it" if known.how is How.HOLD else ""
        reason = f"the stop ({known.how}) of its run has happened{advice}"
        raise errors.Conflict(node=node_uuid, reason=reason)
    runs.put_stop(conn, node_uuid, known.run, None)
    _add_stop_event(conn, node, who, "stop_withdrawn", known)


def withdraw_stop(conn: Connection, node_uuid: str, who: Context) -> None:
    """Remove the stop of a node's run that has not happened, because the node changes hands.

    The new users have not asked for it.
    """
    node = nodes.get(conn, node_uuid, STOP_COLUMNS, lock_row=True)
    known = Stop.read(node["run_stop"], node["run_uuid"])
    if known is not None and known.progress is StopProgress.ASKED:
        runs.put_stop(conn, node_uuid, known.run, None)
        _add_stop_event(conn, node, who, "stop_withdrawn", known)


def _active_run(conn: Connection, node_uuid: str, run: str | None) -> tuple[Json, Stop | None]:
    """Lock the row of a node; return it with the stop of its active run."""
    node = nodes.get(conn, node_uuid, STOP_COLUMNS, lock_row=True)
    if run is not None and run != node["run_uuid"]:
        if runs.get(conn, run)["node_uuid"] != node_uuid:
            raise errors.NotFound(what="Run", ident=run)
        raise errors.Conflict(node=node_uuid, reason=f"its run {run} has ended")
    if node["run_uuid"] is None:
        raise errors.NotFound(
            f'Node {node_uuid} has no active run; it is in the state "{node["provision_state"]}".'
        )
    return node, Stop.read(node["run_stop"], node["run_uuid"])


def _check_stop_place(node: Json, steps: list[RunStep], after: int | None) -> None:
    """Refuse a stop that would have no effect."""
    current = next((step for step in steps if step["state"] in _UNDER_WAY), None)
    if after is not None:
        current = next((step for step in steps if step["ordinal"] == after), None)
        if current is None:
            about = f"; its steps are 0 to {steps[-1]['ordinal']}" if steps else ""
            reason = f"the run has no step {after}{about}; leave it out for the step under way"
            raise errors.InvalidParameter(path="after", reason=reason)
        if current["state"] not in (*_UNDER_WAY, "pending"):
            reason = f"step {after} of its run is {current['state']} already"
            raise errors.Conflict(node=node["uuid"], reason=reason)
    elif states.kind(State(node["provision_state"])) is Kind.HELD:
        reason = "its run is held; use the verb unhold or abort, or give `after`"
        raise errors.Conflict(node=node["uuid"], reason=reason)
    place = -1 if current is None else current["ordinal"]
    follows = any(step["state"] == "pending" and step["ordinal"] > place for step in steps)
    if steps and not follows and _is_list_complete(node):
        reason = "no step of its run follows; the run ends by itself"
        raise errors.Conflict(node=node["uuid"], reason=reason)


def _is_list_complete(node: Json) -> bool:
    """Return False if an agent may still add steps to the list."""
    listed = (node["driver_internal_info"] or {}).get("step_list") or {}
    return bool(listed.get("complete", True))


def _add_stop_event(conn: Connection, node: Json, who: Context, what: str, stop: Stop) -> None:
    facts = {"how": str(stop.how), "after": stop.after, "reason": stop.reason}
    data = {**history.standing_of(node), "project": who.project, **facts}
    row = history.event_row(who, node["uuid"], what, data)
    events.add(conn, [{**row, "event": str(stop.how), "run_uuid": stop.run}])


_CURRENT = "current"
_READ_LOG = "baremetal:node:log:get"
_LISTED = tuple(field.name for field in fields.RUN)
"""The fields of a list, also of one in detail, if the client names none."""
_NODE = ("uuid", "provision_state")
_NODE_OF_ONE = (*_NODE, *run_documents.MACHINE)
_PLAIN = (
    ("Content-Type", "text/plain; charset=utf-8"),
    ("X-Content-Type-Options", "nosniff"),  # the text of a machine is never a page
)


class Runs(expose.Controller):
    """The list /v1/nodes/{node}/runs and its members."""

    @expose.expose("GET", "/nodes/{ident}/runs", raw_query=True)
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
                **query.place,
            )
        )
        run_documents.add_places(self.service, request, shown, rows)
        keys = [row["uuid"] for row in rows]
        documents = run_documents.several(request, node["uuid"], shown, rows)
        return pages.body(request, query, "runs", documents, keys)

    @expose.expose("GET", "/nodes/{ident}/runs/{run}", raw_query=True)
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

    @expose.expose("GET", "/nodes/{ident}/runs/{run}/log")
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
        reader = run_documents.LogReader(self.service.database, row)
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


# Runs of all nodes: what was done in the fleet, and what has failed.

_READ_FLEET = run_documents.READ_OF_FLEET
_NODE_OF_FLEET = ("uuid", "name", *run_documents.MACHINE, *OWNERS)


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
            rows = overdue_page(self.service, query, shown.columns, where)
        else:
            rows = self.service.database.read(
                lambda conn: fleet_runs.page(
                    conn, columns=shown.columns, where=where, **query.place
                )
            )
        run_documents.add_places(self.service, request, shown, rows)
        keys = [row["uuid"] for row in rows]
        documents = run_documents.several(request, None, shown, rows)
        return pages.body(request, query, "runs", documents, keys)

    @expose.expose("GET", "/runs/{run}", raw_query=True)
    def show(self, request: Request, run: str) -> Json:
        """Return one run with its steps; ``wait`` and ``until`` as below its node."""
        given, wait = waits.split(request.query, self.service.conf, waits.of_run)
        chosen = queries.one(queries.RUN, given, version=request.version)
        if not rules.uuid_like(run):
            raise errors.NotFound(what="Run", ident=run)
        known = rules.uuid(run, "run")
        row, node = self.service.database.read(lambda conn: _read_run(conn, request, known))
        waits.check_run(request, wait, row, _READ_FLEET)
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
    node = nodes.get(conn, row["node_uuid"], _NODE_OF_FLEET)
    if request.access.reads(_READ_FLEET, row):  # also by the owner of its time
        request.access.settle()
        return row, node
    missing = errors.NotFound(what="Run", ident=known)
    own = request.access.own_sides(_READ_FLEET) or {}
    request.access.node(node, missing, "baremetal:node:get" if any(own.values()) else _READ_FLEET)
    if not run_documents.visible(request, row, _READ_FLEET):
        raise missing
    return row, node


# The stop of a run: hold or abort it when a step has ended.

LOG = logging.getLogger(__name__)

_STOP_PATH = "/nodes/{ident}/runs/{run}/stop"
_ROUTED = ("uuid", "driver", "conductor_group")


class RunStops(expose.Controller):
    """/v1/nodes/{node}/runs/{run}/stop."""

    @expose.expose("PUT", _STOP_PATH, status=HTTPStatus.ACCEPTED, body=expose.WHOLE)
    def ask(self, request: Request, ident: str, run: str) -> StopDocument:
        """Hold or abort a run when the step under way has ended; three statements and an event.

        ``current`` is the active run.
        """
        given = read_stop(request.json)
        node = node_lookup.fetch(self.service, request, ident, _ROUTED)
        known = _run_to_stop(run)
        cleans = self.service.conf.conductor.automated_clean_enable

        def write(conn: Connection) -> AcceptedStop:
            return request_stop(conn, node["uuid"], known, given, request.who, cleans=cleans)

        asked = idempotency.write_change(self.service, request, write)
        stop = asked.stop
        if asked.waits and stop.how is How.ABORT and stop.after is None:
            self._cast(request, node, stop)
        return stop.document

    @expose.expose("DELETE", _STOP_PATH, status=HTTPStatus.NO_CONTENT)
    def take_back(self, request: Request, ident: str, run: str) -> None:
        """Take a stop back that has not happened."""
        node = node_lookup.fetch(self.service, request, ident, _ROUTED)
        known = _run_to_stop(run)

        def write(conn: Connection) -> None:
            take_stop_back(conn, node["uuid"], known, request.who)

        idempotency.write_change(self.service, request, write)

    def _cast(self, request: Request, node: JsonView, stop: Stop) -> None:
        """Ask the conductor to end the wait; without it, the run is aborted when the wait ends."""
        try:
            conductor = self.service.conductor_of(node)
            conductor.stop_run(request.who, node_uuid=node["uuid"], run_uuid=stop.run)
        except errors.Error as why:
            LOG.warning("Node %s: its conductor was not asked to stop now: %s", node["uuid"], why)


def _run_to_stop(run: str) -> str | None:
    """Return the UUID of a run, None for ``current``."""
    if run == "current":
        return None
    if not rules.uuid_like(run):
        raise errors.NotFound(what="Run", ident=run)
    known: str = rules.uuid(run, "run")
    return known


# History of a node: errors, and the start and end of flows of steps.
#
# The entries are recorded events in the words of ``ironic_lite.domain.history``.

_HISTORY_SINCE = 78
_HISTORY_RULE = "baremetal:node:history:get"
_CUT = 255  # largest number of characters of an event's text in a list without details


class History(expose.Controller):
    """The list /v1/nodes/{node}/history and its members."""

    @expose.expose("GET", "/nodes/{ident}/history", since=_HISTORY_SINCE, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return a page of a node's history, the oldest first: two statements."""
        query = pages.query(self.service, request, queries.HISTORY)
        marker = None if query.marker is None else _event_id(query.marker, "Marker")
        node = self._node_uuid_of(request, ident)
        rows = self.service.database.read(
            lambda conn: events.entries(
                conn,
                node,
                marker=marker,
                direction=query.direction,
                limit=query.limit,
                own=node_lookup.own_filters(request, _HISTORY_RULE),
            )
        )
        entries = [_entry_document(request, node, row, query.fields) for row in rows]
        if not query.detail and not query.chosen:
            for entry in entries:
                entry["event"] = _shortened_text(entry["event"])
        keys = [history.ident(row["id"]) for row in rows]
        return pages.body(request, query, "history", entries, keys)

    @expose.expose("GET", "/nodes/{ident}/history/{entry}", since=_HISTORY_SINCE)
    def show(self, request: Request, ident: str, entry: str) -> Json:
        """Return one entry with all its fields: two statements, each by a key."""
        node = self._node_uuid_of(request, ident)
        known = _event_id(entry, _HISTORY_RECORD)
        row = self.service.database.read(lambda conn: events.entry(conn, node, known))
        if row is None or not request.access.reads(_HISTORY_RULE, row):
            raise errors.NotFound(what=_HISTORY_RECORD, ident=entry)
        names = [field.name for field in fields.visible(fields.HISTORY, request.version)]
        return _entry_document(request, node, row, names)

    def _node_uuid_of(self, request: Request, ident: str) -> str:
        return str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])


_HISTORY_RECORD = "Node history record"


def _event_id(ident: str, what: str) -> int:
    """Return the ID of an entry's event.

    :raises errors.NotFound: not a UUID of an entry.
    """
    found = history.event_id(rules.uuid(ident, "uuid")) if rules.uuid_like(ident) else None
    if found is None:
        raise errors.NotFound(what=what, ident=ident)
    return found


def _entry_document(request: Request, node: str, row: Event, names: Sequence[str]) -> Json:
    entry = history.entry(row)
    shown = {name: entry[name] for name in names if name != "links"}
    href = f"{request.base}/v1/nodes/{node}/history/{entry['uuid']}"
    return {**shown, "links": [{"href": href, "rel": "self"}]}


def _shortened_text(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[: _CUT - 3]}..."
