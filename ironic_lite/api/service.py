"""What every controller works with: the database, the conductors, the options."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from oslo_config import cfg

from ironic_lite.api.fleet import Fleet
from ironic_lite.db.session import Database
from ironic_lite.rpc import interface
from ironic_lite.rpc.notifier import Notifier


class Client(Protocol):
    """The end of RPC that the API holds: `rpc.client.Client`, or a stand-in of a test."""

    def conductor(self, host: str | None, *, timeout: float | None = None) -> interface.Conductor:
        """Return the conductor ``host``, or any living one if None."""


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """Shared by all requests of a process."""

    database: Database
    client: Client
    fleet: Fleet
    conf: cfg.ConfigOpts
    notifier: Notifier
