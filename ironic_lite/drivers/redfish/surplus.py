"""Which logins at BMCs are given up when there are more than are kept."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

K = TypeVar("K")

SECONDS = 2.0
"""For which a call may be held up by the logout at another BMC, whose login must leave for its."""


class Kept(Protocol):
    """What is known of a login that is kept."""

    used: float
    """When it was used last, by time.monotonic."""


def leaving(links: Mapping[K, Kept], cold: Iterable[K], *, over: int, idle: float) -> Iterator[K]:
    """Yield the keys of those that may leave, first those that should; some perhaps twice.

    Who is not idle and has a login leaves by chance. A sweep asks all in the same order: the one
    used longest ago would always be the one that is asked next, and a fleet with one BMC more than
    are kept would have to log in at every one, each time.

    :param links: by key, the one used longest ago first; must not change meanwhile.
    :param cold: keys of those that have no login: their BMCs did not answer.
    :param over: how many there are too many; without any, only the idle ones are yielded.
    :param idle: who was last used then or before is idle.
    """
    for key, link in links.items():
        if link.used > idle:
            break
        yield key
    if over <= 0:
        return
    yield from cold
    # What cannot be foretold need not be secret: an ordinary random generator does.
    start = random.randrange(len(links))
    yield from itertools.islice(links, start, None)
    yield from itertools.islice(links, start)
