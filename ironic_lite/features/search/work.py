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
from ironic_lite.core import log_lines
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
        self._runtime.database.read(rows.attach)  # its connection has the followers of the engine

    def sweeps(self) -> list[Sweep]:
        """Return the sweeps that make and repair terms."""
        return [
            Sweep("changes for the search", _SOON, self.settle),
            Sweep("search terms", _HOUR, self.sweep),
        ]

    def settle(self) -> None:
        """Make the terms of changed nodes: one statement if no node has changed."""
        remarks: list[str] = []
        some = self._changes(0)
        while some and not self._runtime.draining.is_set():
            mine = [change for change in some if self._is_mine(change.uuid)]
            for first in range(0, len(mine), rows.TOGETHER):
                remarks += self._settle(mine[first : first + rows.TOGETHER])
            some = self._changes(some[-1].id)
        _warn(remarks)

    def _changes(self, after: int) -> list[rows.ChangeNote]:
        return self._runtime.database.read(lambda conn: rows.changes(conn, _PAGE, after))

    def _settle(self, some: list[rows.ChangeNote]) -> list[str]:
        """Make the terms of nodes; return a remark about each node whose terms cannot be made."""
        database = self._runtime.database
        try:
            database.write(functools.partial(rows.settle, some=some))
        except errors.Unavailable:
            raise
        except Exception as why:  # one node must not stop others
            if len(some) > 1:
                return [remark for one in some for remark in self._settle([one])]
            database.write(functools.partial(rows.unmark, some=some))  # the sweep tries again
            return [_remark(some[0].uuid, why)]
        return []

    def _is_mine(self, node: str) -> bool:
        return bool(self._ownership.share([{"uuid": node}]))

    def sweep(self) -> None:
        """Look through the nodes, unless a sweep of this day has found nothing to repair."""
        if time.monotonic() < self._due:
            return
        repaired, remarks = 0, list[str]()
        for count, node in enumerate(self._nodes()):
            if count % _IN_A_ROW == 0 and self._runtime.draining.wait(_PAUSE):
                return
            try:
                repaired += self._repair(node)
            except errors.Unavailable:
                raise
            except Exception as why:  # such as a key that is not configured
                remarks.append(_remark(node, why))
        _warn(remarks)
        if repaired:
            LOG.info("Repaired the search terms of %d nodes", repaired)
        elif not remarks:
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


def _remark(node: str, why: Exception) -> str:
    """Return why the terms of a node cannot be made; the text of other errors may have values."""
    said = why if isinstance(why, errors.Error) else type(why).__name__
    return f"Node {node} is not found by all its values: {said}"


def _warn(remarks: list[str]) -> None:
    for remark in log_lines.some(remarks):
        LOG.warning("%s", remark)


extend = TermRepair
