"""The conductor's heartbeat: updates its row and renews the leases of its locks.

It has its own thread and continues while the service drains, so that peers do not take over work
that is still running. If an operator has removed the row, the conductor registers again. Its locks
survive this, because others judge locks by their leases and not by the row.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.conductor.engine import db_retry, locks
from ironic_lite.conductor.engine.runtime import Runtime
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.core import clock, config, metrics
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import conductors, nodes

LOG = logging.getLogger(__name__)

_SOON = 1.0  # seconds
_LAST_BEAT = 2.0  # seconds; a hung database must not keep a conductor from stopping


def register(conn: Connection, runtime: Runtime) -> None:
    """Insert a conductor's row, online, with all hardware types it supports."""
    key = conductors.register(
        conn,
        host=runtime.host,
        group=runtime.conf.conductor.conductor_group,
        version=config.version(),
        now=clock.now(),
        boot=runtime.boot.id,
    )
    conductors.set_interfaces(conn, key, runtime.registry.rows())


class _Displaced(Exception):
    """Another process has taken the row; nothing was written."""


class Keepalive:
    """Updates the conductor's row every ``[conductor]heartbeat_interval`` seconds."""

    def __init__(
        self,
        tasks: TaskRunner,
        gauges: Callable[[], Json] = dict,
        displaced: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        :param gauges: returns values that only the whole service knows, as in ``metrics.GAUGES``.
        :param displaced: called when another process has taken this conductor's name.
        """
        self._tasks = tasks
        self._displaced = displaced
        self._gauges = gauges
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send_heartbeats, name="keepalive", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the last lock was released; wait for a heartbeat in progress."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_BEAT)

    def _send_heartbeats(self) -> None:
        settings = self._tasks.runtime.conf.conductor
        pause: float = settings.heartbeat_interval
        outage = db_retry.OutageLog(LOG)
        while not self._stopped.wait(pause):
            try:
                self.beat()
                pause = settings.heartbeat_interval
                outage.back("The keepalive renews the leases again")
            except errors.Unavailable as why:
                # The leases keep running meanwhile, so they are renewed as soon as possible.
                pause = min(_SOON, settings.heartbeat_interval)
                outage.away("The keepalive failed; leases end if it keeps failing: %s", why)
            except BaseException:
                LOG.exception("The keepalive failed; leases end if it keeps failing")

    def beat(self) -> None:
        """Update the row with its counts and renew the leases once."""
        runtime, began = self._tasks.runtime, locks.steady()
        held = self._tasks.locks.held
        expires = clock.after(runtime.conf.conductor.heartbeat_timeout)

        def write(conn: Connection) -> tuple[bool, bool]:
            online = not runtime.draining.is_set()
            now, work = clock.now(), self._current_counts(len(held))
            listed = conductors.touch(
                conn, host=runtime.host, now=now, online=online, counters=work, boot=runtime.boot.id
            )
            if not listed and conductors.life(conn, runtime.host) is not None:
                raise _Displaced
            if online and not listed:
                register(conn, runtime)
            ours = nodes.renew(conn, host=runtime.host, tokens=held, expires=expires) if held else 0
            return listed, ours == len(held)

        try:
            listed, complete = runtime.database.write(write)
        except _Displaced:
            self._give_way()
            return
        self._tasks.locks.leases.renewed()
        if held:
            metrics.BOARD.count("lease_renewals_total", "ok" if complete else "doubt")
        if listed and complete:
            runtime.fence.renewed(began)
        else:  # a lock is lost, just being taken or just released, or rows were removed
            runtime.fence.doubt(began)
        if not (listed or runtime.draining.is_set()):
            LOG.warning(
                "The row of conductor %s was removed: the conductor has registered again. Others "
                "owned its nodes meanwhile, except those that it has locked: %d",
                runtime.host,
                len(held),
            )
        self._tasks.locks.end_left()

    def _give_way(self) -> None:
        """Stop: another process has this name, its nodes and their machines."""
        runtime = self._tasks.runtime
        runtime.fence.close()
        self._stopped.set()
        LOG.error(
            "Another process has taken the name of conductor %s while this one was away: this one "
            "stops. Give each conductor a [DEFAULT]host of its own",
            runtime.host,
        )
        self._displaced()

    def _current_counts(self, held: int) -> Json:
        """Return this conductor's counters and its current work."""
        workers = self._tasks.runtime.workers
        gauges = {
            "workers": [
                {"state": "busy", "value": workers.busy},
                {"state": "most", "value": workers.size},
            ],
            "locks_held": [{"value": held}],
            **self._gauges(),
        }
        return {**metrics.BMCS.snapshot(), **metrics.BOARD.snapshot(), **gauges}
