"""The import of Ironic's database: all that is checked, and all rows, in one transaction."""

from __future__ import annotations

import collections
import functools
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db import copy
from ironic_lite.db.engine import encryption
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events
from ironic_lite.db.tables import migrate, models
from ironic_lite.domain import holds
from ironic_lite.features.move_in import checks, names, report, rows, rules, tables
from ironic_lite.features.move_in.checks import NodeChecks
from ironic_lite.features.move_in.names import NameTable
from ironic_lite.features.move_in.report import MoveFinding, MoveReport
from ironic_lite.features.move_in.source import IronicRow, Marks, Snapshot
from ironic_lite.features.move_in.tables import OF_NODES, SHARED, STEPS, TABLES, IronicTable

_SORTED = frozenset({"node_inventory", "node_history"})
"""Tables of which only the newest rows of each node are taken."""


class ImportRequest(NamedTuple):
    """The options of the command.

    :ivar groups: conductor groups in lower case; none of these and of ``nodes`` for all nodes.
    :ivar nodes: names or UUIDs.
    :ivar history: newest entries for each node; 0 for all.
    :ivar by: the user of the command.
    :ivar portgroup_mode: of portgroups that have none there.
    """

    check: bool = False
    trial: bool = False
    groups: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    maps: rules.Maps = rules.Maps()
    end: bool = False
    leave_out: bool = False
    history: int = 300
    by: str = ""
    portgroup_mode: str = "active-backup"


class SelectedNode(NamedTuple):
    """A node that is to be imported."""

    uuid: str
    name: str
    group: str
    parent: str | None


Progress = Callable[[str, int], None]


class Import:
    """One import. `check` finds what it would do, `run` does it.

    :ivar report: what both have found.
    """

    def __init__(
        self,
        there: Snapshot,
        asked: ImportRequest,
        known: NameTable,
        node_checks: NodeChecks,
        progress: Progress = lambda _table, _count: None,
    ) -> None:
        self.uuid = str(uuid.uuid4())
        self.move = rules.Move(
            *(clock.now(), there.head),
            maps=asked.maps,
            resolve=known.resolve,
            portgroup_mode=asked.portgroup_mode,
            end=asked.end,
        )
        self._there, self._asked, self._known = there, asked, known
        self._node_checks, self._progress = node_checks, progress
        self.selected, self._every = self._select()
        self._owners: dict[str, tuple[str | None, str | None]] = {}
        self._begin()

    def _begin(self) -> None:
        """Forget what an earlier check has found, whose transaction has ended too early."""
        self.report = MoveReport()
        self.refuses = False
        self.marks = Marks()
        self._left: dict[int, str] = {}
        """The fate of nodes that are not taken, by id: ``refused`` or ``left_out``."""
        self._shared: dict[str, list[Json]] = {}
        self._mapped: set[tuple[str, str]] = set()
        self._part_faults: dict[tuple[str, int], dict[str, str]] = {}
        self._not_taken: set[str] = set()
        self._skipped: dict[str, str] = {}
        """Allocations that are not taken, by UUID; they are counted so. Empty: here already."""
        self._without_inventory: set[int] = set()
        """Inspected nodes whose inventory has not been found."""

    @property
    def release(self) -> str:
        """The releases of the head there."""
        return rules.RELEASES[self._there.head]

    @property
    def groups(self) -> set[str]:
        """The conductor groups of the selected nodes."""
        return {node.group for node in self.selected.values()}

    # -- selection -----------------------------------------------------------------------------

    def _select(self) -> tuple[dict[int, SelectedNode], frozenset[int]]:
        """Return the selected nodes by id there, and the ids of all nodes.

        :raises errors.Error: a selected node does not exist.
        """
        asked = self._asked
        columns = ("id", "uuid", "name", "conductor_group", "parent_node")
        found, every, wanted = {}, [], set(asked.nodes)
        for row in self._there.rows("nodes", columns=columns):
            value = row.values
            every.append(int(value["id"]))
            ident = rules.canonical_uuid(value["uuid"] or "")
            parent = value["parent_node"] and rules.canonical_uuid(value["parent_node"])
            group = (value["conductor_group"] or "").lower()
            node = SelectedNode(ident, value["name"] or ident, group, parent)
            chosen = wanted & {ident, node.name}
            wanted -= chosen
            if chosen or group in asked.groups or not (asked.nodes or asked.groups):
                found[every[-1]] = node
        if wanted:
            listed = ", ".join(sorted(wanted)[: report.SHOWN])
            raise errors.Error(f"--nodes: Ironic has no node {listed}.")
        if asked.groups and (lacking := set(asked.groups) - {one.group for one in found.values()}):
            raise errors.Error(f"--group: Ironic has no node in {', '.join(sorted(lacking))}.")
        return found, frozenset(every)

    def _with_references(self) -> rules.Move:
        """Return the move with the ids of all rows that others name."""
        uuids: dict[str, dict[int, str]] = {
            "nodes": {
                ident: node.uuid for ident, node in self.selected.items() if ident not in self._left
            }
        }
        for name in ("chassis", "portgroups", "allocations"):
            uuids[name] = {
                row.values["id"]: rules.canonical_uuid(row.values["uuid"] or "")
                for row in self._there.rows(name, columns=("id", "uuid"))
            }
        named = {
            row.values["allocation_id"]: row.values["id"]
            for row in self._there.rows("nodes", columns=("id", "allocation_id"))
            if row.values["allocation_id"] is not None
        }
        links = {
            row.values["id"]: row.values["node_id"]
            for row in self._there.rows("allocations", columns=("id", "node_id"))
            if named.get(row.values["id"]) == row.values["node_id"] is not None
        }
        return self.move._replace(uuids=uuids, links=links)

    def leave_out(self, uuids: Collection[str]) -> None:
        """Leave out the nodes that the import with the same options has left out."""
        self._left = {key: report.OUT for key, one in self.selected.items() if one.uuid in uuids}
        self.move = self._with_references()

    @property
    def taken(self) -> dict[str, int]:
        """The ids there of the nodes that are not left out, by UUID."""
        return {one.uuid: key for key, one in self.selected.items() if key not in self._left}

    # -- checks --------------------------------------------------------------------------------

    def check(self, target: Connection) -> None:
        """Find all that the import would do, and all that refuses it."""
        self._begin()
        self._node_checks.read_target(target)
        self._check_unknown()
        self.move = self._with_references()
        for row in self._there.rows("nodes"):
            if row.values["id"] in self.selected:
                self._check_node(row)
        self._check_parts()
        for name in SHARED:
            self._shared[name] = list(self._check_shared(name, target))
        collections.deque(self._allocations(target), maxlen=0)
        self.move = self._with_references()
        self._check_maps()
        for finding in self._known.settings():
            self.report.add(finding, "ironic-lite.conf")

    def _check_parts(self) -> None:
        """Check the rows of all nodes, and that their parents are taken."""
        counted = len(self._left)
        for name in OF_NODES:
            for theirs, ours in self.node_rows(name):
                self._check_part(name, theirs, ours)
        self._check_parents()
        if len(self._left) > counted:
            self._count_again()
        for ident, node in self.selected.items():
            if ident in self._without_inventory and ident not in self._left:
                self.report.add(checks.NO_INVENTORY, node.name)

    def _count_again(self) -> None:
        """Count the rows of nodes without those of nodes that their parts or parents refuse."""
        self.report.counts.clear()
        self.report.secrets = 0
        self.marks = Marks()
        collections.deque(self._new_nodes([]), maxlen=0)
        for name in OF_NODES:
            collections.deque(self.node_rows(name), maxlen=0)

    def _check_maps(self) -> None:
        maps = self._asked.maps
        given = [(kind, old) for kind, olds in maps.names.items() for old in olds]
        given += [(names.PATH, old) for old, _ in maps.paths]
        for kind, old in given:
            if (kind, old) not in self._mapped:
                what = "path there begins so" if kind == names.PATH else "node there has this name"
                text = f"--map {kind}:{old}: no {what}"
                self.report.add(MoveFinding(report.INFO, "import", "", text), "import")

    def _check_unknown(self) -> None:
        for one in self._there.unknown:
            if number := self._there.count(one):
                where = one.table if one.column is None else f"{one.table}.{one.column}"
                what = "rows" if one.column is None else "values"
                text = f"{where} is of no release of Ironic, and its {number} {what} stay there"
                self.report.add(MoveFinding(report.LOSS, "database", where, text), where)

    def _check_node(self, row: IronicRow) -> None:
        values = row.values
        node = self.selected[values["id"]]
        ours = tables.translate(TABLES["nodes"], values, self.move)
        found = [*self.faults("nodes", row, ours)]
        if values[rules.DRIVER] is not None:
            driver = rules.mapped_driver(values, self.move)
            named = rules.named_interfaces(values, self.move)
            found += self._known.judge(driver, named, driver != values[rules.DRIVER]).findings
        for finding, kind, old in names.mapped(values, self._asked.maps):
            found.append(finding)
            self._mapped.add((kind, old))
        found += self._node_checks.of_node(values, ours, self.move)
        if values["inspection_finished_at"] is not None:
            self._without_inventory.add(values["id"])
        for finding in found:
            self._add(finding, values["id"], node)
        moving = self._node_checks.motion(values, self.move)
        if moving is not None:
            self._add(moving, values["id"], node, stops=not self._asked.trial)
        self._count_node(values["id"], ours)

    def _add(
        self, finding: MoveFinding, ident: int, node: SelectedNode, *, stops: bool = True
    ) -> None:
        self.report.add(finding, node.name)
        if finding.kind == report.REFUSED:
            refuses = stops and not self._asked.leave_out
            self.refuses |= refuses
            if refuses or ident not in self._left:
                self._left[ident] = report.REFUSED if refuses else report.OUT

    def _count_node(self, ident: int, ours: JsonView) -> None:
        self.report.count("nodes", report.READ)
        if ident in self._left:
            self.report.count("nodes", self._left[ident])
        else:
            self._count_written("nodes", ours)

    def _check_parents(self) -> None:
        """Refuse nodes whose parent is not taken, until no other node is left out by this."""
        while True:
            here = {node.uuid for ident, node in self.selected.items() if ident not in self._left}
            here |= set(self._node_checks.uuids)
            lost = [
                (ident, node)
                for ident, node in self.selected.items()
                if ident not in self._left and node.parent and node.parent not in here
            ]
            if not lost:
                return
            for ident, node in lost:
                text = "its parent is neither imported nor here"
                do = "Import both together, or change parent_node there."
                found = MoveFinding(report.REFUSED, "node", "parent_node", text, do)
                self._add(found, ident, node, stops=not self._asked.trial)

    def faults(self, name: str, row: IronicRow, ours: JsonView) -> Iterator[MoveFinding]:
        do = "Correct it there, or use --leave-out."
        resource = checks.RESOURCES[name]
        steps = STEPS[name].name if name in STEPS else ""
        of_steps = self._part_faults.get((steps, row.values.get("id", 0)), {})
        for path, text in [*row.faults.items(), *((f"steps/{p}", t) for p, t in of_steps.items())]:
            yield MoveFinding(report.REFUSED, resource, path, text, do)
        for path, text in checks.too_long(TABLES[name], ours):
            yield MoveFinding(report.REFUSED, resource, path, text, do)

    def _check_part(self, name: str, theirs: IronicRow, ours: Json) -> None:
        if name == "node_inventory":
            self._without_inventory.discard(theirs.values["node_id"])
        node = self.selected[theirs.values["node_id"]]
        found = [*self.faults(name, theirs, ours), *self._node_checks.of_part(name, theirs, ours)]
        for finding in found:
            self._add(finding, theirs.values["node_id"], node)

    # -- rows ----------------------------------------------------------------------------------

    def node_rows(self, name: str) -> Iterator[tuple[IronicRow, Json]]:
        """Yield the rows of a table that are taken, with ours."""
        found = self._rows_of_nodes(name)
        if name == "node_history":
            found = _newest(found, self._asked.history or None)
        elif name in _SORTED:
            found = _newest(found, 1)
        table = TABLES[name]
        for row in found:
            ours = tables.translate(table, row.values, self.move)
            if name == "node_tags":
                finding = MoveFinding(
                    report.LOSS, "node", "tags", "tags stay there; no API shows them"
                )
                self.report.add(finding, self.selected[row.values["node_id"]].name)
                self.report.count(name, report.OUT)
                continue
            if (lost := checks.lacks(table, ours)) is not None:
                self._leave_row(name, row, lost)
                continue
            self._count_written(name, ours)
            yield row, ours

    def _rows_of_nodes(self, name: str) -> Iterator[IronicRow]:
        order = ("node_id", "id") if name in _SORTED else ("id",)
        count = 0
        for row in self._there.rows(name, order=order):
            ident = row.values["node_id"]
            if ident not in self.selected:
                if ident not in self._every and not self._asked.groups and not self._asked.nodes:
                    self._leave_row(name, row, "it belongs to no node")
                continue
            count += 1
            self._progress(name, count)
            self.report.count(name, report.READ)
            if ident in self._left:
                self.report.count(name, self._left[ident])
                continue
            self.marks.add(name, row.values)
            yield row

    def _leave_row(self, name: str, row: IronicRow, why: str) -> None:
        if name == "node_history":
            return
        self.report.count(name, report.OUT)
        ident = str(row.values.get("uuid") or row.values.get("id") or row.values.get("node_id"))
        text = f"{why}, so it stays there"
        self.report.add(MoveFinding(report.LOSS, checks.RESOURCES[name], "", text), ident)

    def _count_written(self, name: str, ours: JsonView) -> None:
        self.report.count(name, report.WRITTEN)
        here = TABLES[name].ours
        secret = () if here is None else _secret_columns(here)
        self.report.secrets += sum(1 for one in secret if ours.get(one))

    # -- rows of no node -----------------------------------------------------------------------

    def _parts(self, table: IronicTable) -> dict[int, list[Json]]:
        """Return the parts of templates or runbooks by their ids."""
        found: dict[int, list[Json]] = {}
        for row in self._there.rows(table.name, order=("id", "trait")):
            whole = row.values[table.parent]
            self.marks.add(table.name, row.values)
            if row.faults:
                self._part_faults.setdefault((table.name, whole), {}).update(row.faults)
            part = tables.translate(table, row.values, self.move)
            found.setdefault(whole, []).append(part)
        return found

    def shared_rows(self, name: str) -> Iterator[tuple[IronicRow, Json]]:
        """Yield the rows of a table whose rows belong to no node, with ours."""
        table = TABLES[name]
        steps = self._parts(STEPS[name]) if name in STEPS else {}
        traits = self._parts(TABLES["runbook_traits"]) if name == "runbooks" else {}
        for row in self._there.rows(name):
            self.marks.add(name, row.values)
            ours = tables.translate(table, row.values, self.move)
            if name in STEPS:
                ours["steps"] = steps.get(row.values["id"], [])
            if name == "runbooks":
                ours["traits"] = self._runbook_traits(row.values, traits)
            yield row, ours

    def _check_shared(self, name: str, target: Connection) -> Iterator[Json]:
        """Yield the rows of a table that are to be written: neither equal here, nor left out."""
        here = checks.SharedRows(target, TABLES[name])
        for row, ours in self.shared_rows(name):
            self.report.count(name, report.READ)
            label = str(row.values.get("name") or ours["uuid"])
            if name == "inspection_rules":
                lost = checks.rule_loss(row.values, ours)
                if lost is not None:
                    self.report.count(name, report.OUT)
                    self.report.add(lost, label)
                    self._not_taken.add(ours["uuid"])
                    continue
                self.report.extend(checks.rule_findings(row.values), label)
            faults = [*self.faults(name, row, ours), *here.refusal(ours)]
            self.report.extend(faults, label)
            if faults:
                self.report.count(name, self._refuse_shared())
                self._not_taken.add(ours["uuid"])
            elif not here.has(ours):
                self._count_written(name, ours)
                yield ours

    def _refuse_shared(self) -> str:
        """Note that a row of no node cannot be taken; return what becomes of it."""
        self.refuses |= not self._asked.leave_out
        return report.OUT if self._asked.leave_out else report.REFUSED

    def _runbook_traits(self, row: JsonView, traits: dict[int, list[Json]]) -> list[str]:
        if not TABLES["runbook_traits"].of_head(self._there.head):
            return [row["name"]]
        return sorted(str(one["trait"]) for one in traits.get(row["id"], []))

    def allocation_rows(self) -> Iterator[tuple[IronicRow, Json]]:
        """Yield the allocations of taken nodes, and those without a node, with ours."""
        whole = not self._asked.groups and not self._asked.nodes
        for row in self._there.rows("allocations"):
            ident = row.values["node_id"]
            if not (whole if ident is None else ident in self.selected):
                continue
            self.report.count("allocations", report.READ)
            if ident in self._left:
                self.report.count("allocations", self._left[ident])
                continue
            self.marks.add("allocations", row.values)
            yield row, tables.translate(TABLES["allocations"], row.values, self.move)

    def _allocations(self, target: Connection | None) -> Iterator[Json]:
        """Yield the allocations that are to be written.

        :param target: to check against, None if that was done.
        """
        here = None if target is None else checks.SharedRows(target, TABLES["allocations"])
        for row, ours in self.allocation_rows():
            label = str(ours["name"] or ours["uuid"])
            if here is not None:
                faults = [*self.faults("allocations", row, ours), *here.refusal(ours)]
                self.report.extend(faults, label)
                self.report.extend(checks.allocation_findings(row.values), label)
                if faults:
                    self._not_taken.add(ours["uuid"])
                    self._skipped[ours["uuid"]] = self._refuse_shared()
                elif here.has(ours):
                    self._skipped[ours["uuid"]] = ""
            if (skipped := self._skipped.get(ours["uuid"])) is not None:
                self.report.count("allocations", skipped, int(skipped != ""))
                continue
            self._count_written("allocations", ours)
            yield ours

    # -- writing -------------------------------------------------------------------------------

    def run(self, conn: Connection) -> None:
        """Write all rows, after `check` has refused nothing."""
        migrate.exclude_others(conn)
        self.marks = Marks()
        for name in self.report.counts.keys() - set(SHARED):
            del self.report.counts[name]
        self.report.secrets = sum(
            1
            for name, listed in self._shared.items()
            for row in listed
            for one in _secret_columns(TABLES[name].ours or "")
            if row.get(one)
        )
        for name, listed in self._shared.items():
            self._write(conn, TABLES[name], listed)
            for table in (TABLES[name], *tables.parts(name)):
                for row in self._there.rows(table.name):
                    self.marks.add(table.name, row.values)
        told: list[Json] = []
        self._write(conn, TABLES["nodes"], self._new_nodes(told))
        copy.write_rows(conn, models.holds, map(self._hold, told))
        for batch in copy.batches(map(self._event, told)):
            events.add(conn, batch)
        # If the feature search is on, a conductor makes the terms of these nodes within seconds.
        copy.write_rows(conn, models.search_changes, ({"node_uuid": one["uuid"]} for one in told))
        self._write(conn, TABLES["allocations"], self._allocations(None))
        for name in OF_NODES:
            found = (ours for _, ours in self.node_rows(name))
            if name == "node_history":
                found = (self._history(ours) for ours in found)
            self._write(conn, TABLES[name], found)
        rows.add(conn, self._row())
        copy.gather_statistics(conn)

    def _write(self, conn: Connection, table: IronicTable, found: Iterable[Json]) -> None:
        if table.ours is None:
            collections.deque(found, maxlen=0)
        else:
            copy.write_rows(conn, models.metadata.tables[table.ours], found)

    def _new_nodes(self, told: list[Json]) -> Iterator[Json]:
        for count, row in enumerate(self._there.rows("nodes"), 1):
            ident = row.values["id"]
            if ident not in self.selected:
                continue
            ours = tables.translate(TABLES["nodes"], row.values, self.move)
            self._count_node(ident, ours)
            if ident in self._left:
                continue
            self._progress("nodes", count)
            self.marks.add("nodes", row.values)
            self._owners[ours["uuid"]] = (ours["owner"], ours["lessee"])
            told.append(
                {
                    "uuid": ours["uuid"],
                    "state": row.values["provision_state"],
                    "power": row.values["power_state"],
                }
            )
            yield {**ours, "import_uuid": self.uuid}

    def _standing(self, node: str) -> Json:
        owner, lessee = self._owners[node]
        return {"node_uuid": node, "owner": owner, "lessee": lessee}

    def _hold(self, node: Json) -> Json:
        kind = holds.TRIAL if self._asked.trial else holds.OBSERVE
        return {
            **dict.fromkeys(models.columns(models.holds)[1:]),
            **self._standing(node["uuid"]),
            "uuid": str(uuid.uuid4()),
            "kind": kind,
            "reason": f"imported from Ironic {self.release}; it is only looked at until it is "
            "released",
            "blocks": ",".join(holds.KINDS[kind]),
            "created_at": self.move.at,
            "created_by": self._asked.by or None,
        }

    def _event(self, node: Json) -> Json:
        data = {"import": self.uuid, "release": self.release}
        return {
            "at": self.move.at,
            "node_uuid": node["uuid"],
            "kind": "imported",
            "requester": self._asked.by or None,
            "data": {**data, "state": node["state"], "power_state": node["power"]},
        }

    def _history(self, ours: Json) -> Json:
        blank = dict.fromkeys(models.columns(models.events)[1:])
        text = ours["data"].get("error")
        data = {**ours["data"], "error": None if text is None else masking.PROSE(str(text))}
        # An entry may be of the time of another lessee.
        standing = {**self._standing(ours["node_uuid"]), "lessee": None}
        return {**blank, **ours, **standing, "data": data}

    def _row(self) -> Json:
        asked = self._asked
        left = [
            {"uuid": self.selected[one].uuid, "name": self.selected[one].name} for one in self._left
        ]
        return {
            **{"uuid": self.uuid, "at": self.move.at, "by": asked.by or None},
            **{"release": self.release, "head": self._there.head},
            "source": self._there.database.name[:1024],
            "trial": asked.trial,
            "selection": {
                **{"groups": list(asked.groups), "nodes": list(asked.nodes)},
                **{"end": asked.end, "leave_out": asked.leave_out, "history": asked.history},
                **{"portgroup_mode": asked.portgroup_mode, "not_taken": sorted(self._not_taken)},
            },
            "maps": {
                **{"names": asked.maps.names, "paths": [list(one) for one in asked.maps.paths]},
                "interfaces": self._known.replaced(),
            },
            "left_out": left,
            "marks": self.marks.documents(),
            "counts": self.report.table_counts(),
            "findings": self.report.stored(),
        }

    @property
    def left_out(self) -> int:
        """Number of nodes that are left out."""
        return len(self._left)


def _newest(found: Iterable[IronicRow], most: int | None) -> Iterator[IronicRow]:
    """Yield the last rows of each node, of rows in the order of nodes."""
    node, kept = None, collections.deque[IronicRow](maxlen=most)
    for row in found:
        if row.values["node_id"] != node:
            yield from kept
            kept.clear()
            node = row.values["node_id"]
        kept.append(row)
    yield from kept


@functools.cache
def _secret_columns(table: str) -> tuple[str, ...]:
    return encryption.encrypted_columns(models.metadata.tables[table])


def perform(database: Database, one: Import, *, check: bool) -> bool:
    """Check an import, and write it unless ``check``; return False if it is refused."""
    database.read(one.check)
    if not (one.refuses or check):
        database.write(one.run, once=True)
    return not one.refuses
