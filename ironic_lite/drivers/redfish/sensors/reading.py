"""Reading of a machine's sensor documents, for `values` to parse.

Each document is a call of its own. An unreadable document loses only its own sensors, because many
BMCs answer 500 for one of a dozen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import resources
from ironic_lite.drivers.redfish.sensors import values

LOG = logging.getLogger(__name__)

_Found = dict[str, values.Sensors]
_Part = Callable[[base.Task, Json], _Found]


def get(task: base.Task) -> _Found:
    """Return the sensor values by kind, see `base.Management.get_sensors_data`.

    :raises errors.UnsupportedDriverExtension: the machine has neither chassis nor storage.
    :raises errors.HardwareError: nothing could be read; the first fault.
    """
    system = resources.system(task)
    has_storage = any(resources.link(system, name) for name in ("SimpleStorage", "Storage"))
    if not has_storage and not resources.entries(system, "Links", "Chassis"):
        raise resources.lacking(task, "get_sensors_data", "it shows no chassis and no storage")
    gathered = _Gathered(task)
    for chassis in resources.listed(
        task, system, "Links", "Chassis", spare=gathered.note_unreadable
    ):
        gathered.take(_read_cooling, chassis)
        gathered.take(_read_supplies, chassis)
    gathered.take(_read_drives, system)
    return gathered.result()


class _Gathered:
    """The sensors and faults collected so far."""

    def __init__(self, task: base.Task) -> None:
        self.task = task
        self.found: _Found = {kind: {} for kind in values.KINDS}
        self.faults: list[errors.HardwareError] = []

    def take(self, part: _Part, document: Json) -> None:
        """Read a part; if the BMC does not answer at all, raise instead of trying the next part."""
        try:
            for kind, sensors in part(self.task, document).items():
                self.found[kind].update(sensors)
        except (errors.BmcBadAnswer, errors.BmcUnreachable) as why:
            self.note_unreadable(why)

    def note_unreadable(self, why: errors.HardwareError) -> None:
        """Note an unreadable document; raise if the BMC does not answer at all."""
        resources.note_unreadable(self.task, "the sensors")(why)
        self.faults.append(why)

    def result(self) -> _Found:
        """Return all sensors that were read."""
        if self.faults and not any(self.found.values()):
            raise self.faults[0]
        return self.found


# -- parts ----------------------------------------------------------------------------------------


def _read_cooling(task: base.Task, chassis: Json) -> _Found:
    """Read fans and temperatures from the source that takes the fewest requests."""
    name = _document_id(chassis)
    old = _read_linked(task, chassis, "Thermal")
    if old is not None:
        return values.thermal(old, name)
    new = _read_linked(task, chassis, "ThermalSubsystem")
    if new is not None:
        fans = resources.members(task, resources.link(new, "Fans"), spare=_spare(task))
        metrics = _read_linked(task, new, "ThermalMetrics") or {}
        return {
            "Fan": values.fans(fans, name),
            "Temperature": values.metrics(metrics, name),
        }
    found = resources.members(task, resources.link(chassis, "Sensors"), spare=_spare(task))
    return values.sensors(found, name)


def _read_supplies(task: base.Task, chassis: Json) -> _Found:
    name = _document_id(chassis)
    old = _read_linked(task, chassis, "Power")
    if old is not None:
        return values.power(old, name)
    new = _read_linked(task, chassis, "PowerSubsystem")
    if new is None:
        return {}
    return {
        "Power": values.supplies(_supplies_with_metrics(task, new), f"{_document_id(new)}@{name}")
    }


def _supplies_with_metrics(task: base.Task, subsystem: Json) -> Iterator[Json]:
    """Yield the power supplies with their metrics."""
    place = resources.link(subsystem, "PowerSupplies")
    for supply in resources.members(task, place, spare=_spare(task)):
        yield {**(_read_linked(task, supply, "Metrics") or {}), **supply}


def _read_drives(task: base.Task, system: Json) -> _Found:
    """Read the drives; SimpleStorage lists them in one document, but also lists backplanes."""
    name = _document_id(system)
    found: values.Sensors = {}
    for storage in resources.members(task, resources.link(system, "SimpleStorage")):
        devices = resources.entries(storage, "Devices")
        real = [device for device in devices if device.get("CapacityBytes")]
        found.update(values.drives(real, _document_id(storage), name))
    if not found:
        place = resources.link(system, "Storage")
        for storage in resources.members(task, place, spare=_spare(task)):
            drives = resources.listed(task, storage, "Drives", spare=_spare(task))
            found.update(values.drives(drives, _document_id(storage), name))
    return {"Drive": found}


def _spare(task: base.Task) -> resources.Spare:
    return resources.note_unreadable(task, "the sensors")


def _read_linked(task: base.Task, document: Json, name: str) -> Json | None:
    path = resources.link(document, name)
    return resources.read(task, path) if path else None


def _document_id(document: Json) -> str:
    return str(document.get("Id"))
