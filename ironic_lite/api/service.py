"""The objects every controller uses: the database, the conductors, the options."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol

from ironic_lite.api.failover import Failover
from ironic_lite.api.lock_waiters import LockWaiters
from ironic_lite.api.routing import ConductorRouter
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries.usual import UsualTimes
from ironic_lite.feed.tail import Tail
from ironic_lite.rpc import interface
from ironic_lite.rpc.notifier import Notifier
from ironic_lite.rpc.stub import Call, Interceptor, connect


class Client(Protocol):
    """The API's end of RPC: `rpc.client.Client`, or a stand-in of a test."""

    def send(self, call: Call) -> Any:
        """Carry out a call."""


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """The shared objects of all requests in a process.

    ``limit`` is the interceptor that holds a slot for a call of a conductor.
    """

    database: Database
    client: Client
    limit: Interceptor
    fleet: ConductorRouter
    conf: Configuration
    notifier: Notifier
    lock_waiters: LockWaiters
    tail: Tail
    usual: UsualTimes

    def conductor_of(self, node: JsonView, *, timeout: float | None = None) -> interface.Conductor:
        """Return the conductor of a node, or the next one if that received nothing.

        :param node: at least its ``uuid``, ``driver`` and ``conductor_group``.
        :param timeout: seconds for each call; None means the configured time.
        :raises errors.NoConductor, errors.NotFound: as `ConductorRouter.host_for`.
        """
        return self.reach(functools.partial(self.fleet.host_for, node), timeout=timeout)

    def reach(
        self, choose: Callable[[], str], *, timeout: float | None = None
    ) -> interface.Conductor:
        """Return the conductor ``choose`` names; on failover, ``choose`` names the next."""
        failover = Failover(self.fleet, choose)
        return connect(self.client.send, failover, self.limit, timeout=timeout)

    def conductor(self, host: str, *, timeout: float) -> interface.Conductor:
        """Return the conductor ``host``, without failover."""
        return connect(self.client.send, self.limit, host=host, timeout=timeout)
