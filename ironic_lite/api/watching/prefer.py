"""The header ``Prefer`` of requests (RFC 7240): ``wait=N`` and ``respond-async``."""

from __future__ import annotations

import re
from typing import NamedTuple

from ironic_lite.api.wire.request import Request
from ironic_lite.core.configuration import Configuration

_WAIT = re.compile(r'wait\s*=\s*"?([0-9]{1,9})"?', re.IGNORECASE)
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
    """Return the preference of a request, None without one.

    Unknown and broken preferences are ignored (RFC 7240, 2). The first of several values counts.
    """
    given = request.environ.get("HTTP_PREFER")
    if not given:
        return None
    seconds, asynchronous = 0, False
    for word in str(given).split(","):
        found = _WAIT.fullmatch(word.strip())
        if found is not None and not seconds:
            seconds = min(int(found[1]), int(conf.api.max_wait))
        asynchronous = asynchronous or word.strip().lower() == _ASYNC
    return Preference(seconds, asynchronous) if seconds or asynchronous else None
