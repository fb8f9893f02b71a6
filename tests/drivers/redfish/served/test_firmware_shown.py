"""What operators see of a machine's firmware: after manage, after steps, and when a step fails."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.conductor.work.task import Task
from tests.emulators import bmc
from tests.support.conductor_fixture import wait_for
from tests.support.redfish_service import RedfishOperator

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
