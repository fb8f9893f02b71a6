"""Begin, poll and finish a step that updates firmware."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import firmware
from tests.emulators import bmc
from tests.support import bmc_tasks, fake_task

FIRMWARE = firmware.RedfishFirmware()
CLEAN = base.StepKind.CLEAN
URL = "http://images.example.org/{}.bin"
UPDATE = "POST /redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"
SECRET = "geheim"


def image(component: str, name: str, **more: Any) -> dict[str, Any]:
    return {"component": component, "url": URL.format(name), **more}


CARD = "nic:003BFLRT00023234"
BIOS, BMC, NIC = image("bios", "BIOS-2.0"), image("bmc", "BMC-2.0"), image(CARD, "NIC1-8")


def step(*images: dict[str, Any]) -> Any:
    return fake_task.step("firmware.update", settings=list(images))


def begin(task: fake_task.FakeTask, *images: dict[str, Any]) -> None:
    assert FIRMWARE.execute_clean_step(task, step(*images)) is base.WAIT


def later(task: fake_task.FakeTask, seconds: float) -> None:
    """Let time pass for what is kept on the node."""
    note = task.recall(firmware.NOTE)
    for name in ("began", "since", "silent"):
        note[name] = note[name] and note[name] - seconds
    task.keep(firmware.NOTE, note)


def poll(task: fake_task.FakeTask, *images: dict[str, Any]) -> base.Outcome:
    """Let the timer ring: its time has passed."""
    later(task, task.timers[-1])
    return FIRMWARE.poll_step(task, CLEAN, step(*images))


def finish(task: fake_task.FakeTask, *images: dict[str, Any]) -> fake_task.FakeTask:
    """Poll to the end, each time as if another conductor had the node; return that one's task."""
    for _ in range(80):
        if poll(task, *images) is base.DONE:
            assert task.recall(firmware.NOTE) is None
            return task
        timers, task = task.timers, task.elsewhere()
        task.timers = timers
    raise AssertionError(task.recall(firmware.NOTE))


def failure(task: fake_task.FakeTask, *images: dict[str, Any]) -> str:
    """Poll until it fails; return what it says."""
    for _ in range(80):
        try:
            assert poll(task, *images) is base.WAIT
        except errors.StepFailed as why:
            assert task.recall(firmware.NOTE) is None
            return str(why.facts["reason"])
    raise AssertionError(task.recall(firmware.NOTE))


def versions(machine: bmc.Machine) -> dict[str, str]:
    task = bmc_tasks.task_of(machine)
    return {one.component: one.version for one in FIRMWARE.cache_firmware_components(task)}


def orders(machine: bmc.Machine) -> list[Any]:
    return [one.body for one in machine.requests if one.title == UPDATE]


def phase(task: fake_task.FakeTask) -> str:
    return str(task.recall(firmware.NOTE)["phase"])
