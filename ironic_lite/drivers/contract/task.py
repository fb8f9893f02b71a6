"""What every method of a driver is handed: one piece of work on one node."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ironic_lite.records import Node, Port, Portgroup

if TYPE_CHECKING:
    from ironic_lite.drivers.contract.driver import Driver


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    """The agent of a machine's ramdisk, as its last heartbeat told of it.

    ``url`` is where it listens, ``verify_ca`` the certificates (PEM) that are believed there, None
    if it gave none; ``heard_at`` is naive UTC. It names the token, which goes nowhere else.
    ``moved``: driver or driver_info of the node have been changed since its token was made: it may
    be on another machine than the one whose BMC the node has now.
    """

    url: str
    token: str = dataclasses.field(repr=False)
    verify_ca: str | None
    version: str | None
    heard_at: datetime.datetime
    moved: bool = False


class Cards(Protocol):
    """The ports and portgroups of a node, and what drivers note on them."""

    def all(self) -> Sequence[Port]:
        """Return the ports, in the order they were added; read once."""

    def groups(self) -> Sequence[Portgroup]:
        """Return the portgroups, in the order they were added; read once."""

    def note(self, card: Port | Portgroup, key: str, value: Any) -> None:
        """Keep a JSON value in the ``internal_info`` of a port or portgroup; None takes it away.

        Written at once.
        """


class Task(Protocol):
    """One piece of work on one node, as a driver sees it."""

    node: Node
    failing: bool
    """Whether what goes on has failed: a machine is then left as it is, to be looked at."""

    @property
    def driver(self) -> Driver:
        """The interfaces of this node, to call a neighbour (a deploy step turning the power on)."""

    @property
    def ports(self) -> Sequence[Port]:
        """The node's ports, loaded at first use."""

    @property
    def cards(self) -> Cards:
        """The node's ports and portgroups."""

    def add_ports(self, addresses: Iterable[str]) -> None:
        """Add a port for each MAC address of an inspected machine that no node has yet (S5.8).

        Written at once. What is no MAC address, or another node's, is left out, with a line in the
        log.

        :param addresses: a mapping says of each whether the machine may boot from that card.
        """

    def keep_inventory(self, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]) -> None:
        """Keep what an inspection has found, in place of what the last one did.

        It is written with the engine's next save, and shown by ``GET /v1/nodes/{node}/inventory``.

        :param inventory: as ironic-python-agent has it: ``interfaces``, ``cpu``, ``memory``, ...
        :param plugin_data: what belongs to no part of it, by name.
        """

    def recall(self, key: str, default: Any = None) -> Any:
        """Return what a driver kept on this node under ``key``."""

    def keep(self, key: str, value: Any) -> None:
        """Keep a JSON value on this node, across steps, restarts and conductors; None forgets it.

        It is written with the engine's next save, and shown in driver_internal_info.
        """

    def wake_after(self, seconds: float) -> None:
        """Ask that a step about to return WAIT is polled (``poll_step``) after ``seconds``.

        The timer is durable: it survives this conductor.
        """

    @property
    def agent(self) -> Agent | None:
        """The agent that runs in the machine's ramdisk; None before its first heartbeat."""

    def new_agent_token(self) -> str:
        """Make the secret that is shared with the next ramdisk, before it boots, and return it.

        Only for a medium of this node alone: what all machines of a network can read is no place
        for it. Ramdisks without one are given theirs when they first ask.
        """

    def forget_agent(self, *, keep_token: bool = False) -> None:
        """The agent that ran is gone: its address, its certificate, its steps and its token.

        :param keep_token: keep the token if `new_agent_token` made it: the same ramdisk boots
            once more, with the same medium.
        """

    @property
    def manager_version(self) -> Mapping[str, str] | None:
        """The versions of the agent's hardware managers when it listed its steps, None before."""

    @property
    def step_id(self) -> str:
        """The name of the step under way, for whoever will tell the conductor that it has ended:
        the argument of ``continue_node_*``. What ends late or twice then ends no other step.
        """

    def pause(self, seconds: float) -> None:
        """Sleep inside a worker, at most to the service's stop.

        :raises errors.Unavailable: the service is stopping; the step is redone after its restart.
        """
