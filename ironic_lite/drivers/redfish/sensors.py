"""Reading the sensors of a machine: which documents there are, and `readings` of them.

Each document is a call of its own, and one that cannot be read costs its sensors only: many BMCs
answer 500 for one of a dozen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import documents, readings

LOG = logging.getLogger(__name__)

_Found = dict[str, readings.Sensors]
_Part = Callable[[base.Task, documents.Json], _Found]


def get(task: base.Task) -> _Found:
    """Return what the sensors say by kind, see `base.Management.get_sensors_data`.

    :raises errors.UnsupportedDriverExtension: the machine has neither chassis nor storage.
    :raises errors.HardwareError: nothing could be read; the first reason.
    """
    system = documents.system(task)
    has_storage = any(documents.link(system, name) for name in ("SimpleStorage", "Storage"))
    if not has_storage and not documents.entries(system, "Links", "Chassis"):
        raise documents.lacking(task, "get_sensors_data", "it shows no chassis and no storage")
    gathered = _Gathered(task)
    for chassis in documents.listed(task, system, "Links", "Chassis"):
        gathered.take(_cooling, chassis)
        gathered.take(_supplies, chassis)
    gathered.take(_drives, system)
    return gathered.result()


class _Gathered:
    """Sensors so far, and what stood against more of them."""

    def __init__(self, task: base.Task) -> None:
        self.task = task
        self.found: _Found = {kind: {} for kind in readings.KINDS}
        self.faults: list[errors.HardwareError] = []

    def take(self, part: _Part, document: documents.Json) -> None:
        """Read a part; a BMC that is silent altogether is no case for trying the next one."""
        try:
            for kind, sensors in part(self.task, document).items():
                self.found[kind].update(sensors)
        except errors.BmcBadAnswer as why:
            LOG.info("Node %s: sensors are missing: %s", self.task.node.uuid, why)
            self.faults.append(why)

    def result(self) -> _Found:
        """Return all there is."""
        if self.faults and not any(self.found.values()):
            raise self.faults[0]
        return self.found


# -- parts ----------------------------------------------------------------------------------------


def _cooling(task: base.Task, chassis: documents.Json) -> _Found:
    """Read fans and temperatures from the place that takes the fewest requests."""
    name = _id(chassis)
    old = _read(task, chassis, "Thermal")
    if old is not None:
        return readings.thermal(old, name)
    new = _read(task, chassis, "ThermalSubsystem")
    if new is not None:
        fans = documents.members(task, documents.link(new, "Fans"))
        metrics = _read(task, new, "ThermalMetrics") or {}
        return {
            "Fan": readings.fans(fans, name),
            "Temperature": readings.metrics(metrics, name),
        }
    return readings.sensors(documents.members(task, documents.link(chassis, "Sensors")), name)


def _supplies(task: base.Task, chassis: documents.Json) -> _Found:
    name = _id(chassis)
    old = _read(task, chassis, "Power")
    if old is not None:
        return readings.power(old, name)
    new = _read(task, chassis, "PowerSubsystem")
    if new is None:
        return {}
    return {"Power": readings.supplies(_measured(task, new), f"{_id(new)}@{name}")}


def _measured(task: base.Task, subsystem: documents.Json) -> Iterator[documents.Json]:
    """Go through the supplies with what is measured at them."""
    for supply in documents.members(task, documents.link(subsystem, "PowerSupplies")):
        yield {**(_read(task, supply, "Metrics") or {}), **supply}


def _drives(task: base.Task, system: documents.Json) -> _Found:
    """Read the drives; SimpleStorage has them in one document, but also backplanes."""
    name = _id(system)
    found: readings.Sensors = {}
    for storage in documents.members(task, documents.link(system, "SimpleStorage")):
        devices = documents.entries(storage, "Devices")
        real = [device for device in devices if device.get("CapacityBytes")]
        found.update(readings.drives(real, _id(storage), name))
    if not found:
        for storage in documents.members(task, documents.link(system, "Storage")):
            drives = documents.listed(task, storage, "Drives")
            found.update(readings.drives(drives, _id(storage), name))
    return {"Drive": found}


def _read(task: base.Task, document: documents.Json, name: str) -> documents.Json | None:
    path = documents.link(document, name)
    return documents.read(task, path) if path else None


def _id(document: documents.Json) -> str:
    return str(document.get("Id"))
