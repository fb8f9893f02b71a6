"""Compares the power state in the database with the machine's, and puts one of them right.

Reading is done by many threads at once without locks; only a difference takes a lock. A machine
that is silent or slow is asked in a lane of its own, so that the others do not wait for it. One
that cannot be read for some rounds goes into maintenance with the fault ``power failure``, and
comes back by itself when it can be read again.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from ironic_lite import context, errors
from ironic_lite.conductor.flows import faults
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import lanes
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import nodes, sweeps
from ironic_lite.drivers import base, patience
from ironic_lite.records import Node
from ironic_lite.states import State

LOG = logging.getLogger(__name__)
FAULT = "power failure"
SKIPPED = tuple(
    str(state)
    for state in (
        State.ENROLL,
        State.DEPLOYWAIT,
        State.CLEANWAIT,
        State.RESCUEWAIT,
        State.INSPECTWAIT,
        State.SERVICEWAIT,
        State.ADOPTFAIL,
    )
)
QUICK = 2.0
"""Seconds in which a healthy BMC answers. One that takes longer is asked in the lane of doubtful
ones, where nobody waits behind it."""
CALM = 3
"""Quick answers in a row after which a BMC is trusted again: one that flaps is not."""
SPREAD = 0.2
"""Share of the interval over which the questions of a sweep are spread."""
_PAGE = 500
_FORGOTTEN = 3600.0  # seconds


class PowerSync:
    """The power comparison of this conductor's nodes."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._who = context.internal("power sync")
        self._records = lanes.Records(CALM)
        self._count = 0  # nodes of the last sweep
        settings, halted = tasks.desk.conf.conductor, tasks.desk.draining
        self._most = settings.sync_power_state_workers
        self._few = max(1, self._most // 2)
        self._doubtful, self._differing, self._lost = (
            lanes.Lane(self._guarded(act), most=self._few, halted=halted)
            for act in (self._compare_patiently, self._settle, self._recover_patiently)
        )

    def sweep(self) -> None:
        """Compare all nodes once, ``[conductor]sync_power_state_workers`` of them at a time.

        Nodes that are doubtful, and those that differ, are left to a lane for each of these sorts,
        and may be dealt with after the end of the sweep.
        """
        question = functools.partial(sweeps.for_power_sync, skip_states=SKIPPED)
        seconds = self._tasks.desk.conf.conductor.sync_power_state_interval * SPREAD
        queue = self._counted(self._nodes(question))
        pace = lanes.Pace(self._count, seconds) if seconds else None
        halted = self._tasks.desk.draining
        act = self._guarded(self._compare_quickly)
        lanes.go_through(queue, act, most=self._most, halted=halted, pace=pace)
        self._records.forget(_FORGOTTEN)

    def settle(self, timeout: float) -> bool:
        """Wait until nothing is left over from sweeps; False if that takes longer."""
        every = (self._doubtful, self._differing, self._lost)
        return all(lane.wait_idle(timeout) for lane in every)

    def recover(self) -> None:
        """End the maintenance of nodes whose power can be read again.

        Those that are silent are left to a lane, so that who is back does not wait for who is not.
        """
        question = functools.partial(sweeps.in_fault, fault=FAULT)
        act, halted = self._guarded(self._recover_quickly), self._tasks.desk.draining
        lanes.go_through(self._nodes(question), act, most=self._few, halted=halted)

    # -- many nodes --------------------------------------------------------------------------

    def _nodes(self, question: Callable[..., list[dict[str, Any]]]) -> Iterator[Node]:
        """Yield this conductor's nodes, page by page: one statement for many nodes."""
        after = 0
        while True:
            ask = functools.partial(question, after_id=after, limit=_PAGE)
            page = self._tasks.desk.database.read(ask)
            yield from (Node.of(row) for row in page if self._fleet.mine(row))
            if len(page) < _PAGE:
                return
            after = page[-1]["id"]

    def _counted(self, found: Iterator[Node]) -> Iterator[Node]:
        count = 0
        for count, node in enumerate(found, 1):  # noqa: B007  # the last one counts
            yield node
        self._count = count

    def _guarded(self, act: lanes.Act) -> lanes.Act:
        """Return ``act`` without its exceptions: one node must not keep others from their turn."""

        def guarded(node: Node) -> None:
            try:
                act(node)
            except errors.Error as why:
                LOG.info("Node %s: its power is looked at again later: %s", node.uuid, why)
            except Exception:
                LOG.exception("Node %s: looking at its power failed", node.uuid)

        return guarded

    # -- comparing ---------------------------------------------------------------------------

    def _compare_quickly(self, node: Node) -> None:
        """Compare a node that nothing is known against; one that keeps us waiting is put off."""
        if self._records.doubtful(node.uuid):
            self._doubtful.put(node)
            return
        begun = time.monotonic()
        why = self._compare(node, QUICK)
        if why is None:
            return
        if time.monotonic() - begun < QUICK:
            self._count_failure(node.uuid, why)
            return
        # Who was given more time might have answered: nothing is counted yet.
        self._records.slow(node.uuid)
        self._doubtful.put(node)

    def _compare_patiently(self, old: Node) -> None:
        """Compare a doubtful node: it has all the time that the configuration gives it."""
        # It may have waited here for minutes.
        node = self._tasks.desk.database.read(lambda conn: nodes.load(conn, old.uuid))
        if node.reservation is not None or not watched(node):
            return
        why = self._compare(node, patience.UNHURRIED)
        if why is not None:
            self._count_failure(node.uuid, why)

    def _compare(self, node: Node, seconds: float) -> errors.Error | None:
        """Read the power, with this patience, and go by it; return why it could not be read."""
        task = self._tasks.view(self._who, node)
        if not task.driver.power.supports_power_sync(task):
            return None
        begun = time.monotonic()
        try:
            task.driver.power.validate(task)
            with patience.limit(seconds):
                actual = task.driver.power.get_power_state(task)
        except Exception as why:  # a driver's own fault counts like the machine's
            return faults.as_error(why)
        self._records.answered(node.uuid, quick=time.monotonic() - begun < QUICK)
        if actual is None:
            return None  # between on and off, or unable to tell: nothing to compare
        if actual == node.power_state:
            self._records.settled(node.uuid)
        else:
            self._differing.put(node)
        return None

    def _settle(self, node: Node) -> None:
        """Read again under the lock, then make the two equal: that may take minutes."""
        node_uuid = node.uuid
        with self._tasks.lock(self._who, node_uuid, patient=False, reserved=False) as task:
            if not watched(task.node):
                return
            # The lock keeps callers away: a BMC that is silent now is asked by the next sweep.
            with patience.limit(patience.UNHURRIED):
                actual = task.driver.power.get_power_state(task)
            wanted = task.node.power_state
            if actual is None or actual == wanted:
                return
            if wanted is not None and self._forced(task, wanted, actual):
                return
            LOG.warning("Node %s: its power is %s, not %s", node_uuid, actual, wanted)
            task.node.power_state = actual
            task.save()
            self._records.settled(node_uuid)

    def _forced(self, task: Task, wanted: str, actual: str) -> bool:
        """Bring the machine to the recorded state; False if it must not, or will not go."""
        settings, node = self._tasks.desk.conf.conductor, task.node
        spared = wanted == base.POWER_OFF and node.disable_power_off
        if spared or not settings.force_power_state_during_sync:
            return False
        if self._records.reset(node.uuid) > settings.power_state_sync_max_retries:
            return False
        # Before the machine is told: should this conductor die, history says who switched it.
        task.journal.event("power", event="start", before=actual, after=wanted)
        task.save()
        try:
            task.driver.power.set_power_state(task, wanted)
        except Exception as why:  # drivers may raise anything; it is tried again by the next sweeps
            LOG.warning("Node %s: its power cannot be reset", node.uuid, exc_info=why)
            text = f"Failed to set power back to '{wanted}': {faults.as_error(why).message}"
            data = {"error": text, "wanted": wanted}
            task.journal.event("power", event="fail", before=actual, after=actual, data=data)
        else:
            task.journal.event("power", event="reset", after=wanted)
        task.save()
        return True

    def _count_failure(self, node_uuid: str, why: errors.Error) -> None:
        count = self._records.failed(node_uuid)
        limit = self._tasks.desk.conf.conductor.power_state_sync_max_retries
        said = "Node %s: power cannot be read (failure %d in a row, maintenance after %d): %s"
        LOG.warning(said, node_uuid, count, limit, why)
        if count <= limit:
            return
        with self._tasks.lock(self._who, node_uuid, patient=False, reserved=False) as task:
            if not watched(task.node):
                return
            reason = f"Power state could not be read {count} times in a row: {why.message}"
            task.node.maintenance = True
            task.node.maintenance_reason = reason
            task.node.fault = FAULT
            task.node.last_error = reason
            task.node.power_state = None
            task.journal.event("fault", event=FAULT, data={"error": reason})
            task.save()
        LOG.warning("Node %s: in maintenance until its power can be read again", node_uuid)
        self._records.given_up(node_uuid)

    # -- recovering --------------------------------------------------------------------------

    def _recover_quickly(self, node: Node) -> None:
        """Try a node; one that might only need more time gets it in its lane."""
        begun = time.monotonic()
        try:
            self._recover(node, QUICK)
        except errors.HardwareError:
            if time.monotonic() - begun < QUICK:
                raise
            self._lost.put(node)

    def _recover_patiently(self, old: Node) -> None:
        """Try a silent node, as it is now: it may have waited here for minutes."""
        node = self._tasks.desk.database.read(lambda conn: nodes.load(conn, old.uuid))
        if node.reservation is None and node.fault == FAULT and not node.retired:
            self._recover(node, patience.UNHURRIED)

    def _recover(self, node: Node, seconds: float) -> None:
        """End the maintenance of a node, if its power can be read with this patience."""
        task = self._tasks.view(self._who, node)
        with patience.limit(seconds):
            actual = task.driver.power.get_power_state(task)
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
            task.save()
        LOG.info("Node %s: power can be read again, its maintenance has ended", node.uuid)


def watched(node: Node) -> bool:
    """Tell whether the node, just read, is still one that the sweeps over machines ask."""
    return not (node.maintenance or node.retired or node.provision_state in SKIPPED)
