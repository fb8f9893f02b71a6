"""Recovery rules for a node whose conductor is gone: one row for each state.

``conductor/watch/orphans`` finds such nodes, ``conductor/flows/takeover`` applies the rules, and
``docs/recovery.rst`` is generated from them. The next conductor may be the same one after a
restart, or another one; both use the same rules.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ironic_lite.domain.states import State


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

    LET_GO = "Remove the lock. No work was in progress."
    TELL = (
        "Remove the lock. A power change or another BMC operation was in progress, and its result "
        "is unknown: ``last_error`` contains the operation."
    )
    TIDY = (
        "Finish the abort: remove the ramdisk and its files. If a power change or another BMC "
        "operation was in progress, ``last_error`` contains the operation."
    )
    AWAIT = (
        "Remove the lock, if there is one. The new owner handles the agent's next heartbeat, the "
        "timer in ``wake_at`` or the time-out."
    )
    HOLD = "Remove the lock, if there is one. The node is held until ``unhold`` or ``abort``."
    BEGIN = "Begin the work of this state again from its start, in the same run."
    REPEAT = "Run the same step again, as its next attempt."
    REPEAT_IF_HARMLESS = (
        "Run the same step again if it is declared ``rerunnable``. Otherwise fail the run; "
        "``last_error`` names the step."
    )
    GO_ON = "Run the next step. Recorded steps are not repeated."


WORK = frozenset(
    {
        RecoveryAction.TIDY,
        RecoveryAction.BEGIN,
        RecoveryAction.REPEAT,
        RecoveryAction.REPEAT_IF_HARMLESS,
        RecoveryAction.GO_ON,
    }
)
"""Actions that need a worker, because they communicate with the machine."""


class Rule(NamedTuple):
    """The action at each crash point."""

    before: RecoveryAction
    during: RecoveryAction
    after: RecoveryAction

    def at(self, moment: CrashPoint) -> RecoveryAction:
        """Return the action at this crash point."""
        found: RecoveryAction = getattr(self, moment.value)
        return found


_REST = Rule(RecoveryAction.LET_GO, RecoveryAction.TELL, RecoveryAction.LET_GO)
_CALLED_OFF = Rule(RecoveryAction.LET_GO, RecoveryAction.TIDY, RecoveryAction.LET_GO)
_WAIT = Rule(RecoveryAction.AWAIT, RecoveryAction.AWAIT, RecoveryAction.AWAIT)
_HELD = Rule(RecoveryAction.HOLD, RecoveryAction.HOLD, RecoveryAction.HOLD)
_WHOLE = Rule(
    RecoveryAction.BEGIN, RecoveryAction.BEGIN, RecoveryAction.BEGIN
)  # leaving the state records its end
_STEPS = Rule(RecoveryAction.BEGIN, RecoveryAction.REPEAT_IF_HARMLESS, RecoveryAction.GO_ON)
_ANY_STEPS = Rule(RecoveryAction.BEGIN, RecoveryAction.REPEAT, RecoveryAction.GO_ON)

S = State

TABLE: Mapping[State, Rule] = MappingProxyType(
    {
        S.ENROLL: _REST,
        S.VERIFYING: _ANY_STEPS,
        S.MANAGEABLE: _REST,
        S.AVAILABLE: _REST,
        S.ACTIVE: _REST,
        S.ERROR: _REST,
        S.INSPECTING: _WHOLE,
        S.INSPECTWAIT: _WAIT,
        S.INSPECTFAIL: _CALLED_OFF,
        S.CLEANING: _ANY_STEPS,  # S2.24
        S.CLEANWAIT: _WAIT,
        S.CLEANHOLD: _HELD,
        S.CLEANFAIL: _CALLED_OFF,
        S.DEPLOYING: _STEPS,
        S.DEPLOYWAIT: _WAIT,
        S.DEPLOYHOLD: _HELD,
        S.DEPLOYFAIL: _CALLED_OFF,
        S.DELETING: _WHOLE,
        S.ADOPTING: _WHOLE,
        S.ADOPTFAIL: _REST,
        S.RESCUE: _REST,
        S.RESCUING: _WHOLE,
        S.RESCUEWAIT: _WAIT,
        S.RESCUEFAIL: _CALLED_OFF,
        S.UNRESCUING: _WHOLE,
        S.UNRESCUEFAIL: _REST,
        S.SERVICING: _STEPS,
        S.SERVICEWAIT: _WAIT,
        S.SERVICEHOLD: _HELD,
        S.SERVICEFAIL: _CALLED_OFF,
    }
)
"""The rules.

A deployment without steps (S3.19) fails, because it must not be run twice.
"""

WORKED_IN = frozenset(state for state, rule in TABLE.items() if WORK.issuperset(rule))
"""States that need an active worker; a node without one is taken over."""

MOST_ATTEMPTS = 10
"""Limit of attempts at one step, or at the start of one work.

Work during which so many conductors died is probably the cause, and fails.
"""
