"""Differences between Ironic and this service that a move explains: rows of one table. Pure.

All other differences were made by a client, an operator or a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ironic_lite.core import masking
from ironic_lite.features.move_in.rules import ABSENT, KEPT_NOTES


class ValueDifference(NamedTuple):
    """One value that differs.

    ``name``: of the object, such as a UUID. ``path``: the keys that lead to the value in it, empty
    for an object of one side alone. ``there`` is Ironic's value, ``here`` that of this service.
    ``whole``: the objects around it. For an entry of the history that one side alone has: the
    newest entry there, and the oldest one that both have; the names of both begin with times.
    """

    resource: str
    name: str
    path: tuple[str, ...]
    there: object
    here: object
    whole: tuple[object, object]

    @property
    def field(self) -> str:
        """The first key of the path."""
        return self.path[0] if self.path else ""

    def around(self, key: str) -> tuple[object, object]:
        """Return both values of another key of the object."""
        there, here = (one.get(key) if isinstance(one, dict) else None for one in self.whole)
        return there, here


class ExpectedDifference(NamedTuple):
    """A rule: the differences that it fits are counted only."""

    name: str
    text: str
    fits: Callable[[ValueDifference], bool]


NODES, DRIVERS, HISTORY = "nodes", "drivers", "nodes/history"
BOOT_DEVICE = "nodes/boot device"
_STEPS = frozenset({"clean_step", "deploy_step", "service_step"})
_READINGS = (("updated_at",), ("driver_internal_info", "last_power_state_change"))


def _is_link(one: ValueDifference) -> bool:
    return one.field == "links" or any(map(has_links, (one.there, one.here)))


def has_links(value: object) -> bool:
    """Return whether a value is a list of links, as objects have them."""
    return isinstance(value, list) and bool(value) and all(map(_is_address, value))


def _is_address(value: object) -> bool:
    # The nodes of a chassis are a list of links in a list.
    return has_links(value) or (isinstance(value, dict) and value.keys() == {"href", "rel"})


def _is_conductor(one: ValueDifference) -> bool:
    return (one.resource, one.path) in ((NODES, ("conductor",)), (DRIVERS, ("hosts",)))


def _is_unread_power(one: ValueDifference) -> bool:
    is_power = (one.resource, one.path) == (NODES, ("power_state",))
    return is_power and (one.there is None) != (one.here is None)


def _is_reading(one: ValueDifference) -> bool:
    return one.resource == NODES and one.path in _READINGS


def _is_note(one: ValueDifference) -> bool:
    is_note = one.resource == NODES and one.field == "driver_internal_info" and len(one.path) > 1
    return is_note and one.path[1] not in KEPT_NOTES


def _is_history(one: ValueDifference) -> bool:
    """Return whether an entry is older than all others, or newer, or has another UUID."""
    if one.resource != HISTORY:
        return False
    if one.path:
        return one.path == ("uuid",)
    newest, oldest_of_both = map(str, one.whole)
    return one.name > newest if one.there is ABSENT else one.name < oldest_of_both


def _is_default(one: ValueDifference) -> bool:
    named = one.resource == NODES and len(one.path) == 1 and one.field.endswith("_interface")
    return named and one.there is None


def _is_mask(one: ValueDifference) -> bool:
    return one.here == masking.MASK and one.there is not None and one.there is not ABSENT


def _is_unread_boot_device(one: ValueDifference) -> bool:
    """Return whether a service has answered with a status alone."""
    is_text = isinstance(one.there, str) or isinstance(one.here, str)
    return one.resource == BOOT_DEVICE and not one.path and is_text


def _is_step(one: ValueDifference) -> bool:
    if one.resource != NODES or one.field not in _STEPS or one.around(one.field)[1]:
        return False
    state, _ = one.around("provision_state")
    return str(state).endswith(("failed", "error"))


EXPECTED: tuple[ExpectedDifference, ...] = (
    ExpectedDifference("links", "addresses of the two services", _is_link),
    ExpectedDifference("conductor", "each service has conductors of its own", _is_conductor),
    ExpectedDifference("power state", "one service has not read it yet", _is_unread_power),
    ExpectedDifference(
        "power reading", "updated_at changes with each reading of the power", _is_reading
    ),
    ExpectedDifference("driver_internal_info", "a move keeps few keys of these notes", _is_note),
    ExpectedDifference(
        "history", "UUIDs are new, oldest entries stay there, newest are here", _is_history
    ),
    ExpectedDifference(
        "defaults", "an interface that is unset there has its default here", _is_default
    ),
    ExpectedDifference("masks", "a secret that is shown there is masked here", _is_mask),
    ExpectedDifference(
        "health",
        "each service reads it itself",
        lambda one: (one.resource, one.field) == (NODES, "health"),
    ),
    ExpectedDifference(
        "boot device", "the BMC did not answer one of the services", _is_unread_boot_device
    ),
    ExpectedDifference("steps", "a failed node has no step here", _is_step),
)
"""The rules; the first one that fits counts."""


def rule_of(one: ValueDifference) -> ExpectedDifference | None:
    """Return the rule that explains a difference, None for an unexpected one."""
    return next((rule for rule in EXPECTED if rule.fits(one)), None)
