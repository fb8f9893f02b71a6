"""Inspection reports of ramdisks, inspection rules, and the inventory of a node.

POST /v1/continue_inspection needs no authentication: a ramdisk has no token yet. It sends no
version header either, so it gets a response that ramdisks understand, independent of the default
version. A report is accepted only for a node that waits for one.

"""

from __future__ import annotations

import ipaddress
import threading
import urllib.parse
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.auth import failed_attempts
from ironic_lite.api.controllers import agent
from ironic_lite.api.http import expose, refusals
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import crud, idempotency, node_lookup, queries, views
from ironic_lite.api.resources.patches import Operations
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, types
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, ports, reports, resources
from ironic_lite.domain import inspection
from ironic_lite.domain.states import State

SINCE = 84
LIMIT = 8 * 1024
"""Largest report in KiB including logs; the limit is small because senders need no login."""
LIMIT_WITHOUT_LOGS = 2 * 1024
"""Largest report in KiB without logs; the collectors of a large machine send some hundred KiB."""
AT_ONCE = 2
"""Reports that a process takes at once; one may need 70 MiB, see `intake.MAX_MARKS`."""
PATIENCE = 2.0
"""Seconds that a report waits for a free slot before the response is 503."""
_LOGS = "logs"
_FIRST = 1
WAITING = (str(State.INSPECTING), str(State.INSPECTWAIT))
"""A machine may report before its BMC has responded; then the conductor delays the report."""
_MOST_SEARCHED = 1000  # nodes
_MOST_LISTED = 5  # nodes
_BMCS = ("ipmi_address", "redfish_address")


class ContinueInspection(failed_attempts.Unauthenticated):
    """Pass the report of a ramdisk to the conductor of its node."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._lookup = agent.Lookup(service)

    @failed_attempts.counted
    @expose.expose("POST", "/continue_inspection", body=expose.WHOLE, limit=LIMIT, raw_query=True)
    def take(self, request: Request) -> Json:
        """Find the node of a report and pass the report to its conductor.

        Since 1.84 the response contains that of a lookup, with a token. A ramdisk that sends no
        version calls the lookup afterwards.
        """
        whole = request.asked and request.version != _FIRST
        uuid = _queried_uuid(request, whole=whole)
        if not self._room.acquire(timeout=PATIENCE):
            raise errors.Unavailable("Too many inspection reports at once; retry later.")
        try:
            inventory, rest = inspection.check(request.json)
            _check_size(request, rest)
            if whole and request.version < SINCE:
                raise refusals.routed(HTTPStatus.NOT_FOUND)
            return self._taken(request, uuid, inventory, rest, whole=whole)
        finally:
            self._room.release()

    def _taken(
        self, request: Request, uuid: str | None, inventory: Json, rest: Json, *, whole: bool
    ) -> Json:
        known = inspection.addresses(inventory) or inspection.bmc_addresses(inventory)
        if uuid is None and not known:
            reason = "has no valid address of a card or a BMC, and the query has no node_uuid"
            raise errors.InvalidParameter(path="inventory", reason=reason)
        try:
            row = self.service.database.read(lambda conn: _find_node(conn, uuid, inventory))
        except failed_attempts.RefusalReason as why:
            raise _no_such_node() from why
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
            reason = "its report: the node does not wait for the report of a ramdisk any more"
            raise _no_such_node() from failed_attempts.RefusalReason(reason, [row["uuid"]])
        if token is None:
            return {"uuid": row["uuid"]}
        shown = str(token["agent_token"]) if token["fresh"] else masking.MASK
        return {"uuid": row["uuid"], **self._lookup.document(request, row, shown)}


def _check_size(request: Request, rest: Json) -> None:
    """Refuse a report that is too large without its logs, because the rest is stored.

    :param rest: the report without the inventory.
    """
    logs = rest.get(_LOGS)
    size = request.size - (len(logs) if isinstance(logs, str) else 0)
    if size > LIMIT_WITHOUT_LOGS * 1024:
        text = f"A report without its logs is limited to {LIMIT_WITHOUT_LOGS} KiB; collect less."
        raise refusals.guarded(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


def _queried_uuid(request: Request, *, whole: bool) -> str | None:
    """Return the UUID in the query; the URL that ramdisks of this service get contains it."""
    queries.refuse_unknown(request.query, ("node_uuid",))
    given = request.query.get("node_uuid")
    if not given:
        return None
    if request.asked and not whole:
        reason = f"needs API version 1.{SINCE} or newer"
        raise errors.InvalidParameter(path="node_uuid", reason=reason)
    return rules.uuid(given, "node_uuid")


def _no_such_node() -> errors.NodeNotFound:
    """Return the error for reports that no node waits for; it reveals no machine."""
    return errors.NodeNotFound(
        "No node that is being inspected matches this inventory.", node="of this inventory"
    )


# -- node of a report -------------------------------------------------------------------------


def _find_node(conn: Connection, uuid: str | None, inventory: Json) -> Json:
    """Return the waiting node of a report, found by UUID, MAC addresses, or else BMC address.

    :raises failed_attempts.RefusalReason: no node, or several nodes, match.
    """
    owners = set(ports.by_addresses(conn, inspection.addresses(inventory)))
    if uuid is not None:
        owners.add(uuid)  # a MAC address of another node makes the report ambiguous
    if not owners:
        return _by_bmc(conn, inspection.bmc_addresses(inventory))
    if len(owners) > 1:
        known = sorted(owners, key=lambda one: (one != uuid, one))
        first, others = known[0], ", ".join(known[1 : _MOST_LISTED + 1])
        named = f"is for node {first}" if uuid else f"has an address of a port of node {first}"
        reason = f"its report {named}, but has an address of a port of node {others}. Correct the "
        raise failed_attempts.RefusalReason(
            f"{reason}ports, or the machine that was booted.", known
        )
    found = owners.pop()
    try:
        row = nodes.get(conn, found, agent.LOOKUP_COLUMNS)
    except errors.NodeNotFound:
        raise failed_attempts.RefusalReason("its report: there is no such node") from None
    state = row["provision_state"]
    if state not in WAITING:
        raise failed_attempts.RefusalReason(
            f'its report: none is expected in state "{state}"', [found]
        )
    return row


def _by_bmc(conn: Connection, wanted: frozenset[str]) -> Json:
    rows = []
    if wanted:
        where = {"provision_state": list(WAITING), "include_children": True}
        rows = nodes.page(conn, columns=agent.LOOKUP_COLUMNS, where=where, limit=_MOST_SEARCHED)
    found = [row for row in rows if wanted & _bmc_addresses(row["driver_info"] or {})]
    if len(found) != 1:
        many = "several nodes that wait have" if found else "no node that waits has"
        reason = f"its report: no node has its addresses, and {many} its BMC's address"
        raise failed_attempts.RefusalReason(reason, [row["uuid"] for row in found])
    return found[0]


def _bmc_addresses(driver_info: JsonView) -> set[str]:
    """Return the IP addresses of a node's BMC; unauthenticated callers trigger no DNS lookups."""
    found = set()
    for name in _BMCS:
        given = driver_info.get(name)
        if isinstance(given, str):
            found.add(_ip_of(given))
    return found - {""}


def _ip_of(given: str) -> str:
    """Return the IP address in an address or URL, "" for anything else."""
    text = given.strip().strip("[]")
    try:
        host = urllib.parse.urlsplit(given).hostname if "//" in given else text
        return str(ipaddress.ip_address(host or ""))
    except ValueError:
        return ""


# Inspection rules: conditions and actions on the data of an inspection, besides its hooks.
#
# A change applies to all inspections that end after it.

_RULES_SINCE = 96


class InspectionRules(
    crud.ResourceController, since=_RULES_SINCE, below=HTTPStatus.METHOD_NOT_ALLOWED
):
    """The inspection rules.

    Inherited: GET, POST /v1/inspection_rules;
    GET, PATCH, DELETE /v1/inspection_rules/{ident}.
    """

    family = resources.INSPECTION_RULES
    word = "inspection_rule"
    shown = views.INSPECTION_RULES
    asked = queries.INSPECTION_RULES

    @expose.expose(
        "DELETE",
        "/inspection_rules",
        since=_RULES_SINCE,
        below=HTTPStatus.METHOD_NOT_ALLOWED,
        status=HTTPStatus.NO_CONTENT,
    )
    def clear(self, request: Request) -> None:
        """Remove all inspection rules; each has an event of its own."""

        def work(conn: Connection) -> list[crud.Written]:
            gone = resources.clear_rules(conn)
            return [(row, self.record(conn, request, "deleted", row)) for row in gone]

        for row, told in idempotency.write_change(self.service, request, work):
            self.tell(request, told, row)

    def ident(self, _request: Request, ident: str) -> str:
        """Return the UUID of a rule."""
        return rules.uuid(ident, self.what)

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Return the document of a row; hide conditions and actions of a sensitive rule."""
        return super().document(request, _hide_sensitive(row), chosen)

    def judge(self, conn: Connection, request: Request, before: Json, patch: Operations) -> Json:
        """Return the changes of a rule, or refuse them; a sensitive rule stays sensitive."""
        changes = super().judge(conn, request, before, patch)
        if before["sensitive"] and changes.get("sensitive") is False:
            reason = "a sensitive rule stays sensitive; delete it and create a new rule"
            raise errors.InvalidParameter(path="sensitive", reason=reason)
        return changes

    def tell(self, request: Request, told: list[Json], row: Json) -> None:
        """Send events to listeners, without conditions and actions of a sensitive rule."""
        super().tell(request, told, _hide_sensitive(row))


def _hide_sensitive(row: Json) -> Json:
    return {**row, "actions": None, "conditions": None} if row["sensitive"] else row


# Inventory of a node: the data of its last inspection.

_INVENTORY_SINCE = 81


class Inventory(expose.Controller):
    """The object /v1/nodes/{node}/inventory."""

    @expose.expose("GET", "/nodes/{ident}/inventory", types.word, since=_INVENTORY_SINCE)
    def show(self, request: Request, ident: str) -> Json:
        """Return ``inventory`` and ``plugin_data``: two statements."""
        node = str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])
        found = self.service.database.read(lambda conn: reports.get_inventory(conn, node))
        # Agents and third-party drivers may store secrets here.
        return {name: masking.mask(value) for name, value in found.items()}
