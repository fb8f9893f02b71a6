"""Sweep that reads the machines' sensors and sends notifications.

Nothing is stored and no lock is taken. A machine that cannot be read is only logged. A machine that
was silent last time is asked in a background queue of its own.
"""

from __future__ import annotations

import functools
import logging
import time
import uuid
from collections.abc import Iterator, Mapping

from ironic_lite import errors
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.conductor.watch import ownership, power_sync, sweep_threads
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock, context
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries import nodes, sweeps
from ironic_lite.drivers import deadline
from ironic_lite.records import Node
from ironic_lite.rpc import notifier

LOG = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds for each question to a BMC; questions are not repeated within a round."""
ALL = "all"
_CALM = 1
_FORGOTTEN = 24 * 3600.0  # seconds

Readings = Mapping[str, JsonView]


class Sensors:
    """The sensor readings of this conductor's nodes."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership, out: notifier.Notifier) -> None:
        self._tasks = tasks
        self._ownership = ownership
        self._out = out
        self._who = context.internal("sensors")
        self._settings = tasks.runtime.conf.sensor_data
        self._after = 0  # the last node of a round that ran out of time
        self._hanging: set[str] = set()
        self.records = sweep_threads.Records(_CALM)
        halted = tasks.runtime.draining
        self._silent = sweep_threads.BackgroundQueue(self._read_silent, most=1, halted=halted)

    @property
    def interval(self) -> float:
        """Seconds between two rounds; 0: never."""
        return float(self._settings.interval if self._settings.send_sensor_data else 0)

    def sweep(self) -> None:
        """Read each machine once within the time limit; the next round reads the rest."""
        halted = self._tasks.runtime.draining
        most = self._settings.workers
        sweep_threads.run_all(
            self._in_time(), self._read_or_put_off, most=most, halted=halted, hanging=self._hanging
        )
        self.records.forget(_FORGOTTEN)

    def settle(self, timeout: float) -> bool:
        """Wait until the queue of silent machines is empty; return False after the limit."""
        return self._silent.wait_idle(timeout)

    # -- which -------------------------------------------------------------------------------

    def _in_time(self) -> Iterator[Node]:
        limit = self._settings.wait_timeout
        end = time.monotonic() + limit if limit else float("inf")
        for node in self._own_nodes():
            if time.monotonic() > end:
                LOG.warning(
                    "Reading sensors took longer than [sensor_data]wait_timeout (%d s); the next "
                    "round continues with the remaining machines",
                    limit,
                )
                return
            self._after = node.id
            yield node
        self._after = 0

    def _own_nodes(self) -> Iterator[Node]:
        """Yield this conductor's nodes with an instance, or all managed nodes."""
        question = functools.partial(sweeps.for_power_sync, skip_states=power_sync.SKIPPED)
        database = self._tasks.runtime.database
        found = ownership.read_own(database, question, self._is_wanted, after_id=self._after)
        return (node for node in found if self._can_read(node))

    def _is_wanted(self, row: sweeps.Candidate) -> bool:
        return self._in_use(row["instance_uuid"]) and self._ownership.mine(row)

    def _can_read(self, node: Node) -> bool:
        """Return whether the node, just read, still belongs to a round."""
        usable = node.reservation is None and power_sync.watched(node)
        return usable and self._in_use(node.instance_uuid)

    def _in_use(self, instance: str | None) -> bool:
        return bool(instance or self._settings.enable_for_undeployed_nodes)

    # -- reading -----------------------------------------------------------------------------

    def _read_or_put_off(self, node: Node) -> None:
        if self.records.doubtful(node.uuid):
            self._silent.put(node)
        else:
            self._read_node(node)

    def _read_silent(self, old: Node) -> None:
        """Read a silent machine after reading its node again, as hours may have passed."""
        try:
            node = self._tasks.runtime.database.read(lambda conn: nodes.load(conn, old.uuid))
        except errors.Error as why:
            LOG.info("Node %s: its sensors were not read: %s", old.uuid, why)
            return
        if self._can_read(node):
            self._read_node(node)

    def _read_node(self, node: Node) -> None:
        """Read one machine and send its notification; raises nothing."""
        begun = time.monotonic()
        try:
            with deadline.limit(PATIENCE):
                self._send_readings(node)
        except errors.UnsupportedDriverExtension:
            LOG.debug("Node %s has no sensors", node.uuid)
        except errors.Error as why:
            self.records.failed(node.uuid)
            LOG.info("Node %s: its sensors will be read again later: %s", node.uuid, why)
        except Exception:  # a driver may raise anything
            LOG.exception("Node %s: reading its sensors failed", node.uuid)
        else:
            quick = time.monotonic() - begun < PATIENCE
            self.records.answered(node.uuid, quick=quick)

    def _send_readings(self, node: Node) -> None:
        task = self._tasks.view(self._who, node)
        task.driver.management.validate(task)
        found = wanted(task.driver.management.get_sensors_data(task), self._settings.data_types)
        if found:
            kind = f"hardware.{node.driver}.metrics"
            self._out.measure(self._who, kind, message(node, kind, found))


def wanted(found: Readings, types: list[str]) -> dict[str, JsonView]:
    """Return the readings of these sensor types, ignoring case; ``all`` selects all."""
    names = {name.lower() for name in types}
    return {kind: some for kind, some in found.items() if names & {ALL, kind.lower()} and some}


def message(node: Node, kind: str, found: Readings) -> Json:
    """Return the payload of Ironic's sensor notifications, JSON values only."""
    return {
        "message_id": str(uuid.uuid4()),
        "instance_uuid": node.instance_uuid,
        "node_uuid": node.uuid,
        "node_name": node.name,
        "timestamp": clock.now().isoformat(),
        "event_type": f"{kind}.update",
        "payload": {name: dict(some) for name, some in found.items()},
    }
