"""Selection of an allocation's node: the order of tries, and errors if none fits.

No I/O: ``db.queries.allocations`` returns the suitable nodes, ``conductor.allocations`` takes
one.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Iterable
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core.json_types import Json, RowView
from ironic_lite.domain.states import PATCHABLE_IN_TRANSITION, WITH_INSTANCE
from ironic_lite.domain.states import State as NodeState

Hands = tuple[str | None, str | None]
"""Owner and lessee of a node."""


class AllocationState(enum.StrEnum):
    """The states of an allocation."""

    ALLOCATING = "allocating"
    ACTIVE = "active"
    ERROR = "error"


class NodeOffer(NamedTuple):
    """A node that suits an allocation.

    ``locked`` is true while an operation holds its lock, ``traits`` the number of its traits;
    ``generation`` is the node's as read.
    """

    uuid: str
    name: str | None
    generation: int
    locked: bool
    traits: int


class Tally(NamedTuple):
    """The number of nodes left after each condition.

    The conditions are the resource class, then permission (candidates, owner), then being free,
    then having all traits.
    """

    of_class: int
    allowed: int
    free: int
    fitting: int


def order(offers: Iterable[NodeOffer], name: str | None, chance: random.Random) -> list[NodeOffer]:
    """Return the offers in the order in which they are tried.

    A node with the allocation's own name comes first. Then come those with the fewest traits,
    because this leaves special nodes to the allocations that need them. Equals are shuffled, so
    that allocations made together do not try the same nodes in the same order.

    :param chance: the random generator.
    """
    shuffled = list(offers)
    chance.shuffle(shuffled)
    return sorted(shuffled, key=lambda one: (name is None or one.name != name, one.traits))


def why_none(wanted: RowView, left: Tally) -> str:
    """Return the error text of an allocation without a suitable node.

    :param wanted: uuid, resource_class, traits, candidate_nodes and owner of the allocation.
    """
    what = f"the resource class {wanted['resource_class']}"
    if left.of_class == 0:
        why = f"no node has {what}"
    elif left.allowed == 0:
        why = f"of the {left.of_class} nodes that have {what}, none is {_owner_condition(wanted)}"
    elif left.free == 0:
        why = (
            f"no available nodes match {what}: of {left.allowed}, each is in use, in maintenance, "
            'in another state than "available", of unknown power state, or held'
        )
    else:
        traits = ", ".join(wanted["traits"] or ())
        why = f"none of the {left.free} available nodes with {what} has all the traits {traits}"
    return failed(wanted, why)


def _owner_condition(wanted: RowView) -> str:
    among = []
    if wanted["candidate_nodes"]:
        among.append("a candidate")
    if wanted["owner"]:
        among.append(f"owned by or leased to {wanted['owner']}")
    return " and ".join(among)


def why_locked(wanted: RowView, count: int) -> str:
    """Return the error text for nodes that were locked at each try."""
    return failed(
        wanted, f"could not reserve any of {count} suitable nodes: all of them are locked"
    )


def failed(wanted: RowView, why: str) -> str:
    """Return ``last_error`` of an allocation that found no node."""
    return f"Failed to process allocation {wanted['uuid']}: {why}."


def taken(node: RowView, allocation: RowView) -> Json:
    """Return the columns of a node taken by an allocation.

    :param node: at least its ``instance_info``.
    :param allocation: at least uuid and traits.
    """
    info = {**(node["instance_info"] or {}), "traits": list(allocation["traits"] or ())}
    return {
        "instance_uuid": allocation["uuid"],
        "allocation_uuid": allocation["uuid"],
        "instance_info": info,
    }


def freed(node: RowView) -> Json:
    """Return the columns of a node that its allocation leaves.

    :param node: at least its ``instance_info``.
    """
    info = {key: value for key, value in (node["instance_info"] or {}).items() if key != "traits"}
    return {"instance_uuid": None, "allocation_uuid": None, "instance_info": info}


def left(node: RowView, project: str | None, before: Hands, after: Hands) -> Json:
    """Return the columns of a node that leaves an allocation, because it has changed hands.

    So the project of the allocation neither frees nor keeps a node that it has lost. An instance
    stays, because the allocation may have been made for another one.

    :param node: at least its ``instance_info`` and ``provision_state``.
    :param project: of the allocation.
    :param before: owner and lessee until now; ``after`` those from now on.
    :return: {} if the allocation keeps the node.
    """
    if project is None or project not in before or project in after:
        return {}
    with_instance = NodeState(node["provision_state"]) in WITH_INSTANCE
    return {"allocation_uuid": None} if with_instance else freed(node)


def check_removable(node: RowView) -> None:
    """Refuse to remove the allocation of a node in use, except in maintenance.

    :param node: uuid, provision_state, target_provision_state, maintenance.
    :raises errors.Conflict:
    """
    state = NodeState(node["provision_state"])
    moving = node["target_provision_state"] is not None and state not in PATCHABLE_IN_TRANSITION
    if node["maintenance"] or not (moving or state is NodeState.ACTIVE):
        return
    reason = (
        f'its allocation cannot be removed while it is in state "{state}"; undeploy it, '
        "wait for what is under way, or put it into maintenance first"
    )
    raise errors.Conflict(node=node["uuid"], reason=reason)


def check_backfill(node: RowView, wanted: RowView) -> None:
    """Refuse an allocation for a node in use, if the two do not match.

    :param node: uuid, provision_state, resource_class, instance_uuid, allocation_uuid, traits.
    :param wanted: uuid, resource_class, traits and candidate_nodes of the allocation.
    :raises errors.InvalidParameter: the node is not active, or does not fit the allocation.
    :raises errors.Conflict: the node belongs to another allocation or instance.
    """
    faults = []
    if node["provision_state"] != NodeState.ACTIVE:
        faults.append(f'the node must be active, it is in state "{node["provision_state"]}"')
    if wanted["resource_class"] != node["resource_class"]:
        faults.append(f"its resource class is {node['resource_class']}")
    lacking = sorted(set(wanted["traits"] or ()) - set(node["traits"]))
    if lacking:
        faults.append(f"it does not have the traits {', '.join(lacking)}")
    if wanted["candidate_nodes"] and node["uuid"] not in wanted["candidate_nodes"]:
        faults.append("it is not among the candidate nodes")
    if faults:
        reason = f"cannot backfill an allocation for node {node['uuid']}: {'; '.join(faults)}"
        raise errors.InvalidParameter(path="node", reason=reason)
    if node["allocation_uuid"] or (node["instance_uuid"] or wanted["uuid"]) != wanted["uuid"]:
        held = node["allocation_uuid"] or node["instance_uuid"]
        raise errors.Conflict(
            node=node["uuid"], reason=f"it is associated with instance {held} already"
        )
