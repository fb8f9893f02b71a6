"""Machines that are only looked at: no call of any driver sends a BMC a change."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.engine.task import Task
from tests.emulators import bmc
from tests.support.redfish_service import RedfishOperator, drivers

GIVEN: dict[str, Any] = {
    "device": "pxe",
    "device_type": "cdrom",
    "device_types": ["cdrom"],
    "image_url": "http://192.0.2.1/i.iso",
    "mode": "bios",
    "component": "system",
    "indicator": "led",
    "settings": [{"name": "BootMode", "value": "Uefi"}],
    "persistent": True,
    "timeout": 1,
    "target": "power off",
    "params": {},
    "kind": "clean",
}
"""Arguments of drivers' methods by their names."""
CHANGE = {"power", "management", "bios", "boot", "deploy"}
"""Kinds whose calls change this machine when nothing holds the node."""
KINDS = ("power", "management", "bios", "raid", "firmware", "inspect", "vendor", "boot", "deploy")


def calls(kind: str) -> Iterator[tuple[str, Any]]:
    """Yield each public method of an interface, with a function that calls it for a task."""
    for name, made in drivers().interfaces[kind].items():
        for method, function in inspect.getmembers(made, inspect.ismethod):
            wanted = list(inspect.signature(function).parameters)
            if method.startswith("_") or wanted[:1] != ["task"]:
                continue
            given = {word: GIVEN[word] for word in wanted[1:] if word in GIVEN}
            if method == "set_secure_boot_state":
                given["state"] = True
            elif "state" in wanted:
                given["state"] = "power off" if kind == "power" else "on"
            if "image" in wanted:
                given["image"] = GIVEN["image_url"]

            def call(task: Task, function: Any = function, given: Any = given) -> None:
                with contextlib.suppress(errors.Error, TypeError, KeyError, AttributeError):
                    function(task, **given)

            yield f"{name}.{method}", call


def changes(machine: bmc.Machine) -> list[str]:
    """Return the requests that were no reads, but for those of the own session."""
    return [one for one in machine.log if not one.startswith("GET ") and "/Sessions" not in one]


@pytest.mark.parametrize("kind", KINDS)
def test_no_method_sends_a_change(
    operator: RedfishOperator, machine: bmc.Machine, kind: str
) -> None:
    """The same calls change the machine when nothing holds the node."""
    node = operator.at(machine)
    held = {"kind": "observe", "reason": "moved in", "all": True}
    assert operator.api.post("/v1/holds", held).json["held"] == 1
    done = changes(machine)
    for name, call in calls(kind):
        call(operator.rig.tasks.look(operator.rig.who, node))
        with operator.rig.tasks.lock(operator.rig.who, node) as task:
            call(task)
        assert changes(machine) == done, name
    body = {**held, "unread": True}
    assert operator.api.post("/v1/holds/end", body).json["ended"] == 1
    for _, call in calls(kind):
        with operator.rig.tasks.lock(operator.rig.who, node) as task:
            call(task)
    assert (len(changes(machine)) > len(done)) is (kind in CHANGE)
