"""Terms of nodes, made by conductors after changes, and repaired node by node.

The terms of nodes are missing after an upgrade, and old after the feature was off. A sweep looks
through all nodes each hour until it finds nothing to repair, then once a day.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.conductor.service import ConductorService, FeatureWork
from ironic_lite.conductor.watch.sweep_threads import Sweep
from ironic_lite.features.search import rows

LOG = logging.getLogger(__name__)
_HOUR = 3600.0
_DAY = 23.5 * _HOUR
_SOON = 10.0
"""Seconds between two looks for changes; a search makes the terms of the first changes itself."""
_PAGE = 500
"""UUIDs or changes of one statement."""
_IN_A_ROW = 20
_PAUSE = 0.02
"""Seconds after some nodes, in which others use the database and the interpreter."""


class TermRepair(FeatureWork):
    """Repairs the terms of this conductor's share of the nodes."""

    def __init__(self, service: ConductorService) -> None:
        self._runtime, self._ownership = service.runtime, service.ownership
        self._due = float("-inf")

    def announce(self) -> None:
        """Let this conductor's writes keep the terms of nodes."""
        self._runtime.database.read(rows.attach)

    def sweeps(self) -> list[Sweep]:
        """Return the sweeps that make and repair terms."""
        return [
            Sweep("changes for the search", _SOON, self.settle),
            Sweep("search terms", _HOUR, self.sweep),
        ]

    def settle(self) -> None:
        """Make the terms of changed nodes: one statement if no node has changed."""
        database = self._runtime.database
        while not self._runtime.draining.is_set():
            some = database.read(lambda conn: rows.changes(conn, _PAGE))
            mine = [change for change in some if self._is_mine(change.uuid)]
            for first in range(0, len(mine), rows.TOGETHER):
                part = mine[first : first + rows.TOGETHER]
                database.write(functools.partial(rows.settle, some=part))
            if not mine:
                return

    def _is_mine(self, node: str) -> bool:
        return bool(self._ownership.share([{"uuid": node}]))

    def sweep(self) -> None:
        """Look through the nodes, unless a sweep of this day has found nothing to repair."""
        if time.monotonic() < self._due:
            return
        repaired = failed = 0
        for count, node in enumerate(self._nodes()):
            if count % _IN_A_ROW == 0 and self._runtime.draining.wait(_PAUSE):
                return
            try:
                repaired += self._repair(node)
            except errors.Unavailable:
                raise
            except errors.Error as why:  # such as a key that is not configured
                LOG.warning("Node %s is not found by all its values: %s", node, why)
                failed += 1
        if repaired:
            LOG.info("Repaired the search terms of %d nodes", repaired)
        elif not failed:
            self._due = time.monotonic() + _DAY

    def _nodes(self) -> Iterator[str]:
        """Yield the UUIDs of the nodes for which this conductor is responsible."""
        after, page = "", [""]
        while page:
            read = functools.partial(rows.uuids, after=after, limit=_PAGE)
            page = self._runtime.database.read(read)
            yield from filter(self._is_mine, page)
            after = page[-1] if page else after

    def _repair(self, node: str) -> bool:
        database = self._runtime.database
        wrong = database.read(lambda conn: rows.differ(conn, node))
        if wrong:
            database.write(lambda conn: rows.repair(conn, node))
        return wrong


extend = TermRepair
