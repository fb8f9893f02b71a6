"""Negotiation of a request's microversion, from its two headers.

The range is Ironic's; a request without a version gets the newest (conflict C32), unless
``[api]default_version`` says otherwise. ``api.middleware`` calls ``negotiate`` for every request.
"""

from __future__ import annotations

import dataclasses
import re
from functools import lru_cache

import microversion_parse

from ironic_lite import errors

MAJOR = 1
FIRST = 1
LAST = 115
MIN_VERSION = f"{MAJOR}.{FIRST}"
MAX_VERSION = f"{MAJOR}.{LAST}"
LATEST = "latest"

SERVICE_TYPE = "baremetal"
HEADER = "X-OpenStack-Ironic-API-Version"
MIN_HEADER = "X-OpenStack-Ironic-API-Minimum-Version"
MAX_HEADER = "X-OpenStack-Ironic-API-Maximum-Version"
STANDARD_HEADER = "OpenStack-API-Version"

_REMEMBERED = 64
"""Longest headers, in characters, whose meaning is cached."""
_FORM = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """The minor version in use; ``explicit`` is true if the request named it."""

    minor: int
    explicit: bool = False

    def __str__(self) -> str:
        return f"{MAJOR}.{self.minor}"


class VersionUnreadable(errors.NotAcceptable):
    """An unreadable version; the response carries no version header."""

    text = "Invalid value {value} of the API version header: it must be 'latest' or like 1.{last}."


class VersionOutOfRange(errors.NotAcceptable):
    """An unsupported version; the response names the range."""

    text = (
        "Version {value} was requested but is not supported by this service. "
        "The supported version range is: [{first}, {last}]."
    )


def negotiate(ours: str | None, standard: str | None, default: str = LATEST) -> Version:
    """Return the version of a request.

    :param ours: value of ``X-OpenStack-Ironic-API-Version``, such as ``1.81`` or ``latest``.
    :param standard: value of ``OpenStack-API-Version``, such as ``baremetal 1.81``; it wins.
    :param default: the version without a header, or with an empty one: ``latest`` or a version.
    :raises VersionUnreadable: neither ``latest`` nor two numbers.
    :raises VersionOutOfRange: of another major version, or outside 1.1 to 1.115.
    """
    # Clients may send headers of any length, each a different one.
    short = len(ours or "") + len(standard or "") <= _REMEMBERED
    return (_remembered if short else _negotiate_version)(ours, standard, default)


def _negotiate_version(ours: str | None, standard: str | None, default: str) -> Version:
    headers = {STANDARD_HEADER: standard, HEADER: ours}
    wanted = microversion_parse.get_version(
        {name: value for name, value in headers.items() if value},
        SERVICE_TYPE,
        legacy_headers=(HEADER,),
    )
    return Version(_minor_of(default if wanted is None else wanted), explicit=wanted is not None)


_remembered = lru_cache(maxsize=1024)(_negotiate_version)


def _minor_of(value: str) -> int:
    if value.lower() == LATEST:
        return LAST
    found = _FORM.fullmatch(value)
    if not found:
        raise VersionUnreadable(value=repr(value[:32]), last=LAST)
    major, minor = int(found[1]), int(found[2])
    if major != MAJOR or not FIRST <= minor <= LAST:
        raise VersionOutOfRange(value=value, first=MIN_VERSION, last=MAX_VERSION)
    return minor


@lru_cache(maxsize=2 * LAST)
def answer_headers(minor: int | None) -> tuple[tuple[str, str], ...]:
    """Return the version headers of a response: the range, and the version if any."""
    span = ((MIN_HEADER, MIN_VERSION), (MAX_HEADER, MAX_VERSION))
    return span if minor is None else (*span, (HEADER, f"{MAJOR}.{minor}"))
