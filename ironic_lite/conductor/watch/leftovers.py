"""Removes files for machines that nobody needs any more.

Those are all files of nodes that were deleted, and of the others the media and images that they do
not mean any more: a conductor that a node has left, or that was killed, keeps them, and media hold
an agent's token.

A file stays as long as its node's notes name it, whoever drives the node, and while anybody works
on the node. Folders may be shared by conductors.
"""

from __future__ import annotations

import datetime
import functools
import logging
from collections.abc import Sequence

from ironic_lite import clock, errors
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.db import sweeps
from ironic_lite.images import leftovers, published

LOG = logging.getLogger(__name__)

OLD_SECONDS = 3600.0
"""What changed later than so long ago is left alone: a node notes a file when it has been made."""
_PAGE = 100


class Leftovers:
    """Looks through the folders of this conductor."""

    def __init__(self, tasks: Tasks) -> None:
        self._desk = tasks.desk

    def sweep(self) -> None:
        """Look at all files once."""
        before = clock.ago(OLD_SECONDS).replace(tzinfo=datetime.UTC).timestamp()
        gone = 0
        for file in leftovers.unfinished(before):
            published.remove(file)
            gone += 1
        found = leftovers.of_nodes(before)
        for first in range(0, len(found), _PAGE):
            if self._desk.draining.is_set():
                return
            gone += self._page(found[first : first + _PAGE])
        if gone:
            LOG.info("Removed %d files for machines that nobody needs any more", gone)

    def _page(self, found: Sequence[leftovers.Left]) -> int:
        question = functools.partial(sweeps.notes, uuids={left.node for left in found})
        rows = {row["uuid"]: row for row in self._desk.database.read(question)}
        gone = 0
        for left in found:
            if not _meant(left, rows.get(left.node)):
                try:
                    gone += leftovers.remove(left)
                except errors.LocalFileError as why:
                    LOG.warning("%s", why)
        return gone


def _meant(left: leftovers.Left, row: sweeps.Row | None) -> bool:
    """Tell whether a node may still mean a file; what has a common name is written over by it."""
    if row is None:
        return False
    notes = str(row["driver_internal_info"])
    return not left.named or row["reservation"] is not None or left.file.name in notes
