"""Statistics of ended steps: read once a minute, by one request at a time."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import ended_steps
from ironic_lite.domain.step_statistics import Statistics

KEPT_SECONDS = 60.0
_PATIENCE = 2.0
"""Seconds that a request waits for the one before it."""


class StepStatistics:
    """Reads and keeps the statistics; one object serves all threads of a process.

    :param now: a clock in seconds that cannot be set.
    """

    def __init__(self, database: Database, now: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._now = now
        self._turn = threading.Lock()
        self._kept: Statistics | None = None
        self._read_at = float("-inf")

    def document(self, since: datetime.datetime | None, **where: str | None) -> Json:
        """Return the statistics of the chosen steps.

        :param since: only steps that ended then or later.
        :param where: values by name: interface, step, driver, resource_class.
        :raises errors.Unavailable: another request has read the steps for too long.
        """
        kept = self._current()
        return {"steps": kept.grouped(since=since, **where), "of": kept.count, "from": kept.first}

    def _current(self) -> Statistics:
        """Return the statistics of this minute, which never change; others group them meanwhile."""
        if not self._turn.acquire(timeout=_PATIENCE):
            raise errors.Unavailable(_BUSY)
        try:
            if self._kept is None or self._now() - self._read_at >= KEPT_SECONDS:
                self._kept = None  # the memory of two is not needed
                self._kept = self._database.read(lambda conn: Statistics(ended_steps.newest(conn)))
                self._read_at = self._now()
            return self._kept
        finally:
            self._turn.release()


_BUSY = "The statistics of steps are being read for another request; retry in a moment."
