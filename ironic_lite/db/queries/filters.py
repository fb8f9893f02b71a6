"""Filters of pages that are more than a column's equality."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

Clause = sa.ColumnElement[bool]

_ESCAPE = "!"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """A filter that is true or false; a side without a clause selects every row.

    ``few`` is true if few rows match the side ``on``, as for `Bound`; ``most`` is true if most rows
    match the side ``off``.
    """

    on: Clause | None = None
    off: Clause | None = None
    few: bool = False
    most: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A filter whose clause has a bind parameter of the filter's own name.

    ``few`` is true if few rows match: they are found by the filter and then sorted. Otherwise a
    database may read the whole table in the order of the page until it has found them.
    """

    clause: Clause
    adapt: Callable[[Any], Any] = lambda value: value
    few: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Either:
    """A filter of rows that match one of some clauses, each with the filter's bind parameter.

    Each clause has an index, and each is read for itself, as ``paging`` explains.
    """

    clauses: tuple[Clause, ...]


def contains(column: sa.Column[Any], name: str) -> Bound:
    """Return a filter for rows whose text contains the value, ignoring case.

    ``%`` and ``_`` in the value stand for themselves.
    """
    return Bound(column.ilike(sa.bindparam(name, type_=sa.String), escape=_ESCAPE), _like_pattern)


def _like_pattern(value: str) -> str:
    for special in (_ESCAPE, "%", "_"):
        value = value.replace(special, _ESCAPE + special)
    return f"%{value}%"


def any_of(column: sa.Column[Any], name: str) -> Bound:
    """Return a filter for rows whose column, which is unique, is one of the values."""
    among = column.in_(sa.bindparam(name, expanding=True, type_=column.type))
    return Bound(among, list, few=True)
