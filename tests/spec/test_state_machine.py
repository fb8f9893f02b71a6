"""S5, the state machine: its states, its verbs, and the way of each through it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.db.queries import nodes
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from tests.support.conductor_fixture import listed, wait_for
from tests.support.operator import Json, Operator
from tests.support.recording_drivers import RecordingDrivers

HOUR: Json = {"fake_step_seconds": 3600, "fake_async_steps": ["*"]}
ERASE = listed("deploy.erase_devices")
PASSWORD = {"rescue_password": "sesame"}
Serve = Callable[..., Operator]


def way(operator: Operator, node: str, verb: str, **body: Any) -> list[str]:
    """Carry out a verb and return the states it led through."""
    before = len(operator.rig.path(node))
    operator.provision(node, verb, **body)
    return operator.rig.path(node)[before:]


def told(operator: Operator, node: str, **keys: Any) -> None:
    """Tell the fake machine how to behave from here on."""
    assert operator.patches(node, driver_info=keys).status == 200


# -- where nodes begin -----------------------------------------------------------------------


def test_s5_01_no_node_is_without_a_provision_state(operator: Operator) -> None:
    def write(state: str | None) -> None:
        row = {"uuid": str(uuid.uuid4()), "driver": "fake-hardware", "provision_state": state}
        operator.rig.database.write(lambda conn: nodes.insert(conn, row))

    write("enroll")
    with pytest.raises(Exception, match=r"(?i)null"):
        write(None)
    listing = operator.api.get("/v1/nodes").json["nodes"]
    assert [node["provision_state"] for node in listing] == ["enroll"]


def test_s5_02_the_oldest_clients_see_null_for_available(operator: Operator) -> None:
    node = operator.enroll("available")
    for path in (f"/v1/nodes/{node}", f"/v1/nodes/{node}/states"):
        assert operator.api.at(1).get(path).json["provision_state"] is None
        assert operator.api.at(2).get(path).json["provision_state"] == "available"
    (shown,) = operator.api.at(1).get("/v1/nodes").json["nodes"]
    assert shown["provision_state"] is None


def test_s5_03_new_nodes_begin_in_enroll(operator: Operator) -> None:
    body = {"driver": "fake-hardware"}
    for minor, state in ((10, "available"), (11, "enroll"), (115, "enroll")):
        made = operator.api.at(minor).post("/v1/nodes", body).json
        assert made["provision_state"] == state


def test_s5_04_nothing_leads_a_node_on_by_itself(operator: Operator) -> None:
    resting = [operator.enroll("enroll"), operator.enroll("manageable")]
    before = [operator.rig.get(node) for node in resting]
    operator.sweep()
    assert [operator.rig.get(node) for node in resting] == before


def test_s5_05_manage_verifies_by_asking_the_power_driver(serve: Serve) -> None:
    witness = RecordingDrivers()
    operator = serve(registry=witness.registry)
    node = operator.enroll("enroll", fake_fail_power="wrong password")
    assert way(operator, node, "manage") == ["verifying", "enroll"]
    assert "wrong password" in operator.shows(node)["last_error"]
    assert [(call.state, call.title) for call in witness.calls] == [
        ("verifying", "power.get_power_state")
    ]
    told(operator, node)
    assert way(operator, node, "manage") == ["verifying", "manageable"]
    shown = operator.shows(node)
    assert (shown["power_state"], shown["last_error"]) == ("power off", None)


@pytest.mark.parametrize(
    ("option", "spared", "power"),
    [(None, False, "power on"), (True, False, "power off"), (True, True, "power on")],
)
def test_s5_06_an_option_switches_machines_off_after_verification(
    serve: Serve, option: bool | None, spared: bool, power: str
) -> None:
    options = {} if option is None else {"conductor__power_off_after_verify": option}
    operator = serve(**options)
    node = operator.enroll("enroll", disable_power_off=spared)
    path = f"/v1/nodes/{node}/states/power"
    assert operator.api.put(path, {"target": "power on"}).status == 202
    operator.rig.settled(node)
    shown = operator.provision(node, "manage")
    assert (shown["provision_state"], shown["power_state"]) == ("manageable", power)


# -- the verbs -------------------------------------------------------------------------------


def test_s5_07_clean_leads_back_to_manageable(operator: Operator) -> None:
    node = operator.enroll()
    assert way(operator, node, "clean", clean_steps=ERASE) == ["cleaning", "manageable"]


def test_s5_08_inspect_updates_the_properties(operator: Operator) -> None:
    node = operator.enroll(properties={"cpus": 2, "rack": 7})
    assert way(operator, node, "inspect") == ["inspecting", "manageable"]
    properties = operator.shows(node)["properties"]
    assert properties == {
        **{"cpu_arch": "x86_64", "memory_mb": 16384, "local_gb": 100},
        **{"cpus": 2, "rack": 7},
    }
    shown = operator.shows(node)
    assert (shown["inspection_started_at"], bool(shown["inspection_finished_at"])) == (None, True)
    told(operator, node, fake_fail_verbs={"inspect": "no agent"})
    assert way(operator, node, "inspect") == ["inspecting", "inspect failed"]
    shown = operator.shows(node)
    assert "no agent" in shown["last_error"]
    assert shown["properties"] == properties


def test_s5_08_inspect_adds_a_port_for_each_network_card_it_finds(operator: Operator) -> None:
    cards = [f"52:54:00:00:00:0{last}" for last in "abc"]
    node, other = operator.enroll(fake_ports=[card.upper() for card in cards]), operator.enroll()
    for owner, address in ((node, cards[0]), (other, cards[1])):
        made = operator.api.post("/v1/ports", {"node_uuid": owner, "address": address})
        assert made.status == 201
    for _ in range(2):
        assert way(operator, node, "inspect") == ["inspecting", "manageable"]
        listed_ports = operator.api.get(f"/v1/nodes/{node}/ports").json["ports"]
        assert [port["address"] for port in listed_ports] == [cards[0], cards[2]]


def test_s5_09_provide_cleans_and_leads_to_available(operator: Operator) -> None:
    assert way(operator, operator.enroll(), "provide") == ["cleaning", "available"]


def test_s5_10_manage_leads_straight_back_from_available(operator: Operator) -> None:
    assert way(operator, operator.enroll("available"), "manage") == ["manageable"]


def test_s5_11_active_deploys(operator: Operator) -> None:
    assert way(operator, operator.enroll("available"), "active") == ["deploying", "active"]


def test_s5_12_rebuild_deploys_again(operator: Operator) -> None:
    assert way(operator, operator.enroll("active"), "rebuild") == ["deploying", "active"]


def test_s5_13_rescue_leads_beside_the_instance(operator: Operator) -> None:
    node = operator.enroll("active")
    assert way(operator, node, "rescue", **PASSWORD) == ["rescuing", "rescue"]


def test_s5_14_unrescue_leads_back_to_it(operator: Operator) -> None:
    node = operator.enroll("active")
    operator.provision(node, "rescue", **PASSWORD)
    assert way(operator, node, "unrescue") == ["unrescuing", "active"]


@pytest.mark.parametrize("start", ["active", "rescue", "wait call-back"])
def test_s5_15_deleted_cleans_and_leads_to_available(operator: Operator, start: str) -> None:
    node = operator.enroll("active" if start != "wait call-back" else "available")
    if start == "rescue":
        operator.provision(node, "rescue", **PASSWORD)
    if start == "wait call-back":
        told(operator, node, **HOUR)
        operator.provision(node, "active")
        operator.rig.edit(node, driver_info={})
    assert operator.shows(node)["provision_state"] == start
    assert way(operator, node, "deleted") == ["deleting", "cleaning", "available"]


def test_s5_16_abort_leads_straight_to_clean_failed(operator: Operator) -> None:
    node = operator.enroll()
    told(operator, node, **HOUR)
    operator.provision(node, "clean", clean_steps=ERASE)
    assert way(operator, node, "abort") == ["clean failed"]


# -- active states ---------------------------------------------------------------------------

PHASES: dict[str, tuple[str, str, str, Json]] = {
    "clean": ("manageable", "cleaning", "clean wait", {"clean_steps": ERASE}),
    "active": ("available", "deploying", "wait call-back", {}),
}


def working(serve: Serve, verb: str) -> tuple[Operator, str, RecordingDrivers]:
    """Return a node whose conductor has just begun a step, and does not end it yet."""
    start, _, _, body = PHASES[verb]
    step = {"clean": "deploy.execute_clean_step", "active": "deploy.execute_deploy_step"}[verb]
    witness = RecordingDrivers(step)
    operator = serve(registry=witness.registry)
    if verb == "active":
        witness.go_on.set()
    node = operator.enroll(start)
    witness.go_on.clear()
    assert operator.asks(node, verb, **body).status == 202
    wait_for(lambda: step in witness.titles())
    return operator, node, witness


def works_and_waits(serve: Serve, verb: str) -> tuple[Operator, str]:
    """Show that busy means a conductor at work, and wait that nobody is."""
    _, busy, wait, body = PHASES[verb]
    operator, node, witness = working(serve, verb)
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["reservation"]) == (busy, "here")
    witness.go_on.set()
    operator.rig.settled(node)
    operator.provision(node, "provide" if verb == "clean" else "deleted")
    if verb == "clean":
        operator.provision(node, "manage")
    told(operator, node, **HOUR)
    shown = operator.provision(node, verb, **body)
    assert (shown["provision_state"], shown["reservation"]) == (wait, None)
    return operator, node


def test_s5_17_a_conductor_cleans_or_waits_for_the_step_to_end(serve: Serve) -> None:
    works_and_waits(serve, "clean")


def test_s5_18_deploying_is_told_apart_from_waiting_which_deleted_leaves(serve: Serve) -> None:
    operator, node = works_and_waits(serve, "active")
    operator.rig.edit(node, driver_info={})
    assert operator.provision(node, "deleted")["provision_state"] == "available"


FAILURES: dict[str, tuple[str, str, Json]] = {
    "manage": ("enroll", "enroll", {"fake_fail_power": "no"}),
    "clean": ("manageable", "clean failed", {"fake_fail_steps": {"deploy.erase_devices": "no"}}),
    "provide": ("manageable", "clean failed", {"fake_fail_steps": {"deploy.erase_devices": "no"}}),
    "inspect": ("manageable", "inspect failed", {"fake_fail_verbs": {"inspect": "no"}}),
    "adopt": ("manageable", "adopt failed", {"fake_fail_verbs": {"adopt": "no"}}),
    "active": ("available", "deploy failed", {"fake_fail_steps": {"deploy.deploy": "no"}}),
    "rebuild": ("active", "deploy failed", {"fake_fail_steps": {"deploy.deploy": "no"}}),
    "deleted": ("active", "error", {"fake_fail_verbs": {"delete": "no"}}),
    "rescue": ("active", "rescue failed", {"fake_fail_verbs": {"rescue": "no"}}),
    "unrescue": ("active", "unrescue failed", {"fake_fail_verbs": {"unrescue": "no"}}),
    "service": ("active", "service failed", {"fake_fail_steps": {"vendor.log_passthrough": "no"}}),
}
BODIES: dict[str, Json] = {
    "clean": {"clean_steps": ERASE},
    "rescue": PASSWORD,
    "service": {"service_steps": listed("vendor.log_passthrough")},
}


@pytest.mark.parametrize("verb", FAILURES)
def test_s5_19_failure_ends_in_the_fail_state_of_its_phase(operator: Operator, verb: str) -> None:
    start, failed, script = FAILURES[verb]
    node = operator.enroll(start)
    if verb == "unrescue":
        operator.provision(node, "rescue", **PASSWORD)
    told(operator, node, **script)
    path = way(operator, node, verb, **BODIES.get(verb, {}))
    assert len(path) == 2
    assert states.kind(State(path[0])) is Kind.BUSY
    shown = operator.shows(node)
    assert (shown["provision_state"], path[1]) == (failed, failed)
    assert shown["last_error"].endswith("no")
    assert shown["reservation"] is None


def test_s5_19_momentary_states_are_never_seen(operator: Operator) -> None:
    node = operator.enroll("active")
    for verb in ("rescue", "unrescue", "deleted", "manage", "inspect", "adopt"):
        operator.provision(node, verb, **BODIES.get(verb, {}))
    events = operator.rig.events(node, "provision")
    seen = {event[side] for event in events for side in ("before", "after")}
    assert seen <= set(map(str, State))
    assert not seen & set(map(str, states.Momentary))


def test_s5_20_an_active_state_heads_for_a_stable_one(serve: Serve) -> None:
    witness = RecordingDrivers()
    operator = serve(registry=witness.registry)
    node = operator.enroll("active")
    for verb in ("rescue", "unrescue", "service", "deleted", "manage", "inspect", "clean", "adopt"):
        operator.provision(node, verb, **BODIES.get(verb, {}))
    busy = {
        call.state: call.row["target_provision_state"]
        for call in witness.calls
        if states.kind(State(call.state)) is Kind.BUSY
    }
    assert busy.keys() == set(map(str, states.of_kind(Kind.BUSY)))
    assert {states.kind(State(target)) for target in busy.values()} == {Kind.STABLE}


@pytest.mark.parametrize("state", sorted(states.of_kind(Kind.STABLE)))
def test_s5_21_a_stable_state_is_left_by_requests_alone(operator: Operator, state: State) -> None:
    node = operator.rig.node(str(state), power_state="power off")
    before = operator.rig.get(node)
    operator.sweep()
    assert operator.rig.get(node) == before
    assert operator.rig.path(node) == []


def test_s5_22_clients_see_where_a_node_stands_and_where_it_heads(operator: Operator) -> None:
    node = operator.enroll("available")
    told(operator, node, **HOUR)
    operator.provision(node, "active")
    for path in (f"/v1/nodes/{node}", f"/v1/nodes/{node}/states"):
        for minor in (1, 115):
            shown = operator.api.at(minor).get(path).json
            assert shown["provision_state"] == "wait call-back"
            assert shown["target_provision_state"] == "active"


def test_s5_23_a_verb_in_the_wrong_state_is_refused(operator: Operator) -> None:
    node = operator.enroll("enroll")
    for verb in ("provide", "active", "rebuild", "deleted", "inspect", "adopt", "unrescue"):
        said = operator.refused(node, verb, 400)
        assert f'"{verb}"' in said and '"enroll"' in said


def test_s5_23_the_oldest_clients_deploy_rebuild_and_delete(operator: Operator) -> None:
    node = operator.enroll("available")
    path = f"/v1/nodes/{node}/states/provision"
    for verb, end in (("active", "active"), ("rebuild", "active"), ("deleted", "available")):
        assert operator.api.at(1).put(path, {"target": verb}).status == 202
        assert operator.rig.settled(node)["provision_state"] == end
