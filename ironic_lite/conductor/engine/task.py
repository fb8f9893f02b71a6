"""One piece of work on one node: its lock, its state and its services for drivers.

``tasks.TaskRunner.lock`` makes a task. Endpoints move it and hand the slow part to a worker, where
flows and the stepper continue it. `DriverView` is the part that drivers see, `Transaction` writes,
``history`` records the run.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import functools
import itertools
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from ironic_lite import errors
from ironic_lite.conductor.engine import db_retry, locks, notes
from ironic_lite.conductor.engine.history import Journal, RunLog, RunRecord
from ironic_lite.conductor.engine.locks import LockTable, TaskLock
from ironic_lite.conductor.engine.notes import Notes
from ironic_lite.conductor.engine.runtime import Runtime
from ironic_lite.core import clock, log_lines
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView, Row, RowView
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.queries import events, nodes, reports, runs
from ironic_lite.db.queries import holds as hold_rows
from ironic_lite.db.queries import ports as queries_ports
from ironic_lite.domain import activities, fields, holds, inspection, states
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers import registry
from ironic_lite.drivers.base import POWER_OFF, REBOOT, SOFT_REBOOT, Agent, Driver
from ironic_lite.records import VIF, Node, Port, Portgroup
from ironic_lite.rpc.notifier import Notifier

LOG = logging.getLogger(__name__)

_AT_WORK = frozenset({Kind.BUSY, Kind.WAIT, Kind.HELD})
_LONGEST_TIMER = 366 * 24 * 3600.0  # seconds: a timer must stay a date


class DriverView:
    """Services of a task for drivers; satisfies ``drivers.base.Task``, which documents them."""

    def __init__(
        self,
        runtime: Runtime,
        node: Node,
        driver: Driver,
        *,
        ports: NodePorts,
        lock: TaskLock,
        transaction: Transaction,
    ) -> None:
        self.runtime = runtime
        self.node = node
        self.notes = Notes(node)
        self.node_ports = ports
        self.failing = False
        self.documents: Json = {}
        self.erasure: tuple[str, object] | None = None
        """The ``step_id`` of an erasing step, and the driver's report about this step."""
        self.recorded_step: str | None = None
        """The ``step_id`` of the erasing step whose end has been recorded by this task."""
        self.inventory: JsonView | None = None
        """The inventory of an inspection that this task stores."""
        self._traits: frozenset[str] = frozenset()
        self.transaction = transaction
        self._driver = driver
        self._lock = lock
        self._admitted = False  # True once holds need not be asked about changes of the machine

    @property
    def driver(self) -> Driver:
        """The node's interfaces; raises LockLost if another conductor has the node."""
        self._lock.check()
        return self._driver

    @property
    def ports(self) -> Sequence[Port]:
        """The node's ports, read once."""
        return self.node_ports.all()

    def add_ports(
        self, addresses: Iterable[str], client_ids: Mapping[str, str] | None = None
    ) -> None:
        """Add a port for each network card without one; see `NodePorts.add`."""
        self.node_ports.add(addresses, client_ids)

    def keep_inventory(self, inventory: JsonView, plugin_data: JsonView) -> None:
        """Store the result of an inspection with the next save."""
        notes.check_size(inventory=inventory, plugin_data=plugin_data)
        self.inventory = inventory
        at, node = clock.now(), self.node.uuid
        self.transaction.add_write(
            lambda conn: reports.put_inventory(conn, node, inventory, plugin_data, at=at)
        )

    def run_hooks(
        self,
        names: Iterable[str],
        inventory: JsonView,
        plugin_data: JsonView,
        *,
        properties: Json | None = None,
        remarks: Sequence[str] = (),
        incomplete: bool = False,
    ) -> inspection.Case:
        """Run inspection hooks over copies of the node's fields and ports."""
        node, runtime = self.node, self.runtime
        self._traits = frozenset(
            runtime.database.read(lambda conn: nodes.get_traits(conn, node.uuid))
        )
        case = inspection.Case(
            *copy.deepcopy((dict(inventory), dict(plugin_data))),
            copy.deepcopy(node.properties if properties is None else properties),
            registry.hook_options(runtime.registry.accelerators),
            inspection.InspectedNode(node.uuid, node.name, node.driver, node.owner),
            extra=copy.deepcopy(node.extra),
            resource_class=node.resource_class,
            traits=set(self._traits),
            ports={port.address: inspection.inspected(port) for port in self.ports},
            remarks=list(remarks),
            incomplete=incomplete,
        )
        try:
            inspection.run(registry.inspection_hooks(names), case)
        except errors.HardwareError as why:
            if not isinstance(why.__cause__, errors.Error):
                LOG.warning("Node %s: %s", node.uuid, why, exc_info=why.__cause__)
            raise
        case.inventory = inventory  # whatever hooks have done to their copy
        return case

    def keep_result(self, case: inspection.Case) -> None:
        """Store the result of hooks with the next save."""
        data = errors.cleaned(case.plugin_data)
        notes.check_size(
            properties=case.properties, extra=case.extra, inventory=case.inventory, plugin_data=data
        )
        for remark in log_lines.some(case.remarks):
            LOG.warning("Node %s: %s", self.node.uuid, remark)
        node = self.node
        node.properties, node.extra = errors.cleaned((case.properties, case.extra))
        node.resource_class = case.resource_class
        added, removed = case.traits - self._traits, self._traits - case.traits
        if added or removed:
            self.transaction.add_write(
                lambda conn: nodes.settle_traits(conn, node.uuid, added=added, removed=removed)
            )
        self.node_ports.settle(case.ports, self.transaction, in_use=bool(node.instance_uuid))
        self.keep_inventory(case.inventory, data)

    def recall(self, key: str, default: object = None) -> Any:
        """Return a driver's stored value of this node."""
        return self.notes.recall(key, default)

    def keep(self, key: str, value: object) -> None:
        """Store a driver's JSON value with the next save."""
        self.notes.keep(key, value)

    def report_erasure(self, report: object) -> None:
        """Take the report for the record that the engine makes at the end of the step."""
        self.erasure = (self.step_id, report)

    def wake_after(self, seconds: float) -> None:
        """Have ``watch.timeouts`` poll the waiting step after ``seconds``; durable once saved."""
        self.node.wake_at = clock.after(min(max(0.0, seconds), _LONGEST_TIMER))

    # -- the lock ----------------------------------------------------------------------------

    def pause(self, seconds: float) -> None:
        """Sleep unless the service stops, then confirm the lock."""
        self.documents.clear()
        self._lock.pause(seconds, self.runtime.stopping)

    @property
    def lock_is_sure(self) -> bool:
        """Return whether a request in progress may continue."""
        return self._lock.sure

    # -- the agent ---------------------------------------------------------------------------

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
        activity = activities.stepping(self.node.provision_state)
        index = None if activity is None else self.notes.index(activity.kind)
        place = "" if index is None else self.notes.first_ordinal + index
        return f"{self.node.run_uuid}/{place}/{self.notes.agent_changes}"


Work = Callable[["Task"], object]


class OtherNodes(Protocol):
    """Access from one node's task to other nodes, by the locks of this conductor."""

    locks: LockTable

    def lock(
        self,
        context: Context,
        node_uuid: str,
        *,
        patient: bool = True,
        stale: nodes.Lease | None = None,
    ) -> AbstractContextManager[Task]:
        """Hold another node's lock for the block, as ``tasks.TaskRunner.lock``."""

    def look(self, context: Context, node_uuid: str) -> Task:
        """Return a read-only task; raises NodeNotFound."""

    def view(self, context: Context, node: Node) -> Task:
        """Return a read-only task."""

    def tie_power(self, task: Task, target: str, timeout: float | None) -> None:
        """Switch the nodes that share the node's power; see ``flows.operations.tie_power``."""


class Task(DriverView):
    """A node under work.

    :param held: the node's lock; None for a read-only task, whose writes are refused.
    :param other_nodes: leads to other nodes, for steps on a node's children.
    :param log: unwritten lines of an earlier task of the same work.
    """

    def __init__(
        self,
        runtime: Runtime,
        context: Context,
        node: Node,
        driver: Driver,
        held: locks.Lock | None,
        *,
        other_nodes: OtherNodes,
        log: RunLog | None = None,
    ) -> None:
        self.context = context
        self.held = held
        self.other_nodes = other_nodes
        self.above: Task | None = None
        """The task of the parent or child for which this task holds its node."""
        self.switching = False
        """True while nodes that share the power of this one are switched for it."""
        self.work: Work | None = None
        self.save_on_release = False
        """True if the changes are saved by the statement that releases the lock."""
        self.journal = Journal(context, runtime.host, node, log)
        self.run_record = RunRecord(node, self.journal, runtime.host)
        database, token = runtime.database, None if held is None else held.token
        mine = {"host": runtime.host, "node": node.uuid}
        lock = locks.TaskLock(database, runtime.fence, **mine, held=held)
        super().__init__(
            runtime,
            node,
            driver,
            ports=NodePorts(database, runtime.notifier, context, **mine, token=token),
            lock=lock,
            transaction=Transaction(runtime, context, node, self.journal, lock=lock, token=token),
        )

    @property
    def state(self) -> State:
        """The provision state."""
        return State(self.node.provision_state)

    @property
    def goal(self) -> State | None:
        """The target provision state."""
        target = self.node.target_provision_state
        return State(target) if target else None

    @property
    def _has_work(self) -> bool:
        """Return whether a run, a power change, an order or a clean-up has been admitted."""
        node = self.node
        return (
            self.above is not None
            or states.kind(self.state) in _AT_WORK
            or bool(node.target_power_state or self.notes.order or self.notes.untidied)
        )

    def confirm_lock(self, *, changes: bool = False) -> None:
        """Confirm the lock before a request to the machine; see ``drivers.base.Task``."""
        self._lock.check()
        if changes:
            self._admit(holds.ORDER)

    def _admit(self, operation: str) -> None:
        """Refuse a change of the machine if a hold in force blocks it."""
        unheld = self.held is not None and not self.held.has_hold
        if not (self._admitted or unheld or self._has_work):
            uuid, project = self.node.uuid, self.context.project
            self.runtime.database.read(
                lambda conn: hold_rows.refuse(conn, uuid, operation, operation, project)
            )
        self._admitted = True

    def choose_deploy(self, *, anew: bool = False) -> None:
        """Use the deploy interface that the node's own one chooses, if that one does not work.

        The node shows the chosen name from the next save on, until `move` gives the own one back;
        a read-only task only uses it.

        :param anew: choose again, for another instance.
        :raises errors.InterfaceNotFound: the chosen one is not enabled, or not of this type.
        """
        with_deploy = self.runtime.registry.with_deploy
        own = self.notes.original_deploy if anew else None
        driver = with_deploy(self._driver, own) if own else self._driver
        name = driver.deploy.chosen(self)
        if name is None:
            return
        self._driver = with_deploy(driver, name)
        if self.held is not None:
            self.notes.original_deploy = own or self.node.deploy_interface
            self.node.deploy_interface = name

    def move(
        self,
        event: str,
        *,
        verb: str | None = None,
        goal: State | None = None,
        error: errors.Error | None = None,
        aborted: bool = False,
        last: bool = False,
    ) -> None:
        """Follow one row of the state table and save all its changes at once.

        :param verb: set when a client's verb starts here: opens a run, replacing a waiting one. If
            there is work to do, last_error is cleared.
        :param goal: a stable state other than the new state's own target.
        :param error: the reason of a failure: last_error and the run's error.
        :param aborted: the run ends by request, not by a failure.
        :param last: this ends the work: the same statement releases the lock.
        :raises errors.InvalidState: the table has no such transition.
        :raises errors.LockLost: another conductor now has the node.
        """
        self._admitted = True
        before = self.state
        after = states.follow(before, event, node=self.node.uuid)
        target = states.target(before, after, self.goal, goal)
        self.journal.remember_state()
        self.node.provision_state = str(after)
        self.node.target_provision_state = str(target) if target else None
        self.node.provision_updated_at = clock.now()
        if verb is not None:
            self.run_record.open(verb, before, after)
        run = self.node.run_uuid
        if error is not None:
            self.node.last_error = error.message
        if states.kind(after) is not Kind.WAIT:
            self.node.wake_at = None
            self.notes.forget_polls()
        if states.kind(after) is Kind.FAIL and error is not None and not aborted:
            self._schedule_retry(error)
        if states.kind(after) in (Kind.STABLE, Kind.FAIL):
            self.notes.clear_attempts()
        if states.kind(after) is Kind.STABLE:
            self.notes.automatic_retries = 0
        if (own := self.notes.original_deploy) and after in states.ENDS_CHOSEN_DEPLOY:
            self.node.deploy_interface, self.notes.original_deploy = own, None
        if aborted:
            self.notes.untidied = True  # the clean-up resets it at its end
        self.run_record.moved(event, before, after, error, aborted=aborted)
        self.transaction.save(release=last)
        self._log_move(f"{event}, {before} -> {after}", run, error)

    def _log_move(self, move: str, run: str | None, error: errors.Error | None) -> None:
        """Log the end of a run at INFO, with its seconds, and other moves of a run at DEBUG."""
        ended, took = self.node.run_uuid is None, self.journal.took
        about = f", run {run}" if ended and run else ""
        about += f" after {took:.1f} s" if about and took is not None else ""
        about += f" ({error.message})" if error else ""
        level = logging.INFO if ended else logging.DEBUG
        LOG.log(level, "Node %s: %s%s", self.node.uuid, move, about, extra=log_lines.OMITTED)

    def _schedule_retry(self, error: errors.Error) -> None:
        most = self.runtime.conf.conductor.automatic_retries
        pause = self.run_record.retry_pause(error, most) if most else None
        if pause is not None:
            self.wake_after(pause)

    def save(self) -> None:
        """Write the node's changes and the collected history; see `Transaction.save`."""
        self.transaction.save()

    def save_unless_stopped(self, known: str | None) -> None:
        """Write as `save`; see `Transaction.save_unless_stopped`."""
        self.transaction.save_unless_stopped(known)

    def add_write(self, write: Write, *, first: bool = False) -> None:
        """Run ``write`` in the transaction of the next save, after or before the node's.

        An error that ``write`` raises leaves the node unchanged.
        """
        self.transaction.add_write(write, first=first)

    def save_and_release(self) -> None:
        """Save the result of polling a waiting node, and release its lock by the same statement.

        A database too busy for that fails no run: as after a crash before the poll, the next poll
        finds the same.
        """
        try:
            self.transaction.save(release=True)
        except errors.Unavailable as why:
            LOG.warning("Node %s: the result of a poll was not saved: %s", self.node.uuid, why)

    def switch_power(self, target: str, timeout: float | None = None) -> None:
        """Switch the machine, after its parent or its children; see ``drivers.base.Task``."""
        self._admit(holds.POWER)
        self.other_nodes.tie_power(self, target, timeout)
        power = self.driver.power
        if target in (REBOOT, SOFT_REBOOT):
            power.reboot(self, timeout, soft=target == SOFT_REBOOT)
        else:
            power.set_power_state(self, target, timeout)

    def renew_lock(self) -> None:
        """Renew the lock before using the machine again after a failure; raises LockLost."""
        self._lock.confirm()

    def hand_over(self, flow: Callable[..., object], *args: object, **kwargs: object) -> None:
        """Have a worker run ``flow(task, ...)`` after the endpoint, with the lock kept.

        ``tasks.TaskRunner`` starts it when the endpoint has left the lock.
        """
        self._admitted = True
        self.work = lambda task: flow(task, *args, **kwargs)


# Ports of a node under work: added by inspection, annotated by drivers.
#
# Requirement S5.8.


class NodePorts:
    """The ports and portgroups of one node under work.

    :param host: the conductor that works on the node.
    :param token: of the node's lock; None for a read-only task.
    """

    def __init__(
        self,
        database: Transactions,
        notifier: Notifier,
        who: Context,
        *,
        host: str,
        node: str,
        token: str | None,
    ) -> None:
        self._database = database
        self._notifier = notifier
        self._who = who
        self._host = host
        self._node = node
        self._token = token
        self._known: Sequence[Port] | None = None
        self._groups: Sequence[Portgroup] | None = None

    def all(self) -> Sequence[Port]:
        """Return the ports, read once."""
        if self._known is None:
            self._known = self._database.read(lambda conn: queries_ports.of_node(conn, self._node))
        return self._known

    def groups(self) -> Sequence[Portgroup]:
        """Return the portgroups, read once."""
        if self._groups is None:
            self._groups = self._database.read(
                lambda c: queries_ports.portgroups_of_node(c, self._node)
            )
        return self._groups

    def note(self, card: Port | Portgroup, key: str, value: object) -> None:
        """Store a value in a port's ``internal_info`` at once; None removes it.

        :raises errors.LockLost: another conductor now has the node.
        """
        token, at = self._held_token(), clock.now()
        info = {name: held for name, held in card.internal_info.items() if name != key}
        if value is not None:
            info[key] = value
        is_port = isinstance(card, Port)
        word, family = (
            ("port", queries_ports.FAMILY) if is_port else ("portgroup", queries_ports.PORTGROUPS)
        )
        about = {word: card.uuid, "address": card.address, "changed": ["internal_info"]}
        event = {**self._port_event(at, about), "kind": f"{word}_updated"}

        def write(conn: Connection) -> None:
            nodes.save(conn, self._node, {}, token=token)
            family.update(conn, card.uuid, {"internal_info": info, "updated_at": at})
            events.add(conn, [event])

        self._database.write(write)
        card.internal_info = info
        card.settle(updated_at=at)
        self._notifier.tell(self._who, [event], card.as_dict())

    def _held_token(self) -> str:
        if self._token is None:
            raise errors.LockLost(node=self._node)
        return self._token

    def add(self, addresses: Iterable[str], client_ids: Mapping[str, str] | None = None) -> None:
        """Add a port at once for each address that no node has yet.

        :param addresses: of network cards; the values of a mapping say whether machines may boot
            from the card (default: they may).
        :param client_ids: address -> DHCP client identifier of an InfiniBand card.
        :raises errors.LockLost: another conductor now has the node.
        """
        token = self._held_token()
        wanted = _usable_addresses(self._node, addresses)

        def write(conn: Connection) -> list[_Changed]:
            nodes.save(conn, self._node, {}, token=token)
            made = [
                self._insert_port(conn, *one, (client_ids or {}).get(one[0]))
                for one in _free_addresses(conn, self._node, wanted).items()
            ]
            if made:
                events.add(conn, [one.event for one in made])
            return made

        for added in self._database.write(write) if wanted else ():
            self._notifier.tell(self._who, [added.event], added.port)
        self._known = None

    def _insert_port(
        self, conn: Connection, address: str, boots: bool, client_id: str | None
    ) -> _Changed:
        """Add a port; return it with its event."""
        port = {**self._blank_port(), "address": address, "pxe_enabled": boots}
        if client_id is not None:
            port["extra"] = {inspection.CLIENT_ID: client_id}
        return self._insert_row(conn, port)

    def _insert_row(self, conn: Connection, port: Row) -> _Changed:
        queries_ports.insert(conn, port)
        about = {"port": port["uuid"], "address": port["address"]}
        event = {**self._port_event(port["created_at"], about), "kind": "port_created"}
        return _Changed(port, event)

    def settle(
        self,
        wanted: Mapping[str, inspection.InspectedPort],
        transaction: Transaction,
        *,
        in_use: bool,
    ) -> None:
        """Add, change and remove ports with the next save, as hooks have left them.

        :param wanted: by address.
        :param in_use: an instance uses the node's portgroups.
        """
        gone = any(port.address not in wanted for port in self.all())
        groups = self.groups() if gone else ()
        busy = [one.uuid for one in groups if in_use or one.internal_info.get(VIF)]
        changes = inspection.port_changes(self.all(), wanted, busy=busy)
        _log_remarks(self._node, changes.remarks)
        if not (changes.added or changes.changed or changes.removed):
            return
        done: list[_Changed] = []

        def write(conn: Connection) -> None:
            done[:] = self._write_changes(conn, changes)
            if done:
                events.add(conn, [one.event for one in done])

        def tell() -> None:
            self._known = None
            for one in done:
                self._notifier.tell(self._who, [one.event], one.port)

        transaction.add_write(write)
        transaction.after_commit(tell)

    def _write_changes(self, conn: Connection, changes: inspection.PortChanges) -> list[_Changed]:
        at, found = clock.now(), list[_Changed]()
        for port in changes.removed:
            queries_ports.delete(conn, port.uuid)
            found.append(self._changed(port, at, "port_deleted", {}))
        for port in self.all():
            values = errors.cleaned(changes.changed.get(port.uuid))
            if values:
                queries_ports.update(conn, port.uuid, {**values, "updated_at": at})
                found.append(self._changed(port, at, "port_updated", values))
        free = _free_addresses(conn, self._node, {one.address: True for one in changes.added})
        for one in changes.added:
            if one.address in free:
                values = errors.cleaned(dataclasses.asdict(one))
                found.append(self._insert_row(conn, {**self._blank_port(), **values}))
        return found

    def _changed(self, port: Port, at: datetime.datetime, kind: str, values: RowView) -> _Changed:
        about: Row = {"port": port.uuid, "address": port.address}
        if values:
            about["changed"] = sorted(values)
        event = {**self._port_event(at, about), "kind": kind}
        return _Changed({**port.as_dict(), **values}, event)

    def _blank_port(self) -> Row:
        made: Row = {"uuid": str(uuid.uuid4()), "created_at": clock.now(), "node_uuid": self._node}
        return {**fields.blank(fields.PORT), **made}

    def _port_event(self, at: datetime.datetime, about: Row) -> Row:
        return {
            "at": at,
            "node_uuid": self._node,
            "conductor": self._host,
            **self._who.recorded(),
            "data": about,
        }


class _Changed(NamedTuple):
    port: Row
    event: Row


def _usable_addresses(node_uuid: str, addresses: Iterable[str]) -> dict[str, bool]:
    """Return the valid MAC addresses among a machine's card addresses, each once."""
    may = addresses if isinstance(addresses, Mapping) else dict.fromkeys(addresses, True)
    found, odd = {}, []
    for told, boots in may.items():
        address = inspection.address(told)
        if address is None:
            odd.append(f"no port is added for a network card with the address {told[:40]!r}")
        else:
            found[address] = bool(boots)
    _log_remarks(node_uuid, odd)
    return found


def _free_addresses(
    conn: Connection, node_uuid: str, wanted: Mapping[str, bool]
) -> dict[str, bool]:
    """Return the requested addresses without a port; log the owners of the others."""
    owners = queries_ports.owners(conn, wanted)
    foreign = [
        f"no port is added for network card {address}: it is a port of node {owner}."
        for address, owner in owners.items()
        if owner != node_uuid
    ]
    _log_remarks(node_uuid, foreign)
    return {address: boots for address, boots in wanted.items() if address not in owners}


def _log_remarks(node_uuid: str, remarks: list[str]) -> None:
    for remark in log_lines.some(remarks):
        LOG.warning("Node %s: %s", node_uuid, remark)


# The writes of a task: the node, its history and all else in one transaction.
#
# Every write has the condition ``WHERE lock_token = :mine`` (invariant 2).

Write = Callable[[Connection], None]
_UNDER_WAY = ("run_uuid", "target_power_state")
"""Columns that become None at the end of a run, and of a power change."""

_TEXTS = ("last_error", "maintenance_reason")
"""Columns of a node with texts of errors."""


class Transaction:
    """The unsaved changes of one task.

    :param token: of the node's lock; None refuses all writes.
    """

    def __init__(
        self,
        runtime: Runtime,
        context: Context,
        node: Node,
        journal: Journal,
        *,
        lock: TaskLock,
        token: str | None,
    ) -> None:
        self.unsaved = False
        """True if a save has failed, so the node here differs from the stored node."""
        self.timer_at: datetime.datetime | None = None
        """The time of this node's timer, set once its lock is released."""
        self._runtime = runtime
        self._context = context
        self._node = node
        self._notes = Notes(node)
        self._journal = journal
        self._lock = lock
        self._token = token
        self._before: list[Write] = []
        self._after: list[Write] = []
        self._committed: list[Callable[[], None]] = []
        self._write_node: Callable[..., None] = nodes.save
        # As last saved: history and notifications contain the state before.
        self._power = node.power_state
        self._target = node.target_provision_state

    def add_write(self, write: Write, *, first: bool = False) -> None:
        """Run ``write`` in the transaction of the next save, after or before the node's."""
        (self._before if first else self._after).append(write)

    def after_commit(self, act: Callable[[], None]) -> None:
        """Call ``act`` once the next save is committed; it must not fail."""
        self._committed.append(act)

    def save_unless_stopped(self, known: str | None) -> None:
        """Write as `save`, also without changes, unless a client has changed the run's stop.

        :param known: the node's column ``run_stop`` as last read.
        :raises runs.StopChanged: nothing was written; the changes are still unsaved.
        """
        self._write_node = functools.partial(runs.save_unless_stopped, known=known)
        try:
            self.save()
        finally:
            self._write_node = nodes.save

    def save(self, *, release: bool = False) -> None:
        """Write the node's changes and the collected history in one transaction.

        :param release: release the lock by the same statement, if there is anything to write.
        :raises errors.LockLost: zero rows: another conductor has the lock; stop at once.
        """
        node, token = self._node, self._held_token()
        if node.changes.get("power_state") == POWER_OFF:
            self._notes.forget_agent(keep_token=True)
        changes = self._masked_changes()
        noted = len(self._journal.events)
        self._note_changes(changes)
        guarded = self._write_node is not nodes.save
        if not (guarded or changes or self._journal.pending or self._after):
            return
        beside = self._columns_beside(changes, release=release)
        if release and not self._journal.pending:
            self._journal.log.drop_minor()
        self._journal.log.prepare(node)
        stamp, tries = clock.now(), itertools.count()

        def write(conn: Connection) -> None:
            if next(tries) and nodes.saved(conn, node.uuid, at=stamp):
                return  # the change was made, only the reply was lost
            for act in self._before:
                act(conn)
            # Also without changes: only the lock's holder may write history.
            self._write_node(conn, node.uuid, {**changes, **beside}, token=token, at=stamp)
            self._journal.write(conn)
            for act in self._after:
                act(conn)
            self._journal.write_events(conn)

        self._commit(write, noted)
        node.settle(**beside)
        self._power = changes.get("power_state", self._power)
        self._send_notifications()
        self._count_committed()
        self._before, self._after, self._committed = [], [], []
        if "wake_at" in changes:
            self.timer_at = node.wake_at
        if any(changes.get(name, "") is None for name in _UNDER_WAY):
            self._runtime.run_ends.signal()

    def _columns_beside(self, changes: Row, *, release: bool) -> Row:
        """Return the columns that a save writes beside the changes: the lock's and the stop."""
        beside: Row = {**nodes.FREE} if release else {}
        if "run_uuid" in changes:  # a stop of the run that has ended
            beside = {**beside, "run_stop": None}
        return beside

    def _commit(self, write: Write, noted: int) -> None:
        """Write, unless the lock is lost; forget events from ``noted`` on if nothing was written.

        The next save adds these events again, because it has the same changes.
        """
        self.unsaved = True
        try:
            self._lock.note_progress()
            db_retry.write_idempotent(self._runtime.database, write)
        except BaseException:
            del self._journal.events[noted:]
            raise
        self.unsaved = False

    def _count_committed(self) -> None:
        self._journal.settle()
        for act in self._committed:
            act()

    def destroy(self) -> None:
        """Delete the node, its ports, traits and runs; its events stay.

        Its lock goes with it, and its children have no parent any more.

        :raises errors.LockLost: another conductor has the lock.
        """
        node, token = self._node, self._held_token()

        def write(conn: Connection) -> None:
            for act in (*self._before, *self._after):
                act(conn)
            nodes.delete(conn, node.uuid, token=token)
            children = nodes.release_children(conn, node.uuid)
            self._journal.write(conn)
            self._journal.write_events(conn, lost_parent=children)

        self._runtime.database.write(write)
        node.settle(**nodes.FREE)
        self._send_notifications()
        self._journal.settle()

    def _held_token(self) -> str:
        if self._token is None:
            raise errors.LockLost(node=self._node.uuid)
        return self._token

    def _send_notifications(self) -> None:
        """Send notifications of committed events; requirement S5.29."""
        notifier = self._runtime.notifier
        if notifier.on:
            about = {**self._node.as_dict(), "updated_at": clock.now()}
            told = [self._journal.masked(one) for one in self._journal.events]
            notifier.tell(self._context, told, about, previous_target=self._target)
        self._target = self._node.target_provision_state

    def _masked_changes(self) -> Row:
        """Return the changes, after hiding secrets in texts: BMCs and agents repeat passwords."""
        for name in _TEXTS:
            text = self._node.changes.get(name)
            if text:
                setattr(self._node, name, self._journal.hide(text))
        return self._node.changes

    def _note_changes(self, changes: Row) -> None:
        if "power_state" in changes:
            self._note_power(changes["power_state"])
        self._note_error(changes.get("last_error"))

    def _note_error(self, text: str | None) -> None:
        """Record a changed last_error in history, unless an event already contains it."""
        told = ((one["data"] or {}).get("error") for one in self._journal.events)
        if text and all(not one or self._journal.hide(one) != text for one in told):
            run = self._node.run_uuid
            self._journal.event("fault", run=run, event="error", data={"error": text})

    def _note_power(self, after: str | None) -> None:
        """Record a changed power state in history, whatever changed it."""
        run = self._node.run_uuid
        self._journal.event("power", run=run, event="changed", before=self._power, after=after)
