"""Which nodes are this conductor's: the membership rows, cached for a moment, and the ring."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from ironic_lite import clock, ring
from ironic_lite.conductor.desk import Desk
from ironic_lite.db import conductors


class Fleet:
    """A conductor's view of its peers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._members: list[ring.Member] = []
        self._fresh_until = 0.0
        self._guard = threading.Lock()

    def members(self) -> list[ring.Member]:
        """Return the living conductors, at most ``hash_ring_reset_interval`` seconds old."""
        with self._guard:
            if time.monotonic() >= self._fresh_until:
                settings = self._desk.conf.conductor
                since = clock.after(-settings.heartbeat_timeout)
                rows = self._desk.database.read(
                    lambda conn: conductors.members(conn, alive_since=since)
                )
                self._members = [
                    ring.Member(
                        row["hostname"], row["conductor_group"], frozenset(row["hardware_types"])
                    )
                    for row in rows
                ]
                self._fresh_until = time.monotonic() + settings.hash_ring_reset_interval
            return self._members

    def mine(self, row: Mapping[str, Any]) -> bool:
        """Tell whether this conductor owns a node.

        :param row: with uuid, driver and conductor_group.
        """
        owner = ring.owner(self.members(), row["conductor_group"], row["driver"], row["uuid"])
        return owner == self._desk.host
