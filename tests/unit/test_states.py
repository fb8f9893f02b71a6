"""The state machine is that of the specifications: written here from their lists, not from ours."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, Momentary, State

# -- the specifications' lists ---------------------------------------------------------------

KINDS = {
    "stable": "enroll, manageable, available, active, rescue, error",
    "busy": "verifying, inspecting, cleaning, deploying, deleting, adopting, rescuing, unrescuing, "
    "servicing",
    "wait": "inspect wait, clean wait, wait call-back, rescue wait, service wait",
    "held": "clean hold, deploy hold, service hold",
    "fail": "inspect failed, clean failed, deploy failed, adopt failed, rescue failed, "
    "unrescue failed, service failed",
}
TARGETS = {
    "manageable": "verifying, inspecting, inspect wait, inspect failed",
    "available": "cleaning, clean wait, clean hold, clean failed, deleting",
    "active": "deploying, wait call-back, deploy hold, deploy failed, adopting, adopt failed, "
    "unrescuing, unrescue failed, servicing, service wait, service hold, service failed",
    "rescue": "rescuing, rescue wait, rescue failed",
    "": KINDS["stable"],
}
# One line per state that an event leads to: "event: sources -> destination".
IRONIC = """
manage: enroll -> verifying
manage: available, clean failed, inspect failed, adopt failed, cleaning -> manageable
done: verifying, inspecting, inspect wait -> manageable
done: cleaning -> available
done: deploying, unrescuing, adopting, servicing -> active
done: rescuing -> rescue
fail: verifying -> enroll
fail: inspecting, inspect wait -> inspect failed
fail: cleaning, clean wait -> clean failed
fail: deploying, wait call-back -> deploy failed
fail: deleting -> error
fail: adopting -> adopt failed
fail: rescuing, rescue wait -> rescue failed
fail: unrescuing -> unrescue failed
fail: servicing, service wait, service hold -> service failed
inspect: manageable, inspect failed -> inspecting
provide: manageable -> cleaning
clean: manageable, deleting -> cleaning
adopt: manageable, adopt failed -> adopting
deploy: available, deploy failed -> deploying
rebuild: active, deploy failed, error -> deploying
delete: active, error, deploy failed, wait call-back -> deleting
delete: rescue, rescue wait, rescue failed, unrescue failed -> deleting
delete: service wait, service failed -> deleting
rescue: active, rescue, rescue failed, unrescue failed, service failed -> rescuing
unrescue: rescue, rescue failed, unrescue failed -> unrescuing
service: active, service hold, service failed -> servicing
wait: cleaning -> clean wait
wait: deploying -> wait call-back
wait: inspecting -> inspect wait
wait: rescuing -> rescue wait
wait: servicing, service failed -> service wait
resume: clean wait -> cleaning
resume: wait call-back -> deploying
resume: inspect wait -> inspecting
resume: rescue wait -> rescuing
resume: service wait -> servicing
hold: cleaning, clean wait -> clean hold
hold: deploying, wait call-back -> deploy hold
hold: servicing, service wait, service failed -> service hold
unhold: clean hold -> clean wait
unhold: deploy hold -> wait call-back
unhold: service hold -> service wait
abort: clean wait, clean hold -> clean failed
abort: wait call-back, deploy hold -> deploy failed
abort: inspect wait -> inspect failed
abort: rescue wait -> rescue failed
abort: service wait, service hold -> service failed
abort: service failed -> active
"""
OWN = """
provide: clean failed -> cleaning
available: clean failed -> available
retry: clean failed -> cleaning
retry: deploy failed -> deploying
retry: service failed -> servicing
abort: cleaning -> clean failed
abort: deploying -> deploy failed
abort: servicing -> service failed
"""
INTERNAL = {"done", "fail", "wait", "resume", "hold"}


def words(listed: str) -> list[str]:
    return [word.strip() for word in listed.split(",")]


def parsed(lines: str) -> dict[tuple[str, str], str]:
    found = {}
    for line in lines.strip().splitlines():
        event, sources, after = re.split(r": | -> ", line)
        for source in words(sources):
            assert (source, event) not in found
            found[source, event] = after
    return found


SPECIFIED = {**parsed(IRONIC), **parsed(OWN)}
EVENTS = sorted({event for _, event in SPECIFIED})


def ours() -> dict[tuple[str, str], str]:
    every = [(state, event) for state in State for event in (*EVENTS, *(r.event for r in ROWS))]
    return {
        (str(state), event): str(states.follow(state, event))
        for state, event in every
        if states.allows(state, event)
    }


ROWS = states.TABLE
STATE = st.sampled_from(list(State))
EVENT = st.sampled_from(EVENTS)
WORDS = st.characters(exclude_categories=("Cc", "Cs"))  # others are replaced in what is told

# -- states ----------------------------------------------------------------------------------


def test_there_are_the_thirty_states_of_the_wire() -> None:
    listed = [word for line in KINDS.values() for word in words(line)]
    assert len(listed) == 30
    assert sorted(str(state) for state in State) == sorted(listed)


@pytest.mark.parametrize("state", State)
def test_a_state_fits_its_column_of_fifteen_characters(state: State) -> None:
    assert 0 < len(state) <= 15


@pytest.mark.parametrize(("kind", "listed"), KINDS.items())
def test_states_are_of_the_specified_kind(kind: str, listed: str) -> None:
    assert {str(state) for state in states.of_kind(Kind(kind))} == set(words(listed))


@pytest.mark.parametrize(("target", "listed"), TARGETS.items())
def test_states_head_for_the_specified_target(target: str, listed: str) -> None:
    found = {str(state) for state, trait in states.STATES.items() if (trait.target or "") == target}
    assert found == set(words(listed))


def test_every_target_is_a_stable_state() -> None:
    targets = {trait.target for trait in states.STATES.values()} - {None}
    assert targets <= states.of_kind(Kind.STABLE)


def test_a_client_tells_failure_by_the_word_as_the_sdk_does() -> None:
    failed = {state for state in State if state.endswith(" failed")}
    assert failed == states.of_kind(Kind.FAIL)


# -- transitions -----------------------------------------------------------------------------


def test_the_lists_are_whole() -> None:
    assert len(parsed(IRONIC)) == 93
    assert parsed(IRONIC).keys() & parsed(OWN).keys() == set()


def test_the_transitions_are_those_of_the_specifications_and_no_others() -> None:
    assert ours() == SPECIFIED


@given(state=STATE, event=EVENT | st.text(WORDS, max_size=6))
def test_any_other_event_is_refused_and_told(state: State, event: str) -> None:
    if (str(state), event) in SPECIFIED:
        assert states.allows(state, event)
        return
    assert not states.allows(state, event)
    with pytest.raises(errors.InvalidState) as caught:
        states.follow(state, event, node="n1")
    assert caught.value.facts == {"verb": event, "node": "n1", "state": str(state)}


def test_momentary_states_are_passed_and_never_seen() -> None:
    shown = {str(state) for state in State}
    passed = {str(row.via) for row in ROWS if row.via}
    assert passed == {str(state) for state in Momentary}
    assert passed & shown == set()
    assert set(ours().values()) <= shown


def test_success_passes_the_momentary_state_of_its_phase() -> None:
    # S5.5 to S5.15 and S2.15: VERIFYING -> VERIFIED -> MANAGEABLE and so on.
    passing = {
        (str(source), row.event): str(row.via) for row in ROWS for source in row.sources if row.via
    }
    assert passing == {
        ("verifying", "done"): "verified",
        ("verifying", "fail"): "verify failed",
        ("inspecting", "done"): "inspected",
        ("inspect wait", "done"): "inspected",
        ("cleaning", "done"): "cleaned",
        ("cleaning", "manage"): "cleaned",
        ("deploying", "done"): "deployed",
        ("deleting", "clean"): "deleted",
        ("deleting", "fail"): "delete failed",
        ("rescuing", "done"): "rescued",
        ("unrescuing", "done"): "unrescued",
        ("adopting", "done"): "adopted",
        ("servicing", "done"): "serviced",
    }


def test_a_stable_state_is_left_by_no_internal_event() -> None:
    assert not [
        (state, event)
        for state in states.of_kind(Kind.STABLE)
        for event in INTERNAL
        if states.allows(state, event)
    ]


@pytest.mark.parametrize("state", sorted(states.of_kind(Kind.BUSY)))
def test_every_busy_state_ends_by_itself_well_or_badly(state: State) -> None:
    assert states.follow(state, "fail") in states.of_kind(Kind.STABLE, Kind.FAIL)
    # Deleting goes on to cleaning.
    assert states.allows(state, "clean" if state is State.DELETING else "done")


@pytest.mark.parametrize("state", sorted(states.of_kind(Kind.WAIT)))
def test_every_wait_can_go_on_time_out_and_be_given_up(state: State) -> None:
    assert states.kind(states.follow(state, "resume")) is Kind.BUSY
    assert states.kind(states.follow(state, "fail")) is Kind.FAIL
    assert states.kind(states.follow(state, "abort")) is Kind.FAIL


@pytest.mark.parametrize("state", sorted(states.of_kind(Kind.HELD)))
def test_every_held_node_can_go_on_or_be_given_up(state: State) -> None:
    assert states.kind(states.follow(state, "unhold")) is Kind.WAIT
    assert states.kind(states.follow(state, "abort")) is Kind.FAIL


@pytest.mark.parametrize("state", [*sorted(states.of_kind(Kind.FAIL)), State.ERROR])
def test_every_failure_has_a_way_back_to_a_stable_state(state: State) -> None:
    assert {State.MANAGEABLE, State.AVAILABLE, State.ACTIVE} & reachable(state)


def reachable(start: State) -> set[State]:
    seen, edge = {start}, [start]
    while edge:
        state = edge.pop()
        for event in EVENTS:
            if states.allows(state, event) and (after := states.follow(state, event)) not in seen:
                seen.add(after)
                edge.append(after)
    return seen


def test_from_enroll_every_state_can_be_reached() -> None:
    assert reachable(State.ENROLL) == set(State)


def test_an_enrolled_node_must_be_verified_before_anything_else() -> None:
    # S5.4, S5.5
    assert [event for event in EVENTS if states.allows(State.ENROLL, event)] == ["manage"]


def test_clean_failed_is_left_in_the_three_ways_of_the_seeds_and_by_retry() -> None:
    # S2.17, S2.18 and conflict C2
    ways = {e: str(after) for (source, e), after in SPECIFIED.items() if source == "clean failed"}
    seeds = {"manage": "manageable", "provide": "cleaning", "available": "available"}
    assert ways == {**seeds, "retry": "cleaning"}


# -- targets after a move --------------------------------------------------------------------


@given(before=STATE, event=EVENT, current=STATE | st.none())
def test_after_any_move_the_target_is_stable_and_gone_at_rest(
    before: State, event: str, current: State | None
) -> None:
    if not states.allows(before, event) or (current and states.kind(current) is not Kind.STABLE):
        return
    after = states.follow(before, event)
    target = states.target(before, after, current, None)
    if states.kind(after) is Kind.STABLE:
        assert target is None
    else:
        assert target in states.of_kind(Kind.STABLE)


@pytest.mark.parametrize("event", ["wait", "hold", "fail"])
def test_a_manual_clean_stays_manual_through_wait_hold_and_failure(event: str) -> None:
    after = states.follow(State.CLEANING, event)
    manual = State.MANAGEABLE
    assert states.target(State.CLEANING, after, manual, None) is manual
    assert states.target(State.CLEANING, after, State.AVAILABLE, None) is State.AVAILABLE


def test_a_clean_that_resumes_or_is_aborted_keeps_its_target() -> None:
    for event in ("resume", "abort"):
        after = states.follow(State.CLEANWAIT, event)
        assert states.target(State.CLEANWAIT, after, State.MANAGEABLE, None) is State.MANAGEABLE


def test_the_caller_may_name_another_target_but_not_for_a_stable_state() -> None:
    manual = states.target(State.MANAGEABLE, State.CLEANING, None, State.MANAGEABLE)
    assert manual is State.MANAGEABLE
    assert states.target(State.CLEANING, State.AVAILABLE, None, State.MANAGEABLE) is None


def test_an_old_target_is_forgotten_when_another_phase_begins() -> None:
    assert states.target(State.DELETING, State.CLEANING, State.ACTIVE, None) is State.AVAILABLE
    assert states.target(State.CLEANFAIL, State.MANAGEABLE, State.AVAILABLE, None) is None


# -- sets of states --------------------------------------------------------------------------


def test_a_node_in_transition_may_be_patched_in_the_specified_states_only() -> None:
    listed = (
        "deploy failed, inspecting, inspect failed, inspect wait, clean failed, error, verifying, "
        "adopt failed, rescue failed, unrescue failed, service hold, service failed"
    )
    assert {str(state) for state in states.PATCHABLE_IN_TRANSITION} == set(words(listed))


def test_interfaces_change_and_nodes_are_deleted_in_the_specified_states_only() -> None:
    interfaces = "enroll, inspecting, inspect wait, manageable, available"
    assert {str(state) for state in states.INTERFACES_CHANGEABLE} == set(words(interfaces))
    deletable = "manageable, enroll, adopt failed, available"
    assert {str(state) for state in states.DELETABLE} == set(words(deletable))


def test_agents_are_known_while_one_may_run() -> None:
    listed = (
        "deploying, wait call-back, cleaning, clean wait, inspecting, inspect wait, rescuing, "
        "rescue wait, service wait"
    )
    assert {str(state) for state in states.LOOKUP_ALLOWED} == set(words(listed))
