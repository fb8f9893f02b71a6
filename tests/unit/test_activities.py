"""The table of activities: no state of work without a row, no row without its functions."""

from __future__ import annotations

import pytest

from ironic_lite.conductor.flows import activities as flows
from ironic_lite.conductor.steps.phases import Phase
from ironic_lite.core import options
from ironic_lite.domain import activities, states
from ironic_lite.domain.activities import Activity, StepActivity
from ironic_lite.domain.states import Kind, State

WORK = states.of_kind(Kind.BUSY, Kind.WAIT, Kind.HELD, Kind.FAIL)
KINDS = {"busy": Kind.BUSY, "waiting": Kind.WAIT, "held": Kind.HELD}
named = pytest.mark.parametrize("activity", activities.TABLE, ids=lambda each: each.name)


@pytest.mark.parametrize("state", sorted(WORK))
def test_every_state_of_work_belongs_to_one_activity(state: State) -> None:
    assert [each.name for each in activities.TABLE if state in each.states] != []
    assert len([each for each in activities.TABLE if state in each.states]) == 1


@named
def test_the_states_of_an_activity_have_the_kind_of_their_column(activity: Activity) -> None:
    for column, kind in KINDS.items():
        state = getattr(activity, column)
        assert state is None or states.kind(state) is kind
    if activity.failed is not None:
        assert states.follow(activity.busy, "fail") is activity.failed


@named
def test_an_activity_that_waits_has_a_time_out_and_words_for_it(activity: Activity) -> None:
    waits = activity.waiting is not None
    assert (activity.timeout is not None, bool(activity.overdue)) == (waits, waits)


@named
def test_the_options_of_an_activity_exist(activity: Activity) -> None:
    known = {option.dest for option in options.GROUPS["conductor"]}
    assert {activity.timeout, activity.limit} - {None} <= known


def test_every_activity_has_its_functions() -> None:
    assert set(flows.FLOWS) == set(activities.TABLE)


@named
def test_only_activities_with_steps_have_a_phase(activity: Activity) -> None:
    assert isinstance(flows.FLOWS[activity], Phase) is isinstance(activity, StepActivity)


@named
def test_an_activity_that_waits_can_be_resumed_and_called_off(activity: Activity) -> None:
    flow = flows.FLOWS[activity]
    waits = activity.waiting is not None
    assert (flow.call_off.__name__ == "call_off") is (flow.tidy.__name__ == "tidy") is waits
    assert not waits or flow.resume is not None or isinstance(flow, Phase)


@pytest.mark.parametrize("state", sorted(states.of_kind(Kind.STABLE) - {State.ERROR}))
def test_a_state_of_rest_belongs_to_no_activity(state: State) -> None:
    assert activities.of(state) is None
    assert flows.of(state) is None
