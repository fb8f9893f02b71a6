"""Columns that SQLite shall not look up in an index.

SQLite has no statistics here, so it takes every index for equally good, also the one of a value
that most rows have. The other databases count the values, and need no hint.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class _Unindexed(FunctionElement[Any]):
    """A column; an unary plus hides it from SQLite's choice of an index."""

    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


@compiles(_Unindexed)
def _plain(element: _Unindexed, compiler: Any, **kwargs: Any) -> str:
    return str(compiler.process(element.clauses, **kwargs))


@compiles(_Unindexed, "sqlite")
def _signed(element: _Unindexed, compiler: Any, **kwargs: Any) -> str:
    return f"+{compiler.process(element.clauses, **kwargs)}"


def unindexed(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return a column whose value most rows share, or by which few rows are sorted."""
    return _Unindexed(column)
