"""Stretches of an index that, together, begin with the page of a sorted list.

No condition enters an index both for rows with a value and for rows without one. So the page is the
beginning of several pages, each of which is read along the index.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite.db.queries.filters import Clause

# MariaDB looks up a joined marker before it plans, and plans better for it; PostgreSQL would sort.
JOINING = ("mysql", "mariadb")
_LARGEST: Any = sa.literal_column(str(2**63 - 1))
_SMALLEST: Any = sa.literal_column("''")


class Order(NamedTuple):
    """The order of a page: a column, whether it descends, and whether a marker begins the page.

    ``dialect`` is the database that reads it.
    """

    sort: str
    down: bool
    marked: bool
    dialect: str


@cache
def leads_index(table: sa.Table, name: str) -> bool:
    """Return whether an index of a table begins with a column."""
    return any(index.columns[0].name == name for index in table.indexes)


def has_index_ranges(table: sa.Table, order: Order) -> bool:
    """Return whether a page is the beginning of `index_ranges`, which no one index scan reads.

    SQLite and MariaDB read an index from its NULLs on; PostgreSQL's has them at its end. MariaDB
    enters an index behind a joined marker, but sorts by a unique column and the id. Times are no
    ranges: few rows have the same one.
    """
    column = table.c[order.sort]
    if not isinstance(column.type, sa.String if column.nullable else sa.String | sa.Boolean):
        return False
    if order.dialect in JOINING:
        return bool(column.unique)
    if not column.unique and not leads_index(table, order.sort):
        return False
    return order.marked or (bool(column.nullable) and order.dialect == "postgresql")


def index_ranges(
    table: sa.Table, order: Order, marker: tuple[Any, Clause] | None
) -> list[sa.Select[Any]]:
    """Return pages of ids, each of which is read along an index of the sorted column.

    They are the rows with a value beyond the marker's, with the same value, and without a value.
    """
    mine, ident, down = table.c[order.sort], table.c.id, order.down
    beyond = operator.lt if down else operator.gt

    def page(*parts: sa.ColumnElement[Any]) -> sa.Select[Any]:
        ordered = (part.desc() if down else part.asc() for part in parts)
        limit = sa.bindparam("limit_", type_=sa.Integer)
        return sa.select(ident).order_by(*ordered).limit(limit)

    some = page(mine) if mine.unique else page(mine, ident)
    none = (page(ident) if mine.unique else some).where(mine.is_(None))
    if marker is None:
        return [some.where(mine.is_not(None)), none] if mine.nullable else [some]
    other, named = marker
    its, its_id = other.c[order.sort], other.c.id

    def of_marker(what: sa.ColumnElement[Any], *where: Clause) -> sa.ScalarSelect[Any]:
        return sa.select(what).where(named, *where).scalar_subquery()

    value, last = of_marker(its), of_marker(its_id)
    if mine.unique:
        found = [some.where(beyond(mine, value))]
    elif order.dialect == "postgresql":
        found = [some.where(beyond(sa.tuple_(mine, ident), sa.tuple_(value, last)))]
    else:  # SQLite enters an index by the first half of a pair only.
        same = page(ident).where(mine == value, beyond(ident, last))
        found = [some.where(beyond(mine, value)), same]
    if mine.nullable and down:  # behind a marker with a value come all rows without one
        first = of_marker(sa.case((its.is_(None), its_id), else_=_LARGEST))
        found.append(none.where(ident < first))
    elif mine.nullable:  # behind a marker without a value come all rows with one
        found.append(none.where(ident > of_marker(its_id, its.is_(None))))
        # A range, because SQLite would look for the marker's value at each row.
        found.append(some.where(mine >= of_marker(_SMALLEST, its.is_(None))))
    return found
