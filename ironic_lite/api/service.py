"""The objects every controller uses: the database, the conductors, the options."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable

from oslo_config import cfg

from ironic_lite.api.failover import Client, FailoverConductor
from ironic_lite.api.lock_waiters import LockWaiters
from ironic_lite.api.routing import ConductorRouter
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Database
from ironic_lite.rpc import interface
from ironic_lite.rpc.notifier import Notifier


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """The shared objects of all requests in a process."""

    database: Database
    client: Client
    fleet: ConductorRouter
    conf: cfg.ConfigOpts
    notifier: Notifier
    lock_waiters: LockWaiters

    def conductor_of(self, node: JsonView) -> interface.Conductor:
        """Return the conductor of a node, or the next one if that received nothing.

        :param node: at least its ``uuid``, ``driver`` and ``conductor_group``.
        :raises errors.NoConductor, errors.NotFound: as `ConductorRouter.host_for`.
        """
        return self.reach(functools.partial(self.fleet.host_for, node))

    def reach(self, choose: Callable[[], str]) -> interface.Conductor:
        """Return the conductor ``choose`` names; on failover, ``choose`` names the next."""
        return typing.cast(interface.Conductor, FailoverConductor(self.client, self.fleet, choose))
