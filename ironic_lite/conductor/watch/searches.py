"""Goes on with allocations whose conductor has died while it looked for a node."""

from __future__ import annotations

import logging

from ironic_lite import context, errors
from ironic_lite.conductor.allocating import Allocator
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import allocations

LOG = logging.getLogger(__name__)


class Searches:
    """Looks for allocations that nobody looks after."""

    def __init__(self, tasks: Tasks, fleet: Fleet, allocator: Allocator) -> None:
        self._desk = tasks.desk
        self._fleet = fleet
        self._allocator = allocator

    def sweep(self) -> None:
        """Take over all of dead conductors, and of an earlier life of this one.

        Whoever is first has them; without a free worker the next sweep goes on.
        """
        found = self._desk.database.read(allocations.unsettled)
        if not found:
            return
        own = self._allocator.under_way
        living = {member.host for member in self._fleet.members()} - {self._desk.host}
        for row in found:
            if row["uuid"] in own or row["conductor"] in living or self._desk.draining.is_set():
                continue
            LOG.warning("Allocation %s was left by %s", row["uuid"], row["conductor"])
            try:
                who = context.internal("recovery")
                self._allocator.resume(who, row["uuid"], row["conductor"])
            except errors.NoFreeWorker as why:
                LOG.info("Taking over allocations goes on later: %s", why)
                return
