"""Rules by which the state of a node forbids changes of the node, its ports and portgroups.

A rule checks the change and raises an error if the change is forbidden. The rules ignore the lock
of the node: callers call `check_unlocked` last, and the write fails if the node is locked by then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import target
from ironic_lite.api.service import Service
from ironic_lite.core.json_types import JsonView, Row
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import allocations, nodes
from ironic_lite.domain import allocations as allocation_rules
from ironic_lite.domain import fields, node_locks, states, vocabulary
from ironic_lite.domain.states import State

_INSPECTING_CLOSED_SINCE = 39
_OFF = "power off"
_INTERFACES = frozenset(f"{kind}_interface" for kind in fields.INTERFACE_KINDS)
_RETIREMENT = frozenset({"/retired", "/retired_reason"})
_FREEING = ("remove /instance_uuid",)
_OR_MAINTENANCE = "or in maintenance"
_CONNECTION = frozenset(
    {"portgroup_uuid", "pxe_enabled", "local_link_connection", "physical_network"}
)
_CONNECTION_STATES = frozenset(
    {State.ENROLL, State.INSPECTING, State.INSPECTWAIT, State.MANAGEABLE}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A PATCH of a node: columns before and after, names of changed columns, and operations.

    ``touched`` has one ``"op /path"`` for each operation, even if it changed nothing.
    """

    before: JsonView
    after: JsonView
    changed: frozenset[str]
    touched: tuple[str, ...]
    version: int

    @property
    def state(self) -> State:
        """The provision state, which no PATCH changes."""
        return State(self.before["provision_state"])

    @property
    def ident(self) -> str:
        """The UUID of the node, for messages."""
        return str(self.before["uuid"])


def check_unlocked(node: JsonView) -> None:
    """Refuse a change of a locked node.

    :param node: with ``node_locks.COLUMNS``.
    :raises errors.NodeLocked: a conductor holds the lock.
    """
    if node["reservation"] is not None:
        raise node_locks.refusal(node)


# -- nodes -----------------------------------------------------------------------------------


def _guard_transition(change: Change) -> None:
    """Refuse changes in a transition, except retiring and freeing a broken node.

    Source: S4.4, C21.
    """
    moving = change.before.get("target_provision_state") is not None
    closed = moving and change.state not in states.PATCHABLE_IN_TRANSITION
    inspecting = change.state is State.INSPECTING and change.version >= _INSPECTING_CLOSED_SINCE
    if not closed and not inspecting:
        return
    if _RETIREMENT.issuperset(each.partition(" ")[2] for each in change.touched):
        return
    if change.before.get("maintenance") and change.touched == _FREEING:
        return
    raise errors.Conflict(
        f"Node {change.ident} can not be updated while a state transition is in progress "
        f"(it is in state {change.state}); wait for its end, or abort it.",
        node=change.ident,
        reason="state transition in progress",
    )


def _guard_interfaces(change: Change) -> None:
    moved = sorted(_INTERFACES & change.changed)
    allowed = change.state in states.INTERFACES_CHANGEABLE or change.before.get("maintenance")
    if moved and not allowed:
        raise _not_in_state(change, ", ".join(moved), _OR_MAINTENANCE)


def _resource_class(change: Change) -> None:
    replaced = "resource_class" in change.changed and change.before.get("resource_class")
    if replaced and change.state not in states.INTERFACES_CHANGEABLE:
        raise _not_in_state(change, "resource_class")


def _guard_protected(change: Change) -> None:
    if change.after.get("protected_reason") and not change.after.get("protected"):
        raise errors.InvalidParameter(path="protected_reason", reason="needs protected to be true")
    asked = "protected" in change.changed and change.after["protected"]
    if asked and change.state not in (State.ACTIVE, State.RESCUE):
        reason = "only an active or rescued node can be protected"
        raise errors.Conflict(node=change.ident, reason=reason)


def check_boot_mode(conf: Configuration, before: JsonView, after: JsonView) -> None:
    """Refuse that a new or changed node gets a boot mode that the operator forbids.

    :raises errors.InvalidParameter: its properties get one.
    """
    if not conf.api.disallowed_enrollment_boot_modes:
        return
    found = ((row.get("properties") or {}).get("capabilities") for row in (before, after))
    old, new = (str(vocabulary.get_capability(each, "boot_mode")).lower() for each in found)
    if new != old and new in conf.api.disallowed_enrollment_boot_modes:
        reason = f"boot_mode {new} is not allowed by [api]disallowed_enrollment_boot_modes"
        raise errors.InvalidParameter(path="properties/capabilities", reason=reason)


def check_retired_reason(row: JsonView) -> None:
    """Refuse a reason of a retirement without it, in a new node and in a PATCH.

    :raises errors.InvalidParameter: there is one.
    """
    if row.get("retired_reason") and not row.get("retired"):
        raise errors.InvalidParameter(path="retired_reason", reason="needs retired to be true")


def _guard_retired(change: Change) -> None:
    check_retired_reason(change.after)
    asked = "retired" in change.changed and change.after["retired"]
    if asked and change.state is State.AVAILABLE:  # S4.3
        reason = "an available node cannot be retired; take it back with the verb manage first"
        raise errors.Conflict(node=change.ident, reason=reason)


def _guard_instance(change: Change) -> None:
    held, wanted = change.before.get("instance_uuid"), change.after.get("instance_uuid")
    if held and wanted and held != wanted:
        reason = f"it is associated with instance {held}; remove /instance_uuid first"
        raise errors.Conflict(node=change.ident, reason=reason)
    allocated = held and not wanted and change.before.get("allocation_uuid")
    free = change.state in states.INTERFACES_CHANGEABLE or change.before.get("maintenance")
    if allocated and not free:
        raise _not_in_state(change, "instance_uuid of a node with an allocation", _OR_MAINTENANCE)


def _guard_driver(change: Change) -> None:
    named = [name for name in ("driver", "console_interface") if name in change.changed]
    if named and change.before.get("console_enabled"):
        reason = f"{named[0]} cannot be changed while the console is enabled; stop it first"
        raise errors.Conflict(node=change.ident, reason=reason)


def _guard_parent(change: Change) -> None:
    own = (change.before["uuid"], change.before.get("name"))
    asked = change.after.get("parent_node")  # None must not match the name of an unnamed node
    if asked is not None and "parent_node" in change.changed and asked in own:
        raise errors.InvalidParameter(path="parent_node", reason="a node cannot be its own parent")


def _not_in_state(change: Change, what: str, more: str = "") -> errors.Conflict:
    allowed = ", ".join(sorted(states.INTERFACES_CHANGEABLE))
    reason = f"{what} can only be changed in the states {allowed} {more}".rstrip()
    return errors.Conflict(node=change.ident, reason=reason)


NODE_RULES: tuple[Callable[[Change], None], ...] = (
    _guard_transition,
    _guard_interfaces,
    _resource_class,
    _guard_protected,
    _guard_retired,
    _guard_instance,
    _guard_driver,
    _guard_parent,
)


def check_node(change: Change) -> None:
    """Apply every rule to a change of a node.

    :raises errors.Conflict: the state forbids it.
    :raises errors.InvalidParameter: two fields contradict each other.
    """
    for rule in NODE_RULES:
        rule(change)


# -- ports -----------------------------------------------------------------------------------


def check_inspected(owner: JsonView, what: str, *, version: int) -> None:
    """Refuse changes of objects that a running inspection may write, even in maintenance.

    :param what: the objects, for the message, such as ``its ports``.
    :raises errors.Conflict: the node is being inspected.
    """
    inspected = State(owner["provision_state"]) is State.INSPECTING
    if inspected and version >= _INSPECTING_CLOSED_SINCE:
        reason = f"{what} cannot be changed while it is being inspected"
        raise errors.Conflict(node=owner["uuid"], reason=reason)


def check_switched_off(owner: JsonView, what: str) -> None:
    """Refuse a change of volumes that the machine may be using.

    :param what: the operation, for the message.
    :raises errors.InvalidState: the machine is not known to be off.
    """
    if owner["power_state"] is None:
        raise errors.InvalidState(
            f"{what.capitalize()}: the power state of node {owner['uuid']} has not been read yet. "
            f"Read it with the target manage, or set it with PUT /v1/nodes/{owner['uuid']}"
            "/states/power.",
            verb=what,
            node=owner["uuid"],
            state="unknown power state",
        )
    if owner["power_state"] != _OFF:
        raise errors.InvalidState(verb=what, node=owner["uuid"], state=owner["power_state"])


def check_port(changed: frozenset[str], owner: JsonView, *, version: int) -> None:
    """Check the change of a port against the state of its node.

    An inspection forbids all changes, because it may write ports. Otherwise maintenance allows all.

    :param changed: column names.
    :param owner: the node's uuid, provision_state, maintenance and instance_uuid.
    :raises errors.Conflict: the state forbids it.
    """
    state = State(owner["provision_state"])
    if changed:
        check_inspected(owner, "its ports", version=version)
    if owner.get("maintenance"):
        return
    used = state is State.ACTIVE or owner.get("instance_uuid")
    if "address" in changed and used:
        reason = "the address of a port cannot be changed while an instance uses the node"
        raise errors.Conflict(node=owner["uuid"], reason=f"{reason}; set maintenance first")
    moved = sorted(_CONNECTION & changed)
    if moved and state not in _CONNECTION_STATES:
        allowed = ", ".join(sorted(_CONNECTION_STATES))
        reason = f"{', '.join(moved)} can only be changed in the states {allowed}"
        raise errors.Conflict(node=owner["uuid"], reason=f"{reason} or in maintenance")


def check_portgroup(changed: frozenset[str], owner: JsonView, *, version: int) -> None:
    """Check the change of a portgroup against the state of its node.

    :param changed: column names.
    :param owner: the node's uuid, provision_state and maintenance.
    :raises errors.Conflict: the state forbids it.
    """
    check_inspected(owner, "its portgroups", version=version)
    state = State(owner["provision_state"])
    if "node_uuid" in changed and not owner["maintenance"] and state not in _CONNECTION_STATES:
        allowed = ", ".join(sorted(_CONNECTION_STATES))
        reason = f"the node of a portgroup can only be changed in the states {allowed}"
        raise errors.Conflict(node=owner["uuid"], reason=f"{reason} or in maintenance")


# Rules that new nodes and changes of nodes must pass, and the owner that results.

UPDATE = "baremetal:node:update"
_CREATE = "baremetal:node:create"
_CREATE_OWN = "baremetal:node:create:self_owned_node"
_PROVISIONED = "baremetal:node:update_owner_provisioned"
_UNCLEANED = "baremetal:node:disable_cleaning"
_INTERFACES_RULE = f"{UPDATE}:driver_interfaces"
_OWNED = ("uuid", "owner")

PATCHED: Mapping[str, str] = {
    "instance_info": "baremetal:node:update_instance_info",
    "instance_name": "baremetal:node:update_instance_info",
    "extra": "baremetal:node:update_extra",
    "retired_reason": f"{UPDATE}:retired",
    "driver": _INTERFACES_RULE,
    **{f"{kind}_interface": _INTERFACES_RULE for kind in fields.INTERFACE_KINDS},
    **{
        name: f"{UPDATE}:{name}"
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


def rule_of_field(name: str, value: object) -> str:
    """Return the rule for setting a field of a node to a value, the same on every route.

    :param value: None for its removal; booleans may have the texts that requests may have.
    """
    off = value is None or str(value).strip().lower() in _NO
    if name == "automated_clean" and off and value is not None:
        return _UNCLEANED
    if name == "maintenance":
        return f"baremetal:node:{'clear' if off else 'set'}_maintenance"
    return PATCHED.get(name) or _CREATED.get(name, UPDATE)


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


def enrolling_owner(request: Request, conf: Configuration) -> str | None:
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


def claim_node(given: Row, owner: str | None) -> None:
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
    return allocation_rules.left(after, project, *hands)


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
