"""Calls of conductors with failover to the next conductor.

A dead conductor counts as alive until ``[conductor]heartbeat_timeout`` has passed without a
heartbeat. Until then the next conductor on the ring can answer for its unlocked nodes, because the
lock decides and not the ring. A call is sent to the next conductor only if the first certainly did
not receive it: no process listens at its ``local://`` socket. A call that may have been received is
never repeated. Its caller gets the error, and only later requests go to another conductor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ironic_lite import errors
from ironic_lite.api.routing import ConductorRouter
from ironic_lite.rpc import interface


class Client(Protocol):
    """The API's end of RPC: `rpc.client.Client`, or a stand-in of a test."""

    def conductor(self, host: str | None, *, timeout: float | None = None) -> interface.Conductor:
        """Return the conductor ``host``, or any living conductor if None."""


class FailoverConductor:
    """A stand-in for a conductor; each method calls a conductor that answers.

    :param choose: returns the host to ask. `ConductorRouter` prefers hosts it does not doubt.
    :raises errors.Error: the error ``choose`` raises, at once.
    """

    __slots__ = ("_choose", "_client", "_fleet", "_host")

    def __init__(self, client: Client, fleet: ConductorRouter, choose: Callable[[], str]) -> None:
        self._client = client
        self._fleet = fleet
        self._choose = choose
        self._host = choose()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **facts: Any) -> Any:
            host, tried = self._host, set[str]()
            while True:
                try:
                    return getattr(self._client.conductor(host), name)(*args, **facts)
                except errors.ConductorNotListening:
                    tried.add(host)
                    self._fleet.doubt(host)
                    host = self._choose()
                    if host in tried:
                        raise
                except errors.ConductorUnresponsive:
                    self._fleet.doubt(host)
                    raise

        return call
