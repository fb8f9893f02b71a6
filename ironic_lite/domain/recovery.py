"""Recovery rules for a node whose conductor is gone: one for each state.

``conductor/watch/orphans`` finds such nodes, ``conductor/flows/takeover`` applies the rules, and
``docs/recovery.rst`` is generated from them. The next conductor may be the same one after a
restart, or another one; both use the same rules.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from ironic_lite.domain import activities, states
from ironic_lite.domain.activities import StepActivity
from ironic_lite.domain.states import Kind, State


class CrashPoint(enum.Enum):
    """The progress of a conductor's work in a state, as the database shows it.

    Its work is a step of a list, or the whole of a verb without steps. In a resting state it is a
    change of the power, another operation of the BMC, or the cleanup after an abort.
    """

    BEFORE = "before"  # no work is recorded as begun
    DURING = "during"  # work is recorded as begun; its effect is unknown
    AFTER = "after"  # the effect is recorded, and no other work is recorded as begun


class RecoveryAction(enum.Enum):
    """The action of the conductor that takes the node over; the value is for docs."""

    RELEASE = "Remove the lock. No work was in progress."
    REPORT = (
        "Remove the lock. A power change or another BMC operation was in progress, and its result "
        "is unknown: ``last_error`` contains the operation."
    )
    FINISH_ABORT = (
        "Finish the abort: remove the ramdisk and its files. If a power change or another BMC "
        "operation was in progress, ``last_error`` contains the operation."
    )
    KEEP_WAITING = (
        "Remove the lock, if there is one. The new owner handles the agent's next heartbeat, the "
        "timer in ``wake_at`` or the time-out."
    )
    KEEP_HELD = "Remove the lock, if there is one. The node is held until ``unhold`` or ``abort``."
    BEGIN = "Begin the work of this state again from its start, in the same run."
    REPEAT = "Run the same step again, as its next attempt."
    REPEAT_IF_RERUNNABLE = (
        "Run the same step again if this is safe: it is declared ``rerunnable``, is a step of the "
        "service itself, or its agent still knows the command. Otherwise fail the run; "
        "``last_error`` names the step."
    )
    RUN_NEXT = "Run the next step. Recorded steps are not repeated."


WORK = frozenset(
    {
        RecoveryAction.FINISH_ABORT,
        RecoveryAction.BEGIN,
        RecoveryAction.REPEAT,
        RecoveryAction.REPEAT_IF_RERUNNABLE,
        RecoveryAction.RUN_NEXT,
    }
)
"""Actions that need a worker, because they communicate with the machine."""


class RecoveryRule(NamedTuple):
    """The action at each crash point."""

    before: RecoveryAction
    during: RecoveryAction
    after: RecoveryAction

    def at(self, moment: CrashPoint) -> RecoveryAction:
        """Return the action at this crash point."""
        found: RecoveryAction = getattr(self, moment.value)
        return found


_REST = RecoveryRule(RecoveryAction.RELEASE, RecoveryAction.REPORT, RecoveryAction.RELEASE)
_CALLED_OFF = RecoveryRule(
    RecoveryAction.RELEASE, RecoveryAction.FINISH_ABORT, RecoveryAction.RELEASE
)
_WAIT = RecoveryRule(
    RecoveryAction.KEEP_WAITING, RecoveryAction.KEEP_WAITING, RecoveryAction.KEEP_WAITING
)
_HELD = RecoveryRule(RecoveryAction.KEEP_HELD, RecoveryAction.KEEP_HELD, RecoveryAction.KEEP_HELD)
_WHOLE = RecoveryRule(
    RecoveryAction.BEGIN, RecoveryAction.BEGIN, RecoveryAction.BEGIN
)  # leaving the state records its end
_STEPS = RecoveryRule(
    RecoveryAction.BEGIN, RecoveryAction.REPEAT_IF_RERUNNABLE, RecoveryAction.RUN_NEXT
)
_ANY_STEPS = RecoveryRule(RecoveryAction.BEGIN, RecoveryAction.REPEAT, RecoveryAction.RUN_NEXT)


def _rule(state: State) -> RecoveryRule:
    kind, activity = states.kind(state), activities.of(state)
    if kind is Kind.WAIT:
        return _WAIT
    if kind is Kind.HELD:
        return _HELD
    if kind is Kind.BUSY:
        if not isinstance(activity, StepActivity):
            return _WHOLE
        return _ANY_STEPS if activity.repeats_any_step else _STEPS
    aborted = {row.to for row in states.TABLE if row.event == "abort"}
    return _CALLED_OFF if kind is Kind.FAIL and state in aborted else _REST


TABLE: Mapping[State, RecoveryRule] = {state: _rule(state) for state in State}
"""The rules; they follow from the kind of a state and from its activity.

A deployment without steps (S3.19) fails, because it must not be run twice.
"""

WORKED_IN = frozenset(state for state, rule in TABLE.items() if WORK.issuperset(rule))
"""States that need an active worker; a node without one is taken over."""

MOST_ATTEMPTS = 10
"""Limit of attempts at one step, or at the start of one work.

Work during which so many conductors died is probably the cause, and fails.
"""
