"""Rules of a move from Ironic: the value here for a value there, and the way back. Pure.

``tables`` has the columns with their rules.
"""

from __future__ import annotations

import datetime
import enum
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, states
from ironic_lite.domain.allocations import AllocationState
from ironic_lite.domain.states import Kind, State


class Absence(enum.Enum):
    """The value of an object, key or column that one side does not have, or does not decide."""

    ABSENT = "absent"


ABSENT = Absence.ABSENT

# Schema revisions.

RELEASES: Mapping[str, str] = {
    "01f21d5e5195": "24.1 to 26.0 (2024.1)",
    "66bd9c5604d5": "26.1 (2024.2)",
    "6e9cf6acce0b": "27, 28",
    "21c48150dea9": "29 (2025.1)",
    "1c14278d6e33": "30, 31",
    "3ef27505c9fb": "32 (2025.2)",
    "15e9d00367b0": "33",
    "9f8c7d6e5b4a": "34",
    "2a3b4c5d6e7f": "35 (2026.1)",
    "e2d316b60d9e": "36, 37",
    "16990309ad9d": "38",
    "9fb44677ef15": "39 (2026.2)",
}
"""The known heads of Ironic's schema with their releases, in the order of time."""
HEADS = tuple(RELEASES)
FIRST = HEADS[0]
RUNBOOK_TRAITS = "e2d316b60d9e"
"""The revision from which traits, not names, decide about runbooks."""

# What a translation needs beside the row.


class Maps(NamedTuple):
    """Names and paths that become others.

    :ivar names: by kind of interface, or ``driver``; each by the name there.
    :ivar paths: beginnings of paths there, each with the one here.
    """

    names: Mapping[str, Mapping[str, str]] = {}
    paths: tuple[tuple[str, str], ...] = ()

    def name(self, kind: str, name: str | None) -> str | None:
        """Return the name here of a hardware type or an interface."""
        own = self.names.get(kind, {}).get(name or "", name)
        return BUILT_IN_MAPS.get((kind, own or ""), own)


DRIVER = "driver"
IN_DRIVER_INFO = "driver_info/"
BUILT_IN_MAPS: Mapping[tuple[str, str], str] = {("inspect", "inspector"): "agent"}
"""Names that Ironic's own migration changes alike."""

Interfaces = tuple[str | None, ...]
"""Names of interfaces in the order of `fields.INTERFACE_KINDS`, None for the default."""
Resolve = Callable[[str, Interfaces, bool], Interfaces]
"""Returns the interfaces of nodes with a hardware type here and interfaces under names here, of
which some may be unset; True if the hardware type was mapped."""


class Move(NamedTuple):
    """An import, and its database there.

    :ivar at: its time.
    :ivar head: the revision there.
    :ivar uuids: by table and id there; only rows that are here too.
    :ivar ids: the reverse of ``uuids``, for ways back.
    :ivar links: the node of each allocation that the node names too, by ids there.
    :ivar resolve: the interfaces of nodes here.
    :ivar portgroup_mode: of portgroups without one.
    :ivar end: work under way has ended.
    """

    at: datetime.datetime
    head: str
    uuids: Mapping[str, Mapping[int, str]] = {}
    ids: Mapping[str, Mapping[str, int]] = {}
    links: Mapping[int, int] = {}
    maps: Maps = Maps()
    resolve: Resolve = lambda _driver, names, _mapped: names
    portgroup_mode: str = "active-backup"
    end: bool = False


def equal(one: object, other: object) -> bool:
    """Compare JSON values, of which True is not 1."""
    return one == other and text_of(one) == text_of(other)


def text_of(value: object) -> bytes:
    """Return an equal text for equal JSON values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


# Rules of columns.

Here = Callable[[Any, JsonView, Move], Any]
"""Returns the value here for a value there and its row."""
There = Callable[[Any, JsonView, JsonView, Move], Any]
"""Returns the value there for a value here, its row, and the row there, empty for a new one."""


class ColumnRule(NamedTuple):
    """The value of a column here, and the way back."""

    here: Here = lambda value, _row, _move: value
    there: There = lambda value, _row, _theirs, _move: value


SAME = ColumnRule()


def or_default(default: object) -> ColumnRule:
    """Return the rule of a column whose NULL means a value."""
    return ColumnRule(lambda value, _row, _move: default if value is None else value)


OFF, ON, OBJECT, LIST = map(or_default, (False, True, {}, []))
KNOWN = ColumnRule(there=lambda value, _row, _theirs, _move: ABSENT if value is None else value)
LOWER = ColumnRule(lambda value, _row, _move: value if value is None else value.lower())
GROUP = ColumnRule(lambda value, _row, _move: (value or "").lower())
MADE = ColumnRule(lambda value, _row, move: move.at if value is None else value)
"""Time of a row's creation."""


def _uuid_here(value: str | None, _row: JsonView, _move: Move) -> str | None:
    return value if value is None else canonical_uuid(value)


def canonical_uuid(text: str) -> str:
    """Return a UUID in lower case with hyphens, other texts as they are."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return text


UUID = ColumnRule(_uuid_here)


def reference(table: str) -> ColumnRule:
    """Return the rule of an id there, which is a UUID here."""

    def here(value: int | None, _row: JsonView, move: Move) -> str | None:
        return None if value is None else move.uuids.get(table, {}).get(value)

    def there(value: str | None, _row: JsonView, _theirs: JsonView, move: Move) -> int | None:
        return None if value is None else move.ids.get(table, {}).get(value)

    return ColumnRule(here, there)


NODE = reference("nodes")

# Rules of nodes.

UNFINISHED = states.of_kind(Kind.BUSY, Kind.WAIT, Kind.HELD)
"""States that an import takes only if it ends them."""
_STATES = frozenset(map(str, State))


def state_of(row: JsonView) -> State | None:
    """Return the provision state of a node there, None for one that is unknown here."""
    state = row["provision_state"] or State.AVAILABLE
    return State(state) if state in _STATES else None


def ended_state(state: State) -> State:
    """Return the fail state of work under way."""
    waits = states.follow(state, "unhold") if states.kind(state) is Kind.HELD else state
    return states.follow(waits, "fail")


def _ends(row: JsonView, move: Move) -> State | None:
    """Return the state whose work the import ends, None for a node at rest."""
    state = state_of(row)
    return state if move.end and state in UNFINISHED else None


def _state_here(value: str | None, row: JsonView, move: Move) -> str:
    ended = _ends(row, move)
    return str(value or State.AVAILABLE) if ended is None else str(ended_state(ended))


STATE = ColumnRule(_state_here)


def _target_here(value: str | None, row: JsonView, move: Move) -> str | None:
    state = state_of({"provision_state": _state_here(row["provision_state"], row, move)})
    return value if state is not None and states.kind(state) is Kind.FAIL else None


TARGET = ColumnRule(_target_here)


def _error_here(value: str | None, row: JsonView, move: Move) -> str | None:
    ended = _ends(row, move)
    if ended is None and not (move.end and row["reservation"]):
        return value
    conductor = f"whose conductor {row['reservation']} was" if row["reservation"] else "which was"
    return (
        f"It was in {ended or row['provision_state']} when it was imported from Ironic, "
        f"{conductor} stopped. Look at the machine before the next verb."
    )


ERROR = ColumnRule(_error_here)


_FAULTS = {State.CLEANFAIL: "clean failure", State.SERVICEFAIL: "service failure"}
"""Faults of nodes whose work is ended, by the state that follows."""


def _ended_fault(row: JsonView, move: Move) -> str | None:
    ended = _ends(row, move)
    return None if ended is None else _FAULTS.get(ended_state(ended))


def _fault_here(value: str | None, row: JsonView, move: Move) -> str | None:
    return _ended_fault(row, move) or value


FAULT = ColumnRule(_fault_here)


def _maintenance_here(value: bool | None, row: JsonView, move: Move) -> bool:
    return bool(value) or _ended_fault(row, move) is not None


MAINTENANCE = ColumnRule(_maintenance_here)


def _reason_here(value: str | None, row: JsonView, move: Move) -> str | None:
    faulty = value is None and _ended_fault(row, move) is not None
    return _error_here(None, row, move) if faulty else value


REASON = ColumnRule(_reason_here)


def _moved_here(
    value: datetime.datetime | None, row: JsonView, move: Move
) -> datetime.datetime | None:
    return value if _ends(row, move) is None else move.at


MOVED = ColumnRule(_moved_here)


def _power_here(value: str | None, row: JsonView, move: Move) -> str | None:
    spared = row["retired"] or _maintenance_here(row["maintenance"], row, move)
    return value if spared else None


POWER = ColumnRule(_power_here, KNOWN.there)


def mapped_driver(row: JsonView, move: Move) -> str:
    """Return the hardware type of a node here."""
    return str(move.maps.name(DRIVER, row[DRIVER]))


HARDWARE_TYPE = ColumnRule(lambda _value, row, move: mapped_driver(row, move))


def named_interfaces(row: JsonView, move: Move) -> Interfaces:
    """Return the interfaces that a node names, under their names here."""
    kinds = fields.INTERFACE_KINDS
    return tuple(move.maps.name(kind, row.get(f"{kind}_interface")) for kind in kinds)


def interface(place: int) -> ColumnRule:
    def here(_value: str | None, row: JsonView, move: Move) -> str | None:
        driver = mapped_driver(row, move)
        return move.resolve(driver, named_interfaces(row, move), driver != row[DRIVER])[place]

    return ColumnRule(here)


KEPT_NOTES = frozenset(
    {
        *("is_whole_disk_image", "root_uuid_or_disk_id", "deploy_boot_mode"),
        *("automatic_lessee", "last_power_state_change", "original_deploy_interface"),
    }
)
"""Keys of ``driver_internal_info`` that a move keeps."""
RAMDISK_PORTS = frozenset(
    f"{work}_vif_port_id"
    for work in ("cleaning", "provisioning", "rescuing", "inspection", "servicing")
)
"""Keys of ``internal_info`` with the Neutron port of a ramdisk, which a move drops."""


def _some_keys(column: str, kept: Callable[[str], bool]) -> ColumnRule:
    """Return the rule of an object of which some keys stay there."""

    def here(value: Json | None, _row: JsonView, _move: Move) -> Json:
        return {key: held for key, held in (value or {}).items() if kept(key)}

    def there(value: Json | None, _row: JsonView, theirs: JsonView, _move: Move) -> Json:
        others = {k: held for k, held in (theirs.get(column) or {}).items() if not kept(k)}
        return {**others, **{k: held for k, held in (value or {}).items() if kept(k)}}

    return ColumnRule(here, there)


NOTES = _some_keys("driver_internal_info", KEPT_NOTES.__contains__)
PORT_NOTES = _some_keys("internal_info", lambda key: key not in RAMDISK_PORTS)


def _instance_here(value: Json | None, _row: JsonView, _move: Move) -> Json:
    hashed = _HASH in (value or {})
    return {k: v for k, v in (value or {}).items() if not (hashed and k == _RESCUE)}


def _instance_there(value: Json | None, _row: JsonView, theirs: JsonView, _move: Move) -> Json:
    held, here = theirs.get("instance_info") or {}, value or {}
    if _RESCUE in held and _HASH in held and held[_HASH] == here.get(_HASH):
        return {_RESCUE: held[_RESCUE], **here}
    return here


_HASH, _RESCUE = "hashed_rescue_password", "rescue_password"
INSTANCE = ColumnRule(_instance_here, _instance_there)


# The login at a BMC, of types that Ironic has removed.
_TO_REDFISH: Mapping[str, str] = {"ilo": "ilo", "ilo5": "ilo", "irmc": "irmc"}
_REDFISH, _HTTPS = "redfish", "https://"
_LOGIN = ("address", "username", "password", "verify_ca")
_OLD_CERTIFICATE = "ca_file"


def _login_keys(row: JsonView, move: Move) -> dict[str, str]:
    """Return the keys here of the login of a node whose hardware type becomes redfish.

    A key of redfish that the node has there stays, and so does the key that would become it.
    """
    prefix = _TO_REDFISH.get(row.get(DRIVER) or "")
    if prefix is None or mapped_driver(row, move) != _REDFISH:
        return {}
    held = row.get("driver_info") or {}
    keys = {f"{prefix}_{name}": f"{_REDFISH}_{name}" for name in _LOGIN}
    if _OLD_CERTIFICATE in held and f"{prefix}_verify_ca" not in held:
        keys[_OLD_CERTIFICATE] = keys.pop(f"{prefix}_verify_ca")
    return {old: new for old, new in keys.items() if new not in held}


def unread_keys(row: JsonView, move: Move) -> list[str]:
    """Return the keys of such a login that redfish does not read, because it has another value."""
    read = _login_keys(row, move)
    prefix = _TO_REDFISH.get(row.get(DRIVER) or "")
    if prefix is None or mapped_driver(row, move) != _REDFISH:
        return []
    known = {_OLD_CERTIFICATE, *(f"{prefix}_{name}" for name in _LOGIN)}
    return sorted(known & (row["driver_info"] or {}).keys() - read.keys())


def _driver_info_here(value: Json | None, row: JsonView, move: Move) -> Json:
    keys = _login_keys(row, move)
    return {
        keys.get(key, key): _path_of(
            _as_url(held) if keys.get(key) == f"{_REDFISH}_address" else held,
            () if masking.secret(key) else move.maps.paths,
        )
        for key, held in (value or {}).items()
    }


def _as_url(address: Any) -> Any:
    known = not isinstance(address, str) or "://" in address
    return address if known else f"{_HTTPS}{address}"


def _map_of_path(value: Any, paths: Iterable[tuple[str, str]]) -> tuple[str, str, str] | None:
    """Return old and new beginning of a path, or a file URL, and the path that this makes."""
    if isinstance(value, str):
        for old, new in paths:
            for lead in ("", "file://"):
                rest = value.removeprefix(lead + old)
                if rest != value and (not rest or "/" in (rest[0], old[-1])):
                    return old, new, f"{lead}{new}{rest}"
    return None


def _path_of(value: Any, paths: Iterable[tuple[str, str]]) -> Any:
    found = _map_of_path(value, paths)
    return value if found is None else found[2]


def mapped_paths(row: JsonView, maps: Maps) -> Iterator[tuple[str, str, str]]:
    """Yield the key of each path of a node there that a map changes, and both beginnings."""
    for key, value in (row["driver_info"] or {}).items() if maps.paths else ():
        found = None if masking.secret(key) else _map_of_path(value, maps.paths)
        if found is not None:
            yield key, found[0], found[1]


def _driver_info_there(value: Json | None, _row: JsonView, theirs: JsonView, move: Move) -> Json:
    """Keep each value there whose value here is as the import has made it."""
    keys, held, here = _login_keys(theirs, move), theirs.get("driver_info") or {}, value or {}
    before = _driver_info_here(held, theirs, move) if held else {}
    old_keys = {new: old for old, new in keys.items()}
    found = {
        old: one if equal(before[new], here[new]) else _back(old, new, here[new], held, move)
        for old, one in held.items()
        if (new := keys.get(old, old)) in here
    }
    more = {old_keys.get(new, new): new for new in here.keys() - before.keys()}
    return found | {old: _back(old, new, here[new], held, move) for old, new in more.items()}


def _back(old: str, new: str, value: Any, held: JsonView, move: Move) -> Any:
    """Return the value there of a key that was changed here."""
    plain = old != new and "://" not in str(held.get(old))
    if new == f"{_REDFISH}_address" and plain and isinstance(value, str):
        value = value.removeprefix(_HTTPS)
    paths = () if masking.secret(new) else ((here, there) for there, here in move.maps.paths)
    return _path_of(value, paths)


DRIVER_INFO = ColumnRule(_driver_info_here, _driver_info_there)


# Rules of other tables.


def _allocation_here(value: int | None, row: JsonView, move: Move) -> str | None:
    named = value is not None and move.links.get(value) == row["id"]
    return move.uuids.get("allocations", {}).get(value) if named and value is not None else None


ALLOCATION = ColumnRule(_allocation_here, reference("allocations").there)


def _allocated_here(value: int | None, row: JsonView, move: Move) -> str | None:
    named = value is not None and move.links.get(row["id"]) == value
    return move.uuids.get("nodes", {}).get(value) if named and value is not None else None


ALLOCATED = ColumnRule(_allocated_here, NODE.there)


_SEARCHED = "it was looking for a node when it was imported; create it again"


def _allocation_state_here(value: str, _row: JsonView, _move: Move) -> str:
    searching = value == AllocationState.ALLOCATING
    return str(AllocationState.ERROR) if searching else value


ALLOCATION_STATE = ColumnRule(_allocation_state_here)


def _allocation_error_here(value: str | None, row: JsonView, _move: Move) -> str | None:
    return _SEARCHED if row["state"] == AllocationState.ALLOCATING else value


ALLOCATION_ERROR = ColumnRule(_allocation_error_here)


def _setting_here(value: str | None, row: JsonView, _move: Move) -> str | None:
    return None if row["attribute_type"] == "Password" else value


def _setting_there(value: str | None, row: JsonView, _theirs: JsonView, _move: Move) -> Any:
    return ABSENT if row["attribute_type"] == "Password" else value


SETTING = ColumnRule(_setting_here, _setting_there)


_FLAGS = re.compile(r"(?:\(\?[aiLmsux]+\))*")
_REST = "(?s:.*)"


def expression_here(text: str) -> str:
    """Return an expression for whole texts that matches what Ironic's matches.

    Ironic's begins at the start of the text, and gets a dollar sign unless it ends in one.
    """
    whole = text if text.endswith("$") else f"{text}$"
    found = _FLAGS.match(whole)
    lead = found[0] if found else ""
    return f"{lead}(?:{whole[len(lead) :]}){_REST}"


def expression_there(text: str) -> str:
    """Return an expression of Ironic's that matches the same texts as one of ours."""
    found = _FLAGS.match(text)
    lead = found[0] if found else ""
    rest = text[len(lead) :]
    if rest.startswith("(?:") and rest.endswith(f"$){_REST}"):
        return lead + rest[3 : -len(_REST) - 1]
    return f"{lead}(?:{rest})\\Z$"


def has_expression(condition: object) -> bool:
    """Return whether a condition of an inspection rule is a `matches`."""
    named = isinstance(condition, dict) and isinstance(condition.get("op"), str)
    return named and condition["op"].strip().lstrip("!").strip() == "matches"  # type: ignore[index]


def _with_expressions(conditions: object, change: Callable[[str], str]) -> Any:
    if not isinstance(conditions, list):
        return [] if conditions is None else conditions
    return [_changed_condition(one, change) if has_expression(one) else one for one in conditions]


def _changed_condition(condition: Json, change: Callable[[str], str]) -> Json:
    args = condition.get("args")
    if isinstance(args, dict) and isinstance(args.get("regex"), str):
        return {**condition, "args": {**args, "regex": change(args["regex"])}}
    if isinstance(args, list) and len(args) > 1 and isinstance(args[1], str):
        return {**condition, "args": [args[0], change(args[1]), *args[2:]]}
    return condition


def _conditions_there(value: object, _row: JsonView, theirs: JsonView, _move: Move) -> Any:
    """Keep each condition there that is here as the import has made it."""
    held = theirs.get("conditions") or []
    made = [text_of(one) for one in _with_expressions(held, expression_here)]
    known = dict(zip(made, held, strict=True))
    back = _with_expressions(value, expression_there)
    if not isinstance(value, list):
        return back
    return [known.get(text_of(here), one) for here, one in zip(value, back, strict=True)]


CONDITIONS = ColumnRule(
    lambda value, _row, _move: _with_expressions(value, expression_here), _conditions_there
)
MODE = ColumnRule(lambda value, _row, move: value or move.portgroup_mode)
