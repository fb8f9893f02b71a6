"""Table of driver_info keys with parsers and facts for forms. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView


@dataclasses.dataclass(frozen=True, slots=True)
class DriverField:
    """One key of driver_info.

    ``read`` returns the parsed value, or raises ValueError or errors.InvalidParameter with the
    fault, but never with a secret.
    ``default`` is a value or the name of an option, ``example`` a value.
    """

    read: Callable[[object], Any]
    description: str
    required: bool = False
    default: str | None = None
    example: str | None = None

    @property
    def text(self) -> str:
        """Return the description with the default, for Ironic's list of properties."""
        default = f" Default {self.default}." if self.default else ""
        return f"{self.description}{' Required.' if self.required else default}"


DriverFields = Mapping[str, DriverField]
GroupedFields = Mapping[str, DriverFields]

BMC, BOOT, RAMDISK, IMAGE, REHEARSAL = GROUPS = ("BMC", "Boot", "Ramdisk", "Image", "Rehearsal")
"""Groups of keys, in the order of forms; groups of other drivers follow."""

_FACTS = ("required", "default", "example", "description")

TRUE = frozenset({"true", "yes", "on", "1", "t", "y"})
FALSE = frozenset({"false", "no", "off", "0", "f", "n"})
"""Words for a boolean, in lower case."""


def flag(value: object) -> bool:
    """Read true or false, also as a word or as 1 or 0.

    Ironic's command line writes ``True`` as text and ``1`` as a number.

    :raises ValueError: it is neither.
    """
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word not in TRUE | FALSE:
        raise ValueError("must be true or false")
    return word in TRUE


def one_of(*words: str, case: Callable[[str], str] = str.lower) -> Callable[[object], str]:
    """Return a reader of one of these words, also as a number, such as the version 1.2."""

    def read(value: object) -> str:
        word = case(str(value).strip()) if isinstance(value, str | float) else ""
        if word not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return word

    return read


def text(value: object) -> str:
    """Read a text that other programs and machines can take.

    Ironic's command line reads values as JSON, so a password of digits arrives as a number; it
    becomes the text of the number. A number with an exponent does not show its text.

    :raises ValueError: it is neither, or has a NUL or a lone surrogate.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not re.search("[a-z]", written := repr(value)):
        return written
    if not isinstance(value, str):
        raise ValueError(f"must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("must be Unicode text without lone surrogates") from None
    return value


def absent(driver_info: JsonView, name: str) -> bool:
    """Return whether a key has no value; null and the empty string count as no value."""
    value = driver_info.get(name)
    return value is None or value == ""


def values(fields: DriverFields, driver_info: JsonView, where: str = "driver_info") -> Json:
    """Return key -> parsed value, for each key of the table that has a value.

    :param where: the node field that the mapping comes from.
    :raises errors.InvalidParameter: naming ``<where>/<key>``, the first invalid one.
    """
    found = {}
    for name, field in fields.items():
        if absent(driver_info, name):
            continue
        try:
            found[name] = field.read(driver_info[name])
        except (ValueError, errors.InvalidParameter) as why:
            reason = why.facts["reason"] if isinstance(why, errors.Error) else str(why)
            raise errors.InvalidParameter(path=f"{where}/{name}", reason=reason) from None
    return found


def missing(fields: DriverFields, driver_info: JsonView) -> list[str]:
    """Return the required keys without a value."""
    return [name for name, field in fields.items() if field.required and absent(driver_info, name)]


def properties(groups: GroupedFields) -> dict[str, str]:
    """Return ``{driver_info key: description}``."""
    return {name: field.text for fields in groups.values() for name, field in fields.items()}


def details(groups: GroupedFields) -> Json:
    """Return ``{driver_info key: facts for a form}``; ``order`` is the place in the form."""
    listed = [(group, name) for group in (*GROUPS, *groups) for name in groups.get(group, ())]
    return {
        name: {
            "group": group,
            "order": order,
            "secret": masking.secret(name),
            **{fact: getattr(groups[group][name], fact) for fact in _FACTS},
        }
        for order, (group, name) in enumerate(dict.fromkeys(listed), 1)
    }
