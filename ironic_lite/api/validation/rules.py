"""What single values of a request may look like: names, UUIDs, MACs, booleans, traits.

Each function takes the value and where it stood (``path``), and returns it in the form we store.
``schemas``, ``patches`` and ``queries`` are built from these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ironic_lite import errors, names, texts

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


def boolean(value: Any, path: str) -> bool:
    """Return a boolean given as such or as a word (true, t, yes, y, on, 1 and their opposites).

    Words are taken in bodies too, because the command line client sends them there.

    :raises errors.InvalidParameter: anything else.
    """
    if isinstance(value, bool):
        return value
    found = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        raise errors.InvalidParameter(path=path, reason=f"{texts.shown(value)} is not a boolean")
    return found


def integer(value: Any, path: str) -> int:
    """Return a whole number that every database can hold.

    :raises errors.InvalidParameter: not so.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not -_MOST_INTEGER <= value <= _MOST_INTEGER or value != int(value):
        raise errors.InvalidParameter(path=path, reason="is not a whole number of 32 bits")
    return int(value)


def count(value: Any, path: str) -> int:
    """Return a number of 0 or more that is given as such or as its digits; fractions are cut off.

    :raises errors.InvalidParameter: anything else.
    """
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        found = -1
    if found < 0:
        reason = f"{texts.shown(value)} is not a number of 0 or more"
        raise errors.InvalidParameter(path=path, reason=reason)
    return found


def uuid_like(text: str) -> bool:
    """Tell whether ``text`` reads as a UUID, with hyphens or without."""
    return names.UUID.fullmatch(text) is not None


def uuid(value: Any, path: str) -> str:
    """Return a UUID in lower case with hyphens.

    :raises errors.InvalidParameter: not a UUID.
    """
    if not isinstance(value, str) or not uuid_like(value):
        reason = f"Expected a UUID but received {texts.shown(value)}"
        raise errors.InvalidParameter(path=path, reason=reason)
    digits = value.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def text(value: Any, path: str, *, least: int = 0, length: int | None = None) -> str:
    """Return a string of ``least`` to ``length`` characters that every database can hold.

    :raises errors.InvalidParameter: not a string, too short, too long, or with NUL in it.
    """
    if not isinstance(value, str):
        raise errors.InvalidParameter(path=path, reason=f"{texts.shown(value)} is not a string")
    if len(value) < least:
        raise errors.InvalidParameter(path=path, reason="must not be empty")
    if length is not None and len(value) > length:
        raise errors.InvalidParameter(path=path, reason=f"is longer than {length} characters")
    if texts.NO_TEXT.search(value):
        raise errors.InvalidParameter(path=path, reason="holds a character that is not text")
    return value


def name(value: Any, path: str, *, version: int, reserved: frozenset[str] = names.RESERVED) -> str:
    """Return a name that can stand in a URL: 1 to 255 of ``A-Z a-z 0-9 - . _ ~``, not like a UUID.

    Up to version 1.9 it must be a host name. Names of sub-resources would be unreachable.

    :param reserved: those names, by default of what hangs below a node.
    :raises errors.InvalidParameter: any of this is not so.
    """
    given = text(value, path)
    syntax = names.NAME if version >= _FREE_NAMES_SINCE else _HOSTNAME
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


def mac(value: Any, path: str) -> str:
    """Return a MAC address in lower case.

    :raises errors.InvalidParameter: not six pairs of hexadecimal digits with colons.
    """
    lowered = value.lower() if isinstance(value, str) else ""
    if not _MAC.fullmatch(lowered):
        raise errors.InvalidParameter(
            f"{path}: Expected a MAC address but received {texts.shown(value)}.",
            path=path,
            reason="not a MAC address",
        )
    return lowered


def is_mac(value: str) -> bool:
    """Tell whether ``value`` is a MAC address, in either case."""
    return _MAC.fullmatch(value.lower()) is not None


def switch_id(value: Any, path: str) -> str:
    """Return the id of a switch in lower case: a MAC address or 16 digits of a datapath id.

    :raises errors.InvalidParameter: neither.
    """
    lowered = value.lower() if isinstance(value, str) else ""
    if not _MAC.fullmatch(lowered) and not _DATAPATH.fullmatch(lowered):
        reason = f"{texts.shown(value)} is neither a MAC address nor an OpenFlow datapath id"
        raise errors.InvalidParameter(path=path, reason=reason)
    return lowered


def conductor_group(value: Any, path: str) -> str:
    """Return the name of a conductor group in lower case; "" is the group of those without one.

    :raises errors.InvalidParameter: not of ``a-z 0-9 _ - .``, or longer than 255.
    """
    lowered = text(value, path).lower()
    if not _GROUP.fullmatch(lowered):
        reason = f"{value!r} is not up to 255 of the characters a-z 0-9 _ - ."
        raise errors.InvalidParameter(path=path, reason=reason)
    return lowered


def trait(value: Any, path: str = "trait") -> str:
    """Return a trait: CUSTOM_ or a standard name space, then ``A-Z 0-9 _``, at most 255 characters.

    :raises errors.InvalidParameter: not so.
    """
    given = text(value, path, least=1, length=255)
    if not names.TRAIT.fullmatch(given):
        raise errors.InvalidParameter(
            f"{path}: {given!r} is not a trait: it must be a standard trait (HW_..., COMPUTE_...) "
            "or start with CUSTOM_, and have only A-Z, 0-9 and _.",
            path=path,
            reason="not a trait",
        )
    return given


def traits(values: Any, path: str = "traits") -> list[str]:
    """Return the traits of a node, each once, sorted; ``db.traits`` counts them.

    :raises errors.InvalidParameter: not a list, or one that is no trait.
    """
    if not isinstance(values, list):
        raise errors.InvalidParameter(path=path, reason="is not a list")
    return sorted({trait(value, f"{path}/{place}") for place, value in enumerate(values)})
