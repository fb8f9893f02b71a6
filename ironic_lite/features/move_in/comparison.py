"""Comparison of the documents of two services. Pure.

An object is a JSON value with a name. Each list of a service, and each list of a node, is a mapping
of names to objects.
"""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterator
from typing import NamedTuple

import orjson

from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.features.move_in.differences import (
    BOOT_DEVICE,
    DRIVERS,
    HISTORY,
    LEFT_OUT,
    NODES,
    SECONDS,
    ExpectedDifference,
    MoveNotes,
    ValueDifference,
    has_links,
    rule_of,
)
from ironic_lite.features.move_in.rules import ABSENT

Objects = JsonView

EXAMPLES = 3
MOST_PATHS = 1000
"""Paths that are reported on their own; clients choose keys, so there may be any number."""
OTHER_PATHS = "(other paths)"
_DEEPEST = 6  # keys of a path; values below are compared whole
_LONGEST = 200  # characters of a value, and of a path
_SETS = frozenset({"traits", "hosts"})
"""Keys of lists whose order has no meaning."""


class ObjectList(NamedTuple):
    """A list of objects, as the API shows it.

    ``path``: behind ``/v1/``, or behind a node's path for `DETAILS`. ``key``: the list in the body;
    empty if the body is one object. ``names``: the keys that name an object. ``since``: the first
    microversion with it.
    """

    resource: str
    path: str
    key: str
    names: tuple[str, ...] = ("uuid",)
    since: int = 1


LISTINGS: tuple[ObjectList, ...] = (
    ObjectList(NODES, "nodes?detail=true&include_children=true", "nodes"),
    ObjectList("ports", "ports?detail=true", "ports"),
    ObjectList("portgroups", "portgroups?detail=true", "portgroups"),
    ObjectList("chassis", "chassis?detail=true", "chassis"),
    ObjectList("volume connectors", "volume/connectors?detail=true", "connectors"),
    ObjectList("volume targets", "volume/targets?detail=true", "targets"),
    ObjectList("allocations", "allocations", "allocations"),
    ObjectList("deploy templates", "deploy_templates?detail=true", "deploy_templates"),
    ObjectList("runbooks", "runbooks?detail=true", "runbooks", since=92),
    ObjectList("inspection rules", "inspection_rules?detail=true", "inspection_rules", since=96),
    ObjectList(DRIVERS, "drivers", "drivers", ("name",)),
)
"""Lists of a service, nodes first, because drivers are those in use."""
DETAILS: tuple[ObjectList, ...] = (
    ObjectList("nodes/traits", "traits", ""),
    ObjectList("nodes/bios", "bios?detail=true", "bios", ("name",)),
    ObjectList("nodes/firmware", "firmware", "firmware", ("component",)),
    ObjectList("nodes/inventory", "inventory", ""),
    ObjectList("nodes/volume connectors", "volume/connectors?detail=true", "connectors"),
    ObjectList("nodes/volume targets", "volume/targets?detail=true", "targets"),
    ObjectList("nodes/vifs", "vifs", "vifs", ("id",)),
    ObjectList(BOOT_DEVICE, "management/boot_device", ""),
    ObjectList(HISTORY, "history?detail=true", "history", ("created_at", "event")),
)
"""Further documents of one node, by paths below it."""


def objects(listing: ObjectList, body: Json) -> Json | None:
    """Return the masked objects of a body by their names, None if it has another form."""
    if not listing.key:
        return {"": masked(listing.resource, body)}
    found = body.get(listing.key)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        return None
    named: Json = {}
    for one in found:
        # MariaDB keeps the seconds of Ironic's times.
        first = name = " ".join(
            str(one.get(key))[:SECONDS] if key == "created_at" else str(one.get(key))
            for key in listing.names
        )
        number = 1
        while name in named:
            number += 1
            name = f"{first} ({number})"
        named[name] = masked(listing.resource, one)
    return named


def masked(resource: str, one: object) -> object:
    """Return an object without its secrets."""
    if not isinstance(one, dict):
        return masking.mask(one)
    if resource == "nodes/bios" and str(one.get("attribute_type")).lower() == "password":
        one = {**one, "value": one.get("value") and masking.MASK}
    if resource != NODES:
        return masking.mask(one)
    shown = masking.mask(one)
    return {name: masking.field(name, held) for name, held in shown.items()}


def differences(
    resource: str, name: str, there: Objects, here: Objects
) -> Iterator[ValueDifference]:
    """Yield all differences of the objects of both sides, `ABSENT` for an object of one side.

    :param name: of what has the objects, such as a node; empty for a list of the service.
    """
    both = there.keys() & here.keys()
    ends = (max(there, default=""), min(both, default=""))
    for key in {**there, **here}:
        old, new = there.get(key, ABSENT), here.get(key, ABSENT)
        whole = (old, new) if key in both else ends
        # Rules compare names of history by their times.
        shown = key if resource == HISTORY else " ".join(filter(None, (name, key)))
        for path, *values in _values(old, new, ()):
            yield ValueDifference(resource, shown, path, values[0], values[1], whole)


def _values(
    there: object, here: object, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], object, object]]:
    """Yield path and values of each difference between two values."""
    if isinstance(there, dict) and isinstance(here, dict) and len(path) < _DEEPEST:
        for key in {**there, **here}:
            yield from _values(there.get(key, ABSENT), here.get(key, ABSENT), (*path, key))
    elif _are_alike(there, here) and len(path) < _DEEPEST:
        assert isinstance(there, list)
        assert isinstance(here, list)
        for old, new in zip(there, here, strict=True):
            yield from _values(old, new, (*path, "[]"))
    elif not _same(there, here, ordered=not path or path[-1] not in _SETS):
        yield path, there, here


def _are_alike(there: object, here: object) -> bool:
    """Return whether both are lists of equally many objects, which are compared one by one."""
    if not isinstance(there, list) or not isinstance(here, list) or len(there) != len(here):
        return False
    return not has_links(there) and all(isinstance(one, dict) for one in (*there, *here))


def _same(there: object, here: object, *, ordered: bool) -> bool:
    if there is ABSENT or here is ABSENT:
        return there is here
    old, new = (
        sorted(map(_text, one)) if isinstance(one, list) and not ordered else _text(one)
        for one in (there, here)
    )
    return old == new


def _text(value: object) -> str:
    """Return an equal text for equal JSON; True is not 1."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


@dataclasses.dataclass(slots=True)
class _PathGroup:
    """The differences of one path."""

    count: int = 0
    examples: list[Json] = dataclasses.field(default_factory=list)


class ComparisonReport:
    """Differences by their paths, in bounded memory."""

    def __init__(self, moves: MoveNotes | None = None) -> None:
        self._moves = moves or MoveNotes()
        self._left_out: set[object] = set()
        self.compared: collections.Counter[str] = collections.Counter()
        self._groups: dict[str, _PathGroup] = {}
        self._expected: collections.Counter[ExpectedDifference] = collections.Counter()

    def compare(self, resource: str, name: str, there: Objects, here: Objects) -> None:
        """Add what differs between the objects of both sides."""
        self.compared[resource] += 1
        for one in differences(resource, name, there, here):
            rule = LEFT_OUT if self._is_left_out(one) else rule_of(one, self._moves)
            if rule is None:
                self._add(one, name)
            else:
                self._expected[rule] += 1

    def _is_left_out(self, one: ValueDifference) -> bool:
        """Return whether an object, or its node, was not to be imported; nodes come first."""
        if one.here is not ABSENT or one.path or not isinstance(one.there, dict):
            return False
        if one.resource == NODES and self._moves.explain_absence(one.there):
            self._left_out.add(one.there.get("uuid"))
        return one.there.get("uuid" if one.resource == NODES else "node_uuid") in self._left_out

    def _add(self, one: ValueDifference, owner: str) -> None:
        path = _path(one)
        if path not in self._groups and len(self._groups) >= MOST_PATHS:
            path = OTHER_PATHS
        group = self._groups.setdefault(path, _PathGroup())
        group.count += 1
        if len(group.examples) < EXAMPLES:
            name = one.name if owner in one.name else f"{owner} {one.name}"
            called = next(filter(None, one.around("name")), None)
            example: Json = {"name": _cut(f"{name} ({called})" if called else name)}
            for side, value in (("there", one.there), ("here", one.here)):
                if value is not ABSENT:
                    example[side] = value if len(_text(value)) <= _LONGEST else _cut(_text(value))
            group.examples.append(example)

    @property
    def exit_status(self) -> int:
        """0 without an unexpected difference, else 1."""
        return int(bool(self._groups))

    def document(self) -> Json:
        """Return the report as JSON."""
        groups = sorted(self._groups.items(), key=lambda one: (-one[1].count, one[0]))
        return {
            "compared": dict(self.compared),
            "differences": [
                {"path": path, "count": group.count, "examples": group.examples}
                for path, group in groups
            ],
            "expected": [
                {"rule": rule.name, "count": count, "text": rule.text}
                for rule, count in self._expected.most_common()
            ],
            "exit": self.exit_status,
        }


def _path(one: ValueDifference) -> str:
    words = ".".join((one.resource, *one.path)).replace(".[]", "[]")
    return _cut(words)


def _cut(text: str) -> str:
    """Return a text that a terminal can show, and not a long one."""
    shown = "".join(one if one.isprintable() else "?" for one in text[: _LONGEST + 1])
    return shown if len(text) <= _LONGEST else f"{shown[:_LONGEST]}..."


def lines(report: Json) -> Iterator[str]:
    """Yield the lines of a report of `ComparisonReport.document`."""
    for group in report["differences"]:
        yield f"{group['count']:>7} {group['path']}"
        for one in group["examples"]:
            there, here = (
                json.dumps(one[side]) if side in one else "absent" for side in ("there", "here")
            )
            yield f"        {one['name']}: {there} in Ironic, {here} here"
    for one in report["expected"]:
        yield f"{one['count']:>7} expected: {one['rule']} ({one['text']})"
    counts = ", ".join(f"{count} {name}" for name, count in report["compared"].items())
    found = len(report["differences"])
    result = f"{found} paths differ" if found else "No unexpected difference"
    yield f"{result}. Compared: {counts or 'nothing'}."
