"""Pages of a table: filters, and a keyset that visits each row once in any order.

A page is one statement, also with a marker. Statements are prepared once per shape (columns,
filters, order) and then only bound.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypedDict, Unpack

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.util import ClauseAdapter

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import encryption, prepared
from ironic_lite.db.tables import models

# Columns that SQLite shall not look up in an index.
#
# SQLite has no statistics here, so it takes every index for equally good, also the one of a value
# that most rows have. The other databases count the values, and need no hint.


class _Unindexed(FunctionElement[Any]):
    """A column; an unary plus hides it from SQLite's choice of an index."""

    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


@compiles(_Unindexed)
def _compile_plain(element: _Unindexed, compiler: Any, **kwargs: Any) -> str:
    return str(compiler.process(element.clauses, **kwargs))


@compiles(_Unindexed, "sqlite")
def _compile_signed(element: _Unindexed, compiler: Any, **kwargs: Any) -> str:
    return f"+{compiler.process(element.clauses, **kwargs)}"


def unindexed(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return a column whose value most rows share, or by which few rows are sorted."""
    return _Unindexed(column)


# Filters of pages that are more than a column's equality.

Clause = sa.ColumnElement[bool]

_ESCAPE = "!"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """A filter that is true or false; a side without a clause selects every row.

    ``of`` has the filter's bind parameter: it selects the rows of a value that is a text.

    ``few`` is true if few rows match the side ``on``, as for `Bound`; ``most`` is true if most rows
    match the side ``off``.
    """

    on: Clause | None = None
    off: Clause | None = None
    of: Clause | None = None
    few: bool = False
    most: bool = False

    def form(self, value: object) -> str:
        """Return the name of the side that a value selects."""
        return "of" if isinstance(value, str) else "on" if value else "off"


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


# Stretches of an index that, together, begin with the page of a sorted list.
#
# No condition enters an index both for rows with a value and for rows without one. So the page is
# the beginning of several pages, each of which is read along the index.

# MariaDB looks up a joined marker before it plans, and plans better for it; PostgreSQL would sort.
JOINING = ("mysql", "mariadb")
_LARGEST: Any = sa.literal_column(str(2**63 - 1))
_SMALLEST: Any = sa.literal_column("''")


class PageOrder(NamedTuple):
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


def has_index_ranges(table: sa.Table, order: PageOrder) -> bool:
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
    table: sa.Table, order: PageOrder, marker: tuple[Any, Clause] | None
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


# Filters of rows with the owner and the lessee that their node had when they were written.
#
# A row belongs to the projects of its time, not to the present owner of the node. Rows *in force*,
# which refuse operations now, such as runs under way, are also for those who may see the node.

_NODE = models.nodes.c
OF_OWNER, OWN_OWNER, OWN_LESSEE = "of_owner", "own_owner", "own_lessee"
"""Filters: of a list about all nodes; of a list of one node, which needs both of the others."""


def _owner_of_node(name: str) -> prepared.Compute:
    """Return the expression of owner or lessee in a new row: as given, else as the node has it."""

    def compute(row: Mapping[str, sa.BindParameter[Any]]) -> sa.ColumnElement[Any]:
        known = sa.select(_NODE[name]).where(_NODE.uuid == row["node_uuid"])
        return sa.func.coalesce(row[name], known.scalar_subquery())

    return compute


OWNERS_OF_NODE: Mapping[str, prepared.Compute] = {
    name: _owner_of_node(name) for name in ("owner", "lessee")
}
"""Expressions of ``prepared.Write`` for new rows, computed in the transaction that adds them."""


def owner_filters(
    table: sa.Table, in_force: sa.ColumnElement[bool] | None = None
) -> dict[str, Switch | Bound | Either]:
    """Return the filters of a table with ``node_uuid``, owner and lessee.

    :param in_force: the condition of rows that are in force, None without such rows.
    """
    project = sa.bindparam(OF_OWNER, type_=sa.String)
    whole: Bound | Either = Bound(table.c.owner == project)
    of_node = own_rows(table)
    if in_force is not None:
        mine = sa.or_(_NODE.owner == project, _NODE.lessee == project)
        nodes = table.c.node_uuid.in_(sa.select(_NODE.uuid).where(mine))
        whole = Either((table.c.owner == project, sa.and_(in_force, nodes)))
        of_node = sa.or_(in_force, of_node)
    # The value of the last one is a parameter of the clause before it.
    return {OF_OWNER: whole, OWN_OWNER: Bound(of_node), OWN_LESSEE: Bound(sa.true())}


def own_rows(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition of rows of a project; the parameters are None or the project."""
    return sa.or_(
        *(
            table.c[column] == sa.bindparam(name, type_=sa.String)
            for column, name in (("owner", OWN_OWNER), ("lessee", OWN_LESSEE))
        )
    )


Shape = tuple[tuple[str, str], ...]


class Place(TypedDict, total=False):
    """Place of a page in a list: the marker, the direction (``asc`` or ``desc``) and the length.

    ``marker_id`` is the marker column's value of the last row of the previous page; a row of
    another project, node or portgroup than requested does not count.
    """

    marker_id: str | None
    direction: str
    limit: int


class Asked(Place, total=False):
    """Arguments of a page.

    ``columns`` is None for all. ``where`` maps filters to values: of a special filter, or of a
    column; None means IS NULL, a list any of its values. ``texts`` are JSON columns to leave as
    their stored text, because decoding is the largest cost of a list of many rows.
    """

    columns: Sequence[str] | None
    where: RowView | None
    sort: str
    texts: Sequence[str]


# Long texts are ordered by their beginning, as MariaDB sorts by no more.
_SORTED_LENGTH = 255
# Rows read and processed at a time: few enough to stay in a processor's cache.
_PART = 100
_WHOSE = ("node_uuid", "portgroup_uuid", "project", "of_owner")
"""The filters that restrict rows to those a client may see."""
_MOST_BRANCHES = 16


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A table that can be paged, with the column that markers name.

    ``filters`` are more than a column's equality; ``more`` are expressions that can be selected
    like columns.
    """

    table: sa.Table
    filters: Mapping[str, Switch | Bound | Either] = dataclasses.field(default_factory=dict)
    marker: str = "uuid"
    more: Mapping[str, sa.ColumnElement[Any]] = dataclasses.field(default_factory=dict)

    def page(self, conn: sa.Connection, **asked: Unpack[Asked]) -> list[Row]:
        """Return up to ``limit`` rows after the marker, as column -> value.

        NULL comes before every value, and rows of equal value are ordered by id; ``desc`` reverses
        both. So the order is the same on every database.

        :raises errors.NotFound: no row has this marker.
        """
        return [row for some in self.parts(conn, **asked) for row in some]

    def parts(
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
    ) -> Generator[list[Row]]:
        """Yield the rows of `page`, by the same one statement, some at a time.

        A caller that processes each part before the next saves a quarter of the time of a thousand
        whole nodes, and most of their memory. ``conn`` must not be used otherwise meanwhile.
        """
        names = models.columns(self.table) if columns is None else tuple(columns)
        shape, values = self._read_filters(where or {})
        order = PageOrder(sort, direction == "desc", marker_id is not None, conn.dialect.name)
        chosen = tuple((name, name in texts) for name in names)
        values["limit_"] = limit
        if marker_id is not None:
            values["marker_"] = marker_id
        some: list[Row] | None = None
        sealed = [
            name
            for name in encryption.encrypted_columns(self.table)
            if name in texts and name in names
        ]
        open_text = encryption.opener(conn)
        form = (self, chosen, shape, order)
        size = min(limit, _PART)
        with contextlib.closing(
            prepared.parts(conn, _select_page, form, values, names=names, size=size)
        ) as found:
            for some in found:
                for name in sealed:
                    for row in some:
                        text = row[name]
                        if text is not None and text.startswith(encryption.START):
                            row[name] = open_text(text)
                yield some
        if some is None and marker_id is not None:
            self._must_exist(conn, shape, values)

    def counts(
        self, conn: sa.Connection, *, by: tuple[str, ...], where: RowView, most: int
    ) -> list[tuple[Any, ...]]:
        """Return the number of rows for each combination of values, by one statement.

        :param by: columns.
        :param where: as in `Asked`.
        :param most: combinations; more are left out.
        :return: the values of ``by`` and the number, in no order.
        """
        shape, values = self._read_filters(where)
        return [tuple(row) for row in conn.execute(_count_by(self, by, shape, most), values)]

    def shape(self, where: RowView) -> tuple[Shape, Row]:
        """Return the shape of filters for `matching`, and their values; ``where`` as in `Asked`."""
        return self._read_filters(where)

    def matching(self, statement: sa.Select[Any], shape: Shape) -> sa.Select[Any]:
        """Return a statement on the table, which enters an index itself, with some filters."""
        return _matching(self, statement, shape, few=True)

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
                shape.append((name, special.form(value)))
                values |= {name: value} if isinstance(value, str) else {}
            elif isinstance(special, Either):
                shape.append((name, "either"))
                values[name] = value
            elif isinstance(special, Bound):
                shape.append((name, "bound"))
                values[name] = special.adapt(value)
            elif value is None:
                shape.append((name, "null"))
            elif value is False:
                shape.append((name, "false"))
            elif isinstance(value, list | tuple | set | frozenset):
                shape.append((name, self._read_list(name, list(dict.fromkeys(value)), values)))
            else:
                shape.append((name, "is"))
                values[name] = value
        return tuple(sorted(shape)), values

    def _read_list(self, name: str, chosen: list[Any], values: Row) -> str:
        """Bind a list of values; return the form of the filter: with their number, if few."""
        if len(chosen) == 1:
            values[name] = chosen[0]
            return "is"
        if 1 < len(chosen) <= _MOST_BRANCHES and leads_index(self.table, name):
            values.update((f"{name}__{place}", one) for place, one in enumerate(chosen))
            return f"in {len(chosen)}"
        values[name] = chosen
        return "in"

    def clause(self, name: str, form: str, indexed: bool = True) -> Clause | None:
        """Return the condition of one filter of a shape.

        :param indexed: False if another filter finds few rows, which this one only compares.
        """
        special = self.filters.get(name)
        if isinstance(special, Switch):
            return {"on": special.on, "off": special.off, "of": special.of}[form]
        if isinstance(special, Bound):
            return special.clause
        several = self.alternatives(name, form)
        return sa.or_(*several) if several else self._column_clause(name, form, indexed)

    def _column_clause(self, name: str, form: str, indexed: bool) -> Clause:
        column = self.table.c[name] if indexed else unindexed(self.table.c[name])
        if form == "null":
            return column.is_(None)
        if form == "false":  # most rows
            return unindexed(self.table.c[name]) == sa.false()
        if form == "in":
            return column.in_(sa.bindparam(name, expanding=True, type_=column.type))
        return column == sa.bindparam(name, type_=column.type)

    def alternatives(self, name: str, form: str) -> tuple[Clause, ...]:
        """Return the clauses of a filter of which each has an index; none for other filters."""
        special = self.filters.get(name)
        if isinstance(special, Either):
            return special.clauses
        if not form.startswith("in "):
            return ()
        column = self.table.c[name]
        return tuple(
            column == sa.bindparam(f"{name}__{place}", type_=column.type)
            for place in range(int(form[3:]))
        )

    def finds_few(self, shape: Shape) -> bool:
        """Return whether few rows match a filter of this shape."""
        found = ((self.filters.get(name), form) for name, form in shape)
        return any(
            (isinstance(one, Bound) and one.few)
            or (isinstance(one, Switch) and one.few and form != "off")
            for one, form in found
        )

    def finds_most(self, shape: Shape) -> bool:
        """Return whether most rows match all filters of this shape."""
        found = ((self.filters.get(name), form) for name, form in shape)
        return all(
            form == "false" or (isinstance(one, Switch) and one.most and form == "off")
            for one, form in found
        )

    def _must_exist(self, conn: sa.Connection, shape: Shape, values: RowView) -> None:
        other, named = _marker_condition(self, shape)
        if conn.execute(sa.select(other.c.id).where(named), values).first() is None:
            raise errors.NotFound(what="Marker", ident=values["marker_"])


@lru_cache(maxsize=64)
def _count_by(listing: Listing, by: tuple[str, ...], shape: Shape, most: int) -> sa.Select[Any]:
    columns = [listing.table.c[name] for name in by]
    statement = sa.select(*columns, sa.func.count()).select_from(listing.table)
    return _matching(listing, statement, shape).group_by(*columns).limit(most)


def _matching(
    listing: Listing, statement: sa.Select[Any], shape: Shape, *, few: bool = False
) -> sa.Select[Any]:
    """Return the statement with the conditions of a shape; ``few``: by rows found otherwise."""
    few = few or listing.finds_few(shape)
    for name, form in shape:
        clause = listing.clause(name, form, indexed=not few)
        if clause is not None:
            statement = statement.where(clause)
    return statement


def _select_page(
    listing: Listing,
    chosen: tuple[tuple[str, bool], ...],
    shape: Shape,
    order: PageOrder,
) -> sa.Select[Any]:
    """Return the statement of a page.

    An index gives the rows of one value in the order of the page, but not those of several values.
    So a page of rows with one of several values is the beginning of the pages of each value, and a
    sorted page of a whole table is the beginning of some ranges of an index.
    """
    table = listing.table
    statement = sa.select(*(listing.column(name, as_text) for name, as_text in chosen))
    marker = _marker_condition(listing, shape) if order.marked else None
    for name, form in shape:
        clauses = () if listing.finds_few(shape) else listing.alternatives(name, form)
        if clauses:
            left = tuple(one for one in shape if one != (name, form))
            pages = [
                _in_order(listing, sa.select(table.c.id).where(one), left, order, marker)
                for one in clauses
            ]
            return _beginning(listing, statement, pages, order)
    if listing.finds_most(shape) and has_index_ranges(table, order):
        pages = [_matching(listing, page, shape) for page in index_ranges(table, order, marker)]
        return _beginning(listing, statement, pages, order)
    return _in_order(listing, statement, shape, order, marker)


def _beginning(
    listing: Listing, statement: sa.Select[Any], pages: Sequence[sa.Select[Any]], order: PageOrder
) -> sa.Select[Any]:
    """Return the statement for the first rows of some pages of ids."""
    ids = listing.table.c.id
    found = sa.union_all(*(sa.select(page.subquery().c.id) for page in pages)).subquery()
    return _ordered(listing, statement.where(ids.in_(sa.select(found.c.id))), order, few=True)


def _in_order(
    listing: Listing,
    statement: sa.Select[Any],
    shape: Shape,
    order: PageOrder,
    marker: tuple[Any, Clause] | None,
) -> sa.Select[Any]:
    """Return the statement with the conditions of a shape, and the order and limit of a page."""
    table, (sort, down, _, dialect) = listing.table, order
    statement, few = _matching(listing, statement, shape), listing.finds_few(shape)
    if marker is not None:
        if sort == "id" and dialect not in JOINING:
            statement = _after_id(statement, table, marker, down, few)
        elif not table.c[sort].nullable and dialect not in JOINING:
            statement = _after_value(statement, table, marker, sort, down)
        else:
            statement = _after_marker(statement, table, marker, sort, down)
    return _ordered(listing, statement, order, few)


def _ordered(
    listing: Listing, statement: sa.Select[Any], order: PageOrder, few: bool
) -> sa.Select[Any]:
    table, (sort, down, _, dialect) = listing.table, order
    ident = unindexed(table.c.id) if few else table.c.id
    for part in (*([_sortable_column(table.c[sort])] if sort != "id" else []), ident):
        direction = part.desc() if down else part.asc()
        if dialect == "postgresql" and part is not ident and table.c[sort].nullable:
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
    statement: sa.Select[Any],
    table: sa.Table,
    marker: tuple[Any, Clause],
    down: bool,
    few: bool,
) -> sa.Select[Any]:
    """Start inside the primary key, so that every page costs the same."""
    other, named = marker
    last = sa.select(other.c.id).where(named).scalar_subquery()
    ident = unindexed(table.c.id) if few else table.c.id
    return statement.where(ident < last if down else ident > last)


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
