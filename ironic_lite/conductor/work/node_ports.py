"""Ports of a node under work: added by inspection, annotated by drivers.

Requirement S5.8.
"""

from __future__ import annotations

import datetime
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core import clock, log_lines
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.queries import events, nodes, portgroups, ports
from ironic_lite.domain import fields, inspection
from ironic_lite.records import Port, Portgroup
from ironic_lite.rpc.notifier import Notifier

LOG = logging.getLogger(__name__)

CLIENT_ID = "client-id"
"""Key in a port's ``extra`` with the DHCP client identifier of its InfiniBand card."""


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
            self._known = self._database.read(lambda conn: ports.of_node(conn, self._node))
        return self._known

    def groups(self) -> Sequence[Portgroup]:
        """Return the portgroups, read once."""
        if self._groups is None:
            self._groups = self._database.read(lambda c: portgroups.of_node(c, self._node))
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
        word, family = ("port", ports.FAMILY) if is_port else ("portgroup", portgroups.FAMILY)
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

        def write(conn: Connection) -> list[_Added]:
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
    ) -> _Added:
        """Add a port; return it with its event."""
        made = {"uuid": str(uuid.uuid4()), "created_at": clock.now(), "pxe_enabled": boots}
        port: Row = {
            **fields.blank(fields.PORT),
            **made,
            "address": address,
            "node_uuid": self._node,
        }
        if client_id is not None:
            port["extra"] = {CLIENT_ID: client_id}
        ports.insert(conn, port)
        about = {"port": port["uuid"], "address": address}
        event = {**self._port_event(port["created_at"], about), "kind": "port_created"}
        return _Added(port, event)

    def _port_event(self, at: datetime.datetime, about: Row) -> Row:
        return {
            "at": at,
            "node_uuid": self._node,
            "conductor": self._host,
            **self._who.recorded(),
            "data": about,
        }


class _Added(NamedTuple):
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
    owners = ports.owners(conn, wanted)
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
