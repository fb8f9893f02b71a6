"""Create and change nodes: the request's checks, the conductor's check of interfaces, one write.

The API writes nodes itself, in one transaction with the event that tells of it; the conductor is
only asked what it alone knows, and touches neither machine nor database for that.
"""

from __future__ import annotations

import datetime
import functools
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from oslo_config import cfg

from ironic_lite import clock, errors, fields
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import guards, happenings, idents, ownership, patches
from ironic_lite.api.service import Service
from ironic_lite.api.validation import schemas
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import allocations, events, nodes
from ironic_lite.db.session import Connection
from ironic_lite.states import State

Row = dict[str, Any]

_ENROLL_SINCE = 11
_RESET_SINCE = 45
_INTERFACES = {f"{kind}_interface": kind for kind in fields.INTERFACE_KINDS}
_CHECKED = frozenset({"driver", "driver_info", *_INTERFACES})
_DEFAULTS: Mapping[str, Any] = {
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


def create(service: Service, request: Request, body: Any) -> Row:
    """Enroll a node and return its columns.

    :raises errors.Forbidden: the caller may not enroll nodes.
    :raises errors.InvalidRequest: the body is wrong, or no conductor drives such a node.
    :raises errors.Duplicate: its uuid, name or instance_uuid is taken.
    :raises errors.NoConductor: those that drive such nodes are away.
    """
    owner = ownership.enrolling(request, service.conf)
    given = schemas.node(body, version=request.version)
    ownership.claim(given, owner)
    row = {**BLANK, **given, **_defaults(service.conf, given), "created_at": clock.now()}
    row["uuid"] = row["uuid"] or str(uuid.uuid4())
    enrolls = request.version >= _ENROLL_SINCE  # S5.3, C30
    row["provision_state"] = (State.ENROLL if enrolls else State.AVAILABLE).value
    _find_parent(service, request, given, row)
    row.update(_interfaces(service, request, row))
    told = happenings.of(request.who, row["uuid"], "node_created", {"driver": row["driver"]})

    def insert(conn: Connection) -> None:
        nodes.insert(conn, row)
        events.add(conn, [told])

    _write(service, insert)
    service.notifier.tell(request.who, [told], row)
    return row


def _defaults(conf: cfg.ConfigOpts, given: Row) -> Row:
    """Return what the operator wants new nodes to have that do not say themselves.

    An empty text says nothing, as in Ironic.
    """
    wanted: Row = {
        "resource_class": conf.default_resource_class or None,
        "conductor_group": conf.default_conductor_group.lower(),
    }
    return {name: value for name, value in wanted.items() if not given.get(name)}


# -- PATCH -----------------------------------------------------------------------------------


def update(service: Service, request: Request, ident: str, *, reset_interfaces: bool | None) -> Row:
    """Apply a JSON PATCH to a node and return its columns and traits.

    :param reset_interfaces: with a new driver, forget the interfaces that the patch does not name.
    :raises errors.Error: as ``patches.node``, `create` and ``db.nodes.edit``.
    """
    rules = ownership.rules(request.json)
    before = idents.fetch(service, request, ident, with_traits=True, rules=rules)
    changed = patches.node(before, request.json, version=request.version)
    if reset_interfaces is not None:
        _check_reset(request, reset_interfaces)
    if not changed:
        return before
    ownership.check_transfer(service, request, before, changed)
    guards.check_unlocked(before)
    after = {**before, **changed}
    if reset_interfaces and "driver" in changed:
        after.update((name, None) for name in _INTERFACES if name not in changed)
    _find_parent(service, request, changed, after)
    if _CHECKED & changed.keys() or _overrides(after) != _overrides(before):
        after.update(_interfaces(service, request, after))
    elif "conductor_group" in changed:
        service.fleet.any_host(after["driver"], after["conductor_group"])
    written = {
        name: value for name, value in after.items() if name in changed or value != before[name]
    }
    after["updated_at"] = _save(service, request, before, written)
    after["generation"] += 1
    return after


def _save(service: Service, request: Request, before: Row, written: Row) -> datetime.datetime:
    """Write columns of a node and the event that tells of it; return the moment.

    :param before: the node as read; all columns, if anybody listens.
    """
    at = clock.now()
    # Names only: values may be secret.
    told = happenings.of(request.who, before["uuid"], "node_updated", {"fields": sorted(written)})

    allocation = before["allocation_uuid"] if "allocation_uuid" in written else None

    def work(conn: Connection) -> None:
        values = {**written, "updated_at": at}
        nodes.edit(conn, before["uuid"], values, generation=before["generation"])
        if allocation is not None:
            allocations.forget(conn, allocation)
        events.add(conn, [told])

    _write(service, work)
    if service.notifier.on:
        service.notifier.tell(request.who, [told], {**before, **written, "updated_at": at})
    return at


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
) -> None:
    """Begin or end a node's maintenance; its end clears reason and fault.

    :raises errors.NodeNotFound: there is no such node.
    :raises errors.NodeLocked: somebody works on the node.
    """
    columns = ("uuid", "generation", "maintenance", "maintenance_reason", "fault")
    before = idents.fetch(service, request, ident, None if service.notifier.on else columns)
    wanted: Row = {"maintenance": on, "maintenance_reason": reason}
    if not on:
        wanted["fault"] = None
    written = {name: value for name, value in wanted.items() if before[name] != value}
    if written:
        _save(service, request, before, written)


# -- shared ----------------------------------------------------------------------------------


def _interfaces(service: Service, request: Request, row: Row) -> dict[str, str]:
    """Return the interface columns of a node, the conductor's defaults filled in."""
    place = (row["driver"], row["conductor_group"])
    ask = functools.partial(
        service.reach(functools.partial(service.fleet.any_host, *place)).check_node,
        request.who,
        driver=row["driver"],
        driver_info=row["driver_info"] or {},
    )
    names = {kind: row[name] for name, kind in _INTERFACES.items()}
    found = ask(interfaces=names)
    if overrides := _overrides(row):
        try:
            ask(interfaces={**names, **overrides})
        except errors.InvalidRequest as why:
            raise type(why)(f"instance_info: {why.message}", **why.facts) from None
    return {name: found[kind] for name, kind in _INTERFACES.items() if kind in found}


def _overrides(row: Row) -> dict[str, Any]:
    """Return by kind the interfaces that instance_info asks for; no value is no wish."""
    told = row["instance_info"] or {}
    return {kind: told[name] for name, kind in _INTERFACES.items() if told.get(name)}


def _find_parent(service: Service, request: Request, given: Row, row: Row) -> None:
    """Keep a parent by its UUID.

    :raises errors.InvalidParameter: 400, since the request's own object is not what is missing.
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


def _write(service: Service, work: Callable[[Connection], None]) -> None:
    try:
        service.database.write(work)
    except errors.ChassisNotFound as why:
        raise errors.InvalidParameter(path="chassis_uuid", reason=why.message) from None
