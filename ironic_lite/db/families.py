"""Queries that are alike for all small families: rows with a UUID, most with a name of their own.

A module of queries makes a `Family` of its table, and takes its methods for its own functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from ironic_lite import clock, errors
from ironic_lite.db import faults, models
from ironic_lite.db.session import Connection

Row = dict[str, Any]

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Family:
    """One table, read and written by the UUID or the name of a row.

    :param what: a row in a sentence, such as ``deploy template``.
    :param missing: returns the error for a row that is not there, by what was asked for.
    :param named: whether rows have a column ``name``.
    """

    def __init__(
        self,
        table: sa.Table,
        what: str,
        missing: Callable[[str], errors.NotFound],
        *,
        named: bool = True,
    ) -> None:
        self._table, self._what, self._missing, self._named = table, what, missing, named
        self.columns = models.columns(table)
        keys = ("uuid", "name") if named else ("uuid",)
        wanted = {key: table.c[key] == sa.bindparam("k_ident") for key in keys}
        self._one = {key: sa.select(table).where(this) for key, this in wanted.items()}
        self._held = {key: one.with_for_update() for key, one in self._one.items()}
        self._delete = {key: table.delete().where(this) for key, this in wanted.items()}
        self._insert = table.insert().inline()
        self._update = table.update().where(table.c.uuid == sa.bindparam("k_uuid"))

    def _key(self, ident: str) -> tuple[str, str]:
        """Return the column that ``ident`` is of, and its value there."""
        by_name = self._named and not _UUID.fullmatch(ident)
        return ("name", ident) if by_name else ("uuid", ident.lower())

    def get(self, conn: Connection, ident: str, *, hold: bool = False) -> Row:
        """Return one row as column -> value.

        :param ident: UUID in any case, or name.
        :param hold: nobody else changes the row before this transaction ends.
        :raises errors.NotFound: there is none; of the class that the family names.
        """
        key, value = self._key(ident)
        found = conn.execute((self._held if hold else self._one)[key], {"k_ident": value}).first()
        if found is None:
            raise self._missing(ident)
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

        :raises errors.Duplicate: a new value is taken.
        :raises errors.NotFound: there is no such row.
        """
        row = {"updated_at": clock.now(), **values, "k_uuid": uuid}
        try:
            changed = conn.execute(self._update, row).rowcount
        except sa.exc.IntegrityError as error:
            raise self._refused(error, row) from error
        if not changed:
            raise self._missing(uuid)

    def delete(self, conn: Connection, ident: str) -> None:
        """Remove a row.

        :param ident: UUID in any case, or name.
        :raises errors.NotFound: there is none.
        """
        key, value = self._key(ident)
        if not conn.execute(self._delete[key], {"k_ident": value}).rowcount:
            raise self._missing(ident)

    def _refused(self, error: sa.exc.IntegrityError, row: Row) -> Exception:
        return faults.refused(error, self._table, self._what, row, error)
