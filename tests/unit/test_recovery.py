"""The table of what becomes of a node whose conductor is gone: no state without a rule."""

from __future__ import annotations

import pytest

from ironic_lite.domain import activities, recovery, states
from ironic_lite.domain.recovery import CrashPoint, RecoveryAction
from ironic_lite.domain.states import Kind, State

KINDS = {
    Kind.STABLE: {RecoveryAction.RELEASE, RecoveryAction.REPORT},
    Kind.FAIL: {RecoveryAction.RELEASE, RecoveryAction.REPORT, RecoveryAction.FINISH_ABORT},
    Kind.WAIT: {RecoveryAction.KEEP_WAITING},
    Kind.HELD: {RecoveryAction.KEEP_HELD},
    Kind.BUSY: {
        RecoveryAction.BEGIN,
        RecoveryAction.REPEAT,
        RecoveryAction.REPEAT_IF_RERUNNABLE,
        RecoveryAction.RUN_NEXT,
    },
}


@pytest.mark.parametrize("state", State)
def test_every_state_has_a_rule_that_fits_what_it_is(state: State) -> None:
    assert set(recovery.TABLE[state]) <= KINDS[states.kind(state)]


def test_worked_in_states_are_the_busy_states() -> None:
    assert states.of_kind(Kind.BUSY) == recovery.WORKED_IN


def test_every_clean_step_is_run_again_and_no_step_of_an_instance_against_its_word() -> None:
    assert recovery.TABLE[State.CLEANING].during is RecoveryAction.REPEAT
    for state in (State.DEPLOYING, State.SERVICING):
        assert recovery.TABLE[state].during is RecoveryAction.REPEAT_IF_RERUNNABLE


def test_steps_are_gone_on_with_where_there_are_steps() -> None:
    stepping = {
        state for state, rule in recovery.TABLE.items() if rule.after is RecoveryAction.RUN_NEXT
    }
    assert stepping == {state for state in recovery.WORKED_IN if activities.stepping(state)}


def test_abort_has_a_recovery_in_every_state_it_leads_to() -> None:
    tidied = {
        state for state, rule in recovery.TABLE.items() if RecoveryAction.FINISH_ABORT in rule
    }
    sources = states.of_kind(Kind.WAIT, Kind.HELD)
    assert tidied == {states.follow(state, "abort") for state in sources}


@pytest.mark.parametrize("moment", CrashPoint)
def test_a_rule_is_read_by_moment(moment: CrashPoint) -> None:
    rule = recovery.TABLE[State.DEPLOYING]
    assert rule.at(moment) is rule[list(CrashPoint).index(moment)]
