"""The data that rules read, and the changes they may make."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, names
from ironic_lite.domain.inspection_rules.calls import Call

PHASES = ("main",)
"""Phases in which rules are applied: after all hooks, before the inspection ends."""

OBJECT, NAME, WORD = "object", "name", "word"
FLAG, ANSWER = "flag", "answer"
"""Kinds of attributes besides texts: a flag cannot be null, an answer can.

An answer may be true, false, or null.
"""

NODE: Mapping[str, str | int] = MappingProxyType(
    {
        # attribute of a node that rules may write -> its kind, or the length of a text
        "automated_clean": ANSWER,
        "description": 4096,
        "driver": WORD,
        "driver_info": OBJECT,
        "extra": OBJECT,
        "lessee": 255,
        "name": NAME,
        "owner": 255,
        "properties": OBJECT,
        "resource_class": 80,
        "shard": 255,
        **{f"{kind}_interface": WORD for kind in fields.INTERFACE_KINDS},
    }
)
PORT: Mapping[str, str | int] = MappingProxyType(
    {
        "category": 80,
        "description": 255,
        "extra": OBJECT,
        "physical_network": 64,
        "pxe_enabled": FLAG,
        "vendor": 32,
    }
)
_FLAGS = {True: True, False: False, "true": True, "yes": True, "false": False, "no": False}
_PATH = re.compile(r"/?([^/]+(?:/[^/]+)*)")


@dataclasses.dataclass(slots=True)
class Subject:
    """A node during its inspection.

    :ivar node: its public fields; those of `NODE` may be changed.
    :ivar plugin_data: the results of hooks; changed in place.
    :ivar ports: UUID -> the fields of a port, with ``address``; those of `PORT` may be changed.
    :ivar traits: the node's.
    :ivar changed: names of the changes: fields of the node, ``traits``, ``plugin_data``, and for a
        port its UUID.
    :ivar said: (level, sentence) for the log.
    :ivar call: makes a call that a rule requests; None: calls are not possible.
    """

    node: Json
    inventory: JsonView
    plugin_data: Json
    ports: dict[str, Json] = dataclasses.field(default_factory=dict)
    traits: set[str] = dataclasses.field(default_factory=set)
    changed: set[str] = dataclasses.field(default_factory=set)
    said: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    call: Callable[[Call], None] | None = None

    def view(self, *, secrets: bool) -> Json:
        """Return the names for templates: ``node``, ``inventory``, ``plugin_data``.

        :param secrets: False masks them, as everywhere.
        """
        whole = {
            "node": {**self.node, "traits": sorted(self.traits)},
            "inventory": self.inventory,
            "plugin_data": self.plugin_data,
        }
        return whole if secrets else {name: masking.mask(part) for name, part in whole.items()}


def path(text: object) -> list[str]:
    """Return the words of a path such as ``/properties/cpus``, or ``properties.cpus``.

    Dots separate words only in a path without slashes.

    :raises errors.InvalidParameter: it is not a path.
    """
    found = _PATH.fullmatch(text) if isinstance(text, str) else None
    words = found[1].split("/" if "/" in found[0] else ".") if found else [""]
    if not all(words):
        reason = f"{str(text)[:80]!r} is no path such as /properties/key"
        raise errors.InvalidParameter(path="path", reason=reason)
    return words


def writable(text: object, table: Mapping[str, str | int]) -> list[str]:
    """Return the words of a path that rules may write.

    :raises errors.InvalidParameter: it is not a path, or leads elsewhere.
    """
    words = path(text)
    if words[0] not in table:
        reason = f"{words[0]!r} cannot be written by a rule; these can: {', '.join(table)}"
        raise errors.InvalidParameter(path="path", reason=reason)
    if table[words[0]] != OBJECT and len(words) > 1:
        raise errors.InvalidParameter(path="path", reason=f"of {words[0]!r}, name it alone")
    return words


def fitting(root: str, value: object, kind: str | int) -> Any:
    """Return a value in the form of an attribute.

    :param kind: of `NODE` or `PORT`.
    :raises errors.InvalidParameter: the attribute cannot hold it.
    """
    if kind == OBJECT:
        return dict(_checked_value(root, value, isinstance(value, Mapping), "must be an object"))
    if kind in (FLAG, ANSWER):
        word = value.lower() if isinstance(value, str) else value
        known = word in _FLAGS if isinstance(word, bool | str) else word is None and kind == ANSWER
        return _FLAGS.get(_checked_value(root, word, known, "must be true or false"))
    if value is None:
        return _checked_value(root, None, kind != WORD, "must not be null")
    text = str(value)
    if kind == NAME:
        return _checked_value(root, text, names.of_node(text), "is no name that a node can have")
    room = 255 if kind == WORD else int(kind)
    return _checked_value(root, text, len(text) <= room, f"is longer than {room} characters")


def _checked_value(root: str, value: object, good: bool, reason: str) -> Any:
    if not good:
        raise errors.InvalidParameter(path=root, reason=reason)
    return value
