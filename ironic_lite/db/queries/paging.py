"""Pages of a table: filters, and a keyset that visits each row once in any order.

A page is one statement, also with a marker. Statements are built once per shape (columns, filters,
order) and then only bound, so SQLAlchemy's cache of compiled statements serves them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.util import ClauseAdapter

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import encryption
from ironic_lite.db.tables import models

Clause = sa.ColumnElement[bool]
Shape = tuple[tuple[str, str], ...]

_ESCAPE = "!"
# Long texts are ordered by their beginning, as MariaDB sorts by no more.
_SORTED_LENGTH = 255
# Rows read and processed at a time: few enough to stay in a processor's cache.
_PART = 100
# MariaDB looks up a joined marker before it plans, and plans better for it; PostgreSQL would sort.
_JOINING = ("mysql", "mariadb")
_WHOSE = ("node_uuid", "portgroup_uuid", "project", "of_owner")
"""The filters that restrict rows to those a client may see."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """A filter that is true or false; a side without a clause selects every row."""

    on: Clause | None = None
    off: Clause | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A filter whose clause has a bind parameter of the filter's own name."""

    clause: Clause
    adapt: Callable[[Any], Any] = lambda value: value


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A table that can be paged, with the column that markers name.

    ``filters`` are more than a column's equality; ``more`` are expressions that can be selected
    like columns.
    """

    table: sa.Table
    filters: Mapping[str, Switch | Bound] = dataclasses.field(default_factory=dict)
    marker: str = "uuid"
    more: Mapping[str, sa.ColumnElement[Any]] = dataclasses.field(default_factory=dict)

    def page(
        self,
        conn: sa.Connection,
        *,
        columns: Sequence[str] | None = None,
        where: RowView | None = None,
        marker_id: str | None = None,
        sort: str = "id",
        direction: str = "asc",
        limit: int = 1000,
        texts: Sequence[str] = (),
    ) -> list[Row]:
        """Return up to ``limit`` rows after the marker, as column -> value.

        NULL comes before every value, and rows of equal value are ordered by id; ``desc`` reverses
        both. So the order is the same on every database.

        :param columns: None for all.
        :param where: filter -> value: of a special filter, or of a column. None means IS NULL, a
            list any of its values.
        :param marker_id: the marker column's value of the last row of the previous page; a row of
            another project, node or portgroup than requested does not count.
        :param direction: ``asc`` or ``desc``.
        :param texts: JSON columns to leave as their stored text, because decoding is the largest
            cost of a list of many rows.
        :raises errors.NotFound: no row has this marker.
        """
        found = self.parts(
            conn,
            columns=columns,
            where=where or {},
            marker_id=marker_id,
            sort=sort,
            direction=direction,
            limit=limit,
            texts=texts,
        )
        return [row for some in found for row in some]

    def parts(
        self,
        conn: sa.Connection,
        *,
        columns: Sequence[str] | None,
        where: RowView,
        marker_id: str | None,
        sort: str,
        direction: str,
        limit: int,
        texts: Sequence[str] = (),
    ) -> Iterator[list[Row]]:
        """Yield the rows of `page`, by the same one statement, some at a time.

        A caller that processes each part before the next saves a quarter of the time of a thousand
        whole nodes, and most of their memory. ``conn`` must not be used otherwise meanwhile.
        """
        names = models.columns(self.table) if columns is None else tuple(columns)
        shape, values = self._read_filters(where)
        order = (sort, direction == "desc", marker_id is not None)
        chosen = tuple((name, name in texts) for name in names)
        statement = _select_page(self, chosen, shape, order, conn.dialect.name)
        values["limit_"] = limit
        if marker_id is not None:
            values["marker_"] = marker_id
        some = None
        sealed = [
            name
            for name in encryption.encrypted_columns(self.table)
            if name in texts and name in names
        ]
        open_text = encryption.opener(conn)
        for some in conn.execute(statement, values).partitions(_PART):
            # All in C, because a page of a thousand rows spends more time here than in its
            # statement.
            rows = list(map(dict, map(zip, repeat(names), some)))
            for name in sealed:
                for row in rows:
                    row[name] = open_text(row[name])
            yield rows
        if some is None and marker_id is not None:
            self._must_exist(conn, shape, values)

    def column(self, name: str, as_text: bool) -> sa.ColumnElement[Any]:
        """Return the expression to select for a requested name."""
        if name in self.more:
            return self.more[name]
        return sa.cast(self.table.c[name], sa.Text) if as_text else self.table.c[name]

    def _read_filters(self, where: RowView) -> tuple[Shape, Row]:
        """Split filters into the shape of the statement and the bound values."""
        shape: list[tuple[str, str]] = []
        values: Row = {}
        for name, value in where.items():
            special = self.filters.get(name)
            if isinstance(special, Switch):
                shape.append((name, "on" if value else "off"))
            elif isinstance(special, Bound):
                shape.append((name, "bound"))
                values[name] = special.adapt(value)
            elif value is None:
                shape.append((name, "null"))
            else:
                several = isinstance(value, list | tuple | set | frozenset)
                shape.append((name, "in" if several else "is"))
                values[name] = list(value) if several else value
        return tuple(sorted(shape)), values

    def clause(self, name: str, form: str) -> Clause | None:
        """Return the condition of one filter of a shape."""
        special = self.filters.get(name)
        if isinstance(special, Switch):
            return special.on if form == "on" else special.off
        if isinstance(special, Bound):
            return special.clause
        column = self.table.c[name]
        if form == "null":
            return column.is_(None)
        if form == "in":
            return column.in_(sa.bindparam(name, expanding=True, type_=column.type))
        return column == sa.bindparam(name, type_=column.type)

    def _must_exist(self, conn: sa.Connection, shape: Shape, values: RowView) -> None:
        other, named = _marker_condition(self, shape)
        if conn.execute(sa.select(other.c.id).where(named), values).first() is None:
            raise errors.NotFound(what="Marker", ident=values["marker_"])


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
    """Return a filter for rows whose column is one of the values."""
    return Bound(column.in_(sa.bindparam(name, expanding=True, type_=column.type)), list)


@lru_cache(maxsize=512)
def _select_page(
    listing: Listing,
    chosen: tuple[tuple[str, bool], ...],
    shape: Shape,
    order: tuple[str, bool, bool],
    dialect: str,
) -> sa.Select[Any]:
    table, (sort, down, marked) = listing.table, order
    statement = sa.select(*(listing.column(name, as_text) for name, as_text in chosen))
    for name, form in shape:
        clause = listing.clause(name, form)
        if clause is not None:
            statement = statement.where(clause)
    if marked:
        marker = _marker_condition(listing, shape)
        if sort == "id" and dialect not in _JOINING:
            statement = _after_id(statement, table, marker, down)
        elif not table.c[sort].nullable and dialect not in _JOINING:
            statement = _after_value(statement, table, marker, sort, down)
        else:
            statement = _after_marker(statement, table, marker, sort, down)
    ordered = [_sortable_column(table.c[sort])] if sort != "id" else []
    for part in (*ordered, table.c.id):
        direction = part.desc() if down else part.asc()
        if dialect == "postgresql" and part is not table.c.id and table.c[sort].nullable:
            # The other databases put NULL first by default, and have no syntax for it.
            direction = direction.nulls_last() if down else direction.nulls_first()
        statement = statement.order_by(direction)
    return statement.limit(sa.bindparam("limit_", type_=sa.Integer))


def _marker_condition(listing: Listing, shape: Shape) -> tuple[Any, Clause]:
    """Return an alias of the table, and the condition that makes it the marker's row.

    In a list of a project, a node or a portgroup, only its rows are markers: a client must not
    learn from a page whether a hidden row of this UUID exists.
    """
    other = listing.table.alias("marker")
    named = other.c[listing.marker] == sa.bindparam("marker_", type_=sa.String)
    for name, form in shape:
        whose = listing.clause(name, form) if name in _WHOSE else None
        if whose is not None:
            named = sa.and_(named, ClauseAdapter(other).traverse(whose))
    return other, named


def _after_id(
    statement: sa.Select[Any], table: sa.Table, marker: tuple[Any, Clause], down: bool
) -> sa.Select[Any]:
    """Start inside the primary key, so that every page costs the same."""
    other, named = marker
    last = sa.select(other.c.id).where(named).scalar_subquery()
    return statement.where(table.c.id < last if down else table.c.id > last)


def _after_value(
    statement: sa.Select[Any],
    table: sa.Table,
    marker: tuple[Any, Clause],
    sort: str,
    down: bool,
) -> sa.Select[Any]:
    """Start inside the index of a column without NULL; PostgreSQL would sort a join."""
    other, named = marker
    its, its_id = (
        sa.select(column).where(named).scalar_subquery()
        for column in (_sortable_column(other.c[sort]), other.c.id)
    )
    mine, mine_id = _sortable_column(table.c[sort]), table.c.id
    later_id = mine_id < its_id if down else mine_id > its_id
    later, bound = (mine < its, mine <= its) if down else (mine > its, mine >= its)
    # The index is entered by the first condition, not by the alternatives.
    return statement.where(bound, sa.or_(later, sa.and_(mine == its, later_id)))


def _after_marker(
    statement: sa.Select[Any],
    table: sa.Table,
    marker: tuple[Any, Clause],
    sort: str,
    down: bool,
) -> sa.Select[Any]:
    other, named = marker
    if sort == "id":
        return statement.join_from(table, other, named).where(
            table.c.id < other.c.id if down else table.c.id > other.c.id
        )
    mine, its = _sortable_column(table.c[sort]), _sortable_column(other.c[sort])
    later_id = table.c.id < other.c.id if down else table.c.id > other.c.id
    later = mine < its if down else mine > its
    clauses = [later, sa.and_(mine == its, later_id)]
    if table.c[sort].nullable:
        clauses.append(sa.and_(mine.is_(None), its.is_(None), later_id))
        one_null = (mine, its) if down else (its, mine)
        clauses.append(sa.and_(one_null[0].is_(None), one_null[1].is_not(None)))
    return statement.join_from(table, other, named).where(sa.or_(*clauses))


def _sortable_column(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    if isinstance(column.type, sa.Text):
        return sa.func.substr(column, 1, _SORTED_LENGTH)
    return column
