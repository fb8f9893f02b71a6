"""Sweep that compares the stored power state with the machine's and corrects one.

It records the machine's health, too, which comes with the power state.

For some time after a power change it also compares the boot mode and secure boot, which a boot may
change.

Many threads read power states at once without locks; only a difference takes a lock. Slow machines
are asked in a background queue of their own, and machines that did not answer last time in another
one, so that others do not wait for them. If very many stop to answer at once, the sweep gives each
of the rest less time. A machine that cannot be read for some rounds goes into maintenance with the
fault ``power failure``, unless a hold leaves the machine alone. The maintenance ends automatically
when it can be read again.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Iterator

from ironic_lite import errors
from ironic_lite.conductor.engine import firmware_cache
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import admission, error_text
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.conductor.watch import ownership, sweep_threads
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import context
from ironic_lite.core.json_types import Row
from ironic_lite.db.queries import nodes, sweeps
from ironic_lite.domain import failures, states
from ironic_lite.domain.holds import ORDER, POWER
from ironic_lite.drivers import base, deadline
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)
FAULT = "power failure"
SKIPPED = tuple(sorted(map(str, states.UNSYNCED)))
QUICK = 2.0
"""Seconds in which a healthy BMC answers; slower BMCs are asked in the background queue."""
HASTY = 0.3
"""Seconds for a BMC after many others have not answered in this sweep."""
CALM = 3
"""Quick answers in a row after which a BMC is trusted again, so that flapping BMCs are not."""
SPREAD = 0.2
"""Share of the interval over which the questions of a sweep are spread."""
WAITING = 0.5
"""Share of the interval for which all threads of a sweep may wait for missing answers."""
BOOTING = 900.0
"""Seconds after a power change in which the boot may merge a pending change of the boot mode."""
_FORGOTTEN = 3600.0  # seconds


class PowerSync:
    """The power comparison of this conductor's nodes."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership) -> None:
        self._tasks = tasks
        self._ownership = ownership
        self._who = context.internal("power sync")
        self._hanging: set[str] = set()
        self.records = sweep_threads.Records(CALM)
        self._count = 0  # nodes of the last sweep
        settings, halted = tasks.runtime.conf.conductor, tasks.runtime.draining
        self._most = settings.sync_power_state_workers
        self._few = max(1, self._most // 2)
        self._left = 0.0  # seconds that the threads of this sweep may still wait in vain
        self._doubtful, self._silent, self._differing, self._unwell, self._lost = (
            sweep_threads.BackgroundQueue(self._guard_act(act), most=self._few, halted=halted)
            for act in (
                self._compare_with_full_timeouts,
                self._compare_with_full_timeouts,
                self._correct_node,
                self._note_health,
                self._recover_silent_node,
            )
        )

    def sweep(self) -> None:
        """Compare all nodes once, ``[conductor]sync_power_state_workers`` at a time.

        Slow nodes, silent nodes, nodes with a difference and nodes whose health has changed go to a
        background queue each, and may be handled after the end of the sweep.
        """
        question = functools.partial(sweeps.for_power_sync, skip_states=SKIPPED)
        interval = self._tasks.runtime.conf.conductor.sync_power_state_interval
        seconds = interval * SPREAD
        self._left = self._most * interval * WAITING if interval else math.inf
        queue = self._count_nodes(self._own_nodes(question, watched))
        pace = sweep_threads.Pacer(self._count, seconds) if seconds else None
        halted = self._tasks.runtime.draining
        act = self._guard_act(self._compare_quickly)
        sweep_threads.run_all(
            queue, act, most=self._most, halted=halted, pace=pace, hanging=self._hanging
        )
        self.records.forget(_FORGOTTEN)

    def settle(self, timeout: float) -> bool:
        """Wait until the background queues are empty; return False if that takes longer."""
        every = (self._doubtful, self._silent, self._differing, self._unwell, self._lost)
        return all(lane.wait_idle(timeout) for lane in every)

    def recover(self) -> None:
        """End the maintenance of nodes whose power can be read again.

        Silent nodes go to a background queue, so that answering nodes do not wait for them.
        """
        question = functools.partial(sweeps.in_fault, fault=FAULT)
        act, halted = self._guard_act(self._recover_quickly), self._tasks.runtime.draining
        queue = self._own_nodes(question, _is_lost)
        sweep_threads.run_all(queue, act, most=self._few, halted=halted, hanging=self._hanging)

    # -- many nodes --------------------------------------------------------------------------

    def _own_nodes(
        self, question: ownership.Question, judge: Callable[[Node], bool]
    ) -> Iterator[Node]:
        """Yield this conductor's nodes that nobody works on, and that still belong to a sweep."""
        found = ownership.read_own(self._tasks.runtime.database, question, self._ownership.mine)
        return (node for node in found if node.reservation is None and judge(node))

    def _count_nodes(self, found: Iterator[Node]) -> Iterator[Node]:
        count = 0
        for count, node in enumerate(found, 1):  # noqa: B007  # the last one counts
            yield node
        self._count = count

    def _guard_act(self, act: sweep_threads.Act) -> sweep_threads.Act:
        """Return ``act`` without its exceptions: one node must not stop the others."""

        def guarded(node: Node) -> None:
            try:
                act(node)
            except errors.Error as why:
                LOG.info("Node %s: its power will be checked again later: %s", node.uuid, why)
            except Exception:
                LOG.exception("Node %s: checking its power failed", node.uuid)

        return guarded

    # -- comparing ---------------------------------------------------------------------------

    def _compare_quickly(self, node: Node) -> None:
        """Compare a trusted node; move a slow or silent one to its background queue."""
        doubtful = self.records.doubtful(node.uuid)
        if self.records.unanswered(node.uuid) or node.uuid in deadline.SILENT:
            self._silent.put(node)
            return
        if doubtful:
            self._doubtful.put(node)
            return
        begun, limit = time.monotonic(), QUICK if self._left > 0 else HASTY
        why = self._compare_power(node, limit)
        if why is None:
            return
        waited = time.monotonic() - begun
        self._left -= waited  # one of two subtractions at once may be lost, which is harmless
        if waited < limit:
            self._count_failure(node, why)
            return
        # With more time it might have answered, so no failure is counted yet.
        self.records.hurried(node.uuid)
        self._silent.put(node)

    def _compare_with_full_timeouts(self, old: Node) -> None:
        """Compare a doubtful node with the full configured time-outs."""
        # The node may have waited in the queue for minutes.
        node = self._tasks.runtime.database.read(lambda conn: nodes.load(conn, old.uuid))
        if node.reservation is not None or not watched(node):
            return
        why = self._compare_power(node, deadline.UNHURRIED)
        if why is not None:
            self._count_failure(node, why)

    def _compare_power(self, node: Node, seconds: float) -> errors.Error | None:
        """Read power and health within this time and act on them; return the error if unreadable.

        The node keeps the health as read, which the queues write.
        """
        task = self._tasks.view(self._who, node)
        if not task.driver.power.supports_power_sync(task):
            return None
        begun = time.monotonic()
        try:
            task.driver.power.validate(task)
            with deadline.limit(seconds):
                actual, health = task.driver.power.get_power_and_health(task)
        except Exception as why:  # a driver's fault counts like the machine's
            return error_text.as_error(why)
        self.records.answered(node.uuid, quick=time.monotonic() - begun < QUICK)
        unwell, node.health = health != node.health, health
        differs = actual not in (None, node.power_state)
        if actual is not None and not differs:  # between on and off there is nothing to compare
            self.records.settled(node.uuid)
            with deadline.limit(seconds):
                differs = bool(_boot_changes(task))
        if differs:
            self._differing.put(node)
        elif unwell and self._monitors:
            self._unwell.put(node)
        return None

    @property
    def _monitors(self) -> bool:
        return self._tasks.runtime.conf.conductor.enable_health_monitoring

    def _note_health(self, node: Node) -> None:
        """Write the health as the sweep has read it, without another question to the machine."""
        with self._tasks.lock(self._who, node.uuid, patient=False, reserved=False) as task:
            if watched(task.node) and self._set_health(task, node.health):
                task.save()

    def _set_health(self, task: Task, health: str | None) -> bool:
        """Set the health and add its event, to be saved; return whether it has changed."""
        before = task.node.health
        if before == health or not self._monitors:
            return False
        said = logging.INFO if health in (None, "OK") else logging.WARNING
        LOG.log(said, "Node %s: its health is %s, it was %s", task.node.uuid, health, before)
        task.node.health = health
        task.journal.event("health", before=before, after=health)
        return True

    def _correct_node(self, node: Node) -> None:
        """Read again under the lock, then correct the difference, which may take minutes."""
        node_uuid = node.uuid
        with self._tasks.lock(self._who, node_uuid, patient=False, reserved=False) as task:
            if not watched(task.node):
                return
            if self._set_health(task, node.health):
                task.save()
            # The lock blocks clients, so a BMC that is silent now is left to the next sweep.
            with deadline.limit(deadline.UNHURRIED):
                actual = task.driver.power.get_power_state(task)
            wanted = task.node.power_state
            if actual is not None and actual == wanted:
                self._note_boot(task)
                return
            if actual is None or (wanted and self._force_power(task, wanted, actual)):
                return
            said = logging.WARNING if wanted else logging.INFO  # the first reading of a new node
            LOG.log(said, "Node %s: its power is %s, it was %s", node_uuid, actual, wanted)
            task.node.power_state = actual
            task.save()
            self.records.settled(node_uuid)

    def _note_boot(self, task: Task) -> None:
        """Record what a boot has changed; a BMC that is silent now is left to the next sweep."""
        with deadline.limit(deadline.UNHURRIED):
            changes = _boot_changes(task)
        for column, value in changes.items():
            LOG.warning("Node %s: its %s is %s now", task.node.uuid, column, value)
            setattr(task.node, column, value)
        if changes:
            task.save()

    def _force_power(self, task: Task, wanted: str, actual: str) -> bool:
        """Switch the machine to the stored state; return False if forbidden or failed."""
        settings, node = self._tasks.runtime.conf.conductor, task.node
        spared = wanted == base.POWER_OFF and node.disable_power_off
        spared = spared or error_text.may_write_firmware(node)
        if spared or not settings.force_power_state_during_sync:
            return False
        if any(admission.of_holds(task, POWER, wanted)):
            return False
        if self.records.reset(node.uuid) > settings.power_state_sync_max_retries:
            return False
        # Before the request to the machine: if this conductor dies, history shows who switched it.
        task.journal.event("power", event="start", before=actual, after=wanted)
        task.save()
        try:
            task.switch_power(wanted)
        except errors.LockLost:
            raise
        except Exception as why:  # drivers may raise anything; the next sweeps retry
            LOG.warning("Node %s: its power cannot be reset", node.uuid, exc_info=why)
            cause = error_text.as_error(why)
            text = f"Failed to set power back to '{wanted}': {cause.message}"
            about = failures.of(cause, task.journal.hide)
            data = {"error": text, "wanted": wanted, "cause": about}
            task.journal.event("power", event="fail", before=actual, after=actual, data=data)
        else:
            task.journal.event("power", event="reset", after=wanted)
        task.save()
        return True

    def _count_failure(self, node: Node, why: errors.Error) -> None:
        node_uuid = node.uuid
        if why.facts.get("asked") is False:  # it says nothing about the machine
            LOG.info("Node %s: its power is read later: %s", node_uuid, why)
            return
        count = self.records.failed(node_uuid)
        limit = self._tasks.runtime.conf.conductor.power_state_sync_max_retries
        if count > limit and node.power_state is None and self._observed(node_uuid):
            return  # this is recorded, and nothing else is to be done
        said = "Node %s: power cannot be read (failure %d in a row, maintenance after %d): %s"
        LOG.warning(said, node_uuid, count, limit, why)
        if count <= limit:
            return
        with self._tasks.lock(self._who, node_uuid, patient=False, reserved=False) as task:
            if not watched(task.node):
                return
            task.node.power_state = None
            self._set_health(task, None)
            if any(admission.of_holds(task, ORDER, FAULT)):
                task.save()
                LOG.info("Node %s: is only observed, so it stays out of maintenance", node_uuid)
                return
            reason = f"Power state could not be read {count} times in a row: {why.message}"
            task.node.maintenance = True
            task.node.maintenance_reason = reason
            task.node.fault = FAULT
            task.node.last_error = reason
            cause = failures.of(why, task.journal.hide)
            task.journal.event("fault", event=FAULT, data={"error": reason, "cause": cause})
            task.save()
        LOG.warning("Node %s: in maintenance until its power can be read again", node_uuid)
        self.records.given_up(node_uuid)

    def _observed(self, node_uuid: str) -> bool:
        question = functools.partial(sweeps.notes, uuids=[node_uuid])
        return any(row["observed"] for row in self._tasks.runtime.database.read(question))

    # -- recovering --------------------------------------------------------------------------

    def _recover_quickly(self, node: Node) -> None:
        """Try a node; move one that may need more time to the background queue."""
        begun = time.monotonic()
        try:
            self._end_maintenance(node, QUICK)
        except errors.HardwareError:
            if time.monotonic() - begun < QUICK:
                raise
            self._lost.put(node)

    def _recover_silent_node(self, old: Node) -> None:
        """Try a silent node after reading it again, as it may have waited for minutes."""
        node = self._tasks.runtime.database.read(lambda conn: nodes.load(conn, old.uuid))
        if node.reservation is None and _is_lost(node):
            self._end_maintenance(node, deadline.UNHURRIED)

    def _end_maintenance(self, node: Node, seconds: float) -> None:
        """End the maintenance of a node if its power can be read within this time."""
        task = self._tasks.view(self._who, node)
        with deadline.limit(seconds):
            actual, health = task.driver.power.get_power_and_health(task)
        with self._tasks.lock(self._who, node.uuid, patient=False, reserved=False) as task:
            if task.node.fault != FAULT:
                return
            if task.node.last_error == task.node.maintenance_reason:
                task.node.last_error = None
            task.node.maintenance = False
            task.node.maintenance_reason = None
            task.node.fault = None
            task.node.power_state = actual
            task.journal.event("fault", event="recovered", after=actual)
            self._set_health(task, health)
            task.save()
        LOG.info("Node %s: power can be read again, its maintenance has ended", node.uuid)


def watched(node: Node) -> bool:
    """Return whether the node, just read, still belongs to the power sweeps."""
    return not (node.maintenance or node.retired or node.provision_state in SKIPPED)


def _is_lost(node: Node) -> bool:
    """Return whether the node, just read, still waits until its power can be read."""
    return node.fault == FAULT and not node.retired


def _boot_changes(task: Task) -> Row:
    """Return what the boot after a recent power change has merged at the BMC."""
    on = task.node.power_state == base.POWER_ON
    if not on or task.notes.seconds_since_switched > BOOTING:
        return {}
    return firmware_cache.boot_changes(task)
