"""A fleet of any size, written directly into the tables of a database.

Every node has ports, runs with steps, and events, in the same proportion at every size. The number
of nodes at work is the same at every size too, so whatever grows with the fleet is seen: a sweep
that looks at nodes at work finds as many in a large fleet as in a small one.
"""

from __future__ import annotations

import datetime
import random
import uuid
from typing import Any

import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import migrate, models
from ironic_lite.domain import fields

PORTS, RUNS, STEPS, EVENTS = 2, 2, 2, 10
"""Of each node: ports, runs, and events; of each run: steps."""
FEW = 20
"""Nodes with each rare value, at the end of the fleet."""
CAUSE, COMMON_CAUSE = "c41f0be9a7d2", "0" * 12
PROJECT, SHARD, GROUP, CLASS = "project-rare", "shard-rare", "rack-rare", "gpu-rare"
AT_WORK = {"clean wait": 60, "wait call-back": 60, "cleaning": 20, "clean failed": 20}
"""Nodes of some states, in a fleet of any size."""
_PART = 5000
_DAY = 24 * 3600
_INTERFACES = {
    **{f"{kind}_interface": "fake" for kind in fields.INTERFACE_KINDS},
    **dict.fromkeys(("network_interface", "storage_interface"), "noop"),
}
_SHARES = (("active", 70), ("available", 20), ("manageable", 10))
_LOCK = ("reservation", "lock_token", "lock_expires")
_STATES = [state for state, share in _SHARES for _ in range(share)]


def machine(number: int) -> dict[str, Any]:
    """Return the columns that describe a machine, as operators write them."""
    return {
        **_INTERFACES,
        "name": f"node-{number}",
        "driver": "fake-hardware",
        "driver_info": {"address": f"192.0.2.{number % 250}", "username": "a", "password": "b"},
        "driver_internal_info": {"clean_steps": None, "agent_url": "https://192.0.2.1:9999"},
        "properties": {"cpus": 8, "memory_mb": 65536, "local_gb": 480, "cpu_arch": "x86_64"},
        "extra": {"rack": f"r{number % 40}"},
        "instance_info": {},
    }


def fill(opened: Database, count: int) -> list[str]:
    """Migrate a database and fill it; return the UUIDs of the nodes in the order of their ids."""
    migrate.upgrade(opened)
    chosen = random.Random(count)
    uuids = [str(uuid.UUID(int=chosen.getrandbits(128), version=4)) for _ in range(count)]
    for first in range(0, count, _PART):
        rows = [_node(first + n, one, count) for n, one in enumerate(uuids[first:][:_PART])]
        opened.write(lambda conn, rows=rows: conn.execute(sa.insert(models.nodes), rows))  # type: ignore[misc]
    for add in (_add_ports, _add_runs, _add_steps, _add_events, _add_holds):
        opened.write(add)
    if opened.kind == "postgresql":
        engine = opened.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            conn.execute(sa.text("VACUUM ANALYZE"))
    return uuids


def _node(number: int, ident: str, count: int) -> dict[str, Any]:
    left = count - number
    state = _STATES[number % 100]
    at = clock.ago(_DAY) + datetime.timedelta(milliseconds=10 * number)
    used = state == "active"
    row = {
        **machine(number),
        "uuid": ident,
        "instance_uuid": ident if used else None,
        "instance_name": f"instance-{number}" if used else None,
        "provision_state": state,
        "provision_updated_at": at,
        "power_state": "power off",
        "resource_class": "baremetal",
        "owner": f"project-{number % 50}",
        "shard": f"shard-{number % 20}",
        "conductor_group": "",
        "description": f"machine {number}",
        "created_at": at - datetime.timedelta(days=1),
        "updated_at": at,
        **dict.fromkeys(("fault", "wake_at", "clean_step", *_LOCK)),
        "maintenance": False,
        "retired": False,
        "data_state": "unknown",
    }
    if left <= FEW:
        row |= {"owner": PROJECT, "shard": SHARD, "conductor_group": GROUP}
        row |= {"resource_class": CLASS, "fault": "power failure", "maintenance": True}
        row |= {"retired": True, "data_state": "dirty", "driver": "rare"}
    return row | _work(left - FEW)


def _work(left: int) -> dict[str, Any]:
    """Return the state of a node at work, by its place before the nodes with rare values."""
    for state, number in AT_WORK.items():
        if 0 < left <= number:
            step = {"interface": "management", "step": "reset_bmc", "priority": 0}
            row: dict[str, Any] = {"provision_state": state, "clean_step": step}
            row |= {"provision_updated_at": clock.now(), "instance_uuid": None}
            if state == "cleaning":
                lock = ("other", str(uuid.uuid4()), clock.after(3600))
                row |= dict(zip(_LOCK, lock, strict=True))
            elif left % 2 and "wait" in state:
                row["wake_at"] = clock.after(3600)
            return row
        left -= number
    return {}


def _series(most: int) -> sa.CTE:
    """Return the numbers from 1, as a table."""
    numbers = sa.select(sa.literal(1).label("n")).cte("numbers", recursive=True)
    return numbers.union_all(sa.select(numbers.c.n + 1).where(numbers.c.n < most))


def _derived(ident: sa.ColumnElement[str], digit: sa.ColumnElement[Any], place: int) -> Any:
    """Return a UUID with some characters replaced: others for each of a node's rows."""
    text = sa.cast(digit, sa.String)
    return sa.func.substr(ident, 1, place) + text + sa.func.substr(ident, place + 2)


def _copy(conn: Connection, table: sa.Table, source: Any, **values: Any) -> None:
    chosen = source.with_only_columns(*values.values(), maintain_column_froms=True)
    conn.execute(sa.insert(table).from_select(list(values), chosen))


def _add_ports(conn: Connection) -> None:
    node, number = models.nodes.c, _series(PORTS)
    source = sa.select(node.uuid, number.c.n).select_from(models.nodes.join(number, sa.true()))
    _copy(
        conn,
        models.ports,
        source.order_by(node.id),
        uuid=_derived(node.uuid, number.c.n, 0),
        node_uuid=node.uuid,
        address=sa.cast(node.id * 4 + number.c.n, sa.String),
        pxe_enabled=sa.true(),
        is_smartnic=sa.false(),
        available_for_dynamic_portgroup=sa.false(),
        created_at=sa.literal(clock.now()),
    )


def _add_runs(conn: Connection) -> None:
    """Add old runs that have ended, and one under way for each node at work."""
    node, number = models.nodes.c, _series(RUNS)
    source = sa.select(node.uuid, number.c.n).select_from(models.nodes.join(number, sa.true()))
    run = _derived(node.uuid, number.c.n, 0)
    busy = sa.and_(number.c.n == RUNS, node.provision_state.in_(("cleaning", "clean wait")))
    begun = sa.case((number.c.n == RUNS, node.provision_updated_at), else_=node.created_at)
    _copy(
        conn,
        models.runs,
        source.order_by(number.c.n, node.id),
        uuid=run,
        node_uuid=node.uuid,
        verb=sa.literal("clean"),
        requester=sa.literal("admin"),
        project=node.owner,
        request_id=sa.literal("req-") + run,
        conductor=sa.literal("other"),
        state=sa.case((busy, "waiting"), (node.id % 50 == 0, "failed"), else_="done"),
        started_at=begun,
        ended_at=sa.case((busy, None), else_=begun),
        code=sa.case((node.id % 50 == 0, "StepFailed"), else_=None),
        cause=sa.case(
            (node.provision_state == "clean failed", CAUSE),
            (node.id % 50 == 0, COMMON_CAUSE),
            else_=None,
        ),
    )
    latest = _derived(node.uuid, sa.literal(RUNS), 0)
    conn.execute(
        sa.update(models.nodes)
        .where(node.provision_state.in_(("cleaning", "clean wait")))
        .values(run_uuid=latest)
    )


def _add_steps(conn: Connection) -> None:
    run, number = models.runs.c, _series(STEPS)
    source = sa.select(run.uuid, number.c.n).select_from(models.runs.join(number, sa.true()))
    busy = sa.and_(run.ended_at.is_(None), number.c.n == 1)
    _copy(
        conn,
        models.run_steps,
        source.order_by(run.id, number.c.n),
        run_uuid=run.uuid,
        ordinal=number.c.n,
        kind=sa.literal("clean"),
        interface=sa.literal("management"),
        step=sa.literal("reset_bmc"),
        priority=sa.literal(0.0),
        abortable=sa.false(),
        state=sa.case((busy, "waiting"), (run.ended_at.is_(None), "pending"), else_="done"),
        attempt=sa.literal(1),
        started_at=run.started_at,
        ended_at=run.ended_at,
    )


def _add_events(conn: Connection) -> None:
    node, number = models.nodes.c, _series(EVENTS)
    source = sa.select(node.uuid, number.c.n).select_from(models.nodes.join(number, sa.true()))
    provision = number.c.n % 5 == 0
    _copy(
        conn,
        models.events,
        source.order_by(number.c.n, node.id),
        at=sa.literal(clock.ago(24 * 3600)),
        node_uuid=node.uuid,
        run_uuid=_derived(node.uuid, sa.literal(1), 0),
        kind=sa.case((provision, "provision"), else_="step_ended"),
        event=sa.case((provision, "end"), else_="clean"),
        after=sa.literal("manageable"),
        conductor=sa.literal("other"),
        request_id=sa.literal("req-1"),
        data=sa.literal({"step": "management.reset_bmc", "ordinal": 1}, models.events.c.data.type),
    )


def _add_holds(conn: Connection) -> None:
    node = models.nodes.c
    source = sa.select(node.uuid).order_by(node.id.desc()).limit(FEW)
    _copy(
        conn,
        models.holds,
        source,
        uuid=node.uuid,
        node_uuid=node.uuid,
        kind=sa.literal("repair"),
        reason=sa.literal("a disk"),
        blocks=sa.literal("deploy"),
        created_at=sa.literal(clock.now()),
    )
