"""Stops of runs in requests: their bodies, and the checks under the lock of the node's row."""

from __future__ import annotations

from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.api.validation import rules, shapes
from ironic_lite.core import clock, text_masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, nodes, run_stops, runs
from ironic_lite.domain import event_rows, history, states
from ironic_lite.domain.run_stops import How, Progress, Stop, ends_uncleaned, stoppable
from ironic_lite.domain.states import Kind, State
from ironic_lite.records import RunStep

COLUMNS = (
    *("uuid", *history.STANDING, "run_uuid", "run_stop"),
    *("automated_clean", *text_masking.FIELDS),
)
_LONGEST = 255
_UNDER_WAY = ("running", "waiting")


class Asked(NamedTuple):
    """A stop that was accepted; ``waits`` True: no conductor works on the node."""

    stop: Stop
    waits: bool


def read_body(body: Any) -> Json:
    """Return how, after and reason of a request.

    :raises errors.InvalidParameter: with the path of the value.
    """
    shapes.check("stop", body, "", "Schema error for stop")
    reason = rules.text((body.get("reason") or "").strip(), "reason", length=_LONGEST)
    return {"how": How(body["how"]), "after": body.get("after"), "reason": reason}


def ask(
    conn: Connection,
    node_uuid: str,
    run: str | None,
    given: Json,
    who: Context,
    *,
    cleans: bool = True,
) -> Asked:
    """Write the stop of a run, in place of an earlier one that has not happened.

    :param run: UUID; None for the active run.
    :param cleans: automated cleaning applies to nodes without a setting of their own.
    :raises errors.NotFound: the node does not have this run, or has no active run.
    :raises errors.Conflict: the run has ended, or no step follows at which it could stop.
    :raises errors.InvalidParameter: ``after`` is no ordinal of the run.
    """
    node, known = _active(conn, node_uuid, run)
    if not stoppable(node["provision_state"]):
        reason = f"its run in the state {node['provision_state']} has no steps to stop between"
        raise errors.Conflict(node=node_uuid, reason=reason)
    if ends_uncleaned(node["provision_state"], node["automated_clean"], cleans=cleans):
        reason = "its deletion ends without cleaning, so it has no step to stop before"
        raise errors.Conflict(node=node_uuid, reason=reason)
    if known is not None and known.progress is Progress.TAKEN:
        reason = "an earlier stop of its run is being carried out"
        raise errors.Conflict(node=node_uuid, reason=reason)
    _check_place(node, runs.steps(conn, node["run_uuid"]), given["after"])
    now = clock.now().isoformat()
    reason = text_masking.of_node(node, prose=True)(given["reason"])
    wanted = {**given, "reason": reason}
    stop = Stop(run=node["run_uuid"], requester=who.user, at=now, **wanted)
    run_stops.put(conn, node_uuid, stop.run, stop.text)
    _tell(conn, node, who, "stop_requested", stop)
    return Asked(stop, waits=states.kind(State(node["provision_state"])) is Kind.WAIT)


def take_back(conn: Connection, node_uuid: str, run: str | None, who: Context) -> None:
    """Remove the stop of a run.

    :raises errors.NotFound: as `ask`, or the run has no stop.
    :raises errors.Conflict: the run has ended, or the stop has happened.
    """
    node, known = _active(conn, node_uuid, run)
    if known is None:
        raise errors.NotFound(f"No stop was requested for the run {node['run_uuid']}.")
    if known.progress is not Progress.ASKED:
        advice = "; unhold continues the run, abort ends it" if known.how is How.HOLD else ""
        reason = f"the stop ({known.how}) of its run has happened{advice}"
        raise errors.Conflict(node=node_uuid, reason=reason)
    run_stops.put(conn, node_uuid, known.run, None)
    _tell(conn, node, who, "stop_withdrawn", known)


def withdraw(conn: Connection, node_uuid: str, who: Context) -> None:
    """Remove the stop of a node's run that has not happened, because the node changes hands.

    The new users have not asked for it.
    """
    node = nodes.get(conn, node_uuid, COLUMNS, hold=True)
    known = Stop.read(node["run_stop"], node["run_uuid"])
    if known is not None and known.progress is Progress.ASKED:
        run_stops.put(conn, node_uuid, known.run, None)
        _tell(conn, node, who, "stop_withdrawn", known)


def _active(conn: Connection, node_uuid: str, run: str | None) -> tuple[Json, Stop | None]:
    """Lock the row of a node; return it with the stop of its active run."""
    node = nodes.get(conn, node_uuid, COLUMNS, hold=True)
    if run is not None and run != node["run_uuid"]:
        if runs.get(conn, run)["node_uuid"] != node_uuid:
            raise errors.NotFound(what="Run", ident=run)
        raise errors.Conflict(node=node_uuid, reason=f"its run {run} has ended")
    if node["run_uuid"] is None:
        raise errors.NotFound(
            f'Node {node_uuid} has no active run; it is in the state "{node["provision_state"]}".'
        )
    return node, Stop.read(node["run_stop"], node["run_uuid"])


def _check_place(node: Json, steps: list[RunStep], after: int | None) -> None:
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
    if steps and not follows and _is_complete(node):
        reason = "no step of its run follows; the run ends by itself"
        raise errors.Conflict(node=node["uuid"], reason=reason)


def _is_complete(node: Json) -> bool:
    """Return False if an agent may still add steps to the list."""
    listed = (node["driver_internal_info"] or {}).get("step_list") or {}
    return bool(listed.get("complete", True))


def _tell(conn: Connection, node: Json, who: Context, what: str, stop: Stop) -> None:
    facts = {"how": str(stop.how), "after": stop.after, "reason": stop.reason}
    data = {**history.standing_of(node), "project": who.project, **facts}
    row = event_rows.of(who, node["uuid"], what, data)
    events.add(conn, [{**row, "event": str(stop.how), "run_uuid": stop.run}])
