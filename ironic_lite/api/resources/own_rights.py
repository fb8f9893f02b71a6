"""Rights of a caller, by the names of the policy's rules.

All rules are asked once a minute for callers with the same rights, because asking all of them
takes up to a tenth of a second.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple

from ironic_lite.api import policy
from ironic_lite.api.policy.access import Access

KEPT_SECONDS = 60.0
_MOST = 256
"""Callers whose rights are kept."""
_NAMES = tuple(sorted(name for name in policy.BY_NAME if name.startswith("baremetal:")))


class Rights(NamedTuple):
    """The names of the rules that a caller passes.

    ``of_any`` hold for any object. ``of_own`` hold for objects that the caller's project owns;
    they are none without a project.
    """

    of_any: tuple[str, ...]
    of_own: tuple[str, ...]


class OwnRights:
    """Asks and keeps the rights of callers; one object serves all threads of a process.

    :param now: a clock in seconds that cannot be set.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._guard = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[float, Rights]] = OrderedDict()

    def of(self, access: Access) -> Rights:
        """Return the rights of a caller, which may be a minute old."""
        at = self._now()
        with self._guard:
            until, found = self._known.get(access.key, (at, None))
        if found is None or at >= until:
            found = _ask(access)
            with self._guard:
                self._known[access.key] = (at + KEPT_SECONDS, found)
                self._known.move_to_end(access.key)
                while len(self._known) > _MOST:
                    self._known.popitem(last=False)
        return found


def _ask(access: Access) -> Rights:
    own = {f"{kind}.owner": access.project for kind in _KINDS} if access.project else None
    return Rights(
        tuple(name for name in _NAMES if access.allows(name)),
        tuple(name for name in _NAMES if access.allows(name, own)) if own else (),
    )


_KINDS = (policy.NODE, policy.ALLOCATION, policy.RUNBOOK, policy.BATCH)
