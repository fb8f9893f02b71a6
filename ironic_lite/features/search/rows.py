"""Terms of nodes: changes that they follow, their rows, and the search in them.

A write of a source notes its node in the same transaction, so that no change is lost. The next
search, or soon a conductor, makes the terms: to write some twenty rows of an index would cost a
request that enrolls or changes a node half as much again.

UUIDs and the addresses of ports have indexes of their own, so they have no terms.

A term has the owner and lessee that its node had when the term was made, and is found only while
they are the same. So a new owner never finds a value of the former one, although terms may be old.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView, Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection, followers
from ironic_lite.db.queries import nodes
from ironic_lite.db.queries.paging import unindexed
from ironic_lite.db.tables import models
from ironic_lite.features.search import rules
from ironic_lite.features.search.rules import Term

TOGETHER = 20
"""Changes that are settled by one transaction, which locks their nodes."""

_TERM = models.search_terms.c
_NODE = models.nodes.c
_PORT = models.ports.c
_AFTER = "\U0010ffff"
"""The last character: a query with it is behind all texts that the query starts."""

_TEXT = sa.bindparam("k_text", type_=sa.String)
_INDEX = "FORCE INDEX (ix_search_terms_term)"
_GROWTH = 8

_MARK = prepared.Write(models.search_changes.insert().inline())
_CHANGE = models.search_changes.c
_CHANGES = (
    sa.select(_CHANGE.id, _CHANGE.node_uuid)
    .where(_CHANGE.id > sa.bindparam("k_after"))
    .order_by(_CHANGE.id)
    .limit(sa.bindparam("limit_", type_=sa.Integer))
)
_UNMARK = models.search_changes.delete().where(
    _CHANGE.id == sa.bindparam("k_id"), _CHANGE.node_uuid == sa.bindparam("k_node")
)
_COLUMNS = (*Term._fields, "owner", "lessee")
_OF_NODE = _TERM.node_uuid == sa.bindparam("k_node", type_=sa.String)
_INSERT = prepared.Write(models.search_terms.insert().inline())
_REMOVE = models.search_terms.delete().where(
    _OF_NODE, _TERM.field == sa.bindparam("k_field"), _TERM.term == sa.bindparam("k_term")
)
_STORED = sa.select(*(_TERM[name] for name in _COLUMNS)).where(_OF_NODE)
_INVENTORY = sa.select(models.inventories.c.inventory).where(
    models.inventories.c.node_uuid == sa.bindparam("k_node")
)
_UUIDS = (
    sa.select(_NODE.uuid)
    .where(_NODE.uuid > sa.bindparam("k_after"))
    .order_by(_NODE.uuid)
    .limit(sa.bindparam("limit_", type_=sa.Integer))
)


# -- changes of sources ----------------------------------------------------------------------


def attach(bind: sa.Engine | Connection) -> None:
    """Let writes to this database note the nodes whose terms are to be made again."""
    followers(bind)["search"] = _note


def _note(conn: Connection, node: str, values: RowView) -> None:
    if not rules.SOURCES.isdisjoint(values):
        _MARK.execute(conn, {"node_uuid": node})


class ChangeNote(NamedTuple):
    """A note that a source of a node has changed."""

    id: int
    uuid: str


def changes(conn: Connection, limit: int, after: int = 0) -> list[ChangeNote]:
    """Return the oldest changes whose terms are not made, behind an id."""
    found = conn.execute(_CHANGES, {"limit_": limit, "k_after": after})
    return [ChangeNote(*row) for row in found]


def settle(conn: Connection, some: Sequence[ChangeNote]) -> None:
    """Make the terms of changed nodes; a change that comes later is a row of its own."""
    for node in sorted({change.uuid for change in some}):  # in one order, against deadlocks
        repair(conn, node)
    unmark(conn, some)


def unmark(conn: Connection, some: Sequence[ChangeNote]) -> None:
    """Remove changes; SQLite may give the id of a removed one to another node's change."""
    if some:
        conn.execute(_UNMARK, [{"k_id": change.id, "k_node": change.uuid} for change in some])


# -- terms of a node -------------------------------------------------------------------------


def uuids(conn: Connection, after: str, limit: int) -> list[str]:
    """Return the next nodes in the order of their UUIDs."""
    return list(conn.execute(_UUIDS, {"k_after": after, "limit_": limit}).scalars())


def differ(conn: Connection, node: str) -> bool:
    """Return whether the stored terms of a node are not those of its sources."""
    try:
        return _stored(conn, node) != _right(conn, node)
    except errors.NodeNotFound:
        return False


def repair(conn: Connection, node: str) -> None:
    """Write the terms of a node, unless it is gone; one transaction at a time does it."""
    try:
        right = _right(conn, node, lock=True)
    except errors.NodeNotFound:
        return
    stored = _stored(conn, node)
    if old := stored - right:
        keys = [{"k_node": node, "k_field": field, "k_term": term} for field, term, *_ in old]
        conn.execute(_REMOVE, keys)
    if new := right - stored:
        some = (dict(zip(_COLUMNS, row, strict=True)) for row in new)
        _INSERT.insert_all(conn, [{"node_uuid": node, **row} for row in some])


def _stored(conn: Connection, node: str) -> set[tuple[str, ...]]:
    return {tuple(row) for row in conn.execute(_STORED, {"k_node": node})}


def _right(conn: Connection, node: str, *, lock: bool = False) -> set[tuple[str, ...]]:
    row = nodes.get(conn, node, sorted(rules.COLUMNS), lock_row=lock)
    inventory: JsonView | None = conn.execute(_INVENTORY, {"k_node": node}).scalar()
    return {(*term, row["owner"], row["lessee"]) for term in rules.all_terms(row, inventory)}


# -- serial numbers of machines --------------------------------------------------------------


def serials(conn: Connection, nodes_: Sequence[str], sides: Sides | None) -> dict[str, str]:
    """Return the serial numbers of the machines of some nodes, as their inventories have them.

    :param sides: as for `search`: the only nodes whose inventories the caller may read; None: all.
    """
    given = {side: one for side, one in sorted((sides or {}).items()) if one is not None}
    statement = _select_serials(None if sides is None else tuple(given))
    values: Row = {f"k_inventory_{side}": one for side, one in given.items()}
    found = conn.execute(statement, {**values, "k_nodes": list(nodes_)})
    return {row.node_uuid: row.value for row in found}


@functools.lru_cache
def _select_serials(sides: tuple[str, ...] | None) -> sa.Select[Any]:
    same = (_TERM[side].is_not_distinct_from(_NODE[side]) for side in ("owner", "lessee"))
    limits = {} if sides is None else {"inventory": sides}
    joined = models.search_terms.join(models.nodes, sa.and_(_NODE.uuid == _TERM.node_uuid, *same))
    return (
        sa.select(_TERM.node_uuid, _TERM.value)
        .select_from(joined)
        .where(
            _TERM.node_uuid.in_(sa.bindparam("k_nodes", expanding=True, type_=sa.String)),
            _TERM.field == rules.SERIAL,
            _owned_or_leased(models.search_terms, limits, "inventory"),
        )
    )


# -- the search ------------------------------------------------------------------------------


class Hit(NamedTuple):
    """A value of a node that a query has found."""

    uuid: str
    name: str | None
    field: str
    value: str
    provision_state: str


Sides = Mapping[str, str | None]
"""The project that must own or lease a node, by ``owner`` and ``lessee``."""


def search(
    conn: Connection,
    forms: Sequence[str],
    *,
    limit: int,
    project: str | None,
    readable: Mapping[str, Sides],
) -> tuple[list[Hit], bool]:
    """Return the first hits, and whether there are more.

    :param forms: as `rules.query` returns them.
    :param project: owns or leases the nodes; None for all nodes.
    :param readable: sources, or ``port``, that the caller may read only of nodes of a project.
    """
    hits: dict[Hit, None] = {}
    for text in forms:
        for statement, values in statements(text, project, readable):
            hits |= _first_hits(conn, statement, values, limit + 1)
            if len(hits) > limit:
                return list(hits)[:limit], True
    return list(hits), False


def _first_hits(
    conn: Connection, statement: sa.Select[Any], values: RowView, wanted: int
) -> dict[Hit, None]:
    """Return the first hits of a statement: all, or so many as are wanted, or more.

    Terms may be of one value, or of nodes that have changed hands, so that more terms are read.
    """
    some = 2 * wanted
    while True:
        found = conn.execute(statement, {**values, "limit_": some}).all()
        hits = dict.fromkeys(Hit(*row) for row in found if row[0] is not None)
        if len(hits) >= wanted or len(found) < some:
            return hits
        some *= _GROWTH


def statements(
    text: str, project: str | None, readable: Mapping[str, Sides]
) -> list[tuple[sa.Select[Any], Row]]:
    """Return the selects of a query, the best hits first, and their values."""
    values: Row = {"k_text": text, "k_after": f"{text}{_AFTER}", "k_whole": "_" * len(text)}
    limits = dict(readable)
    if project is not None:
        limits["node"] = dict.fromkeys(("owner", "lessee"), project)
    shape = []
    for source, sides in sorted(limits.items()):
        given = {side: one for side, one in sorted(sides.items()) if one is not None}
        values |= {f"k_{source}_{side}": one for side, one in given.items()}
        shape.append((source, tuple(given)))
    of_terms, idents = _selects(tuple(shape))
    if not rules.may_start_ident(text):
        made = of_terms
    else:
        made = [*idents, *of_terms] if rules.is_ident(text) else [*of_terms, *idents]
    return [(statement, values) for statement in made]


@functools.lru_cache(256)
def _selects(
    shape: tuple[tuple[str, tuple[str, ...]], ...],
) -> tuple[list[sa.Select[Any]], list[sa.Select[Any]]]:
    """Return the selects of terms, and those of UUIDs and addresses.

    They are kept, because a select is in cycles of references.

    :param shape: the sources of which the caller reads only nodes of a project, with the sides.
    """
    limits = dict(shape)
    of_terms = [_select_terms(chosen, limits) for chosen in (_WHOLE, _starts(_TERM.term))]
    mine = _owned_or_leased(models.nodes, limits, "node")
    joined = models.ports.join(models.nodes, _NODE.uuid == _PORT.node_uuid)
    where = [*_starts(_PORT.address), _owned_or_leased(models.nodes, limits, "port"), mine]
    idents = [_select(joined, "port.address", _PORT.address, where)]
    for column in (_NODE.uuid, _NODE.instance_uuid):
        idents.append(_select(models.nodes, str(column.key), column, [*_starts(column), mine]))
    return of_terms, idents


def _starts(column: sa.ColumnElement[Any]) -> tuple[sa.ColumnElement[bool], ...]:
    return (column >= _TEXT, column < sa.bindparam("k_after", type_=sa.String))


# A value that is as long as a term is this term. MariaDB would sort rows with an equal term.
_WHOLE = (_TERM.term >= _TEXT, _TERM.term <= _TEXT, _TERM.value.like(sa.bindparam("k_whole")))


def _select_terms(
    chosen: Iterable[sa.ColumnElement[bool]], limits: Mapping[str, Sequence[str]]
) -> sa.Select[Any]:
    """Return the select of the first terms, each with its node if the term is of its present owner.

    The index alone decides which terms these are: PostgreSQL and MariaDB would join and sort all.
    """
    where = [
        sa.or_(
            _TERM.field < f"{source}.",
            _TERM.field >= f"{source}/",
            _owned_or_leased(models.search_terms, limits, source),
        )
        for source in sorted(rules.SOURCES & limits.keys())
    ]
    columns = (_TERM[name] for name in ("term", "value", "node_uuid", "field", "owner", "lessee"))
    some = sa.select(*columns).where(
        *chosen, _owned_or_leased(models.search_terms, limits, "node"), *where
    )
    for dialect in ("mysql", "mariadb"):
        some = some.with_hint(models.search_terms, _INDEX, dialect)
    some = some.order_by(_TERM.term, _TERM.value, _TERM.node_uuid)
    first = some.limit(sa.bindparam("limit_", type_=sa.Integer)).subquery()
    same = (first.c[side].is_not_distinct_from(_NODE[side]) for side in ("owner", "lessee"))
    joined = first.outerjoin(models.nodes, sa.and_(_NODE.uuid == first.c.node_uuid, *same))
    return (
        sa.select(_NODE.uuid, _NODE.name, first.c.field, first.c.value, _NODE.provision_state)
        .select_from(joined)
        .order_by(first.c.term, first.c.value, first.c.node_uuid, first.c.field)
    )


def _owned_or_leased(
    table: sa.Table, limits: Mapping[str, Sequence[str]], name: str
) -> sa.ColumnElement[bool]:
    """Return a condition for rows of a project, if the caller is limited to these."""
    if name not in limits:
        return sa.true()
    found = (
        unindexed(table.c[side]) == sa.bindparam(f"k_{name}_{side}", type_=sa.String)
        for side in limits[name]
    )
    return sa.or_(sa.false(), *found)


def _select(
    table: sa.FromClause,
    field: str,
    value: sa.Column[Any],
    where: Sequence[sa.ColumnElement[bool]],
) -> sa.Select[Any]:
    """Return the select of hits in a column of identifiers, which are unique."""
    return (
        sa.select(_NODE.uuid, _NODE.name, sa.literal(field), value, _NODE.provision_state)
        .select_from(table)
        .where(*where)
        .order_by(value)
        .limit(sa.bindparam("limit_", type_=sa.Integer))
    )
