"""Queries on allocations: requests for a node, and their results.

A node and its allocation name each other. Both are written in one transaction, the allocation's row
first. `settle` requires that the allocation still looks for a node, ``nodes.edit`` that the node is
unchanged since it was read. So no node has two allocations, whatever the number of searches.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import faults
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, holds, paging
from ironic_lite.db.queries.resources import ResourceTable, is_uuid, no_node
from ironic_lite.db.tables import models
from ironic_lite.domain import history
from ironic_lite.domain.allocations import AllocationState, NodeOffer, Tally
from ironic_lite.domain.holds import ALLOCATION
from ironic_lite.domain.states import State as NodeState

Clause = sa.ColumnElement[bool]

FAMILY = ResourceTable(
    models.allocations,
    "allocation",
    lambda ident: errors.AllocationNotFound(allocation=ident),
    filters={
        "project": paging.Bound(
            models.allocations.c.owner == sa.bindparam("project", type_=sa.String)
        )
    },
    missing=no_node,
)
COLUMNS, page = FAMILY.columns, FAMILY.page
get, insert, update, delete = FAMILY.get, FAMILY.insert, FAMILY.update, FAMILY.delete

_ALLOCATION = models.allocations.c
_NODE = models.nodes.c
_TRAIT = models.traits.c
_THIS = _ALLOCATION.uuid == sa.bindparam("k_uuid")
_LOOKING = _ALLOCATION.state == AllocationState.ALLOCATING.value

_FACTS = sa.select(_ALLOCATION.uuid, _ALLOCATION.name, _ALLOCATION.owner).where(_THIS)
_FORGET = models.allocations.delete().where(_THIS)
_OF_NODE = sa.select(models.allocations).where(_ALLOCATION.node_uuid == sa.bindparam("k_node"))
_OWNER = sa.select(_ALLOCATION.owner).where(_THIS)
_SETTLE = models.allocations.update().where(_THIS, _LOOKING)
_TAKE_OVER = _SETTLE.where(_ALLOCATION.conductor == sa.bindparam("k_before"))
_UNSETTLED = (
    sa.select(_ALLOCATION.uuid, _ALLOCATION.conductor).where(_LOOKING).order_by(_ALLOCATION.id)
)
_KNOWN = sa.select(_NODE.uuid, _NODE.name).where(
    sa.or_(
        _NODE.uuid.in_(sa.bindparam("k_uuids", expanding=True, type_=sa.String)),
        _NODE.name.in_(sa.bindparam("k_names", expanding=True, type_=sa.String)),
    )
)


# -- reading ---------------------------------------------------------------------------------


def of_node(conn: Connection, node_uuid: str) -> Row:
    """Return the allocation of a node.

    :raises errors.AllocationNotFound: it has none.
    """
    found = conn.execute(_OF_NODE, {"k_node": node_uuid}).first()
    if found is None:
        text = f"Allocation for node {node_uuid} could not be found."
        raise errors.AllocationNotFound(text, allocation=node_uuid)
    return dict(zip(COLUMNS, found, strict=True))


def owner_of(conn: Connection, uuid: str) -> str | None:
    """Return the project of an allocation; None also if there is no such allocation."""
    return conn.execute(_OWNER, {"k_uuid": uuid}).scalar()


def unsettled(conn: Connection) -> list[Row]:
    """Return uuid and conductor of all allocations in search of a node, oldest first."""
    return [{"uuid": row.uuid, "conductor": row.conductor} for row in conn.execute(_UNSETTLED)]


# -- nodes that suit -------------------------------------------------------------------------

_OF_CLASS = _NODE.resource_class == sa.bindparam("k_class")
_FREE = sa.and_(
    _NODE.provision_state == NodeState.AVAILABLE.value,
    _NODE.instance_uuid.is_(None),
    _NODE.power_state.is_not(None),
    _NODE.maintenance.is_(sa.false()),
    _NODE.retired.is_(sa.false()),  # S4.13, also for one made available by other means
    _NODE.uuid.not_in(holds.nodes_refusing(ALLOCATION)),
)
_CANDIDATE = _NODE.uuid.in_(sa.bindparam("k_candidates", expanding=True, type_=sa.String))
_OWNED = sa.or_(_NODE.owner == sa.bindparam("k_owner"), _NODE.lessee == sa.bindparam("k_owner"))
_TRAITS = (
    sa.select(sa.func.count()).select_from(models.traits).where(_TRAIT.node_uuid == _NODE.uuid)
)
_TRAITED = _TRAITS.where(
    _TRAIT.trait.in_(sa.bindparam("k_traits", expanding=True, type_=sa.String))
).scalar_subquery() == sa.bindparam("k_many", type_=sa.Integer)


def _candidate_conditions(wanted: RowView) -> tuple[list[Clause], list[Clause], Row]:
    """Return the candidate and property conditions of an allocation, and their values."""
    values: Row = {"k_class": wanted["resource_class"]}
    allowed: list[Clause] = []
    fitting: list[Clause] = []
    if wanted["candidate_nodes"]:
        allowed.append(_CANDIDATE)
        values["k_candidates"] = list(wanted["candidate_nodes"])
    if wanted["owner"]:
        allowed.append(_OWNED)
        values["k_owner"] = wanted["owner"]
    if wanted.get("clean_data"):
        fitting.append(_NODE.data_state == sa.literal("clean"))
    if wanted["traits"]:
        fitting.append(_TRAITED)
        traits = sorted(set(wanted["traits"]))
        values.update(k_traits=traits, k_many=len(traits))
    return allowed, fitting, values


def offers(conn: Connection, wanted: RowView) -> list[NodeOffer]:
    """Return the nodes that suit an allocation, locked ones too.

    :param wanted: resource_class, traits, candidate_nodes and owner of the allocation; with
        ``clean_data`` only nodes whose data_state is clean suit.
    """
    allowed, fitting, values = _candidate_conditions(wanted)
    statement = sa.select(
        _NODE.uuid,
        _NODE.name,
        _NODE.generation,
        _NODE.reservation.is_not(None),
        _TRAITS.scalar_subquery(),
    ).where(_OF_CLASS, _FREE, *allowed, *fitting)
    return [
        NodeOffer(uuid, name, generation, bool(locked), traits)
        for uuid, name, generation, locked, traits in conn.execute(statement, values)
    ]


def tally(conn: Connection, wanted: RowView) -> Tally:
    """Return how many nodes each condition of an allocation leaves; see `offers`."""
    allowed, fitting, values = _candidate_conditions(wanted)
    steps: tuple[list[Clause], ...] = ([], allowed, [*allowed, _FREE], [*allowed, _FREE, *fitting])
    counts = (
        sa.func.coalesce(sa.func.sum(sa.case((sa.and_(sa.true(), *one), 1), else_=0)), 0)
        for one in steps
    )
    found = conn.execute(sa.select(*counts).where(_OF_CLASS), values).one()
    return Tally(*(int(count) for count in found))


def uuids_of(
    conn: Connection, idents: Collection[str], project: str | None = None
) -> dict[str, str]:
    """Return ident -> UUID of the existing nodes with these UUIDs or names.

    :param project: only nodes that it owns or leases; None for all.
    """
    uuids = {ident for ident in idents if is_uuid(ident)}
    given: Row = {
        "k_uuids": [ident.lower() for ident in uuids],
        "k_names": list(set(idents) - uuids),
    }
    statement = _KNOWN
    if project is not None:
        statement, given["k_owner"] = _KNOWN.where(_OWNED), project
    known: dict[str, str] = {}
    for uuid, name in conn.execute(statement, given):
        known.update({uuid: uuid, name: uuid})
    keys = {ident: ident.lower() if ident in uuids else ident for ident in idents}
    return {ident: known[key] for ident, key in keys.items() if key in known}


# -- writing ---------------------------------------------------------------------------------


def forget(conn: Connection, who: Context, uuid: str) -> None:
    """Remove an allocation whose node leaves it, if it still exists, and add the event."""
    row = _event_facts(conn, uuid)
    if row is not None and conn.execute(_FORGET, {"k_uuid": uuid}).rowcount:
        events.add(conn, [history.resource_event_row(who, "allocation_deleted", row)])


def take_over(conn: Connection, uuid: str, *, before: str, after: str) -> bool:
    """Move an allocation's search to another conductor; return whether it moved."""
    return bool(_change_row(conn, _TAKE_OVER, uuid, {"conductor": after, "k_before": before}))


def settle(
    conn: Connection, who: Context, uuid: str, state: AllocationState, **values: object
) -> bool:
    """End the search of an allocation, and add the event; return whether it was still searching.

    :param values: ``node_uuid``, or ``last_error``.
    """
    if not _change_row(conn, _SETTLE, uuid, {"state": state.value, **values}):
        return False
    row = _event_facts(conn, uuid)
    assert row is not None, "this transaction has changed the row"
    about = {"changed": sorted(("state", *values)), "state": state.value}
    events.add(conn, [history.resource_event_row(who, "allocation_updated", row, about)])
    return True


def _event_facts(conn: Connection, uuid: str) -> Row | None:
    """Return what events contain about an allocation, None without it."""
    found = conn.execute(_FACTS, {"k_uuid": uuid}).mappings().first()
    return dict(found) if found is not None else None


def _change_row(conn: Connection, statement: sa.Update, uuid: str, values: RowView) -> int:
    row = {"updated_at": clock.now(), **values, "k_uuid": uuid}
    try:
        return conn.execute(statement, row).rowcount
    except sa.exc.IntegrityError as error:
        raise _allocation_refused(error, row) from error


def _allocation_refused(error: sa.exc.IntegrityError, row: Row) -> Exception:
    missing = errors.NodeNotFound(node=row.get("node_uuid"))
    return faults.refused(error, models.allocations, "allocation", row, missing)
