"""Nodes taken through every transition that the service itself makes, and watched on the way."""

from __future__ import annotations

from collections.abc import Callable

from ironic_lite.core import clock
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from tests.support.conductor_fixture import listed, wait_for
from tests.support.operator import Json, Operator
from tests.support.recording_drivers import RecordingDrivers

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
    # Only the stop of a run aborts a busy node: tests/flows/test_run_stops.py.
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
    rig.service.runtime.workers.wait_idle(10)
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
