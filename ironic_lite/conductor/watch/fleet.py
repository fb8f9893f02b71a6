"""Which nodes are this conductor's: the membership rows, cached for a moment, and the ring."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from ironic_lite import errors, ring
from ironic_lite.conductor.desk import Desk
from ironic_lite.db import conductors
from ironic_lite.roster import Roster


def pace(timeout: float) -> float:
    """Return the seconds between two looks at the signs of life of others.

    :param timeout: ``[conductor]heartbeat_timeout``; so much later, a twentieth, a death is seen.
    """
    return max(_SHORTEST, timeout * _SHARE)


_SHORTEST = 0.25  # seconds
_SHARE = 0.05


class Fleet:
    """A conductor's view of its peers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._members: tuple[ring.Member, ...] = ()
        self._fresh_until = 0.0
        self._roster = Roster(desk.conf.conductor.heartbeat_timeout)
        self._guard = threading.Lock()

    def members(self) -> tuple[ring.Member, ...]:
        """Return the living conductors, at most ``hash_ring_reset_interval`` seconds old, and less
        where that is needed to miss one in time.
        """
        with self._guard:
            if time.monotonic() >= self._fresh_until:
                settings = self._desk.conf.conductor
                try:
                    rows = self._desk.database.read(conductors.members)
                except errors.Error:
                    self._roster.blind()
                    raise
                self._members = self._roster.living(rows)
                fresh = min(settings.hash_ring_reset_interval, pace(settings.heartbeat_timeout))
                self._fresh_until = time.monotonic() + fresh
            return self._members

    def mine(self, row: Mapping[str, Any]) -> bool:
        """Tell whether this conductor owns a node.

        :param row: with uuid, driver and conductor_group.
        """
        owner = ring.owner(self.members(), row["conductor_group"], row["driver"], row["uuid"])
        return owner == self._desk.host
