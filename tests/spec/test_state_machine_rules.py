"""S5, the state machine: what it promises about machines at work, and what is written of it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import pytest

from ironic_lite.core import clock
from ironic_lite.domain import states, verbs
from ironic_lite.domain.states import State
from tests.support.conductor_fixture import listed
from tests.support.operator import Json, Operator
from tests.support.recording_drivers import RecordingDrivers

DOCS = pathlib.Path(__file__).parents[2] / "docs"
Serve = Callable[..., Operator]
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
