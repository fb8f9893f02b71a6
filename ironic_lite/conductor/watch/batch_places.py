"""Places in waves up to which all nodes belong to other conductors."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import NamedTuple

from ironic_lite.membership.ring import Member

_SECONDS = 60.0
"""Time until a wave is read again from its beginning, because drivers of nodes can change."""


class _Known(NamedTuple):
    wave: int
    members: tuple[Member, ...]
    until: float
    place: int = -1


class Passed:
    """The place in the wave of each batch up to which this conductor has no node to start.

    A sweep begins behind it, so the nodes of other conductors are read once a minute.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def place(self, batch: str, wave: int, members: tuple[Member, ...]) -> int:
        """Return the place; -1 in a new wave, with other members, and once a minute."""
        known = self._known.get(batch)
        if known is None or known[:2] != (wave, members) or time.monotonic() >= known.until:
            known = self._known[batch] = _Known(wave, members, time.monotonic() + _SECONDS)
        return known.place

    def note(self, batch: str, place: int) -> None:
        """Remember a place, which `place` was asked for."""
        self._known[batch] = self._known[batch]._replace(place=place)

    def keep(self, batches: Collection[str]) -> None:
        """Forget all batches but these."""
        self._known = {uuid: known for uuid, known in self._known.items() if uuid in batches}


def own_places(members: tuple[Member, ...], host: str) -> set[tuple[str, str]]:
    """Return the conductor group and the drivers of a conductor, in pairs."""
    return {
        (one.group.lower(), driver) for one in members if one.host == host for driver in one.drivers
    }
