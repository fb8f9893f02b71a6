"""Checks of rows of an import: what fits here, what is lost, and what is here already."""

from __future__ import annotations

import datetime
import functools
import pathlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.api.validation import schemas
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models
from ironic_lite.domain import fields, versions, vocabulary
from ironic_lite.domain.allocations import AllocationState
from ironic_lite.domain.states import State
from ironic_lite.features.move_in import rows, rules
from ironic_lite.features.move_in.report import INFO, LOSS, MAPPED, PATH, REFUSED, MoveFinding
from ironic_lite.features.move_in.rules import Move
from ironic_lite.features.move_in.source import IronicRow
from ironic_lite.features.move_in.tables import IronicTable

RESOURCES: Mapping[str, str] = {
    **{"nodes": "node", "node_traits": "trait", "node_tags": "tag", "ports": "port"},
    **{"portgroups": "portgroup", "volume_connectors": "volume connector"},
    **{"volume_targets": "volume target", "bios_settings": "BIOS setting"},
    **{"firmware_information": "firmware component", "node_inventory": "inventory"},
    **{"node_history": "history entry", "chassis": "chassis", "allocations": "allocation"},
    **{"deploy_templates": "deploy template", "runbooks": "runbook"},
    "inspection_rules": "inspection rule",
    **dict.fromkeys(("deploy_template_steps", "runbook_steps"), "step"),
    "runbook_traits": "trait",
}
"""Names of the objects of a table there."""

NO_INVENTORY = MoveFinding(
    *(INFO, "node", "inventory", "was inspected, but the database has no inventory of it"),
    "Inspect it here after its release, if [inventory]data_backend is swift or none there.",
)

# Values that do not fit.


@functools.cache
def _lengths(table: str) -> tuple[tuple[str, int], ...]:
    found = models.metadata.tables[table].columns
    lengths = ((str(one.name), getattr(one.type, "length", None)) for one in found)
    return tuple((name, length) for name, length in lengths if length is not None)


def too_long(table: IronicTable, ours: JsonView) -> Iterator[tuple[str, str]]:
    """Yield the path and the fault of each text that is longer than its column here."""
    for name, length in () if table.ours is None else _lengths(table.ours):
        value = ours.get(name)
        if isinstance(value, str) and len(value) > length:
            yield name, f"has {len(value)} characters, and may have {length} here"


@functools.cache
def _mandatory(table: str) -> tuple[str, ...]:
    columns = models.metadata.tables[table].columns
    return tuple(
        str(one.name)
        for one in columns
        if not one.nullable and one.server_default is None and one.name not in ("id", "generation")
    )


def lacks(table: IronicTable, ours: JsonView) -> str | None:
    """Return why a row cannot be stored: a mandatory value that is NULL there."""
    for name in () if table.ours is None else _mandatory(table.ours):
        if name in ours and ours[name] is None:
            return f"{name} is unset"
    return None


# Rows that are here.


class SharedRows:
    """Rows of a table here that belong to no node: an equal one is skipped, another one refused."""

    def __init__(self, target: Connection, table: IronicTable) -> None:
        assert table.ours is not None
        self._resource = RESOURCES[table.name]
        self._names = "name" in models.metadata.tables[table.ours].c
        self._rows: dict[str, Json] = {}
        self._by_name: dict[str, Json] = {}
        for found in rows.whole(target, table.ours):
            self._rows[found["uuid"]] = found
            if self._names and found["name"] is not None:
                self._by_name[found["name"]] = found

    def _equal(self, here: JsonView, ours: JsonView) -> bool:
        times = ("created_at", "updated_at")
        return all(here[name] == value for name, value in ours.items() if name not in times)

    def has(self, ours: JsonView) -> bool:
        """Return whether an equal row is here."""
        here = self._rows.get(ours["uuid"])
        return here is not None and self._equal(here, ours)

    def refusal(self, ours: JsonView) -> Iterator[MoveFinding]:
        """Yield the refusal of a row whose UUID or name another one has here."""
        if self.has(ours):
            return
        taken = self._rows.get(ours["uuid"])
        path = "uuid"
        if taken is None and self._names and ours["name"] is not None:
            taken, path = self._by_name.get(ours["name"]), "name"
        if taken is not None:
            text = f"another one with this {path} is here"
            do = "Rename or delete one of both, or use --leave-out."
            yield MoveFinding(REFUSED, self._resource, path, text, do)


_UNIQUE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "nodes": (("uuid",), ("name",), ("instance_uuid",)),
    "ports": (("uuid",), ("address",), ("name",)),
    "portgroups": (("uuid",), ("name",), ("address",)),
    "volume_connectors": (("uuid",), ("type", "connector_id")),
    "volume_targets": (("uuid",),),
}
"""Columns whose values together belong to one row here, by table there."""


class KnownFolders(NamedTuple):
    """Folders whose files nodes may name."""

    files: tuple[str, ...]
    authorities: str


class NodeChecks:
    """Checks of nodes and of their parts.

    :ivar uuids: of the nodes that are here.
    """

    def __init__(self, folders: KnownFolders) -> None:
        self._folders = folders
        self.uuids: Collection[str] = ()
        self._taken: dict[str, dict[tuple[str, ...], Mapping[Any, str]]] = {}

    def read_target(self, conn: Connection) -> None:
        """Read the unique values that are here."""
        for name, keys in _UNIQUE.items():
            found = {columns: rows.values(conn, name, columns) for columns in keys}
            self._taken[name] = {
                columns: dict.fromkeys(some, "") for columns, some in found.items()
            }
        imported = {
            (uuid,): f", imported{f' by {by}' if by else ''} at {_moment(at)}"
            for uuid, by, at in rows.origins(conn)
        }
        known = self._taken["nodes"]["uuid",]
        self.uuids = frozenset(key[0] for key in known)
        self._taken["nodes"]["uuid",] = {**known, **imported}

    def _here(self, name: str, ours: JsonView) -> Iterator[MoveFinding]:
        for columns, taken in self._taken.get(name, {}).items():
            key = tuple(ours[one] for one in columns)
            if None not in key and key in taken:
                text = f"one with this {' and '.join(columns)} is here{taken[key]}"
                do = (
                    "Choose other nodes (--nodes, --group), delete one of both, or use --leave-out."
                )
                yield MoveFinding(REFUSED, RESOURCES[name], columns[0], text, do)
                return

    def of_node(self, theirs: JsonView, ours: JsonView, move: Move) -> Iterator[MoveFinding]:
        """Yield what there is to tell about a node."""
        yield from self._here("nodes", ours)
        if theirs["driver"] is None:
            do = "Set its driver there, or use --leave-out."
            yield MoveFinding(REFUSED, "node", "driver", "has no hardware type", do)
        if ours["name"] in vocabulary.RESERVED:
            text = "its name is reserved here: clients find it by its UUID alone"
            yield MoveFinding(INFO, "node", "name", text)
        yield from self._about_paths(ours["driver_info"])
        for key in rules.unread_keys(theirs, move):
            text = "redfish does not read this key, and the node has another one with its meaning"
            do = "Look which of both values is right."
            yield MoveFinding(INFO, "node", f"{rules.IN_DRIVER_INFO}{key}", text, do)
        drive = (theirs["instance_info"] or {}).get("configdrive")
        if isinstance(drive, str) and drive.startswith(("http://", "https://")):
            text = "its config drive is a URL, which must answer as long as the instance exists"
            yield MoveFinding(INFO, "node", "instance_info/configdrive", text)
        for key in (theirs["driver_internal_info"] or {}).keys() - rules.KEPT_NOTES:
            text = f"the key {key[:80]} is dropped"
            yield MoveFinding(INFO, "node", "driver_internal_info", text)
        yield from _about_files(ours)
        if ours["provision_state"] != (theirs["provision_state"] or State.AVAILABLE):
            before, after = theirs["provision_state"], ours["provision_state"]
            text = f"its {before} is ended, so it is in {after} here"
            do = "Its ramdisk may still run. Look at the machine before the next verb."
            yield MoveFinding(INFO, "node", "provision_state", text, do)
        group = f" of the group {ours['conductor_group']}" if ours["conductor_group"] else ""
        text = f"needs a conductor{group} with the hardware type {ours['driver']} here"
        yield MoveFinding(INFO, "node", "conductor_group", text)

    def _about_paths(self, info: JsonView) -> Iterator[MoveFinding]:
        for key, value in info.items():
            path = f"{rules.IN_DRIVER_INFO}{key[:80]}"
            if not isinstance(value, str):
                continue
            if value.startswith("file://") and not _is_below(value[7:], self._folders.files):
                text = "a file outside of the folders whose files nodes may name"
                do = "Use --map path:OLD=NEW, or set [conductor]file_url_allowed_paths."
                yield MoveFinding(PATH, "node", path, text, do)
            named = key.endswith("_verify_ca") and value.startswith("/")
            if named and not _is_below(value, (self._folders.authorities,)):
                text = f"a certificate outside of {self._folders.authorities}"
                do = "Copy it there and use --map path:OLD=NEW, or set [redfish]ca_folder."
                yield MoveFinding(PATH, "node", path, text, do)

    def motion(self, theirs: JsonView, move: Move) -> MoveFinding | None:
        """Return the refusal of a node whose work is under way."""
        state, reserved = rules.state_of(theirs), theirs["reservation"]
        if state is None:
            text = f"its provision state {str(theirs['provision_state'])[:40]} is unknown here"
            do = "Correct it there, or use --leave-out."
            return MoveFinding(REFUSED, "node", "provision_state", text, do)
        if move.end or (state not in rules.UNFINISHED and not reserved):
            return None
        by = f", reserved by {reserved}" if reserved else ""
        text = f"in {state}{by}; wait until it has ended, or use --end"
        return MoveFinding(REFUSED, "node", "provision_state", text)

    def of_part(self, name: str, theirs: IronicRow, ours: JsonView) -> Iterator[MoveFinding]:
        """Yield what there is to tell about a row of a node."""
        yield from self._here(name, ours)
        values = theirs.values
        if name in ("ports", "portgroups"):
            for key in rules.RAMDISK_PORTS & (values["internal_info"] or {}).keys():
                port = str((values["internal_info"] or {})[key])[:64]
                text = f"the Neutron port {port} of a ramdisk is not carried"
                do = "Delete it in Neutron, unless its ramdisk runs."
                yield MoveFinding(LOSS, RESOURCES[name], f"internal_info/{key}", text, do)
        if name == "bios_settings" and values["attribute_type"] == "Password" and values["value"]:
            text = "the value of a setting of the type Password is dropped"
            yield MoveFinding(LOSS, RESOURCES[name], "value", text)


def _is_below(path: str, folders: Collection[str]) -> bool:
    parents = pathlib.PurePath(path).parents
    return any(pathlib.PurePath(folder) in parents for folder in folders)


def _about_files(ours: JsonView) -> Iterator[MoveFinding]:
    """Yield that a machine boots from files of Ironic."""
    state = ours["provision_state"]
    ramdisk = state == State.ACTIVE and ours["deploy_interface"] == fields.RAMDISK
    if ramdisk or state == State.RESCUE:
        text = "its machine boots from Ironic's files"
        do = "Keep Ironic's DHCP, TFTP and web servers until it is deployed again."
        yield MoveFinding(INFO, "node", "", text, do)


def _moment(at: datetime.datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


# Rows of no node.


def rule_loss(theirs: JsonView, ours: JsonView) -> MoveFinding | None:
    """Return why an inspection rule cannot be taken."""
    resource = RESOURCES["inspection_rules"]
    if theirs["scope"] is not None:
        return MoveFinding(LOSS, resource, "scope", "a rule with a scope is not taken")
    given = {
        name: ours[name]
        for name in ("description", "phase", "priority", "sensitive", "conditions", "actions")
    }
    try:
        schemas.values(fields.INSPECTION_RULE, given, version=versions.LAST, what="inspection rule")
    except errors.InvalidParameter as why:
        path = str(why.facts.get("path", ""))
        return MoveFinding(LOSS, resource, path, f"this service refuses it: {why.message}")
    return None


def rule_findings(theirs: JsonView) -> Iterator[MoveFinding]:
    """Yield what changes in an inspection rule."""
    if any(map(rules.has_expression, theirs["conditions"] or ())):
        text = "an expression of matches gets the form that matches the same here"
        yield MoveFinding(MAPPED, RESOURCES["inspection_rules"], "conditions", text)


def allocation_findings(theirs: JsonView) -> Iterator[MoveFinding]:
    """Yield what changes in an allocation."""
    if theirs["state"] == AllocationState.ALLOCATING:
        text = "it was looking for a node, and becomes error"
        yield MoveFinding(LOSS, RESOURCES["allocations"], "state", text, "Create it again.")
