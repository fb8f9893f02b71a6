"""Who lives: judged by signs that change, and by nobody's clock on the wall.

Whoever lives changes its sign every few seconds. A watcher that has seen the same sign for long
enough, by its own monotonic clock, takes it for dead. What the sign says is of no importance; it
may be a time, of a clock that is wrong or was set.

Silence counts only while somebody looked. After a pause of the watcher, or of the database that
both of them need, the living get the time to give a sign.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Collection, Hashable


@dataclasses.dataclass(slots=True)
class _Seen:
    sign: Hashable
    at: float
    silent: float


class Pulses:
    """The signs of many, each with a key; one serves all threads of a process.

    :param stride: seconds between two looks at one key, beyond which it was not watched.
    :param steady: returns seconds of a clock that nobody can set.
    """

    def __init__(self, stride: float, steady: Callable[[], float] = time.monotonic) -> None:
        self._stride = stride
        self._steady = steady
        self._seen: dict[Hashable, _Seen] = {}
        self._guard = threading.Lock()

    def silence(self, key: Hashable, sign: Hashable, age: float | None = None) -> float:
        """Look at one; return for how many seconds it has given no sign, as far as was seen.

        :param age: how old the sign may be, for want of better: believed when it is seen for the
            first time, or when nobody has looked for longer than the stride; of a new sign, for no
            more than the time since the last look. None: the silence begins with this look, or goes
            on as if the stride had passed.
        """
        with self._guard:
            now, known = self._steady(), self._seen.get(key)
            if known is None:
                silent = age or 0.0
            elif now - known.at > self._stride and age is not None:
                silent = age
            elif sign != known.sign:
                silent = min(age or 0.0, now - known.at)
            else:
                silent = known.silent + min(now - known.at, self._stride)
            self._seen[key] = _Seen(sign, now, silent)
            return silent

    def blind(self) -> None:
        """Note that looking has failed until now: nobody was silent meanwhile."""
        with self._guard:
            now = self._steady()
            for one in self._seen.values():
                one.at = now

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget all but these."""
        with self._guard:
            self._seen = {key: one for key, one in self._seen.items() if key in keys}
