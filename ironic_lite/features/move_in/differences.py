"""Differences between Ironic and this service that a move explains: rows of one table. Pure.

All other differences were made by a client, an operator or a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
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


class MoveNotes(NamedTuple):
    """Records of the imports of this service: left-out nodes, and names that were mapped.

    ``groups`` and ``nodes``: all that was to be imported; empty if this was the whole Ironic.
    ``names``: old and new names by kind. ``paths``: old and new beginnings.
    """

    left_out: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    names: Mapping[str, JsonView] = {}
    paths: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, imports: Sequence[Json]) -> MoveNotes:
        """Return the notes of all imports. Raises KeyError etc. for documents of another form."""
        chosen = [one["selection"] for one in imports]
        whole = any(not one["groups"] and not one["nodes"] for one in chosen)
        found: dict[str, Json] = {}
        for one in imports:
            for kind, names in one["maps"]["names"].items():
                found.setdefault(kind, {}).update(names)
        return cls(
            frozenset(node["uuid"] for one in imports for node in one["left_out"]),
            frozenset(() if whole else (name for one in chosen for name in one["groups"])),
            frozenset(() if whole else (name for one in chosen for name in one["nodes"])),
            found,
            tuple((old, new) for one in imports for old, new in one["maps"]["paths"]),
        )

    def explain_absence(self, node: JsonView) -> bool:
        """Return whether a node of Ironic is not here on purpose."""
        names = {str(node.get("uuid")), str(node.get("name"))}
        if names & self.left_out:
            return True
        group = str(node.get("conductor_group")).lower()
        chosen = group in self.groups or bool(names & self.nodes)
        return bool(self.groups or self.nodes) and not chosen


class ExpectedDifference(NamedTuple):
    """A rule: the differences that it fits are counted only."""

    name: str
    text: str
    fits: Callable[[ValueDifference, MoveNotes], bool]


SECONDS = len("2026-11-30T17:06:08")
"""Length of a time without its fraction."""
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
    if isinstance(one.here, dict) and one.here.get("event_type") == "import":
        return True
    newest, oldest_of_both = map(str, one.whole)
    return one.name > newest if one.there is ABSENT else one.name < oldest_of_both


def _is_time(one: ValueDifference) -> bool:
    """Return whether a time is the same to the second, which is all that Ironic's MariaDB keeps."""
    times = isinstance(one.there, str) and isinstance(one.here, str) and one.path
    return (
        bool(times) and one.path[-1].endswith("_at") and _seconds(one.there) == _seconds(one.here)
    )


def _seconds(value: object) -> str:
    return str(value)[:SECONDS]


def _is_default(one: ValueDifference) -> bool:
    named = one.resource == NODES and len(one.path) == 1 and one.field.endswith("_interface")
    return named and one.there is None


def _is_mask(one: ValueDifference) -> bool:
    return one.here == masking.MASK and one.there is not None and one.there is not ABSENT


def _is_unread_boot_device(one: ValueDifference) -> bool:
    """Return whether a service has answered with a status alone, or no device is set."""
    if one.resource != BOOT_DEVICE:
        return False
    if one.path == ("persistent",):
        return one.around("boot_device") == (None, None)
    return not one.path and (isinstance(one.there, str) or isinstance(one.here, str))


def _is_mapped(one: ValueDifference, moves: MoveNotes) -> bool:
    if one.resource == DRIVERS:
        return one.name in moves.names.get("driver", {}) and one.here is ABSENT
    is_name = one.resource == NODES and bool(one.path)
    is_rule = isinstance(one.there, str) and one.here == f"(?:{one.there})(?s:.*)"
    return is_rule or (is_name and (_has_mapped_name(one, moves) or _has_mapped_path(one, moves)))


def _has_mapped_name(one: ValueDifference, moves: MoveNotes) -> bool:
    kind = one.field.removesuffix("_interface")
    mapped = moves.names.get(kind, {}).get(str(one.there))
    if one.around("driver")[0] in moves.names.get("driver", {}):
        # Interfaces that the new driver does not have become its defaults.
        return one.field == "driver_info" or kind != one.field or mapped == one.here
    return mapped is not None and mapped == one.here


def _has_mapped_path(one: ValueDifference, moves: MoveNotes) -> bool:
    if one.field != "driver_info" or not (isinstance(one.there, str) and isinstance(one.here, str)):
        return False
    return one.here in (new + one.there.removeprefix(old) for old, new in moves.paths)


def _is_dropped(one: ValueDifference) -> bool:
    if one.resource == "nodes/bios":
        kind = str(one.around("attribute_type")[0]).lower()
        return (one.path, kind, one.here) == (("value",), "password", None)
    return one.path == ("instance_info", "rescue_password") and one.here is ABSENT


def _is_target(one: ValueDifference) -> bool:
    is_target = (one.resource, one.path) == (NODES, ("target_provision_state",))
    states = one.around("provision_state")
    return is_target and one.here is None and states == ("error", "error")


def _is_step(one: ValueDifference) -> bool:
    if one.resource != NODES or one.field not in _STEPS or one.around(one.field)[1]:
        return False
    state, _ = one.around("provision_state")
    return str(state).endswith(("failed", "error"))


def _is_health(one: ValueDifference) -> bool:
    return (one.resource, one.field) == (NODES, "health")


def _is_vif(one: ValueDifference) -> bool:
    return one.resource == "nodes/vifs" and one.there is ABSENT


def _row(name: str, text: str, fits: Callable[[ValueDifference], bool]) -> ExpectedDifference:
    return ExpectedDifference(name, text, lambda one, _moves: fits(one))


LEFT_OUT = _row("left out", "nodes that were not imported, and their parts", lambda _one: False)
"""The rule of objects that are not here on purpose."""
EXPECTED: tuple[ExpectedDifference, ...] = (
    ExpectedDifference("maps", "names that the import has changed", _is_mapped),
    _row("links", "addresses of the two services", _is_link),
    _row("conductor", "each service has conductors of its own", _is_conductor),
    _row("power state", "one service has not read it yet", _is_unread_power),
    _row("power reading", "updated_at changes with each reading of the power", _is_reading),
    _row("driver_internal_info", "a move keeps few keys of these notes", _is_note),
    _row("times", "Ironic's database may keep whole seconds", _is_time),
    _row("history", "UUIDs are new, oldest entries stay there, newest are here", _is_history),
    _row("defaults", "an interface that is unset there has its default here", _is_default),
    _row("masks", "a secret that is shown there is masked here", _is_mask),
    _row("health", "each service reads it itself", _is_health),
    _row("boot device", "a BMC has not answered, or names no device", _is_unread_boot_device),
    _row("steps", "a failed node has no step here", _is_step),
    _row("targets", "a node in error has no target here", _is_target),
    _row("dropped", "the import drops these secrets", _is_dropped),
    _row("vifs", "Ironic's interface noop does not list the VIFs of a node", _is_vif),
)
"""The rules; the first one that fits counts."""


def rule_of(one: ValueDifference, moves: MoveNotes) -> ExpectedDifference | None:
    """Return the rule that explains a difference, None for an unexpected one."""
    return next((rule for rule in EXPECTED if rule.fits(one, moves)), None)
