"""The one thread that runs all periodic sweeps; each is short, and hands slow work to workers."""

from __future__ import annotations

import dataclasses
import heapq
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Sweep:
    """A name for the log, seconds between two runs (0 = never), and the act itself."""

    name: str
    interval: float
    act: Callable[[], None]


class Sweeps:
    """Runs sweeps on time until stopped. A sweep that fails is logged and run again next time."""

    def __init__(self, stopping: threading.Event, plan: Sequence[Sweep]) -> None:
        self._plan = [one for one in plan if one.interval > 0]
        self._stopping = stopping
        self._halted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeps", daemon=True)

    def start(self) -> None:
        """Begin; first runs are spread over their interval, so that conductors do not march."""
        if self._plan:
            self._thread.start()

    def halt(self) -> None:
        """Begin no further sweep."""
        self._halted.set()

    def _run(self) -> None:
        # Jitter is no secret: an ordinary random generator does.
        first = time.monotonic()
        due = [
            (first + one.interval * random.uniform(0.3, 1.0), place)
            for place, one in enumerate(self._plan)
        ]
        heapq.heapify(due)
        while not self._halted.is_set() and not self._stopping.is_set():
            when, place = due[0]
            if self._halted.wait(max(0.0, when - time.monotonic())):
                return
            sweep = self._plan[place]
            try:
                sweep.act()
            except Exception:
                LOG.exception("The sweep for %s failed; it runs again", sweep.name)
            heapq.heapreplace(due, (time.monotonic() + sweep.interval, place))
