"""Statements shared by resource tables: one row by UUID or name, pages, writes.

Each module has a `ResourceTable` at its top, and its further queries below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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

    def get(self, conn: Connection, ident: str, *, hold: bool = False) -> Row:
        """Return one row as column -> value.

        :param ident: UUID in any case, or name.
        :param hold: prevent changes of the row until this transaction ends.
        :raises errors.NotFound: the table's own.
        """
        key, value = self.key(ident)
        found = conn.execute(_select_one(self.table, key, hold), {"k_ident": value}).first()
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

    def update(self, conn: Connection, uuid: str, values: RowView) -> None:
        """Change a row; ``updated_at`` is now unless given.

        :raises errors.Duplicate: its new value is taken.
        :raises errors.NotFound: the table's own.
        """
        row = {"updated_at": clock.now(), **values, "k_uuid": uuid}
        try:
            changed = conn.execute(self._update, row).rowcount
        except sa.exc.IntegrityError as error:
            raise self._refused_error(error, row) from error
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
def _select_one(table: sa.Table, key: str, hold: bool) -> sa.Select[Any]:
    found = sa.select(table).where(table.c[key] == sa.bindparam("k_ident"))
    return found.with_for_update() if hold else found


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
