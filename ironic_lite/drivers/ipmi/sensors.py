"""Parsing of sensor values from the output of ``ipmitool -v sdr``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ironic_lite.core.json_types import Json

_LINE = re.compile(r"^ ?(?P<name>[A-Z][^:]*?)\s*:\s*(?P<value>.*?)\s*$")
_MORE = re.compile(r"^ {2,}\[(?P<text>.+)\]\s*$")
_TYPE = re.compile(r"^(?P<type>.+?)(?: \(0x[0-9A-Fa-f]+\))?$")
_TYPES = ("Sensor Type (Threshold)", "Sensor Type (Discrete)", "Sensor Type (Analog)")
"""Up to version 1.8.11, ipmitool writes Analog for Threshold."""
_STATES = "States Asserted"


def parse(text: str) -> dict[str, dict[str, Json]]:
    """Return the sensors by type: ``{type: {sensor: {fact: value}}}``, in ipmitool's words.

    Other records, and sensors without a type, are left out. The current states of a discrete sensor
    are in ``"States Asserted"``, separated by commas.
    """
    found: dict[str, dict[str, Json]] = {}
    for facts in _sensor_records(text):
        sensor, kind = facts.get("Sensor ID"), next((facts[t] for t in _TYPES if t in facts), "")
        named = _TYPE.match(kind)
        if sensor and named:
            found.setdefault(named["type"], {})[sensor] = facts
    return found


def _sensor_records(text: str) -> Iterator[dict[str, str]]:
    """Split at empty lines and before each sensor, and join the states of a sensor.

    A sensor that cannot be read may have no empty line after it.
    """
    for block in re.split(r"\n\s*\n|\n(?=Sensor ID )", text):
        facts: dict[str, str] = {}
        states: list[str] = []
        last = ""
        for line in block.splitlines():
            named, more = _LINE.match(line), _MORE.match(line)
            if named:
                last = named["name"]
                facts[last] = named["value"]
            elif more and last == _STATES:
                states.append(more["text"].strip())
        if states:
            # The line of the name only has the kind of the states.
            facts[_STATES] = ", ".join(states)
        if facts:
            yield facts
