"""S5, the state machine: states, verbs, waits, and what it promises."""

from __future__ import annotations

import pathlib
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.queries import nodes
from ironic_lite.domain import states, verbs
from ironic_lite.domain.states import Kind, State
from tests.support.conductor_fixture import listed, wait_for
from tests.support.operator import Json, Operator
from tests.support.recording_drivers import RecordingDrivers

# S5, the state machine: its states, its verbs, and the way of each through it.

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


# S5, the state machine: what it promises about machines at work, and what is written of it.

DOCS = pathlib.Path(__file__).parents[2] / "docs"
UUID = "7e0ad7a2-0d2c-4dd5-8de7-3d6a1a8f7b5e"
DISKS = {"logical_disks": [{"size_gb": 100, "raid_level": "1", "is_root_volume": True}]}


def test_s5_24_an_active_node_is_left_alone_but_for_its_power(serve: Serve) -> None:
    witness = RecordingDrivers()
    operator = serve(registry=witness.registry)
    node = operator.enroll("active")
    before = operator.rig.get(node)
    witness.calls.clear()
    operator.sweep()
    assert witness.titles() == ["power.get_power_state"]
    assert operator.rig.get(node) == before


def test_s5_25_deleting_undoes_what_deploying_added(serve: Serve) -> None:
    witness = RecordingDrivers()
    operator = serve(registry=witness.registry)
    node = operator.enroll("available", instance_info={"image_source": "http://images/x"})
    fresh = operator.shows(node)
    assert operator.patches(node, instance_uuid=UUID, instance_name="web").status == 200
    drive = {"meta_data": {"hostname": "web"}}
    shown = operator.provision(node, "active", configdrive=drive)
    assert shown["power_state"] == "power on"
    assert operator.rig.get(node)["instance_info"]["configdrive"] == drive
    witness.calls.clear()
    shown = operator.provision(node, "deleted")
    undone = [call.title for call in witness.calls if call.state == "deleting"]
    assert [title for title in undone if not title.startswith("power.")] == [
        *("rescue.clean_up", "deploy.tear_down", "deploy.clean_up"),
    ]
    assert (shown["instance_uuid"], shown["instance_info"]) == (None, {})
    assert shown["instance_name"] is None
    kept = ("power_state", "provision_state", "target_provision_state", "deploy_step", "properties")
    assert {key: shown[key] for key in kept} == {key: fresh[key] for key in kept}
    left = shown["driver_internal_info"].keys() - fresh["driver_internal_info"].keys()
    assert not {key for key in left if "deploy" in key or "agent" in key}


def test_s5_26_cleaning_restores_what_it_prepared(operator: Operator) -> None:
    node = operator.enroll()
    operator.rig.edit(node, target_raid_config=DISKS, power_state="power on")
    volumes = listed("raid.delete_configuration", "raid.create_configuration")
    built = operator.provision(node, "clean", clean_steps=volumes[1:])["raid_config"]
    again = [volumes[0], *listed("deploy.erase_devices"), volumes[1]]
    shown = operator.provision(node, "clean", clean_steps=again)
    assert shown["raid_config"]["logical_disks"] == built["logical_disks"]
    before = shown
    shown = operator.provision(node, "provide")
    assert operator.rig.started(node)[-1] == "deploy.erase_devices"
    for key in ("properties", "raid_config", "target_raid_config", "boot_mode", "driver_info"):
        assert shown[key] == before[key]


def test_s5_27_the_documentation_has_the_picture_the_states_and_the_verbs() -> None:
    page = (DOCS / "states.rst").read_text()
    picture = page.partition(".. generated: journeys")[2].partition(".. end of generated part")[0]
    for wanted in (
        *("enroll --manage--> verifying", "manageable --clean--> cleaning"),
        *("manageable --inspect--> inspecting", "manageable --provide--> cleaning"),
        *("available --manage--> ==> manageable", "available --active--> deploying"),
        *("active --rebuild--> deploying", "active --rescue--> rescuing"),
        *("rescue --unrescue--> unrescuing", "active --deleted--> deleting"),
    ):
        assert wanted in re.sub(" +", " ", picture)
    cells = set(re.findall(r"^   \* - ``([^`]+)``$", page, re.MULTILINE))
    assert set(map(str, State)) <= cells
    assert {verb.target for verb in verbs.TABLE} <= cells
    assert "states.rst" in (DOCS / "index.rst").read_text()


def test_s5_28_deploying_is_made_of_steps_as_cleaning_is(operator: Operator) -> None:
    node = operator.enroll("active")
    runs = {run["verb"]: run for run in operator.rig.runs(node)}
    for verb, kind in (("provide", "clean"), ("active", "deploy")):
        steps = runs[verb]["steps"]
        assert [step["kind"] for step in steps] == [kind] * len(steps)
        assert len(steps) > 1
        assert [step["priority"] for step in steps] == sorted(
            (step["priority"] for step in steps), reverse=True
        )


def test_s5_29_every_transition_is_told_once_in_its_order(operator: Operator) -> None:
    node = operator.enroll("active")
    operator.provision(node, "rescue", rescue_password="sesame")
    operator.provision(node, "deleted")
    told = operator.rig.events(node, "provision")
    states_met = ["enroll", *(event["after"] for event in told)]
    assert [event["before"] for event in told] == states_met[:-1]
    assert states_met[-1] == operator.shows(node)["provision_state"]
    for event in told:
        assert event["after"] == states.follow(State(event["before"]), event["event"])
        assert event["at"] is not None and event["request_id"]
    page = (DOCS / "states.rst").read_text()
    assert "Every transition of every node goes through one function" in page


def test_s5_30_the_documentation_warns_of_new_states_and_says_what_new_nodes_need() -> None:
    page = " ".join((DOCS / "upgrading.rst").read_text().split())
    assert "A client may receive an unknown provision state" in page
    assert "an operator gives it a driver and credentials and requests ``manage``" in page
    assert "and ``provide``" in page
    assert "upgrading.rst" in (DOCS / "index.rst").read_text()


# -- beyond the five specifications' own words: what clients of Ironic rely on ---------------


def test_adoption_takes_in_a_running_machine_without_touching_it(serve: Serve) -> None:
    witness = RecordingDrivers()
    operator = serve(registry=witness.registry)
    node = operator.enroll()
    witness.calls.clear()
    shown = operator.provision(node, "adopt")
    assert (shown["provision_state"], shown["target_provision_state"]) == ("active", None)
    assert operator.rig.path(node)[-2:] == ["adopting", "active"]
    assert not {"power.set_power_state", "power.reboot"} & set(witness.titles())


def test_service_steps_run_on_an_active_node_whose_instance_stays(operator: Operator) -> None:
    node = operator.enroll("active", instance_info={"image_source": "x"})
    steps: list[Json] = [
        {"interface": "raid", "step": "apply_configuration", "args": {"raid_config": DISKS}},
        *listed("vendor.log_passthrough"),
    ]
    shown = operator.provision(node, "service", service_steps=steps)
    assert (shown["provision_state"], shown["service_step"]) == ("active", {})
    assert shown["raid_config"]["logical_disks"] == DISKS["logical_disks"]
    assert shown["instance_info"] == {"image_source": "x"}
    assert operator.rig.path(node)[-2:] == ["servicing", "active"]


HOLD = {"interface": "power", "step": "hold"}
HELD: dict[str, tuple[str, str, str, Json]] = {
    "clean": ("manageable", "clean hold", "manageable", {"clean_steps": [HOLD]}),
    "service": ("active", "service hold", "active", {"service_steps": [HOLD]}),
    "active": (
        *("available", "deploy hold", "active"),
        {"deploy_steps": [{**HOLD, "args": {}, "priority": 90}]},
    ),
}


@pytest.mark.parametrize("verb", HELD)
def test_a_held_node_stays_so_until_somebody_says_unhold(operator: Operator, verb: str) -> None:
    start, held, end, body = HELD[verb]
    node = operator.enroll(start)
    shown = operator.provision(node, verb, **body)
    assert (shown["provision_state"], shown["reservation"]) == (held, None)
    operator.rig.edit(node, provision_updated_at=clock.after(-100_000), power_state=None)
    operator.sweep()
    assert operator.shows(node)["provision_state"] == held
    path = f"/v1/nodes/{node}/states/provision"
    assert operator.api.at(84).put(path, {"target": "unhold"}).status == 406
    assert operator.asks(node, "unhold").status == 202
    operator.rig.reaches(node, end)


LIMITS: dict[str, tuple[str, str, Json]] = {
    "clean": ("max_concurrent_clean", "manageable", {"clean_steps": listed("power.cycle")}),
    "provide": ("max_concurrent_clean", "manageable", {}),
    "deleted": ("max_concurrent_clean", "active", {}),
    "active": ("max_concurrent_deploy", "available", {}),
    "rebuild": ("max_concurrent_deploy", "active", {}),
}


@pytest.mark.parametrize("verb", LIMITS)
def test_run_beyond_the_limit_is_refused_with_503(serve: Serve, verb: str) -> None:
    option, start, body = LIMITS[verb]
    operator = serve(**{f"conductor__{option}": 1})
    node = operator.enroll(start)
    wait = "clean wait" if option.endswith("clean") else "wait call-back"
    other = operator.rig.node(wait)
    said = operator.refused(node, verb, 503, **body)
    assert "1" in said
    operator.rig.edit(other, provision_state="manageable")
    assert operator.asks(node, verb, **body).status == 202


# S5, the state machine: nodes that wait, and how that ends: by abort, time-out, or well.

ONE_HOUR: Json = {
    "fake_step_seconds": 3600,
    "fake_async_steps": ["*"],
    "fake_async_verbs": ["inspect", "rescue"],
}
RAID = {
    "interface": "raid",
    "step": "apply_configuration",
    "args": {"raid_config": {"logical_disks": [{"size_gb": 1, "raid_level": "0"}]}},
}
RESCUE_PASSWORD = {"rescue_password": "open sesame"}


def begun(operator: Operator, start: str, verb: str, **body: Any) -> tuple[str, Json]:
    """Return a node, and what it shows, on which a verb has begun that takes an hour."""
    node = operator.enroll(start)
    assert operator.patches(node, driver_info=ONE_HOUR).status == 200
    return node, operator.provision(node, verb, **body)


# -- abort -----------------------------------------------------------------------------------

# What an abort can cut off at once: from where, the verb and its body, where it waits, its end.
AT_ONCE: dict[str, tuple[str, str, Json, str, str]] = {
    "clean": (
        *("manageable", "clean", {"clean_steps": listed("deploy.erase_devices")}),
        *("clean wait", "clean failed"),
    ),
    "automated clean": ("manageable", "provide", {}, "clean wait", "clean failed"),
    "held clean": (
        *("manageable", "clean", {"clean_steps": [HOLD]}),
        *("clean hold", "clean failed"),
    ),
    "deployment": ("available", "active", {}, "wait call-back", "deploy failed"),
    "held deployment": (
        *("available", "active", {"deploy_steps": [{**HOLD, "args": {}, "priority": 999}]}),
        *("deploy hold", "deploy failed"),
    ),
    "inspection": ("manageable", "inspect", {}, "inspect wait", "inspect failed"),
    "rescue": ("active", "rescue", RESCUE_PASSWORD, "rescue wait", "rescue failed"),
    "held service": ("active", "service", {"service_steps": [HOLD]}, "service hold", "active"),
}


@pytest.mark.parametrize("what", AT_ONCE)
def test_s5_16_abortable_step_ends_at_once_without_a_fault(operator: Operator, what: str) -> None:
    start, verb, body, waits, end = AT_ONCE[what]
    node, shown = begun(operator, start, verb, **body)
    assert shown["provision_state"] == waits
    shown = operator.provision(node, "abort")
    assert (shown["provision_state"], shown["reservation"]) == (end, None)
    assert shown["last_error"].startswith("By request, ")
    assert (shown["maintenance"], shown["fault"]) == (False, None)
    run = operator.rig.run(node)
    assert (run["state"], run["error"]["code"]) == ("aborted", "Aborted")
    assert operator.rig.get(node)["wake_at"] is None


LATER: dict[str, tuple[str, str, Json, str, str]] = {
    "clean": (
        *("manageable", "clean", {"clean_steps": listed("bios.factory_reset", "power.cycle")}),
        *("clean_step", "clean failed"),
    ),
    "deploy": (
        *("available", "active", {"deploy_steps": [{**RAID, "priority": 500}]}),
        *("deploy_step", "deploy failed"),
    ),
    "service": (
        *("active", "service", {"service_steps": [RAID, *listed("vendor.log_passthrough")]}),
        *("service_step", "active"),
    ),
}


@pytest.mark.parametrize("kind", LATER)
def test_s5_16_a_step_that_must_not_be_cut_off_ends_first(operator: Operator, kind: str) -> None:
    start, verb, body, column, end = LATER[kind]
    node, before = begun(operator, start, verb, **body)
    shown = operator.provision(node, "abort")
    assert shown["provision_state"] == before["provision_state"]
    assert shown[column] == {**before[column], "abort_after": True}
    assert shown["last_error"] is None
    operator.rig.ring(node)
    operator.rig.reaches(node, end)
    assert "By request" in operator.shows(node)["last_error"]
    states = operator.rig.step_states(node)
    assert states[0] == "done"
    assert not {"running", "waiting", "done"} & set(states[1:])


# -- time-outs -------------------------------------------------------------------------------

# The verb that waits: from where, its body, where it waits and ends, its option, the fault.
LATE: dict[str, tuple[str, Json, str, str, str, str | None]] = {
    "clean": (
        *("manageable", {"clean_steps": listed("deploy.erase_devices")}),
        *("clean wait", "clean failed", "clean_callback_timeout", "clean failure"),
    ),
    "provide": (
        *("manageable", {}),
        *("clean wait", "clean failed", "clean_callback_timeout", "clean failure"),
    ),
    "active": (
        *("available", {}, "wait call-back", "deploy failed", "deploy_callback_timeout", None),
    ),
    "inspect": (
        *("manageable", {}, "inspect wait", "inspect failed", "inspect_wait_timeout", None),
    ),
    "rescue": (
        *(
            "active",
            RESCUE_PASSWORD,
            "rescue wait",
            "rescue failed",
            "rescue_callback_timeout",
            None,
        ),
    ),
    "service": (
        *("active", {"service_steps": listed("vendor.log_passthrough")}),
        *("service wait", "service failed", "service_callback_timeout", "service failure"),
    ),
}


def wait_on(operator: Operator, node: str, seconds: int) -> None:
    """Let a wait have lasted so long, and the conductor look."""
    past = clock.after(-seconds)
    operator.rig.edit(node, provision_updated_at=past, wake_at=past)
    operator.sweep()


@pytest.mark.parametrize("verb", LATE)
def test_s5_18_a_wait_that_lasts_too_long_fails(serve: Any, verb: str) -> None:
    start, body, waits, end, option, fault = LATE[verb]
    operator = serve(**{f"conductor__{option}": 900})
    node, shown = begun(operator, start, verb, **body)
    assert shown["provision_state"] == waits
    operator.rig.edit(node, provision_updated_at=clock.after(-800))
    operator.sweep()
    assert operator.shows(node)["provision_state"] == waits
    target = shown["target_provision_state"]
    wait_on(operator, node, 1000)
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["target_provision_state"]) == (end, target)
    assert "Timeout reached while" in shown["last_error"]
    assert (shown["maintenance"], shown["fault"]) == (fault is not None, fault)
    assert operator.rig.run(node)["error"]["code"] == "TimedOut"


def test_s5_18_a_clean_tried_again_may_not_wait_for_ever_either(operator: Operator) -> None:
    """The first failure has set maintenance, which only stops the clock if a person did it."""
    node, _ = begun(operator, "manageable", "provide")
    wait_on(operator, node, 100_000)
    shown = operator.provision(node, "provide")
    assert (shown["provision_state"], shown["fault"]) == ("clean wait", "clean failure")
    wait_on(operator, node, 100_000)
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["maintenance"]) == ("clean failed", True)
    assert [run["state"] for run in operator.rig.runs(node)[-2:]] == ["failed", "failed"]


# -- the password of a rescue ----------------------------------------------------------------


def hidden(operator: Operator, node: str) -> None:
    """Show that nobody can read the password that was given for a rescue."""
    for path in (f"/v1/nodes/{node}", "/v1/nodes/detail", f"/v1/nodes/{node}?fields=instance_info"):
        assert b"sesame" not in operator.api.get(path).body
    shown = operator.shows(node)["instance_info"]
    assert "hashed_rescue_password" in shown
    assert set(shown.values()) == {"******"}
    told = [operator.rig.events(node), operator.rig.runs(node)]
    assert "sesame" not in str(told)


def forgotten(operator: Operator, node: str) -> None:
    """Show that it is not kept any more."""
    assert operator.rig.get(node)["instance_info"] == {}
    assert "sesame" not in str(operator.rig.get(node))


def test_s5_13_the_password_of_a_rescue_is_shown_to_nobody(operator: Operator) -> None:
    node = operator.enroll("active")
    operator.provision(node, "rescue", **RESCUE_PASSWORD)
    hidden(operator, node)


def test_s5_13_a_rescue_needs_a_password_and_another_verb_takes_none(operator: Operator) -> None:
    node = operator.enroll("active")
    for body in ({}, {"rescue_password": ""}, {"rescue_password": " "}, {"rescue_password": 7}):
        said = operator.refused(node, "rescue", 400, **body)
        assert "rescue_password" in said
    operator.refused(node, "rebuild", 400, **RESCUE_PASSWORD)


@pytest.mark.parametrize("end", ["unrescue", "deleted", "abort", "late", "rescue again"])
def test_s5_14_rescue_password_is_removed_when_the_rescue_ends(
    operator: Operator, end: str
) -> None:
    waits = end in ("abort", "late")
    node = operator.enroll("active")
    if waits:
        assert operator.patches(node, driver_info=ONE_HOUR).status == 200
    operator.provision(node, "rescue", **RESCUE_PASSWORD)
    hidden(operator, node)
    if end == "late":
        wait_on(operator, node, 100_000)
    elif end == "rescue again":
        operator.provision(node, "rescue", rescue_password="another")
        assert "sesame" not in str(operator.rig.get(node))
        return
    else:
        operator.provision(node, end)
    forgotten(operator, node)


def test_s5_14_rescue_password_is_removed_when_the_rescue_fails(operator: Operator) -> None:
    node = operator.enroll("active")
    operator.patches(node, driver_info={"fake_fail_verbs": {"rescue": "no boot"}})
    shown = operator.provision(node, "rescue", **RESCUE_PASSWORD)
    assert shown["provision_state"] == "rescue failed"
    assert "no boot" in shown["last_error"]
    forgotten(operator, node)
