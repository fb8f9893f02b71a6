"""Calls of a conductor that may be gone: where it took nothing, the next one is asked instead.

A dead conductor counts as alive until it has given no sign for ``[conductor]heartbeat_timeout``.
Its nodes need not wait for that: whom the ring gives them next can answer for those that are not
locked, as the lock decides, not the ring. What is certain not to have been taken - nobody listens
at the socket of ``local://`` - is sent on at once. What may have been taken is never sent again:
its caller hears of it, and only the requests that come after it go elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ironic_lite import errors
from ironic_lite.api.fleet import Fleet
from ironic_lite.rpc import interface


class Client(Protocol):
    """The end of RPC that the API holds: `rpc.client.Client`, or a stand-in of a test."""

    def conductor(self, host: str | None, *, timeout: float | None = None) -> interface.Conductor:
        """Return the conductor ``host``, or any living one if None."""


class Reached:
    """Looks like a conductor to the caller; each of its methods is a call of one that answers.

    :param choose: returns the host to ask, of those that `Fleet` does not doubt if there are any.
    :raises errors.Error: what ``choose`` raises, at once.
    """

    __slots__ = ("_choose", "_client", "_fleet", "_host")

    def __init__(self, client: Client, fleet: Fleet, choose: Callable[[], str]) -> None:
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
                except errors.ConductorAbsent:
                    tried.add(host)
                    self._fleet.doubt(host)
                    host = self._choose()
                    if host in tried:
                        raise
                except errors.ConductorSilent:
                    self._fleet.doubt(host)
                    raise

        return call
