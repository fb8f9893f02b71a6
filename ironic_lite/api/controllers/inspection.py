"""Where a ramdisk tells what its machine is made of: POST /v1/continue_inspection.

It has no token yet, and sends no version header: that means an answer which it understands,
whatever version others get who send none. It is believed only for a node that waits for it.
"""

from __future__ import annotations

import ipaddress
import threading
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import errors, inspection, masking
from ironic_lite.api.controllers import lookup
from ironic_lite.api.login import strangers
from ironic_lite.api.resources import queries
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules
from ironic_lite.api.wire import expose, faults
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import nodes, ports
from ironic_lite.db.session import Connection
from ironic_lite.states import State

Json = dict[str, Any]

SINCE = 84
LIMIT = 16 * 1024
"""KiB of a report: the logs of the ramdisk may be in it."""
AT_ONCE = 4
"""Reports that a process takes at once: one may need 350 MB, and nobody need log in to send it."""
_FIRST = 1
_WAITING = (str(State.INSPECTING), str(State.INSPECTWAIT))
"""A machine may be faster than the answer of its BMC; then the conductor lets it wait."""
_MOST_SEARCHED = 1000  # nodes
_BMCS = ("ipmi_address", "redfish_address")


class ContinueInspection(strangers.Open):
    """Takes what a ramdisk has found to the conductor of its node."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._lookup = lookup.Lookup(service)

    @strangers.counted
    @expose.expose("POST", "/continue_inspection", body=expose.WHOLE, limit=LIMIT, raw_query=True)
    def take(self, request: Request) -> Json:
        """Find the node that this is about and hand the report to its conductor.

        From version 1.84 on the answer is that of a lookup, with a token; a ramdisk that names no
        version asks for that afterwards.
        """
        whole = _whole(request)
        uuid = _named(request, whole=whole)
        if not self._room.acquire(blocking=False):
            raise errors.Unavailable("Too many inspections report at once; retry later.")
        try:
            inventory, rest = inspection.check(request.json)
            return self._taken(request, uuid, inventory, rest, whole=whole)
        finally:
            self._room.release()

    def _taken(
        self, request: Request, uuid: str | None, inventory: Json, rest: Json, *, whole: bool
    ) -> Json:
        row = self.service.database.read(lambda conn: _find(conn, uuid, inventory))
        if row is None:
            raise _unknown()
        conductor = self.service.conductor_of(row)
        try:
            token = conductor.continue_inspection(
                request.who,
                node_uuid=row["uuid"],
                inventory=inventory,
                plugin_data=rest,
                with_token=whole,
            )
        except errors.NodeNotFound:
            raise _unknown() from None
        if token is None:
            return {"uuid": row["uuid"]}
        shown = str(token["agent_token"]) if token["fresh"] else masking.MASK
        return {"uuid": row["uuid"], **self._lookup.document(request, row, shown)}


def _whole(request: Request) -> bool:
    """Tell whether the whole document is asked for; refuse versions that do not know this."""
    if not request.asked or request.version == _FIRST:
        return False
    if request.version < SINCE:
        raise faults.routed(HTTPStatus.NOT_FOUND)
    return True


def _named(request: Request, *, whole: bool) -> str | None:
    """Return the UUID in the query, which our own ramdisks are given with the address of this."""
    queries.refuse_unknown(request.query, ("node_uuid",))
    given = request.query.get("node_uuid")
    if not given:
        return None
    if request.asked and not whole:
        reason = f"needs API version 1.{SINCE} or newer"
        raise errors.InvalidParameter(path="node_uuid", reason=reason)
    return rules.uuid(given, "node_uuid")


def _unknown() -> errors.NodeNotFound:
    """Return the one answer to all that nobody waits for: it tells of no machine."""
    return errors.NodeNotFound(
        "No node that is being inspected matches this inventory.", node="of this inventory"
    )


# -- whose it is ------------------------------------------------------------------------------


def _find(conn: Connection, uuid: str | None, inventory: Json) -> Json | None:
    """Return the one node that waits for this: by its UUID, its cards, or else its BMC."""
    owners = set(ports.by_addresses(conn, inspection.addresses(inventory)))
    if uuid is not None:
        owners.add(uuid)  # with cards of another node beside it, it is nobody's
    if not owners:
        return _by_bmc(conn, inspection.bmc_addresses(inventory))
    if len(owners) > 1:
        return None
    try:
        row = nodes.get(conn, owners.pop(), lookup.COLUMNS)
    except errors.NodeNotFound:
        return None
    return row if row["provision_state"] in _WAITING else None


def _by_bmc(conn: Connection, wanted: frozenset[str]) -> Json | None:
    if not wanted:
        return None
    where = {"provision_state": list(_WAITING), "include_children": True}
    rows = nodes.page(conn, columns=lookup.COLUMNS, where=where, limit=_MOST_SEARCHED)
    found = [row for row in rows if wanted & _hosts(row["driver_info"] or {})]
    return found[0] if len(found) == 1 else None


def _hosts(driver_info: Mapping[str, Any]) -> set[str]:
    """Return the addresses of a node's BMC; names are not looked up for a stranger."""
    found = set()
    for name in _BMCS:
        given = driver_info.get(name)
        if isinstance(given, str):
            found.add(_host(given))
    return found - {""}


def _host(given: str) -> str:
    """Return an address out of an address or a URL, "" for anything else."""
    text = given.strip().strip("[]")
    try:
        host = urllib.parse.urlsplit(given).hostname if "//" in given else text
        return str(ipaddress.ip_address(host or ""))
    except ValueError:
        return ""
