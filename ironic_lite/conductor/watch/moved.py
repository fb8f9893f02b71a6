"""Finds nodes that came from another conductor, and rebuilds here what their machines boot from.

Boot files lie on the conductor that wrote them. A node whose ramdisk runs, or whose instance boots
from them each time, takes them along when the ring gives it to another one.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from ironic_lite import context, errors, states
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import nodes as db_nodes
from ironic_lite.db import sweeps
from ironic_lite.states import Kind, State

LOG = logging.getLogger(__name__)

STATES = tuple(
    sorted(
        str(state)
        for state in {*states.of_kind(Kind.WAIT), *states.of_kind(Kind.HELD)}
        | {State.ACTIVE, State.RESCUE}
    )
)
"""Those in which a machine may boot again without a verb; verbs write all files anew."""

_PAGE = 100


class Moved:
    """Remembers which nodes have all they need here; a node is looked at once per owner."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._settled: set[str] = set()

    def sweep(self) -> None:
        """Look at this conductor's nodes that it has not seen before."""
        mine = set()
        for row in self._standing():
            if not self._fleet.mine(row):
                continue
            uuid = row["uuid"]
            if uuid in self._settled or self._settle(uuid):
                mine.add(uuid)
        self._settled = mine

    def _standing(self) -> Iterator[Mapping[str, Any]]:
        after = 0
        while not self._tasks.desk.draining.is_set():
            question = functools.partial(
                sweeps.standing, states=STATES, after_id=after, limit=_PAGE
            )
            page = self._tasks.desk.database.read(question)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1]["id"]

    def _settle(self, uuid: str) -> bool:
        """Take a node over if its files are missing; True if there is nothing left to do."""
        who = context.internal("taking over")
        database = self._tasks.desk.database
        try:
            seen = self._tasks.view(who, database.read(lambda conn: db_nodes.load(conn, uuid)))
            if not seen.driver.deploy.lacks_files(seen):
                return True
            with self._tasks.lock(who, uuid, patient=False, reserved=False) as task:
                if str(task.state) in STATES:
                    task.driver.deploy.take_over(task)
                    task.save()
        except errors.Error as why:
            LOG.warning("Node %s: what it boots from is rebuilt later: %s", uuid, why)
            return False
        except Exception:  # a driver's bug with one node leaves the others to be looked at
            LOG.exception("Node %s: what it boots from could not be rebuilt", uuid)
            return False
        return True
