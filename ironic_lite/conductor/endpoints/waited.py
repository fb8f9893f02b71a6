"""Calls whose callers wait: machines are given less time than RPC gives the call."""

from __future__ import annotations

import functools
from typing import Any

from ironic_lite.drivers import patience


class Waited:
    """Endpoints whose methods, and the drivers they ask, have so many seconds.

    A caller whose machine is slow or silent then hears what its trouble is, and not only that no
    answer came. What is handed over to a worker has all the time of the configuration.
    """

    def __init__(self, endpoints: object, seconds: float) -> None:
        """``seconds`` is what one call may take."""
        self._endpoints = endpoints
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._endpoints, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            with patience.until(self._seconds):
                return found(*args, **kwargs)

        return call
