"""One piece of work on one node: lock, state changes, services for drivers.

``tasks.Tasks.lock`` makes a task. Endpoints move it and hand the slow part to a worker, where flows
and the stepper continue it. Every write has the condition ``WHERE lock_token = :mine`` (invariant
2).
"""

from __future__ import annotations

import datetime
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ironic_lite import errors
from ironic_lite.conductor.work import bounds, db_retry, fence, locks, node_ports
from ironic_lite.conductor.work.journal import Journal
from ironic_lite.conductor.work.notes import Notes
from ironic_lite.conductor.work.runtime import Runtime
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import agent_steps, inventories, nodes
from ironic_lite.domain import activities, states, steps
from ironic_lite.domain.activities import StepActivity
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers.base import POWER_OFF, Agent, Driver
from ironic_lite.records import Node, Port, StepsByInterface, StoredStep

LOG = logging.getLogger(__name__)

Work = Callable[["Task"], None]
_LONGEST = 366 * 24 * 3600.0  # seconds: a timer must stay a date


class Others(Protocol):
    """Access from one node's task to other nodes, by the locks of this conductor."""

    def lock(
        self,
        context: Context,
        node_uuid: str,
        *,
        patient: bool = True,
        stale: nodes.Lease | None = None,
    ) -> AbstractContextManager[Task]:
        """Hold another node's lock for the block, as ``tasks.Tasks.lock``."""

    def view(self, context: Context, node: Node) -> Task:
        """Return a read-only task."""

    def left(self, node: Node) -> nodes.Lease | None:
        """Return the node's lock if its holder is dead."""

    def running_out(self, node: Node) -> bool:
        """Return whether a lock's holder has missed renewals, so its lease may end soon."""


class Task:
    """A node under work. Satisfies ``drivers.base.Task``.

    :param held: the node's lock; None for a read-only task, whose writes are refused.
    :param others: leads to other nodes, for steps on a node's children.
    """

    def __init__(
        self,
        runtime: Runtime,
        context: Context,
        node: Node,
        driver: Driver,
        held: locks.Held | None,
        *,
        others: Others,
    ) -> None:
        self.runtime = runtime
        self.others = others
        self.context = context
        self.node = node
        self.notes = Notes(node)
        self.journal = Journal(context, runtime.host, node)
        self.work: Work | None = None
        self.timer_at: datetime.datetime | None = None
        """The time of this node's timer, set once its lock is released."""
        self.failing = self.resting = False  # resting: the end, saved as the lock is given back
        self.unsaved = False
        """True if a save has failed, so the node here differs from the stored node."""
        self._driver = driver
        self.held = held
        self._token = token = None if held is None else held.token
        mine = {"host": runtime.host, "node": node.uuid}
        self.node_ports = node_ports.NodePorts(
            runtime.database, runtime.notifier, context, **mine, token=token
        )
        self._hold = fence.HeldLock(runtime.database, runtime.fence, **mine, held=held)
        self._copy: tuple[StepsByInterface, datetime.datetime] | None = None
        self._before: list[Callable[[Connection], None]] = []
        self._further: list[Callable[[Connection], None]] = []
        # As last saved: history and notifications contain the state before.
        self._power = node.power_state
        self._target = node.target_provision_state
        self._flow, self._met = self._under_way()

    @property
    def driver(self) -> Driver:
        """The node's interfaces; raises LockLost if another conductor has the node."""
        self._hold.check()
        return self._driver

    @property
    def ports(self) -> Sequence[Port]:
        """The node's ports, read once."""
        return self.node_ports.all()

    def add_ports(self, addresses: Iterable[str]) -> None:
        """Add a port for each network card without one; see `node_ports.NodePorts.add`."""
        self.node_ports.add(addresses)

    def keep_inventory(self, inventory: JsonView, plugin_data: JsonView) -> None:
        """Store the result of an inspection with the next save."""
        bounds.check(inventory=inventory, plugin_data=plugin_data)
        at, node = clock.now(), self.node.uuid
        self.add_write(lambda conn: inventories.put(conn, node, inventory, plugin_data, at=at))

    def recall(self, key: str, default: Any = None) -> Any:
        """Return a driver's stored value of this node."""
        return self.notes.recall(key, default)

    def keep(self, key: str, value: Any) -> None:
        """Store a driver's JSON value with the next save."""
        self.notes.keep(key, value)

    def wake_after(self, seconds: float) -> None:
        """Have the waiting step polled after ``seconds``; durable from the next save on."""
        self.node.wake_at = clock.after(min(max(0.0, seconds), _LONGEST))

    def pause(self, seconds: float) -> None:
        """Sleep unless the service stops, then confirm the lock; see `drivers.base.Task`."""
        self._hold.pause(seconds, self.runtime.stopping)

    def confirm_lock(self) -> None:
        """Confirm the lock before a request to the machine; see `drivers.base.Task`."""
        self._hold.check()

    @property
    def lock_is_sure(self) -> bool:
        """Return whether a request in progress may continue; see `drivers.base.Task`."""
        return self._hold.sure

    @property
    def agent(self) -> Agent | None:
        """The agent that has sent a heartbeat since its ramdisk booted."""
        return self.notes.agent

    def new_agent_token(self) -> str:
        """Make the token of the next ramdisk, which reads it from its own boot media."""
        return self.notes.new_token(before_boot=True)

    def forget_agent(self, *, keep_token: bool = False) -> None:
        """Forget the previous agent and its token."""
        self.notes.forget_agent(keep_token=keep_token)

    @property
    def manager_version(self) -> Mapping[str, str] | None:
        """The versions of the agent's hardware managers when it listed its steps.

        Requirement S2.29.
        """
        version: Mapping[str, str] | None = self.notes.manager_version
        return version

    @property
    def step_id(self) -> str:
        """Identifier of the running step; it only changes with another agent."""
        activity = activities.stepping(self.state)
        index = None if activity is None else self.notes.index(activity.kind)
        place = "" if index is None else self.notes.first_ordinal + index
        return f"{self.node.run_uuid}/{place}/{self.notes.agent_changes}"

    # -- what the last agent listed ----------------------------------------------------------

    def copy_agent_steps(self, listed: StepsByInterface, *, at: datetime.datetime) -> None:
        """Replace the permanent copy of the agent's clean steps with the next save.

        Requirement S1.25.
        """
        self._copy = (listed, at)

    def copied_agent_steps(self) -> StepsByInterface | None:
        """Return the permanent copy of clean steps by interface; None without a copy."""
        return self.runtime.database.read(lambda conn: agent_steps.get(conn, self.node.uuid))

    def add_write(self, write: Callable[[Connection], None], *, first: bool = False) -> None:
        """Run ``write`` in the transaction of the next save, after or before the node's.

        An error that ``write`` raises leaves the node unchanged.
        """
        (self._before if first else self._further).append(write)

    # -- where the node stands ---------------------------------------------------------------

    @property
    def state(self) -> State:
        """The provision state."""
        return State(self.node.provision_state)

    @property
    def goal(self) -> State | None:
        """The target provision state."""
        target = self.node.target_provision_state
        return State(target) if target else None

    def move(
        self,
        event: str,
        *,
        verb: str | None = None,
        goal: State | None = None,
        error: errors.Error | None = None,
        aborted: bool = False,
    ) -> None:
        """Follow one row of the state table and save all its changes at once.

        :param verb: set when a client's verb starts here: opens a run, replacing a waiting one. If
            there is work to do, last_error is cleared.
        :param goal: a stable state other than the new state's own target.
        :param error: the reason of a failure: last_error and the run's error.
        :param aborted: the run ends by request, not by a failure.
        :raises errors.InvalidState: the table has no such transition.
        :raises errors.LockLost: another conductor now has the node.
        """
        before = self.state
        after = states.follow(before, event, node=self.node.uuid)
        target = states.target(before, after, self.goal, goal)
        self.journal.look()
        self.node.provision_state = str(after)
        self.node.target_provision_state = str(target) if target else None
        self.node.provision_updated_at = clock.now()
        if verb is not None:
            self._open_run(verb, before, after)
        if error is not None:
            self.node.last_error = error.message
        if states.kind(after) is not Kind.WAIT:
            self.node.wake_at = None
            self.notes.forget_polls()
        if states.kind(after) in (Kind.STABLE, Kind.FAIL):
            self.notes.forget_beginnings()
        if aborted:
            self.notes.untidied = True  # the clean-up resets it at its end
        self._record(event, before, after, error, aborted=aborted)
        self.save()
        why = f" ({error.message})" if error else ""
        LOG.info("Node %s: %s, %s -> %s%s", self.node.uuid, event, before, after, why)

    def _open_run(self, verb: str, before: State, after: State) -> None:
        if self.node.run_uuid is not None:
            text = f"The verb {verb} took the place of this run while the node was in {before}."
            error = errors.Aborted(text, action=str(before), where="", step=self._met)
            self._end_run(self.node.run_uuid, error, aborted=True)
        if states.kind(after) is Kind.BUSY:
            self.node.last_error = None
        self.node.run_uuid = self.journal.start_run(verb)

    def _record(
        self,
        event: str,
        before: State,
        after: State,
        error: errors.Error | None,
        *,
        aborted: bool,
    ) -> None:
        run, kind = self.node.run_uuid, states.kind(after)
        if run is None:
            pass
        elif kind is Kind.BUSY:
            if states.kind(before) in (Kind.WAIT, Kind.HELD):
                self.journal.run(run, state="running", conductor=self.runtime.host)
        elif kind in (Kind.WAIT, Kind.HELD):
            self.journal.run(run, state="waiting")
        else:
            self._end_run(run, error, aborted=aborted)
        data = {"error": error.message} if error else None
        self.journal.event(
            "provision", run=run, event=event, before=str(before), after=str(after), data=data
        )

    def _end_run(self, run: str, error: errors.Error | None, *, aborted: bool) -> None:
        state = "aborted" if aborted else "failed" if error else "done"
        about = None
        if error is not None:
            about = {"code": error.code, "text": error.message, "retryable": error.retryable}
            about["step"] = error.facts.get("step")
        self.journal.run(run, state=state, ended_at=clock.now(), error=about)
        self.node.run_uuid = None
        if self._flow is not None:
            data = {"outcome": state, "step": about and about["step"]}
            self.journal.event("flow_ended", run=run, event=self._flow, data=data)
            self._flow = None

    def begin_flow(self, activity: StepActivity, listed: Sequence[StoredStep]) -> None:
        """Record, for the next save, that these steps will run; `move` records their end."""
        anew, self._flow = self._flow is not None, self._flow_of(activity)
        data = {"steps": [steps.title(step) for step in listed], "anew": anew}
        run = self.node.run_uuid
        self.journal.event("flow_started", run=run, event=self._flow, data=data)

    def _under_way(self) -> tuple[str | None, str | None]:
        """Return the flow that this task found begun, and its current step."""
        activity = activities.stepping(self.state)
        index = None if activity is None else self.notes.index(activity.kind)
        if activity is None or index is None:
            return None, None
        listed = self.notes.listed(activity.kind)
        return self._flow_of(activity), steps.title(listed[index]) if index < len(listed) else None

    def _flow_of(self, activity: StepActivity) -> str:
        manual = activity.manual_flow if self.notes.manual(activity.kind) else None
        return manual or activity.flow

    def save(self, *, release: bool = False) -> None:
        """Write the node's changes and the collected history in one transaction.

        :param release: release the lock by the same statement, if there is anything to write.
        :raises errors.LockLost: zero rows: another conductor has the lock; stop at once.
        """
        if self._token is None:
            raise errors.LockLost(node=self.node.uuid)
        token = self._token
        if self.node.changes.get("power_state") == POWER_OFF:
            self.notes.forget_agent(keep_token=True)
        changes, freed = self.node.changes, nodes.FREE if release else {}
        if "power_state" in changes:
            self._note_power(changes["power_state"])
        self._note_error(changes.get("last_error"))
        if not changes and not self.journal.pending and not self._further:
            return

        stamp, tries = clock.now(), itertools.count()

        def write(conn: Connection) -> None:
            if next(tries) and nodes.saved(conn, self.node.uuid, at=stamp):
                return  # the change was made, only the reply was lost
            for act in self._before:
                act(conn)
            # Also without changes: only the lock's holder may write history.
            nodes.save(conn, self.node.uuid, {**changes, **freed}, token=token, at=stamp)
            self.journal.write(conn)
            if self._copy is not None:
                listed, at = self._copy
                agent_steps.put(conn, self.node.uuid, listed, at=at)
            for act in self._further:
                act(conn)

        self.unsaved = True
        self._hold.go_on()
        db_retry.write_idempotent(self.runtime.database, write)
        self.unsaved = False
        self._tell()
        self.journal.settle()
        self.node.settle(**freed)
        self._copy, self._before, self._further = None, [], []
        if "wake_at" in changes:
            self.timer_at = self.node.wake_at

    def confirm(self) -> None:
        """Renew the lock before using the machine again after a failure; raises LockLost."""
        self._hold.confirm()

    def _tell(self) -> None:
        """Send notifications of committed events; requirement S5.29."""
        if self.runtime.notifier.on:
            about = {**self.node.as_dict(), "updated_at": clock.now()}
            told = self.journal.events
            self.runtime.notifier.tell(self.context, told, about, previous_target=self._target)
        self._target = self.node.target_provision_state

    def _note_error(self, text: str | None) -> None:
        """Record a changed last_error in history, unless an event already contains it."""
        if text and all((one["data"] or {}).get("error") != text for one in self.journal.events):
            run = self.node.run_uuid
            self.journal.event("fault", run=run, event="error", data={"error": text})

    def _note_power(self, after: str | None) -> None:
        """Record a changed power state in history, whatever changed it."""
        run = self.node.run_uuid
        self.journal.event("power", run=run, event="changed", before=self._power, after=after)
        self._power = after

    def destroy(self) -> None:
        """Delete the node, its ports, traits and runs; its events stay.

        :raises errors.LockLost: another conductor has the lock.
        """
        token = self._token
        if token is None:
            raise errors.LockLost(node=self.node.uuid)

        def write(conn: Connection) -> None:
            nodes.delete(conn, self.node.uuid, token=token)
            self.journal.write(conn)

        self.runtime.database.write(write)
        self._tell()
        self.journal.settle()

    def hand_over(self, flow: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Have a worker run ``flow(task, ...)`` after the endpoint, with the lock kept."""
        self.work = lambda task: flow(task, *args, **kwargs)
