"""The action ``api-call``: one GET of an address, made by the caller of the rules."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ironic_lite import errors

_LONGEST = 2048  # characters of an address, or of the value of a header
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")  # RFC 9110, 5.6.2
_NO_VALUE = re.compile(r"[^\t\x20-\x7e]")


class Call(NamedTuple):
    """One call.

    It has an address, headers, seconds that a try may take, the number of retries, and the seconds
    before the first retry, which double with each.
    """

    url: str
    headers: Mapping[str, str]
    timeout: float
    retries: int
    backoff: float


def _read_url(value: object) -> str:
    text = str(value)
    try:
        place = urllib.parse.urlsplit(text)
        good = place.scheme in ("http", "https") and bool(place.hostname)
    except ValueError:
        good = False
    if not good or len(text) > _LONGEST or _NO_VALUE.search(text) or " " in text:
        raise _call_refused("url", "is not an address that begins with http:// or https://")
    return text


def _read_headers(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _call_refused("headers", "must be an object")
    told = {str(name): str(held) for name, held in value.items()}
    for name, held in told.items():
        if not _HEADER.fullmatch(name) or _NO_VALUE.search(held) or len(held) > _LONGEST:
            raise _call_refused(
                "headers", f"{name[:80]!r} is not a valid header, or has a bad value"
            )
    return told


def _number_reader(name: str, most: float, *, positive: bool = False) -> Callable[[Any], float]:
    def number(value: Any) -> float:
        try:
            found = float(value)
        except (TypeError, ValueError):
            raise _call_refused(name, "must be a number") from None
        if not 0 <= found <= most or (positive and not found):
            least = "more than 0" if positive else "0 or more"
            raise _call_refused(name, f"must be {least}, and {most:g} at most")
        return found

    return number


def _call_refused(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)


JUDGES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "url": _read_url,
        "headers": _read_headers,
        "timeout": _number_reader("timeout", 60, positive=True),
        "retries": _number_reader("retries", 10),
        "backoff_factor": _number_reader("backoff_factor", 60),
    }
)
"""Checks of the arguments; they return the value or raise InvalidParameter."""


def made(**told: object) -> Call:
    """Return the call of an action's arguments.

    :raises errors.InvalidParameter: one of them is invalid.
    """
    url, headers, timeout, retries, backoff = (judge(told[key]) for key, judge in JUDGES.items())
    return Call(url, headers, timeout, int(retries), backoff)
