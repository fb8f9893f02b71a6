"""Results of nodes in batches: the values of their rows, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batches
from ironic_lite.domain import batches as core
from ironic_lite.domain.batches import NodeState

_LATER = (errors.Unavailable, errors.NodeLocked, errors.ConcurrentUpdate, errors.LockLost)
GONE = {"code": "NodeNotFound", "text": "The node was removed."}
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
