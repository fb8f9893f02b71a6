"""Parsing of sensor values from documents of a BMC: pure functions, one table a kind.

Two generations are read into one form: Thermal and Power (deprecated in 2020), and their successors
with a document for each fan, supply and sensor. Every sensor of a kind has the same facts; a fact
that the BMC does not report is null.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ironic_lite.core.json_types import Json
from ironic_lite.drivers.redfish.bmc import resources

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


STATUS = (_word_fact("state", "Status/State"), _word_fact("health", "Status/Health"))
FAN = (
    _word_fact("identity", "MemberId", "Id"),
    _word_fact("name", "Name", "FanName"),
    _number_fact("max_reading_range", "MaxReadingRange", "ReadingRangeMax"),
    _number_fact("min_reading_range", "MinReadingRange", "ReadingRangeMin"),
    _number_fact("reading", "SpeedPercent/SpeedRPM", "Reading", "SpeedPercent/Reading"),
    _word_fact("reading_units", "ReadingUnits"),
    _word_fact("serial_number", "SerialNumber"),
    _word_fact("physical_context", "PhysicalContext"),
    *STATUS,
)
TEMPERATURE = (
    _word_fact("identity", "MemberId", "Id"),
    _word_fact("name", "Name", "DeviceName"),
    _number_fact("max_reading_range_temp", "MaxReadingRangeTemp", "ReadingRangeMax"),
    _number_fact("min_reading_range_temp", "MinReadingRangeTemp", "ReadingRangeMin"),
    _number_fact("reading_celsius", "ReadingCelsius", "Reading"),
    _word_fact("physical_context", "PhysicalContext"),
    _number_fact("sensor_number", "SensorNumber"),
    *STATUS,
)
POWER = (
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
    *STATUS,
)
DRIVE = (
    _word_fact("name", "Name"),
    _word_fact("model", "Model"),
    _number_fact("capacity_bytes", "CapacityBytes"),
    *STATUS,
)

_UNITS = {"%": "Percent"}


# -- Thermal and Power: one document with lists --------------------------------------------------


def thermal(document: Json, chassis: str) -> dict[str, Sensors]:
    """Read a Thermal document: fans and temperatures of a chassis, named ``<id>@<chassis>``."""
    temperatures = _numbered_entries(resources.entries(document, "Temperatures"))
    return {
        "Fan": fans(_numbered_entries(resources.entries(document, "Fans")), chassis),
        "Temperature": _sensors_by_name(TEMPERATURE, temperatures, chassis),
    }


def power(document: Json, chassis: str) -> dict[str, Sensors]:
    """Read a Power document: the supplies of a chassis, named ``<id>:<document>@<chassis>``."""
    place = f"{document.get('Id') or 'Power'}@{chassis}"
    return {
        "Power": supplies(_numbered_entries(resources.entries(document, "PowerSupplies")), place)
    }


# -- successors of Thermal and Power: a document each --------------------------------------------


def fans(found: Iterable[Json], chassis: str) -> Sensors:
    """Read fans; the reading is in revolutions where the BMC reports them, else in percent."""
    return _sensors_by_name(FAN, (_with_units(fan) for fan in found), chassis)


def _with_units(fan: Json) -> Json:
    speed = resources.value(fan, "SpeedPercent")
    units = resources.text(fan, "ReadingUnits")
    if isinstance(speed, dict):
        units = "Percent" if resources.as_number(speed.get("SpeedRPM")) is None else "RPM"
    return {**fan, "ReadingUnits": _UNITS.get(units or "", units)}


def metrics(document: Json, chassis: str) -> Sensors:
    """Read the temperatures of a ThermalMetrics document, named after their sensors."""
    found = []
    for entry in resources.entries(document, "TemperatureReadingsCelsius"):
        source = resources.text(entry, "DataSourceUri")
        found.append({"Id": (source or "").rpartition("/")[2] or None, **entry})
    return _sensors_by_name(TEMPERATURE, _numbered_entries(found), chassis)


def supplies(found: Iterable[Json], place: str) -> Sensors:
    """Read power supplies and their metrics, which win; named ``<id>:<place>``."""
    read: Sensors = {}
    for supply in found:
        _add_sensor(read, f"{_entry_identity(supply)}:{place}", _entry_facts(POWER, supply))
    return read


def sensors(found: Iterable[Json], chassis: str) -> dict[str, Sensors]:
    """Read Sensor documents of any known kind; others are left out."""
    of: dict[str | None, list[Json]] = {"Fan": [], "Temperature": [], "Power": [], None: []}
    for sensor in found:
        reading = resources.text(sensor, "ReadingType")
        context = resources.text(sensor, "PhysicalContext")
        of[_SENSORS.get((reading, None)) or _SENSORS.get((reading, context))].append(sensor)
    return {
        "Fan": fans(of["Fan"], chassis),
        "Temperature": _sensors_by_name(TEMPERATURE, of["Temperature"], chassis),
        "Power": supplies(of["Power"], f"Sensors@{chassis}"),
    }


_SENSORS: Mapping[tuple[str | None, str | None], str] = {
    # (ReadingType, PhysicalContext; None: any): the kind
    ("Temperature", None): "Temperature",
    ("Rotational", None): "Fan",
    ("Percent", "Fan"): "Fan",
    ("Power", "PowerSupply"): "Power",
}


# -- drives --------------------------------------------------------------------------------------


def drives(found: Iterable[Json], storage: str, system: str) -> Sensors:
    """Read drives, named ``<name>:<storage>@<system>``; empty bays are left out."""
    read: Sensors = {}
    for drive in found:
        facts = _entry_facts(DRIVE, drive)
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
