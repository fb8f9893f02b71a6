"""Calls that have come and find no free thread: each gives signs of life until it has one.

A caller who hears nothing for two seconds takes the conductor for dead, is told 503, and asks
another one from then on; and the call would be carried out all the same, when its turn came. The
library gives signs only of calls that are being carried out. With ``local://`` nobody waits for
signs: there a death is seen at once.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

LOG = logging.getLogger(__name__)

PAUSE = 0.5
"""Seconds between two signs: with the second that the library waits at first, less than a caller
does."""


class Waiting:
    """The calls of one server that no thread has begun; one object serves all threads."""

    def __init__(self) -> None:
        self._calls: set[Any] = set()
        self._guard = threading.Lock()
        self._some = threading.Event()
        self._ended = False

    def start(self) -> None:
        """Begin to give signs."""
        threading.Thread(target=self._run, name="rpc-waiting", daemon=True).start()

    def end(self) -> None:
        """Give none any more."""
        self._ended = True
        self._some.set()

    def add(self, call: Any) -> None:
        """Note a call; ``call`` is a ``RpcIncomingMessage``."""
        with self._guard:
            self._calls.add(call)
        if not self._some.is_set():
            self._some.set()

    def remove(self, call: Any) -> None:
        """Note that a thread has it."""
        with self._guard:
            self._calls.discard(call)

    def _run(self) -> None:
        while not self._ended:
            self._some.wait()
            time.sleep(PAUSE)
            with self._guard:
                calls = list(self._calls)
                if not calls and not self._ended:
                    self._some.clear()
            for call in calls:
                if call.client_timeout:  # else nobody waits for signs
                    self._sign(call)

    def _sign(self, call: Any) -> None:
        try:
            call.heartbeat()
        except Exception as why:  # whatever the transport raises: the next sign may get through
            LOG.debug("No sign of life for RPC method %s: %s", call.message.get("method"), why)
