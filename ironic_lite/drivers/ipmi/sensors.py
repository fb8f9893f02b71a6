"""Parsing of sensor values from the output of ``ipmitool -v sdr``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ironic_lite.core.json_types import Json

_LINE = re.compile(r"^ ?(?P<name>[A-Z][^:]*?)\s*:\s*(?P<value>.*?)\s*$")
_MORE = re.compile(r"^ {2,}\[?(?P<text>[^:\]]+?)\]?\s*$")
_TYPE = re.compile(r"^(?P<type>.+?)(?: \(0x[0-9A-Fa-f]+\))?$")
_TYPES = ("Sensor Type (Threshold)", "Sensor Type (Discrete)")


def parse(text: str) -> dict[str, dict[str, Json]]:
    """Return the sensors by type: ``{type: {sensor: {fact: value}}}``, in ipmitool's words.

    Other records, and sensors without a type, are left out. The current states of a discrete sensor
    are in ``"States Asserted"``, separated by commas.
    """
    found: dict[str, dict[str, Json]] = {}
    for facts in _records(text):
        sensor, kind = facts.get("Sensor ID"), next((facts[t] for t in _TYPES if t in facts), "")
        named = _TYPE.match(kind)
        if sensor and named:
            found.setdefault(named["type"], {})[sensor] = facts
    return found


def _records(text: str) -> Iterator[dict[str, str]]:
    """Split at empty lines, and join continuation lines."""
    for block in re.split(r"\n\s*\n", text):
        facts: dict[str, str] = {}
        last = ""
        for line in block.splitlines():
            named, more = _LINE.match(line), _MORE.match(line)
            if named:
                last = named["name"]
                facts[last] = named["value"]
            elif more and last == "States Asserted":
                facts[last] = _joined(facts, more["text"].strip())
        if facts:
            yield facts


def _joined(facts: dict[str, str], state: str) -> str:
    """Return the states with one more; the first line only repeats the sensor's type."""
    known = facts["States Asserted"]
    repeats = any(facts.get(kind, "").startswith(f"{known} (") for kind in _TYPES)
    return state if repeats else f"{known}, {state}"
