"""The part of a task that drivers see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ironic_lite.conductor.work import bounds
from ironic_lite.conductor.work.fence import HeldLock
from ironic_lite.conductor.work.node_ports import NodePorts
from ironic_lite.conductor.work.notes import Notes
from ironic_lite.conductor.work.runtime import Runtime
from ironic_lite.conductor.work.transaction import Transaction
from ironic_lite.core import clock
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.queries import inventories
from ironic_lite.domain import activities
from ironic_lite.drivers.base import Agent, Driver
from ironic_lite.records import Node, Port

_LONGEST = 366 * 24 * 3600.0  # seconds: a timer must stay a date


class DriverView:
    """Services of a task for drivers; satisfies ``drivers.base.Task``, which documents them."""

    def __init__(
        self,
        runtime: Runtime,
        node: Node,
        driver: Driver,
        *,
        ports: NodePorts,
        lock: HeldLock,
        transaction: Transaction,
    ) -> None:
        self.runtime = runtime
        self.node = node
        self.notes = Notes(node)
        self.node_ports = ports
        self.failing = False
        self.erasure: tuple[str, object] | None = None
        """The ``step_id`` of an erasing step, and the driver's report about this step."""
        self.recorded_step: str | None = None
        """The ``step_id`` of the erasing step whose end has been recorded by this task."""
        self.inventory: JsonView | None = None
        """The inventory of an inspection that this task stores."""
        self.transaction = transaction
        self._driver = driver
        self._lock = lock

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
        """Add a port for each network card without one; see `node_ports.NodePorts.add`."""
        self.node_ports.add(addresses, client_ids)

    def keep_inventory(self, inventory: JsonView, plugin_data: JsonView) -> None:
        """Store the result of an inspection with the next save."""
        bounds.check(inventory=inventory, plugin_data=plugin_data)
        self.inventory = inventory
        at, node = clock.now(), self.node.uuid
        self.transaction.add_write(
            lambda conn: inventories.put(conn, node, inventory, plugin_data, at=at)
        )

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
        """Have the waiting step polled after ``seconds``; durable from the next save on."""
        self.node.wake_at = clock.after(min(max(0.0, seconds), _LONGEST))

    # -- the lock ----------------------------------------------------------------------------

    def pause(self, seconds: float) -> None:
        """Sleep unless the service stops, then confirm the lock."""
        self._lock.pause(seconds, self.runtime.stopping)

    def confirm_lock(self) -> None:
        """Confirm the lock before a request to the machine."""
        self._lock.require()

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
