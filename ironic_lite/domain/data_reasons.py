"""The sentence of an explanation about the data of a node that are not proven to be gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ironic_lite import errors
from ironic_lite.core.configuration import Group
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain.erasure_records import DataState
from ironic_lite.domain.failures import Failure
from ironic_lite.domain.states import State

_EFFECTS: Mapping[State, str] = MappingProxyType(
    {
        State.AVAILABLE: "allocations pass it by",
        State.MANAGEABLE: "it becomes available only by a clean that proves their erasure",
        State.CLEANFAIL: "the verb available is refused",
    }
)
"""Effects of ``[conductor]require_clean_data`` on a node that is not clean."""


def state_of(node: JsonView) -> DataState:
    """Return the state of a node's data.

    :param node: with data_state.
    """
    return DataState(node["data_state"] or DataState.UNKNOWN)


def of(node: JsonView, failure: Failure | None, settings: Group) -> str:
    """Return the effect of a proof that is required and missing, as a sentence or as no text.

    :param node: with provision_state and data_state.
    :param failure: the failure that the node stands in.
    :param settings: the options of ``[conductor]``.
    """
    effect, state = _EFFECTS.get(State(node["provision_state"])), state_of(node)
    if effect is None or state is DataState.CLEAN or not settings["require_clean_data"]:
        return ""
    if failure is not None and failure.code == errors.DataNotProven.__name__:
        return ""  # the sentence of the failure has said so
    return (
        f"Its data are not proven to be erased (data_state is {state}), so {effect} "
        "([conductor]require_clean_data)."
    )
