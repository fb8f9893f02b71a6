"""Rows as one JSON text each, for a driver written in Python.

With each result, PyMySQL reads a description of each column. For a row of sixty columns this takes
most of the time of a read, so the server makes one text of them, which orjson reads.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import sqlalchemy as sa

from ironic_lite import errors

_DRIVER = "pymysql"
_TYPES = (sa.String, sa.Integer, sa.Boolean, sa.DateTime, sa.JSON)
"""Types whose values are the same in a JSON text, or are made from it."""


def packs(statement: sa.Select[Any], dialect: sa.Dialect) -> bool:
    """Return whether the rows of a select can be JSON texts, and are better so.

    Numbers and booleans that are no columns become texts, depending on the server.
    """
    return dialect.driver == _DRIVER and all(
        isinstance(_stored_type(one), _TYPES if isinstance(one, sa.Column) else sa.String)
        for one in statement.selected_columns
    )


def packed(statement: sa.Select[Any]) -> sa.Select[Any]:
    """Return the select of each row as one JSON text, a list."""
    values = (
        sa.cast(one, sa.Text) if isinstance(_stored_type(one), sa.JSON) else one
        for one in statement.selected_columns
    )
    return statement.with_only_columns(sa.func.json_array(*values), maintain_column_froms=True)


def unpack(rows: Iterable[Any]) -> list[list[Any]]:
    """Return the values of packed rows.

    :raises errors.RowTooLarge: the server refuses texts as large as a row.
    """
    texts = [text for (text,) in rows]
    if None in texts:
        raise errors.RowTooLarge
    return list(map(orjson.loads, texts))


def conversion(
    column: sa.ColumnElement[Any], dialect: sa.Dialect, *, packed: bool
) -> Callable[[Any], Any] | None:
    """Return the conversion of a value that is not NULL, None if there is nothing to convert."""
    if packed and isinstance(column.type, sa.DateTime):
        return datetime.datetime.fromisoformat
    return column.type.dialect_impl(dialect).result_processor(dialect, None)


def _stored_type(column: sa.ColumnElement[Any]) -> Any:
    """Return the type of a selected value without its decorators."""
    kind = column.type
    return kind.impl if isinstance(kind, sa.types.TypeDecorator) else kind
