"""The whole walk: every verb in every state, asked over HTTP, and every transition of the table.

Where a verb is accepted is taken from the specification's list, as ``tests/api`` has it; there the
conductor is a recorder, here it is real.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.conductor.watch import orphans
from ironic_lite.core import clock
from ironic_lite.db.queries import nodes
from ironic_lite.domain import activities, states, verbs
from ironic_lite.domain.states import Kind, State
from ironic_lite.domain.verbs import Verb
from tests.api.test_provision import states_of
from tests.support.conductor_fixture import ConductorFixture, listed
from tests.support.operator import Json, Operator

BODIES: dict[str, Json] = {
    "clean": {"clean_steps": listed("deploy.erase_devices")},
    "service": {"service_steps": listed("vendor.log_passthrough")},
    "rescue": {"rescue_password": "sesame"},
}
TRANSITIONS = [(source, row.event) for row in states.TABLE for source in row.sources]


def parked(rig: ConductorFixture, state: State) -> str:
    """Add a node that stands in ``state``, nobody working on it."""
    target = states.STATES[state].target
    return rig.node(str(state), target_provision_state=str(target) if target else None)


@pytest.mark.parametrize("verb", verbs.TABLE, ids=lambda verb: verb.target)
def test_a_verb_is_accepted_where_it_is_specified_and_changes_nothing_elsewhere(
    operator: Operator, verb: Verb
) -> None:
    rig, body = operator.rig, BODIES.get(verb.target, {})
    for state in State:
        node = parked(rig, state)
        if verb.event == "retry" and state in states_of(verb.target):
            said = operator.refused(node, verb.target, 400)
            assert "has not failed" in said
        elif state in states_of(verb.target):
            answer = operator.asks(node, verb.target, **body)
            assert (answer.status, answer.body) == (202, b""), (state, answer.text)
            assert rig.service.runtime.workers.wait_idle(10)
            first = rig.events(node, "provision")[0]
            moved = (first["event"], first["before"], first["after"])
            assert moved == (verb.event, state, states.follow(state, verb.event))
        else:
            said = operator.refused(node, verb.target, 400, **body)
            assert f'"{verb.target}"' in said and f'"{state}"' in said, state
            assert (rig.events(node), rig.runs(node)) == ([], [])


@pytest.mark.parametrize("verb", verbs.TABLE, ids=lambda verb: verb.target)
def test_no_verb_touches_a_node_that_another_works_on(
    serve: Callable[..., Operator], verb: Verb
) -> None:
    operator = serve(conductor__node_locked_retry_attempts=1)
    rig, body = operator.rig, BODIES.get(verb.target, {})
    for state in State:
        node = parked(rig, state)
        hold(rig, node)
        said = operator.refused(node, verb.target, 409, **body)
        assert "there" in said, state
        assert (rig.events(node), rig.runs(node)) == ([], [])


def hold(rig: ConductorFixture, node: str) -> None:
    """Lock a node as a conductor called ``there``."""
    until = clock.after(3600)
    rig.database.write(
        lambda conn: nodes.lock(conn, node, host="there", token="of there", expires=until)
    )


def test_numbers_of_verbs_states_and_transitions_are_known() -> None:
    counts = (len(verbs.TABLE), len(State), len(TRANSITIONS), len(set(TRANSITIONS)))
    assert counts == (18, 30, 101, 101)  # ours: retry, and aborts by stops


@pytest.mark.parametrize(("before", "event"), TRANSITIONS, ids=str)
def test_a_transition_is_one_write_with_one_event(
    operator: Operator, before: State, event: str
) -> None:
    rig = operator.rig
    node = parked(rig, before)
    with rig.tasks.lock(rig.who, node) as task:
        task.move(event)
    after = states.follow(before, event)
    shown = operator.shows(node)
    target = shown["target_provision_state"]
    assert shown["provision_state"] == after
    assert (target is None) is (states.STATES[after].target is None)
    assert target is None or states.kind(State(target)) is Kind.STABLE
    assert shown["provision_updated_at"] is not None
    (told,) = rig.events(node)
    assert (told["kind"], told["event"]) == ("provision", event)
    assert (told["before"], told["after"]) == (before, after)


# -- nobody is forgotten ---------------------------------------------------------------------


def test_the_sweep_for_orphans_knows_every_busy_state() -> None:
    assert set(orphans.BUSY) == set(map(str, states.of_kind(Kind.BUSY)))


@pytest.mark.parametrize("state", sorted(states.of_kind(Kind.BUSY)))
def test_a_busy_node_without_an_owner_is_brought_to_rest(operator: Operator, state: State) -> None:
    node = parked(operator.rig, state)
    operator.rig.service.orphans.sweep()
    assert operator.rig.service.runtime.workers.wait_idle(10)
    shown = operator.shows(node)
    assert states.kind(State(shown["provision_state"])) in (Kind.STABLE, Kind.FAIL)
    assert shown["reservation"] is None


def test_every_wait_state_has_a_time_out_that_is_on_unless_switched_off(
    operator: Operator,
) -> None:
    limits = {activity.waiting: activity.timeout or "" for activity in activities.TABLE}
    del limits[None]
    assert limits.keys() == states.of_kind(Kind.WAIT)
    settings = operator.rig.service.runtime.conf.conductor
    assert {settings[option] for option in limits.values()} == {1800}


def test_hold_states_accept_unhold_and_abort() -> None:
    for state in states.of_kind(Kind.HELD):
        possible = {verb.target for verb in verbs.TABLE if verbs.possible(verb, state)}
        assert {"unhold", "abort"} <= possible


def test_every_state_at_rest_is_left_by_a_verb(operator: Operator) -> None:
    rest: Any = states.of_kind(Kind.STABLE, Kind.FAIL)
    ways = {state: [v.target for v in verbs.TABLE if verbs.possible(v, state)] for state in rest}
    assert [state for state, possible in ways.items() if not possible] == []
