"""Power, validation, boot device and clean steps: what goes straight to a node's conductor."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain.states import State
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

STEPS = [
    {"interface": "deploy", "step": "erase", "priority": 10, "abortable": True, "args": []},
    {"interface": "raid", "step": "half", "priority": 0.5, "abortable": False, "args": []},
    {"interface": "bios", "step": "manual", "priority": 0, "abortable": False, "args": []},
]

# -- power -----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
def test_power_is_refused_only_while_cleaning(
    state: State, api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(provision_state=state.value, maintenance=True)
    answer = api.put(f"/v1/nodes/{node['uuid']}/states/power", {"target": "power on"})
    if state in {State.CLEANING, State.CLEANWAIT}:
        assert (answer.status, recorder.calls) == (400, [])
        assert state in answer.text
        return
    assert (answer.status, answer.body) == (202, b"")
    assert answer.headers["location"].endswith(f"/v1/nodes/{node['uuid']}/states")
    asked = {"node_uuid": node["uuid"], "target": "power on", "timeout": None}
    assert recorder.calls == [("change_node_power_state", asked)]
    assert recorder.hosts == [HOST]


@pytest.mark.parametrize(
    ("version", "body", "status"),
    [
        (115, {"target": "power off"}, 202),
        (115, {"target": "rebooting", "timeout": 30}, 202),
        (115, {"target": "power on", "timeout": "30"}, 202),
        (27, {"target": "soft power off", "timeout": 1}, 202),
        (27, {"target": "soft rebooting"}, 202),
        (26, {"target": "soft power off"}, 406),
        (26, {"target": "soft rebooting"}, 406),
        (26, {"target": "power on", "timeout": 5}, 406),
        (1, {"target": "power on"}, 202),
        (115, {"target": "power on", "timeout": 0}, 400),
        (115, {"target": "power on", "timeout": -1}, 400),
        (115, {"target": "power on", "timeout": "soon"}, 400),
        (115, {"target": "power on", "timeout": 1.5}, 400),
        (115, {"target": "power on", "timeout": True}, 400),
        (115, {"target": "power on", "timeout": 2**63}, 400),
        (115, {"target": "POWER ON"}, 400),
        (115, {"target": "reboot"}, 400),
        (115, {"target": 1}, 400),
        (115, {"target": None}, 400),
        (115, {}, 400),
        (115, None, 400),
        (115, {"target": "power on", "force": True}, 400),
    ],
)
def test_power_requests_are_checked(
    api: Client, add_node: AddNode, version: int, body: Any, status: int
) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/states/power"
    assert api.at(version).put(path, body).status == status


def test_a_node_that_must_stay_on_is_not_powered_off(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    path = f"/v1/nodes/{add_node(disable_power_off=True)['uuid']}/states/power"
    for target, status in [("power off", 409), ("soft power off", 409), ("rebooting", 202)]:
        assert api.put(path, {"target": target}).status == status


def test_states_are_shown_by_version(api: Client, add_node: AddNode) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/states"
    old = {
        *("console_enabled", "last_error", "power_state", "provision_state"),
        *("provision_updated_at", "target_power_state", "target_provision_state"),
    }
    assert set(api.at(1).get(path).json) == old
    assert set(api.at(12).get(path).json) == old | {"raid_config", "target_raid_config"}
    assert api.get(path).json.keys() - api.at(74).get(path).json == {"boot_mode", "secure_boot"}


# -- validation and boot device --------------------------------------------------------------


def test_a_node_is_validated_by_path_or_query(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(name="valid")
    found = {"power": {"result": True}, "deploy": {"result": False, "reason": "no image"}}
    recorder.answers["validate_driver_interfaces"] = found
    for path in (
        "/v1/nodes/valid/validate",
        "/v1/nodes/validate?node=valid",
        f"/v1/nodes/validate?node_uuid={node['uuid']}",
    ):
        answer = api.get(path)
        assert (answer.status, answer.json) == (200, found)
    both = f"/v1/nodes/validate?node=nobody&node_uuid={node['uuid']}"
    assert api.get(both).status == 200
    assert api.get("/v1/nodes/validate").status == 400
    assert api.get("/v1/nodes/validate?node_uuid=valid").status == 400
    assert api.get("/v1/nodes/validate?node=nobody").status == 404


def test_the_boot_device_is_read_and_set(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node()
    path = f"/v1/nodes/{node['uuid']}/management/boot_device"
    recorder.answers["get_boot_device"] = {"boot_device": "pxe", "persistent": None}
    recorder.answers["get_supported_boot_devices"] = ["pxe", "disk"]
    assert api.get(path).json == {"boot_device": "pxe", "persistent": None}
    assert api.get(f"{path}/supported").json == {"supported_boot_devices": ["pxe", "disk"]}
    answer = api.put(path, {"boot_device": "disk", "persistent": "yes"})
    assert (answer.status, answer.body) == (204, b"")
    asked = {"node_uuid": node["uuid"], "device": "disk", "persistent": True}
    assert recorder.calls[-1] == ("set_boot_device", asked)
    assert api.put(f"{path}?boot_device=pxe").status == 204
    assert recorder.calls[-1][1]["persistent"] is False
    for body in ({}, {"boot_device": 5}, {"boot_device": "pxe", "persistent": "sometimes"}):
        assert api.put(path, body).status == 400


# -- clean steps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", 3),
        ("?min_priority=0", 3),
        ("?min_priority=0.5", 2),
        ("?min_priority=1", 1),
        ("?min_priority=1e1", 1),
        ("?min_priority=-5", 3),
        ("?min_priority=11", 0),
    ],
)
def test_clean_steps_are_a_bare_list(
    api: Client, recorder: Recorder, add_node: AddNode, query: str, shown: int
) -> None:
    recorder.answers["get_clean_steps"] = STEPS
    answer = api.get(f"/v1/nodes/{add_node()['uuid']}/cleaning/steps{query}")
    assert (answer.status, answer.json) == (200, STEPS[:shown])


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "high", "", "1,5"])
def test_min_priority_is_a_finite_number(api: Client, add_node: AddNode, value: str) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/cleaning/steps?min_priority={value}"
    answer = api.get(path)
    assert (answer.status, "min_priority" in answer.text) == (400, True)


@pytest.mark.parametrize("seconds", [30, -1])
def test_clean_steps_not_known_yet_are_202(
    api: Client, recorder: Recorder, add_node: AddNode, seconds: int
) -> None:
    recorder.answers["get_clean_steps"] = errors.StepsUnavailable(node="n", seconds=seconds)
    answer = api.get(f"/v1/nodes/{add_node()['uuid']}/cleaning/steps")
    assert answer.status == 202
    assert answer.headers["retry-request-after"] == str(seconds)
    assert list(answer.json) == ["message"]
    assert "not available yet" in answer.json["message"]


def test_clean_steps_begin_with_1_15_and_need_no_lock(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    recorder.answers["get_clean_steps"] = STEPS
    node = add_node(reservation="other-host")
    path = f"/v1/nodes/{node['uuid']}/cleaning/steps"
    assert api.at(14).get(path).status == 404
    assert api.at(15).get(path).status == 200
    assert api.get(f"/v1/nodes/{node['uuid']}/cleaning/clean_steps").status == 404
