"""Retries of database access by workers while the database is unavailable.

A worker's step has already had its effect on a machine. A restarted database or a full disk must
neither lose the result nor fail the run. Only the statements are repeated; no driver is called
twice. When the database answers again, the lock's token shows whether the node is still ours.

All other callers (RPC calls, sweeps, the keepalive) get the error at once. `write_idempotent` is
for changes whose reply was lost.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from ironic_lite import errors
from ironic_lite.core import log_lines
from ironic_lite.db.engine.session import Connection, Transactions

LOG = logging.getLogger(__name__)

T = TypeVar("T")
_FIRST_PAUSE = 0.1  # seconds
_LONGEST_PAUSE = 5.0
_local = threading.local()


class OutageLog:
    """Logs an outage once, and once more when it ends, however often it is reported.

    So a full disk is not filled by its own log messages. An outage that comes back is logged again
    after a minute.

    :param log: the logger to use.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._since: float | None = None
        self._logged = -math.inf
        self._guard = threading.Lock()

    def away(self, line: str, *facts: object) -> None:
        """Log an outage, unless one has been logged already."""
        with self._guard:
            now = time.monotonic()
            new = self._since is None and now - self._logged > log_lines.CALM
            if new:
                self._since = self._logged = now
        # As texts, which the filter of lines about a database does not limit once more.
        self._log.log(logging.WARNING if new else logging.DEBUG, line, *map(str, facts))

    def back(self, line: str, *facts: object) -> None:
        """Log the end and the length of an outage, if one has been logged."""
        if self._since is None:
            return
        with self._guard:
            since, self._since = self._since, None
        if since is not None:
            self._log.info(f"{line}, after %.1f s", *facts, time.monotonic() - since)


@contextlib.contextmanager
def waiting_for_database(confirm: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let this thread wait for an unavailable database within the block.

    :param confirm: raises an error once the work of the block was given up. This ends a wait,
        because a database may refuse one statement for ever, and carry out all others.
    """
    _local.confirm = confirm
    try:
        yield
    finally:
        _local.confirm = None


def write_idempotent(database: Transactions, work: Callable[[Connection], T]) -> T:
    """Write; if the reply was lost, run ``work`` again to get the result.

    :param work: must detect by itself whether it has already been done.
    :raises errors.Unavailable: the fact ``doubtful`` says that the result is still unknown.
    """
    try:
        return database.write(work)
    except errors.Unavailable as why:
        if not outcome_unknown(why):
            raise
        try:
            return database.write(work)
        except errors.Unavailable as more:
            raise why from more


def outcome_unknown(why: BaseException | None) -> bool:
    """Return whether a change may have been made although this error was raised."""
    return isinstance(why, errors.Unavailable) and bool(why.facts.get("doubtful"))


class _Outlasting:
    """A database for the threads of one conductor; its workers wait for it.

    :param stopping: set when no thread may wait any longer.
    """

    def __init__(self, inner: Transactions, host: str, stopping: threading.Event) -> None:
        self._inner = inner
        self._host = host
        self._stopping = stopping
        self._read_outage, self._write_outage = OutageLog(LOG), OutageLog(LOG)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read as ``Database.read``; a worker waits for an unavailable database.

        :raises errors.Stopping: the database is unavailable, and the service stops.
        :raises errors.LockLost: the database is unavailable, and the work was given up as hung.
        """
        return self._retry_until_available(lambda: self._inner.read(work), self._read_outage)

    def write(self, work: Callable[[Connection], T], *, once: bool = False) -> T:
        """Write as ``Database.write``; a worker waits for an unavailable database.

        ``work`` may find that it has already been done, because a commit can take effect although
        its reply is lost.

        :raises errors.Stopping: the database is unavailable, and the service stops.
        :raises errors.LockLost: as `read`.
        :raises errors.Unavailable: in a worker, only of a class below: a refusal by ``work``.
        """
        if once:
            return self._inner.write(work, once=True)
        return self._retry_until_available(lambda: self._inner.write(work), self._write_outage)

    def _retry_until_available(self, act: Callable[[], T], outage: OutageLog) -> T:
        confirm: Callable[[], None] | None = getattr(_local, "confirm", None)
        if confirm is None:
            return act()
        pause = _FIRST_PAUSE
        while True:
            try:
                found = act()
            except errors.Unavailable as why:
                if type(why) is not errors.Unavailable:
                    raise  # a refusal of the work itself, such as a limit
                confirm()
                outage.away("Work waits for the database: %s", why)
                # Jitter needs no cryptographic random generator.
                if self._stopping.wait(pause * random.uniform(0.5, 1.0)):
                    raise errors.Stopping(host=self._host) from why
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            outage.back("The database answers again, and work continues")
            return found


def retrying(inner: Transactions, host: str, stopping: threading.Event) -> Transactions:
    """Return ``inner`` for a conductor, whose workers wait while it is unavailable.

    :param stopping: set when workers must leave their nodes to the next owner.
    """
    return _Outlasting(inner, host, stopping)
