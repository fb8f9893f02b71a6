"""The conductor's pulse: its row says it is alive and what it counted, and its locks' leases are
renewed.

It has a thread of its own and goes on while the service drains, so that peers do not take over work
that is still being finished. Where the row is gone, an operator having removed it, the conductor
registers again. Its locks outlive that: others judge them by their leases, not by the row.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from ironic_lite import clock, config, counters, errors, metrics
from ironic_lite.conductor import fence, outage
from ironic_lite.conductor.desk import Desk
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.db import conductors, nodes
from ironic_lite.db.session import Connection

LOG = logging.getLogger(__name__)

_SOON = 1.0  # seconds
_LAST_BEAT = 2.0  # seconds; a database that hangs must not keep a conductor from its end


def register(conn: Connection, desk: Desk) -> None:
    """Put a conductor on the list, alive, with all that it can drive."""
    key = conductors.register(
        conn,
        host=desk.host,
        group=desk.conf.conductor.conductor_group,
        version=config.version(),
        now=clock.now(),
    )
    conductors.set_interfaces(conn, key, desk.registry.rows())


class Keepalive:
    """Touches the conductor's row every ``[conductor]heartbeat_interval`` seconds."""

    def __init__(self, tasks: Tasks, in_hand: Callable[[], int] = lambda: 0) -> None:
        """``in_hand`` returns how many calls of RPC are being answered."""
        self._tasks = tasks
        self._in_hand = in_hand
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keepalive", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the last lock has been given back; a beat under way is waited for."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_BEAT)

    def _run(self) -> None:
        settings = self._tasks.desk.conf.conductor
        pause, told = settings.heartbeat_interval, outage.Told(LOG)
        while not self._stopped.wait(pause):
            try:
                self.beat()
                pause = settings.heartbeat_interval
                told.back("The keepalive renews the leases again")
            except errors.Unavailable as why:
                # The leases run on meanwhile: they are renewed as soon as that is possible.
                pause = min(_SOON, settings.heartbeat_interval)
                told.away("The keepalive failed; leases end if it goes on failing: %s", why)
            except BaseException:
                LOG.exception("The keepalive failed; leases end if it goes on failing")

    def beat(self) -> None:
        """Touch the row, counts included, and renew the leases once."""
        desk, began = self._tasks.desk, fence.steady()
        held = self._tasks.held
        expires = clock.after(desk.conf.conductor.heartbeat_timeout)

        def write(conn: Connection) -> tuple[bool, bool]:
            online = not desk.draining.is_set()
            now, told = clock.now(), self._counts(len(held))
            listed = conductors.touch(conn, host=desk.host, now=now, online=online, counters=told)
            if online and not listed:
                register(conn, desk)
            ours = nodes.renew(conn, host=desk.host, tokens=held, expires=expires) if held else 0
            return listed, ours == len(held)

        listed, complete = desk.database.write(write)
        self._tasks.leases.renewed()
        if held:
            metrics.BOARD.count("lease_renewals_total", "ok" if complete else "doubt")
        if listed and complete:
            desk.fence.renewed(began)
        else:  # one is lost, or just being taken; or somebody has removed rows
            desk.fence.doubt()
        if not (listed or desk.draining.is_set()):
            LOG.warning(
                "Somebody has removed the row of conductor %s: it has registered again. Others "
                "owned its nodes meanwhile, except those that it has locked: %d",
                desk.host,
                len(held),
            )

    def _counts(self, held: int) -> dict[str, Any]:
        """Return what this conductor has counted so far, and what it has in hand now."""
        workers = self._tasks.desk.workers
        gauges = {
            "workers": [
                {"state": "busy", "value": workers.busy},
                {"state": "most", "value": workers.size},
            ],
            "locks_held": [{"value": held}],
            "rpc_in_hand": [{"value": self._in_hand()}],
        }
        return {**counters.BMCS.snapshot(), **metrics.BOARD.snapshot(), **gauges}
