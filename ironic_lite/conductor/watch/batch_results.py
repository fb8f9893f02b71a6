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

_LATER = (
    errors.Unavailable,
    errors.NodeLocked,
    errors.ConcurrentUpdate,
    errors.LockLost,
    errors.NoValidHost,
)
GONE = {"code": "NodeNotFound", "text": "The node was removed."}


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


def rights_lost(change: str) -> Json:
    return ended(NodeState.SKIPPED, core.rights_lost(change))


def run_changed(member: RowView, run: str | None) -> Json:
    """Return the values of a node that was not retried, because another run is its newest."""
    wanted = member["retry_of"]
    if wanted is None:
        text = "The node had no run to retry when the batch was made; begin another batch."
    else:
        text = f"The batch was to retry the run {wanted}, and the newest is now {run}."
    return ended(NodeState.SKIPPED, {"code": "StateChanged", "text": text})


def stopped(member: RowView, state: str) -> Json:
    """Return the values of a claimed node whose request was not sent.

    :param state: of its batch: paused or aborted.
    """
    return (
        released(member)
        if state == core.BatchState.PAUSED
        else ended(NodeState.SKIPPED, core.SKIPPED_BY_ABORT)
    )


def released(member: RowView) -> Json:
    """Return the values of a claimed node that may be claimed again at once."""
    return {
        "state": NodeState.PENDING.value,
        "host": None,
        "tries": max(0, member["tries"] - 1),
        "started_at": None,
        "not_before": clock.now(),  # a time, because conductors have passed the untried nodes
    }


def accepted(run: str | None, request: RowView) -> Json:
    """Return the values of an accepted node; a request without a run has ended with that.

    The time of its claim stays its start: its run may have ended before this is written.
    """
    if run is None and not request.get("power"):
        return ended(NodeState.DONE, None)
    return {
        "state": NodeState.RUNNING.value,
        "run_uuid": run,
        "not_before": None,
    }


def is_unknown(why: errors.Error) -> bool:
    """Return whether an error of the database leaves it open what was written."""
    return type(why) is errors.Unavailable or bool(why.facts.get("doubtful"))


def is_limit(why: errors.Error | Json | None) -> bool:
    """Return whether a request has met a limit of the service, whose end does not depend on it."""
    return isinstance(why, errors.TooManyActions | errors.NoFreeWorker)


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
    """Try a node again later, at most `core.MOST_TRIES` times.

    A limit of the service does not count: a batch may wait for it as long as it is open.

    :param host: of this conductor, which has claimed the node; None: the node is pending.
    """
    limit = is_limit(why)
    tries = member["tries"] + (host is None) - limit
    if tries >= core.MOST_TRIES:
        values = refused(why)
    else:
        pause = core.LIMIT_SECONDS if limit else core.pause_seconds(tries)
        values = {
            "state": NodeState.PENDING.value,
            "host": None,
            "tries": tries,
            "started_at": None,
            "not_before": clock.ago(-pause),
            "error": {"code": why.code, "text": why.message},
        }
    batches.change_node(conn, uuid, member["node_uuid"], values, states=states, host=host)


def gone(member: RowView) -> Json:
    """Return the result of a node that was removed while its request was under way."""
    end = {"node": member["node_uuid"], "state": NodeState.FAILED.value}
    return {**end, "error": GONE, "at": clock.now()}


def of_run(row: RowView) -> Json:
    if row["state"] is None:
        return gone(row)
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


def of_power(member: RowView, event: RowView | None, *, lost: bool) -> Json | None:
    """Return the result of a power change, None if it may be under way.

    :param member: from `batch_sweeps.ended_power`.
    :param event: the end of the change; without one it was lost, or is under way.
    :param lost: nobody is left to end a change that is not ended.
    """
    end: Json = {"node": member["node_uuid"], "at": clock.now(), "error": None}
    if member["present"] is None:
        return gone(member)
    if event is None and member["target_power_state"] is not None and not lost:
        return None
    if event is None:
        text = "The end of the power change is not known, because its conductor was lost."
        error: Json | None = {"code": "Interrupted", "text": text}
        return {**end, "state": NodeState.FAILED.value, "error": error}
    if event["event"] == "end":
        return {**end, "state": NodeState.DONE.value, "at": event["at"]}
    error = {"code": "PowerFailure", "text": (event["data"] or {}).get("error", "")}
    return {**end, "state": NodeState.FAILED.value, "at": event["at"], "error": error}


def write_all(conn: Connection, uuid: str, ends: Sequence[Json]) -> None:
    """Write the results of nodes that are under way; a node that has a result keeps it."""
    for end in ends:
        batches.end_node(
            conn,
            uuid,
            end["node"],
            end["state"],
            at=end["at"],
            error=end["error"],
            states=(NodeState.RUNNING,),
        )
