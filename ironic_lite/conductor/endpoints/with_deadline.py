"""A deadline for endpoint calls, shorter than the time that RPC allows."""

from __future__ import annotations

import functools
from typing import Any

from ironic_lite.drivers import deadline


class WithDeadline:
    """Endpoints whose methods, and the drivers they call, have a time limit.

    The caller of a slow or silent machine then gets the machine's error instead of an RPC time-out.
    Work handed to a worker has the configured time-outs.
    """

    def __init__(self, endpoints: object, seconds: float) -> None:
        """Wrap ``endpoints``; ``seconds`` is the limit of one call."""
        self._endpoints = endpoints
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._endpoints, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            with deadline.until(self._seconds):
                return found(*args, **kwargs)

        return call
