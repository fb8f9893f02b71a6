"""The deletion of a node: the states and settings that forbid it."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import states
from ironic_lite.domain.states import State

COLUMNS = ("uuid", "provision_state", "protected", "maintenance", "instance_uuid")
"""Columns of a node that `check` reads."""


def check(node: JsonView, *, available: bool) -> None:
    """Refuse to delete a node.

    :param node: with `COLUMNS`.
    :param available: whether available nodes may be deleted.
    :raises errors.NodeProtected: its field ``protected`` is true.
    :raises errors.Conflict: it has an instance, or is in a state that needs it.
    """
    if node["protected"]:
        raise errors.NodeProtected(node=node["uuid"])
    if node["maintenance"]:
        return
    if node["instance_uuid"] is not None:
        reason = f"it is associated with instance {node['instance_uuid']}"
        raise errors.Conflict(node=node["uuid"], reason=reason)
    state = State(node["provision_state"])
    spared = () if available else (State.AVAILABLE,)
    if state not in states.DELETABLE.difference(spared):
        wanted = ", ".join(sorted(states.DELETABLE.difference(spared)))
        reason = f'it is in state "{state}"; only in {wanted} or maintenance can it be deleted'
        raise errors.Conflict(node=node["uuid"], reason=reason)
