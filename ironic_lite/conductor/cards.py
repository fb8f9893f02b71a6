"""Network cards that an inspection finds become ports of their node (S5.8)."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from ironic_lite import clock, fields
from ironic_lite.context import Context
from ironic_lite.db import events, ports
from ironic_lite.db.session import Connection

LOG = logging.getLogger(__name__)

Row = dict[str, Any]
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_BLANK = {field.stored: field.default for field in fields.PORT if field.stored is not None}


class Added(NamedTuple):
    """A port that was added, and the event that tells of it."""

    port: Row
    event: Row


def usable(node_uuid: str, addresses: Iterable[str]) -> list[str]:
    """Return the MAC addresses among what a machine calls its cards' addresses, each once."""
    found = dict.fromkeys(address.lower() for address in addresses)
    for address in found:
        if not _MAC.fullmatch(address):
            LOG.warning("Node %s: a network card without a port: %r", node_uuid, address[:40])
    return [address for address in found if _MAC.fullmatch(address)]


def add(
    conn: Connection, who: Context, host: str, node_uuid: str, addresses: list[str]
) -> list[Added]:
    """Add a port for each address that no node has; write the event of each.

    :param host: the conductor that does so.
    """
    added = []
    for address in ports.unknown(conn, addresses):
        made = {"uuid": str(uuid.uuid4()), "created_at": clock.now()}
        port: Row = {**_BLANK, **made, "address": address, "node_uuid": node_uuid}
        ports.insert(conn, port)
        event = {
            "at": port["created_at"],
            "node_uuid": node_uuid,
            "kind": "port_created",
            "conductor": host,
            "requester": who.user,
            "request_id": who.request_id,
            "data": {"port": port["uuid"], "address": address},
        }
        added.append(Added(port, event))
    if added:
        events.add(conn, [one.event for one in added])
    return added
