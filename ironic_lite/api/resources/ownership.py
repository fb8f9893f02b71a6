"""Rules that new nodes and changes of nodes must pass, and the owner that results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.policy.access import target
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import allocations, nodes
from ironic_lite.domain import allocations as core
from ironic_lite.domain import fields
from ironic_lite.domain.states import State

_UPDATE = "baremetal:node:update"
_CREATE = "baremetal:node:create"
_CREATE_OWN = "baremetal:node:create:self_owned_node"
_PROVISIONED = "baremetal:node:update_owner_provisioned"
_UNCLEANED = "baremetal:node:disable_cleaning"
_INTERFACES = f"{_UPDATE}:driver_interfaces"
_OWNED = ("uuid", "owner")

PATCHED: Mapping[str, str] = {
    "instance_info": "baremetal:node:update_instance_info",
    "instance_name": "baremetal:node:update_instance_info",
    "extra": "baremetal:node:update_extra",
    "retired_reason": f"{_UPDATE}:retired",
    "driver": _INTERFACES,
    **{f"{kind}_interface": _INTERFACES for kind in fields.INTERFACE_KINDS},
    **{
        name: f"{_UPDATE}:{name}"
        for name in (
            "driver_info",
            "properties",
            "chassis_uuid",
            "instance_uuid",
            "lessee",
            "owner",
            "network_data",
            "conductor_group",
            "name",
            "retired",
            "shard",
            "parent_node",
            "disable_power_off",
        )
    },
}
"""Field -> rule; the rule of all other fields is ``baremetal:node:update``."""
_CREATED: Mapping[str, str] = {
    "boot_mode": "baremetal:node:set_boot_mode",
    "secure_boot": "baremetal:node:set_secure_boot",
    "console_enabled": "baremetal:node:set_console_state",
}
"""Fields that only a POST and a route of their own change -> the rule of that route."""


def rules(patch: object) -> tuple[str, ...]:
    """Return the names of the rules that a caller must pass for a PATCH of a node.

    :param patch: the body as received; a malformed patch is refused elsewhere.
    """
    needed = dict.fromkeys(map(_rule_of, patch)) if isinstance(patch, list) else {}
    return tuple(needed) or (_UPDATE,)


def _rule_of(operation: Any) -> str:
    path = operation.get("path") if isinstance(operation, dict) else None
    if not isinstance(path, str):
        return _UPDATE
    root = path.split("/")[1] if path.startswith("/") else ""
    root = root.replace("~1", "/").replace("~0", "~")
    removes = operation.get("op") == "remove"
    return rule_of_field(root, None if removes else operation.get("value"))


def rule_of_field(name: str, value: object) -> str:
    """Return the rule for setting a field of a node to a value, the same on every route.

    :param value: None for its removal; booleans may have the texts that requests may have.
    """
    off = value is None or str(value).strip().lower() in _NO
    if name == "automated_clean" and off and value is not None:
        return _UNCLEANED
    if name == "maintenance":
        return f"baremetal:node:{'clear' if off else 'set'}_maintenance"
    return PATCHED.get(name) or _CREATED.get(name, _UPDATE)


def check_fields(request: Request, given: Row, row: Row, blank: Row) -> None:
    """Check the rules of the fields of a new node, as a PATCH checks them.

    :param given: the fields of the body; those that are as ``blank`` set nothing.
    :param row: the new node with its owners.
    :raises errors.Forbidden: the caller could not set one of them by another request.
    """
    if not request.access.limited:
        return
    owners = target(policy.NODE, row)
    for name, value in given.items():
        # The right to enroll covers the driver, the UUID, and the caller's own project as owner.
        covered = name in {"uuid", "driver"} or (
            name == "owner" and value == request.access.project
        )
        if not covered and value not in (None, blank.get(name)):
            request.access.demand(rule_of_field(name, value), owners)


_NO = frozenset({"false", "f", "no", "n", "off", "0"})


def enrolling(request: Request, conf: Configuration) -> str | None:
    """Return the project that will own the caller's new node; None leaves the owner to the body.

    :raises errors.Forbidden: the caller may not enroll nodes.
    """
    access = request.access
    if not access.limited:
        return None
    own = conf.api.project_admin_can_manage_own_nodes and access.allows(_CREATE_OWN)
    mine = own and not access.system and access.project
    if not mine:
        access.demand(_CREATE)
    access.settle()
    return mine or None


def claim(given: Row, owner: str | None) -> None:
    """Make a project the owner of the node that it enrolls.

    :param owner: the result of `enrolling`.
    :raises errors.InvalidParameter: the body names another owner.
    """
    if owner is None:
        return
    if given.get("owner") not in {None, owner}:
        reason = "a project can only enroll nodes that it owns"
        raise errors.InvalidParameter(path="owner", reason=reason)
    given["owner"] = owner


def check_transfer(service: Service, request: Request, before: Row, changed: Row) -> None:
    """Check whether the owner of a node may change.

    :raises errors.Conflict: the node is active and this caller may not change its owner then; an
        allocation with an owner has the node; or its parent or a child has another owner.
    """
    if "owner" not in changed:
        return
    active = before["provision_state"] == State.ACTIVE
    if active and not request.access.allows(_PROVISIONED, target(policy.NODE, before)):
        reason = "its owner cannot be changed while it is active"
        raise errors.Conflict(node=before["uuid"], reason=reason)
    if before["allocation_uuid"] and service.database.read(
        lambda conn: allocations.owner_of(conn, before["allocation_uuid"])
    ):
        reason = "its owner cannot be changed while an allocation with an owner has it"
        raise errors.Conflict(node=before["uuid"], reason=reason)
    for other in service.database.read(lambda conn: _linked_nodes(conn, before, changed)):
        if other["owner"] != changed["owner"]:
            reason = f"its owner cannot be changed while node {other['uuid']}, its parent or "
            reason += "child, has another owner; remove parent_node first"
            raise errors.Conflict(node=before["uuid"], reason=reason)


def left_allocation(service: Service, before: Row, after: Row) -> Row:
    """Return the columns by which a node leaves the allocation of a project that has lost it."""
    hands = tuple((row["owner"], row["lessee"]) for row in (before, after))
    if not before["allocation_uuid"] or hands[0] == hands[1]:
        return {}
    project = service.database.read(
        lambda conn: allocations.owner_of(conn, before["allocation_uuid"])
    )
    return core.left(after, project, *hands)


def _linked_nodes(conn: Connection, before: Row, changed: Row) -> list[Row]:
    """Return uuid and owner of a node's children, and of its parent if the parent is kept."""
    found = nodes.page(conn, columns=_OWNED, where={"parent_node": before["uuid"]})
    if before["parent_node"] and "parent_node" not in changed:
        parent = {"uuid": before["parent_node"], "include_children": True}
        found += nodes.page(conn, columns=_OWNED, where=parent)
    return found


def check_parent(request: Request, row: Row, parent: Row, ident: str) -> None:
    """Check that the caller may see a new parent and that it has the same owner.

    :raises errors.NodeNotFound: the caller may not see the parent.
    :raises errors.InvalidParameter: the parent has another owner.
    """
    if not request.access.allows("baremetal:node:get", target(policy.NODE, parent)):
        raise errors.NodeNotFound(node=ident)
    check_one_owner(row, parent, "parent_node")


def check_one_owner(one: Row, other: Row, path: str) -> None:
    """Check that two nodes have the same owner, before an object of one refers to the other.

    :param path: of the field that names the other node.
    :raises errors.InvalidParameter: the owners differ.
    """
    if one["owner"] != other["owner"]:
        reason = f"node {other['uuid']} has another owner than node {one['uuid']}"
        raise errors.InvalidParameter(path=path, reason=reason)
