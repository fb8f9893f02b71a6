"""Indicator lamps of a machine: of its system, its chassis and its drives.

Old BMCs have IndicatorLED with three states; newer ones have LocationIndicatorActive, which only
locates the part.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.domain import bmc_vocabulary
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import jobs, resources

LOG = logging.getLogger(__name__)

LED, LOCATION = "IndicatorLED", "LocationIndicatorActive"
_LED_STATES: Mapping[Any, str] = {"Lit": "on", "Off": "off", "Blinking": "blinking"}
_LOCATION_STATES: Mapping[Any, str] = {True: "on", False: "off"}


@dataclasses.dataclass(frozen=True, slots=True)
class Lamp:
    """One lamp, as a property of a document."""

    name: str
    path: str
    key: str
    now: Any
    offered: tuple[str, ...] | None = None

    @property
    def words(self) -> Mapping[Any, str]:
        """Return the mapping of Redfish values to our words."""
        words = _LED_STATES if self.key == LED else _LOCATION_STATES
        if self.offered is None:
            return words
        return {value: word for value, word in words.items() if value in self.offered}

    @property
    def state(self) -> str:
        """Return the lamp's state in our word."""
        words = _LED_STATES if self.key == LED else _LOCATION_STATES
        return words.get(self.now, bmc_vocabulary.UNKNOWN)


def supported(task: base.Task, component: str | None = None) -> dict[str, dict[str, Json]]:
    """Return the lamps by component, see `base.Management.get_supported_indicators`.

    If all components are requested, unreadable ones are left out: some BMCs answer 500 for drives.
    """
    found = {}
    for part in _FINDERS:
        if component not in {None, part}:
            continue
        try:
            found[part] = _indicator_facts(_component_lamps(task, part))
        except errors.BmcBadAnswer as why:
            if component is not None:
                raise
            LOG.info("Node %s: cannot list the lamps of %s: %s", task.node.uuid, part, why)
    return {part: lamps for part, lamps in found.items() if lamps}


def state(task: base.Task, component: str, indicator: str) -> str:
    """Return the state of a lamp.

    :raises errors.InvalidParameter: there is no such lamp.
    """
    return _find_lamp(task, component, indicator).state


def switch(task: base.Task, component: str, indicator: str, wanted: str) -> None:
    """Switch a lamp.

    :raises errors.InvalidParameter: there is no such lamp, or it does not have this state.
    """
    lamp = _find_lamp(task, component, indicator)
    value = next((value for value, word in lamp.words.items() if word == wanted), None)
    if value is None:
        known = ", ".join(sorted(lamp.words.values()))
        reason = f"{indicator} cannot be {wanted!r}, only {known}"
        raise errors.InvalidParameter(path="state", reason=reason)
    uris = jobs.change(task, lamp.path, {lamp.key: value})
    jobs.follow(task, uris, f"switch {indicator} {wanted}", jobs.SHORT_SECONDS)


def _indicator_facts(lamps: Iterator[Lamp]) -> dict[str, Json]:
    return {lamp.name: {"readonly": False, "states": sorted(lamp.words.values())} for lamp in lamps}


def _find_lamp(task: base.Task, component: str, indicator: str) -> Lamp:
    if component not in _FINDERS:
        reason = f"{component!r} has no lamps here, only {', '.join(_FINDERS)}"
        raise errors.InvalidParameter(path="component", reason=reason)
    names = []
    for lamp in _component_lamps(task, component):
        if lamp.name == indicator:
            return lamp
        names.append(lamp.name)
    reason = f"{component} has no lamp {indicator!r}, only {', '.join(names) or 'none'}"
    raise errors.InvalidParameter(path="indicator", reason=reason)


# -- finding lamps -------------------------------------------------------------------------------


def _component_lamps(task: base.Task, component: str) -> Iterator[Lamp]:
    for name, document in _FINDERS[component](task):
        lamp = _read_lamp(name, document)
        if lamp is not None:
            yield lamp


def _read_lamp(name: str, document: Json) -> Lamp | None:
    """Return the lamp of a document, None if it has none."""
    key = next((key for key in (LED, LOCATION) if document.get(key) is not None), None)
    path = resources.text(document, "@odata.id")
    if key is None or path is None:
        return None
    offered = document.get(f"{key}@Redfish.AllowableValues")
    words = tuple(map(str, offered)) if key == LED and isinstance(offered, list) else None
    return Lamp(name, path, key, document[key], words)


_Found = Iterator[tuple[str, Json]]


def _of_system(task: base.Task) -> _Found:
    document = resources.system(task)
    yield _indicator_name(document), document


def _of_chassis(task: base.Task) -> _Found:
    spare = resources.note_unreadable(task, "the chassis")
    for document in resources.listed(task, resources.system(task), "Links", "Chassis", spare=spare):
        yield _indicator_name(document), document


def _of_disks(task: base.Task) -> _Found:
    """Return the drives' lamps; drives lack UUIDs, and their Ids are unique per storage only."""
    spare = resources.note_unreadable(task, "the drives")
    collection = resources.link(resources.system(task), "Storage")
    for storage in resources.members(task, collection, spare=spare):
        for drive in resources.listed(task, storage, "Drives", spare=spare):
            yield f"{storage.get('Id')}:{drive.get('Id')}", drive


def _indicator_name(document: Json) -> str:
    return resources.text(document, "UUID") or str(document.get("Id"))


_FINDERS: Mapping[str, Callable[[base.Task], _Found]] = {
    "system": _of_system,
    "chassis": _of_chassis,
    "disk": _of_disks,
}
