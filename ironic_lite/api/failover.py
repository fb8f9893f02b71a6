"""Calls of conductors with failover to the next conductor.

A dead conductor counts as alive until ``[conductor]heartbeat_timeout`` has passed without a
heartbeat. Until then the next conductor on the ring can answer for its unlocked nodes, because the
lock decides and not the ring. A call is sent to the next conductor only if the first certainly did
not receive it: no process listens at its ``local://`` socket, or accepts a connection of
``direct://``. A call that may have been received is never repeated. Its caller gets the error, and
only later requests go to another conductor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ironic_lite import errors
from ironic_lite.api.routing import ConductorRouter
from ironic_lite.rpc.stub import Call, Send


class Failover:
    """An interceptor that sends each call to a conductor that answers.

    :param choose: returns the host to ask. `ConductorRouter` prefers hosts it does not doubt.
    :raises errors.Error: the error ``choose`` raises, at once.
    """

    __slots__ = ("_choose", "_fleet", "_host")

    def __init__(self, fleet: ConductorRouter, choose: Callable[[], str]) -> None:
        self._fleet = fleet
        self._choose = choose
        self._host = choose()

    def __call__(self, call: Call, send: Send) -> Any:
        """Send a call; send it to the next conductor if the first has not received it."""
        host, tried = self._host, set[str]()
        while True:
            try:
                answer = send(call._replace(host=host))
                self._fleet.trust(host)
                return answer
            except errors.ConductorNotListening:
                tried.add(host)
                self._fleet.doubt(host)
                host = self._choose()
                if host in tried:
                    raise
            except errors.ConductorUnresponsive:
                self._fleet.doubt(host)
                raise
