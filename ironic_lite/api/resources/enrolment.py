"""Create and change nodes: check the request, have the conductor check interfaces, write once.

The API writes the node and its event in one transaction. The conductor only checks driver and
interfaces; it touches neither machine nor database for the check.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import logging
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import (
    changes,
    guards,
    node_lookup,
    ownership,
    patches,
    project_limits,
    run_stops,
)
from ironic_lite.api.service import Service
from ironic_lite.api.validation import schemas
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Json, JsonView, Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import allocations, batch_owners, events, nodes, parents
from ironic_lite.domain import event_rows, fields, node_locks, states
from ironic_lite.domain.states import State

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
BLANK: Row = {
    **dict.fromkeys(name for name in nodes.COLUMNS if name != "id"),
    **{str(name): value for name, value in _DEFAULTS.items()},
    "generation": 0,
}

# -- POST ------------------------------------------------------------------------------------


def create(service: Service, request: Request, body: object) -> Row:
    """Enroll a node and return its columns.

    :raises errors.Forbidden: the caller may not enroll nodes.
    :raises errors.InvalidRequest: the body is invalid, or no conductor has the driver.
    :raises errors.Duplicate: uuid, name or instance_uuid is in use.
    :raises errors.NoConductor: all conductors with the driver are offline.
    """
    given = schemas.node(body, version=request.version)
    owner = ownership.enrolling(request, service.conf)
    ownership.claim(given, owner)
    row = {**BLANK, **given, **_configured_defaults(service.conf, given), "created_at": clock.now()}
    row["uuid"] = row["uuid"] or changes.subject(request)
    ownership.check_fields(request, given, row, BLANK)
    guards.check_retired_reason(row)
    enrolls = request.version >= _ENROLL_SINCE  # S5.3, C30
    row["provision_state"] = (State.ENROLL if enrolls else State.AVAILABLE).value
    _find_parent(service, request, given, row)
    row.update(_complete_interfaces(service, request, row))
    event = event_rows.of(request.who, row["uuid"], "node_created", {"driver": row["driver"]})

    def insert(conn: Connection) -> None:
        if row["parent_node"]:
            parents.check(conn, row["uuid"], row["parent_node"])
        project_limits.admit(service, request, conn, "nodes", row)
        nodes.insert(conn, row)
        events.add(conn, [event])

    _write_node(service, request, insert)
    service.notifier.tell(request.who, [event], row)
    return row


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


def update(service: Service, request: Request, ident: str, *, reset_interfaces: bool | None) -> Row:
    """Apply a JSON PATCH to a node and return its columns and traits.

    :param reset_interfaces: with a new driver, reset the interfaces that the patch leaves out.
    :raises errors.Error: as ``patches.node``, `create` and ``db.queries.nodes.edit``.
    """
    patches.check_roots(fields.NODE, request.json, version=request.version)
    rules = ownership.rules(request.json)
    before = node_lookup.fetch(service, request, ident, with_traits=True, rules=rules)
    changed = patches.node(before, request.json, version=request.version)
    if reset_interfaces is not None:
        _check_reset(request, reset_interfaces)
    if not changed:
        guards.check_unlocked(before)
        return before
    ownership.check_transfer(service, request, before, changed)
    guards.check_unlocked(before)
    after = {**before, **changed}
    if reset_interfaces and "driver" in changed:
        after.update((name, None) for name in _INTERFACES if name not in changed)
    _find_parent(service, request, changed, after)
    if _CHECKED & changed.keys() or _interface_overrides(after) != _interface_overrides(before):
        after.update(_complete_interfaces(service, request, after))
    elif "conductor_group" in changed:
        service.fleet.any_host(after["driver"], after["conductor_group"])
    after.update(ownership.left_allocation(service, before, after))
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
    # The event contains names only, because values may be secret.
    event = event_rows.of(request.who, before["uuid"], "node_updated", {"fields": sorted(written)})

    changes_hands = _changes_hands(written)
    allocation = before["allocation_uuid"] if "allocation_uuid" in written else None

    def work(conn: Connection) -> None:
        values = {**written, "updated_at": at}
        if written.get("parent_node"):
            parents.check(conn, before["uuid"], written["parent_node"])
        if changes_hands and states.kind(State(before["provision_state"])) is states.Kind.FAIL:
            values["wake_at"] = None  # the service must not retry the run of the former users
        if "owner" in before:
            project_limits.admit(
                service, request, conn, "nodes", {**before, **values}, before=before
            )
        nodes.edit(conn, before["uuid"], values, generation=before["generation"])
        if allocation is not None:
            allocations.forget(conn, request.who, allocation)
        if changes_hands:
            run_stops.withdraw(conn, before["uuid"], request.who)
            batch_owners.take_out(conn, [before["uuid"]], at)
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
    columns = (*node_locks.COLUMNS, "generation", "maintenance", "maintenance_reason", "fault")
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
            ownership.check_parent(request, row, parent, given["parent_node"])
        except errors.NodeNotFound as why:
            raise errors.InvalidParameter(path="parent_node", reason=why.message) from None
        row["parent_node"] = parent["uuid"]


def _write_node(service: Service, request: Request, work: Callable[[Connection], None]) -> None:
    try:
        changes.write(service, request, work)
    except errors.ChassisNotFound as why:
        raise errors.InvalidParameter(path="chassis_uuid", reason=why.message) from None
