"""Limits of history: removal of old events and runs.

Of each node the newest history entries are kept, with all later events. The number of other events
per entry is limited. The limit for runs is the same as for entries.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator

from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import idempotency, retention

LOG = logging.getLogger(__name__)

EVENTS_PER_ENTRY = 20
"""Events kept per entry: a clean of a few steps has two entries and about twenty events."""
_EVENTS_PER_RUN = 10  # a run is removed with its steps: this many count as one row of a batch
_PAUSE = 0.02  # seconds between two batches, in which others can write
_DAY = 24 * 3600
_HOUR = 3600
_AHEAD = 60.0  # seconds; clocks of machines differ by less
_KEYS = 1000  # rows of one batch

Portion = Callable[[Connection], int]


class Retention:
    """Removes rows beyond the limits, node by node."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership) -> None:
        self._runtime = tasks.runtime
        self._ownership = ownership

    def sweep(self) -> None:
        """Go once through all nodes with events; trim this conductor's nodes."""
        settings = self._runtime.conf.conductor
        keep, portion = settings.node_history_max_entries, settings.node_history_cleanup_batch_count
        gone = 0
        for node in self._nodes_with_events() if portion else ():
            mine = self._ownership.mine(node) if node["exists"] else self._is_first_conductor()
            # Resources without a node are not removed, and change as long as they exist.
            gone += self._trim_node(node["uuid"], keep) if keep and mine else 0
            if mine and settings.removed_node_history_days and not node["exists"]:
                gone += self._forget_deleted(node["uuid"], settings.removed_node_history_days)
        if gone:
            LOG.info("Removed %d old events and runs", gone)

    def _nodes_with_events(self) -> Iterator[Row]:
        """Yield all nodes with events, deleted ones included, until the service stops."""
        after = ""
        while not self._runtime.draining.is_set():
            question = functools.partial(retention.next_node, after=after)
            node = self._runtime.database.read(question)
            if node is None:
                return
            yield node
            after = node["uuid"]

    def _is_first_conductor(self) -> bool:
        """Return whether this conductor handles rows that belong to no conductor."""
        hosts = [member.host for member in self._ownership.members()]
        return bool(hosts) and min(hosts) == self._runtime.host

    def _trim_node(self, uuid: str, keep: int) -> int:
        settings = self._runtime.conf.conductor
        counts = {"entries": keep, "others": keep * EVENTS_PER_ENTRY, "runs": keep}
        what = self._runtime.database.read(lambda conn: retention.excess(conn, uuid, **counts))
        if not any(what):
            return 0
        portion = settings.node_history_cleanup_batch_count
        some = functools.partial(
            retention.remove,
            node_uuid=uuid,
            what=what,
            before=clock.ago(settings.node_history_minimum_days * _DAY),
            limit=portion,
        )
        few = functools.partial(
            retention.remove_runs, **{**some.keywords, "limit": _runs_of(portion)}
        )
        return self._all_of(some, portion) + self._all_of(few, _runs_of(portion))

    def _forget_deleted(self, uuid: str, days: int) -> int:
        """Remove the events of a node deleted more than so many days ago."""
        last = self._runtime.database.read(lambda conn: retention.newest(conn, uuid))
        if last is None or clock.lived(last) <= days * _DAY:
            return 0
        portion = self._runtime.conf.conductor.node_history_cleanup_batch_count
        every = functools.partial(retention.remove_all, node_uuid=uuid, limit=portion)
        return self._all_of(every, portion)

    def _all_of(self, act: Portion, size: int) -> int:
        """Remove batches until one is not full; return the number of rows removed."""
        gone, last = 0, size
        while last >= size and not self._runtime.draining.wait(_PAUSE if gone else 0):
            last = self._runtime.database.write(act)
            gone += last
        return gone


class OldKeys:
    """Removes kept answers of requests with an Idempotency-Key when their time is over."""

    def __init__(self, tasks: TaskRunner) -> None:
        self._runtime = tasks.runtime

    def sweep(self) -> None:
        """Remove all old rows; conductors that do this together share the work."""
        before = clock.ago(self._runtime.conf.api.idempotency_hours * _HOUR)
        now, latest = clock.now(), clock.after(_AHEAD)
        self._runtime.database.write(lambda conn: idempotency.bring_back(conn, latest, now))
        last = _KEYS
        while last >= _KEYS and not self._runtime.draining.wait(_PAUSE):
            last = self._runtime.database.write(
                lambda conn: idempotency.remove_old(conn, before, _KEYS)
            )


def _runs_of(portion: int) -> int:
    return max(1, portion // _EVENTS_PER_RUN)
