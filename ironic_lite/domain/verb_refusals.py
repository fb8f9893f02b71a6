"""Refusals of a verb by the row of its node, for the API and for conductors.

The API makes these checks in the order of Ironic, among those of the body, before it calls a
conductor. The conductor makes them once more for the node as it is then. Each yields its refusal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.core.options import Configuration
from ironic_lite.domain import holds, verbs
from ironic_lite.domain.erasure_records import DataState
from ironic_lite.domain.states import State
from ironic_lite.domain.verbs import Verb

Refusals = Iterator[errors.Error]


@dataclasses.dataclass(frozen=True, slots=True)
class VerbRequest:
    """A request: the verb's row, the body without null values, the node, and the version.

    The node has its ``traits`` if the request names a runbook. ``held`` are its holds in force.
    """

    verb: Verb
    body: JsonView
    node: JsonView
    version: int
    conf: Configuration
    held: Sequence[holds.Hold] = ()

    @property
    def state(self) -> State:
        """The node's provision state."""
        return State(self.node["provision_state"])


def of_holds(request: VerbRequest) -> Refusals:
    """Refuse a verb that a hold blocks."""
    verb = request.verb
    why = holds.refusal(request.node["uuid"], request.held, verb.event, verb.target)
    if why is not None:
        yield why


def of_data(request: VerbRequest) -> Refusals:
    """Refuse to skip cleaning without a proof that the data are gone, if that is required."""
    state = request.node["data_state"] or DataState.UNKNOWN
    required = request.conf.conductor.require_clean_data and request.verb.event == "available"
    if required and state != DataState.CLEAN:
        node = request.node["uuid"]
        text = errors.DataNotProven(node=node, state=str(state)).message
        yield errors.Conflict(node=node, reason=text)


def of_protection(request: VerbRequest) -> Refusals:
    """Refuse to end the instance of a protected node."""
    if request.verb.refused_if_protected and request.node["protected"]:
        yield errors.NodeProtected(node=request.node["uuid"])


def of_retirement(request: VerbRequest) -> Refusals:
    """Refuse a retired node on the three ways to available.

    Source: S4.7, C23.
    """
    if request.verb.refused_if_retired and request.node["retired"]:
        yield errors.NodeRetired(node=request.node["uuid"])


def of_maintenance(request: VerbRequest, *, cleans: bool = True) -> Refusals:
    """Refuse a node in maintenance; ``cleans`` False also refuses to clean it."""
    maintained = request.node["maintenance"]
    if maintained and not verbs.in_maintenance(request.verb, request.node, cleans=cleans):
        yield errors.NodeInMaintenance(verb=request.verb.target, node=request.node["uuid"])


def of_configured_maintenance(request: VerbRequest) -> Refusals:
    """Refuse a node in maintenance; the configuration may also forbid to clean it."""
    return of_maintenance(request, cleans=request.conf.conductor.allow_provisioning_in_maintenance)


def of_abort(request: VerbRequest) -> Refusals:
    """Refuse an abort that would hide a fault."""
    failed = request.verb.event == "abort" and request.state is State.SERVICEFAIL
    if failed and request.node["maintenance"]:
        reason = "end the maintenance first, because its fault is not fixed"
        yield errors.Conflict(node=request.node["uuid"], reason=reason)


OF_ROW: tuple[Callable[[VerbRequest], Refusals], ...] = (
    of_data,
    of_protection,
    of_retirement,
    of_configured_maintenance,
    of_abort,
)
"""Checks of a conductor, in their order, after those of the state and of holds."""
