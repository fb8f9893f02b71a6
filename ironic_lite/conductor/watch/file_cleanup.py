"""Removal of files for machines that are no longer needed.

These are all files of deleted nodes, and the media and images that other nodes no longer use. A
conductor keeps such files when a node moves away or the conductor is killed, and media contain an
agent's token.

A file stays as long as its node's notes name it, whichever conductor owns the node, and while the
node has a lock. Conductors may share folders. A dnsmasq entry for a card, even one that ignores the
card, stays as long as a node of this machine's conductors has the card.
"""

from __future__ import annotations

import datetime
import functools
import logging
from collections.abc import Iterator, Sequence
from typing import TypeVar

from ironic_lite import errors
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, ports, sweeps
from ironic_lite.drivers.boot import dnsmasq, network
from ironic_lite.images import node_files, published

LOG = logging.getLogger(__name__)

OLD_SECONDS = 3600.0
"""Age below which a file is left alone, because a node records a file after it was made."""
_PAGE = 100

T = TypeVar("T")


class FileCleanup:
    """Checks the folders of this conductor."""

    def __init__(self, tasks: Tasks, fleet: Ownership) -> None:
        self._runtime = tasks.runtime
        self._fleet = fleet

    def sweep(self) -> None:
        """Check all files once."""
        before = clock.ago(OLD_SECONDS).replace(tzinfo=datetime.UTC).timestamp()
        gone = 0
        for file in node_files.unused(before):
            published.remove(file)
            gone += 1
        for page in self._page_by_page(node_files.of_nodes(before)):
            gone += self._clean_page(page)
        for told in self._page_by_page(list(dnsmasq.told(before))):
            gone += self._report_removed(told)
        if gone:
            LOG.info("Removed %d files for machines that are no longer needed", gone)

    def _page_by_page(self, found: Sequence[T]) -> Iterator[Sequence[T]]:
        for first in range(0, len(found), _PAGE):
            if self._runtime.draining.is_set():
                return
            yield found[first : first + _PAGE]

    def _clean_page(self, found: Sequence[node_files.Left]) -> int:
        question = functools.partial(sweeps.notes, uuids={left.node for left in found})
        rows = {row["uuid"]: row for row in self._runtime.database.read(question)}
        foreign = self._not_ours({left.node for left in found if left.by_tftp} - rows.keys())
        gone = 0
        for left in found:
            if left.by_tftp and left.node in foreign:
                continue
            if not _may_use_file(left, rows.get(left.node)):
                try:
                    gone += node_files.remove(left)
                except errors.LocalFileError as why:
                    LOG.warning("%s", why)
        return gone

    def _not_ours(self, uuids: set[str]) -> set[str]:
        """Return which of the nodes without a row this service has not deleted, by its history.

        Other services may have files below ``[pxe]tftp_root``.
        """
        if not uuids:
            return set()
        return uuids - self._runtime.database.read(lambda conn: events.deleted(conn, uuids))

    def _report_removed(self, found: Sequence[dnsmasq.Told]) -> int:
        question = functools.partial(_nodes_of_files, found=found)
        rows, owners = self._runtime.database.read(question)
        gone = 0
        for told in found:
            owner = rows.get(str(owners.get(told.address) if told.address else told.node))
            if not self._still_meant(told, owner):
                try:
                    gone += dnsmasq.forget(told)
                except errors.LocalFileError as why:
                    LOG.warning("%s", why)
        return gone

    def _still_meant(self, told: dnsmasq.Told, owner: sweeps.Notes | None) -> bool:
        """Return whether a dnsmasq entry is still needed.

        :param owner: the node that has the card, or that these options are for.
        """
        if owner is None or (told.node is not None and told.node != owner["uuid"]):
            return False
        if told.node is None:
            return self._fleet.here(owner)
        return owner["reservation"] is not None or network.NOTE in str(
            owner["driver_internal_info"]
        )


def _nodes_of_files(
    conn: Connection, *, found: Sequence[dnsmasq.Told]
) -> tuple[dict[str, sweeps.Notes], dict[str, str]]:
    """Return the nodes of these files by UUID, and the owners of the cards."""
    owners = ports.owners(conn, {told.address for told in found if told.address})
    uuids = {told.node for told in found if told.node} | set(owners.values())
    return {row["uuid"]: row for row in sweeps.notes(conn, uuids=uuids)}, owners


def _may_use_file(left: node_files.Left, row: sweeps.Notes | None) -> bool:
    """Return whether a node may still use a file; common names are overwritten."""
    if row is None:
        return False
    notes = str(row["driver_internal_info"])
    return not left.named or row["reservation"] is not None or left.file.name in notes
