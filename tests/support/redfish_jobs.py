"""Long jobs of a BMC as steps of a manual clean: how to start each, and its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tests.emulators import bmc
from tests.emulators.bmc import shapes
from tests.support.redfish_service import RedfishOperator

Json = dict[str, Any]
CARD = "nic:003BFLRT00023234"
SETTINGS = [{"name": "ProcTurboMode", "value": "Disabled"}]
DISKS = {
    "logical_disks": [
        {"raid_level": "1", "size_gb": 100, "is_root_volume": True, "volume_name": "system"},
        {"raid_level": "5", "size_gb": 500},
    ]
}


@dataclasses.dataclass(frozen=True)
class Job:
    """A step.

    :param asked: title of the request that changes something; ``*`` and ``?`` stand for anything.
    :param done: tells whether the machine is as it was asked for, and nothing was done twice.
    :param prepare: what comes before, by API or in the machine.
    """

    step: Json
    asked: str
    done: Callable[[bmc.Machine], bool]
    prepare: Callable[[RedfishOperator, str, bmc.Machine], None] = lambda operator, node, machine: (
        None
    )
    tasks: bool = True

    @property
    def title(self) -> str:
        """Return what an error calls it."""
        return f"{self.step['interface']}.{self.step['step']}"


def _wants_volumes(operator: RedfishOperator, node: str, machine: bmc.Machine) -> None:
    answer = operator.api.put(f"/v1/nodes/{node}/states/raid", DISKS)
    assert answer.status == 204, answer.text


def _volumes_built(machine: bmc.Machine) -> bool:
    paths = [entry["@odata.id"] for entry in machine["Volumes"]["Members"]]
    return sorted(machine.tree[path]["RAIDType"] for path in paths) == ["RAID1", "RAID5"]


def _has_volumes(operator: RedfishOperator, node: str, machine: bmc.Machine) -> None:
    drives = machine.tree[machine.places.storage]["Drives"]
    for number in (1, 2):
        machine.put_volume("RAID1", 100 * shapes.GB, drives[2 * number - 2 : 2 * number])


def _other_settings(operator: RedfishOperator, node: str, machine: bmc.Machine) -> None:
    machine["Bios"]["Attributes"]["ProcTurboMode"] = "Disabled"


def _update(component: str) -> Job:
    part = "NIC1" if component == CARD else component
    image = {"component": component, "url": f"http://192.0.2.1/{part}-9.9.bin"}
    return Job(
        {"interface": "firmware", "step": "update", "args": {"settings": [image]}},
        "POST */Actions/UpdateService.SimpleUpdate",
        lambda machine: bool(
            machine[f"FirmwareInventory/{part.upper()}"]["Version"] == "9.9"
            and len(machine.tasks) <= 1
        ),
    )


JOBS: dict[str, Job] = {
    "raid.create_configuration": Job(
        {"interface": "raid", "step": "create_configuration"},
        "POST */Volumes",
        _volumes_built,
        _wants_volumes,
    ),
    "raid.delete_configuration": Job(
        {"interface": "raid", "step": "delete_configuration"},
        "DELETE */Volumes/*",
        lambda machine: machine["Volumes"]["Members"] == [],
        _has_volumes,
    ),
    "bios.apply_configuration": Job(
        {"interface": "bios", "step": "apply_configuration", "args": {"settings": SETTINGS}},
        "PATCH */Bios/Settings",
        lambda machine: bool(machine["Bios"]["Attributes"]["ProcTurboMode"] == "Disabled"),
    ),
    "bios.factory_reset": Job(
        {"interface": "bios", "step": "factory_reset"},
        "POST */Actions/Bios.ResetBios",
        lambda machine: bool(machine["Bios"]["Attributes"] == shapes.DEFAULTS),
        _other_settings,
        tasks=False,
    ),
    **{f"firmware.update of {part}": _update(part) for part in ("bios", "bmc", CARD)},
}
