"""Ownership of nodes: the ring over the membership rows, cached for a moment."""

from __future__ import annotations

import threading
import time

from ironic_lite import errors
from ironic_lite.conductor.work.runtime import Runtime
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.queries import conductors
from ironic_lite.membership import names, ring
from ironic_lite.membership.members import Membership


def pace(timeout: float) -> float:
    """Return the seconds between two reads of the heartbeats of others.

    :param timeout: ``[conductor]heartbeat_timeout``; a death is detected at most a twentieth of it
        later.
    """
    return max(_SHORTEST, timeout * _SHARE)


_SHORTEST = 0.25  # seconds
_SHARE = 0.05


class Ownership:
    """A conductor's view of its peers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._members: tuple[ring.Member, ...] = ()
        self._ring = ring.Ring(())
        self._fresh_until = 0.0
        self._roster = Membership(runtime.conf.conductor.heartbeat_timeout)
        self._guard = threading.Lock()

    def members(self) -> tuple[ring.Member, ...]:
        """Return the living conductors, at most ``hash_ring_reset_interval`` seconds old.

        The cache is shorter if a death would otherwise be detected too late.
        """
        with self._guard:
            if time.monotonic() >= self._fresh_until:
                settings = self._runtime.conf.conductor
                try:
                    rows = self._runtime.database.read(conductors.members)
                except errors.Error:
                    self._roster.blind()
                    raise
                members = self._roster.living(rows)
                if members != self._members:
                    self._members, self._ring = members, ring.Ring(members)
                fresh = min(settings.hash_ring_reset_interval, pace(settings.heartbeat_timeout))
                self._fresh_until = time.monotonic() + fresh
            return self._members

    def mine(self, row: JsonView) -> bool:
        """Return whether this conductor owns a node.

        :param row: with uuid, driver and conductor_group.
        """
        return self._owner(row) == self._runtime.host

    def here(self, row: JsonView) -> bool:
        """Return whether a process of this machine owns a node; ``row`` as for `mine`."""
        owner = self._owner(row)
        return owner is not None and names.machine(owner) == names.machine(self._runtime.host)

    def _owner(self, row: JsonView) -> str | None:
        self.members()
        return self._ring.owner(row["conductor_group"], row["driver"], row["uuid"])

    def has_owner(self, row: JsonView) -> bool:
        """Return whether any living conductor can drive a node; ``row`` as for `mine`."""
        group, driver = row["conductor_group"], row["driver"]
        return bool(ring.candidates(self.members(), group, driver))
