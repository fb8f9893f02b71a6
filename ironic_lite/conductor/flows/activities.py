"""The one table of activities: each with its states, words and functions.

``domain/activities`` has the states and words, each flow the functions. Everything that depends on
the state of a node asks here: failures, aborts, waits, time-outs, takeovers and verbs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ironic_lite.conductor.flows import (
    adopt,
    clean,
    delete,
    deploy,
    inspect,
    rescue,
    service,
    verify,
)
from ironic_lite.conductor.steps.phases import Flow, Phase
from ironic_lite.domain import activities
from ironic_lite.domain.activities import Activity

FLOWS: Mapping[Activity, Flow] = MappingProxyType(
    {
        flow.activity: flow
        for flow in (
            verify.PHASE,
            inspect.FLOW,
            clean.PHASE,
            deploy.PHASE,
            service.PHASE,
            delete.FLOW,
            adopt.FLOW,
            rescue.FLOW,
            rescue.UNRESCUE,
        )
    }
)


def of(state: str) -> Flow | None:
    """Return the functions of the activity that a state belongs to; None for a state of rest."""
    activity = activities.of(state)
    return None if activity is None else FLOWS[activity]


def waiting(state: str) -> Flow | None:
    """Return the functions of the activity that waits in this state."""
    flow = of(state)
    return flow if flow is not None and state == flow.activity.waiting else None


def waiting_steps(state: str) -> Phase | None:
    """Return the functions of the activity whose steps wait in this state."""
    flow = waiting(state)
    return flow if isinstance(flow, Phase) else None


def running_steps(state: str) -> Phase | None:
    """Return the functions of the activity whose steps run in this state."""
    flow = of(state)
    return flow if isinstance(flow, Phase) and state == flow.activity.busy else None


def failed_steps(state: str) -> Phase | None:
    """Return the functions of the activity whose steps have failed in this state."""
    flow = of(state)
    return flow if isinstance(flow, Phase) and state == flow.activity.failed else None
