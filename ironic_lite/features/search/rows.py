"""Terms of nodes: changes that they follow, their rows, and the search in them.

A write of a source notes its node in the same transaction, so that no change is lost. The next
search, or soon a conductor, makes the terms: to write some twenty rows of an index would cost a
request that enrolls or changes a node half as much again.

UUIDs and the addresses of ports have indexes of their own, so they have no terms.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView, Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection, followers
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.features.search import rules
from ironic_lite.features.search.rules import Term

LOG = logging.getLogger(__name__)
TOGETHER = 20
"""Changes that are settled by one transaction, which locks their nodes."""

_TERM = models.search_terms.c
_NODE = models.nodes.c
_PORT = models.ports.c
_AFTER = "\U0010ffff"
"""The last character: a query with it is behind all texts that the query starts."""

_MARK = prepared.Write(models.search_changes.insert().inline())
_CHANGE = models.search_changes.c
_CHANGES = (
    sa.select(_CHANGE.id, _CHANGE.node_uuid)
    .order_by(_CHANGE.id)
    .limit(sa.bindparam("limit_", type_=sa.Integer))
)
_UNMARK = models.search_changes.delete().where(
    _CHANGE.id.in_(sa.bindparam("k_ids", expanding=True, type_=sa.BigInteger))
)
_OF_NODE = _TERM.node_uuid == sa.bindparam("k_node", type_=sa.String)
_INSERT = prepared.Write(models.search_terms.insert().inline())
_REMOVE = models.search_terms.delete().where(
    _OF_NODE, _TERM.field == sa.bindparam("k_field"), _TERM.term == sa.bindparam("k_term")
)
_STORED = sa.select(_TERM.field, _TERM.term, _TERM.value).where(_OF_NODE)
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


def changes(conn: Connection, limit: int) -> list[ChangeNote]:
    """Return the oldest changes whose terms are not made."""
    return [ChangeNote(*row) for row in conn.execute(_CHANGES, {"limit_": limit})]


def settle(conn: Connection, some: Sequence[ChangeNote]) -> None:
    """Make the terms of changed nodes; a change that comes later is a row of its own."""
    for node in sorted({change.uuid for change in some}):  # in one order, against deadlocks
        try:
            repair(conn, node)
        except errors.KeyMissing as why:
            LOG.warning("Node %s is not found by all its values: %s", node, why)
    conn.execute(_UNMARK, {"k_ids": [change.id for change in some]})


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
        keys = [{"k_node": node, "k_field": term.field, "k_term": term.term} for term in old]
        conn.execute(_REMOVE, keys)
    if new := right - stored:
        _INSERT.insert_all(conn, [{"node_uuid": node, **term._asdict()} for term in new])


def _stored(conn: Connection, node: str) -> set[Term]:
    return {Term(*row) for row in conn.execute(_STORED, {"k_node": node})}


def _right(conn: Connection, node: str, *, lock: bool = False) -> set[Term]:
    row = nodes.get(conn, node, sorted(rules.COLUMNS), lock_row=lock)
    inventory: JsonView | None = conn.execute(_INVENTORY, {"k_node": node}).scalar()
    return set(rules.all_terms(row, inventory))


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
    text: str,
    *,
    limit: int,
    project: str | None,
    readable: Mapping[str, Sides],
) -> tuple[list[Hit], bool]:
    """Return the first hits, and whether there are more.

    :param text: as `rules.query` returns it.
    :param project: owns or leases the nodes; None for all nodes.
    :param readable: sources that the caller may read only of nodes of a project.
    """
    hits: dict[Hit, None] = {}
    for statement, values in _statements(text, project, readable):
        # Two words of a value may start with the same text, so a hit may have several rows.
        most = 2 * (limit + 1)
        rows = conn.execute(statement, {**values, "limit_": most}).all()
        hits |= dict.fromkeys(Hit(*row) for row in rows)
        if len(hits) > limit or len(rows) == most:
            return list(hits)[:limit], True
    return list(hits), False


def _statements(
    text: str, project: str | None, readable: Mapping[str, Sides]
) -> list[tuple[sa.Select[Any], Row]]:
    """Return the selects of a query, the best hits first, and their values."""
    mine: list[sa.ColumnElement[bool]] = []
    values: Row = {"k_text": text, "k_after": f"{text}{_AFTER}"}
    if project is not None:
        mine.append(_owned_or_leased({"owner": project, "lessee": project}, "k_project", values))
    shown = [
        sa.or_(
            _TERM.field < f"{source}.",
            _TERM.field >= f"{source}/",
            _owned_or_leased(sides, f"k_{source}", values),
        )
        for source, sides in readable.items()
    ]
    of_terms = models.search_terms.join(models.nodes, _NODE.uuid == _TERM.node_uuid)
    made = [_select(of_terms, _TERM.term, _TERM.field, _TERM.value, [*mine, *shown])]
    if rules.may_start_ident(text):
        of_ports = models.ports.join(models.nodes, _NODE.uuid == _PORT.node_uuid)
        made.append(_select(of_ports, _PORT.address, "port.address", _PORT.address, mine))
        for column in (_NODE.uuid, _NODE.instance_uuid):
            made.append(_select(models.nodes, column, str(column.key), column, mine))
    return [(statement, values) for statement in made]


def _owned_or_leased(sides: Sides, name: str, values: Row) -> sa.ColumnElement[bool]:
    """Return a condition for nodes of a project; add its values."""
    given = {side: project for side, project in sides.items() if project is not None}
    values |= {f"{name}_{side}": project for side, project in given.items()}
    found = (_NODE[side] == sa.bindparam(f"{name}_{side}", type_=sa.String) for side in given)
    return sa.or_(sa.false(), *found)


def _select(
    table: sa.FromClause,
    column: sa.Column[Any],
    field: str | sa.Column[str],
    value: sa.Column[Any],
    where: Sequence[sa.ColumnElement[bool]],
) -> sa.Select[Any]:
    """Return the select of the values that a query starts, in their order."""
    shown = sa.literal(field) if isinstance(field, str) else field
    return (
        sa.select(_NODE.uuid, _NODE.name, shown, value, _NODE.provision_state)
        .select_from(table)
        .where(
            column >= sa.bindparam("k_text", type_=sa.String),
            column < sa.bindparam("k_after", type_=sa.String),
            *where,
        )
        .order_by(column)
        .limit(sa.bindparam("limit_", type_=sa.Integer))
    )
