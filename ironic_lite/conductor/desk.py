"""What all work inside one conductor shares: who it is, its database, drivers and workers."""

from __future__ import annotations

import dataclasses
import datetime
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from ironic_lite.conductor.fence import Fence
from ironic_lite.conductor.rulebook import Rulebook
from ironic_lite.conductor.workers import Workers
from ironic_lite.db.session import Database
from ironic_lite.drivers.registry import Registry
from ironic_lite.rpc import notifier
from ironic_lite.rpc.notifier import Notifier
from ironic_lite.steps import Priority


class Alarm(Protocol):
    """Whoever remembers which waiting node is due when."""

    def set(self, node_uuid: str, when: datetime.datetime) -> None:
        """Note that the node wants to be polled at ``when`` (naive UTC)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Desk:
    """One conductor's means.

    ``conf`` is the oslo.config object with our groups; ``clean_priorities`` and
    ``verify_priorities`` map ``interface.step`` to the priority the operator configured (S2.5).
    ``fence`` knows when its leases were last renewed. ``notifier`` is told of committed events
    (S5.29). ``rulebook`` has the inspection rules of the configuration.
    ``draining`` is set when the service begins to stop: nothing new is begun; ``stopping`` when
    running work has had its time: it leaves its nodes.
    """

    host: str
    conf: Any
    database: Database
    registry: Registry
    workers: Workers
    alarm: Alarm
    fence: Fence
    clean_priorities: Mapping[str, Priority] = dataclasses.field(default_factory=dict)
    verify_priorities: Mapping[str, Priority] = dataclasses.field(default_factory=dict)
    notifier: Notifier = notifier.OFF
    rulebook: Rulebook = dataclasses.field(default_factory=lambda: Rulebook(None))
    draining: threading.Event = dataclasses.field(default_factory=threading.Event)
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)
