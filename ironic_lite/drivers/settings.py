"""Keys of driver_info as rows of a table: what each may be, and what to tell about it. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One key of driver_info.

    ``read`` returns the value to use, or raises ValueError saying what is wrong, but never what a
    secret is.
    """

    read: Callable[[object], Any]
    description: str
    required: bool = False


Fields = Mapping[str, Field]


def absent(driver_info: Mapping[str, Any], name: str) -> bool:
    """Tell whether a key has no value; null and the empty text are none."""
    value = driver_info.get(name)
    return value is None or value == ""


def values(
    fields: Fields, driver_info: Mapping[str, Any], where: str = "driver_info"
) -> dict[str, Any]:
    """Return key -> what was read, for each key of the table that has a value.

    :param where: the node's field that the mapping is.
    :raises errors.InvalidParameter: naming ``<where>/<key>``, the first that cannot be used.
    """
    found = {}
    for name, field in fields.items():
        if absent(driver_info, name):
            continue
        try:
            found[name] = field.read(driver_info[name])
        except ValueError as why:
            raise errors.InvalidParameter(path=f"{where}/{name}", reason=str(why)) from None
    return found


def properties(fields: Fields) -> dict[str, str]:
    """Return ``{driver_info key: description}``."""
    return {name: field.description for name, field in fields.items()}
