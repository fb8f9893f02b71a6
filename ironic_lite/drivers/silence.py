"""Machines that did not answer the last question of this process.

The conductor gives these machines a share of its threads only, so that they cannot hold all of
them. The drivers note each answer and each missing one; the fact is not stored.
"""

from __future__ import annotations

import collections
import threading

from ironic_lite.drivers import deadline

REMEMBERED = 20_000
"""Machines remembered; of more, those that were silent longest ago count as answering again."""
LEAST_SECONDS = 1.0
"""Time that a machine must have had, so that a missing answer makes it silent."""
_PARTS = 4


def share_of(count: int) -> int:
    """Return how many of so many threads or slots the silent machines may hold together."""
    return max(1, count // _PARTS)


class SilentMachines:
    """The nodes whose BMC or agent did not answer last time; any thread may note and ask."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._nodes: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._guard = threading.Lock()

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def note(self, node: str, *, silent: bool) -> None:
        """Note the result of the last question to the machine of a node.

        A missing answer does not count if the caller gave the machine too little time for one.

        :param node: its UUID.
        """
        if silent and deadline.within(LEAST_SECONDS) < LEAST_SECONDS and deadline.limited():
            return
        if not silent and node not in self._nodes:
            return
        with self._guard:
            self._nodes.pop(node, None)
            if silent:
                self._nodes[node] = None
                if len(self._nodes) > self._most:
                    self._nodes.popitem(last=False)


SILENT = SilentMachines()
"""The silent machines of this process."""
