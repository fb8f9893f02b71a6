"""The activities of the service: one row for each, with its states, words and limits.

Recovery, history, time-outs and heartbeats by state follow from these rows. The states in which
agents may look up their node are in ``domain/states``.
``conductor/flows/activities`` joins each row with its functions. A test fails if a busy or waiting
state has no row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ironic_lite.core.json_types import JsonView
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import Node, StoredStep


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Work of the service on a node, between two stable states.

    ``name`` is the word in sentences about the work; ``history`` Ironic's word in the history of a
    node. ``busy``, ``waiting``, ``held`` and ``failed`` are the states of this activity alone.

    ``timeout`` is the option of [conductor] with the seconds that a wait may last; ``overdue`` the
    words between "Timeout reached while" and the node. ``limit`` is the option of [conductor] with
    the number of nodes that may do this, and all else with the same option, at once.
    ``in_maintenance`` False: maintenance of the node ends the activity as soon as it waits or a
    step has ended.
    """

    name: str
    history: str
    busy: State
    waiting: State | None = None
    held: State | None = None
    failed: State | None = None
    timeout: str | None = None
    overdue: str = ""
    limit: str | None = None
    in_maintenance: bool = True

    @property
    def states(self) -> tuple[State, ...]:
        """All states of this activity alone."""
        every = (self.busy, self.waiting, self.held, self.failed)
        return tuple(state for state in every if state is not None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepActivity(Activity):
    """An activity that runs a list of steps.

    ``column`` is the node field with the step under way. ``flow`` names the list in the history;
    ``manual_flow`` does so if an operator asked for the steps. ``repeats_any_step`` True: a step
    during which a conductor was lost runs again, whether or not it is marked ``rerunnable``.
    """

    kind: StepKind
    flow: str
    column: str | None = None
    manual_flow: str | None = None
    repeats_any_step: bool = False

    def step_of(self, node: Node) -> StoredStep:
        """Return the step under way, as the node shows it; empty between steps."""
        step: StoredStep | None = getattr(node, self.column) if self.column else None
        return step or {}


S = State

VERIFY = StepActivity(
    name="verify",
    history="verify",
    busy=S.VERIFYING,
    kind=StepKind.VERIFY,
    flow="verification",
    repeats_any_step=True,
)
INSPECT = Activity(
    name="inspect",
    history="introspection",
    busy=S.INSPECTING,
    waiting=S.INSPECTWAIT,
    failed=S.INSPECTFAIL,
    timeout="inspect_wait_timeout",
    overdue="inspecting the node",
)
CLEAN = StepActivity(
    name="clean",
    history="cleaning",
    busy=S.CLEANING,
    waiting=S.CLEANWAIT,
    held=S.CLEANHOLD,
    failed=S.CLEANFAIL,
    timeout="clean_callback_timeout",
    overdue="cleaning the node",
    limit="max_concurrent_clean",
    in_maintenance=False,
    kind=StepKind.CLEAN,
    column="clean_step",
    flow="automated_cleaning",
    manual_flow="manual_cleaning",
    repeats_any_step=True,  # S2.24
)
DEPLOY = StepActivity(
    name="deploy",
    history="deploying",
    busy=S.DEPLOYING,
    waiting=S.DEPLOYWAIT,
    held=S.DEPLOYHOLD,
    failed=S.DEPLOYFAIL,
    timeout="deploy_callback_timeout",
    overdue="waiting for callback for node",
    limit="max_concurrent_deploy",
    in_maintenance=False,
    kind=StepKind.DEPLOY,
    column="deploy_step",
    flow="deployment",
)
SERVICE = StepActivity(
    name="service",
    history="servicing",
    busy=S.SERVICING,
    waiting=S.SERVICEWAIT,
    held=S.SERVICEHOLD,
    failed=S.SERVICEFAIL,
    timeout="service_callback_timeout",
    overdue="servicing the node",
    in_maintenance=False,
    kind=StepKind.SERVICE,
    column="service_step",
    flow="servicing",
)
DELETE = Activity(
    name="delete",
    history="unprovision",
    busy=S.DELETING,
    failed=S.ERROR,
    limit="max_concurrent_clean",
)
ADOPT = Activity(name="adopt", history="adoption", busy=S.ADOPTING, failed=S.ADOPTFAIL)
RESCUE = Activity(
    name="rescue",
    history="rescue",
    busy=S.RESCUING,
    waiting=S.RESCUEWAIT,
    failed=S.RESCUEFAIL,
    timeout="rescue_callback_timeout",
    overdue="rescuing the node",
    in_maintenance=False,
)
UNRESCUE = Activity(name="unrescue", history="rescue", busy=S.UNRESCUING, failed=S.UNRESCUEFAIL)

TABLE = tuple(one for one in list(globals().values()) if isinstance(one, Activity))

_BY_STATE: Mapping[str, Activity] = {
    state: activity for activity in TABLE for state in activity.states
}


def of(state: str) -> Activity | None:
    """Return the activity that a state belongs to; None for a state of rest."""
    return _BY_STATE.get(state)


def stepping(state: str) -> StepActivity | None:
    """Return the activity whose steps run, wait or are held in this state."""
    activity = of(state)
    if not isinstance(activity, StepActivity) or state == activity.failed:
        return None
    return activity


def step_under_way(node: JsonView) -> StoredStep | None:
    """Return the step that a node runs, waits for or is held at; None between steps.

    :param node: with provision_state and the columns of steps.
    """
    activity = stepping(node["provision_state"])
    return (node[activity.column] or None) if activity is not None and activity.column else None


def waiting(state: str) -> Activity | None:
    """Return the activity that waits in this state."""
    activity = of(state)
    return activity if activity is not None and state == activity.waiting else None


def limited(option: str) -> tuple[State, ...]:
    """Return the states in which a node counts for this limit."""
    found = (activity for activity in TABLE if activity.limit == option)
    return tuple(
        state for each in found for state in (each.busy, each.waiting) if state is not None
    )
