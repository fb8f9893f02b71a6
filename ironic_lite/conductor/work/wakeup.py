"""Signals that start a sweep before its time."""

from __future__ import annotations

import threading


class Wakeup:
    """A signal from the ends of runs and power changes to the sweep of batches.

    :ivar armed: True while a batch is open; signals are dropped otherwise, so that no sweep is
        started in vain.
    """

    def __init__(self) -> None:
        self.armed = False
        self._event = threading.Event()

    def signal(self) -> None:
        """Start the sweep soon, if it has work."""
        if self.armed:
            self._event.set()

    def end(self) -> None:
        """End the waiting, because the service stops."""
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait for a signal, at most so long; the signal is used up."""
        self._event.wait(seconds)
        self._event.clear()
