"""A database that is busy or away is waited for by whoever has done something that must be saved.

A worker's step has had its effect on a machine: its result is not thrown away, and its run does not
fail, because a database was restarted or its disk was full. The same statements are run again, and
nothing else: no driver is called twice for it. Whose node it still is, the lock's token tells when
the database is back. Everybody else - calls, sweeps, the keepalive - hears of it at once, but for
changes whose answer got lost: those are made `certain`.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from ironic_lite import errors
from ironic_lite.db.session import Connection, Database

LOG = logging.getLogger(__name__)

T = TypeVar("T")
_FIRST_PAUSE = 0.1  # seconds
_LONGEST_PAUSE = 5.0
_local = threading.local()


class Told:
    """Whether the log has been told that something is away: once, and once more when it is back.

    However many ask for it how often meanwhile, a disk that is full is not filled by that.

    :param log: whose line it is.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._since: float | None = None
        self._guard = threading.Lock()

    def away(self, line: str, *facts: object) -> None:
        """Say this, unless something like it has been said."""
        with self._guard:
            again, self._since = self._since is not None, self._since or time.monotonic()
        self._log.log(logging.DEBUG if again else logging.WARNING, line, *facts)

    def back(self, line: str, *facts: object) -> None:
        """Say this, and after how long, if it has been said that it was away."""
        if self._since is None:
            return
        with self._guard:
            since, self._since = self._since, None
        if since is not None:
            self._log.info(f"{line}, after %.1f s", *facts, time.monotonic() - since)


@contextlib.contextmanager
def outlasted() -> Iterator[None]:
    """Let this thread wait, within the block, for a database that is away."""
    _local.patient = True
    try:
        yield
    finally:
        _local.patient = False


def certain(database: Database, work: Callable[[Connection], T]) -> T:
    """Write, and find out what became of it if only the answer got lost.

    :param work: run once more then; it finds by itself whether it has been done.
    :raises errors.Unavailable: the fact ``doubtful`` says that nobody knows still.
    """
    try:
        return database.write(work)
    except errors.Unavailable as why:
        if not doubtful(why):
            raise
        try:
            return database.write(work)
        except errors.Unavailable as more:
            raise why from more


def doubtful(why: BaseException | None) -> bool:
    """Tell whether a change may have been made although this was raised."""
    return isinstance(why, errors.Unavailable) and bool(why.facts.get("doubtful"))


class _Outlasting:
    """A database as the threads of one conductor see it.

    :param stopping: set when nothing is waited for any more.
    """

    def __init__(self, inner: Database, host: str, stopping: threading.Event) -> None:
        self._inner = inner
        self._host = host
        self._stopping = stopping
        self._told = Told(LOG)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read as ``Database.read``; a worker waits until it can.

        :raises errors.Stopping: it cannot, and the service stops.
        """
        return self._outlast(lambda: self._inner.read(work))

    def write(self, work: Callable[[Connection], T], *, once: bool = False) -> T:
        """Write as ``Database.write``; a worker waits until it can.

        ``work`` may find that it has been done: a commit may take effect although its answer is
        lost.

        :raises errors.Stopping: it cannot, and the service stops.
        """
        if once:
            return self._inner.write(work, once=True)
        return self._outlast(lambda: self._inner.write(work))

    def _outlast(self, act: Callable[[], T]) -> T:
        if not getattr(_local, "patient", False):
            return act()
        pause = _FIRST_PAUSE
        while True:
            try:
                found = act()
            except errors.Unavailable as why:
                self._told.away("Work waits for the database: %s", why)
                # Jitter is no secret: an ordinary random generator does.
                if self._stopping.wait(pause * random.uniform(0.5, 1.0)):
                    raise errors.Stopping(host=self._host) from why
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            self._told.back("The database answers again, and work goes on")
            return found


def outlasting(inner: Database, host: str, stopping: threading.Event) -> Database:
    """Return ``inner`` for a conductor: its workers wait for it when it is away.

    :param stopping: set when they are to leave their nodes to whoever comes after.
    """
    return cast(Database, _Outlasting(inner, host, stopping))
