"""The way back: all that has changed here since an import, written into Ironic's database."""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db import copy
from ironic_lite.db.engine import encryption, faults
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models
from ironic_lite.domain import history
from ironic_lite.domain.holds import OBSERVE, TRIAL
from ironic_lite.features.move_in import checks, reversal, rules, source, tables
from ironic_lite.features.move_in.imports import Import
from ironic_lite.features.move_in.names import recorded
from ironic_lite.features.move_in.report import INFO, LOSS, REFUSED, MoveFinding, MoveReport
from ironic_lite.features.move_in.reversal import ColumnLimit, Limits, RowChange
from ironic_lite.features.move_in.source import Snapshot
from ironic_lite.features.move_in.tables import OF_NODES, SHARED, STEPS, TABLES, IronicTable
from ironic_lite.records import Event

CHANGED, ADDED, REMOVED = WHAT = ("changed", "added", "removed")
"""Changes of rows there."""
_KEYS: Mapping[str, tuple[str, ...]] = {
    # Columns that find a row of a node there, and its key here beside the node.
    "node_traits": ("trait",),
    "bios_settings": ("name",),
    "firmware_information": ("component",),
    "node_inventory": (),
}
_ONLY_MARKED = ("node_history", "node_tags")
"""Tables of parts of nodes whose rows there are not compared with rows here."""
_OLDER = "it existed here before the import, so it is not exported"
_CHANGED_THERE = "Ironic has changed it since the import"
_IMPORT_AGAIN = "Import again, or restore the database as the import has found it."
_LONGEST_USER, _LONGEST_EVENT = 64, 65_535


class _Part(NamedTuple):
    """Rows there that are compared with rows here: those of a table, and how both are found."""

    table: IronicTable
    ours: sa.Table
    keys: tuple[str, ...]

    @property
    def by_uuid(self) -> bool:
        return not self.keys

    def key(self, ours: JsonView) -> tuple[Any, ...]:
        """Return the key of a row in our form."""
        return tuple(ours[name] for name in self.keys or ("uuid",))


def _part(name: str) -> _Part:
    table = TABLES[name]
    assert table.ours is not None
    keys = ("node_uuid", *_KEYS[name]) if name in _KEYS else ()
    return _Part(table, models.metadata.tables[table.ours], keys)


class Export:
    """The way back of one import: `plan` compares, `write` writes what differs.

    :param imported: the row of the import.
    :param again: the import with the same options, which has written nothing.
    :ivar report: what was found; its counts are those of `WHAT`.
    """

    def __init__(self, there: Snapshot, imported: JsonView, again: Import) -> None:
        self.report = MoveReport()
        self.changes: list[RowChange] = []
        self.entries = 0
        self.secrets = 0
        self._there, self._import, self._again = there, imported, again
        self.origin = str(imported["uuid"])
        resolve = recorded(imported["maps"]["interfaces"])
        again.move = again.move._replace(at=imported["at"], resolve=resolve)
        again.leave_out({one["uuid"] for one in imported["left_out"]})
        self.move = again.move
        self._limits: Limits = {}
        self._not_taken = frozenset(imported["selection"]["not_taken"])
        self._kept: dict[str, int] = {}
        """The nodes of the import that are here: their ids by UUID."""
        self._new: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._used: dict[str, set[str]] = {}
        self._removed: set[int] = set()
        self._chassis: set[int | None] = set()
        """The ids of nodes there that are removed, and of chassis with nodes that are not ours."""
        self._newer: list[tuple[str, str, str]] = []
        """Tables, columns and names of rows there that are newer than the import."""

    @property
    def release(self) -> str:
        """The releases of the head there."""
        return rules.RELEASES[self._there.head]

    @property
    def empty(self) -> bool:
        """True if nothing differs."""
        return not self.changes and not self.entries

    # -- comparison ----------------------------------------------------------------------------

    def plan(self, here: Connection) -> bool:
        """Compare all rows; return whether nothing stands against the export.

        :param here: sees the rows of one moment.
        """
        self._limits = _limits(self._there)
        self._compare_nodes(here)
        for name in [one for one in OF_NODES if one not in _ONLY_MARKED]:
            self._compare_part(_part(name), here)
        for name in SHARED:
            self._compare_shared(name, here)
        self._compare_allocations(here)
        self._check_marks()
        self._check_changes()
        self._name_rest(here)
        self.entries = sum(1 for _ in self._history(here))
        if self.entries:
            self.report.count("node_history", ADDED, self.entries)
        return not self.report.has(REFUSED)

    def _refuse(self, name: str, path: str, text: str, who: str, do: str = "") -> None:
        self.report.add(MoveFinding(REFUSED, checks.RESOURCES[name], path, text, do), who)

    def _change(self, table: IronicTable, key: Json, values: Json | None, who: str) -> None:
        """Add a change, if it changes something."""
        if values == {}:
            return
        change = RowChange(table.name, key, values)
        self.changes.append(change)
        what = REMOVED if values is None else CHANGED if key else ADDED
        self.report.count(table.name, what)
        for path, text in reversal.too_large(change, self._limits):
            self._refuse(table.name, path, text, who, "Change it here first.")
        if table.ours is None:
            self.secrets += bool(values and values.get("args"))
            return
        secret = encryption.encrypted_columns(models.metadata.tables[table.ours])
        columns = {one.name: one.ours for one in table.columns}
        self.secrets += sum(1 for one in values or () if columns.get(one) in secret)

    def _lost(self, table: IronicTable, ours: JsonView, who: str) -> None:
        for name in reversal.lost_columns(table, ours, self.move):
            text = f"Ironic {self.release} has no such column"
            self.report.add(MoveFinding(LOSS, checks.RESOURCES[table.name], name, text), who)

    def _stays(self, name: str, ours: JsonView, text: str, kind: str = LOSS) -> None:
        self.report.add(MoveFinding(kind, checks.RESOURCES[name], "", text), _label(ours))

    def _is_new(self, row: JsonView) -> bool:
        return bool(row["created_at"] >= self._import["at"])

    def _compare_nodes(self, here: Connection) -> None:
        nodes, mine = models.nodes.c, self.origin
        query = sa.select(nodes.uuid, nodes.name, nodes.import_uuid, nodes.created_at)
        known = {row["uuid"]: dict(row) for row in here.execute(query).mappings()}
        there, taken = self._ids_there("nodes"), self._again.taken
        self._kept = {
            ident: key
            for ident, key in taken.items()
            if ident in known and known[ident]["import_uuid"] in (None, mine)
        }
        rest = {ident: row for ident, row in known.items() if ident not in taken}
        for ident, row in rest.items():
            if row["import_uuid"] == mine:
                text = "Ironic does not have this imported node any more"
                self._refuse("nodes", "", text, row["name"] or ident, _IMPORT_AGAIN)
        new = [one for one, row in rest.items() if row["import_uuid"] is None and self._is_new(row)]
        left = {one["uuid"] for one in self._import["left_out"]}
        for ident in filter(there.__contains__, new):
            why = "left it out" if ident in left else "not selected Ironic's node with this UUID"
            self._stays("nodes", known[ident], f"the import has {why}, so it is not exported")
        for ident, row in rest.items():
            if row["import_uuid"] is None and ident not in new:
                self._stays("nodes", row, _OLDER, INFO)
        free = itertools.count(max(there.values(), default=0) + 1)
        self._new = {ident: next(free) for ident in new if ident not in there}
        self._take_ids(here)
        self._removed = {taken[ident] for ident in taken.keys() - known.keys()}
        for ident in sorted(set(taken) - set(known)):
            self._change(TABLES["nodes"], {"id": taken[ident]}, None, ident)
        self._compare_kept(here)
        for ours in self._all_ours(here, models.nodes, "uuid", self._new):
            self._check_rest(ours)
            self._add(TABLES["nodes"], ours, _label(ours), id=self._new[ours["uuid"]])

    def _compare_kept(self, here: Connection) -> None:
        kept, taken = set(self._kept.values()), set(self._again.taken.values())
        exported = kept | self._removed
        for batch in _batches(self._there.rows("nodes")):
            for row in batch:
                self._note_names(row.values)
                if row.values["id"] not in exported:
                    self._chassis.add(row.values["chassis_id"])
                if row.values["id"] in taken:
                    self._again.marks.add("nodes", row.values)
                    self._mark("nodes", row.values, _label(row.values))
            rows = [row.values for row in batch if row.values["id"] in kept]
            found = self._ours(here, models.nodes, "uuid", map(self._uuid, rows))
            for theirs in rows:
                self._compare_node(theirs, found[self._uuid(theirs)])

    def _uuid(self, theirs: JsonView) -> str:
        return rules.canonical_uuid(theirs["uuid"] or "")

    def _note_names(self, theirs: JsonView) -> None:
        for column, name in theirs.items():
            if column == rules.DRIVER or column.endswith("_interface"):
                self._used.setdefault(column, set()).add(str(name))

    def _compare_node(self, theirs: JsonView, ours: Json) -> None:
        who = ours["name"] or ours["uuid"]
        self._names[ours["uuid"]] = who
        self._check_rest(ours)
        found = reversal.node_changes(theirs, ours, self.move)
        for key in reversal.keys_without_way_back(theirs, found, self.move):
            text = f"{theirs['driver']} of Ironic does not have this key"
            self._refuse("nodes", f"driver_info/{key}", text, who, "Remove it from the node.")
        self._change(TABLES["nodes"], {"id": theirs["id"]}, found, who)
        self._lost(TABLES["nodes"], ours, who)

    def _check_rest(self, ours: JsonView) -> None:
        who = ours["name"] or ours["uuid"]
        self._names[ours["uuid"]] = who
        state = rules.state_of(ours)
        if state in rules.UNFINISHED or ours["reservation"] or ours["target_power_state"]:
            by = f", reserved by {ours['reservation']}" if ours["reservation"] else ""
            text = f"in {ours['provision_state']}{by}: it is not at rest"
            self._refuse("nodes", "provision_state", text, who, "Wait, or abort its work.")

    def _add(self, table: IronicTable, ours: Json, who: str, **more: object) -> None:
        self._change(table, {}, reversal.new_row(table, ours, self.move, **more), who)
        self._lost(table, ours, who)

    # -- rows here -----------------------------------------------------------------------------

    def _ours(
        self, here: Connection, table: sa.Table, column: str, keys: Iterable[str]
    ) -> dict[str, Json]:
        query = sa.select(table).where(table.c[column].in_(list(keys)))
        return {row[column]: dict(row) for row in here.execute(query).mappings()}

    def _all_ours(
        self, here: Connection, table: sa.Table, column: str, keys: Collection[str]
    ) -> Iterator[Json]:
        for some in _batches(sorted(keys)):
            yield from map(dict, here.execute(_of(table, column, some)).mappings())

    def _ids_there(self, name: str) -> dict[str, int]:
        found = self._there.rows(name, columns=("id", "uuid"))
        return {self._uuid(row.values): int(row.values["id"]) for row in found}

    def _take_ids(self, here: Connection) -> None:
        """Find the ids of all rows there that others name, also of those to be added."""
        others = ("chassis", "portgroups", "allocations")
        ids = {name: self._ids_there(name) for name in others}
        ids["nodes"] = {**self._kept, **self._new}
        exported, node = ids["nodes"], models.nodes.c
        mine = (node.import_uuid == self.origin, node.created_at >= self._import["at"])
        query: sa.Select[Any] = sa.select(node.chassis_uuid).where(sa.or_(*mine))
        named = set(here.execute(query.distinct()).scalars())
        for name in others:
            ours = _part(name).ours.c
            owner = ours.get("node_uuid", sa.null())
            chosen: sa.Select[Any] = sa.select(ours.uuid, ours.created_at, owner)
            free = itertools.count(max(ids[name].values(), default=0) + 1)
            for ident, made, of_node in here.execute(chosen.order_by(ours.id)):
                new = of_node is None and made >= self._import["at"]
                if ident not in ids[name] and (new or of_node in exported or ident in named):
                    ids[name][ident] = next(free)
        self.move = self.move._replace(ids=ids)

    # -- parts of nodes ------------------------------------------------------------------------

    def _compare_part(self, part: _Part, here: Connection) -> None:
        name = part.table.name
        exported = {**self._kept, **self._new}
        seen: set[tuple[Any, ...]] = set()
        column = "uuid" if part.by_uuid else "node_uuid"
        for batch in _batches(self._again.node_rows(name), name):
            found: dict[tuple[Any, ...], Json] = {}
            keys = sorted({translated[column] for _, translated in batch})
            for row in map(dict, here.execute(_of(part.ours, column, keys)).mappings()):
                found[part.key(row)] = row
            for one, translated in batch:
                node = translated["node_uuid"]
                self._mark(name, one.values, self._names.get(node, node))
                if node not in self._kept:
                    continue
                key = part.key(translated)
                seen.add(key)
                ours = found.get(key)
                if ours is not None and ours["node_uuid"] not in exported:
                    self._stays(
                        name, ours, "it belongs to a node that is not exported, so Ironic loses it"
                    )
                    ours = None
                self._compare_row(part, one.values, ours)
        for row in self._missing(part, here, exported, seen):
            who = self._names.get(row["node_uuid"], str(row["node_uuid"]))
            self._add(part.table, row, who, **self._id_of(name, row))

    def _compare_row(self, part: _Part, theirs: JsonView, ours: Json | None) -> None:
        name = part.table.name
        key: Json = {"id": theirs["id"]} if "id" in theirs else {"node_id": theirs["node_id"]}
        if "id" not in theirs:
            key |= {one: theirs[one] for one in _KEYS[name]}
        if ours is None:
            key = {"node_id": theirs["node_id"]} if name == "node_inventory" else key
            self._change(part.table, key, None, str(key))
            return
        who = self._names.get(ours.get("node_uuid") or "", str(ours.get("uuid")))
        found = tables.changes(part.table, theirs, ours, self.move)
        found = reversal.with_version(part.table, theirs, found, self.move)
        self._change(part.table, key, found, who)
        self._lost(part.table, ours, who)

    def _missing(
        self, part: _Part, here: Connection, exported: Mapping[str, int], seen: set[Any]
    ) -> Iterator[Json]:
        """Yield the rows of exported nodes that Ironic does not have."""
        names = part.keys or ("uuid",)
        for some in _batches(sorted(exported)):
            query = sa.select(*(part.ours.c[one] for one in names))
            query = query.where(part.ours.c.node_uuid.in_(some))
            lacking = [tuple(key) for key in here.execute(query) if tuple(key) not in seen]
            for keys in _batches(sorted(lacking), part.table.name):
                wanted = set(keys)
                query = _of(part.ours, names[0], sorted({key[0] for key in keys}))
                rows = map(dict, here.execute(query).mappings())
                yield from (row for row in rows if part.key(row) in wanted)

    def _id_of(self, name: str, ours: JsonView) -> Json:
        found = self.move.ids.get(name, {}).get(ours.get("uuid", ""))
        return {} if found is None else {"id": found}

    # -- rows of no node -----------------------------------------------------------------------

    def _compare_shared(self, name: str, here: Connection) -> None:
        part = _part(name)
        found = {row["uuid"]: dict(row) for row in here.execute(sa.select(part.ours)).mappings()}
        if not part.table.of_head(self._there.head):
            for row in found.values():
                self._stays(name, row, f"Ironic {self.release} has no table for it")
            return
        last = 0
        for one, translated in self._again.shared_rows(name):
            theirs, ours = one.values, found.pop(translated["uuid"], None)
            self._mark(name, theirs, _label(translated))
            last = max(last, int(theirs["id"]))
            if translated["uuid"] in self._not_taken:
                continue
            if ours is None:
                self._remove_shared(part.table, theirs)
            else:
                self._compare_row(part, theirs, ours)
                self._compare_lists(name, int(theirs["id"]), translated, ours)
        self._add_shared(part, found.values(), itertools.count(last + 1))

    def _remove_shared(self, table: IronicTable, theirs: JsonView) -> None:
        if table.name == "chassis" and theirs["id"] in self._chassis:
            text = (
                "removed here; it stays in Ironic, because nodes that were not imported are in it"
            )
            self._stays(table.name, theirs, text)
        else:
            self._change(table, {"id": theirs["id"]}, None, _label(theirs))

    def _add_shared(self, part: _Part, found: Iterable[Json], free: Iterator[int]) -> None:
        name = part.table.name
        for row in sorted(found, key=lambda one: int(one["id"])):
            known = self._id_of(name, row)
            if not (known or self._is_new(row)):
                self._stays(name, row, _OLDER, INFO)
                continue
            more = known or {"id": next(free)}
            self._add(part.table, row, _label(row), **more)
            self._compare_lists(name, more["id"], {"steps": [], "traits": []}, row)

    def _compare_lists(self, name: str, ident: int, before: JsonView, ours: JsonView) -> None:
        """Compare the steps of a template or a runbook, and the traits of a runbook."""
        if name not in STEPS:
            return
        table = STEPS[name]
        parent = table.parent
        if not reversal.same_steps(table, before["steps"], ours["steps"], self.move):
            if before["steps"]:
                self._change(table, {parent: ident}, None, _label(ours))
            for step in reversal.steps_there(table, ours["steps"], self.move):
                self._change(table, {}, {**step, parent: ident}, _label(ours))
        if name == "runbooks":
            self._compare_traits(ident, before, ours)

    def _compare_traits(self, ident: int, before: JsonView, ours: JsonView) -> None:
        table = TABLES["runbook_traits"]
        parent = table.parent
        old, new = set(before["traits"] or ()), set(ours["traits"] or ())
        if not table.of_head(self._there.head):
            if new - {ours["name"]}:
                text = f"Ironic {self.release} takes the name of a runbook as its only trait"
                self.report.add(MoveFinding(LOSS, "runbook", "traits", text), _label(ours))
            return
        for trait in sorted(old - new):
            self._change(table, {parent: ident, "trait": trait}, None, _label(ours))
        for trait in sorted(new - old):
            row = reversal.new_row(table, {"trait": trait}, self.move)
            self._change(table, {}, {**row, parent: ident}, _label(ours))

    def _compare_allocations(self, here: Connection) -> None:
        part = _part("allocations")
        found = {row["uuid"]: dict(row) for row in here.execute(sa.select(part.ours)).mappings()}
        every = self._ids_there("allocations")
        for theirs, translated in self._again.allocation_rows():
            self._mark("allocations", theirs.values, _label(translated))
            if translated["uuid"] not in self._not_taken:
                self._compare_row(part, theirs.values, found.get(translated["uuid"]))
        for row in sorted(found.values(), key=lambda one: int(one["id"])):
            known = self._id_of("allocations", row)
            if known and row["uuid"] not in every:
                self._add(part.table, row, _label(row), **known)

    # -- what stands against it ----------------------------------------------------------------

    def _mark(self, name: str, theirs: JsonView, who: str) -> None:
        """Note a row there that is newer than those of the import."""
        mark = self._import["marks"].get(name, {})
        for column in source.MARKED:
            value, last = theirs.get(column), mark.get(column)
            if isinstance(value, datetime.datetime):
                value = value.isoformat()
            if value is not None and (last is None or value > last):
                self._newer.append((name, column, who))

    def _check_marks(self) -> None:
        """Refuse a database there with other rows than at the import."""
        for name in _ONLY_MARKED:
            for row, ours in self._again.node_rows(name):
                self._mark(name, row.values, self._names.get(ours["node_uuid"], ""))
        for name, column, who in self._newer:
            if self._matters(name):
                self._refuse(name, column, f"{_CHANGED_THERE}: {name}.{column}", who, _IMPORT_AGAIN)
        now, before = self._again.marks.documents(), self._import["marks"]
        told = {name for name, _, _ in self._newer}
        for name in filter(self._matters, sorted((now.keys() | before.keys()) - told)):
            old, new = before.get(name, {}), now.get(name, {})
            differs = [one for one in {**old, **new} if old.get(one) != new.get(one)]
            for one in differs[:1]:
                text = (
                    f"{_CHANGED_THERE}: {one} of {name} is {new.get(one)}, and was {old.get(one)}"
                )
                self._refuse(name, "", text, name, _IMPORT_AGAIN)

    def _matters(self, name: str) -> bool:
        """Return whether changes of a table there stand against the export.

        Rows of no node are shared with other imports, whose export may have written them.
        """
        whole = TABLES[name].whole
        whole = name if whole in (None, "nodes") else whole
        found = (whole, *(one.name for one in tables.parts(str(whole))))
        return whole not in SHARED or any(one in self.report.counts for one in found)

    def _check_changes(self) -> None:
        used = {column: frozenset(names) for column, names in self._used.items()}
        uuids = {ident: uuid for uuid, ident in {**self._kept, **self._new}.items()}
        for change in self.changes:
            if change.table != "nodes" or change.values is None:
                continue
            who = self._names[uuids[(change.key or change.values)["id"]]]
            for column, name in reversal.unknown_names(change.values, used, self._there.head):
                text = f"Ironic {self.release} does not have {name}"
                self._refuse("nodes", column, text, who, "Change the node first.")
        self._check_doubled()

    def _check_doubled(self) -> None:
        """Refuse values that two rows there would have."""
        there: dict[str, dict[int, Json]] = {}
        for change in self.changes:
            wanted = reversal.UNIQUE.get(change.table, ())
            if change.table not in there and any(
                {*one} & {*(change.values or ())} for one in wanted
            ):
                columns = reversal.unique_columns(change.table)
                found = self._there.rows(change.table, columns=columns)
                there[change.table] = {row.values["id"]: row.values for row in found}
        fold = self._there.database.kind == "mysql"
        for one in reversal.doubled_values(self.changes, there, fold=fold):
            text = f"another object of Ironic has this {one.column}"
            if one.new != one.other:
                text = f"equals {one.other} in Ironic, whose database ignores case"
            self._refuse(one.table, one.column, text, one.new, "Change one of both.")

    def _name_rest(self, here: Connection) -> None:
        """Name what Ironic has no place for."""
        holds, nodes = models.holds.c, models.nodes.c
        in_force = sa.and_(holds.ended_at.is_(None), holds.kind.notin_((OBSERVE, TRIAL)))
        number: sa.Select[Any] = sa.select(sa.func.count())
        counted = (
            ("holds in force", number.where(in_force)),
            ("data states", number.where(nodes.data_state != "unknown")),
            *(
                (table.name.replace("_", " "), number.select_from(table))
                for table in (models.runs, models.run_logs, models.batches)
            ),
            ("webhooks", number.select_from(models.webhooks)),
            ("erasure records", number.select_from(models.erasures)),
        )
        for label, query in counted:
            if count := here.scalar(query):
                text = f"{count} {label} stay here, because Ironic has no place for them"
                self.report.add(MoveFinding(LOSS, "service", "", text), label)

    # -- history -------------------------------------------------------------------------------

    def _history(self, here: Connection) -> Iterator[Json]:
        """Yield the entries since the import as rows there."""
        event = models.events.c
        exported = {**self._kept, **self._new}
        table = TABLES["node_history"]
        known = {column.name for column in table.of_head(self._there.head)}
        wide = all(
            one.wide for one in self._limits.get("node_history", {"": ColumnLimit()}).values()
        )
        for some in _batches(sorted(exported)):
            query = sa.select(models.events).where(
                event.node_uuid.in_(some),
                event.at >= self._import["at"],
                event.kind.notin_((history.OF_IRONIC, "imported")),
                events.IN_HISTORY,
            )
            for row in here.execute(query.order_by(event.id)).mappings():
                told = history.entry(cast(Event, dict(row)))
                ident = uuid.uuid5(uuid.UUID(self._import["uuid"]), told["uuid"])
                told |= {"uuid": str(ident), "node_id": exported[row["node_uuid"]]}
                for name, longest in (("user", _LONGEST_USER), ("event", _LONGEST_EVENT)):
                    told[name] = told[name] and _cut(told[name], longest, wide=wide, column=name)
                told["version"] = table.version(self._there.head)
                yield {name: value for name, value in told.items() if name in known}

    # -- writing -------------------------------------------------------------------------------

    def write(self, here: Connection, progress: Callable[[str, int], None]) -> None:
        """Write all that `plan` has found, in the transaction of the snapshot.

        :raises errors.Error: the database there does not take a row.
        """
        conn, head = self._there.conn, self._there.head
        what = ""
        try:
            for count, change in enumerate(reversal.ordered(self.changes, head), 1):
                what = change.table
                progress(what, count)
                conn.execute(_statement(change, head))
            what = "node_history"
            mapped = source.table_of(what, head)
            for batch in _batches(self._history(here)):
                progress(what, len(batch))
                conn.execute(mapped.insert(), batch)
            what = "sequences"
            if conn.dialect.name == "postgresql":
                for name in {one.table for one in self.changes if one.values and not one.key}:
                    _continue_ids(conn, source.table_of(name, head))
        except faults.DRIVER_ERRORS as why:
            if faults.classify(why) not in copy.OF_ROWS:
                raise
            raise errors.Error(
                f"Ironic's table {what} has refused a row: {faults.reason(why)}. Nothing was "
                "written."
            ) from None


def check_head(imported: JsonView, there: Snapshot) -> None:
    """Refuse a database of another revision than at the import.

    :raises errors.Conflict: it is one.
    """
    if there.head != imported["head"]:
        raise errors.Conflict(
            f"{there.database.name} is of Ironic {rules.RELEASES[there.head]}, and was of "
            f"{imported['release']} at the import. Restore the database of that release."
        )


def _limits(there: Snapshot) -> Limits:
    """Return what the text columns of a server can have; SQLite has no limits."""
    kind = there.database.kind
    if kind == "sqlite":
        return {}
    names = ("table_name", "column_name", "character_maximum_length")
    mine = sa.func.database() if kind == "mysql" else sa.func.current_schema()
    more = ("character_octet_length", "character_set_name")
    columns = sa.table(
        "columns",
        *map(sa.column, ("table_schema", "data_type", *names, *more)),
        schema="information_schema",
    )
    query = sa.select(*(columns.c[name] for name in ("data_type", *names, *more))).where(
        columns.c.table_schema == mine, columns.c.character_maximum_length.is_not(None)
    )
    found: dict[str, dict[str, ColumnLimit]] = {}
    for data_type, table, column, length, size, charset in there.conn.execute(query):
        short = str(data_type).lower() in ("varchar", "char", "character varying", "character")
        wide = kind != "mysql" or str(charset) == "utf8mb4"
        limit = ColumnLimit(int(length) if short else None, None if short else int(size), wide)
        found.setdefault(str(table), {})[str(column)] = limit
    return found


def _label(row: JsonView) -> str:
    return str(row.get("name") or row["uuid"])


def _of(table: sa.Table, column: str, keys: Sequence[Any]) -> sa.Select[Any]:
    return sa.select(table).where(table.c[column].in_(keys))


def _batches(rows: Iterable[Any], table: str = "") -> Iterator[list[Any]]:
    left = iter(rows)
    while batch := list(itertools.islice(left, source.together(table))):
        yield batch


def _cut(text: str, longest: int, *, wide: bool, column: str) -> str:
    if not wide:
        text = "".join(one if one <= "\uffff" else "?" for one in text)
    if column == "event":
        return text.encode()[:longest].decode(errors="ignore")
    return text[:longest]


def _statement(change: RowChange, head: str) -> Any:
    mapped = source.table_of(change.table, head)
    values = {
        name: reversal.stored(change.table, name, value)
        for name, value in (change.values or {}).items()
        if name in mapped.c
    }
    if not change.key:
        return mapped.insert().values(values)
    where = [mapped.c[name] == value for name, value in change.key.items()]
    if change.values is None:
        return mapped.delete().where(*where)
    return mapped.update().where(*where).values(values)


def _continue_ids(conn: Connection, table: sa.Table) -> None:
    if "id" not in table.c:
        return
    sequence = conn.scalar(sa.select(sa.func.pg_get_serial_sequence(table.name, "id")))
    if sequence is not None:
        last = sa.select(sa.func.max(table.c.id)).scalar_subquery()
        conn.execute(sa.select(sa.func.setval(sequence, last)))
