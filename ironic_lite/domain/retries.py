"""Decisions of a retry: which steps of a failed run are kept, run again or waived.

A retry runs the stored list of the failed run. A step that has ended well is kept if its effect
lasts over a restart of the machine. Nothing here reads or writes anything.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView, Row, RowView, restored
from ironic_lite.domain import steps
from ironic_lite.records import Run, RunStep, StoredStep

IN_DOUBT = frozenset(
    {
        "AgentUnreachable",
        "BmcUnreachable",
        "DatabaseRestored",
        "DeadlinePassed",
        "StepInterrupted",
        "TimedOut",
    }
)
"""Codes of errors after which nobody knows whether the step has ended on the machine."""

AUTOMATIC_PAUSES = (60.0, 300.0, 900.0)
"""Seconds between a failure and the first, second and third retry by the service itself."""

_FAILED = ("failed", "aborted")
_NOT_REACHED = ("pending", "skipped")


class Action(enum.StrEnum):
    """The fate of a step in the new run."""

    KEEP = "keep"
    RUN = "run"
    WAIVE = "waive"


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The fate of one step: its action, and the number of attempts so far.

    ``facts`` are columns of the new run's record: the times of then and ``done_in`` of a kept step,
    ``waiver`` of a waived one.
    """

    action: Action
    attempts: int = 0
    facts: RowView = dataclasses.field(default_factory=dict)

    @property
    def record(self) -> Row:
        """The columns of the step in the new run's record."""
        state = {Action.KEEP: "done", Action.WAIVE: "waived", Action.RUN: "pending"}[self.action]
        return {"state": state, "attempt": self.attempts, **self.facts}


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """The list of a run as the engine stores it, in the column ``runs.listed``.

    ``first`` is the ordinal of the list's first step; ``requested`` is true if an operator or a
    runbook chose the steps. ``complete`` is false if an agent was still to add steps. ``inputs`` is
    a digest of what the steps were made from. ``doubt`` has the ordinals of steps that a retry was
    to run although their end was unknown.
    """

    kind: str
    steps: Sequence[StoredStep]
    first: int = 0
    ramdisk: bool = True
    requested: bool = False
    runbook: str | None = None
    complete: bool = True
    inputs: str | None = None
    doubt: Sequence[int] = ()

    def as_json(self) -> Json:
        """Return the form of the database."""
        return {**dataclasses.asdict(self), "steps": list(self.steps), "doubt": list(self.doubt)}

    @classmethod
    def from_json(cls, data: JsonView) -> Stored:
        """Read the form of the database; keys of later releases are left out."""
        return restored(cls, data)


class Waiver(NamedTuple):
    """A step to leave out, and the reason; None stands for the step that failed."""

    ordinal: int | None
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class RetryRequest:
    """The object ``retry`` of a request."""

    start: int | None = None
    waivers: Sequence[Waiver] = ()
    force: bool = False

    @classmethod
    def from_json(cls, data: JsonView, hide: Callable[[str], str] = str) -> RetryRequest:
        """Read a checked object.

        :param hide: hides the node's secrets in the reasons.
        """
        given = data.get("waive") or ()
        waivers = [Waiver(one.get("ordinal"), hide(one["reason"])) for one in given]
        return cls(data.get("from"), waivers, bool(data.get("force", False)))


@dataclasses.dataclass(frozen=True, slots=True)
class RetryEffects:
    """Properties of steps that their drivers declare, by index in the list.

    ``spoils`` is true if the step may destroy what an earlier or later step has written: data,
    volumes, or something unknown.
    """

    lasts: Callable[[int], bool]
    rerunnable: Callable[[int], bool]
    spoils: Callable[[int], bool]


class FailedRun:
    """A run that has failed, with its stored list and the record of its steps.

    :param rows: the steps of the run's record.
    """

    def __init__(self, uuid: str, stored: Stored, rows: Sequence[RunStep]) -> None:
        self.uuid = uuid
        self.stored = stored
        same = (row for row in rows if row["kind"] == stored.kind)
        self._rows = {row["ordinal"] - stored.first: row for row in same}

    def row(self, index: int) -> RunStep | None:
        """Return the record of a step of the list."""
        return self._rows.get(index)

    @property
    def failed(self) -> int:
        """The index of the first step that has not ended well; the length if all have."""
        indexes = range(len(self.stored.steps))
        return next((at for at in indexes if not self._ended_well(at)), len(self.stored.steps))

    def _ended_well(self, index: int) -> bool:
        row = self.row(index)
        return row is not None and row["state"] in ("done", "waived")

    def kept(self, index: int) -> Decision:
        """Return the decision to keep a step, with the run that did it."""
        row = self._rows[index]
        facts = {"started_at": row["started_at"], "ended_at": row["ended_at"]}
        done_in = row["done_in"] or self.uuid
        return Decision(Action.KEEP, row["attempt"], {**facts, "done_in": done_in})

    def in_doubt(self, index: int) -> bool:
        """Return whether a step has begun, in this run or before, and its end is unknown."""
        row = self.row(index)
        if row is None or not row["attempt"]:
            return False
        if row["state"] in _NOT_REACHED:  # the run failed before it repeated the step
            return self.stored.first + index in self.stored.doubt
        return is_in_doubt(row)

    def continued(self, decisions: Sequence[Decision]) -> Stored:
        """Return the list of the run that continues this one."""
        again = (at for at, one in enumerate(decisions) if one.action is Action.RUN)
        doubt = [at for at in again if self.in_doubt(at)]
        return dataclasses.replace(self.stored, first=0, doubt=doubt)


def of_run(run: Run | None, rows: Sequence[RunStep], *, state: str, kind: str) -> FailedRun:
    """Return the failed run that a retry of a node continues.

    :param run: the latest run of the node.
    :param state: the node's state, for the sentence.
    :param kind: the kind of steps of this state's activity.
    :raises errors.NothingToRetry: the run ended well, or had no list of this kind.
    """
    if run is None or run["state"] not in _FAILED:
        raise errors.NothingToRetry(state=state, reason="its latest run has not failed")
    if not run["listed"] or run["listed"].get("kind") != kind:
        reason = f"its run {run['uuid']} ended before it had a list of steps"
        if run["verb"] == "abort":  # of a node whose steps had failed
            reason = f"its latest run {run['uuid']} was an abort, which has no steps"
        raise errors.NothingToRetry(state=state, reason=reason)
    return FailedRun(run["uuid"], Stored.from_json(run["listed"]), rows)


def change_of_hands(before: Sequence[str | None], now: Sequence[str | None]) -> str:
    """Return what has changed between two pairs of owner and lessee as a clause; "" if nothing.

    Work of a caller that begins later must not meet a node that belongs to others by then.
    """
    return " and ".join(
        f"the {name} was {was or 'none'} and is {is_ or 'none'}"
        for name, was, is_ in zip(("owner", "lessee"), before, now, strict=True)
        if (was or None) != (is_ or None)
    )


def change_of_hands_since(run: Run, owner: str | None, lessee: str | None) -> str:
    """Return what has changed since a run began on a node, as a clause; "" if nothing has.

    A deletion ends the lease itself that a deployment has begun.

    :param run: with the owner and the lessee of its time; the others are those of now.
    """
    ended = run["verb"] == "deleted" and lessee is None
    before = (run["owner"], None if ended else run["lessee"])
    return change_of_hands(before, (owner, lessee))


def refuse_others(run: Run, node: JsonView, project: str | None) -> None:
    """Refuse to repeat the steps of former users of a node, which its next users do not read.

    :param node: with provision_state, owner and lessee.
    :param project: of the caller; None for the whole system, which reads all runs.
    :raises errors.NothingToRetry: the node has changed hands since the run of others began.
    """
    if project is None or project in (run["owner"], run["lessee"]):
        return
    if change_of_hands_since(run, node["owner"], node["lessee"]):
        known = run["owner"] or run["lessee"]
        whose = "was for another owner or lessee" if known else "has no owner"
        reason = f"its run {run['uuid']} {whose}; a caller with system scope may retry it"
        raise errors.NothingToRetry(state=node["provision_state"], reason=reason)


def decide(
    run: FailedRun,
    request: RetryRequest,
    effects: RetryEffects,
    *,
    by: JsonView,
    inputs: str | None = None,
) -> list[Decision]:
    """Decide about each step of the stored list.

    A step is kept if it has ended well, its effect lasts, and no step before it that runs again may
    destroy what it has written. No step is kept if the steps would be made from other inputs now.

    :param by: ``requester`` and ``at`` of the waivers.
    :param inputs: the digest of today's inputs.
    :raises errors.InvalidParameter: the request names a step that cannot be chosen.
    :raises errors.StepInDoubt: the end of the failed step is unknown, and it must not run twice.
    """
    start = _start_index(run, request)
    waived = _waived_indexes(run, request)
    if run.stored.inputs != inputs:
        start = 0
    decisions: list[Decision] = []
    spoilt = False
    for index in range(len(run.stored.steps)):
        row = run.row(index)
        if row is not None and row["state"] == "waived" and index < start:
            decisions.append(Decision(Action.WAIVE, 0, {"waiver": row["waiver"]}))
        elif row is not None and index < start and not spoilt and effects.lasts(index):
            _refuse_waiver(run, index, waived)
            decisions.append(run.kept(index))
        elif index in waived:
            waiver = {**by, "reason": waived[index].reason}
            decisions.append(Decision(Action.WAIVE, 0, {"waiver": waiver}))
        else:
            spoilt = spoilt or effects.spoils(index)
            decisions.append(Decision(Action.RUN, row["attempt"] if row else 0))
    _check_doubt(run, decisions, request, effects)
    return decisions


def _start_index(run: FailedRun, request: RetryRequest) -> int:
    """Return the index from which on no step is kept."""
    if request.start is None:
        return run.failed
    index = request.start - run.stored.first
    if 0 <= index <= run.failed and index < len(run.stored.steps):
        return index
    reason = (
        f"{request.start} is not the ordinal of a step that has begun; the run failed at "
        f"{run.stored.first + run.failed}. Waive steps to leave them out."
    )
    raise errors.InvalidParameter(path="retry/from", reason=reason)


class _Placed(NamedTuple):
    place: int
    reason: str


def _waived_indexes(run: FailedRun, request: RetryRequest) -> dict[int, _Placed]:
    """Return, by index in the list, the waivers with their places in the request."""
    first, count = run.stored.first, len(run.stored.steps)
    found: dict[int, _Placed] = {}
    for place, (ordinal, reason) in enumerate(request.waivers):
        index = run.failed if ordinal is None else ordinal - first
        path = f"retry/waive/{place}/ordinal"
        if not 0 <= index < count:
            fault = f"is not an ordinal from {first} to {first + count - 1}"
            raise errors.InvalidParameter(path=path, reason=fault)
        if index in found:
            fault = f"the step {first + index} has another waiver in this request"
            raise errors.InvalidParameter(path=path, reason=fault)
        found[index] = _Placed(place, reason)
    return found


def _refuse_waiver(run: FailedRun, index: int, waived: Mapping[int, _Placed]) -> None:
    """Refuse to waive a step that is kept."""
    if index in waived:
        path = f"retry/waive/{waived[index].place}/ordinal"
        title = steps.title(run.stored.steps[index])
        reason = f"{title} has ended well and is kept, so there is nothing to waive"
        raise errors.InvalidParameter(path=path, reason=reason)


def _check_doubt(
    run: FailedRun, decisions: Sequence[Decision], request: RetryRequest, effects: RetryEffects
) -> None:
    """Refuse to repeat a step whose end is unknown, unless it is rerunnable or forced.

    This may be a later step than the one that failed: the run may have failed in a step before the
    one that it was to repeat.
    """
    if request.force:
        return
    for at, decision in enumerate(decisions):
        repeats = decision.action is Action.RUN and not effects.rerunnable(at)
        if repeats and run.in_doubt(at):
            title = steps.title(run.stored.steps[at])
            raise errors.StepInDoubt(step=title, ordinal=run.stored.first + at, run=run.uuid)


def is_in_doubt(row: RunStep) -> bool:
    """Return whether a step has begun, and its end is unknown."""
    error = row["error"] or {}
    codes = {error.get("code"), (error.get("cause") or {}).get("code")}
    return bool(row["attempt"]) and (row["state"] == "aborted" or bool(codes & IN_DOUBT))


def automatic_pause(made: int, most: int) -> float | None:
    """Return the seconds before the next retry by the service itself; None for the end.

    :param made: the number of such retries since an operator's verb.
    :param most: ``[conductor]automatic_retries``.
    """
    return AUTOMATIC_PAUSES[made] if made < min(most, len(AUTOMATIC_PAUSES)) else None


def refuse_choices(request: RetryRequest) -> None:
    """Refuse to choose steps of a list that an agent was still to complete.

    :raises errors.InvalidParameter: naming the key.
    """
    reason = "the run failed before its list of steps was complete, so the retry makes a new list"
    if request.start:
        raise errors.InvalidParameter(path="retry/from", reason=reason)
    if request.waivers:
        raise errors.InvalidParameter(path="retry/waive", reason=reason)


def digest(facts: JsonView) -> str:
    """Return a digest of the inputs of a list; it cannot be compared with another node's."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
