"""Stops of runs: a request to hold or abort a run when a step has ended. Pure.

The column ``run_stop`` of a node has the stop as text. The API writes it when it is asked for. The
conductor compares it in the statement that begins a step, so a stop is in time or comes too late,
and steps cost no statement more.
"""

from __future__ import annotations

import datetime
import enum
from typing import NamedTuple, Self, TypedDict

import orjson

from ironic_lite.core.json_types import restored
from ironic_lite.domain import activities
from ironic_lite.domain.activities import StepActivity
from ironic_lite.domain.states import State


class How(enum.StrEnum):
    """The effect of a stop: ``hold`` waits for unhold or abort, ``abort`` ends the run."""

    HOLD = "hold"
    ABORT = "abort"


class StopProgress(enum.StrEnum):
    """The progress of a stop; it can be taken back while it is asked for."""

    ASKED = "asked"
    TAKEN = "taken"
    """The conductor begins no further step; it is about to move the node."""
    DONE = "done"
    """The run is held, or has been."""


class StopDocument(TypedDict):
    """A stop as clients see it."""

    how: How
    after: int | None
    reason: str
    requester: str | None
    at: datetime.datetime
    progress: StopProgress


class Stop(NamedTuple):
    """A stop of one run.

    :ivar run: UUID of the run.
    :ivar after: ordinal of the step after which the run stops; None: before the next step.
    :ivar reason: text of the request, may be empty.
    :ivar requester: user of the request.
    :ivar at: time of the request, ISO 8601 in UTC. It tells two equal requests apart.
    """

    run: str
    how: How
    after: int | None
    reason: str
    requester: str | None
    at: str
    progress: StopProgress = StopProgress.ASKED

    @classmethod
    def read(cls, text: str | None, run: str | None) -> Self | None:
        """Return the stop in a node's column; None without one, or if it is for another run."""
        if text is None or run is None:
            return None
        found = restored(cls, orjson.loads(text))
        if found.run != run:
            return None
        return found._replace(how=How(found.how), progress=StopProgress(found.progress))

    @property
    def text(self) -> str:
        """The text for the node's column."""
        return orjson.dumps(self._asdict()).decode()

    def due(self, ordinal: int) -> bool:
        """Return whether the step with this ordinal must not begin."""
        if self.progress is StopProgress.DONE:
            return False
        taken = self.progress is StopProgress.TAKEN
        return taken or self.after is None or ordinal > self.after

    @property
    def without_reason(self) -> Self:
        """The stop as callers see it who may not read the run: a reason is for its projects."""
        return self._replace(reason="")

    @property
    def document(self) -> StopDocument:
        """The stop as clients see it."""
        return {
            "how": self.how,
            "after": self.after,
            "reason": self.reason,
            "requester": self.requester,
            "at": datetime.datetime.fromisoformat(self.at),
            "progress": self.progress,
        }


_STOPPABLE = frozenset(
    state
    for activity in activities.TABLE
    if isinstance(activity, StepActivity) and activity.held is not None
    for state in (activity.busy, activity.waiting, activity.held)
    if state is not None
) | frozenset(activities.DELETE.states[:1])
"""Cleaning, deploying, servicing, and a deletion, whose run goes on with cleaning."""


def stoppable(state: str) -> bool:
    """Return whether a run in this state has steps between which it can be held."""
    return State(state) in _STOPPABLE


def ends_uncleaned(state: str, own: bool | None, *, cleans: bool) -> bool:
    """Return whether a run is a deletion without cleaning, which has no step to stop before.

    :param own: the node's ``automated_clean``.
    :param cleans: ``[conductor]automated_clean``, for nodes without a setting of their own.
    """
    return state == State.DELETING and not (cleans if own is None else own)
