"""What rules look at, and what they may change of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ironic_lite import errors, masking

Json = dict[str, Any]

PHASES = ("main",)
"""When rules are applied: after all hooks, and before the inspection ends."""

OBJECT = "object"
NODE: Mapping[str, str | int] = MappingProxyType(
    {
        # attribute of a node that rules may write: an object, or the length of a text
        "description": 4096,
        "driver": 255,
        "driver_info": OBJECT,
        "extra": OBJECT,
        "lessee": 255,
        "owner": 255,
        "properties": OBJECT,
        "resource_class": 80,
        "shard": 255,
    }
)
PORT: Mapping[str, str | int] = MappingProxyType(
    {"category": 80, "description": 255, "extra": OBJECT, "physical_network": 64, "vendor": 32}
)
_PATH = re.compile(r"/?([^/]+(?:/[^/]+)*)")


@dataclasses.dataclass(slots=True)
class Subject:
    """A node in the middle of its inspection.

    :ivar node: its public fields; those of `NODE` may be changed.
    :ivar plugin_data: what hooks have found; changed in place.
    :ivar ports: UUID -> the fields of a port, with ``address``; those of `PORT` may be changed.
    :ivar traits: the node's.
    :ivar changed: names of what was changed: fields of the node, ``traits``, ``plugin_data``, and
        for a port its UUID.
    :ivar said: (level, sentence) for the log.
    """

    node: Json
    inventory: Mapping[str, Any]
    plugin_data: Json
    ports: dict[str, Json] = dataclasses.field(default_factory=dict)
    traits: set[str] = dataclasses.field(default_factory=set)
    changed: set[str] = dataclasses.field(default_factory=set)
    said: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def view(self, *, secrets: bool) -> dict[str, Any]:
        """Return what templates can name: ``node``, ``inventory``, ``plugin_data``.

        :param secrets: False hides them, as everywhere.
        """
        whole = {
            "node": {**self.node, "traits": sorted(self.traits)},
            "inventory": self.inventory,
            "plugin_data": self.plugin_data,
        }
        return whole if secrets else {name: masking.mask(part) for name, part in whole.items()}


def path(text: Any) -> list[str]:
    """Return the words of a path such as ``/properties/cpus`` or ``properties/cpus``.

    :raises errors.InvalidParameter: it is none.
    """
    found = _PATH.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        reason = f"{str(text)[:80]!r} is no path such as /properties/key"
        raise errors.InvalidParameter(path="path", reason=reason)
    return found[1].split("/")


def writable(text: Any, table: Mapping[str, str | int]) -> list[str]:
    """Return the words of a path to what rules may write.

    :raises errors.InvalidParameter: it is none, or leads elsewhere.
    """
    words = path(text)
    if words[0] not in table:
        reason = f"{words[0]!r} cannot be written by a rule; these can: {', '.join(table)}"
        raise errors.InvalidParameter(path="path", reason=reason)
    if (table[words[0]] == OBJECT) == (len(words) == 1):
        what = "a key of it" if table[words[0]] == OBJECT else "it alone"
        raise errors.InvalidParameter(path="path", reason=f"of {words[0]!r}, name {what}")
    return words
