"""Periodic sweeps, each in its own thread, so that a slow one delays only itself."""

from __future__ import annotations

import dataclasses
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence

from ironic_lite import errors
from ironic_lite.conductor.work import db_retry
from ironic_lite.conductor.work.wakeup import Wakeup

LOG = logging.getLogger(__name__)
_LONGEST_START = 3600.0  # seconds
_GATHER = 0.2  # seconds after a signal, so that one sweep serves the signals which follow
_REST = 4  # times its last duration, so that signals keep a sweep running a fifth of the time


@dataclasses.dataclass(frozen=True, slots=True)
class Sweep:
    """A periodic action: name for the log, interval in seconds (0: never), function.

    :ivar wakeup: runs the action before its time.
    """

    name: str
    interval: float
    act: Callable[[], None]
    wakeup: Wakeup | None = None


class Sweeps:
    """Runs sweeps on time until halted; a failed sweep is logged and run again.

    ``plan`` has all sweeps by name, those without an interval too.
    """

    def __init__(self, halted: threading.Event, plan: Sequence[Sweep]) -> None:
        self.plan = {one.name: one for one in plan}
        self._halted = halted

    def start(self) -> None:
        """Start the sweeps.

        First runs are spread over their interval and pauses vary a little, so that conductors
        started together do not run in step. A daily sweep first runs within the hour, because a
        service may not run for a day.
        """
        for sweep in (one for one in self.plan.values() if one.interval > 0):
            threading.Thread(
                target=self._run_sweep, args=(sweep,), name=f"sweep {sweep.name}", daemon=True
            ).start()

    def _run_sweep(self, sweep: Sweep) -> None:
        # Jitter needs no cryptographic random generator.
        pause = min(sweep.interval, _LONGEST_START) * random.uniform(0.3, 1.0)
        told, took = db_retry.OutageLog(LOG), 0.0
        while not self._wait(pause, sweep.wakeup, max(_GATHER, _REST * took)):
            began = time.monotonic()
            try:
                sweep.act()
                told.back("The sweep for %s is run again", sweep.name)
            except errors.Unavailable as why:  # usually an unavailable database, not a bug
                told.away("The sweep for %s failed; it runs again: %s", sweep.name, why)
            except errors.Error as why:
                LOG.warning("The sweep for %s failed; it runs again: %s", sweep.name, why)
            except BaseException:  # such as sys.exit in a driver: this sweep has only this thread
                LOG.exception("The sweep for %s failed; it runs again", sweep.name)
            took = time.monotonic() - began
            pause = sweep.interval * random.uniform(0.9, 1.1)

    def _wait(self, seconds: float, wakeup: Wakeup | None, rest: float) -> bool:
        """Wait until the next sweep; return whether the sweeps have been halted.

        :param rest: seconds to wait after a signal.
        """
        if wakeup is None:
            return self._halted.wait(seconds)
        wakeup.wait(seconds)
        return self._halted.wait(min(seconds, rest))
