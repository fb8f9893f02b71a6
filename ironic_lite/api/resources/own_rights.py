"""Rights of a caller, by the names of the policy's rules.

All rules are asked once a minute for callers with the same rights, because asking all of them
takes up to a tenth of a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from ironic_lite.api import policy
from ironic_lite.api.policy.access import Access
from ironic_lite.api.resources.recent import Recent

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
        self._recent: Recent[Rights] = Recent(KEPT_SECONDS, _MOST, now)

    def of(self, access: Access) -> Rights:
        """Return the rights of a caller, which may be a minute old."""
        return self._recent.of(access.key, lambda: _ask(access))


def _ask(access: Access) -> Rights:
    own = {f"{kind}.owner": access.project for kind in _KINDS} if access.project else None
    return Rights(
        tuple(name for name in _NAMES if access.allows(name)),
        tuple(name for name in _NAMES if access.allows(name, own)) if own else (),
    )


_KINDS = (policy.NODE, policy.ALLOCATION, policy.RUNBOOK, policy.BATCH)
