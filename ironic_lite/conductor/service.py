"""The running conductor: it registers, listens, sweeps and stops cleanly.

The RPC server passes calls to ``Endpoints``. The sweeps of ``watch`` do the rest.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.allocations import AllocationEndpoints, AllocationRecovery, Allocator
from ironic_lite.conductor.endpoints.agent import AgentEndpoints
from ironic_lite.conductor.endpoints.interceptors import (
    OncePerRequest,
    ThreadShares,
    WithDeadline,
    WithoutSecrets,
)
from ironic_lite.conductor.endpoints.machine import (
    ExaminationEndpoints,
    MachineEndpoints,
    ManagementEndpoints,
    NetworkEndpoints,
    VendorEndpoints,
)
from ironic_lite.conductor.endpoints.provision import ProvisionEndpoints
from ironic_lite.conductor.engine import db_retry
from ironic_lite.conductor.engine.locks import Fence
from ironic_lite.conductor.engine.runtime import BuiltinRules, Runtime
from ironic_lite.conductor.engine.workers import Workers
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.conductor.watch import keepalive
from ironic_lite.conductor.watch.local_state import Consoles, FileCleanup, LocalState
from ironic_lite.conductor.watch.orphans import Orphans
from ironic_lite.conductor.watch.ownership import Ownership, Peers, pace
from ironic_lite.conductor.watch.power_sync import PowerSync
from ironic_lite.conductor.watch.retention import OldKeys, Retention
from ironic_lite.conductor.watch.sensors import Sensors
from ironic_lite.conductor.watch.sweep_threads import Sweep, Sweeps
from ironic_lite.conductor.watch.timeouts import (
    BootRetries,
    HungWork,
    OverdueSteps,
    Timeouts,
    Timers,
)
from ironic_lite.core import certificate_files, clock, config, evidence_key, log_lines, threads
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import ConductorOptions, Configuration
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.queries import conductors, nodes
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.rpc import contract, notifier, stub
from ironic_lite.rpc.client import RpcClient
from ironic_lite.rpc.server import Server, answer_seconds

if TYPE_CHECKING:
    from ironic_lite.conductor.fileserver import FileServer

LOG = logging.getLogger(__name__)
_HOUR = 3600.0


class Endpoints(
    ProvisionEndpoints,
    MachineEndpoints,
    ManagementEndpoints,
    NetworkEndpoints,
    VendorEndpoints,
    AgentEndpoints,
    AllocationEndpoints,
    ExaminationEndpoints,
    contract.Conductor,
):
    """All methods of ``rpc.contract.Conductor`` in one object."""

    def __init__(self, tasks: TaskRunner) -> None:
        self.tasks = tasks
        self.allocator = Allocator(tasks.runtime)


class FeatureWork:
    """Work of a feature in a conductor; a feature overrides what it adds."""

    def sweeps(self) -> Sequence[Sweep]:
        """Return its periodic sweeps."""
        return ()

    def gauges(self) -> Json:
        """Return its gauges by metric."""
        return {}

    def announce(self) -> None:
        """Write what must be in the database before this conductor works."""


class Leftover(NamedTuple):
    """Work that a feature would go on with after a restore of the database.

    :ivar name: what it is, in the plural.
    :ivar find: returns a line for each, with what becomes of it.
    :ivar end: ends all, with the name of the conductor that writes; no conductor is alive.
    """

    name: str
    find: Callable[[Connection], Sequence[str]]
    end: Callable[[Transactions, str], None]


class ConductorService:
    """A conductor from registration to its last unlock.

    :param conf: the oslo.config object with our groups.
    :param transport: from ``rpc.transport``; None runs without RPC (tests call ``endpoints``).
    :param displaced: called when another process has taken this conductor's name: it must stop.
    :param extensions: make the work of the features that are on.
    :raises config.ConfigError: the configured notifications, file server, rules or evidence key
        cannot be used.
    """

    def __init__(
        self,
        conf: Configuration,
        database: Transactions,
        registry: Registry,
        transport: object | None,
        displaced: Callable[[], None] = lambda: None,
        *,
        extensions: Sequence[Callable[[ConductorService], FeatureWork]] = (),
    ) -> None:
        self._conf, self.timers, stopping = conf, Timers(), threading.Event()
        database = db_retry.retrying(database, conf.host, stopping)
        self.runtime = Runtime(
            conf.host,
            conf,
            database,
            registry,
            _new_workers(conf.conductor),
            self.timers,
            Fence(conf.conductor.heartbeat_timeout),
            clean_priorities=Settings.read(conf).clean_priorities,
            verify_priorities=config.priorities(conf.conductor.verify_step_priority_override),
            notifier=_new_notifier(conf, database),
            rulebook=_load_rules(conf),
            evidence_key=evidence_key.KeyFile(conf.conductor.evidence_key_file),
            stopping=stopping,
        )
        self.tasks = TaskRunner(self.runtime)
        self.endpoints, self.ownership = Endpoints(self.tasks), Ownership(self.runtime)
        self.peers = self._new_peers(transport)
        self.overdue = OverdueSteps(self.tasks, self.ownership)
        self.keepalive = keepalive.Keepalive(self.tasks, self._gauges, displaced)
        self.orphans, self.hung = Orphans(self.tasks, self.ownership), HungWork(self.tasks)
        self.power = PowerSync(self.tasks, self.ownership)
        self.metrics = notifier.metrics(conf, "ironic-conductor")
        self.sensors = Sensors(self.tasks, self.ownership, self.metrics)
        self.extensions = [extend(self) for extend in extensions]
        self.sweeps = Sweeps(self.runtime.draining, self._planned_sweeps())
        self.files = file_server(conf)
        self._server = self._new_server(transport) if transport else None

    def _gauges(self) -> Json:
        """Return the gauges that only the whole service knows, by metric."""
        in_hand = self._server.in_hand if self._server else 0
        values = {"rpc_in_hand": in_hand, "overdue_runs": self.overdue.count}
        plain = {name: [{"value": value}] for name, value in values.items()}
        of_features = [one.gauges() for one in self.extensions]
        return {**plain, **ChainMap(*of_features), **certificate_files.gauges()}

    def _new_peers(self, transport: Any) -> Peers:
        send = RpcClient(transport).send if transport else stub.to(self.endpoints)
        own = stub.connect(stub.to(self.endpoints), OncePerRequest())
        return Peers(self.ownership, self.runtime.host, own, send)

    def _new_server(self, transport: Any) -> Server:
        shares = ThreadShares(self._conf.conductor.workers_project_percentage)
        limit = WithDeadline(answer_seconds(transport) * _WAITED)
        served = stub.connect(stub.to(self.peers.own), shares, limit, WithoutSecrets())
        server = Server(transport, self.runtime.host, served)
        shares.limit(server.threads)
        return server

    def _planned_sweeps(self) -> list[Sweep]:
        """Return the periodic sweeps: name, interval in seconds, function."""
        settings = self._conf.conductor
        seldom, often = settings.check_provision_state_interval, pace(settings.heartbeat_timeout)
        timeouts = Timeouts(self.tasks, self.ownership)
        boot_retries = BootRetries(self.tasks, self.ownership)
        retention = Retention(self.tasks, self.ownership)
        local_state = LocalState(self.tasks, self.ownership)
        old_files = FileCleanup(self.tasks, self.ownership)
        consoles = Consoles(self.tasks, self.ownership)
        allocation_recovery = AllocationRecovery(
            self.tasks, self.ownership, self.endpoints.allocator
        )
        return [
            Sweep("time-outs", settings.check_provision_state_interval, timeouts.sweep),
            Sweep("boot retries", boot_retries.interval, boot_retries.sweep),
            Sweep("orphans", seldom and min(seldom, often), self.orphans.sweep),
            Sweep("allocations", seldom and min(seldom, often), allocation_recovery.sweep),
            Sweep("power sync", settings.sync_power_state_interval, self.power.sweep),
            Sweep("power recovery", settings.power_failure_recovery_interval, self.power.recover),
            Sweep("old history", settings.node_history_cleanup_interval, retention.sweep),
            Sweep("old keys", _HOUR, OldKeys(self.tasks).sweep),
            Sweep("discoveries", _HOUR, timeouts.end_discoveries),
            Sweep("sensors", self.sensors.interval, self.sensors.sweep),
            Sweep("consoles", consoles.interval, consoles.sweep),
            Sweep("moved nodes", settings.sync_local_state_interval, local_state.sweep),
            Sweep(
                "joins and leaves", settings.sync_local_state_interval and often, local_state.follow
            ),
            Sweep("hanging work", self.hung.interval, self.hung.sweep),
            Sweep("overdue steps", seldom, self.overdue.sweep),
            Sweep("old files", settings.sync_local_state_interval, old_files.sweep),
            *(sweep for one in self.extensions for sweep in one.sweeps()),
        ]

    def claim(self) -> None:
        """Claim this conductor's name before using it.

        :raises errors.Error: another living process has the name.
        """
        runtime = self.runtime
        runtime.boot.claim(runtime.host, config.state_path())
        settings = self._conf.conductor
        self.tasks.locks.name_is_ours = runtime.boot.name_is_ours(
            runtime.database, runtime.host, settings, runtime.stopping
        )

    def start(self) -> None:
        """Register, listen, then begin work: see `announce` and `begin`."""
        self.announce()
        self.begin()

    def announce(self) -> None:
        """Listen for calls, then register, so that no call is lost.

        Waits for a broker that is not available. Interrupting it is safe: no node has been touched,
        unless a call came in.
        """
        log_lines.install_run_lines(self.runtime.registry.packages)
        if self.files is not None:
            self.files.start()
        for extension in self.extensions:
            extension.announce()
        if self._server is not None:
            self._server.start()
        self.runtime.database.write(functools.partial(keepalive.register, runtime=self.runtime))
        self.tasks.locks.leases.renewed()  # the row is the first heartbeat
        self.keepalive.start()

    def begin(self) -> None:
        """Take back nodes of earlier lives of this host, start timers and sweeps."""
        self.timers.start(self.tasks, self.ownership)
        self.recovery = self.orphans.take_back()
        self.sweeps.start()
        LOG.info("Conductor %s is up", self.runtime.host)

    def stop(self, timeout: float | None = None) -> bool:
        """Stop: workers finish or leave their nodes, and the leases end last.

        :param timeout: seconds for running work; None uses [conductor]graceful_shutdown_timeout, 0
            waits without limit.
        :returns: True if all work finished in time, or left its node to the next owner after
            `stop_waiting`.
        """
        limit = self._conf.conductor.graceful_shutdown_timeout if timeout is None else timeout
        end = time.monotonic() + limit if limit else float("inf")
        host = self.runtime.host
        self.runtime.draining.set()
        self.runtime.run_ends.end()
        threads.run_within([self._sign_off], _BRIEF, "stop")
        if self._server is not None:
            self._stay_reachable()
            self._server.stop()
            self._server.wait(min(_CALLS_END, max(_BRIEF, end - time.monotonic())))
        self.timers.stop()
        finished = self._finish_work(end)
        self.runtime.stopping.set()  # sleeping steps leave their nodes to the next owner
        finished = self.runtime.workers.wait_idle(_GRACE) and finished
        if not threads.run_within([self.runtime.registry.close], _CLOSING, "stop"):
            LOG.warning("Drivers have not closed what they keep open; the stop continues")
        self.keepalive.stop()
        self.runtime.fence.close()
        if not threads.run_within([self._let_go], _BRIEF, "stop"):
            LOG.warning("The locks are not released yet; nodes are taken over when leases end")
        if self.files is not None:
            self.files.stop()
        self.runtime.workers.close()
        self.runtime.notifier.close()
        self.metrics.close()
        LOG.info("Conductor %s has stopped%s", host, "" if finished else ", work was left over")
        return finished

    def stop_waiting(self) -> None:
        """End the waiting of a stop in progress; leave running work to other conductors."""
        self.runtime.stopping.set()

    def _stay_reachable(self) -> None:
        """Keep answering until every API process has read the new owners of the nodes.

        Returns at once if there is no other conductor.
        """
        others: list[Any] = []

        def look() -> None:
            with contextlib.suppress(errors.Error):
                host = self.runtime.host
                others.extend(one for one in self.ownership.members() if one.host != host)

        threads.run_within([look], _BRIEF, "stop")
        if others:
            LOG.info(
                "Answering until API processes know the new owners: %d other conductors",
                len(others),
            )
            self.runtime.stopping.wait(self._conf.conductor.hash_ring_reset_interval + _ON_THE_WAY)

    def _finish_work(self, end: float) -> bool:
        """Wait for running work until ``end`` or `stop_waiting`; return True if all is done."""
        while not self.runtime.stopping.is_set():
            if self.runtime.workers.wait_idle(max(0.0, min(_LOOK, end - time.monotonic()))):
                return True
            if time.monotonic() >= end:
                return False
        return True  # interrupted workers get a moment to leave their nodes

    def _let_go(self) -> None:
        """Give the locks of running work to other conductors at once.

        The work ends with this process; its locks would otherwise stay until their leases end. The
        closed fence lets this conductor send nothing more to the machines of these nodes.
        """
        left = self.tasks.locks.held
        try:
            if left:
                give_up = functools.partial(nodes.give_up, host=self.runtime.host, tokens=left)
                self.runtime.database.write(give_up)
        except errors.Error as why:
            LOG.warning(
                "The locks were not released; nodes are taken over when their leases end: %s", why
            )

    def _sign_off(self) -> None:
        """Mark this conductor as leaving; otherwise peers notice it a little later."""
        host, now, boot = self.runtime.host, clock.now(), self.runtime.boot.id
        try:
            self.runtime.database.write(lambda conn: conductors.offline(conn, host, now, boot=boot))
        except errors.Error as why:
            LOG.warning(
                "Stopping, but the database does not show this conductor as stopped: %s", why
            )


def _new_workers(settings: ConductorOptions) -> Workers:
    return Workers(
        settings.workers_pool_size,
        settings.reserved_workers_pool_percentage,
        settings.workers_project_percentage,
    )


def _new_notifier(conf: Configuration, database: Transactions) -> notifier.Notifier:
    def ask(node: str) -> list[str]:
        return database.read(lambda conn: nodes.get_traits(conn, node))

    return notifier.build(conf, "ironic-conductor", ask)


def _load_rules(conf: Configuration) -> BuiltinRules:
    made = BuiltinRules(conf.inspection_rules.built_in_rules)
    made.check()
    return made


_WAITED = 0.9  # of the time RPC gives a call: the machine's error must come before RPC's time-out
_CALLS_END = 10.0  # seconds for calls being answered; each only checks, moves and hands over
_GRACE = 5.0  # seconds for interrupted workers to give their locks back
_BRIEF = 3.0  # seconds for one access to the database during a stop
_CLOSING = 10.0  # seconds for drivers to close what they keep open at machines
_ON_THE_WAY = 1.0  # seconds for a call that an API process sent with the old owners
_LOOK = 0.5  # seconds between two checks for `stop_waiting`


def file_server(conf: Configuration) -> FileServer | None:
    """Return the configured file server, or None.

    :raises config.ConfigError: see ``fileserver.configured``.
    """
    # Several processes of one machine share a file server in a process of its own.
    if conf.deploy.http_port is None or conf.conductor.processes > 1:
        return None
    from ironic_lite.conductor import fileserver  # noqa: PLC0415  # few need it

    return fileserver.configured(conf)
