"""A deadline for endpoint calls, shorter than the time that RPC allows."""

from __future__ import annotations

from typing import Any

from ironic_lite.drivers import deadline
from ironic_lite.rpc.stub import Call, Send


class WithDeadline:
    """An interceptor that limits the time of a method, and of the drivers it calls.

    The caller of a slow or silent machine then gets the machine's error instead of an RPC time-out.
    Work handed to a worker has the configured time-outs.
    """

    def __init__(self, seconds: float) -> None:
        """Limit each call to ``seconds``."""
        self._seconds = seconds

    def __call__(self, call: Call, send: Send) -> Any:
        """Carry out a call within the limit."""
        with deadline.until(self._seconds):
            return send(call)
