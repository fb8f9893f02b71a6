"""Checks of orders for a node outside of verbs that need no conductor.

The routes and the orders of the feature ``why`` use the same checks.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.service import Service
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import vocabulary
from ironic_lite.domain.states import State, check_at_rest
from ironic_lite.rpc import contract

BOOT_SINCE = 76
NMI_SINCE = 29
MEDIA_SINCE = 89

_ROUTED = ("uuid", "driver", "conductor_group", "provision_state")
_POWERS_OFF = frozenset({"power off", "soft power off"})
_NO_POWER = frozenset({State.CLEANING, State.CLEANWAIT})  # S2.22
_WHAT = {
    "boot_mode": "its boot mode",
    "secure_boot": "its secure boot",
    "vmedia": "its virtual media",
}
_FORGET = ("baremetal:node:delete", "baremetal:node:delete:self_owned_node")


def check_rest(order: str, node: JsonView) -> None:
    """Refuse an order that would disturb the work on a node.

    :param node: with uuid and provision_state.
    :raises errors.Conflict: the node is not in a stable state.
    """
    if order in _WHAT:
        check_at_rest(State(node["provision_state"]), _WHAT[order], node=node["uuid"])


def check_power_target(version: int, goal: str) -> None:
    """Refuse a power target that the version does not have.

    :raises errors.NotAcceptable: it is newer; unknown targets pass.
    """
    since = vocabulary.POWER_TARGETS.get(goal)
    if since is not None and version < since:
        raise errors.NotAcceptable(what=f"The target {goal}", since=since)


def check_power_state(node: JsonView, goal: str) -> None:
    """Refuse a power target by the state and the settings of a node.

    :raises errors.InvalidState, errors.Conflict:
    """
    state = State(node["provision_state"])
    if state in _NO_POWER:
        raise errors.InvalidState(verb=goal, node=node["uuid"], state=state.value)
    if goal in _POWERS_OFF and node["disable_power_off"]:
        reason = "it must not be powered off (disable_power_off is true)"
        raise errors.Conflict(node=node["uuid"], reason=reason)


def removal_rules(service: Service) -> tuple[str, ...]:
    """Return the rules of which one lets a caller delete a node."""
    own = service.conf.api.project_admin_can_manage_own_nodes
    return _FORGET if own else _FORGET[:1]


def conductor_of(
    service: Service, request: Request, ident: str, order: str | None = None
) -> tuple[contract.Conductor, str]:
    """Return the conductor of a node, and the node's UUID.

    :param order: checked by `check_rest`.
    """
    node = node_lookup.fetch(service, request, ident, _ROUTED)
    if order is not None:
        check_rest(order, node)
    return service.conductor_of(node), node["uuid"]
