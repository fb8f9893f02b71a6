"""One piece of work on one node: the lock, the only writer of its state, what drivers may ask for.

``tasks.Tasks.lock`` makes one; endpoints move it and hand the slow part over to a worker; flows and
the stepper go on with it. Every write says ``WHERE lock_token = :mine`` (invariant 2).
"""

from __future__ import annotations

import datetime
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ironic_lite import clock, errors, history, states, steps
from ironic_lite.conductor import cards, fence, outage
from ironic_lite.conductor.desk import Desk
from ironic_lite.conductor.journal import Journal
from ironic_lite.conductor.notes import Notes
from ironic_lite.context import Context
from ironic_lite.db import agent_steps, inventories, nodes
from ironic_lite.db.session import Connection
from ironic_lite.drivers.base import POWER_OFF, Agent, Driver
from ironic_lite.records import Node, Port
from ironic_lite.states import Kind, State
from ironic_lite.steps import StepKind

LOG = logging.getLogger(__name__)

Work = Callable[["Task"], None]
Listed = dict[str, list[dict[str, Any]]]
_LONGEST = 366 * 24 * 3600.0  # seconds: a timer must stay a date


class Others(Protocol):
    """The way from one node's task to another node: the locks of this conductor."""

    def lock(
        self,
        context: Context,
        node_uuid: str,
        *,
        patient: bool = True,
        stale: nodes.Lease | None = None,
    ) -> AbstractContextManager[Task]:
        """Hold another node's lock for the length of a block, as ``tasks.Tasks.lock``."""

    def view(self, context: Context, node: Node) -> Task:
        """Return a task that only reads."""

    def left(self, node: Node) -> nodes.Lease | None:
        """Return the node's lock if nobody alive holds it any more."""

    def running_out(self, node: Node) -> bool:
        """Tell whether a lock's holder has missed renewals, so that its lease may end soon."""


class Task:
    """A node under work. Satisfies ``drivers.base.Task``.

    :param token: the lock's token; None for a task that only reads (its writes are refused).
    :param others: leads to other nodes, for steps on a node's children.
    """

    def __init__(
        self,
        desk: Desk,
        context: Context,
        node: Node,
        driver: Driver,
        token: str | None,
        *,
        others: Others,
    ) -> None:
        self.desk = desk
        self.others = others
        self.context = context
        self.node = node
        self.notes = Notes(node)
        self.journal = Journal(context, desk.host, node)
        self.work: Work | None = None
        self.ring_at: datetime.datetime | None = None
        """When the alarm is to ring for this node, once its lock has been given back."""
        self.failing = self.resting = False  # resting: the end, saved as the lock is given back
        self.unsaved = False
        """Whether a save has failed: then the node here is not what stands in the table."""
        self._driver = driver
        self.cards = cards.Cards(
            desk.database, desk.notifier, context, host=desk.host, node=node.uuid, token=token
        )
        self._token = token
        self._hold = fence.Hold(desk.database, desk.fence, node.uuid, token)
        self._copy: tuple[Listed, datetime.datetime] | None = None
        self._before: list[Callable[[Connection], None]] = []
        self._further: list[Callable[[Connection], None]] = []
        # As last saved: history and notifications tell what was before.
        self._power = node.power_state
        self._target = node.target_provision_state
        self._flow, self._met = self._under_way()

    # -- what drivers see --------------------------------------------------------------------

    @property
    def driver(self) -> Driver:
        """The node's interfaces; LockLost, if they are another conductor's to call by now."""
        self._hold.check()
        return self._driver

    @property
    def ports(self) -> Sequence[Port]:
        """The node's ports, read once."""
        return self.cards.all()

    def add_ports(self, addresses: Iterable[str]) -> None:
        """Add a port for each network card that no node has one for yet; see `cards.Cards.add`."""
        self.cards.add(addresses)

    def keep_inventory(self, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]) -> None:
        """Keep what an inspection has found, with the next save."""
        at, node = clock.now(), self.node.uuid
        self.add_write(lambda conn: inventories.put(conn, node, inventory, plugin_data, at=at))

    def recall(self, key: str, default: Any = None) -> Any:
        """Return what a driver kept on this node."""
        return self.notes.recall(key, default)

    def keep(self, key: str, value: Any) -> None:
        """Keep a driver's JSON value with the next save."""
        self.notes.keep(key, value)

    def wake_after(self, seconds: float) -> None:
        """Have the waiting step polled after ``seconds``; durable from the next save on."""
        self.node.wake_at = clock.after(min(max(0.0, seconds), _LONGEST))

    def pause(self, seconds: float) -> None:
        """Sleep, unless the service stops.

        :raises errors.Stopping: it does; the work is redone or handed over.
        """
        if self.desk.stopping.wait(seconds):
            raise errors.Stopping(host=self.desk.host)

    @property
    def agent(self) -> Agent | None:
        """The agent that has sent a heartbeat since its ramdisk booted."""
        return self.notes.agent

    def new_agent_token(self) -> str:
        """Make the secret of the next ramdisk, which finds it on its own medium."""
        return self.notes.new_token(before_boot=True)

    def forget_agent(self, *, keep_token: bool = False) -> None:
        """Forget the agent that ran, and the secret that the next one will not have."""
        self.notes.forget_agent(keep_token=keep_token)

    @property
    def manager_version(self) -> Mapping[str, str] | None:
        """The versions of the agent's hardware managers when it listed its steps (S2.29)."""
        version: Mapping[str, str] | None = self.notes.manager_version
        return version

    @property
    def step_id(self) -> str:
        """Name the step under way; only for another agent it gets a new name."""
        kind = history.STEPPING.get(self.state)
        index = None if kind is None else self.notes.index(kind)
        place = "" if index is None else self.notes.first_ordinal + index
        return f"{self.node.run_uuid}/{place}/{self.notes.agent_changes}"

    # -- what the last agent listed ----------------------------------------------------------

    def copy_agent_steps(self, listed: Listed, *, at: datetime.datetime) -> None:
        """Replace the lasting copy of the agent's clean steps, with the next save (S1.25)."""
        self._copy = (listed, at)

    def copied_agent_steps(self) -> Listed | None:
        """Return that copy, clean steps by interface; None if there is none yet."""
        return self.desk.database.read(lambda conn: agent_steps.get(conn, self.node.uuid))

    def add_write(self, write: Callable[[Connection], None], *, first: bool = False) -> None:
        """Have ``write`` run in the transaction of the next save, after the node's own row, or
        before it: what it raises then keeps the node as it is."""
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
        """Follow one row of the state table and save everything that belongs to it at once.

        :param verb: set when a caller's verb starts here: opens a run, in place of one that waits.
            If there is work to do, last_error is cleared.
        :param goal: a stable state other than the new state's own target.
        :param error: why, for a failure: last_error and the run's error.
        :param aborted: the run ends by request, not by fault.
        :raises errors.InvalidState: the table has no such transition.
        :raises errors.LockLost: another conductor has the node now.
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
            self.notes.untidied = True  # whoever puts it away says so when that is done
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
                self.journal.run(run, state="running", conductor=self.desk.host)
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

    # -- the flow of steps -------------------------------------------------------------------

    def begin_flow(self, kind: StepKind, listed: Sequence[Mapping[str, Any]]) -> None:
        """Note, for the next save, that these steps are going to run; `move` notes their end."""
        anew, self._flow = self._flow is not None, self._flow_of(kind)
        data = {"steps": [steps.title(step) for step in listed], "anew": anew}
        run = self.node.run_uuid
        self.journal.event("flow_started", run=run, event=self._flow, data=data)

    def _under_way(self) -> tuple[str | None, str | None]:
        """Return the flow that this task finds begun, and the step at which it stands."""
        kind = history.STEPPING.get(self.state)
        index = None if kind is None else self.notes.index(kind)
        if kind is None or index is None:
            return None, None
        listed = self.notes.listed(kind)
        return self._flow_of(kind), steps.title(listed[index]) if index < len(listed) else None

    def _flow_of(self, kind: StepKind) -> str:
        manual = kind is StepKind.CLEAN and self.notes.manual_clean
        return history.MANUAL_CLEANING if manual else history.FLOWS[kind]

    def save(self, *, release: bool = False) -> None:
        """Write the node's changes and the gathered history in one transaction.

        :param release: give the lock back by the same statement, if there is anything to write.
        :raises errors.LockLost: zero rows: the lock is another's now; stop at once.
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
                return  # the change was made, and only its answer is lost
            for act in self._before:
                act(conn)
            # Also without changes: history, too, is written by the lock's holder only.
            nodes.save(conn, self.node.uuid, {**changes, **freed}, token=token, at=stamp)
            self.journal.write(conn)
            if self._copy is not None:
                listed, at = self._copy
                agent_steps.put(conn, self.node.uuid, listed, at=at)
            for act in self._further:
                act(conn)

        self.unsaved = True
        outage.certain(self.desk.database, write)
        self.unsaved = False
        self._tell()
        self.journal.settle()
        self.node.settle(**freed)
        self._copy, self._before, self._further = None, [], []
        if "wake_at" in changes:
            self.ring_at = self.node.wake_at

    def confirm(self) -> None:
        """Make sure of the lock before the machine is touched again after a fault, or LockLost."""
        self._hold.confirm()

    def _tell(self) -> None:
        """Let listeners know what has been committed; never before, never instead (S5.29)."""
        if self.desk.notifier.on:
            about = {**self.node.as_dict(), "updated_at": clock.now()}
            told = self.journal.events
            self.desk.notifier.tell(self.context, told, about, previous_target=self._target)
        self._target = self.node.target_provision_state

    def _note_error(self, text: str | None) -> None:
        """Whoever wrote last_error - most say why it came in an event - history tells of it."""
        if text and all((one["data"] or {}).get("error") != text for one in self.journal.events):
            run = self.node.run_uuid
            self.journal.event("fault", run=run, event="error", data={"error": text})

    def _note_power(self, after: str | None) -> None:
        """Whoever changed the power - a request, a step, the sync - history tells of it."""
        run = self.node.run_uuid
        self.journal.event("power", run=run, event="changed", before=self._power, after=after)
        self._power = after

    def destroy(self) -> None:
        """Delete the node, its ports, traits and runs; its events stay.

        :raises errors.LockLost: the lock is another's now.
        """
        token = self._token
        if token is None:
            raise errors.LockLost(node=self.node.uuid)

        def write(conn: Connection) -> None:
            nodes.delete(conn, self.node.uuid, token=token)
            self.journal.write(conn)

        self.desk.database.write(write)
        self._tell()
        self.journal.settle()

    # -- handing over ------------------------------------------------------------------------

    def hand_over(self, flow: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Let a worker go on with ``flow(task, ...)`` when the endpoint has ended, lock kept."""
        self.work = lambda task: flow(task, *args, **kwargs)
