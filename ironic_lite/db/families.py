"""The statements that families of rows have in common: one by UUID or name, a page, three writes.

A family is one `Family` at the top of its module; what it has besides is written there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from ironic_lite import clock, errors
from ironic_lite.db import faults, models, paging
from ironic_lite.db.session import Connection

Row = dict[str, Any]
Worded = Callable[[Row], Exception]

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Family:
    """The queries of one table whose rows have a UUID, and perhaps a name.

    :param what: what a row is called in a sentence, such as ``deploy template``.
    :param absent: makes the error for a row that is not there, of how the caller called it.
    :param filters: of pages, besides columns; see ``paging.Listing``.
    :param more: expressions that pages show in place of columns.
    :param missing: makes the error for a row that refers to another that is not there.
    :param needed: makes the error for a row that others refer to, which stays; given its ident.
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
        """Return the column that ``ident`` is of, and its value there."""
        named = "name" in self.table.c and not is_uuid(ident)
        return ("name", ident) if named else ("uuid", ident.lower())

    def get(self, conn: Connection, ident: str, *, hold: bool = False) -> Row:
        """Return one row as column -> value.

        :param ident: UUID in any case, or name.
        :param hold: nobody else changes the row before this transaction ends.
        :raises errors.NotFound: the family's own.
        """
        key, value = self.key(ident)
        found = conn.execute(_one(self.table, key, hold), {"k_ident": value}).first()
        if found is None:
            raise self.absent(ident)
        return dict(zip(self.columns, found, strict=True))

    def insert(self, conn: Connection, values: Mapping[str, Any]) -> None:
        """Add a row; ``created_at`` is now unless given.

        :raises errors.Duplicate: a unique value is taken; the fact ``key`` says which.
        """
        row = {"created_at": clock.now(), **values}
        try:
            conn.execute(self._insert, row)
        except sa.exc.IntegrityError as error:
            raise self._refused(error, row) from error

    def update(self, conn: Connection, uuid: str, values: Mapping[str, Any]) -> None:
        """Change a row; ``updated_at`` is now unless given.

        :raises errors.Duplicate: its new value is taken.
        :raises errors.NotFound: the family's own.
        """
        row = {"updated_at": clock.now(), **values, "k_uuid": uuid}
        try:
            changed = conn.execute(self._update, row).rowcount
        except sa.exc.IntegrityError as error:
            raise self._refused(error, row) from error
        if not changed:
            raise self.absent(uuid)

    def delete(self, conn: Connection, ident: str) -> None:
        """Remove a row.

        :param ident: UUID in any case, or name.
        :raises errors.NotFound: the family's own.
        """
        key, value = self.key(ident)
        try:
            gone = conn.execute(_delete(self.table, key), {"k_ident": value}).rowcount
        except sa.exc.IntegrityError as error:
            kept = self._needed(ident) if self._needed else error
            raise faults.refused(error, self.table, self._what, {}, kept) from error
        if not gone:
            raise self.absent(ident)

    def _refused(self, error: sa.exc.IntegrityError, row: Row) -> Exception:
        missing = self._missing(row) if self._missing else error
        refused = faults.refused(error, self.table, self._what, row, missing)
        worded = self._taken.get(getattr(refused, "facts", {}).get("key", ""))
        return worded(row) if worded else refused


class Belongings(Family):
    """The queries of one table whose rows belong to a node, and are found by what that is.

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
        """Return all columns of what belongs to a node, in the order it was added."""
        found = conn.execute(self._of_node, {"k_node": node_uuid})
        return [dict(zip(self.columns, row, strict=True)) for row in found]


def no_node(row: Row) -> errors.NodeNotFound:
    """Return the error for a row whose node is not there."""
    return errors.NodeNotFound(node=row.get("node_uuid"))


def is_uuid(ident: str) -> bool:
    """Tell whether ``ident`` is a UUID as rows have it, in any case, and no name."""
    return _UUID.fullmatch(ident) is not None


@lru_cache(maxsize=128)
def _one(table: sa.Table, key: str, hold: bool) -> sa.Select[Any]:
    found = sa.select(table).where(table.c[key] == sa.bindparam("k_ident"))
    return found.with_for_update() if hold else found


@lru_cache(maxsize=128)
def _delete(table: sa.Table, key: str) -> sa.Delete:
    return table.delete().where(table.c[key] == sa.bindparam("k_ident"))


def of_nodes(table: sa.Table) -> dict[str, paging.Bound]:
    """Return filters for rows by what their node is: its shard, its conductor group, its project.

    :param table: of rows with a ``node_uuid``.
    """
    node = models.nodes.c
    project = sa.bindparam("project", type_=sa.String)
    clauses = {
        "shard": paging.any_of(node.shard, "shard"),
        "conductor_groups": paging.any_of(node.conductor_group, "conductor_groups"),
        "project": paging.Bound(sa.or_(node.owner == project, node.lessee == project)),
    }
    return {
        name: paging.Bound(table.c.node_uuid.in_(sa.select(node.uuid).where(one.clause)), one.adapt)
        for name, one in clauses.items()
    }
