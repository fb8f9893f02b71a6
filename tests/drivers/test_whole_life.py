"""The whole life of a node on each hardware type, over HTTP, on machines nobody has doctored."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.conductor.engine.task import Task
from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.redfish.bmc import connection
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import conductor_fixture, hardware_types
from tests.support.operator import Operator

TYPES = ["fake-hardware", "idrac", "ipmi", "manual-management", "redfish"]
CORE = ("boot", "deploy", "inspect", "management", "network", "power", "storage")
OPTIONS: dict[str, Any] = {
    "DEFAULT__enabled_hardware_types": TYPES,
    **{
        f"DEFAULT__enabled_{kind}_interfaces": ["idrac-redfish", *others]
        for kind, others in {
            "bios": ["redfish", "no-bios", "fake"],
            "inspect": ["redfish", "agent", "no-inspect", "fake"],
            "management": ["redfish", "ipmitool", "noop", "fake"],
            "power": ["redfish", "ipmitool", "fake"],
            "raid": ["redfish", "no-raid", "agent", "fake"],
            "vendor": ["redfish", "ipmitool", "no-vendor", "fake"],
        }.items()
    },
    "DEFAULT__enabled_boot_interfaces": [
        "ipxe",
        "redfish-virtual-media",
        "idrac-redfish-virtual-media",
        "fake",
    ],
}


@functools.cache
def drivers() -> Registry:
    """Return the drivers of all hardware types."""
    found = Registry.load(Settings.read(conductor_fixture.configure(**OPTIONS)))
    assert found.failures == {}
    return found


@pytest.fixture
def operator(sqlite_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    """Somebody who has all hardware types; what waits is soon looked at again."""
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())
    wake_after = Task.wake_after
    monkeypatch.setattr(
        Task, "wake_after", lambda task, seconds: wake_after(task, min(seconds, 0.1))
    )
    config.CONF.set_override("connection_retry_interval", 0, group="redfish")
    found = Operator(sqlite_database, registry=drivers(), **OPTIONS)
    yield found
    found.close()
    config.CONF.clear_override("connection_retry_interval", group="redfish")


def goes(operator: Operator, node: str, verb: str, state: str, **body: Any) -> dict[str, Any]:
    """Send a verb and wait for where it leads; nothing is left wrong or held there."""
    answer = operator.asks(node, verb, **body)
    assert answer.status == 202, answer.text
    conductor_fixture.wait_for(lambda: rests(operator, node), lambda: operator.shows(node))
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["last_error"]) == (state, None)
    assert (shown["maintenance"], shown["fault"]) == (False, None)
    assert (shown["target_provision_state"], shown["target_power_state"]) == (None, None)
    return shown


def rests(operator: Operator, node: str) -> bool:
    """Tell whether nobody works on a node and no timer will wake it."""
    row = operator.rig.get(node)
    return row["reservation"] is None and row["wake_at"] is None


@pytest.mark.parametrize("which", hardware_types.MACHINES)
def test_a_node_lives_on_each_hardware_type(
    operator: Operator, tmp_path: pathlib.Path, which: str
) -> None:
    with hardware_types.MACHINES[which](tmp_path / "machine") as machine:
        live(operator, machine)


def live(operator: Operator, machine: hardware_types.Machine) -> None:
    """Lead a node from its enrolment to its end."""
    rehearsed = {"boot_interface": "fake", "deploy_interface": "fake"}  # no ramdisk is booted here
    fields = {**rehearsed, **machine.fields}
    node = operator.enroll("enroll", driver=machine.driver, name="metal-7", **fields)
    assert operator.shows(node)["power_state"] is None
    assert goes(operator, node, "manage", "manageable")["power_state"] == "power off"
    valid = operator.api.get(f"/v1/nodes/{node}/validate").json
    assert {kind: valid[kind]["result"] for kind in CORE} == dict.fromkeys(CORE, True), valid
    supported = operator.api.get(f"/v1/nodes/{node}/management/boot_device/supported")
    offered = supported.json["supported_boot_devices"] if machine.boots else []
    assert machine.boots <= set(offered)

    shown = goes(operator, node, "inspect", "manageable")
    assert shown["inspection_finished_at"]
    assert machine.properties.items() <= shown["properties"].items()
    found = operator.api.get(f"/v1/nodes/{node}/inventory").json["inventory"]
    ports = operator.api.get(f"/v1/nodes/{node}/ports").json["ports"]
    assert {one["mac_address"] for one in found["interfaces"]} == {one["address"] for one in ports}

    if machine.raid:
        assert operator.api.put(f"/v1/nodes/{node}/states/raid", machine.raid).status == 204
    shown = goes(operator, node, "clean", "manageable", clean_steps=machine.steps)
    run = operator.rig.run(node)
    assert [(step["step"], step["state"]) for step in run["steps"]] == [
        (step["step"], "done") for step in machine.steps
    ]
    is_on(machine, shown, False)
    goes(operator, node, "provide", "available")

    is_on(machine, goes(operator, node, "active", "active"), True)
    assert machine.started is None or machine.started()
    if machine.boots:
        body = {"boot_device": "pxe", "persistent": False}
        path = f"/v1/nodes/{node}/management/boot_device"
        assert operator.api.put(path, body).status == 204
        assert operator.api.get(path).json["boot_device"] == "pxe"

    is_on(machine, goes(operator, node, "deleted", "available"), False)
    assert {run["state"] for run in operator.rig.runs(node)} == {"done"}
    goes(operator, node, "manage", "manageable")
    assert operator.api.delete(f"/v1/nodes/{node}").status == 204


def is_on(machine: hardware_types.Machine, shown: dict[str, Any], wanted: bool) -> None:
    """Check that the node and its machine say the same of its power."""
    assert shown["power_state"] == ("power on" if wanted else "power off")
    assert machine.is_on is None or machine.is_on() is wanted


# -- what Metal3 registers for machines of Dell ---------------------------------------------------

_ALIKE = ("bios", "management", "power", "raid", "vendor")
METAL3 = {
    "idrac-redfish": "ipxe",
    "idrac-virtualmedia": "idrac-redfish-virtual-media",
}


@pytest.mark.parametrize("scheme", METAL3)
def test_a_dell_machine_of_metal3_keeps_its_interfaces(operator: Operator, scheme: str) -> None:
    named = {
        **{f"{kind}_interface": "idrac-redfish" for kind in _ALIKE},
        "boot_interface": METAL3[scheme],
        "firmware_interface": "redfish",
        "inspect_interface": "agent",
        "deploy_interface": "direct",
        "network_interface": "noop",
    }
    info = {
        "redfish_address": "https://192.0.2.7",
        "redfish_system_id": "/redfish/v1/Systems/System.Embedded.1",
        "redfish_username": "root",
        "redfish_password": "calvin",
        "redfish_verify_ca": False,
    }
    body = {
        **{"driver": "idrac", "name": f"metal3~{scheme}", "driver_info": info, **named},
        "properties": {"cpu_arch": "x86_64", "capabilities": "boot_mode:uefi,secure_boot:true"},
    }
    for version in ("1.89", "1.110"):
        headers = {"X-OpenStack-Ironic-API-Version": version}
        answer = operator.api.request("POST", "/v1/nodes", body, headers=headers)
        assert answer.status == 201, answer.text
        assert {key: answer.json[key] for key in named} == named
        assert operator.api.delete(f"/v1/nodes/{answer.json['uuid']}").status == 204
