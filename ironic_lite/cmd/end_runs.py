"""``ironic-lite-dbsync end_runs``: end the runs of a restored database."""

from __future__ import annotations

import sys
from functools import partial

from ironic_lite import errors
from ironic_lite.conductor.service import Service
from ironic_lite.conductor.watch import ended_runs
from ironic_lite.conductor.watch.batches import Batches
from ironic_lite.conductor.watch.ended_runs import Found
from ironic_lite.core import clock
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import conductors, events, holds, nodes, server_health
from ironic_lite.domain import history
from ironic_lite.domain import holds as hold_rules
from ironic_lite.domain.batches import BY_RESTORE
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry
from ironic_lite.membership import members

_PAGE = 500
_ALIVE = (
    "Conductors are alive: {hosts}. Stop all conductors before you end runs. A conductor that was "
    "killed, or that ran at the time of the backup, counts as alive for "
    "[conductor]heartbeat_timeout seconds ({seconds}) after its last heartbeat in this database."
)


def run(conf: Configuration, database: Database, confirmed: bool, hold: str | None = None) -> int:
    """List the work that conductors would continue, and end it if ``confirmed``.

    :param hold: the reason of a hold of the kind freeze on every node, None for no holds.
    :returns: the exit status: 1 if a node could not be changed.
    :raises errors.Error: a conductor is alive, or the database is away.
    """
    _refuse_living(conf, database)
    found = database.read(ended_runs.find)
    for row in found.nodes.values():
        print(f"node {row['uuid']}: {ended_runs.outcome(row)}")
    for batch in found.batches:
        print(f"batch {batch['uuid']}: running: becomes paused")
    for uuid in found.allocations:
        print(f"allocation {uuid}: allocating: becomes error")
    counts = (len(found.nodes), len(found.batches), len(found.allocations))
    number = "{} nodes, {} batches, {} allocations".format(*counts)
    if hold is not None:
        count = sum(each for *_, each in database.read(server_health.node_groups))
        print(f"every node, {count}: becomes held (freeze), unless this command has held it before")
    if not confirmed:
        print(f"{number}. Nothing was changed. Repeat the command with --yes to do this.")
        return 0
    failed = _end(conf, database, found, hold)
    for uuid, why in failed.items():
        print(f"node {uuid}: its run has not ended: {why}", file=sys.stderr)
    if failed:
        print("Start no conductor before these runs have ended too.", file=sys.stderr)
        return 1
    print(f"Done: {number}. Conductors will read the power states from the machines.")
    return 0


def end_holds(database: Database, where: JsonView, reason: str) -> int:
    """End the holds of restored databases on the chosen nodes, while the service runs.

    :param where: ``owner`` or ``conductor_group`` of the nodes, or ``uuid``, names or UUIDs of
        nodes; empty for all nodes.
    :raises errors.NodeNotFound: a node does not exist; no hold has been ended.
    """
    chosen = dict(where)
    if "uuid" in chosen:
        idents = chosen["uuid"]
        chosen["uuid"] = [database.read(partial(_uuid, ident=ident)) for ident in idents]
    count = 0
    while ended := database.write(partial(_end_some, where=chosen, reason=reason)):
        count += ended
    print(f"{count} holds have ended.")
    return 0


def _uuid(conn: Connection, ident: str) -> str:
    return str(nodes.get(conn, ident, ("uuid",))["uuid"])


def _end_some(conn: Connection, where: JsonView, reason: str) -> int:
    """End the oldest of these holds, by one transaction; return their number."""
    now, written = clock.now(), []
    values = {"ended_at": now, "ended_by": BY_RESTORE, "end_reason": reason}
    columns = ("uuid", *history.STANDING)
    found = holds.begun_by(conn, BY_RESTORE, where, columns=columns, limit=_PAGE)
    for hold, node in found:
        if holds.end(conn, hold["uuid"], values):
            about = {**hold, "reason": reason}
            data = hold_rules.event_data(about, history.standing_of(node), None)
            event = {"at": now, "node_uuid": node["uuid"], "kind": "hold_ended"}
            written.append({**event, "event": hold["kind"], "requester": BY_RESTORE, "data": data})
    events.add(conn, written)
    return len(found)


def _end(
    conf: Configuration, database: Database, found: Found, hold: str | None
) -> dict[str, errors.Error]:
    # No driver is loaded, so nothing can be sent to a machine. The service is never started.
    registry = Registry({}, {kind: {} for kind in base.KINDS}, {}, {})
    service = Service(conf, database, registry, None)
    batches = Batches(service.tasks, service.ownership, service.endpoints)
    try:
        return ended_runs.end(service.tasks, batches, found, hold=hold)
    finally:
        service.stop(0)


def _refuse_living(conf: Configuration, database: Database) -> None:
    seconds = conf.conductor.heartbeat_timeout
    hosts = members.living_hosts(lambda: database.read(conductors.all), seconds)
    if hosts:
        raise errors.Conflict(_ALIVE.format(hosts=", ".join(hosts), seconds=seconds))
