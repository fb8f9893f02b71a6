"""Checks of single values of a request: names, UUIDs, MACs, booleans, traits.

Each function takes a value and its ``path`` in the request, and returns the value in stored form.
``schemas``, ``patches`` and ``queries`` use these functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.domain import vocabulary

_WORDS: Mapping[str, bool] = {
    **dict.fromkeys(("1", "t", "true", "on", "y", "yes"), True),
    **dict.fromkeys(("0", "f", "false", "off", "n", "no"), False),
}
_MOST_INTEGER = (1 << 31) - 1
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOSTNAME = re.compile(rf"(?=.{{1,255}}\Z){_LABEL}(\.{_LABEL})*")
_FREE_NAMES_SINCE = 10
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_DATAPATH = re.compile(r"[0-9a-f]{16}")
_GROUP = re.compile(r"[a-z0-9_.-]{0,255}")


def boolean(value: object, path: str) -> bool:
    """Return a boolean given as JSON or as a word (true, t, yes, y, on, 1 and their opposites).

    Words are accepted in bodies too, because the command line client sends them there. The numbers
    1 and 0 are read as words.

    :raises errors.InvalidParameter: anything else.
    """
    if isinstance(value, bool):
        return value
    found = _WORDS.get(str(value).strip().lower()) if isinstance(value, str | int) else None
    if found is None:
        raise errors.InvalidParameter(path=path, reason=f"{errors.shown(value)} is not a boolean")
    return found


def integer(value: Any, path: str) -> int:
    """Return a whole number that fits into 32 bits, the range of every database.

    :raises errors.InvalidParameter: anything else.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not -_MOST_INTEGER <= value <= _MOST_INTEGER or value != int(value):
        raise errors.InvalidParameter(path=path, reason="is not a whole number of 32 bits")
    return int(value)


def count(value: Any, path: str) -> int:
    """Return a number of 0 or more, given as JSON or as digits; fractions are cut off.

    :raises errors.InvalidParameter: anything else.
    """
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        found = -1
    if found < 0:
        reason = f"{errors.shown(value)} is not a number of 0 or more"
        raise errors.InvalidParameter(path=path, reason=reason)
    return found


def uuid_like(text: str) -> bool:
    """Return whether ``text`` is a UUID, with hyphens or without."""
    return vocabulary.UUID.fullmatch(text) is not None


def uuid(value: object, path: str) -> str:
    """Return a UUID in lower case with hyphens.

    :raises errors.InvalidParameter: not a UUID.
    """
    if not isinstance(value, str) or not uuid_like(value):
        reason = f"Expected a UUID but received {errors.shown(value)}"
        raise errors.InvalidParameter(path=path, reason=reason)
    return _hyphenated(value)


def _hyphenated(value: str) -> str:
    digits = value.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def ident(word: str, path: str) -> str:
    """Return the identifier from a path: a name, or a UUID in lower case with hyphens.

    :raises errors.InvalidParameter: neither a UUID nor a valid name.
    """
    if uuid_like(word):
        return _hyphenated(word)
    if not vocabulary.NAME.fullmatch(word):
        reason = f"Expected a UUID or a name but received {errors.shown(word)}"
        raise errors.InvalidParameter(path=path, reason=reason)
    return word


def host_port(value: str, path: str) -> str:
    """Return the name of a conductor: a host, which may end in a colon and a port.

    :raises errors.InvalidParameter: no host, or the port is not a number.
    """
    host, _, port = value.partition(":") if value.count(":") == 1 else (value, "", "0")
    if not host or not port.isdecimal():
        raise errors.InvalidParameter(
            path=path, reason=f"{errors.shown(value)} is not the name of a host"
        )
    return value


def text(value: object, path: str, *, least: int = 0, length: int | None = None) -> str:
    """Return a string of ``least`` to ``length`` characters that every database can store.

    :raises errors.InvalidParameter: not a string, too short, too long, or containing NUL.
    """
    if not isinstance(value, str):
        raise errors.InvalidParameter(path=path, reason=f"{errors.shown(value)} is not a string")
    if len(value) < least:
        raise errors.InvalidParameter(path=path, reason="must not be empty")
    if length is not None and len(value) > length:
        raise errors.InvalidParameter(path=path, reason=f"is longer than {length} characters")
    if errors.NO_TEXT.search(value):
        raise errors.InvalidParameter(path=path, reason="contains a character that is not text")
    return value


def name(
    value: object, path: str, *, version: int, reserved: frozenset[str] = vocabulary.RESERVED
) -> str:
    """Return a name for use in a URL: 1 to 255 of ``A-Z a-z 0-9 - . _ ~``, but not a UUID.

    Up to version 1.9 it must be a host name.

    :param reserved: names of sub-resources, by default of a node; an object with such a name could
        not be reached.
    :raises errors.InvalidParameter: an invalid or reserved name.
    """
    given = text(value, path)
    syntax = vocabulary.NAME if version >= _FREE_NAMES_SINCE else _HOSTNAME
    if not syntax.fullmatch(given) or uuid_like(given):
        raise errors.InvalidParameter(
            f"Cannot use the invalid name {given!r}: {path}: a name has 1 to 255 of the characters "
            "A-Z a-z 0-9 - . _ ~ and is not a UUID.",
            path=path,
            reason="invalid name",
        )
    if given in reserved:
        raise errors.InvalidParameter(
            f"{path}: the name {given!r} is reserved: it is part of the API's own paths.",
            path=path,
            reason="reserved name",
        )
    return given


def mac(value: object, path: str) -> str:
    """Return a MAC address in lower case.

    :raises errors.InvalidParameter: not six pairs of hexadecimal digits with colons.
    """
    lowered = value.lower() if isinstance(value, str) else ""
    if not _MAC.fullmatch(lowered):
        raise errors.InvalidParameter(
            f"{path}: Expected a MAC address but received {errors.shown(value)}.",
            path=path,
            reason="not a MAC address",
        )
    return lowered


def is_mac(value: str) -> bool:
    """Return whether ``value`` is a MAC address, in upper or lower case."""
    return _MAC.fullmatch(value.lower()) is not None


def switch_id(value: object, path: str) -> str:
    """Return a switch ID in lower case: a MAC address or a datapath ID of 16 digits.

    :raises errors.InvalidParameter: anything else.
    """
    lowered = value.lower() if isinstance(value, str) else ""
    if not _MAC.fullmatch(lowered) and not _DATAPATH.fullmatch(lowered):
        reason = f"{errors.shown(value)} is neither a MAC address nor an OpenFlow datapath id"
        raise errors.InvalidParameter(path=path, reason=reason)
    return lowered


def conductor_group(value: object, path: str) -> str:
    """Return the name of a conductor group in lower case; "" is the default group.

    :raises errors.InvalidParameter: other characters than ``a-z 0-9 _ - .``, or more than 255.
    """
    lowered = text(value, path).lower()
    if not _GROUP.fullmatch(lowered):
        reason = f"{value!r} is not up to 255 of the characters a-z 0-9 _ - ."
        raise errors.InvalidParameter(path=path, reason=reason)
    return lowered


def trait(value: object, path: str = "trait") -> str:
    """Return a trait: CUSTOM_ or a standard namespace, then ``A-Z 0-9 _``; at most 255 characters.

    :raises errors.InvalidParameter: anything else.
    """
    given = text(value, path, least=1, length=255)
    if not vocabulary.TRAIT.fullmatch(given):
        raise errors.InvalidParameter(
            f"{path}: {given!r} is not a trait: it must be a standard trait (HW_..., COMPUTE_...) "
            "or start with CUSTOM_, and have only A-Z, 0-9 and _.",
            path=path,
            reason="not a trait",
        )
    return given


def traits(values: object, path: str = "traits") -> list[str]:
    """Return the traits of a node, sorted, without duplicates; ``db.queries.nodes`` limits them.

    :raises errors.InvalidParameter: not a list, or an item that is not a trait.
    """
    if not isinstance(values, list):
        raise errors.InvalidParameter(path=path, reason="is not a list")
    return sorted({trait(value, f"{path}/{place}") for place, value in enumerate(values)})
