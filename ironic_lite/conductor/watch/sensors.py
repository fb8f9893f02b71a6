"""Reads the sensors of machines from time to time, and tells whoever listens to notifications.

Nothing is kept and nothing is changed: no lock is taken, and a machine that cannot be read is a
line in the log. One that was silent last time is asked in a lane of its own, where nobody waits
behind it.
"""

from __future__ import annotations

import functools
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from ironic_lite import clock, context, errors
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import lanes, powersync
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import nodes, sweeps
from ironic_lite.drivers import patience
from ironic_lite.records import Node
from ironic_lite.rpc import notifier

LOG = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds each question to a BMC may take; none is repeated, the next round comes."""
ALL = "all"
_CALM = 1
_PAGE = 500
_FORGOTTEN = 24 * 3600.0  # seconds

Readings = Mapping[str, Mapping[str, Any]]


class Sensors:
    """The sensor readings of this conductor's nodes."""

    def __init__(self, tasks: Tasks, fleet: Fleet, out: notifier.Metrics) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._out = out
        self._who = context.internal("sensors")
        self._settings = tasks.desk.conf.sensor_data
        self._after = 0  # the node after which a round begins that had no time for all
        self._records = lanes.Records(_CALM)
        halted = tasks.desk.draining
        self._silent = lanes.Lane(self._read_silent, most=1, halted=halted)

    @property
    def interval(self) -> float:
        """Seconds between two rounds, 0 if there are none."""
        return float(self._settings.interval if self._settings.send_sensor_data else 0)

    def sweep(self) -> None:
        """Read each machine once, as many as there is time for; the next round reads the others."""
        halted = self._tasks.desk.draining
        most = self._settings.workers
        lanes.go_through(self._in_time(), self._read_or_put_off, most=most, halted=halted)
        self._records.forget(_FORGOTTEN)

    def settle(self, timeout: float) -> bool:
        """Wait until no silent machine is left to be asked; False if that takes longer."""
        return self._silent.wait_idle(timeout)

    # -- which -------------------------------------------------------------------------------

    def _in_time(self) -> Iterator[Node]:
        limit = self._settings.wait_timeout
        end = time.monotonic() + limit if limit else float("inf")
        for node in self._nodes():
            if time.monotonic() > end:
                LOG.warning(
                    "Reading sensors took longer than [sensor_data]wait_timeout (%d s); the next "
                    "round goes on with the machines that are left",
                    limit,
                )
                return
            self._after = node.id
            yield node
        self._after = 0

    def _nodes(self) -> Iterator[Node]:
        """Yield this conductor's nodes that somebody uses, or all that are managed."""
        while True:
            question = functools.partial(
                sweeps.for_power_sync,
                skip_states=powersync.SKIPPED,
                after_id=self._after,
                limit=_PAGE,
            )
            page = self._tasks.desk.database.read(question)
            for row in page:
                if self._in_use(row["instance_uuid"]) and self._fleet.mine(row):
                    yield Node.of(row)
            if len(page) < _PAGE:
                return
            self._after = page[-1]["id"]

    def _in_use(self, instance: str | None) -> bool:
        return bool(instance or self._settings.enable_for_undeployed_nodes)

    # -- reading -----------------------------------------------------------------------------

    def _read_or_put_off(self, node: Node) -> None:
        if self._records.doubtful(node.uuid):
            self._silent.put(node)
        else:
            self._read(node)

    def _read_silent(self, old: Node) -> None:
        """Read one that was silent, as it is now: it may have waited here for hours."""
        try:
            node = self._tasks.desk.database.read(lambda conn: nodes.load(conn, old.uuid))
        except errors.Error as why:
            LOG.info("Node %s: its sensors are not read: %s", old.uuid, why)
            return
        if (
            node.reservation is None
            and powersync.watched(node)
            and self._in_use(node.instance_uuid)
        ):
            self._read(node)

    def _read(self, node: Node) -> None:
        """Read one machine and tell of it; raises nothing."""
        begun = time.monotonic()
        try:
            with patience.limit(PATIENCE):
                self._tell(node)
        except errors.UnsupportedDriverExtension:
            LOG.debug("Node %s has no sensors", node.uuid)
        except errors.Error as why:
            self._records.failed(node.uuid)
            LOG.info("Node %s: its sensors are read again later: %s", node.uuid, why)
        except Exception:  # a driver is anybody's code
            LOG.exception("Node %s: reading its sensors failed", node.uuid)
        else:
            quick = time.monotonic() - begun < PATIENCE
            self._records.answered(node.uuid, quick=quick)

    def _tell(self, node: Node) -> None:
        task = self._tasks.view(self._who, node)
        task.driver.management.validate(task)
        found = wanted(task.driver.management.get_sensors_data(task), self._settings.data_types)
        if found:
            kind = f"hardware.{node.driver}.metrics"
            self._out.measure(self._who, kind, message(node, kind, found))


def wanted(found: Readings, types: list[str]) -> dict[str, Mapping[str, Any]]:
    """Return the readings of these types of sensors; ``all`` names all, capitals do not count."""
    names = {name.lower() for name in types}
    return {kind: some for kind, some in found.items() if names & {ALL, kind.lower()} and some}


def message(node: Node, kind: str, found: Readings) -> dict[str, Any]:
    """Return what listeners of Ironic's sensor data expect, JSON values only."""
    return {
        "message_id": str(uuid.uuid4()),
        "instance_uuid": node.instance_uuid,
        "node_uuid": node.uuid,
        "node_name": node.name,
        "timestamp": clock.now().isoformat(),
        "event_type": f"{kind}.update",
        "payload": {name: dict(some) for name, some in found.items()},
    }
