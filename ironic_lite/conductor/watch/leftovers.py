"""Removes files for machines that nobody needs any more.

Those are all files of nodes that were deleted, and of the others the media and images that they do
not mean any more: a conductor that a node has left, or that was killed, keeps them, and media hold
an agent's token.

A file stays as long as its node's notes name it, whoever drives the node, and while anybody works
on the node. Folders may be shared by conductors. What dnsmasq was told of a card, which is to
ignore it at last, stays as long as a node of this conductor has that card.
"""

from __future__ import annotations

import datetime
import functools
import logging
from collections.abc import Iterator, Sequence
from typing import TypeVar

from ironic_lite import clock, errors
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import ports, sweeps
from ironic_lite.db.session import Connection
from ironic_lite.drivers.boot import dnsmasq, network
from ironic_lite.images import leftovers, published

LOG = logging.getLogger(__name__)

OLD_SECONDS = 3600.0
"""What changed later than so long ago is left alone: a node notes a file when it has been made."""
_PAGE = 100

T = TypeVar("T")


class Leftovers:
    """Looks through the folders of this conductor."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._desk = tasks.desk
        self._fleet = fleet

    def sweep(self) -> None:
        """Look at all files once."""
        before = clock.ago(OLD_SECONDS).replace(tzinfo=datetime.UTC).timestamp()
        gone = 0
        for file in leftovers.unfinished(before):
            published.remove(file)
            gone += 1
        for page in self._pages(leftovers.of_nodes(before)):
            gone += self._page(page)
        for told in self._pages(list(dnsmasq.told(before))):
            gone += self._told(told)
        if gone:
            LOG.info("Removed %d files for machines that nobody needs any more", gone)

    def _pages(self, found: Sequence[T]) -> Iterator[Sequence[T]]:
        for first in range(0, len(found), _PAGE):
            if self._desk.draining.is_set():
                return
            yield found[first : first + _PAGE]

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

    def _told(self, found: Sequence[dnsmasq.Told]) -> int:
        question = functools.partial(_nodes, found=found)
        rows, owners = self._desk.database.read(question)
        gone = 0
        for told in found:
            owner = rows.get(str(owners.get(told.address) if told.address else told.node))
            if not self._still_meant(told, owner):
                try:
                    gone += dnsmasq.forget(told)
                except errors.LocalFileError as why:
                    LOG.warning("%s", why)
        return gone

    def _still_meant(self, told: dnsmasq.Told, owner: sweeps.Row | None) -> bool:
        """Tell whether dnsmasq is to be told that still.

        :param owner: the node that has the card, or whose options these are.
        """
        if owner is None or (told.node is not None and told.node != owner["uuid"]):
            return False
        if told.node is None:
            return self._fleet.mine(owner)
        return owner["reservation"] is not None or network.NOTE in str(
            owner["driver_internal_info"]
        )


def _nodes(
    conn: Connection, *, found: Sequence[dnsmasq.Told]
) -> tuple[dict[str, sweeps.Row], dict[str, str]]:
    """Return the nodes that these files are about, by UUID, and whose the cards are."""
    owners = ports.owners(conn, {told.address for told in found if told.address})
    uuids = {told.node for told in found if told.node} | set(owners.values())
    return {row["uuid"]: row for row in sweeps.notes(conn, uuids=uuids)}, owners


def _meant(left: leftovers.Left, row: sweeps.Row | None) -> bool:
    """Tell whether a node may still mean a file; what has a common name is written over by it."""
    if row is None:
        return False
    notes = str(row["driver_internal_info"])
    return not left.named or row["reservation"] is not None or left.file.name in notes
