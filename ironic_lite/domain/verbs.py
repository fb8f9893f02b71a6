"""The provision verbs: values of ``target``, their first versions and bodies.

They are the targets of PUT .../states/provision; ``docs/states.rst`` shows the table.
CONTRIBUTING.rst lists the other places of a new verb.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import states
from ironic_lite.domain.states import State


@dataclasses.dataclass(frozen=True, slots=True)
class Verb:
    """One value of ``target``.

    ``event`` is fed to the state table; ``since`` the first minor API version; ``allows`` the body
    keys besides target, each with its first minor version; ``needs`` the keys of which one is
    required; ``in_maintenance`` False refuses a node in maintenance; ``refused_if_protected``
    refuses protected nodes, ``refused_if_retired`` retired ones (S4.7); ``state_since`` raises
    ``since`` in some states; ``after_fault`` admits a node in maintenance if the failed run has set
    it.
    """

    target: str
    event: str
    since: int
    allows: Mapping[str, int] = dataclasses.field(default_factory=dict)
    needs: tuple[str, ...] = ()
    in_maintenance: bool = True
    refused_if_protected: bool = False
    refused_if_retired: bool = False
    state_since: Mapping[State, int] = dataclasses.field(default_factory=dict)
    after_fault: bool = False


_DEPLOY: Mapping[str, int] = {"configdrive": 1, "deploy_steps": 69}
_REBUILD: Mapping[str, int] = {"configdrive": 35, "deploy_steps": 69}
_CLEAN: Mapping[str, int] = {"clean_steps": 15, "runbook": 92, "disable_ramdisk": 70}
_SERVICE: Mapping[str, int] = {"service_steps": 87, "runbook": 92, "disable_ramdisk": 108}

TABLE: tuple[Verb, ...] = (
    Verb("active", "deploy", 1, _DEPLOY, in_maintenance=False),
    Verb("deploy", "deploy", 73, in_maintenance=False),
    Verb("rebuild", "rebuild", 1, _REBUILD, in_maintenance=False, refused_if_protected=True),
    Verb("deleted", "delete", 1, refused_if_protected=True),
    Verb("undeploy", "delete", 1, refused_if_protected=True),
    Verb("manage", "manage", 4),
    Verb("provide", "provide", 4, refused_if_retired=True),
    Verb("cleaned", "provide", 4, refused_if_retired=True),  # S2.16
    Verb("available", "available", 4, refused_if_retired=True),  # S2.18
    Verb("inspect", "inspect", 6),
    Verb(
        "abort",
        "abort",
        13,
        state_since={State.INSPECTWAIT: 41, State.DEPLOYWAIT: 110},
    ),
    Verb("clean", "clean", 15, _CLEAN, ("clean_steps", "runbook"), in_maintenance=False),  # S1.14
    Verb("adopt", "adopt", 17),
    Verb(
        "rescue",
        "rescue",
        38,
        {"rescue_password": 38},
        ("rescue_password",),
        in_maintenance=False,
    ),
    Verb("unrescue", "unrescue", 38, in_maintenance=False),
    Verb("unhold", "unhold", 85),
    Verb("service", "service", 87, _SERVICE, ("service_steps", "runbook"), in_maintenance=False),
    Verb(
        "retry",
        "retry",
        1,
        {"retry": 1},
        in_maintenance=False,
        after_fault=True,
    ),
)

DISCOVERY = "discovery"
"""The verb of runs that no request for a verb begins: an unknown machine is enrolled."""

BY_TARGET: Mapping[str, Verb] = {verb.target: verb for verb in TABLE}
BY_EVENT: Mapping[str, Verb] = {verb.event: verb for verb in reversed(TABLE)}
"""The row of each event; of targets with one event, the first."""

BODY_KEYS = (
    "target",
    "configdrive",
    "clean_steps",
    "deploy_steps",
    "rescue_password",
    "disable_ramdisk",
    "service_steps",
    "runbook",
    "retry",
)
_RUN_FAULTS = ("clean failure", "service failure")
MAINTENANCE_COLUMNS = ("provision_state", "maintenance", "fault")
"""Columns of a node that `in_maintenance` reads."""


def owners(key: str) -> list[str]:
    """Return the targets whose body may hold ``key``, for errors about other targets."""
    return [verb.target for verb in TABLE if key in verb.allows]


def possible(verb: Verb, state: State) -> bool:
    """Return whether the state table lets ``verb`` start in ``state``.

    While cleaning only ``abort`` is allowed (S2.22, C27). The table has internal events of the same
    name from busy states (``manage`` ends a manual clean), which clients cannot use.
    """
    if states.kind(state) is states.Kind.BUSY:
        return False
    return states.allows(state, verb.event)


def in_maintenance(verb: Verb, node: JsonView, *, cleans: bool) -> bool:
    """Return whether ``verb`` may start on a node that is in maintenance.

    :param node: has ``MAINTENANCE_COLUMNS``.
    :param cleans: ``[conductor]allow_provisioning_in_maintenance``.
    """
    if verb.after_fault:  # the conductor also checks that no operator has set the maintenance
        return node["fault"] in _RUN_FAULTS
    return verb.in_maintenance and (cleans or verb.event != "provide")


def leads_to(verb: Verb, state: State, *, target: str | None, retired: bool) -> State:
    """Return the state of the node when the work of ``verb`` has ended well.

    :param state: the state in which it starts.
    :param target: the node's target provision state, to which an unhold or a retry continues.
    """
    after = states.follow(state, verb.event)
    if verb.event == "clean":
        return State.MANAGEABLE
    if verb.event in ("unhold", "retry") and target:
        return State(target)
    end = after if states.kind(after) is states.Kind.FAIL else states.STATES[after].target or after
    cleaned = after in (State.DELETING, State.CLEANING)
    return State.MANAGEABLE if retired and cleaned and end is State.AVAILABLE else end


def offered(state: State, version: int) -> list[str]:
    """Return the targets available in ``state``; of synonyms, the first.

    :param version: the client's minor API version.
    """
    found: dict[str, str] = {}
    for verb in TABLE:
        since = max(verb.since, verb.state_since.get(state, 1))
        if version >= since and possible(verb, state):
            found.setdefault(verb.event, verb.target)
    return list(found.values())


# The deletion of a node: the states and settings that forbid it.

DELETION_COLUMNS = ("uuid", "provision_state", "protected", "maintenance", "instance_uuid")
"""Columns of a node that `check` reads."""


def check_deletion(node: JsonView, *, available: bool) -> None:
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
