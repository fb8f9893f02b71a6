"""Rules by which the state of a node forbids changes of the node, its ports and portgroups.

A rule checks the change and raises an error if the change is forbidden. The rules ignore the lock
of the node: callers call `check_unlocked` last, and the write fails if the node is locked by then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import fields, node_locks, states
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
