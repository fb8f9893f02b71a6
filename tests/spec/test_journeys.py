"""Every verb in every state, every transition, and a write after a power order."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite.conductor.watch import orphans
from ironic_lite.core import clock
from ironic_lite.db.queries import nodes
from ironic_lite.domain import activities, states, verbs
from ironic_lite.domain.states import Kind, State
from ironic_lite.domain.verbs import Verb
from ironic_lite.drivers.registry import Registry
from tests.api.test_provision import states_of
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.operator import Json, Operator
from tests.support.recording_drivers import RecordingDrivers

# Nodes taken through every transition that the service itself makes, and watched on the way.

HOUR: Json = {
    "fake_step_seconds": 3600,
    "fake_async_steps": ["*"],
    "fake_async_verbs": ["inspect", "rescue"],
}
HOLD = {"interface": "power", "step": "hold"}
BODIES: dict[str, Json] = {
    "clean": {"clean_steps": listed("deploy.erase_devices")},
    "clean, held": {"clean_steps": [HOLD]},
    "active, held": {"deploy_steps": [{**HOLD, "args": {}, "priority": 500}]},
    "service": {"service_steps": listed("vendor.log_passthrough")},
    "service, held": {"service_steps": [HOLD]},
    "rescue": {"rescue_password": "sesame"},
}


def failing(verb: str) -> Json:
    return {"fake_fail_verbs": {verb: "no"}}


def broken(step: str) -> Json:
    return {"fake_fail_steps": {step: "no"}}


# From a state, by verbs and by what befalls a node: a dictionary is its driver_info from there on,
# "ring" lets its timer ring, "late" lets its time-out pass, "fixed" ends its maintenance.
JOURNEYS: list[tuple[str, list[str | Json]]] = [
    ("enroll", [{"fake_fail_power": "no"}, "manage", {}, "manage", "inspect", "adopt"]),
    ("manageable", [HOUR, "inspect", "ring", HOUR, "inspect", "late", "inspect", "abort"]),
    ("manageable", [failing("inspect"), "inspect", "inspect", "manage"]),
    ("manageable", [failing("adopt"), "adopt", "adopt", "manage"]),
    ("manageable", [HOUR, "clean", "abort", "manage", "clean", "ring", HOUR, "clean", "late"]),
    ("manageable", [broken("deploy.erase_devices"), "clean", "provide", {}, "provide", "manage"]),
    ("manageable", [broken("deploy.erase_devices"), "provide", "available"]),
    ("manageable", [broken("deploy.erase_devices"), "provide", {}, "retry"]),
    ("manageable", ["clean, held", "abort", "manage", "clean, held", "unhold"]),
    ("available", ["active", "rebuild", "deleted"]),
    (
        "available",
        [HOUR, "active", "ring", HOUR, "rebuild", "late", "active", "abort", "rebuild", "abort"],
    ),
    ("available", [broken("deploy.deploy"), "active", {}, "deleted"]),
    ("available", [broken("deploy.deploy"), "active", {}, "retry"]),
    ("available", [HOUR, "active", {}, "deleted"]),
    ("available", ["active, held", "abort", "active, held", "unhold"]),
    ("active", [failing("delete"), "deleted", "deleted", {}, "rebuild"]),
    ("active", ["rescue", "rescue", "unrescue", "rescue", "deleted"]),
    ("active", [HOUR, "rescue", "ring", HOUR, "rescue", "late", "rescue", "abort", {}, "unrescue"]),
    ("active", [HOUR, "rescue", {}, "deleted"]),
    ("active", [failing("rescue"), "rescue", "deleted"]),
    (
        "active",
        ["rescue", failing("unrescue"), "unrescue", "unrescue", "rescue", "unrescue", "deleted"],
    ),
    ("active", ["service, held", "service", "service, held", "unhold", "service, held", "abort"]),
    (
        "active",
        [HOUR, "service", "ring", HOUR, "service", "late", "fixed", "service", "abort", "ring"],
    ),
    ("active", [HOUR, "service", {}, "deleted"]),
    ("active", [broken("vendor.log_passthrough"), "service", "fixed", "abort", "service"]),
    ("active", [broken("vendor.log_passthrough"), "service", "fixed", "rescue"]),
    ("active", [broken("vendor.log_passthrough"), "service", "deleted"]),
    ("active", [broken("vendor.log_passthrough"), "service", {}, "retry"]),
]
# Of Ironic's table, which is ours; but here an inspection that reports is finished in one move, a
# step that holds is begun by a conductor at work, and a failed service is left by requests alone.
NEVER = {
    ("inspect wait", "resume"),
    ("clean wait", "hold"),
    ("wait call-back", "hold"),
    ("service wait", "hold"),
    ("service failed", "hold"),
    ("service failed", "wait"),
    ("service hold", "fail"),
    # Only the stop of a run aborts a busy node: tests/flows/test_stops.py.
    ("cleaning", "abort"),
    ("deploying", "abort"),
    ("servicing", "abort"),
}


def ride(operator: Operator, start: str, acts: list[str | Json]) -> str:
    """Take a node on a journey and return it."""
    node = operator.enroll(start)
    for act in acts:
        befall(operator, node, act)
    return node


def befall(operator: Operator, node: str, act: str | Json) -> None:
    rig = operator.rig
    if isinstance(act, dict):
        rig.edit(node, driver_info=act)
    elif act == "ring":
        before = rig.get(node)["provision_state"]
        rig.ring(node)
        wait_for(lambda: rig.get(node)["provision_state"] != before)
    elif act == "late":
        rig.edit(node, provision_updated_at=clock.after(-7200), wake_at=clock.after(-7200))
        rig.sweep("time-outs")
    elif act == "fixed":
        assert operator.api.delete(f"/v1/nodes/{node}/maintenance").status == 202
    else:
        operator.provision(node, act.partition(",")[0], **BODIES.get(act, {}))
    rig.service.runtime.workers.wait_idle(60)
    wait_for(lambda: rested(operator, node))


def rested(operator: Operator, node: str) -> bool:
    row = operator.rig.get(node)
    ringing = row["wake_at"] is not None and row["wake_at"] <= clock.now()
    return row["reservation"] is None and not ringing


def test_the_service_itself_takes_every_transition_but_those_nobody_needs(
    serve: Callable[..., Operator],
) -> None:
    witness = RecordingDrivers()
    operator = serve(registry=witness.registry)
    travelled = [ride(operator, start, acts) for start, acts in JOURNEYS]
    events = [event for node in travelled for event in operator.rig.events(node, "provision")]
    taken = {(event["before"], event["event"]) for event in events}
    table = {(str(source), row.event) for row in states.TABLE for source in row.sources}
    assert taken - table == set()
    assert table - taken == NEVER
    for event in events:
        assert event["after"] == states.follow(State(event["before"]), event["event"])
    # On the way, whoever worked on a node held its lock; at the end all runs have an end.
    busy = [call for call in witness.calls if states.kind(State(call.state)) is Kind.BUSY]
    assert {call.state for call in busy} == set(map(str, states.of_kind(Kind.BUSY)))
    owner = ("reservation", "lock_token", "lock_expires")
    assert [call for call in busy if None in [call.row[key] for key in owner]] == []
    for node in travelled:
        path = operator.rig.events(node, "provision")
        assert [one["before"] for one in path[1:]] == [one["after"] for one in path[:-1]]
        resting = states.kind(State(operator.shows(node)["provision_state"]))
        assert resting in (Kind.STABLE, Kind.FAIL), operator.rig.path(node)
        ends = {run["state"] for run in operator.rig.runs(node)}
        assert ends <= {"done", "failed", "aborted"}


# The whole walk: every verb in every state, asked over HTTP, and every transition of the table.
#
# Where a verb is accepted is taken from the specification's list, as ``tests/api`` has it; there
# the conductor is a recorder, here it is real.

VERB_BODIES: dict[str, Json] = {
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
    rig, body = operator.rig, VERB_BODIES.get(verb.target, {})
    for state in State:
        node = parked(rig, state)
        if verb.event == "retry" and state in states_of(verb.target):
            said = operator.refused(node, verb.target, 400)
            assert "has not failed" in said
        elif state in states_of(verb.target):
            answer = operator.asks(node, verb.target, **body)
            assert (answer.status, answer.body) == (202, b""), (state, answer.text)
            assert rig.service.runtime.workers.wait_idle(60)
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
    rig, body = operator.rig, VERB_BODIES.get(verb.target, {})
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
    assert operator.rig.service.runtime.workers.wait_idle(60)
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


# A write that follows a power order at once waits for the order's lock, as Ironic's does.

Serve = Callable[..., Operator]


def test_patch_right_after_a_power_order_succeeds(serve: Serve) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "set_power_state":
            time.sleep(0.3)
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    # As long as a loaded machine needs.
    operator = serve(registry=registry, conductor__node_locked_retry_interval=30)
    node = operator.enroll()
    power = f"/v1/nodes/{node}/states/power"
    assert operator.api.put(power, {"target": "power off"}).status == 202
    assert operator.shows(node)["reservation"] is not None
    assert operator.patches(node, extra__a=1).status == 200
    assert operator.api.put(power, {"target": "power on"}).status == 202
    assert operator.api.put(f"/v1/nodes/{node}/maintenance", {}).status == 202
