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


def of_holds(asked: VerbRequest) -> Refusals:
    """Refuse a verb that a hold blocks."""
    verb = asked.verb
    why = holds.refusal(asked.node["uuid"], asked.held, verb.event, verb.target)
    if why is not None:
        yield why


def of_data(asked: VerbRequest) -> Refusals:
    """Refuse to skip cleaning without a proof that the data are gone, if that is required."""
    state = asked.node["data_state"] or DataState.UNKNOWN
    required = asked.conf.conductor.require_clean_data and asked.verb.event == "available"
    if required and state != DataState.CLEAN:
        node = asked.node["uuid"]
        text = errors.DataNotProven(node=node, state=str(state)).message
        yield errors.Conflict(node=node, reason=text)


def of_protection(asked: VerbRequest) -> Refusals:
    """Refuse to end the instance of a protected node."""
    if asked.verb.refused_if_protected and asked.node["protected"]:
        yield errors.NodeProtected(node=asked.node["uuid"])


def of_retirement(asked: VerbRequest) -> Refusals:
    """Refuse a retired node on the three ways to available.

    Source: S4.7, C23.
    """
    if asked.verb.refused_if_retired and asked.node["retired"]:
        yield errors.NodeRetired(node=asked.node["uuid"])


def of_maintenance(asked: VerbRequest, *, cleans: bool = True) -> Refusals:
    """Refuse a node in maintenance; ``cleans`` False also refuses to clean it."""
    maintained = asked.node["maintenance"]
    if maintained and not verbs.in_maintenance(asked.verb, asked.node, cleans=cleans):
        yield errors.NodeInMaintenance(verb=asked.verb.target, node=asked.node["uuid"])


def of_configured_maintenance(asked: VerbRequest) -> Refusals:
    """Refuse a node in maintenance; the configuration may also forbid to clean it."""
    return of_maintenance(asked, cleans=asked.conf.conductor.allow_provisioning_in_maintenance)


def of_abort(asked: VerbRequest) -> Refusals:
    """Refuse an abort that would hide a fault."""
    failed = asked.verb.event == "abort" and asked.state is State.SERVICEFAIL
    if failed and asked.node["maintenance"]:
        reason = "end the maintenance first, because its fault is not fixed"
        yield errors.Conflict(node=asked.node["uuid"], reason=reason)


OF_ROW: tuple[Callable[[VerbRequest], Refusals], ...] = (
    of_data,
    of_protection,
    of_retirement,
    of_configured_maintenance,
    of_abort,
)
"""Checks of a conductor, in their order, after those of the state and of holds."""
