"""Recovery of allocations whose conductor died while it searched for a node."""

from __future__ import annotations

import logging

from ironic_lite import errors
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.conductor.work.allocator import Allocator
from ironic_lite.core import context
from ironic_lite.db.queries import allocations

LOG = logging.getLogger(__name__)


class AllocationRecovery:
    """Continues the searches of dead conductors."""

    def __init__(self, tasks: Tasks, fleet: Ownership, allocator: Allocator) -> None:
        self._runtime = tasks.runtime
        self._fleet = fleet
        self._allocator = allocator

    def sweep(self) -> None:
        """Take over the searches of dead conductors, and of earlier lives of this one.

        The first conductor gets them. Without a free worker the next sweep continues.
        """
        found = self._runtime.database.read(allocations.unsettled)
        if not found:
            return
        own = self._allocator.under_way
        living = {member.host for member in self._fleet.members()} - {self._runtime.host}
        for row in found:
            if row["uuid"] in own or row["conductor"] in living or self._runtime.draining.is_set():
                continue
            LOG.warning("Allocation %s was left by %s", row["uuid"], row["conductor"])
            try:
                who = context.internal("recovery")
                self._allocator.resume(who, row["uuid"], row["conductor"])
            except errors.NoFreeWorker as why:
                LOG.info("Taking over allocations continues later: %s", why)
                return
