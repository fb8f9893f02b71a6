"""What operators see of an inspection by Redfish: its end, its faults, and the client's file."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.conductor.engine.task import Task
from ironic_lite.core import config
from tests.emulators import bmc
from tests.support import real_socket
from tests.support.conductor_fixture import wait_for
from tests.support.redfish_faults import USERS, falls_silent, nothing_held, repair, says
from tests.support.redfish_service import RedfishOperator

A, B = "12:44:6a:3b:04:01", "12:44:6a:3b:04:02"
KEPT = ("properties", "extra", "driver_info", "inspection_finished_at")


def ports(operator: RedfishOperator, node: str) -> list[str]:
    return [one["address"] for one in operator.api.get(f"/v1/nodes/{node}/ports").json["ports"]]


def inventory(operator: RedfishOperator, node: str) -> dict[str, Any] | None:
    answer = operator.api.get(f"/v1/nodes/{node}/inventory")
    assert answer.status in {200, 404}
    return answer.json if answer.status == 200 else None


def test_an_inspection_is_shown_as_a_whole(operator: RedfishOperator, machine: bmc.Machine) -> None:
    node = operator.at(machine)
    assert operator.shows(node)["inspect_interface"] == "redfish"
    assert inventory(operator, node) is None
    shown = operator.provision(node, "inspect")
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    assert shown["properties"] == {
        "memory_mb": 98304,
        "local_gb": 1116,
        "cpu_arch": "x86_64",
        "cpus": 32,
        "vendor": "Contoso",
        "capabilities": "boot_mode:uefi",
    }
    assert ports(operator, node) == [A, B]
    found = inventory(operator, node)
    assert found is not None
    assert [one["mac_address"] for one in found["inventory"]["interfaces"]] == [A, B]
    assert (machine.changes(), USERS["root"] in json.dumps(found)) == ([], False)


def test_a_second_one_finds_the_same_and_what_is_new(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = operator.at(machine)
    operator.provision(node, "inspect")
    before = (operator.shows(node)["properties"], ports(operator, node), inventory(operator, node))
    operator.provision(node, "inspect")
    after = (operator.shows(node)["properties"], ports(operator, node), inventory(operator, node))
    assert after == before
    machine["EthernetInterfaces/NIC1-2"]["MACAddress"] = "12:44:6a:3b:04:09"
    machine[machine.system]["MemorySummary"]["TotalSystemMemoryGiB"] = 192
    shown = operator.provision(node, "inspect")
    assert shown["properties"]["memory_mb"] == 2 * 98304
    # A port is never taken away: somebody may need it.
    assert ports(operator, node) == [A, B, "12:44:6a:3b:04:09"]


@pytest.fixture(params=["disabled", "active"])
def add_ports(request: pytest.FixtureRequest) -> Iterator[str]:
    config.CONF.set_override("add_ports", request.param, group="inspector")
    yield str(request.param)
    config.CONF.clear_override("add_ports", group="inspector")


def test_ports_are_added_as_was_configured(
    operator: RedfishOperator, machine: bmc.Machine, add_ports: str
) -> None:
    node = operator.at(machine)
    shown = operator.provision(node, "inspect")
    assert ports(operator, node) == []
    if add_ports == "active":
        assert shown["provision_state"] == "inspect failed"
        assert says(shown, r"NIC1-1, NIC1-2 matches \[inspector\]add_ports.* active")
    else:
        assert shown["provision_state"] == "manageable"


def test_a_machine_that_is_enrolled_twice_is_told_of(
    operator: RedfishOperator, machine: bmc.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    node, other = operator.at(machine), operator.at(machine)
    operator.provision(node, "inspect")
    with caplog.at_level(logging.WARNING):
        shown = operator.provision(other, "inspect")
    assert (shown["provision_state"], ports(operator, other)) == ("manageable", [])
    assert f"no port is added for network card {A}: it is a port of node {node}" in caplog.text


# -- trouble ---------------------------------------------------------------------------------


def _forbids(machine: bmc.Machine) -> None:
    machine.users["root"] = "another"
    machine.forget_sessions()


def _forbids_in_the_middle(machine: bmc.Machine) -> None:
    def play(handler: bmc.Handler) -> None:
        _forbids(machine)
        handler.truth()

    # Of no importance in itself.
    machine.tricks[f"GET {machine.places.chassis}/PCIeDevices/NIC1"] = play


def _loses_memory(machine: bmc.Machine) -> None:
    machine[machine.system]["MemorySummary"] = None
    machine.tricks[f"GET {machine.system}/Memory"] = bmc.says(500)


TROUBLES: dict[str, tuple[Callable[[bmc.Machine], Any], tuple[str, ...]]] = {
    "breaks": (lambda m: m.tricks.update({"*": bmc.says(500)}), ("HTTP 500",)),
    "falls silent": (falls_silent, ("no complete answer within",)),
    "falls silent in the middle": (
        lambda m: falls_silent(m, f"GET {m.system}/Processors/*"),
        ("no complete answer within",),
    ),
    "hangs up": (lambda m: m.tricks.update({"GET *": bmc.hangs_up}), ("hung up without",)),
    "talks nonsense": (
        lambda m: m.tricks.update({f"GET {m.system}": bmc.speaks_html}),
        ("cannot be used",),
    ),
    "forbids it": (_forbids, ("refused the credentials of user root",)),
    "forbids it in the middle": (_forbids_in_the_middle, ("refused the credentials of user root",)),
    "does not say its memory": (
        _loses_memory,
        ("does not report memory_mb", "Memory: .*HTTP 500", "node's properties"),
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_fails_the_inspection_and_changes_nothing(
    operator: RedfishOperator, machine: bmc.Machine, trouble: str
) -> None:
    spoil, words = TROUBLES[trouble]
    summary = dict(machine[machine.system]["MemorySummary"])
    node = operator.at(machine)
    before = operator.shows(node)
    spoil(machine)
    shown = operator.provision(node, "inspect")
    assert shown["provision_state"] == "inspect failed"
    assert says(shown, "Failed to inspect node", *words)
    assert nothing_held(shown)
    assert {key: shown[key] for key in KEPT} == {key: before[key] for key in KEPT}
    assert (ports(operator, node), inventory(operator, node)) == ([], None)
    repair(machine)
    machine[machine.system]["MemorySummary"] = summary
    assert operator.patches(node, driver_info__redfish_password=USERS["root"]).status == 200
    shown = operator.provision(node, "inspect")
    assert (shown["provision_state"], ports(operator, node)) == ("manageable", [A, B])


def _restarts_silently(machine: bmc.Machine) -> None:
    machine.habits.restart_status = 0
    machine.restart()


PASSING: dict[str, Callable[[bmc.Machine], Any]] = {
    "sessions run out": lambda machine: machine.forget_sessions(),
    "the BMC restarts": lambda machine: machine.restart(),
    "the BMC restarts and breaks connections": _restarts_silently,
}


@pytest.mark.parametrize("what", PASSING)
@pytest.mark.parametrize("where", ["Processors", "Processors/CPU2", "EthernetInterfaces"])
def test_passing_bmc_fault_does_not_fail_an_inspection(
    operator: RedfishOperator, machine: bmc.Machine, what: str, where: str
) -> None:
    node = operator.at(machine)
    title = f"GET {machine.system}/{where}"

    def play(handler: bmc.Handler) -> None:
        del machine.tricks[title]
        PASSING[what](machine)
        handler.truth()

    machine.tricks[title] = play
    shown = operator.provision(node, "inspect")
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    assert title not in machine.tricks
    found = inventory(operator, node)
    assert found is not None
    assert (found["inventory"]["cpu"]["count"], "faults" in found["plugin_data"]) == (32, False)
    assert ports(operator, node) == [A, B]


# -- the client ------------------------------------------------------------------------------


def test_the_command_line_client_saves_the_inventory(
    operator: RedfishOperator, machine: bmc.Machine, tmp_path: pathlib.Path
) -> None:
    node = operator.at(machine)
    with real_socket.listening(operator) as url:
        file = tmp_path / "inventory.json"
        done = real_socket.baremetal(url, "node", "inventory", "save", node, "--file", str(file))
        assert done.returncode != 0
        assert "inventory record for node" in done.stderr
        done = real_socket.baremetal(url, "node", "inspect", node, "--wait", "60")
        assert done.returncode == 0, done.stderr
        done = real_socket.baremetal(url, "node", "inventory", "save", node, "--file", str(file))
        assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text()) == inventory(operator, node)


# What operators see of a machine's firmware: after manage, after steps, and when a step fails.

INTERFACES = {"bios_interface": "redfish", "firmware_interface": "redfish"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers that ring after fractions of a second."""
    wake_after = Task.wake_after

    def wake_soon(task: Task, seconds: float) -> None:
        wake_after(task, min(seconds, 0.02))

    monkeypatch.setattr(Task, "wake_after", wake_soon)


def enroll(operator: RedfishOperator, machine: bmc.Machine) -> str:
    node = operator.enroll(
        "enroll", driver="redfish", driver_info=machine.driver_info, **INTERFACES
    )
    operator.asks(node, "manage")
    operator.rig.reaches(node, "manageable")
    return node


def clean(operator: RedfishOperator, node: str, title: str, *settings: Any) -> None:
    interface, _, step = title.partition(".")
    wanted = {"interface": interface, "step": step, "args": {"settings": list(settings)}}
    answer = operator.asks(node, "clean", clean_steps=[wanted])
    assert answer.status == 202, answer.text


def bios(operator: RedfishOperator, node: str) -> dict[str, Any]:
    shown = operator.api.get(f"/v1/nodes/{node}/bios?detail=true").json["bios"]
    return {one["name"]: one for one in shown}


def versions(operator: RedfishOperator, node: str) -> dict[str, Any]:
    shown = operator.api.get(f"/v1/nodes/{node}/firmware").json["firmware"]
    return {one["component"]: one for one in shown}


def test_all_is_shown_once_the_node_is_manageable(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = enroll(operator, machine)
    found = bios(operator, node)
    assert set(found) == set(machine[machine.places.bios]["Attributes"])
    mode = found["BootMode"]
    assert (mode["value"], mode["attribute_type"]) == ("Uefi", "Enumeration")
    assert mode["allowable_values"] == ["Bios", "Uefi"]
    assert (found["NumberOfCores"]["value"], found["NumberOfCores"]["upper_bound"]) == ("0", 24)
    told = versions(operator, node)["bmc"]
    assert (told["initial_version"], told["last_version_flashed"]) == ("1.45.455b66-rev4", None)


def test_changes_by_steps_are_shown(operator: RedfishOperator, machine: bmc.Machine) -> None:
    node = enroll(operator, machine)
    clean(operator, node, "bios.apply_configuration", {"name": "BootMode", "value": "Bios"})
    operator.rig.reaches(node, "manageable")
    assert bios(operator, node)["BootMode"]["value"] == "Bios"
    assert bios(operator, node)["BootMode"]["updated_at"] is not None
    assert bios(operator, node)["NumberOfCores"]["updated_at"] is None
    url = "http://192.0.2.1/BMC-9.9.bin"
    clean(operator, node, "firmware.update", {"component": "bmc", "url": url})
    operator.rig.reaches(node, "manageable")
    told = versions(operator, node)["bmc"]
    assert (told["current_version"], told["last_version_flashed"]) == ("9.9", "9.9")
    assert told["initial_version"] == "1.45.455b66-rev4"


def test_boot_mode_and_secure_boot_are_read_again_after_a_step_that_changes_them(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    """The firmware shows its own settings in documents of the system, too."""

    def merge() -> None:
        machine[machine.system]["Boot"]["BootSourceOverrideMode"] = "Legacy"
        machine["SecureBoot"]["SecureBootEnable"] = True

    node = enroll(operator, machine)
    shown = operator.shows(node)
    assert (shown["boot_mode"], shown["secure_boot"]) == ("uefi", False)
    machine.at_boot(merge)
    clean(operator, node, "bios.apply_configuration", {"name": "BootMode", "value": "Bios"})
    operator.rig.reaches(node, "manageable")
    shown = operator.shows(node)
    assert (shown["boot_mode"], shown["secure_boot"]) == ("bios", True)


def test_a_setting_that_cannot_be_fails_the_clean_by_name(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = enroll(operator, machine)
    before = machine.changes()
    clean(operator, node, "bios.apply_configuration", {"name": "Colour", "value": "red"})
    operator.rig.reaches(node, "clean failed")
    assert "Colour is no setting of this machine" in operator.shows(node)["last_error"]
    assert machine.changes() == before


def test_a_setting_that_the_machine_ignores_fails_the_clean_by_name(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    machine.habits.ignored_settings = frozenset({"BootMode"})
    node = enroll(operator, machine)
    clean(operator, node, "bios.apply_configuration", {"name": "BootMode", "value": "Bios"})
    operator.rig.reaches(node, "clean failed")
    assert "these settings differ from the request: BootMode" in operator.shows(node)["last_error"]


READ = ("", "/states", "/runs", "/runs/current", "/history")


def test_the_login_of_an_image_reaches_the_bmc_and_no_reader(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    machine.habits.task_polls = 10**9
    node = enroll(operator, machine)
    image = {"component": "bmc", "url": "https://me:geheim@192.0.2.1/BMC-9.9.bin"}
    clean(operator, node, "firmware.update", image)
    wait_for(lambda: machine.tasks or None)
    operator.rig.settled(node)
    texts = [str(operator.api.get(f"/v1/nodes/{node}{path}").json) for path in READ]
    assert "me:******@192.0.2.1" in texts[0]
    assert not [path for path, text in zip(READ, texts, strict=True) if "geheim" in text]
    [body] = [one.body for one in machine.requests if one.path.endswith(".SimpleUpdate")]
    assert (body["Username"], body["Password"]) == ("me", "geheim")
    machine.finish_tasks()
    operator.rig.reaches(node, "manageable")
    assert "geheim" not in str(operator.api.get(f"/v1/nodes/{node}/runs").json)
