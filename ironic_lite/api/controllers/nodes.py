"""Nodes: list, show, create, change, delete; their maintenance and their children."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import logging
import sys
import uuid
from collections.abc import Callable, Generator
from functools import cache
from http import HTTPStatus
from typing import TypedDict

from ironic_lite import errors, membership
from ironic_lite.api.controllers import node_holds, runs
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import (
    bmc_orders,
    crud,
    guards,
    idempotency,
    node_lookup,
    pages,
    patches,
    preferred,
    queries,
    views,
    waits,
)
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, schemas
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json, JsonView, Row
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import allocations, events, nodes, paging, resources
from ironic_lite.domain import fields, history, holds, node_locks, states
from ironic_lite.domain.states import State

# Read a page of nodes, including traits, by one statement.
#
# Only the filter ``conductor`` needs more statements. The owner of a node is computed, not stored,
# so nodes are read in their order until enough of them belong to that conductor.

_OWNED_BY = ("uuid", "driver", "conductor_group")
_STRIDE = 1000


def read_page(
    conn: Connection, service: Service, query: queries.Query, plan: views.Plan
) -> Generator[list[Row]]:
    """Yield the rows of a page in parts, with ``traits`` if the plan shows them.

    :raises errors.NotFound: the marker is not a node.
    """
    where = dict(query.where)
    host = where.pop("conductor", None)
    place = query.place
    if host is not None:
        where["uuids"] = _owned_nodes(conn, service, query, where, host)
        place["marker_id"] = None
    return nodes.parts(
        conn,
        columns=plan.columns,
        where=where,
        sort=query.sort,
        **place,
        texts=plan.texts,
        with_traits="traits" in plan.computed,
    )


def _whole(parts: Generator[list[Row]]) -> Generator[list[Row]]:
    """Yield all rows of a page at once, so that what is beside them takes one statement."""
    with contextlib.closing(parts):
        if rows := [row for some in parts for row in some]:
            yield rows


def _owned_nodes(
    conn: Connection, service: Service, query: queries.Query, where: Row, host: str
) -> list[str]:
    """Return the UUIDs of the page's nodes that ``host`` owns."""
    members = service.fleet.members()
    mine = [one for one in members if one.host == host]
    if not mine:
        return []
    among = {**where, "conductor_group": mine[0].group}
    if where.get("conductor_group", mine[0].group) != mine[0].group:
        return []
    found: list[str] = []
    owners = membership.Ring(members)
    place: paging.Place = {**query.place, "limit": _STRIDE}
    while len(found) < query.limit:
        rows = nodes.page(conn, columns=_OWNED_BY, where=among, sort=query.sort, **place)
        found += [
            row["uuid"]
            for row in rows
            if owners.owner(row["conductor_group"], row["driver"], row["uuid"]) == host
        ]
        if len(rows) < _STRIDE:
            break
        place["marker_id"] = rows[-1]["uuid"]
    return found[: query.limit]


# Create and change nodes: check the request, have the conductor check interfaces, write once.
#
# The API writes the node and its event in one transaction. The conductor only checks driver and
# interfaces; it touches neither machine nor database for the check.

LOG = logging.getLogger(__name__)

_ENROLL_SINCE = 11
_RESET_SINCE = 45
_INTERFACES = {f"{kind}_interface": kind for kind in fields.INTERFACE_KINDS}
_CHECKED = frozenset({"driver", "driver_info", *_INTERFACES})
_DEFAULTS: JsonView = {
    field.stored: field.default
    for field in fields.NODE
    if field.stored is not None and field.type is not fields.Type.OBJECT
}
BLANK_NODE: Row = {
    **dict.fromkeys(name for name in nodes.COLUMNS if name != "id"),
    **{str(name): value for name, value in _DEFAULTS.items()},
    "generation": 0,
}

# -- POST ------------------------------------------------------------------------------------


def create_node(service: Service, request: Request, body: object) -> Row:
    """Enroll a node and return its columns.

    :raises errors.Forbidden: the caller may not enroll nodes.
    :raises errors.InvalidRequest: the body is invalid, or no conductor has the driver.
    :raises errors.Duplicate: uuid, name or instance_uuid is in use.
    :raises errors.NoConductor: all conductors with the driver are offline.
    """
    given = schemas.node(body, version=request.version)
    owner = guards.enrolling_owner(request, service.conf)
    guards.claim_node(given, owner)
    row = {
        **BLANK_NODE,
        **given,
        **_configured_defaults(service.conf, given),
        "created_at": clock.now(),
    }
    row["uuid"] = row["uuid"] or idempotency.subject_uuid(request)
    guards.check_fields(request, given, row, BLANK_NODE)
    guards.check_retired_reason(row)
    guards.check_boot_mode(service.conf, BLANK_NODE, row)
    enrolls = request.version >= _ENROLL_SINCE  # S5.3, C30
    row["provision_state"] = (State.ENROLL if enrolls else State.AVAILABLE).value
    _find_parent(service, request, given, row)
    row.update(_complete_interfaces(service, request, row))
    event = history.event_row(request.who, row["uuid"], "node_created", {"driver": row["driver"]})

    def insert(conn: Connection) -> None:
        if row["parent_node"]:
            nodes.check_parent(conn, row["uuid"], row["parent_node"])
        crud.check_project_limit(service, request, conn, "nodes", row)
        nodes.insert(conn, row)
        events.add(conn, [event])

    _write_node(service, request, insert)
    service.notifier.tell(request.who, [event], row)
    return row


def discovered_node(service: Service, request: Request) -> Row:
    """Return the columns of a node for an unknown machine: in enroll, without a name.

    :raises errors.Error: as `create_node`.
    """
    row: Row = {
        **BLANK_NODE,
        **_configured_defaults(service.conf, {}),
        "driver": service.conf.auto_discovery.driver,
        "created_at": clock.now(),
        "uuid": str(uuid.uuid4()),
        "provision_state": State.ENROLL.value,
    }
    return {**row, **_complete_interfaces(service, request, row)}


def _configured_defaults(conf: Configuration, given: Row) -> Row:
    """Return the configured defaults for fields that the request leaves out.

    An empty string counts as left out, as in Ironic.
    """
    wanted: Row = {
        "resource_class": conf.default_resource_class or None,
        "conductor_group": conf.default_conductor_group.lower(),
    }
    return {name: value for name, value in wanted.items() if not given.get(name)}


# -- PATCH -----------------------------------------------------------------------------------


def update_node(
    service: Service, request: Request, ident: str, *, reset_interfaces: bool | None
) -> Row:
    """Apply a JSON PATCH to a node and return its columns and traits.

    :param reset_interfaces: with a new driver, reset the interfaces that the patch leaves out.
    :raises errors.Error: as ``patches.node``, `create_node` and ``db.queries.nodes.edit``.
    """
    operations = patches.read(fields.NODE, request.json, version=request.version)
    rules = patches.rules_of_node(operations)
    before = node_lookup.fetch(service, request, ident, with_traits=True, rules=rules)
    changed = patches.node(before, operations, version=request.version)
    if reset_interfaces is not None:
        _check_reset(request, reset_interfaces)
    if not changed:
        guards.check_unlocked(before)
        return before
    guards.check_transfer(service, request, before, changed)
    guards.check_unlocked(before)
    after = {**before, **changed}
    guards.check_boot_mode(service.conf, before, after)
    if reset_interfaces and "driver" in changed:
        after.update((name, None) for name in _INTERFACES if name not in changed)
    _find_parent(service, request, changed, after)
    if _CHECKED & changed.keys() or _interface_overrides(after) != _interface_overrides(before):
        after.update(_complete_interfaces(service, request, after))
    elif "conductor_group" in changed:
        service.fleet.any_host(after["driver"], after["conductor_group"])
    after.update(guards.left_allocation(service, before, after))
    internal = before["driver_internal_info"] or {}
    if "deploy_interface" in changed and fields.ORIGINAL_DEPLOY in internal:
        after["driver_internal_info"] = {
            key: value for key, value in internal.items() if key != fields.ORIGINAL_DEPLOY
        }
    written = {
        name: value for name, value in after.items() if name in changed or value != before[name]
    }
    if before["console_enabled"] and _changes_hands(written):
        after["console_enabled"] = written["console_enabled"] = False
    after["updated_at"] = _save_node(service, request, before, written)
    after["generation"] += 1
    if before["console_enabled"] and not after["console_enabled"]:
        _end_console(service, request, after)
    return after


def _changes_hands(written: Row) -> bool:
    return not written.keys().isdisjoint(OWNERS)


def _end_console(service: Service, request: Request, node: Row) -> None:
    """Have the console of a node ended that its former users may have open."""
    who = dataclasses.replace(request.who, owners=None)  # the rights were checked for the change
    try:
        service.conductor_of(node).set_console_mode(who, node_uuid=node["uuid"], enabled=False)
    except errors.Error as why:
        LOG.warning(
            "Node %s has changed hands; a program of its console is ended by a later sweep: %s",
            node["uuid"],
            why,
        )


def _save_node(service: Service, request: Request, before: Row, written: Row) -> datetime.datetime:
    """Write columns of a node together with the event; return the time of the change.

    :param before: the node as read, with all columns if notifications are enabled.
    """
    at = clock.now()
    data = {"fields": sorted(written), "changes": history.changes(before, written)}
    event = history.event_row(request.who, before["uuid"], "node_updated", data)

    changes_hands = _changes_hands(written)
    allocation = before["allocation_uuid"] if "allocation_uuid" in written else None

    def work(conn: Connection) -> None:
        values = {**written, "updated_at": at}
        if written.get("parent_node"):
            nodes.check_parent(conn, before["uuid"], written["parent_node"])
        if changes_hands and states.kind(State(before["provision_state"])) is states.Kind.FAIL:
            values["wake_at"] = None  # the service must not retry the run of the former users
        if "owner" in before:
            crud.check_project_limit(
                service, request, conn, "nodes", {**before, **values}, before=before
            )
        nodes.edit(conn, before["uuid"], values, generation=before["generation"])
        if allocation is not None:
            allocations.forget(conn, request.who, allocation)
        if changes_hands:
            runs.withdraw_stop(conn, before["uuid"], request.who)
            for extension in service.extensions:
                extension.moved(conn, [before["uuid"]], at)
        events.add(conn, _for_each_owner(event, before, written))

    _write_node(service, request, work)
    if service.notifier.on:
        service.notifier.tell(request.who, [event], {**before, **written, "updated_at": at})
    return at


def _for_each_owner(event: Row, before: Row, written: Row) -> list[Row]:
    """Return the event of a change, once for the owner before it, and once for another after it.

    So the feed of a project ends with the change that takes its node away, and the feed of the next
    owner begins with it.
    """
    if "owner" not in written:
        return [event]
    sides = (before, {**before, **written})
    owners = {row["owner"]: {name: row[name] for name in OWNERS} for row in sides}
    return [{**event, **one} for owner, one in owners.items() if owner] or [event]


def _check_reset(request: Request, asked: bool) -> None:
    if request.version < _RESET_SINCE:
        raise errors.NotAcceptable(what="The argument reset_interfaces", since=_RESET_SINCE)
    paths = {operation["path"] for operation in request.json}
    if asked and "/driver" not in paths:
        raise errors.InvalidParameter(
            path="reset_interfaces", reason="can only be used when the driver is changed"
        )


# -- maintenance -----------------------------------------------------------------------------


def set_maintenance(
    service: Service, request: Request, ident: str, *, on: bool, reason: str | None = None
) -> str:
    """Begin or end the maintenance of a node; the end clears reason and fault.

    :return: the UUID of the node.
    :raises errors.NodeNotFound: the node does not exist.
    :raises errors.NodeLocked: a conductor holds the lock of the node.
    """
    reasons = ("maintenance", "maintenance_reason", "fault")
    columns = (*node_locks.COLUMNS, *masking.TEXT_FIELDS, "generation", *reasons)
    before = node_lookup.fetch(service, request, ident, None if service.notifier.on else columns)
    wanted: Row = {"maintenance": on, "maintenance_reason": reason}
    if not on:
        wanted["fault"] = None
    written = {name: value for name, value in wanted.items() if before[name] != value}
    guards.check_unlocked(before)
    if written:
        _save_node(service, request, before, written)
    return str(before["uuid"])


# -- shared ----------------------------------------------------------------------------------


def _complete_interfaces(service: Service, request: Request, row: Row) -> dict[str, str]:
    """Return the interface columns of a node, completed with the conductor's defaults."""
    place = (row["driver"], row["conductor_group"])
    ask = functools.partial(
        service.reach(functools.partial(service.fleet.any_host, *place)).check_node,
        request.who,
        driver=row["driver"],
        driver_info=row["driver_info"] or {},
    )
    names = {kind: row[name] for name, kind in _INTERFACES.items()}
    found = ask(interfaces=names)
    if overrides := _interface_overrides(row):
        if overrides.get("deploy") == fields.AUTODETECT:
            reason = "autodetect chooses for all work on a node: set its deploy_interface"
            raise errors.InvalidParameter(path="instance_info/deploy_interface", reason=reason)
        try:
            ask(interfaces={**names, **overrides})
        except errors.InvalidRequest as why:
            raise type(why)(f"instance_info: {why.message}", **why.facts) from None
    return {name: found[kind] for name, kind in _INTERFACES.items() if kind in found}


def _interface_overrides(row: Row) -> Json:
    """Return kind -> interface that instance_info overrides; empty values override nothing."""
    info = row["instance_info"] or {}
    return {kind: info[name] for name, kind in _INTERFACES.items() if info.get(name)}


def _find_parent(service: Service, request: Request, given: Row, row: Row) -> None:
    """Replace the name of a parent by its UUID.

    :raises errors.InvalidParameter: the parent does not exist; 404 is for the node of the path.
    """
    if given.get("parent_node"):
        try:
            parent = service.database.read(
                lambda conn: nodes.get(conn, given["parent_node"], ("uuid", *OWNERS))
            )
            guards.check_parent(request, row, parent, given["parent_node"])
        except errors.NodeNotFound as why:
            raise errors.InvalidParameter(path="parent_node", reason=why.message) from None
        row["parent_node"] = parent["uuid"]


def _write_node(service: Service, request: Request, work: Callable[[Connection], None]) -> None:
    try:
        idempotency.write_change(service, request, work)
    except errors.ChassisNotFound as why:
        raise errors.InvalidParameter(path="chassis_uuid", reason=why.message) from None


class Nodes(expose.Controller):
    """The collection /v1/nodes and its members."""

    @expose.expose("GET", "/nodes", raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of nodes."""
        return self._page(request, detail=False)

    @expose.expose("GET", "/nodes/detail", raw_query=True)
    def index_detail(self, request: Request) -> Json:
        """Return a page of nodes with all fields."""
        return self._page(request, detail=True)

    @expose.expose("GET", "/nodes/{ident}", raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return one node, all fields or the requested ones: one SQL statement.

        With ``wait``, answer when the node is in a state that ``until`` names.
        """
        chosen = wait = None
        if request.query:
            given, wait = waits.split(request.query, self.service.conf, waits.of_node)
            chosen = queries.one(queries.NODES, given, version=request.version)
        names = chosen or _visible_fields(request.version)
        plan = views.plan(views.NODES, names, request.version, full=chosen is None)
        traits = "traits" in plan.computed
        columns = (*plan.columns, "generation")
        row = waits.fetch_node(self.service, request, ident, columns, wait, with_traits=traits)
        node_lookup.add_tag(request, row)
        del row["generation"]
        if chosen is not None:
            self.service.database.read(lambda conn: self._add_fields(conn, request, plan, [row]))
        return self.document(request, plan, row)

    @expose.expose("POST", "/nodes", status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Json:
        """Enroll a node."""
        row = create_node(self.service, request, request.json)
        location = f"{request.base}/v1/nodes/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return self.whole(request, row)

    @expose.expose("PATCH", "/nodes/{ident}", body=expose.WHOLE, waits=True)
    def update(self, request: Request, ident: str, reset_interfaces: bool | None = None) -> Json:
        """Change a node by a JSON PATCH.

        Three SQL statements, and more for changes that involve other rows, such as a parent.
        """
        row = update_node(self.service, request, ident, reset_interfaces=reset_interfaces)
        return self.whole(request, row)

    @expose.expose("DELETE", "/nodes/{ident}", status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Delete a node; its conductor checks that no operation is running."""
        rules = bmc_orders.removal_rules(self.service)
        columns = ("uuid", "driver", "conductor_group", "held")
        row = node_lookup.fetch(self.service, request, ident, columns, rules=rules, enough=any)
        node_holds.refuse(self.service, request, row, holds.REMOVAL, holds.REMOVAL)
        conductor = self.service.conductor_of(row)
        conductor.destroy_node(request.who, node_uuid=row["uuid"])

    # -- lists -------------------------------------------------------------------------------

    def _page(self, request: Request, *, detail: bool, **among: object) -> Json:
        """Return a page of the nodes that also match the filters ``among``."""
        query = pages.query(self.service, request, queries.NODES, detail=detail)
        for name, value in among.items():
            if query.where.get(name, value) != value:
                raise errors.InvalidParameter(path=name, reason="contradicts the path")
        where = pages.narrowed(request, {**query.where, **among}, "node")
        query = dataclasses.replace(query, where=where)
        shown = pages.plan(views.NODES, request, query)
        linker = views.linker(shown, request.base)
        compute = self._field_computer(request, shown)

        def read(conn: Connection) -> pages.Page:
            parts = read_page(conn, self.service, query, shown)
            if any(each.of_nodes.keys() & shown.computed for each in self.service.extensions):
                parts = _whole(parts)

            def show(rows: list[Row]) -> list[Row]:
                self._add_fields(conn, request, shown, rows)
                return shown.show_texts(rows, linker, compute)

            return pages.fill(parts, "uuid", show)

        page = self.service.database.read(read)
        asked = "chassis_uuid" in query.where
        if not page.count and asked and request.access.allows("baremetal:chassis:get"):
            # An empty list would hide a mistyped UUID, which is worth a statement in this case.
            self.service.database.read(
                lambda conn: resources.CHASSIS.get(conn, query.where["chassis_uuid"])
            )
        return pages.filled(request, query, shown.collection, page)

    # -- showing -----------------------------------------------------------------------------

    def whole(self, request: Request, row: Json) -> Json:
        """Return the document of a written node from all its columns and traits."""
        node_lookup.add_tag(request, row)
        plan = views.plan(views.NODES, _visible_fields(request.version), request.version, full=True)
        kept = {column: row[column] for column in plan.columns}
        if "traits" in plan.computed:
            kept["traits"] = row.get("traits", [])
        return self.document(request, plan, kept)

    def document(self, request: Request, plan: views.Plan, row: Json) -> Json:
        """Return the document of a node from the plan's columns and traits."""
        linker = views.linker(plan, request.base)
        return plan.show_all([row], linker, self._field_computer(request, plan))[0]

    def _add_fields(
        self, conn: Connection, request: Request, plan: views.Plan, rows: list[Row]
    ) -> None:
        """Add the fields of features that the plan shows: a statement each."""
        for each in self.service.extensions:
            for name in each.of_nodes.keys() & plan.computed:
                found = each.of_nodes[name](conn, request, [row["uuid"] for row in rows])
                for row in rows:
                    row[name] = found.get(row["uuid"])

    def _field_computer(self, request: Request, plan: views.Plan) -> Callable[[Json], None] | None:
        """Return a function that adds computed fields to a row and hides protected ones."""
        redact = request.access.redactor()
        if "conductor" not in plan.computed:
            return redact
        owner = self.service.fleet.owners()

        def compute(row: Json) -> None:
            row["conductor"] = owner(row)
            if redact is not None:
                redact(row)

        return compute


@cache
def _visible_fields(version: int) -> tuple[str, ...]:
    return tuple(field.name for field in fields.visible(fields.NODE, version))


# Maintenance: the operator's mark that conductors must leave a node alone.


_MAINTENANCE = (
    "/nodes/{ident}/maintenance",
    *("/nodes/maintenance/{node_ident}", "/nodes/maintenance"),
)
_change = functools.partial(
    expose.expose, path=_MAINTENANCE, status=HTTPStatus.ACCEPTED, around=preferred.change
)


class Maintenance(expose.Controller):
    """/v1/nodes/{node}/maintenance, also by the paths of the first clients."""

    @_change("PUT", body=expose.TYPED)
    def begin(
        self, request: Request, node_ident: str, reason: str | None = None
    ) -> preferred.Accepted:
        """Put a node into maintenance."""
        return _set_maintenance(self.service, request, node_ident, on=True, reason=reason)

    @_change("DELETE")
    def end(self, request: Request, node_ident: str) -> preferred.Accepted:
        """Take a node out of maintenance; clear reason and fault."""
        return _set_maintenance(self.service, request, node_ident, on=False)


def _set_maintenance(
    service: Service, request: Request, ident: str, *, on: bool, reason: str | None = None
) -> preferred.Accepted:
    node = set_maintenance(service, request, ident, on=on, reason=reason)
    return preferred.Accepted(node, ended=True, body={"node": node, "maintenance": on})


# Children of a node: nodes that are parts of the same machine.

_SINCE = 83


class ChildrenLink(TypedDict):
    """A link to a list of children."""

    href: str
    rel: str


class ChildList(TypedDict):
    """The UUIDs of a node's children, and the link to their list."""

    children: list[str]
    links: ChildrenLink


class Children(expose.Controller):
    """The nodes that name a node as their parent."""

    @expose.expose("GET", "/nodes/{ident}/children", since=_SINCE)
    def index(self, request: Request, ident: str) -> ChildList:
        """List the UUIDs of all children, and the link to their list."""
        parent = node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"]
        where = pages.narrowed(request, {"parent_node": parent}, "node")
        rows = self.service.database.read(
            lambda conn: nodes.page(conn, columns=("uuid",), where=where, limit=sys.maxsize)
        )
        href = f"{request.base}/v1/nodes?parent_node={parent}"
        uuids = [row["uuid"] for row in rows]
        return {"children": uuids, "links": {"href": href, "rel": "children"}}


# Chassis: enclosures of groups of nodes.


class Chassis(crud.ResourceController, since=1, detail=True):
    """The chassis.

    Inherited: GET, POST /v1/chassis, GET /v1/chassis/detail;
    GET, PATCH, DELETE /v1/chassis/{ident}.
    """

    family = resources.CHASSIS
    word = "chassis"
    shown = views.CHASSIS
    asked = queries.CHASSIS

    def read(self, request: Request, body: object) -> Json:
        """Return the column values of a POST; all are optional, so the body is, too."""
        return super().read(request, body if request.size else {})

    def complete(self, _request: Request, documents: list[Json]) -> None:
        """Nest the links to the nodes."""
        for one in documents:
            _nest_node_links(one)

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Return the document of a row, which has all columns."""
        return _nest_node_links(super().document(request, row, chosen))


class Members(Nodes):
    """The nodes of a chassis, listed like /v1/nodes."""

    @expose.expose("GET", "/chassis/{ident}/nodes", raw_query=True)
    def index_of_chassis(self, request: Request, ident: str) -> Json:
        """Return a page of one chassis' nodes."""
        return self._page(request, detail=False, chassis_uuid=self._chassis_uuid(ident))

    @expose.expose("GET", "/chassis/{ident}/nodes/detail", raw_query=True)
    def index_detail_of_chassis(self, request: Request, ident: str) -> Json:
        """Return a page of one chassis' nodes with all fields."""
        return self._page(request, detail=True, chassis_uuid=self._chassis_uuid(ident))

    def _chassis_uuid(self, ident: str) -> str:
        known = rules.uuid(ident, "chassis")
        self.service.database.read(lambda conn: resources.CHASSIS.get(conn, known))
        return known


def _nest_node_links(document: Json) -> Json:
    """Put the links to the nodes into a nested list, as Ironic's clients expect."""
    if "nodes" in document:
        document["nodes"] = [document["nodes"]]
    return document
