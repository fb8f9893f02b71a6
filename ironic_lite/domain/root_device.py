"""Root device hints, ``properties/root_device``, and the disks they match. Pure.

Hints are words of Ironic, compared as ironic-python-agent compares them: by the operators of
oslo.utils, such as ``">= 100"`` or ``"s!= nvme0"``; without an operator, a hint must be equal.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable

from ironic_lite.core.json_types import Json, JsonView

GIB = 1024**3

HINTS = (
    *("model", "vendor", "serial", "size", "wwn", "wwn_with_extension", "wwn_vendor_extension"),
    *("name", "by_path", "hctl", "rotational"),
)
_TRUE = frozenset({"true", "t", "1", "yes", "y", "on"})
_FALSE = frozenset({"false", "f", "0", "no", "n", "off"})
_EXPRESSION = re.compile(
    r"(?P<operator><in>|<or>|<all-in>|<range-in>|s==|s!=|s>=|s<=|s>|s<|==|!=|>=|<=|=|>|<)"
)
_NUMERIC = frozenset({"=", "==", "!=", ">=", "<=", ">", "<"})
_WITH_LISTS = frozenset({"<all-in>", "<range-in>"})
"""Operators that the agent reads, but cannot apply to a disk."""
_SIZE = re.compile(r"\s*(==|!=|>=|<=|=|>|<)?\s*0*[1-9][0-9]*\s*")


def fault(name: str, value: object) -> str | None:
    """Return the fault of a hint for which the agent would fail, None if it is valid."""
    if name not in HINTS:
        return f"is not a hint; known are {', '.join(sorted(HINTS))}"
    if name == "rotational":
        known = _plain_text(value) in _TRUE | _FALSE
        return None if known else "must be true or false"
    if name == "size":
        fits = _SIZE.fullmatch(str(value))
        return None if fits else 'must be a number of GiB, or a comparison such as ">= 100"'
    return _text_fault(value) if isinstance(value, str) else "must be text"


def _text_fault(text: str) -> str | None:
    operator, values = _read_expression(text)
    if not values:
        return "must have a value"
    if operator in _WITH_LISTS or (operator in _NUMERIC and not all(map(_is_number, values))):
        return f"{operator} does not compare texts; use s==, s!=, <in> or <or>"
    return None


def matching(disks: object, hints: JsonView) -> Json | None:
    """Return the first disk that matches all hints, None without one.

    :param disks: of an inventory, sizes in bytes; ``size`` in hints is in GiB.
    :raises ValueError: a hint is invalid, naming it.
    """
    for name, value in hints.items():
        if fault(name, value) is not None:
            raise ValueError(name)
    for disk in _disk_objects(disks):
        if all(_disk_fits(disk, name, wanted) for name, wanted in hints.items()):
            return disk
    return None


def serials(disks: object) -> list[str]:
    """Return the serial numbers of disks, in their order, without missing ones."""
    serials = (disk.get("serial") for disk in _disk_objects(disks))
    return [str(one) for one in serials if bare_number(one)]


def bare_number(value: object) -> str:
    """Return a serial number or WWN as it is compared: letters and digits, in lower case.

    :return: "" for a value that identifies no disk: missing, or a placeholder of a firmware.
    """
    bare = "".join(filter(str.isalnum, value)).casefold() if isinstance(value, str) else ""
    blank = not bare.removeprefix("0x").strip("0") or (
        len(bare) >= _REPEATED and len(set(bare)) == 1
    )
    return "" if blank or bare in _PLACEHOLDERS else bare


_REPEATED = 4
"""Characters from which on a repeated one is a placeholder, as ``FFFF`` or ``xxxx``."""
_PLACEHOLDERS = frozenset(
    {
        *("unknown", "none", "null", "nan", "na", "tbd", "invalid", "undefined", "unspecified"),
        *("notavailable", "notapplicable", "notspecified", "notprovided", "notpresent", "notset"),
        *("unavailable", "empty", "default", "defaultstring", "tobefilledbyoem", "oem"),
        *("serial", "serialnumber", "systemserialnumber", "noserial", "noserialnumber"),
    }
)


def _disk_objects(disks: object) -> Iterable[Json]:
    return (one for one in disks if isinstance(one, dict)) if isinstance(disks, list) else ()


def _disk_fits(disk: Json, name: str, wanted: object) -> bool:
    value = disk.get(name)
    if value is None:
        return False
    if name == "rotational":
        return _plain_text(value) in (_TRUE if _plain_text(wanted) in _TRUE else _FALSE)
    if name == "size":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and _value_fits(value / GIB, str(wanted), equal="==")
    return _value_fits(urllib.parse.quote(_plain_text(value)), str(wanted))


def _value_fits(value: str | float, wanted: str, *, equal: str = "s==") -> bool:
    """Compare a value by an expression.

    :param value: a number, or a quoted text, because operators end at blanks.
    """
    from oslo_utils import specs_matcher  # noqa: PLC0415  # a parser, for hints that few write

    operator, values = _read_expression(wanted)
    words = (f"{operator or equal} {urllib.parse.quote(one)}" for one in values)
    try:
        return bool(specs_matcher.match(value, " ".join(words)))
    except ValueError:  # a text is not a number
        return False


def _read_expression(text: str) -> tuple[str, list[str]]:
    """Return the operator of a hint, "" without one, and its values in lower case."""
    plain = _plain_text(text)
    found = _EXPRESSION.match(plain)
    if found is None:
        return "", [plain] if plain else []
    operator = found["operator"]
    return operator, [one.strip() for one in plain.split(operator) if one.strip()]


def _plain_text(value: object) -> str:
    return str(value).strip().lower()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
