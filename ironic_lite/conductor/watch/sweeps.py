"""Periodic sweeps, each in a thread of its own: a rack of dead BMCs delays only one of them."""

from __future__ import annotations

import dataclasses
import logging
import random
import threading
from collections.abc import Callable, Sequence

from ironic_lite import errors
from ironic_lite.conductor import outage

LOG = logging.getLogger(__name__)
_LONGEST_START = 3600.0  # seconds


@dataclasses.dataclass(frozen=True, slots=True)
class Sweep:
    """A name for the log, seconds between two runs (0 = never), and the act itself."""

    name: str
    interval: float
    act: Callable[[], None]


class Sweeps:
    """Runs sweeps on time until halted. A sweep that fails is logged and run again next time."""

    def __init__(self, halted: threading.Event, plan: Sequence[Sweep]) -> None:
        self._plan = [one for one in plan if one.interval > 0]
        self._halted = halted

    def start(self) -> None:
        """Begin; first runs are spread over their interval, and each pause differs a little, so
        that conductors started together do not march in step.

        What is done once a day is first done within the hour: a service may not live that long.
        """
        for sweep in self._plan:
            threading.Thread(
                target=self._run, args=(sweep,), name=f"sweep {sweep.name}", daemon=True
            ).start()

    def _run(self, sweep: Sweep) -> None:
        # Jitter is no secret: an ordinary random generator does.
        pause = min(sweep.interval, _LONGEST_START) * random.uniform(0.3, 1.0)
        told = outage.Told(LOG)
        while not self._halted.wait(pause):
            try:
                sweep.act()
                told.back("The sweep for %s is run again", sweep.name)
            except errors.Unavailable as why:  # the database is away, most likely: no bug of ours
                told.away("The sweep for %s failed; it runs again: %s", sweep.name, why)
            except errors.Error as why:
                LOG.warning("The sweep for %s failed; it runs again: %s", sweep.name, why)
            except BaseException:  # as sys.exit in a driver: this thread is the only one
                LOG.exception("The sweep for %s failed; it runs again", sweep.name)
            pause = sweep.interval * random.uniform(0.9, 1.1)
