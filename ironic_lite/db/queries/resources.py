"""Resources with little beside their rows: reading by UUID or name, pages, writes.

`ResourceTable` has the statements of one table, and `NodeOwnedTable` those of rows that belong to a
node. Chassis, volumes, deploy templates, runbooks and inspection rules need hardly more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import faults
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import paging
from ironic_lite.db.tables import models
from ironic_lite.records import StoredTemplate

Worded = Callable[[Row], Exception]

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class ResourceTable:
    """The queries of one table whose rows have a UUID, and perhaps a name.

    :param what: the name of a row in a sentence, such as ``deploy template``.
    :param absent: makes the error for a missing row, from the ident of the caller.
    :param filters: of pages, besides columns; see ``paging.Listing``.
    :param more: expressions that pages show in place of columns.
    :param missing: makes the error for a row that refers to a missing row.
    :param needed: makes the error for a row that is still referenced, from its ident.
    :param taken: makes the error for a unique value of several columns, by the first of them.
    """

    def __init__(
        self,
        table: sa.Table,
        what: str,
        absent: Callable[[str], errors.Error],
        *,
        filters: Mapping[str, paging.Switch | paging.Bound] | None = None,
        more: Mapping[str, sa.ColumnElement[Any]] | None = None,
        missing: Worded | None = None,
        needed: Callable[[str], Exception] | None = None,
        taken: Mapping[str, Worded] | None = None,
    ) -> None:
        self.table = table
        self.columns = models.columns(table)
        self.listing = paging.Listing(table, filters or {}, more=more or {})
        self.page = self.listing.page
        self.absent = absent
        self._what, self._missing, self._needed = what, missing, needed
        self._taken = taken or {}
        self._insert = table.insert().inline()
        self._update = table.update().where(table.c.uuid == sa.bindparam("k_uuid"))

    def key(self, ident: str) -> tuple[str, str]:
        """Return the column that ``ident`` belongs to, and its value there."""
        named = "name" in self.table.c and not is_uuid(ident)
        return ("name", ident) if named else ("uuid", ident.lower())

    def get(self, conn: Connection, ident: str, *, lock_row: bool = False) -> Row:
        """Return one row as column -> value.

        :param ident: UUID in any case, or name.
        :param lock_row: prevent changes of the row until this transaction ends.
        :raises errors.NotFound: the table's own.
        """
        key, value = self.key(ident)
        found = conn.execute(_select_one(self.table, key, lock_row), {"k_ident": value}).first()
        if found is None:
            raise self.absent(ident)
        return dict(zip(self.columns, found, strict=True))

    def insert(self, conn: Connection, values: RowView) -> None:
        """Add a row; ``created_at`` is now unless given.

        :raises errors.Duplicate: a unique value is taken; the fact ``key`` says which.
        """
        row = {"created_at": clock.now(), **values}
        try:
            conn.execute(self._insert, row)
        except sa.exc.IntegrityError as error:
            raise self._refused_error(error, row) from error

    def update(
        self, conn: Connection, uuid: str, values: RowView, before: RowView | None = None
    ) -> None:
        """Change a row; ``updated_at`` is now unless given.

        :param before: the row so far; a refusal names its values beside the new ones.
        :raises errors.Duplicate: its new value is taken.
        :raises errors.NotFound: the table's own.
        """
        row = {"updated_at": clock.now(), **values, "k_uuid": uuid}
        try:
            changed = conn.execute(self._update, row).rowcount
        except sa.exc.IntegrityError as error:
            raise self._refused_error(error, {**(before or {}), **row}) from error
        if not changed:
            raise self.absent(uuid)

    def delete(self, conn: Connection, ident: str) -> None:
        """Remove a row.

        :param ident: UUID in any case, or name.
        :raises errors.NotFound: the table's own.
        """
        key, value = self.key(ident)
        try:
            gone = conn.execute(_delete_one(self.table, key), {"k_ident": value}).rowcount
        except sa.exc.IntegrityError as error:
            kept = self._needed(ident) if self._needed else error
            raise faults.refused(error, self.table, self._what, {}, kept) from error
        if not gone:
            raise self.absent(ident)

    def _refused_error(self, error: sa.exc.IntegrityError, row: Row) -> Exception:
        missing = self._missing(row) if self._missing else error
        refused = faults.refused(error, self.table, self._what, row, missing)
        worded = self._taken.get(getattr(refused, "facts", {}).get("key", ""))
        return worded(row) if worded else refused


class NodeOwnedTable(ResourceTable):
    """The queries of one table whose rows belong to a node, and can be found by it.

    :param filters: besides those of `of_nodes`.
    """

    def __init__(
        self,
        table: sa.Table,
        what: str,
        absent: Callable[[str], errors.Error],
        *,
        filters: Mapping[str, paging.Switch | paging.Bound] | None = None,
        taken: Mapping[str, Worded] | None = None,
    ) -> None:
        found = {**of_nodes(table), **(filters or {})}
        super().__init__(table, what, absent, filters=found, missing=no_node, taken=taken)
        mine = table.c.node_uuid == sa.bindparam("k_node")
        self._of_node = sa.select(table).where(mine).order_by(table.c.id)

    def of_node(self, conn: Connection, node_uuid: str) -> list[Row]:
        """Return all columns of a node's rows, in the order they were added."""
        found = conn.execute(self._of_node, {"k_node": node_uuid})
        return [dict(zip(self.columns, row, strict=True)) for row in found]


def no_node(row: Row) -> errors.NodeNotFound:
    """Return the error for a row whose node does not exist."""
    return errors.NodeNotFound(node=row.get("node_uuid"))


def is_uuid(ident: str) -> bool:
    """Return whether ``ident`` is a UUID in any case, and not a name."""
    return _UUID.fullmatch(ident) is not None


@lru_cache(maxsize=128)
def _select_one(table: sa.Table, key: str, lock_row: bool) -> sa.Select[Any]:
    found = sa.select(table).where(table.c[key] == sa.bindparam("k_ident"))
    return found.with_for_update() if lock_row else found


@lru_cache(maxsize=128)
def _delete_one(table: sa.Table, key: str) -> sa.Delete:
    return table.delete().where(table.c[key] == sa.bindparam("k_ident"))


def of_nodes(table: sa.Table) -> dict[str, paging.Bound]:
    """Return filters for rows by their node's shard, conductor group and project.

    :param table: of rows with a ``node_uuid``.
    """
    node = models.nodes.c
    project = sa.bindparam("project", type_=sa.String)
    clauses = {
        "shard": paging.any_of(node.shard, "shard"),
        "conductor_groups": paging.any_of(node.conductor_group, "conductor_groups"),
    }
    found = {
        name: paging.Bound(table.c.node_uuid.in_(sa.select(node.uuid).where(one.clause)), one.adapt)
        for name, one in clauses.items()
    }
    # Each half has an index; PostgreSQL would look up the node of each row instead.
    both = sa.union_all(
        *(sa.select(node.uuid).where(one == project) for one in (node.owner, node.lessee))
    ).subquery()
    found["project"] = paging.Bound(table.c.node_uuid.in_(sa.select(both.c.uuid)))
    return found


def _chassis_needed(uuid: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(f"Chassis {uuid} still has nodes; take them out of it first.")


CHASSIS = ResourceTable(
    models.chassis,
    "chassis",
    lambda uuid: errors.ChassisNotFound(chassis=uuid),
    needed=_chassis_needed,
)


def _same_connector(row: Row) -> errors.Duplicate:
    value = f"{row.get('type')} and connector ID {row.get('connector_id')}"
    return errors.Duplicate(what="volume connector", key="type", value=value)


def _same_target(row: Row) -> errors.Duplicate:
    value = f"'{row.get('boot_index')}' for the same node"
    return errors.Duplicate(what="volume target", key="boot index", value=value)


VOLUME_CONNECTORS = NodeOwnedTable(
    models.volume_connectors,
    "volume connector",
    lambda uuid: errors.VolumeConnectorNotFound(connector=uuid),
    taken={"type": _same_connector},
)
VOLUME_TARGETS = NodeOwnedTable(
    models.volume_targets,
    "volume target",
    lambda uuid: errors.VolumeTargetNotFound(target=uuid),
    taken={"node_uuid": _same_target},
)


# Queries on deploy templates: steps added to a deployment by instance traits.

DEPLOY_TEMPLATES = ResourceTable(
    models.deploy_templates,
    "deploy template",
    lambda ident: errors.DeployTemplateNotFound(template=ident),
)

_TEMPLATE = models.deploy_templates.c
_TEMPLATES_NAMED = (
    sa.select(_TEMPLATE.name, _TEMPLATE.steps)
    .where(_TEMPLATE.name.in_(sa.bindparam("k_names", expanding=True)))
    .order_by(_TEMPLATE.name)
)


def templates_named(conn: Connection, names: Collection[str]) -> list[StoredTemplate]:
    """Return these templates by name, each as ``{"name": ..., "steps": [...]}``.

    A name without a template is ignored. No names: no statement.
    """
    if not names:
        return []
    rows = conn.execute(_TEMPLATES_NAMED, {"k_names": sorted(set(names))})
    return [{"name": row.name, "steps": row.steps} for row in rows]


# Queries on runbooks: lists of steps for nodes that share a trait with them.
#
# The filter ``project`` of pages selects the project's own and public runbooks.

_BOOK = models.runbooks.c
_PROJECT = sa.or_(
    _BOOK.owner == sa.bindparam("project", type_=sa.String), _BOOK.public.is_(sa.true())
)

RUNBOOKS = ResourceTable(
    models.runbooks,
    "runbook",
    lambda ident: errors.RunbookNotFound(runbook=ident),
    filters={"project": paging.Bound(_PROJECT)},
)
get_runbook = RUNBOOKS.get


# Queries on inspection rules, which act on the results of inspections.

_RULES = models.inspection_rules
_RULE = _RULES.c


def _unless_sensitive(name: str) -> sa.ColumnElement[Any]:
    column = _RULE[name]
    hidden = sa.case((_RULE.sensitive.is_(sa.true()), None), else_=column)
    return sa.type_coerce(hidden, column.type)


INSPECTION_RULES = ResourceTable(
    _RULES,
    "inspection rule",
    lambda ident: errors.InspectionRuleNotFound(rule=ident),
    # The lists of a sensitive rule are null.
    more={name: _unless_sensitive(name) for name in ("actions", "conditions")},
)

_RULE_APPLIED = ("uuid", "priority", "sensitive", "conditions", "actions")
_RULES_OF_PHASE = (
    sa.select(*(_RULE[name] for name in _RULE_APPLIED))
    .where(_RULE.phase == sa.bindparam("k_phase"))
    .order_by(_RULE.priority.desc(), _RULE.id)
)
_EVERY_RULE = sa.select(_RULES).order_by(_RULE.id).with_for_update()
_CLEAR_RULES = _RULES.delete().where(_RULE.id <= sa.bindparam("k_last", type_=sa.BigInteger))


def rules_of_phase(conn: Connection, phase: str) -> list[Row]:
    """Return the rules of a phase, highest priority first, then the oldest.

    :returns: uuid, priority, sensitive, conditions, actions.
    """
    found = conn.execute(_RULES_OF_PHASE, {"k_phase": phase})
    return [dict(zip(_RULE_APPLIED, row, strict=True)) for row in found]


def clear_rules(conn: Connection) -> list[Row]:
    """Remove all rules, and return them, the oldest first."""
    gone = [dict(row) for row in conn.execute(_EVERY_RULE).mappings()]
    if gone:
        conn.execute(_CLEAR_RULES, {"k_last": gone[-1]["id"]})
    return gone
