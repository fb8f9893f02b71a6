"""The task: one operation on one node, as passed to every driver method."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import inspection
from ironic_lite.records import Node, Port, Portgroup

if TYPE_CHECKING:
    from ironic_lite.drivers.contract.driver import Driver


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    """The agent of a machine's ramdisk, as of its last heartbeat.

    ``url`` is its address. ``verify_ca`` are its trusted certificates (PEM), None if it gave none.
    ``heard_at`` is naive UTC. It holds the token, which must not be passed on. ``moved``: the
    node's driver or driver_info has changed since the token was made, so the agent may be on
    another machine than the BMC.
    """

    url: str
    token: str = dataclasses.field(repr=False)
    verify_ca: str | None
    version: str | None
    heard_at: datetime.datetime
    moved: bool = False


class Cards(Protocol):
    """The ports and portgroups of a node, and the drivers' notes on them."""

    def all(self) -> Sequence[Port]:
        """Return the ports in the order they were added; read once."""

    def groups(self) -> Sequence[Portgroup]:
        """Return the portgroups in the order they were added; read once."""

    def note(self, card: Port | Portgroup, key: str, value: object) -> None:
        """Store a JSON value in the ``internal_info`` of a port or portgroup; None removes it.

        Written at once.
        """


class Task(Protocol):
    """One operation on one node, as a driver sees it."""

    node: Node
    failing: bool
    """True if the operation has failed; the machine is then left as it is for inspection."""
    documents: Json
    """Documents of the BMC that this task has read, by path. `pause` empties it, and so does a
    driver that sends the BMC a change."""

    @property
    def driver(self) -> Driver:
        """The interfaces of this node, to call another one (a deploy step that powers on)."""

    @property
    def ports(self) -> Sequence[Port]:
        """The node's ports, loaded at first use."""

    @property
    def node_ports(self) -> Cards:
        """The node's ports and portgroups."""

    def add_ports(
        self, addresses: Iterable[str], client_ids: Mapping[str, str] | None = None
    ) -> None:
        """Add a port for each MAC address of an inspected machine that no node has yet.

        Written at once. Invalid addresses and other nodes' addresses are skipped and logged.

        :param addresses: a mapping states for each whether the machine may boot from that card.
        :param client_ids: address -> DHCP client identifier of an InfiniBand card, for ``extra``.

        Source: S5.8.
        """

    def keep_inventory(self, inventory: JsonView, plugin_data: JsonView) -> None:
        """Store the result of an inspection, replacing the previous one.

        The engine writes it with its next save; ``GET /v1/nodes/{node}/inventory`` shows it.

        :param inventory: in the format of ironic-python-agent: ``interfaces``, ``cpu``, ``memory``,
            ...
        :param plugin_data: all other data by name.
        """

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
        """Run inspection hooks over an inventory; nothing is stored yet.

        :param names: of hooks; those that they require are added.
        :param properties: instead of the node's.
        :param remarks: sentences for the log, about the inventory.
        :param incomplete: the inventory may lack network cards, so no port is removed.
        :raises errors.HardwareError: a hook has failed, with its name.
        """

    def keep_result(self, case: inspection.Case) -> None:
        """Store the result of hooks: node, traits, ports and inventory.

        The engine writes all of it with its next save, in one transaction.

        :raises errors.HardwareError: a part is too large.
        """

    def recall(self, key: str, default: object = None) -> Any:
        """Return the value that a driver stored on this node under ``key``."""

    def keep(self, key: str, value: object) -> None:
        """Store a JSON value on this node across steps, restarts and conductors; None removes it.

        The engine writes it with its next save; driver_internal_info shows it.
        """

    def save(self) -> None:
        """Write what was kept at once, before an order that must not be given twice.

        A waiting step calls ``wake_after`` before, because the timer of its poll is used up.

        :raises errors.LockLost: as `confirm_lock`: give no order.
        """

    def report_erasure(self, report: object) -> None:
        """Report the result of the running erasing step.

        The engine makes the erasure record when the step ends.

        :param report: as ``domain.erasure_results`` describes it; any other value proves nothing.
        """

    def wake_after(self, seconds: float) -> None:
        """Request a poll (``poll_step``) after ``seconds`` for a step that returns WAIT.

        The timer is durable, so it survives this conductor.
        """

    @property
    def agent(self) -> Agent | None:
        """The agent that runs in the machine's ramdisk; None before its first heartbeat."""

    def new_agent_token(self) -> str:
        """Create and return the secret shared with the next ramdisk, before it boots.

        Use it only on a medium of this node alone, never where other machines of a network can read
        it. A ramdisk without a secret gets one at its first lookup.
        """

    def forget_agent(self, *, keep_token: bool = False) -> None:
        """Forget the agent: its address, its certificate, its steps and its token.

        :param keep_token: keep a token made by `new_agent_token`, because the same ramdisk boots
            again with the same medium.
        """

    @property
    def manager_version(self) -> Mapping[str, str] | None:
        """The versions of the agent's hardware managers at its step list, None before."""

    @property
    def step_id(self) -> str:
        """The id of the running step, for the argument of ``continue_node_*``.

        A late or repeated end of this step then cannot end another step.
        """

    def switch_power(self, target: str, timeout: float | None = None) -> None:
        """Switch the machine by its power interface, and the nodes that share its power supply.

        A parent node is switched on before the machine, and its child nodes off before it. A child
        whose ``driver_info/has_dedicated_power_supply`` is true is independent. Set
        ``node.power_state`` afterwards.

        :param target: on, off, soft power off, or one of the two reboots.
        :param timeout: seconds for each node; None takes the configured one.
        :raises errors.HardwareError: the power of a machine could not be read or changed.
        """

    def confirm_lock(self, *, changes: bool = False) -> None:
        """Check the node's lock; call it right before each request to machine, BMC or agent.

        A conductor that was paused or cut off from the database may have lost the node to another
        conductor while a driver method ran. Usually the check only reads the clock. Let its
        exceptions pass.

        :param changes: the request changes the machine, its BMC or its files. Outside of a run, a
            power change or an order, a hold with the block ``machine`` refuses it.
        :raises errors.NodeHeld: a hold refuses the change: do not send it.
        :raises errors.LockLost: another conductor has the node: send nothing more.
        :raises errors.Unavailable: the service is stopping, or cannot determine the owner.
        """

    @property
    def lock_is_sure(self) -> bool:
        """Return whether this conductor certainly holds the node's lock, without any request.

        If False, a running program that sends requests by itself is killed.
        """

    def pause(self, seconds: float) -> None:
        """Sleep in a worker, at most until the service stops; then check the lock.

        :raises errors.Unavailable: the service is stopping; the step runs again after its restart.
        :raises errors.LockLost: as `confirm_lock`.
        """
