"""BIOS attributes: parsing of the registry, conversion and comparison of values. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import resources

_WORDS = {
    True: frozenset({"true", "yes", "on", "1"}),
    False: frozenset({"false", "no", "off", "0"}),
}
_SHOWN = 12
"""Values that a refusal lists before it only counts the rest."""


_VERSION = re.compile(r"(\.v?\d+([._]\d+)*|\d+\.\d+)$")
"""Version at the end of a registry's name, as in ``.v1_0_3``, ``.1.0.0`` and ``1.0``."""


def registry_family(name: str) -> str:
    """Return the name of a registry in lower case and without its version."""
    return _VERSION.sub("", name).lower()


DEPENDENT = "Dependencies"
"""Key that `registry` adds to entries: the set of properties that depend on other settings."""


def registry(document: Json) -> dict[str, Json]:
    """Return attribute name -> entry of a document of type AttributeRegistry.

    The entry of a setting that depends on others has `DEPENDENT`: the names of its properties that
    other settings change, such as ReadOnly and UpperBound.
    """
    found = resources.entries(document, "RegistryEntries", "Attributes")
    known = {
        entry["AttributeName"]: {**entry, DEPENDENT: set()}
        for entry in found
        if resources.text(entry, "AttributeName")
    }
    for one in resources.entries(document, "RegistryEntries", DEPENDENT):
        name = resources.text(one, "Dependency", "MapToAttribute")
        if name in known:
            known[name][DEPENDENT].add(resources.text(one, "Dependency", "MapToProperty"))
    return known


def settings(values: JsonView, known: Mapping[str, Json]) -> list[base.BiosSetting]:
    """Return the attributes of a machine, with the registry's facts about each."""
    return [_bios_setting(name, values[name], known.get(name, {})) for name in sorted(values)]


def _bios_setting(name: str, value: Any, entry: Json) -> base.BiosSetting:
    return base.BiosSetting(
        name,
        value,
        attribute_type=resources.text(entry, "Type"),
        allowable_values=_allowed_choices(entry),
        lower_bound=entry.get("LowerBound"),
        upper_bound=entry.get("UpperBound"),
        min_length=entry.get("MinLength"),
        max_length=entry.get("MaxLength"),
        read_only=entry.get("ReadOnly"),
        reset_required=entry.get("ResetRequired"),
        unique=entry.get("IsSystemUniqueProperty"),
    )


def convert(
    wanted: JsonView, values: JsonView, known: Mapping[str, Json]
) -> tuple[Json, list[str]]:
    """Return the requested values in the machine's types, and a sentence for each invalid one.

    The registry describes the present state. A property of a setting that depends on others is left
    to the BMC, because a requested value, or one that is pending, may change it. No requested value
    is repeated in a sentence, because it may be a password.

    :param values: the machine's attributes; :param known: its registry, empty if it has none.
    """
    good: Json = {}
    faults = []
    for name, value in wanted.items():
        try:
            good[name] = _convert_value(name, value, values, known)
        except ValueError as why:
            faults.append(f"{name[:80]} {why}")
    return good, faults


def _convert_value(name: str, value: Any, values: JsonView, known: Mapping[str, Json]) -> Any:
    entry = known.get(name)
    if name not in values and entry is None:
        raise ValueError("is no setting of this machine")
    if entry is None:
        return _as_type_of_current(value, type(values[name]))
    free = entry.get(DEPENDENT) or set()
    # Whatever hides or locks a setting may also keep it read-only.
    if entry.get("ReadOnly") is True and not free:
        raise ValueError("is read-only")
    convert: Callable[[Any, Json], Any] = _BY_TYPE.get(str(entry.get("Type")), _read_any)
    return convert(value, {name: fact for name, fact in entry.items() if name not in free})


def _as_type_of_current(value: object, kind: type) -> Any:
    """Convert a value to the type of the machine's value, where no registry says more."""
    if kind is bool:
        return _read_boolean(value, {})
    if kind is int:
        return _read_integer(value, {})
    return value


def _read_choice(value: object, entry: Json) -> Any:
    choices = _allowed_choices(entry)
    if choices and value not in choices:
        more = f" and {len(choices) - _SHOWN} more" if len(choices) > _SHOWN else ""
        raise ValueError(f"must be one of {', '.join(choices[:_SHOWN])}{more}")
    return value


def _allowed_choices(entry: Json) -> list[str] | None:
    found = resources.value(entry, "Value")
    if not isinstance(found, list):
        return None
    words = [
        resources.text(each, "ValueName") or resources.text(each, "ValueDisplayName")
        for each in resources.entries(entry, "Value")
    ]
    return [word for word in words if word]


def _read_integer(value: Any, entry: Json) -> int:
    try:
        fits = not isinstance(value, bool) and int(value) == float(value)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ValueError("must be a whole number")
    number, bounds = (
        int(value),
        (_numeric_bound(entry, "LowerBound"), _numeric_bound(entry, "UpperBound")),
    )
    _check_bounds(number, bounds, "must be")
    return number


def _read_boolean(value: object, entry: Json) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    for truth, words in _WORDS.items():
        if word in words:
            return truth
    raise ValueError("must be true or false")


def _read_string(value: object, entry: Json) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    bounds = (_numeric_bound(entry, "MinLength"), _numeric_bound(entry, "MaxLength"))
    _check_bounds(len(value), bounds, "must have a length of")
    return value


def _read_any(value: object, entry: Json) -> Any:
    return value


def _numeric_bound(entry: Json, name: str) -> int | None:
    found = entry.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _check_bounds(number: int, bounds: tuple[int | None, int | None], lead: str) -> None:
    lower, upper = bounds
    if lower is not None and number < lower:
        raise ValueError(f"{lead} {lower} at least")
    if upper is not None and number > upper:
        raise ValueError(f"{lead} {upper} at most")


_BY_TYPE = {
    "Enumeration": _read_choice,
    "Integer": _read_integer,
    "Boolean": _read_boolean,
    "String": _read_string,
    "Password": _read_string,
}


def differing(wanted: JsonView, values: JsonView) -> list[str]:
    """Return the names of requested values that the machine does not show.

    Values that are never shown, such as passwords, cannot be compared and do not count.
    """
    return [
        name
        for name, value in wanted.items()
        if values.get(name) is not None and not _same_value(value, values[name])
    ]


def _same_value(one: object, other: object) -> bool:
    """Compare loosely, because operators write ``"8"`` and ``"true"`` for 8 and true."""
    if isinstance(other, bool | int | float):
        return str(one).lower() == str(other).lower() or one == other
    return bool(one == other)


def listed(names: Iterable[str]) -> str:
    """Return names as a sorted list for a sentence."""
    return ", ".join(sorted(names))
