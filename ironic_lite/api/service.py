"""What every controller works with: the database, the conductors, the options."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any

from oslo_config import cfg

from ironic_lite.api.fleet import Fleet
from ironic_lite.api.reach import Client, Reached
from ironic_lite.db.session import Database
from ironic_lite.rpc import interface
from ironic_lite.rpc.notifier import Notifier


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """Shared by all requests of a process."""

    database: Database
    client: Client
    fleet: Fleet
    conf: cfg.ConfigOpts
    notifier: Notifier

    def conductor_of(self, node: Mapping[str, Any]) -> interface.Conductor:
        """Return who answers for a node: its conductor, or the next if that took nothing.

        :param node: at least its ``uuid``, ``driver`` and ``conductor_group``.
        :raises errors.NoConductor, errors.NotFound: as `Fleet.host_for`.
        """
        return self.reach(functools.partial(self.fleet.host_for, node))

    def reach(self, choose: Callable[[], str]) -> interface.Conductor:
        """Return the conductor that ``choose`` names, or the next it names if that took nothing."""
        return typing.cast(interface.Conductor, Reached(self.client, self.fleet, choose))
