"""Lamps of a machine: of its system, its chassis and its drives.

Old BMCs have a lamp with three states, IndicatorLED; newer ones one that only finds the place,
LocationIndicatorActive.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ironic_lite import errors, hardware
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import documents

LOG = logging.getLogger(__name__)

LED, LOCATION = "IndicatorLED", "LocationIndicatorActive"
_LED_STATES: Mapping[Any, str] = {"Lit": "on", "Off": "off", "Blinking": "blinking"}
_LOCATION_STATES: Mapping[Any, str] = {True: "on", False: "off"}


@dataclasses.dataclass(frozen=True, slots=True)
class Lamp:
    """One lamp: which property of which document it is."""

    name: str
    path: str
    key: str
    now: Any
    offered: tuple[str, ...] | None = None

    @property
    def words(self) -> Mapping[Any, str]:
        """Return our word for each value it can have."""
        words = _LED_STATES if self.key == LED else _LOCATION_STATES
        if self.offered is None:
            return words
        return {value: word for value, word in words.items() if value in self.offered}

    @property
    def state(self) -> str:
        """Return what it does, in our word."""
        words = _LED_STATES if self.key == LED else _LOCATION_STATES
        return words.get(self.now, hardware.UNKNOWN)


def supported(
    task: base.Task, component: str | None = None
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the lamps by component, see `base.Management.get_supported_indicators`.

    If all are asked for, what a BMC cannot list is left out: some answer 500 for their drives.
    """
    found = {}
    for part in _FINDERS:
        if component not in {None, part}:
            continue
        try:
            found[part] = _facts(_lamps(task, part))
        except errors.BmcBadAnswer as why:
            if component is not None:
                raise
            LOG.info("Node %s: lamps of %s are missing: %s", task.node.uuid, part, why)
    return {part: lamps for part, lamps in found.items() if lamps}


def state(task: base.Task, component: str, indicator: str) -> str:
    """Return what a lamp does.

    :raises errors.InvalidParameter: there is no such lamp.
    """
    return _find(task, component, indicator).state


def switch(task: base.Task, component: str, indicator: str, wanted: str) -> None:
    """Bring a lamp to a state.

    :raises errors.InvalidParameter: there is no such lamp, or it does not know this state.
    """
    lamp = _find(task, component, indicator)
    value = next((value for value, word in lamp.words.items() if word == wanted), None)
    if value is None:
        known = ", ".join(sorted(lamp.words.values()))
        reason = f"{indicator} cannot be {wanted!r}, only {known}"
        raise errors.InvalidParameter(path="state", reason=reason)
    documents.change(task, lamp.path, {lamp.key: value})


def _facts(lamps: Iterator[Lamp]) -> dict[str, dict[str, Any]]:
    return {lamp.name: {"readonly": False, "states": sorted(lamp.words.values())} for lamp in lamps}


def _find(task: base.Task, component: str, indicator: str) -> Lamp:
    if component not in _FINDERS:
        reason = f"{component!r} has no lamps here, only {', '.join(_FINDERS)}"
        raise errors.InvalidParameter(path="component", reason=reason)
    names = []
    for lamp in _lamps(task, component):
        if lamp.name == indicator:
            return lamp
        names.append(lamp.name)
    reason = f"{component} has no lamp {indicator!r}, only {', '.join(names) or 'none'}"
    raise errors.InvalidParameter(path="indicator", reason=reason)


# -- where they are -----------------------------------------------------------------------------


def _lamps(task: base.Task, component: str) -> Iterator[Lamp]:
    for name, document in _FINDERS[component](task):
        lamp = _lamp(name, document)
        if lamp is not None:
            yield lamp


def _lamp(name: str, document: documents.Json) -> Lamp | None:
    """Return the lamp of a document, None if it has none."""
    key = next((key for key in (LED, LOCATION) if document.get(key) is not None), None)
    path = documents.text(document, "@odata.id")
    if key is None or path is None:
        return None
    offered = document.get(f"{key}@Redfish.AllowableValues")
    words = tuple(map(str, offered)) if key == LED and isinstance(offered, list) else None
    return Lamp(name, path, key, document[key], words)


_Found = Iterator[tuple[str, documents.Json]]


def _of_system(task: base.Task) -> _Found:
    document = documents.system(task)
    yield _name(document), document


def _of_chassis(task: base.Task) -> _Found:
    for document in documents.listed(task, documents.system(task), "Links", "Chassis"):
        yield _name(document), document


def _of_disks(task: base.Task) -> _Found:
    """Drives have no UUID, and their Ids are only good within one storage."""
    collection = documents.link(documents.system(task), "Storage")
    for storage in documents.members(task, collection):
        for drive in documents.listed(task, storage, "Drives"):
            yield f"{storage.get('Id')}:{drive.get('Id')}", drive


def _name(document: documents.Json) -> str:
    return documents.text(document, "UUID") or str(document.get("Id"))


_FINDERS: Mapping[str, Callable[[base.Task], _Found]] = {
    "system": _of_system,
    "chassis": _of_chassis,
    "disk": _of_disks,
}
