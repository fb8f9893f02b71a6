"""Keeps history bounded: events and runs are only ever added, and somebody has to forget.

Of each node the newest entries of its history are kept with all that happened since; of the events
that are no entries, so many per entry; and as many runs as entries.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

from ironic_lite import clock
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import trimming
from ironic_lite.db.session import Connection

LOG = logging.getLogger(__name__)

EVENTS_PER_ENTRY = 20
"""A clean of a few steps makes two entries and about twenty events."""
_EVENTS_PER_RUN = 10  # a run goes with its steps: this many count as one row of a portion
_PAUSE = 0.02  # seconds between two portions, in which others get their turn to write
_DAY = 24 * 3600

Row = dict[str, Any]
Portion = Callable[[Connection], int]


class Trimming:
    """Removes what is beyond the limits, node by node."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._desk = tasks.desk
        self._fleet = fleet

    def sweep(self) -> None:
        """Go once through all nodes that have events; this conductor's are trimmed."""
        settings = self._desk.conf.conductor
        keep, portion = settings.node_history_max_entries, settings.node_history_cleanup_batch_count
        gone = 0
        for node in self._nodes() if portion else ():
            if node["exists"]:
                gone += self._trim(node["uuid"], keep) if keep and self._fleet.mine(node) else 0
            elif settings.removed_node_history_days and self._first():
                gone += self._forget(node["uuid"], settings.removed_node_history_days)
        if gone:
            LOG.info("Removed %d old events and runs", gone)

    def _nodes(self) -> Iterator[Row]:
        """Yield whoever has events, also nodes that are no more, until the service stops."""
        after = ""
        while not self._desk.draining.is_set():
            question = functools.partial(trimming.next_node, after=after)
            node = self._desk.database.read(question)
            if node is None:
                return
            yield node
            after = node["uuid"]

    def _first(self) -> bool:
        """Tell whether what belongs to no conductor falls to this one."""
        hosts = [member.host for member in self._fleet.members()]
        return bool(hosts) and min(hosts) == self._desk.host

    def _trim(self, uuid: str, keep: int) -> int:
        settings = self._desk.conf.conductor
        counts = {"entries": keep, "others": keep * EVENTS_PER_ENTRY, "runs": keep}
        what = self._desk.database.read(lambda conn: trimming.excess(conn, uuid, **counts))
        if not any(what):
            return 0
        portion = settings.node_history_cleanup_batch_count
        some = functools.partial(
            trimming.remove,
            node_uuid=uuid,
            what=what,
            before=clock.ago(settings.node_history_minimum_days * _DAY),
            limit=portion,
        )
        few = functools.partial(
            trimming.remove_runs, **{**some.keywords, "limit": _runs_of(portion)}
        )
        return self._all_of(some, portion) + self._all_of(few, _runs_of(portion))

    def _forget(self, uuid: str, days: int) -> int:
        """Remove the events of a node that was removed so many days ago."""
        last = self._desk.database.read(lambda conn: trimming.newest(conn, uuid))
        if last is None or last >= clock.ago(days * _DAY):
            return 0
        portion = self._desk.conf.conductor.node_history_cleanup_batch_count
        every = functools.partial(trimming.remove_all, node_uuid=uuid, limit=portion)
        return self._all_of(every, portion)

    def _all_of(self, act: Portion, size: int) -> int:
        """Remove portion after portion until one is not full; return how many rows went."""
        gone, last = 0, size
        while last >= size and not self._desk.draining.wait(_PAUSE if gone else 0):
            last = self._desk.database.write(act)
            gone += last
        return gone


def _runs_of(portion: int) -> int:
    return max(1, portion // _EVENTS_PER_RUN)
