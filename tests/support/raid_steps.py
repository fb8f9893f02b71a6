"""Nodes with a target RAID configuration, and RAID steps that are polled to their end."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import management, power, raid
from tests.emulators import bmc
from tests.support import fake_task
from tests.support.bmc_tasks import BmcTask

Json = dict[str, Any]
GB = 1000**3

ROOT = {"raid_level": "1", "size_gb": 100, "is_root_volume": True, "volume_name": "system"}
DATA = {"raid_level": "5", "size_gb": "MAX"}


def node_at(machine: bmc.Machine, *disks: Json, **columns: Any) -> BmcTask:
    """Return a task on a node that shall have these volumes."""
    driver = dataclasses.replace(
        fake_task.FAKE,
        power=power.RedfishPower(),
        raid=raid.RedfishRAID(),
        management=management.RedfishManagement(),
    )
    node = fake_task.node(
        driver="redfish",
        driver_info=machine.driver_info,
        target_raid_config={"logical_disks": list(disks)} if disks else None,
        **columns,
    )
    return BmcTask(node, driver=driver)


def poll(task: BmcTask, kind: base.StepKind = base.StepKind.CLEAN) -> base.Outcome:
    return task.driver.raid.poll_step(task, kind, fake_task.step("raid.create_configuration"))


def finish(task: BmcTask, outcome: base.Outcome | None, polls: int = 60) -> BmcTask:
    """Poll until the step is done, each time as if another conductor had the node; return that
    one's task."""
    while outcome is base.WAIT:
        polls -= 1
        assert polls, (task.timers, task.recall(raid.NOTE))
        task = elsewhere(task)
        outcome = poll(task)
    assert outcome is base.DONE
    return task


def elsewhere(task: BmcTask) -> BmcTask:
    other = BmcTask(base.Node(copy.deepcopy(task.node.as_dict())), driver=task.driver)
    other.notes = dict(task.notes)
    other.timers = task.timers
    return other


def create(task: BmcTask, **args: Any) -> BmcTask:
    return finish(task, fake_task.clean(task, "raid.create_configuration", **args))


def delete(task: BmcTask) -> BmcTask:
    return finish(task, fake_task.clean(task, "raid.delete_configuration"))


def failure(task: BmcTask, polls: int = 60) -> str:
    """Poll until the step fails; return what it says."""
    for _ in range(polls):
        try:
            assert poll(task) is base.WAIT
        except errors.StepFailed as why:
            return str(why.facts["reason"])
    raise AssertionError("it does not fail")


def begun(machine: bmc.Machine, *disks: Json, **args: Any) -> BmcTask:
    task = node_at(machine, *(disks or (ROOT,)))
    assert fake_task.clean(task, "raid.create_configuration", **args) is base.WAIT
    return task


def times(machine: bmc.Machine, *values: str) -> None:
    """Say when the controller can change volumes."""
    support = machine["Volumes"]["@Redfish.OperationApplyTimeSupport"]
    support["SupportedValues"] = list(values)


def there(machine: bmc.Machine) -> list[tuple[str, list[str]]]:
    """Return the machine's volumes, but for disks passed through: RAID type and disks."""
    return sorted(
        (
            document["RAIDType"],
            [link["@odata.id"].rpartition("/")[2] for link in document["Links"]["Drives"]],
        )
        for path, document in machine.tree.items()
        if "/Volumes/" in path and document.get("RAIDType", "None") != "None"
    )


def changes(machine: bmc.Machine) -> list[str]:
    return [f"{title.split()[0]} {title.rpartition('/')[2]}" for title in machine.changes()]


def add_controller(machine: bmc.Machine, name: str, *, drives: int, levels: list[str]) -> str:
    """Put a further controller beside the first; return its path."""
    first = machine.places.storage
    path = f"{first.rpartition('/')[0]}/{name}"
    for place, document in list(machine.tree.items()):
        if place == first or place.startswith(f"{first}/"):
            machine.tree[place.replace(first, path)] = _moved(document, first, path)
    storage = machine.tree[path]
    storage["Id"] = name
    storage["Drives"] = storage["Drives"][:drives]
    storage["StorageControllers"][0]["SupportedRAIDTypes"] = levels
    machine.tree[first.rpartition("/")[0]]["Members"].append({"@odata.id": path})
    return path


def _moved(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _moved(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved(each, old, new) for each in value]
    return value.replace(old, new) if isinstance(value, str) else value
