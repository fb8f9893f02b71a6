"""Inspection reports of ramdisks, inspection rules, and the inventory of a node.

POST /v1/continue_inspection needs no authentication: a ramdisk has no token yet. It sends no
version header either, so it gets a response that ramdisks understand, independent of the default
version. A report is accepted only for a node that waits for one, or makes a node of a machine that
no node has, if [auto_discovery] is enabled.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import logging
import threading
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from typing import TypedDict

from ironic_lite import errors
from ironic_lite.api.auth import failed_attempts
from ironic_lite.api.controllers import agent
from ironic_lite.api.controllers import nodes as node_controllers
from ironic_lite.api.http import expose, refusals
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import crud, idempotency, node_lookup, queries, views
from ironic_lite.api.resources.patches import Operations
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json, JsonView, Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, limits, nodes, ports, reports, resources, runs
from ironic_lite.domain import fields, history, inspection, verbs
from ironic_lite.domain.states import State

LOG = logging.getLogger(__name__)

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


class ContinueInspection(failed_attempts.Unauthenticated):
    """Pass the report of a ramdisk to the conductor of its node."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._lookup = agent.Lookup(service)
        self._discovery = Discovery(service)

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
            row = self._discovery.find(request, uuid, inventory, rest)
        except failed_attempts.RefusalReason as why:
            raise _no_such_node() from why
        if row["provision_state"] == State.ENROLL:
            return self._discovery.process(request, row, inventory, rest)
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


class _UnknownMachine(failed_attempts.RefusalReason):
    """No node has an address of the machine."""


def _find_node(conn: Connection, uuid: str | None, inventory: Json, *, discovers: bool) -> Json:
    """Return the waiting node of a report, found by UUID, MAC addresses, or else BMC address.

    :param discovers: it may be the node that was made of this machine, in enroll.
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
        row = nodes.get(conn, found, (*agent.LOOKUP_COLUMNS, "created_at"))
    except errors.NodeNotFound:
        raise failed_attempts.RefusalReason("its report: there is no such node") from None
    state = row["provision_state"]
    if discovers and uuid is None and state == State.ENROLL and _is_repeated(conn, row, inventory):
        return row
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
        kind = failed_attempts.RefusalReason if found else _UnknownMachine
        raise kind(reason, [row["uuid"] for row in found])
    return found[0]


def _bmc_addresses(driver_info: JsonView) -> set[str]:
    """Return the IP addresses of a node's BMC; unauthenticated callers trigger no DNS lookups."""
    found = set()
    for name in inspection.BMC_ADDRESSES:
        given = driver_info.get(name)
        if isinstance(given, str):
            found.add(_ip_of(given))
    return found - {""}


def _ip_of(given: str) -> str:
    """Return the IP address in an address or URL, "" for anything else."""
    try:
        return str(ipaddress.ip_address(inspection.bmc_host(given) or ""))
    except ValueError:
        return ""


# -- unknown machines -------------------------------------------------------------------------

_MOST_CARDS = 128  # each may become a port
_REPEATED_WITHIN = datetime.timedelta(hours=1)
AUTO_DISCOVERED = "auto_discovered"
"""Key of ``plugin_data`` in the inventory of a machine that was enrolled by its report."""


class Discovery:
    """Enrolls machines that no node has, as [auto_discovery] allows.

    One transaction makes the node with its ports, its inventory and a run. A conductor then runs
    hooks and rules in this run, and ends it. A report that nobody has answered is sent again, and
    continues what is left.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._settings = service.conf.auto_discovery

    def find(self, request: Request, uuid: str | None, inventory: Json, rest: Json) -> Json:
        """Return the node of a report; make one of an unknown machine.

        :raises failed_attempts.RefusalReason: no node, or several nodes, match.
        :raises errors.Unavailable: no conductor has the driver.
        """
        on, database = self._settings.enabled, self.service.database
        try:
            return database.read(lambda conn: _find_node(conn, uuid, inventory, discovers=on))
        except _UnknownMachine:
            if not on:
                raise
        if not inspection.addresses(inventory):
            reason = "its report: it is unknown, and no card of it has a valid address"
            raise failed_attempts.RefusalReason(reason)
        if len(inventory["interfaces"]) > _MOST_CARDS:
            reason = f"its report: it is unknown, and has more than {_MOST_CARDS} network cards"
            raise failed_attempts.RefusalReason(reason)
        database.read(self._check_bounds)
        database.read(lambda conn: _refuse_known_bmc(conn, inspection.bmc_addresses(inventory)))
        return self.enroll(request, inventory, rest)

    def process(self, request: Request, row: Json, inventory: Json, rest: Json) -> Json:
        """Have hooks and rules run, unless they have or do; the machine only gets the UUID."""
        try:
            self.service.conductor_of(row).continue_inspection(
                request.who,
                node_uuid=row["uuid"],
                inventory=inventory,
                plugin_data=_kept_data(rest),
            )
        except (errors.NodeNotFound, errors.NodeLocked):
            LOG.info("Node %s: its machine has reported once more", row["uuid"])
        except errors.Unavailable as why:
            LOG.warning("Node %s: enrolled, but hooks and rules wait: %s", row["uuid"], why)
            raise errors.Unavailable from None
        return {"uuid": row["uuid"]}

    def _check_bounds(self, conn: Connection) -> None:
        recent, waiting = limits.discoveries(conn, clock.now() - _REPEATED_WITHIN)
        bounds = (("most_per_hour", recent), ("most_waiting", waiting))
        for name, count in bounds:
            most = getattr(self._settings, name)
            if count >= most:
                reason = (
                    f"its report: it is unknown, and [auto_discovery]{name} = {most} are enrolled"
                )
                raise failed_attempts.RefusalReason(reason)

    def enroll(self, request: Request, inventory: Json, rest: Json) -> Json:
        """Make a node of an unknown machine, or return the one that another report has made.

        :raises failed_attempts.RefusalReason: as many are enrolled as may be.
        :raises errors.Unavailable: no conductor has the driver.
        """
        try:
            node = node_controllers.discovered_node(self.service, request)
        except errors.Error as why:  # the machine learns no more
            LOG.warning("An unknown machine is not enrolled: %s", why)
            raise errors.Unavailable from None
        run = _run_row(request, node)
        node |= {"run_uuid": run["uuid"], "provision_updated_at": node["created_at"]}
        cards = [_port_row(node, one) for one in self._ports(inventory)]
        made = _events_of(request, node, cards)

        def work(conn: Connection) -> Json | None:
            limits.lock(conn, verbs.DISCOVERY)
            if ports.by_addresses(conn, inspection.addresses(inventory)):
                return _find_node(conn, None, inventory, discovers=True)
            self._check_bounds(conn)
            nodes.insert(conn, node)
            for card in cards:
                ports.insert(conn, card)
            data, at = _kept_data(rest), node["created_at"]
            reports.put_inventory(conn, node["uuid"], inventory, data, at=at)
            runs.insert(conn, run)
            events.add(conn, made)
            return None

        self.service.database.write(lambda conn: limits.add_mark(conn, verbs.DISCOVERY))
        found = self.service.database.write(work)
        if found is not None:
            return found
        LOG.info("Node %s: enrolled for an unknown machine", node["uuid"])
        for event, about in zip(made, (node, *cards), strict=True):
            self.service.notifier.tell(request.who, [event], about)
        return node

    def _ports(self, inventory: Json) -> Iterator[inspection.InspectedPort]:
        """Yield the ports by which the machine is known again: those of ``add_ports``, or all."""
        options = inspection.HookOptions(add_ports=self.service.conf.inspector.add_ports)
        case = inspection.Case(inventory, {}, {}, options)
        hooks = {"v": inspection.ValidateInterfacesHook(), "p": inspection.PortsHook()}
        with contextlib.suppress(errors.HardwareError):
            inspection.run(hooks, case)
        if case.ports:
            yield from case.ports.values()
            return
        for mac in dict.fromkeys(inspection.addresses(inventory)):
            yield inspection.InspectedPort(address=mac)


def _kept_data(rest: Json) -> Json:
    return {**{name: value for name, value in rest.items() if name != _LOGS}, AUTO_DISCOVERED: True}


def _events_of(request: Request, node: Row, cards: list[Row]) -> list[Json]:
    """Return an event of the node, and one of each port."""
    about = [{"port": card["uuid"], "address": card["address"]} for card in cards]
    data = {"driver": node["driver"], AUTO_DISCOVERED: True}
    return [
        history.event_row(request.who, node["uuid"], "node_created", data),
        *(history.event_row(request.who, node["uuid"], "port_created", one) for one in about),
    ]


def _run_row(request: Request, node: Row) -> Row:
    return {
        "uuid": str(uuid.uuid4()),
        "node_uuid": node["uuid"],
        "verb": verbs.DISCOVERY,
        "state": "running",
        "started_at": node["created_at"],
        **request.who.recorded(),
    }


def _port_row(node: Row, port: inspection.InspectedPort) -> Row:
    return {
        **fields.blank(fields.PORT),
        "uuid": str(uuid.uuid4()),
        "created_at": node["created_at"],
        "node_uuid": node["uuid"],
        "address": port.address,
        "pxe_enabled": port.pxe_enabled,
        "extra": port.extra,
    }


def _is_repeated(conn: Connection, row: Json, inventory: Json) -> bool:
    """Return whether a node was made of the same machine within the last hour."""
    if row["created_at"] < clock.now() - _REPEATED_WITHIN:
        return False
    try:
        known = reports.get_inventory(conn, row["uuid"])
    except errors.NotFound:
        return False
    same = set(inspection.addresses(known["inventory"])) == set(inspection.addresses(inventory))
    return same and known["plugin_data"].get(AUTO_DISCOVERED) is True


def _refuse_known_bmc(conn: Connection, wanted: frozenset[str]) -> None:
    """Refuse a machine whose BMC is that of a node, in any state.

    :raises failed_attempts.RefusalReason: naming the node.
    """
    marker: str | None = None
    rows: list[Row] = [{}] if wanted else []
    while rows:
        rows = nodes.page(
            conn,
            columns=("uuid", "driver_info"),
            where={"include_children": True},
            marker_id=marker,
            limit=_MOST_SEARCHED,
        )
        for row in rows:
            info = row["driver_info"] or {}
            if wanted & {_ip_of(value) for value in info.values() if isinstance(value, str)}:
                reason = "its report: no node has its addresses, but this node has its BMC"
                raise failed_attempts.RefusalReason(reason, [row["uuid"]])
        marker = rows[-1]["uuid"] if rows else None


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


class InventoryDocument(TypedDict):
    """The data of a node's last inspection."""

    inventory: Json
    plugin_data: Json


class Inventory(expose.Controller):
    """The object /v1/nodes/{node}/inventory."""

    @expose.expose("GET", "/nodes/{ident}/inventory", since=_INVENTORY_SINCE)
    def show(self, request: Request, ident: str) -> InventoryDocument:
        """Return ``inventory`` and ``plugin_data``: two statements."""
        node = str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])
        found = self.service.database.read(lambda conn: reports.get_inventory(conn, node))
        # Agents and third-party drivers may store secrets here.
        inventory, plugin_data = found["inventory"], found["plugin_data"]
        return {"inventory": masking.mask(inventory), "plugin_data": masking.mask(plugin_data)}
