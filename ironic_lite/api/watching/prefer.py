"""The header ``Prefer`` of requests (RFC 7240): ``wait=N`` and ``respond-async``."""

from __future__ import annotations

import re
from typing import NamedTuple

from ironic_lite.api.wire.request import Request
from ironic_lite.core.configuration import Configuration

_LONGEST_HEADER = 1024
"""Characters; a longer header is ignored as a whole."""
_ITEM = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*(?:"|\\?\Z))+', re.DOTALL)
"""One preference; a comma inside quotes does not end it.

Quotes that nothing closes extend to the end of the text. So every character is read once, and
the time is proportional to the length.
"""
_WAIT = re.compile(r'wait\s*=\s*("?)([0-9]{1,9})\1\s*(;.*)?', re.IGNORECASE | re.DOTALL)
_RESPOND_ASYNC = re.compile(r"respond-async\s*(;.*)?", re.IGNORECASE | re.DOTALL)
_ASYNC = "respond-async"


class Preference(NamedTuple):
    """The preference of a client.

    :ivar seconds: to wait for acceptance and for the end.
    :ivar asynchronous: answer as soon as the request is accepted.
    """

    seconds: int
    asynchronous: bool

    @property
    def applied(self) -> str:
        """The value of Preference-Applied."""
        words = [_ASYNC] if self.asynchronous else []
        return ", ".join([*words, *([f"wait={self.seconds}"] if self.seconds else [])])


def read(request: Request, conf: Configuration) -> Preference | None:
    """Return the preference of a request, None without one."""
    given = request.environ.get("HTTP_PREFER")
    return parse(str(given), int(conf.api.max_wait)) if given else None


def parse(text: str, longest: int) -> Preference | None:
    """Return the preference of a header, None without one.

    Unknown and broken preferences, all parameters and very long headers are ignored (RFC 7240, 2).
    The first of several values counts.

    :param longest: the largest number of seconds; more are cut to it.
    """
    if len(text) > _LONGEST_HEADER:
        return None
    seconds, asynchronous = 0, False
    for item in map(str.strip, _ITEM.findall(text)):
        found = _WAIT.fullmatch(item)
        if found is not None and not seconds:
            seconds = min(int(found[2]), longest)
        asynchronous = asynchronous or _RESPOND_ASYNC.fullmatch(item) is not None
    return Preference(seconds, asynchronous) if seconds or asynchronous else None
