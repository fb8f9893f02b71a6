"""Keepalives for the callers of calls that a conductor runs.

A caller behind a broker takes the conductor for dead after some seconds without a keepalive. One
thread serves all calls; oslo.messaging's own dispatcher would start a thread for each.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

from ironic_lite.core import clock

LOG = logging.getLogger(__name__)

_DUE = 1 / 2
"""Part of the caller's keepalive limit after which a keepalive is due."""


class CallKeepalives:
    """The running calls of one server; one object serves all its threads."""

    def __init__(self) -> None:
        self._calls: dict[Any, float] = {}
        """By call: the time at which its next keepalive is due."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ended = False

    @contextlib.contextmanager
    def during(self, call: Any) -> Iterator[None]:
        """Send the caller keepalives for the length of the block.

        :param call: a message with ``client_timeout``, its caller's keepalive limit in seconds, and
            ``heartbeat()``, which sends a keepalive.
        """
        with self._changed:
            self._calls[call] = clock.steady() + call.client_timeout * _DUE
            if self._thread is None:
                self._start_thread()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._calls[call]

    def _start_thread(self) -> None:
        """Start the thread late, because a process may fork before; the guard is held."""
        thread = threading.Thread(target=self._send_keepalives, name="rpc-signs", daemon=True)
        try:
            thread.start()
        except RuntimeError as why:  # the next call tries again; short calls need no keepalive
            LOG.warning("No keepalives for the callers of RPC methods: %s", why)
        else:
            self._thread = thread

    def end(self) -> None:
        """Stop sending keepalives."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _send_keepalives(self) -> None:
        while True:
            with self._changed:
                now, first = clock.steady(), min(self._calls.values(), default=None)
                if self._ended:
                    return
                if first is None or first > now:
                    self._changed.wait(None if first is None else first - now)
                    continue
                due = [call for call, moment in self._calls.items() if moment <= now]
                for call in due:
                    self._calls[call] = now + call.client_timeout * _DUE
            for call in due:
                send_keepalive(call)
            del call, due  # an answered message must not stay alive until the next keepalive


def send_keepalive(call: Any) -> None:
    """Send the caller of a call one keepalive, if possible."""
    try:
        call.heartbeat()
    except Exception as why:  # the transport may raise anything; the next keepalive may succeed
        LOG.debug("No keepalive for RPC method %s: %s", call.message.get("method"), why)
