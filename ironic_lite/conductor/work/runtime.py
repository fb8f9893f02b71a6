"""Objects shared by all work in one conductor: name, database, drivers, workers."""

from __future__ import annotations

import dataclasses
import datetime
import threading
from collections.abc import Mapping
from typing import Protocol

from ironic_lite.conductor.work.boot import Boot
from ironic_lite.conductor.work.builtin_rules import BuiltinRules
from ironic_lite.conductor.work.fence import Fence
from ironic_lite.conductor.work.wakeup import Wakeup
from ironic_lite.conductor.work.workers import Workers
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.evidence_key import KeyFile
from ironic_lite.db.engine.session import Transactions
from ironic_lite.domain.steps import Priority
from ironic_lite.drivers.registry import Registry
from ironic_lite.rpc import notifier
from ironic_lite.rpc.notifier import Notifier


class Timers(Protocol):
    """Remembers when each waiting node is due."""

    def set(self, node_uuid: str, when: datetime.datetime) -> None:
        """Have the node polled at ``when`` (naive UTC)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Runtime:
    """The shared objects of one conductor.

    ``conf`` is the oslo.config object with our groups; ``clean_priorities`` and
    ``verify_priorities`` map ``interface.step`` to the priority the operator configured (S2.5).
    ``fence`` stores the time of the last lease renewal. ``notifier`` receives committed events
    (S5.29). ``rulebook`` has the inspection rules of the configuration. ``evidence_key`` signs
    erasure records. ``boot`` identifies this
    process among others with its name. ``draining`` is set when the service begins to stop, after
    which no new work begins. ``stopping`` is set when running work has had its time and must leave
    its nodes. ``run_ends`` gets a signal when a run or a power change has ended.
    """

    host: str
    conf: Configuration
    database: Transactions
    registry: Registry
    workers: Workers
    timers: Timers
    fence: Fence
    clean_priorities: Mapping[str, Priority] = dataclasses.field(default_factory=dict)
    verify_priorities: Mapping[str, Priority] = dataclasses.field(default_factory=dict)
    notifier: Notifier = notifier.OFF
    rulebook: BuiltinRules = dataclasses.field(default_factory=lambda: BuiltinRules(None))
    evidence_key: KeyFile = dataclasses.field(default_factory=lambda: KeyFile(None))
    boot: Boot = dataclasses.field(default_factory=Boot)
    draining: threading.Event = dataclasses.field(default_factory=threading.Event)
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)
    run_ends: Wakeup = dataclasses.field(default_factory=Wakeup)
