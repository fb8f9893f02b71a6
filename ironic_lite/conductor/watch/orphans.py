"""Finds nodes whose conductor is gone, and goes on with them (invariant 3, S2.24, C11).

A node in a busy state without a living lock has no owner; a lock whose lease has ended, or which an
earlier life of this host took, belongs to nobody. The ring says who takes them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ironic_lite import clock, context, errors, states
from ironic_lite.conductor.flows.resume import recover
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import sweeps

LOG = logging.getLogger(__name__)
BUSY = tuple(sorted(str(state) for state in states.of_kind(states.Kind.BUSY)))
_BATCH = 100


class Orphans:
    """Takes over what dead conductors left."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._tasks = tasks
        self._fleet = fleet

    def take_back(self) -> None:
        """At start: whatever this host still seems to hold is from an earlier life."""
        self._go_through(self._tasks.desk.host)

    def sweep(self) -> None:
        """Later: whatever belongs to nobody and is this conductor's by the ring."""
        self._go_through(None)

    def _go_through(self, host: str | None) -> None:
        database, now = self._tasks.desk.database, clock.now()
        busy = database.read(
            lambda conn: sweeps.unheld(conn, states=BUSY, now=now, host=host, limit=_BATCH)
        )
        idle = database.read(
            lambda conn: sweeps.stale_locks(conn, now=now, host=host, limit=_BATCH)
        )
        held = self._tasks.held
        for row in {row["uuid"]: row for row in (*busy, *idle)}.values():
            own = host is not None and row["reservation"] == host
            if row["lock_token"] not in held and (own or self._fleet.mine(row)):
                self._adopt(row)

    def _adopt(self, row: Mapping[str, Any]) -> None:
        who = context.internal("recovery")
        dead = row["reservation"] or "an earlier conductor"
        try:
            with self._tasks.lock(
                who,
                row["uuid"],
                worker=True,
                patient=False,
                reserved=False,
                stale=row["lock_token"],
            ) as task:
                LOG.warning(
                    "Node %s was left in %s by %s; taking it over", row["uuid"], task.state, dead
                )
                if task.node.target_power_state is not None:
                    task.node.target_power_state = None
                    task.node.last_error = (
                        f"The power change was cut short: conductor {dead} went away. "
                        "Look at power_state and repeat the request."
                    )
                    task.save()
                if states.kind(task.state) is states.Kind.BUSY:
                    task.hand_over(recover, dead)
        except (errors.NodeLocked, errors.NodeNotFound, errors.Unavailable) as why:
            LOG.info("Node %s: taking over is tried again later: %s", row["uuid"], why)
