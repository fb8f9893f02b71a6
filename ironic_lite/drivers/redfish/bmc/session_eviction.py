"""Selection of the BMC logins to close when the pool is over its limit."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

K = TypeVar("K")

SECONDS = 2.0
"""Time limit for closing another BMC's login to make room, which delays the current call."""


class Kept(Protocol):
    """The known facts about a pooled login."""

    used: float
    """Time of the last use, by time.monotonic."""


def leaving(links: Mapping[K, Kept], cold: Iterable[K], *, over: int, idle: float) -> Iterator[K]:
    """Yield the keys of logins to close, the best candidates first; some keys come twice.

    Logins in use are chosen at random. A sweep polls all BMCs in the same order, so the least
    recently used login would be the next one needed: a fleet with one BMC more than the limit would
    then log in at every BMC in every sweep.

    :param links: by key, the least recently used first; must not change during the iteration.
    :param cold: keys of links without a login, because their BMCs did not answer.
    :param over: number of links above the limit; at 0 or less only idle links are yielded.
    :param idle: links last used at or before this time are idle.
    """
    for key, link in links.items():
        if link.used > idle:
            break
        yield key
    if over <= 0:
        return
    yield from cold
    # The choice must be unpredictable but not secret, so an ordinary random generator will do.
    start = random.randrange(len(links))
    yield from itertools.islice(links, start, None)
    yield from itertools.islice(links, start)
