"""Results of nodes in batches: the values of their rows, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batches, events, nodes, run_stops
from ironic_lite.domain import batches as core
from ironic_lite.domain import history, states
from ironic_lite.domain.batches import NodeState
from ironic_lite.domain.run_stops import How, Progress, Stop, stoppable
from ironic_lite.domain.states import Kind, State

_LATER = (errors.Unavailable, errors.NodeLocked, errors.ConcurrentUpdate, errors.LockLost)
GONE = {"code": "NodeNotFound", "text": "The node was removed."}
STOPPED = "The batch was aborted."
ABORTED = {"code": "Aborted", "text": "The batch was aborted before the node started."}


def ended(state: NodeState, error: RowView | None) -> Json:
    return {
        "state": state.value,
        "open_uuid": None,
        "ended_at": clock.now(),
        "error": None if error is None else dict(error),
    }


def refused(why: errors.Error) -> Json:
    return ended(NodeState.REFUSED, {"code": why.code, "text": why.message})


def skipped(member: RowView, state: str) -> Json:
    text = f'The node was in state "{member["was"]}" when the batch was made, and is now "{state}".'
    return ended(NodeState.SKIPPED, {"code": "StateChanged", "text": text})


def stopped(member: RowView, state: str) -> Json:
    """Return the values of a claimed node whose request was not sent.

    :param state: of its batch: paused or aborted.
    """
    if state != core.BatchState.PAUSED:
        return ended(NodeState.SKIPPED, ABORTED)
    return {
        "state": NodeState.PENDING.value,
        "host": None,
        "tries": max(0, member["tries"] - 1),
        "started_at": None,
        "not_before": None,
    }


def accepted(run: str | None, request: RowView) -> Json:
    """Return the values of an accepted node; a request without a run has ended with that."""
    if run is None and not request.get("power"):
        return ended(NodeState.DONE, None)
    return {
        "state": NodeState.RUNNING.value,
        "run_uuid": run,
        "started_at": clock.now(),
        "not_before": None,
    }


def is_unknown(why: errors.Error) -> bool:
    """Return whether an error of the database leaves it open what was written."""
    return type(why) is errors.Unavailable or bool(why.facts.get("doubtful"))


def may_pass(why: errors.Error) -> bool:
    return isinstance(why, _LATER)


def no_host(member: RowView) -> errors.Error:
    return errors.NoValidHost(group=member["conductor_group"], driver=member["driver"])


def postpone(
    conn: Connection,
    uuid: str,
    member: RowView,
    why: errors.Error,
    states: Sequence[NodeState],
    *,
    host: str | None = None,
) -> None:
    """Try a node again later, for at most `core.WAIT_SECONDS`."""
    began = member["started_at"] or clock.now()
    if clock.lived(began) >= core.WAIT_SECONDS:
        values = refused(why)
    else:
        tries = member["tries"] + (host is None)
        values = {
            "state": NodeState.PENDING.value,
            "host": None,
            "tries": tries,
            "started_at": began,
            "not_before": clock.ago(-core.pause_seconds(tries)),
            "error": {"code": why.code, "text": why.message},
        }
    batches.change_node(conn, uuid, member["node_uuid"], values, states=states, host=host)


def gone(member: RowView, state: NodeState) -> Json:
    return {"node": member["node_uuid"], "state": state.value, "error": GONE, "at": clock.now()}


def of_run(row: RowView) -> Json:
    if row["state"] is None:
        return gone(row, NodeState.FAILED)
    error = row["error"] or None
    if error is not None:
        code = (error.get("cause") or error).get("code") or error.get("code")
        kept = {name: error[name] for name in ("text", "step") if error.get(name)}
        error = {"code": code, **kept}
    return {
        "node": row["node_uuid"],
        "state": row["state"],
        "error": error,
        "at": row["ended_at"] or clock.now(),
    }


def of_power(member: RowView, event: RowView | None) -> list[Json]:
    if event is None and member["target_power_state"] is not None:
        return []
    end: Json = {"node": member["node_uuid"], "at": clock.now(), "error": None}
    if event is None:
        text = "The end of the power change is not known, because its conductor was lost."
        error: Json | None = {"code": "Interrupted", "text": text}
        return [{**end, "state": NodeState.FAILED.value, "error": error}]
    if event["event"] == "end":
        return [{**end, "state": NodeState.DONE.value, "at": event["at"]}]
    error = {"code": "PowerFailure", "text": (event["data"] or {}).get("error", "")}
    return [{**end, "state": NodeState.FAILED.value, "at": event["at"], "error": error}]


def write_all(conn: Connection, uuid: str, ends: Sequence[Json]) -> None:
    for end in ends:
        write(conn, uuid, end)


def write(conn: Connection, uuid: str, end: Json) -> None:
    skipped = end["state"] == NodeState.SKIPPED
    batches.end_node(
        conn,
        uuid,
        end["node"],
        end["state"],
        at=end["at"],
        error=end["error"],
        states=(NodeState.PENDING,) if skipped else (NodeState.RUNNING,),
    )


def stop(conn: Connection, node: str, run: str, who: Context) -> Kind | None:
    """Ask for the abort of a run at its next step; a repetition changes nothing.

    :return: kind of the node's state; None if only the verb ``abort`` can end the run.
    """
    row = nodes.get(conn, node, ("uuid", *history.STANDING, "run_uuid", "run_stop"), hold=True)
    state = State(row["provision_state"])
    kind = states.kind(state)
    if row["run_uuid"] != run or not stoppable(state) or kind is Kind.HELD:
        return None
    known = Stop.read(row["run_stop"], run)
    aborts = known is not None and known.how is How.ABORT and known.after is None
    if not aborts and (known is None or known.progress is not Progress.TAKEN):
        now = clock.now()
        wanted = Stop(run, How.ABORT, None, STOPPED, who.user, now.isoformat())
        run_stops.put(conn, node, run, wanted.text)
        facts = {"how": str(wanted.how), "after": wanted.after, "reason": wanted.reason}
        told = {
            "at": now,
            "node_uuid": node,
            "kind": "stop_requested",
            "event": str(wanted.how),
            "run_uuid": run,
            "requester": who.user,
            "request_id": who.request_id,
            "data": {**history.standing_of(row), "project": who.project, **facts},
        }
        events.add(conn, [told])
    return kind
