"""Sensor values of a machine: reading of its documents, and their parsing into one form."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import resources

LOG = logging.getLogger(__name__)

# Parsing of sensor values from documents of a BMC: pure functions, one table a kind.
#
# Two generations are read into one form: Thermal and Power (deprecated in 2020), and their
# successors with a document for each fan, supply and sensor. Every sensor of a kind has the same
# facts; a fact that the BMC does not report is null.

Sensors = dict[str, Json]
"""Facts by sensor name."""

KINDS = ("Fan", "Temperature", "Power", "Drive")


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """A fact and its possible places, best first; a number unless ``word``."""

    name: str
    places: tuple[str, ...]
    word: bool = False


def _word_fact(name: str, *places: str) -> Fact:
    return Fact(name, places, word=True)


def _number_fact(name: str, *places: str) -> Fact:
    return Fact(name, places)


STATUS_FACTS = (_word_fact("state", "Status/State"), _word_fact("health", "Status/Health"))
FAN_FACTS = (
    _word_fact("identity", "MemberId", "Id"),
    _word_fact("name", "Name", "FanName"),
    _number_fact("max_reading_range", "MaxReadingRange", "ReadingRangeMax"),
    _number_fact("min_reading_range", "MinReadingRange", "ReadingRangeMin"),
    _number_fact("reading", "SpeedPercent/SpeedRPM", "Reading", "SpeedPercent/Reading"),
    _word_fact("reading_units", "ReadingUnits"),
    _word_fact("serial_number", "SerialNumber"),
    _word_fact("physical_context", "PhysicalContext"),
    *STATUS_FACTS,
)
TEMPERATURE_FACTS = (
    _word_fact("identity", "MemberId", "Id"),
    _word_fact("name", "Name", "DeviceName"),
    _number_fact("max_reading_range_temp", "MaxReadingRangeTemp", "ReadingRangeMax"),
    _number_fact("min_reading_range_temp", "MinReadingRangeTemp", "ReadingRangeMin"),
    _number_fact("reading_celsius", "ReadingCelsius", "Reading"),
    _word_fact("physical_context", "PhysicalContext"),
    _number_fact("sensor_number", "SensorNumber"),
    *STATUS_FACTS,
)
POWER_FACTS = (
    _word_fact("name", "Name"),
    _number_fact("power_capacity_watts", "PowerCapacityWatts"),
    _number_fact("line_input_voltage", "LineInputVoltage", "InputVoltage/Reading"),
    _number_fact(
        "last_power_output_watts",
        "LastPowerOutputWatts",
        "PowerOutputWatts",
        "OutputPowerWatts/Reading",
        "Reading",
    ),
    _word_fact("serial_number", "SerialNumber"),
    *STATUS_FACTS,
)
DRIVE_FACTS = (
    _word_fact("name", "Name"),
    _word_fact("model", "Model"),
    _number_fact("capacity_bytes", "CapacityBytes"),
    *STATUS_FACTS,
)

_UNITS = {"%": "Percent"}


# -- Thermal and Power: one document with lists --------------------------------------------------


def parse_thermal(document: Json, chassis: str) -> dict[str, Sensors]:
    """Read a Thermal document: fans and temperatures of a chassis, named ``<id>@<chassis>``."""
    temperatures = _numbered_entries(resources.entries(document, "Temperatures"))
    return {
        "Fan": parse_fans(_numbered_entries(resources.entries(document, "Fans")), chassis),
        "Temperature": _sensors_by_name(TEMPERATURE_FACTS, temperatures, chassis),
    }


def parse_power(document: Json, chassis: str) -> dict[str, Sensors]:
    """Read a Power document: the supplies of a chassis, named ``<id>:<document>@<chassis>``."""
    place = f"{document.get('Id') or 'Power'}@{chassis}"
    return {
        "Power": parse_supplies(
            _numbered_entries(resources.entries(document, "PowerSupplies")), place
        )
    }


# -- successors of Thermal and Power: a document each --------------------------------------------


def parse_fans(found: Iterable[Json], chassis: str) -> Sensors:
    """Read fans; the reading is in revolutions where the BMC reports them, else in percent."""
    return _sensors_by_name(FAN_FACTS, (_with_units(fan) for fan in found), chassis)


def _with_units(fan: Json) -> Json:
    speed = resources.value(fan, "SpeedPercent")
    units = resources.text(fan, "ReadingUnits")
    if isinstance(speed, dict):
        units = "Percent" if resources.as_number(speed.get("SpeedRPM")) is None else "RPM"
    return {**fan, "ReadingUnits": _UNITS.get(units or "", units)}


def parse_metrics(document: Json, chassis: str) -> Sensors:
    """Read the temperatures of a ThermalMetrics document, named after their sensors."""
    found = []
    for entry in resources.entries(document, "TemperatureReadingsCelsius"):
        source = resources.text(entry, "DataSourceUri")
        found.append({"Id": (source or "").rpartition("/")[2] or None, **entry})
    return _sensors_by_name(TEMPERATURE_FACTS, _numbered_entries(found), chassis)


def parse_supplies(found: Iterable[Json], place: str) -> Sensors:
    """Read power supplies and their metrics, which win; named ``<id>:<place>``."""
    read: Sensors = {}
    for supply in found:
        _add_sensor(read, f"{_entry_identity(supply)}:{place}", _entry_facts(POWER_FACTS, supply))
    return read


def parse_sensors(found: Iterable[Json], chassis: str) -> dict[str, Sensors]:
    """Read Sensor documents of any known kind; others are left out."""
    of: dict[str | None, list[Json]] = {"Fan": [], "Temperature": [], "Power": [], None: []}
    for sensor in found:
        reading = resources.text(sensor, "ReadingType")
        context = resources.text(sensor, "PhysicalContext")
        of[_SENSORS.get((reading, None)) or _SENSORS.get((reading, context))].append(sensor)
    return {
        "Fan": parse_fans(of["Fan"], chassis),
        "Temperature": _sensors_by_name(TEMPERATURE_FACTS, of["Temperature"], chassis),
        "Power": parse_supplies(of["Power"], f"Sensors@{chassis}"),
    }


_SENSORS: Mapping[tuple[str | None, str | None], str] = {
    # (ReadingType, PhysicalContext; None: any): the kind
    ("Temperature", None): "Temperature",
    ("Rotational", None): "Fan",
    ("Percent", "Fan"): "Fan",
    ("Power", "PowerSupply"): "Power",
}


# -- drives --------------------------------------------------------------------------------------


def parse_drives(found: Iterable[Json], storage: str, system: str) -> Sensors:
    """Read drives, named ``<name>:<storage>@<system>``; empty bays are left out."""
    read: Sensors = {}
    for drive in found:
        facts = _entry_facts(DRIVE_FACTS, drive)
        if facts["state"] == "Absent":
            continue
        if facts["state"] is None and facts["health"] is not None:
            # iLO reports only the health of a drive; a drive with a health is present.
            facts["state"] = "Enabled"
        _add_sensor(read, f"{facts['name'] or _entry_identity(drive)}:{storage}@{system}", facts)
    return read


# -- one document --------------------------------------------------------------------------------


def _sensors_by_name(table: tuple[Fact, ...], found: Iterable[Json], place: str) -> Sensors:
    read: Sensors = {}
    for entry in found:
        _add_sensor(read, f"{_entry_identity(entry)}@{place}", _entry_facts(table, entry))
    return read


def _add_sensor(read: Sensors, name: str, facts: Json) -> None:
    """Add a sensor; a second sensor of the same name gets another name, not its place."""
    number = 2
    unique = name
    while unique in read:
        unique, number = f"{name}#{number}", number + 1
    read[unique] = facts


def _numbered_entries(found: Iterable[Json]) -> list[Json]:
    """Return entries of a list; entries without a name are named by their position."""
    return [
        entry if _entry_identity(entry) is not None else {**entry, "MemberId": str(place)}
        for place, entry in enumerate(found)
    ]


def _entry_identity(entry: Json) -> str | None:
    for key in ("MemberId", "Id"):
        found = entry.get(key)
        if isinstance(found, str | int) and found != "":
            return str(found)
    return None


def _entry_facts(table: tuple[Fact, ...], entry: Json) -> Json:
    return {fact.name: _read_fact(fact, entry) for fact in table}


def _read_fact(fact: Fact, entry: Json) -> Any:
    """Return the first usable value; BMCs write N/A, empty strings or lists for a missing one."""
    for place in fact.places:
        found = resources.value(entry, *place.split("/"))
        usable = _as_word(found) if fact.word else resources.as_number(found)
        if usable is not None:
            return usable
    return None


def _as_word(found: object) -> str | None:
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return (found.strip() or None) if isinstance(found, str) else None


# Each document is a call of its own. An unreadable document loses only its own sensors, because
# many BMCs answer 500 for one of a dozen.


_Found = dict[str, Sensors]
_Part = Callable[[base.Task, Json], _Found]


def read_sensors(task: base.Task) -> _Found:
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
        self.found: _Found = {kind: {} for kind in KINDS}
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
        return parse_thermal(old, name)
    new = _read_linked(task, chassis, "ThermalSubsystem")
    if new is not None:
        fans = resources.members(task, resources.link(new, "Fans"), spare=_spare(task))
        metrics = _read_linked(task, new, "ThermalMetrics") or {}
        return {
            "Fan": parse_fans(fans, name),
            "Temperature": parse_metrics(metrics, name),
        }
    found = resources.members(task, resources.link(chassis, "Sensors"), spare=_spare(task))
    return parse_sensors(found, name)


def _read_supplies(task: base.Task, chassis: Json) -> _Found:
    name = _document_id(chassis)
    old = _read_linked(task, chassis, "Power")
    if old is not None:
        return parse_power(old, name)
    new = _read_linked(task, chassis, "PowerSubsystem")
    if new is None:
        return {}
    return {
        "Power": parse_supplies(_supplies_with_metrics(task, new), f"{_document_id(new)}@{name}")
    }


def _supplies_with_metrics(task: base.Task, subsystem: Json) -> Iterator[Json]:
    """Yield the power supplies with their metrics."""
    place = resources.link(subsystem, "PowerSupplies")
    for supply in resources.members(task, place, spare=_spare(task)):
        yield {**(_read_linked(task, supply, "Metrics") or {}), **supply}


def _read_drives(task: base.Task, system: Json) -> _Found:
    """Read the drives; SimpleStorage lists them in one document, but also lists backplanes."""
    name = _document_id(system)
    found: Sensors = {}
    for storage in resources.members(task, resources.link(system, "SimpleStorage")):
        devices = resources.entries(storage, "Devices")
        real = [device for device in devices if device.get("CapacityBytes")]
        found.update(parse_drives(real, _document_id(storage), name))
    if not found:
        place = resources.link(system, "Storage")
        for storage in resources.members(task, place, spare=_spare(task)):
            drives = resources.listed(task, storage, "Drives", spare=_spare(task))
            found.update(parse_drives(drives, _document_id(storage), name))
    return {"Drive": found}


def _spare(task: base.Task) -> resources.Spare:
    return resources.note_unreadable(task, "the sensors")


def _read_linked(task: base.Task, document: Json, name: str) -> Json | None:
    path = resources.link(document, name)
    return resources.read(task, path) if path else None


def _document_id(document: Json) -> str:
    return str(document.get("Id"))
