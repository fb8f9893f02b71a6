"""What becomes of a node whose conductor is gone: a rule for each state, as one table.

``conductor/watch/orphans`` finds such nodes, ``conductor/flows/takeover`` does what stands here,
and ``docs/recovery.rst`` is drawn from here. The conductor that comes after may be the same one,
started again, or another: both go by the same rules.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ironic_lite.states import State


class Moment(enum.Enum):
    """How far a conductor had come with what it did in a state, as the database tells it.

    Its work is a step of a list, the whole of a verb that has no steps, or, where a node rests, a
    change of its power, another order to its BMC, or what an abort leaves to be put away.
    """

    BEFORE = "before"  # nothing of it is noted as begun
    DURING = "during"  # it is noted as begun; nobody knows whether it has had its effect
    AFTER = "after"  # its effect is recorded, and nothing else is noted as begun


class Act(enum.Enum):
    """What the conductor that finds the node does; the value is for people."""

    LET_GO = "The lock is removed. Nothing else was under way."
    TELL = (
        "The lock is removed. The change of the power, or the order, that was under way has come "
        "to nothing as far as anybody knows: ``last_error`` says so."
    )
    TIDY = (
        "What an abort has left to do is done: the ramdisk and its files are put away. A change "
        "of the power or an order that was under way ends in ``last_error``."
    )
    AWAIT = (
        "The lock, if there was one, is removed. The agent's next heartbeat, the timer in "
        "``wake_at`` or the time-out reaches whoever owns the node now."
    )
    HOLD = "The lock, if there was one, is removed. The node is held until ``unhold`` or ``abort``."
    BEGIN = "The work of this state begins again from its start, in the same run."
    REPEAT = "The same step is run again, as its next attempt."
    REPEAT_IF_HARMLESS = (
        "The same step is run again if it says that this does no harm (``rerunnable``); else the "
        "run fails, and ``last_error`` names the step."
    )
    GO_ON = "The next step is run; what is recorded is not done again."


WORK = frozenset({Act.TIDY, Act.BEGIN, Act.REPEAT, Act.REPEAT_IF_HARMLESS, Act.GO_ON})
"""Acts that need a worker, because they speak with the machine."""


class Rule(NamedTuple):
    """What is done in each moment."""

    before: Act
    during: Act
    after: Act

    def at(self, moment: Moment) -> Act:
        """Return what is done in this moment."""
        found: Act = getattr(self, moment.value)
        return found


_REST = Rule(Act.LET_GO, Act.TELL, Act.LET_GO)
_CALLED_OFF = Rule(Act.LET_GO, Act.TIDY, Act.LET_GO)
_WAIT = Rule(Act.AWAIT, Act.AWAIT, Act.AWAIT)
_HELD = Rule(Act.HOLD, Act.HOLD, Act.HOLD)
_WHOLE = Rule(Act.BEGIN, Act.BEGIN, Act.BEGIN)  # its end is recorded by leaving the state
_STEPS = Rule(Act.BEGIN, Act.REPEAT_IF_HARMLESS, Act.GO_ON)
_ANY_STEPS = Rule(Act.BEGIN, Act.REPEAT, Act.GO_ON)

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
"""The rules. A deployment without steps (S3.19) fails: it is one that must not be run twice."""

WORKED_IN = frozenset(state for state, rule in TABLE.items() if WORK.issuperset(rule))
"""States in which somebody must always be at work: whoever finds nobody there takes over."""

MOST_ATTEMPTS = 10
"""At one step, or at the beginning of one work; what so many conductors did not outlive may well be
what kills them, and fails."""
