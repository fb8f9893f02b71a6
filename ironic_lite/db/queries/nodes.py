"""Queries on nodes: reading, paging, the two guarded writes, the lock, traits, parents, counts."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Unpack

import sqlalchemy as sa

from ironic_lite import errors, records
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import faults, prepared
from ironic_lite.db.engine.session import Connection, write_node
from ironic_lite.db.queries import holds, paging, runs
from ironic_lite.db.queries.paging import unindexed
from ironic_lite.db.queries.resources import is_uuid
from ironic_lite.db.tables import models
from ironic_lite.domain import causes, node_locks, states
from ironic_lite.domain.erasure_records import DataState

COLUMNS: tuple[str, ...] = models.columns(models.nodes)
Lease = records.Lease
ENDED = datetime.datetime(1970, 1, 1)
"""The ``lock_expires`` of a lease that its holder gave up; it needs no watching."""

FREE: Row = dict.fromkeys(("reservation", "lock_token", "lock_expires", "locked_at", "lock_note"))
"""The values of the lock's columns on an unlocked node."""

_NODE = models.nodes.c
_CHUNK = 500  # values of one IN list

# -- statements ------------------------------------------------------------------------------

_MINE = (_NODE.uuid == sa.bindparam("k_uuid"), _NODE.lock_token == sa.bindparam("k_token"))
_NEXT = {"generation": _NODE.generation + 1}

_UNCHANGED = (
    _NODE.uuid == sa.bindparam("k_uuid"),
    _NODE.generation == sa.bindparam("k_generation"),
    _NODE.reservation.is_(None),
)
_FORGET_POWER = (
    models.nodes.update()
    .where(_NODE.power_state.is_not(None))
    .values({**_NEXT, "power_state": None})
)
_EDIT = prepared.Write(models.nodes.update().where(*_UNCHANGED).values(_NEXT))
_HEARD_AT = sa.bindparam("k_at", type_=_NODE.agent_heard_at.type)
_HEARTBEAT = prepared.Write(
    models.nodes.update()
    .where(
        _NODE.uuid == sa.bindparam("k_uuid"),
        _NODE.agent_pin == sa.bindparam("k_pin"),
        _NODE.agent_pin_generation == _NODE.generation,
        _NODE.reservation.is_(None),
    )
    .values(
        agent_heard_at=_HEARD_AT,
        provision_updated_at=sa.case(
            (
                # Not back, where the clock of an API lags behind a conductor's.
                sa.and_(
                    sa.or_(*(_NODE.provision_state == str(one) for one in states.POSTPONED)),
                    _NODE.provision_updated_at < _HEARD_AT,
                ),
                _HEARD_AT,
            ),
            else_=_NODE.provision_updated_at,
        ),
    ),
    columns=False,
)
_SAVE = prepared.Write(models.nodes.update().where(*_MINE).values(_NEXT))
_LOCK = prepared.Write(
    models.nodes.update().where(_NODE.uuid == sa.bindparam("k_uuid"), _NODE.reservation.is_(None))
)
_STEAL = models.nodes.update().where(
    _NODE.uuid == sa.bindparam("k_uuid"),
    sa.or_(
        _NODE.reservation.is_(None),
        sa.and_(
            _NODE.lock_token == sa.bindparam("k_steal"),
            _NODE.lock_expires.is_not_distinct_from(sa.bindparam("k_seen")),
        ),
    ),
)
_UNLOCK = prepared.Write(models.nodes.update().where(*_MINE).values(**FREE))
_RENEW = models.nodes.update().where(
    _NODE.reservation == sa.bindparam("k_host"),
    _NODE.lock_token.in_(sa.bindparam("k_tokens", expanding=True)),
)
_DELETE = prepared.Write(models.nodes.delete().where(*_MINE))
_INSERT = prepared.Write(models.nodes.insert().inline())
_STANDING = sa.select(*(_NODE[name] for name in node_locks.COLUMNS)).where(
    _NODE.uuid == sa.bindparam("k_uuid")
)
_LAST_CHANGE = (
    sa.select(_NODE.updated_at).where(_NODE.uuid == sa.bindparam("k_uuid")).with_for_update()
)
_TRAIT = models.traits.c
# A separator in the statement itself. As a value, SQLAlchemy would write it in at each execution.
_COMMA: Any = sa.literal_column("','")
_TRAITS = (
    sa.select(sa.func.aggregate_strings(_TRAIT.trait, _COMMA))
    .where(_TRAIT.node_uuid == _NODE.uuid)
    .scalar_subquery()
    .label("traits")
)

_EXTRA: Mapping[str, sa.ColumnElement[bool]] = {"held": holds.HELD}
"""Expressions that `get` selects like columns: whether the node has a hold in force."""


def _select_one(
    columns: tuple[str, ...], key: str, with_traits: bool, lock_row: bool
) -> sa.Select[Any]:
    more = (_TRAITS,) if with_traits else ()
    chosen = (*(_EXTRA[name] if name in _EXTRA else _NODE[name] for name in columns), *more)
    found = sa.select(*chosen).where(_NODE[key] == sa.bindparam("k_ident"))
    return found.with_for_update() if lock_row else found


# -- reading ---------------------------------------------------------------------------------


def get(
    conn: Connection,
    ident: str,
    columns: Sequence[str] | None = None,
    *,
    with_traits: bool = False,
    lock_row: bool = False,
) -> Row:
    """Return one node as column -> value.

    :param ident: UUID in any case, or name.
    :param columns: None for all; ``held`` is whether the node has a hold in force.
    :param with_traits: adds ``traits``, a sorted list, by the same statement.
    :param lock_row: prevent other changes and locks until this transaction ends.
    :raises errors.NodeNotFound:
    """
    names = COLUMNS if columns is None else tuple(columns)
    by_uuid = is_uuid(ident)
    form = (names, "uuid" if by_uuid else "name", with_traits, lock_row)
    values = {"k_ident": ident.lower() if by_uuid else ident}
    found = prepared.first(conn, _select_one, form, values)
    if found is None:
        raise errors.NodeNotFound(node=ident)
    row = dict(zip(names, found, strict=False))
    if with_traits:
        row["traits"] = _split_traits(found[-1])
    return row


def load(conn: Connection, uuid: str) -> records.Node:
    """Return a node with all columns.

    :raises errors.NodeNotFound:
    """
    return records.Node.of(get(conn, uuid))


FAILED = _NODE.provision_state.in_(causes.FAIL_STATES)
UNVERIFIED = sa.and_(
    _NODE.provision_state == causes.UNVERIFIED, unindexed(_NODE.last_error).is_not(None)
)
"""The conditions that a node stands in the failure of its newest run."""


def _standing(*own: sa.ColumnElement[bool]) -> paging.Bound:
    """Return the filter of nodes that stand in a failure of one of some causes.

    :param own: conditions of the run.
    """
    run = models.runs.c
    some = run.cause.in_(sa.bindparam("cause", expanding=True, type_=run.cause.type))
    found = sa.select(run.node_uuid).where(some, run.id == runs.NEWEST, *own)
    return paging.Bound(sa.and_(_NODE.uuid.in_(found), sa.or_(FAILED, UNVERIFIED)), few=True)


LISTING = paging.Listing(
    models.nodes,
    {
        "cause": _standing(),
        # Of the runs that a project may read. The value of the second is a parameter of the first.
        paging.OWN_OWNER: _standing(paging.own_rows(models.runs)),
        paging.OWN_LESSEE: paging.Bound(sa.true()),
        "associated": paging.Switch(
            _NODE.instance_uuid.is_not(None), _NODE.instance_uuid.is_(None)
        ),
        "held": paging.Switch(
            _NODE.uuid.in_(holds.HELD_NODES),
            sa.not_(holds.HELD),
            of=_NODE.uuid.in_(holds.HELD_NODES.where(models.holds.c.kind == sa.bindparam("held"))),
            few=True,
        ),
        "sharded": paging.Switch(_NODE.shard.is_not(None), _NODE.shard.is_(None)),
        "include_children": paging.Switch(off=unindexed(_NODE.parent_node).is_(None), most=True),
        "description_contains": paging.contains(_NODE.description, "description_contains"),
        "uuids": paging.any_of(_NODE.uuid, "uuids"),
        "project": paging.Either(
            (
                _NODE.owner == sa.bindparam("project", type_=sa.String),
                _NODE.lessee == sa.bindparam("project", type_=sa.String),
            )
        ),
    },
    more={"traits": _TRAITS},
)


def page(
    conn: Connection, *, with_traits: bool = False, **asked: Unpack[paging.Asked]
) -> list[Row]:
    """Return a page of nodes, as ``paging.Listing.page``.

    Special filters of ``where`` are ``associated`` (bool: has an instance_uuid), ``held`` (bool, or
    the kind of a hold), ``sharded`` (bool), ``description_contains`` (text), ``project`` (owner or
    lessee), ``uuids`` (list), ``include_children`` (bool). Nodes with a parent are hidden unless
    include_children is true or parent_node is given.

    :param with_traits: adds ``traits``, a sorted list, by the same statement.
    :raises errors.NotFound: no node is the marker.
    """
    found = parts(conn, with_traits=with_traits, **asked)
    return [row for some in found for row in some]


def parts(
    conn: Connection, *, with_traits: bool = False, **asked: Unpack[paging.Asked]
) -> Generator[list[Row]]:
    """Yield the nodes of `page` some at a time, as ``paging.Listing.parts``."""
    asked["where"] = _without_children(asked.get("where") or {})
    if with_traits:
        columns = asked.get("columns")
        asked["columns"] = (*(COLUMNS if columns is None else columns), "traits")
    with contextlib.closing(LISTING.parts(conn, **asked)) as found:
        for some in found:
            if with_traits:
                for row in some:
                    row["traits"] = _split_traits(row["traits"])
            yield some


def counts(
    conn: Connection, *, by: tuple[str, ...], where: RowView, most: int
) -> list[tuple[Any, ...]]:
    """Return the number of nodes for each combination of values, as ``paging.Listing.counts``.

    :param where: as for `page`.
    """
    return LISTING.counts(conn, by=by, where=_without_children(where), most=most)


def filters(where: RowView) -> tuple[paging.Shape, Row]:
    """Return the shape of filters, for `paging.Listing.matching`, and their values.

    :param where: as for `page`.
    """
    return LISTING.shape(_without_children(where))


def _without_children(where: RowView) -> Row:
    """Return the filters of a list, which leaves out nodes with a parent by default."""
    chosen = {"include_children": False, **where}
    if "parent_node" in chosen:  # asks for children in any case
        del chosen["include_children"]
    return chosen


def _split_traits(traits: str | None) -> list[str]:
    """Return the traits joined by one statement; the name of a trait has no comma."""
    return sorted(traits.split(",")) if traits else []


# -- writing ---------------------------------------------------------------------------------


def insert(conn: Connection, values: RowView) -> None:
    """Add a node; ``created_at`` is now unless given.

    :raises errors.Duplicate: its uuid, name or instance_uuid is taken; the fact ``key`` says which.
    :raises errors.ChassisNotFound:
    """
    row = {"created_at": clock.now(), **values}
    _write(conn, _INSERT, row["uuid"], row, {})


def edit(conn: Connection, uuid: str, values: RowView, *, generation: int) -> None:
    """Write columns of an unlocked node that has not changed since it was read.

    ``updated_at`` is now unless given.

    A reservation whose lease has expired still counts, because the node's work is unfinished.

    :param generation: as read; the node's is one more afterwards.
    :raises errors.NodeNotFound:
    :raises errors.NodeLocked: naming the holder.
    :raises errors.ConcurrentUpdate: another change came first.
    :raises errors.Duplicate: a unique value is taken.
    :raises errors.ChassisNotFound:
    """
    guard = {"k_uuid": uuid, "k_generation": generation}
    if not _write(conn, _EDIT, uuid, {"updated_at": clock.now(), **values}, guard):
        raise _edit_refused(conn, uuid)


def record_heartbeat(conn: Connection, uuid: str, *, pin: str) -> bool:
    """Record a heartbeat of the agent that a conductor has pinned; return whether it is recorded.

    The pin holds for one generation of the node, so each change of the node ends it. The generation
    stays, because a heartbeat changes nothing that a client could lose.

    :param pin: as `waiting.agent_pin` makes it.
    """
    values = {"k_uuid": uuid, "k_pin": pin, "k_at": clock.now()}
    return bool(_HEARTBEAT.execute(conn, values))


def forget_power(conn: Connection) -> None:
    """Forget the power state of each node; the power sync then reads it from the machine.

    Only while no conductor is alive, because it changes locked nodes, too.
    """
    conn.execute(_FORGET_POWER)


def _edit_refused(conn: Connection, uuid: str) -> errors.Error:
    """Return why a node could not be changed without its lock."""
    found = conn.execute(_STANDING, {"k_uuid": uuid}).first()
    if found is None:
        return errors.NodeNotFound(node=uuid)
    if found.reservation is not None:
        return node_locks.refusal(dict(zip(node_locks.COLUMNS, found, strict=True)))
    return errors.ConcurrentUpdate(node=uuid)


def save(
    conn: Connection,
    node_uuid: str,
    values: RowView,
    *,
    token: str,
    at: datetime.datetime | None = None,
) -> None:
    """Write columns of the node locked with this token; its generation grows by one.

    :param at: for ``updated_at``, by which `saved` recognises this change; None is now.
    :raises errors.LockLost: the lock is lost, or the node is gone.
    :raises errors.Duplicate: a unique value is taken.
    """
    guard = {"k_uuid": node_uuid, "k_token": token, "updated_at": at or clock.now()}
    if not _write(conn, _SAVE, node_uuid, values, guard):
        raise errors.LockLost(node=node_uuid)


def saved(conn: Connection, node_uuid: str, *, at: datetime.datetime) -> bool:
    """Return whether the change of ``at`` was made, after a lost reply: see `save`.

    The node cannot change until its lock is released. After a save that has released it, another
    change may hide this one; the caller then takes the lock for lost, and the node stays as saved.
    A change that the server is still about to make or to drop is waited for.
    """
    found = conn.execute(_LAST_CHANGE, {"k_uuid": node_uuid}).scalar()
    return bool(found == at)


def delete(conn: Connection, uuid: str, *, token: str) -> None:
    """Delete the node locked with this token, with ports, traits, runs; events stay.

    :raises errors.LockLost: the lock is lost, or the node is gone.
    """
    if not _DELETE.execute(conn, {"k_uuid": uuid, "k_token": token}):
        raise errors.LockLost(node=uuid)


def _write(
    conn: Connection, statement: prepared.Write, uuid: str, values: RowView, guard: RowView
) -> int:
    try:
        return write_node(conn, statement, uuid, values, guard)
    except sa.exc.IntegrityError as error:
        missing = errors.ChassisNotFound(chassis=values.get("chassis_uuid"))
        raise faults.refused(error, models.nodes, "node", values, missing) from error


# -- the lock --------------------------------------------------------------------------------


def lock(
    conn: Connection,
    uuid: str,
    *,
    host: str,
    token: str,
    expires: datetime.datetime,
    steal: Lease | None = None,
    note: str | None = None,
) -> bool:
    """Lock a node if it is free, by one conditional statement; return whether it was.

    The generation stays, because a lock alone changes nothing a client could lose.

    :param token: random and new; it proves who holds the lock.
    :param expires: a stamp that changes with each renewal (`renew`). Other processes only watch
        that it changes: see ``membership.liveness``. It is the moment at which the lease ends if
        all clocks are right.
    :param steal: the lock of a dead holder, which may be replaced. A lock renewed since it was read
        stays: its holder is alive, and acts on the machine.
    :param note: the purpose, as ``domain.node_locks`` writes it.
    """
    values = {
        "k_uuid": uuid,
        "reservation": host,
        "lock_token": token,
        "lock_expires": expires,
        "locked_at": clock.now(),
        "lock_note": note,
    }
    if steal is None:
        return bool(_LOCK.execute(conn, values))
    seen = {"k_steal": steal.token, "k_seen": steal.expires}
    return bool(conn.execute(_STEAL, {**values, **seen}).rowcount)


def unlock(conn: Connection, uuid: str, *, token: str) -> None:
    """Release a lock; no effect if it is lost already."""
    _UNLOCK.execute(conn, {"k_uuid": uuid, "k_token": token})


def renew(
    conn: Connection, *, host: str, tokens: Collection[str], expires: datetime.datetime
) -> int:
    """Extend the leases of these locks until ``expires``; return how many still held.

    One statement for each 500 tokens.
    """
    renewed = 0
    for some in _value_chunks(tokens):
        values = {"k_host": host, "k_tokens": some, "lock_expires": expires}
        renewed += conn.execute(_RENEW, values).rowcount
    return renewed


def give_up(conn: Connection, *, host: str, tokens: Collection[str]) -> None:
    """Let the owners of their nodes take over these locks; see `ENDED`."""
    renew(conn, host=host, tokens=tokens, expires=ENDED)


def _value_chunks(values: Collection[str]) -> Iterator[list[str]]:
    left = iter(values)
    while some := list(islice(left, _CHUNK)):
        yield some


# Queries on traits; changing them changes the node, under the rules of ``edit``.

MOST_TRAITS = 50
"""Limit of a node's traits."""

_TRAITS_OF_NODE = _TRAIT.node_uuid == sa.bindparam("k_node")
_GET_TRAITS = sa.select(_TRAIT.trait).where(_TRAITS_OF_NODE)
_INSERT_TRAITS = models.traits.insert().inline()
_CLEAR_TRAITS = models.traits.delete().where(_TRAITS_OF_NODE)
_REMOVE_TRAIT = models.traits.delete().where(
    _TRAITS_OF_NODE, _TRAIT.trait == sa.bindparam("k_trait")
)


def get_traits(conn: Connection, node_uuid: str) -> list[str]:
    """Return a node's traits, sorted; empty for a missing node."""
    return sorted(conn.execute(_GET_TRAITS, {"k_node": node_uuid}).scalars())


def replace_traits(
    conn: Connection, node_uuid: str, traits: Collection[str], *, generation: int
) -> None:
    """Set all traits of a node; a trait given twice counts once.

    :param generation: the node's, as read; one more afterwards.
    :raises errors.InvalidParameter: more than fifty.
    :raises errors.NodeNotFound:
    :raises errors.NodeLocked: naming the holder.
    :raises errors.Conflict: another change came first.
    """
    wanted = sorted(set(traits))
    _refuse_more_traits(len(wanted))
    edit(conn, node_uuid, {}, generation=generation)
    conn.execute(_CLEAR_TRAITS, {"k_node": node_uuid})
    if wanted:
        conn.execute(_INSERT_TRAITS, [{"node_uuid": node_uuid, "trait": trait} for trait in wanted])


def add_trait(conn: Connection, node_uuid: str, trait: str, *, generation: int) -> None:
    """Add a trait to a node; an existing one stays. Errors as `replace`."""
    edit(conn, node_uuid, {}, generation=generation)
    present = get_traits(conn, node_uuid)
    if trait in present:
        return
    _refuse_more_traits(len(present) + 1)
    conn.execute(_INSERT_TRAITS, {"node_uuid": node_uuid, "trait": trait})


def remove_trait(conn: Connection, node_uuid: str, trait: str, *, generation: int) -> None:
    """Remove a trait from a node. Errors as `replace`, and one more.

    :raises errors.NotFound: the node has no such trait.
    """
    edit(conn, node_uuid, {}, generation=generation)
    if not conn.execute(_REMOVE_TRAIT, {"k_node": node_uuid, "k_trait": trait}).rowcount:
        raise errors.NotFound(
            f"Node {node_uuid} doesn't have a trait '{trait}'.", what="Trait", ident=trait
        )


def settle_traits(
    conn: Connection, node_uuid: str, *, added: Collection[str], removed: Collection[str]
) -> None:
    """Change traits of a node locked by the caller, who writes the node's row.

    :raises errors.InvalidParameter: it would have more than fifty.
    """
    for trait in removed:
        conn.execute(_REMOVE_TRAIT, {"k_node": node_uuid, "k_trait": trait})
    if added:
        _refuse_more_traits(len({*get_traits(conn, node_uuid), *added}))
        conn.execute(_INSERT_TRAITS, [{"node_uuid": node_uuid, "trait": trait} for trait in added])


def _refuse_more_traits(count: int) -> None:
    if count > MOST_TRAITS:
        raise errors.InvalidParameter(
            path="traits",
            reason=f"a node has {MOST_TRAITS} traits at most, this would make {count}",
        )


# Parents of nodes: rings are refused, and a deleted parent leaves its children.

MOST_PARENTS = 16
"""Nodes above a node; each of them is a statement that locks a row."""
_CHILDREN = (
    sa.select(_NODE.uuid).where(_NODE.parent_node == sa.bindparam("k_uuid")).with_for_update()
)
_RELEASE_CHILDREN = (
    models.nodes.update()
    .where(_NODE.parent_node == sa.bindparam("k_uuid"))
    .values(parent_node=None, generation=_NODE.generation + 1)
)


def check_parent(conn: Connection, uuid: str, parent: str) -> None:
    """Refuse a parent that is missing, or below the node; no change is possible until the commit.

    Nodes further than `MOST_PARENTS` above it are not read, so a parent with as many above it is
    refused.

    :param uuid: of the node; it may be a new one.
    :raises errors.InvalidParameter:
    """
    seen = {uuid}
    above: str | None = parent
    while above is not None:
        if above in seen:
            if above != uuid:
                return  # an old ring of other nodes
            reason = f"node {parent} is node {uuid} itself or below it, which would form a ring"
            raise errors.InvalidParameter(path="parent_node", reason=reason)
        if len(seen) > MOST_PARENTS:
            reason = (
                f"node {parent} has {MOST_PARENTS} nodes above it; choose one with fewer than "
                f"{MOST_PARENTS}"
            )
            raise errors.InvalidParameter(path="parent_node", reason=reason)
        seen.add(above)
        try:
            above = get(conn, above, ("parent_node",), lock_row=True)["parent_node"]
        except errors.NodeNotFound as why:
            if above != parent:
                return
            raise errors.InvalidParameter(path="parent_node", reason=why.message) from None


def release_children(conn: Connection, uuid: str) -> list[str]:
    """Remove a node, which has been deleted, from its children; their locks do not matter.

    No conductor writes this column, and by ``updated_at`` a conductor recognises its own writes.
    A request that makes the node a parent locks its row, so it comes before the deletion or fails.

    :return: the UUIDs of the children.
    """
    found = conn.execute(_CHILDREN, {"k_uuid": uuid}).scalars().all()
    if found:
        conn.execute(_RELEASE_CHILDREN, {"k_uuid": uuid})
    return list(found)


_STATE_KEYS = (_NODE.provision_state, _NODE.maintenance, _NODE.data_state)
_STATE_COUNTS = (
    sa.select(*_STATE_KEYS, sa.func.count()).group_by(*_STATE_KEYS).order_by(*_STATE_KEYS)
)


class StateCounts(NamedTuple):
    """Numbers of nodes: by provision state and maintenance, and by data_state."""

    states: list[tuple[str, bool, int]]
    data_states: dict[str, int]


def count_by_state(conn: Connection) -> StateCounts:
    """Return the numbers of nodes, by one statement that reads all nodes."""
    states: dict[tuple[str, bool], int] = {}
    data = {str(state): 0 for state in DataState}
    for state, put, data_state, count in conn.execute(_STATE_COUNTS):
        states[state, bool(put)] = states.get((state, bool(put)), 0) + int(count)
        data[data_state or DataState.UNKNOWN] += int(count)
    return StateCounts([(state, put, count) for (state, put), count in states.items()], data)


_SHARD = models.nodes.c.shard
_SHARD_COUNTS = sa.select(_SHARD, sa.func.count()).group_by(_SHARD)


def count_by_shard(conn: Connection) -> list[Row]:
    """Return ``{"name": str | None, "count": int}``, largest first; None: no shard."""
    found = [{"name": name, "count": count} for name, count in conn.execute(_SHARD_COUNTS)]
    return sorted(found, key=lambda shard: (-shard["count"], shard["name"] or ""))
