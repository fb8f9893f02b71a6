"""Changes of Ironic's tables on the way back: rows to add, change and remove. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields
from ironic_lite.features.move_in import rules, tables
from ironic_lite.features.move_in.tables import TABLES, ColumnForm, IronicTable


class RowChange(NamedTuple):
    """A row there that is added, changed or removed.

    :ivar key: values of columns that find the row; empty for a new one.
    :ivar values: the written columns; None removes all rows with the key.
    """

    table: str
    key: JsonView
    values: Json | None


# One row.

_STEPS = ("clean_step", "deploy_step", "service_step")


def node_changes(theirs: JsonView, ours: JsonView, move: rules.Move) -> Json:
    """Return the columns of a node there that differ here since the import.

    A node whose state is written is at rest: nothing of its work there is left.
    """
    found = tables.changes(TABLES["nodes"], theirs, ours, move)
    if "provision_state" in found:
        notes = rules.NOTES.there(ours["driver_internal_info"], ours, {}, move)
        found |= {"reservation": None, "target_power_state": None, "driver_internal_info": notes}
        found["target_provision_state"] = ours["target_provision_state"]
        found |= {name: {} for name in _STEPS}
    return with_version(TABLES["nodes"], theirs, found, move)


def with_version(table: IronicTable, theirs: JsonView, found: Json, move: rules.Move) -> Json:
    """Return changed columns with the version of objects that the releases of the head write."""
    found = {name: one for name, one in _filled(table, found, move).items() if one != theirs[name]}
    version = table.version(move.head)
    stale = bool(found) and version is not None and theirs["version"] != version
    return {**found, "version": version} if stale else found


def new_row(table: IronicTable, ours: JsonView, move: rules.Move, **more: object) -> Json:
    """Return a new row there for a row of ours.

    :param more: columns that no column here decides.
    """
    found = tables.reverse(table, ours, {}, move)
    steps: Json = {name: {} for name in _STEPS} if table.name == "nodes" else {}
    known = {"version": table.version(move.head), "created_at": move.at}
    return _filled(table, {**known, **steps, **found, **more}, move)


def _filled(table: IronicTable, found: Json, move: rules.Move) -> Json:
    """Return columns with objects and lists in place of NULL, as Ironic has them."""
    unset = {
        column.name: column.rule.here(None, {}, move)
        for column in table.columns
        if column.form is ColumnForm.JSON and found.get(column.name, False) is None
    }
    return {**found, **unset}


def lost_columns(table: IronicTable, ours: JsonView, move: rules.Move) -> Iterator[str]:
    """Yield the columns with values here that the head does not have."""
    known = {column.name for column in table.of_head(move.head)}
    for column in table.columns:
        value = None if column.name in known else ours.get(column.ours or "")
        if value is not None and value != column.rule.here(None, {}, move):
            yield column.name


# Lists that are rows there.

_DEFAULTS: Json = {"args": {}, "priority": 0, "order": 0}


def steps_there(table: IronicTable, steps: Iterable[JsonView], move: rules.Move) -> list[Json]:
    """Return the rows of steps of a template or a runbook, without its id."""
    return [new_row(table, {**_DEFAULTS, **one}, move) for one in steps]


def same_steps(
    table: IronicTable, theirs: Iterable[JsonView], ours: Iterable[JsonView], move: rules.Move
) -> bool:
    """Return whether two lists of steps in our form are equal."""
    one, other = (
        [tables.reverse(table, {**_DEFAULTS, **step}, {}, move) for step in steps]
        for steps in (theirs, ours)
    )
    return one == other


# What that Ironic cannot have.

NAMES: Mapping[str, str] = {
    "driver": "fake-hardware idrac ipmi manual-management redfish",
    "bios": "fake idrac-redfish no-bios redfish",
    "boot": "fake http http-ipxe idrac-redfish-virtual-media ipxe pxe redfish-https "
    "redfish-virtual-media",
    "console": "fake ipmitool-socat no-console",
    "deploy": "custom-agent direct fake ramdisk",
    "firmware": "fake no-firmware redfish",
    "inspect": "agent fake idrac-redfish no-inspect redfish",
    "management": "fake idrac-redfish ipmitool noop redfish",
    "network": "noop",
    "power": "agent fake idrac-redfish ipmitool redfish",
    "raid": "agent fake idrac-redfish no-raid redfish",
    "rescue": "agent fake no-rescue",
    "storage": "noop",
    "vendor": "fake idrac-redfish ipmitool no-vendor redfish",
}
"""Names of this service that every release of Ironic has, by kind."""
LATER_NAMES = {("deploy", "autodetect"): "2a3b4c5d6e7f", ("deploy", "noop"): "2a3b4c5d6e7f"}


def path_of(kind: str) -> str:
    """Return the column with a name of a kind of interface, or of the hardware type."""
    return rules.DRIVER if kind == rules.DRIVER else f"{kind}_interface"


def unknown_names(
    written: JsonView, used: Mapping[str, frozenset[str]], head: str
) -> Iterator[tuple[str, str]]:
    """Yield column and name of each written interface that this Ironic does not have.

    :param used: names that nodes there have, by column.
    """
    for kind in (rules.DRIVER, *fields.INTERFACE_KINDS):
        column = path_of(kind)
        name = written.get(column)
        since = LATER_NAMES.get((kind, str(name)))
        later = since is not None and rules.HEADS.index(head) >= rules.HEADS.index(since)
        known = name is None or name in NAMES[kind].split() or later
        if not known and name not in used.get(column, ()):
            yield column, str(name)


_OTHER_KEYS = frozenset({"ilo", "ilo5", "irmc", "ibmc", "xclarity"})
"""Hardware types there whose maps lead to redfish, and that do not read its keys."""


def keys_without_way_back(theirs: JsonView, written: JsonView, move: rules.Move) -> list[str]:
    """Return the new keys of a written ``driver_info`` that its hardware type does not read."""
    there = written.get(rules.DRIVER, theirs[rules.DRIVER])
    here = rules.mapped_driver({rules.DRIVER: there}, move)
    if there not in _OTHER_KEYS or here == there:
        return []
    old = theirs["driver_info"] or {}
    new = written.get("driver_info") or {}
    return sorted(key for key in new if key.startswith(f"{here}_") and key not in old)


class ColumnLimit(NamedTuple):
    """The limits of a text column there.

    :ivar characters: None without a limit, as ``size`` in bytes.
    :ivar wide: it takes characters of four bytes.
    """

    characters: int | None = None
    size: int | None = None
    wide: bool = True


Limits = Mapping[str, Mapping[str, ColumnLimit]]
"""By table and column there."""


def too_large(change: RowChange, limits: Limits) -> Iterator[tuple[str, str]]:
    """Yield column and fault of each written value that its column cannot have."""
    known = limits.get(change.table, {})
    for name, value in (change.values or {}).items():
        limit = known.get(name)
        if limit is None or value is None:
            continue
        text = stored(change.table, name, value)
        if not isinstance(text, str):
            continue
        size = len(text.encode())
        if limit.characters is not None and len(text) > limit.characters:
            yield name, f"has {len(text)} characters, and may have {limit.characters} there"
        elif limit.size is not None and size > limit.size:
            yield name, f"has {size} bytes, and may have {limit.size} there"
        elif not limit.wide and not text.isascii() and max(text) > "\uffff":
            yield name, "has characters of four bytes, which the database there cannot have"


def stored(table: str, column: str, value: Any) -> Any:
    """Return a value as its column there has it: JSON is text, as Ironic writes it."""
    form = next((one.form for one in TABLES[table].columns if one.name == column), None)
    if form is not ColumnForm.JSON or value is None:
        return value
    return json.dumps(value)


UNIQUE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(("chassis", "inspection_rules"), (("uuid",),)),
    **dict.fromkeys(("allocations", "deploy_templates", "runbooks"), (("uuid",), ("name",))),
    **dict.fromkeys(("portgroups", "ports"), (("uuid",), ("name",), ("address",))),
    "nodes": (("uuid",), ("name",), ("instance_uuid",)),
    "volume_connectors": (("uuid",), ("type", "connector_id")),
    "volume_targets": (("uuid",), ("node_id", "boot_index")),
}
"""Columns there whose values together belong to one row."""


def unique_columns(table: str) -> tuple[str, ...]:
    """Return the columns that `doubled_values` needs, the id first."""
    known = {one.name for one in TABLES[table].columns}
    found = ("id", "node_id", *(name for columns in UNIQUE[table] for name in columns))
    return tuple(name for name in dict.fromkeys(found) if name in known)


class DoubledValue(NamedTuple):
    """A value that two rows there would have."""

    table: str
    column: str
    new: str
    other: str


def doubled_values(
    changes: Iterable[RowChange], there: Mapping[str, Mapping[int, Json]], *, fold: bool
) -> Iterator[DoubledValue]:
    """Yield the values that changes would write beside equal ones.

    :param there: rows with `unique_columns` by table and id, before the changes.
    :param fold: the database there takes texts as equal that differ in case alone.
    """
    found = {table: dict(rows) for table, rows in there.items()}
    written, removed = set(), set()
    for number, one in enumerate(changes):
        rows = found.get(one.table, {})
        ident = one.key.get("id", -1 - number)
        if one.values is not None:
            rows[ident] = {**rows.get(ident, {}), **one.values}
            written.add((one.table, ident))
        else:
            rows.pop(ident, None)
            removed.update([ident] if one.table == "nodes" else [])
    for table, rows in found.items():
        for columns in UNIQUE[table]:
            known: dict[tuple[Any, ...], int] = {}
            for ident, row in rows.items():
                values = tuple(_folded(row.get(name), fold) for name in columns)
                if None in values or (row.get("node_id") in removed and table != "allocations"):
                    continue
                other = known.setdefault(values, ident)
                if other != ident and {(table, ident), (table, other)} & written:
                    new, old = (ident, other) if (table, ident) in written else (other, ident)
                    name = columns[-1]
                    yield DoubledValue(table, name, str(rows[new][name]), str(rows[old][name]))


def _folded(value: object, fold: bool) -> object:
    return value.casefold() if fold and isinstance(value, str) else value


# The order of writing.

_RELEASED: Mapping[str, tuple[str, ...]] = {
    "nodes": ("name", "instance_uuid", "allocation_id", "chassis_id"),
    "ports": ("name", "address", "portgroup_id"),
    "portgroups": ("name", "address"),
    "allocations": ("name", "node_id"),
    "deploy_templates": ("name",),
    "runbooks": ("name",),
    "volume_connectors": ("connector_id",),
    "volume_targets": ("boot_index",),
}
"""Columns whose old values keep others from a place, or from being removed."""
_ORDER = {name: place for place, name in enumerate(TABLES)}


def _free_value(table: str, column: str, key: JsonView) -> Any:
    """Return a value that no row has, for a column that may not be NULL."""
    if column == "boot_index":
        return -int(key["id"])
    mandatory = (table, column) in (("deploy_templates", "name"), ("runbooks", "name"))
    return f"moved-{key['id']}" if mandatory or column == "connector_id" else None


def ordered(changes: Sequence[RowChange], head: str) -> Iterator[RowChange]:
    """Yield all changes in an order that breaks no reference and doubles no value.

    Rows that name or follow a removed one go first. New ones follow their parents, and nodes get
    their allocations last.
    """
    changed = [one for one in changes if one.values is not None and one.key]
    added = [one for one in changes if one.values is not None and not one.key]
    yield from _released(changed)
    yield from _removals([one for one in changes if one.values is None], head)
    for one in sorted(added, key=lambda each: _ORDER[each.table]):
        yield _without_allocation(one)
    yield from changed
    yield from map(_allocation_of, filter(_has_allocation, added))


def _released(changed: Iterable[RowChange]) -> Iterator[RowChange]:
    for one in changed:
        names = [name for name in _RELEASED.get(one.table, ()) if name in (one.values or {})]
        if names:
            free = {name: _free_value(one.table, name, one.key) for name in names}
            yield RowChange(one.table, one.key, free)


def _removals(removed: Sequence[RowChange], head: str) -> Iterator[RowChange]:
    nodes = [one.key for one in removed if one.table == "nodes"]
    for key in nodes:
        yield RowChange("nodes", key, {"allocation_id": None})
        yield RowChange("allocations", {"node_id": key["id"]}, {"node_id": None})
    for name in reversed(list(TABLES)):
        for one in removed:
            if one.table == name:
                yield from _parts_of(one, head)
                yield one


def _parts_of(one: RowChange, head: str) -> Iterator[RowChange]:
    for part in reversed(tables.parts(one.table)):
        if part.of_head(head):
            yield RowChange(part.name, {part.parent: one.key["id"]}, None)


def _has_allocation(one: RowChange) -> bool:
    return one.table == "nodes" and (one.values or {}).get("allocation_id") is not None


def _without_allocation(one: RowChange) -> RowChange:
    if not _has_allocation(one):
        return one
    return one._replace(values={**(one.values or {}), "allocation_id": None})


def _allocation_of(one: RowChange) -> RowChange:
    values = one.values or {}
    return RowChange("nodes", {"id": values["id"]}, {"allocation_id": values["allocation_id"]})
