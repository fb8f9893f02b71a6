"""The locks of nodes as clients see them: holder, time, and the work under the lock.

`note` makes the text that is stored with a lock. `of` reads the lock from a node's row, and
`refusal` makes the error of a request that finds the node locked.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import activities, states, steps
from ironic_lite.domain.states import Kind, State

COLUMNS = (
    *("uuid", "reservation", "locked_at", "lock_note", "run_uuid", "provision_state"),
    *("clean_step", "deploy_step", "service_step"),
)
"""Columns of a node that `of` reads."""

_LONGEST = 255
_INTERNAL = "conductor:"
_REQUEST = "req-"
_WORKS: Mapping[str, str] = {
    "consoles": "the check of its console",
    "hung work": "the end of hung work",
    "power sync": "the power sync",
    "recovery": "the recovery of lost work",
    "sensors": "the reading of its sensors",
    "taking over": "the takeover from another conductor",
    "time-outs": "the check of its time-out",
    "timer": "the check of its timer",
}
"""Words for the internal work of conductors, by the name of its context."""
_OF_RUNS = frozenset({"hung work", "recovery", "time-outs", "timer"})
"""Internal work that continues or ends the run of a node."""
_STOP = "PUT /v1/nodes/{node}/runs/current/stop ends it before its next step."
"""Advice for a locked node whose run has steps: the verb abort needs the lock."""


class NodeLock(NamedTuple):
    """A lock; None for facts that its holder, of an older release, has not stored.

    ``purpose`` completes "held for ...". ``run`` is set if the lock serves the current run,
    ``step`` is the step under way.
    """

    host: str
    since: datetime.datetime | None
    purpose: str | None
    request_id: str | None
    run: str | None
    step: str | None

    @property
    def document(self) -> Json:
        """The lock as an explanation shows it."""
        shown = self._asdict()
        shown["for"] = shown.pop("purpose")
        return shown

    @property
    def sentence(self) -> str:
        """The time and purpose as one sentence; empty if both are unknown."""
        since = f" since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.since else ""
        purpose = f" for {self.purpose}" if self.purpose else ""
        return f"It is held{since}{purpose}." if since or purpose else ""


def note(context: Context) -> str:
    """Return the text that is stored with a lock taken in this context."""
    user = context.user or ""
    text = user if user.startswith(_INTERNAL) else f"{context.request_id} {user}".rstrip()
    return text[:_LONGEST]


def of(node: JsonView) -> NodeLock | None:
    """Return the lock of a node, None if it has none.

    :param node: with `COLUMNS`.
    """
    if node["reservation"] is None:
        return None
    words = node["lock_note"] or ""
    work = words.removeprefix(_INTERNAL) if words.startswith(_INTERNAL) else None
    request = words.partition(" ")[0] if words.startswith(_REQUEST) else None
    state = State(node["provision_state"])
    busy = states.kind(state) is Kind.BUSY
    run = node["run_uuid"] if busy or work in _OF_RUNS else None
    under_way = activities.step_under_way(node) if run else None
    step = steps.title(under_way) if under_way else None
    purpose = f"the request {request}" if request else None
    if run:
        purpose = f"the run {run}, step {step}" if step else f"the run {run}"
    elif work:
        purpose = _WORKS.get(work, work)
    return NodeLock(node["reservation"], node["locked_at"], purpose, request, run, step)


def refusal(node: JsonView) -> errors.NodeLocked:
    """Return the error of a request that needs the lock of this locked node.

    :param node: with `COLUMNS`.
    """
    lock = of(node)
    if lock is None:
        return errors.NodeLocked(node=node["uuid"], host="unknown")
    plain = errors.NodeLocked(node=node["uuid"], host=lock.host)
    since = lock.since.isoformat() if lock.since else None
    facts = {**plain.facts, "since": since, "run": lock.run, "step": lock.step}
    way = _STOP.format(node=node["uuid"]) if lock.step else ""
    return errors.NodeLocked(f"{plain.message} {lock.sentence} {way}".rstrip(), **facts)
