"""The running conductor: it registers, listens, sweeps and stops cleanly.

The RPC server passes calls to ``Endpoints``. The sweeps of ``watch`` do the rest.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ironic_lite import errors
from ironic_lite.conductor.endpoints.agent import Agent
from ironic_lite.conductor.endpoints.allocation import Allocation
from ironic_lite.conductor.endpoints.examination import Examination
from ironic_lite.conductor.endpoints.machine import Machine
from ironic_lite.conductor.endpoints.management import Management
from ironic_lite.conductor.endpoints.network import Network
from ironic_lite.conductor.endpoints.provision import Provision
from ironic_lite.conductor.endpoints.thread_shares import ThreadShares
from ironic_lite.conductor.endpoints.vendor import Vendor
from ironic_lite.conductor.endpoints.with_deadline import WithDeadline
from ironic_lite.conductor.endpoints.without_secrets import WithoutSecrets
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import keepalive
from ironic_lite.conductor.watch.allocation_recovery import AllocationRecovery
from ironic_lite.conductor.watch.batches import Batches
from ironic_lite.conductor.watch.consoles import Consoles
from ironic_lite.conductor.watch.file_cleanup import FileCleanup
from ironic_lite.conductor.watch.hung import HungWork
from ironic_lite.conductor.watch.local_state import LocalState
from ironic_lite.conductor.watch.orphans import Orphans
from ironic_lite.conductor.watch.overdue import OverdueSteps
from ironic_lite.conductor.watch.ownership import Ownership, pace
from ironic_lite.conductor.watch.power_sync import PowerSync
from ironic_lite.conductor.watch.retention import OldKeys, Retention
from ironic_lite.conductor.watch.sensors import Sensors
from ironic_lite.conductor.watch.sweeps import Sweep, Sweeps
from ironic_lite.conductor.watch.timeouts import Timeouts
from ironic_lite.conductor.watch.timers import Timers
from ironic_lite.conductor.watch.webhooks import Webhooks
from ironic_lite.conductor.work import db_retry
from ironic_lite.conductor.work.allocator import Allocator
from ironic_lite.conductor.work.builtin_rules import BuiltinRules
from ironic_lite.conductor.work.fence import Fence
from ironic_lite.conductor.work.runtime import Runtime
from ironic_lite.conductor.work.workers import Workers
from ironic_lite.core import certificate_files, clock, config, evidence_key, run_lines
from ironic_lite.core.configuration import ConductorOptions, Configuration
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Transactions
from ironic_lite.db.queries import conductors, erasures, nodes, traits
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.rpc import interface, notifier, stub
from ironic_lite.rpc.server import Server, answer_seconds

if TYPE_CHECKING:
    from ironic_lite.conductor.fileserver import FileServer

LOG = logging.getLogger(__name__)
_HOUR = 3600.0


class Endpoints(
    Provision,
    Machine,
    Management,
    Network,
    Vendor,
    Agent,
    Allocation,
    Examination,
    interface.Conductor,
):
    """All methods of ``rpc.interface.Conductor`` in one object."""

    def __init__(self, tasks: Tasks) -> None:
        super().__init__(tasks)
        self.allocator = Allocator(tasks.runtime)


class Service:
    """A conductor from registration to its last unlock.

    :param conf: the oslo.config object with our groups.
    :param transport: from ``rpc.transport``; None runs without RPC (tests call ``endpoints``).
    :param displaced: called when another process has taken this conductor's name: it must stop.
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
    ) -> None:
        self._conf, settings, self.timers = conf, conf.conductor, Timers()
        stopping = threading.Event()
        database = db_retry.retrying(database, conf.host, stopping)
        self.runtime = Runtime(
            conf.host,
            conf,
            database,
            registry,
            _new_workers(settings),
            self.timers,
            Fence(settings.heartbeat_timeout),
            clean_priorities=Settings.read(conf).clean_priorities,
            verify_priorities=config.priorities(settings.verify_step_priority_override),
            notifier=_new_notifier(conf, database),
            rulebook=_load_rules(conf),
            evidence_key=evidence_key.KeyFile(settings.evidence_key_file),
            stopping=stopping,
        )
        self.tasks = Tasks(self.runtime)
        self.endpoints = Endpoints(self.tasks)
        self.ownership = Ownership(self.runtime)
        self.webhooks = Webhooks(self.runtime, self.ownership)
        self.overdue = OverdueSteps(self.tasks, self.ownership)
        self.keepalive = keepalive.Keepalive(self.tasks, self._gauges, displaced)
        self.orphans = Orphans(self.tasks, self.ownership)
        self.power = PowerSync(self.tasks, self.ownership)
        self.hung = HungWork(self.tasks)
        self.metrics = notifier.metrics(conf, "ironic-conductor")
        self.sensors = Sensors(self.tasks, self.ownership, self.metrics)
        self.sweeps = Sweeps(self.runtime.draining, self._planned_sweeps())
        self.files = file_server(conf)
        self._server = self._new_server(transport) if transport else None

    def _gauges(self) -> Json:
        """Return the gauges that only the whole service knows, by metric."""
        in_hand = self._server.in_hand if self._server else 0
        values = {"rpc_in_hand": in_hand, "overdue_runs": self.overdue.count}
        plain = {name: [{"value": value}] for name, value in values.items()}
        return {**plain, **self.webhooks.gauges(), **certificate_files.gauges()}

    def _renew_key(self) -> None:
        self.runtime.evidence_key.renew(self._publish_key)

    def _new_server(self, transport: Any) -> Server:
        shares = ThreadShares(self._conf.conductor.workers_project_percentage)
        limit = WithDeadline(answer_seconds(transport) * _WAITED)
        served = stub.connect(stub.to(self.endpoints), shares, limit, WithoutSecrets())
        server = Server(transport, self.runtime.host, served)
        shares.limit(server.threads)
        return server

    def _planned_sweeps(self) -> list[Sweep]:
        """Return the periodic sweeps: name, interval in seconds, function."""
        settings = self._conf.conductor
        seldom, often = settings.check_provision_state_interval, pace(settings.heartbeat_timeout)
        timeouts = Timeouts(self.tasks, self.ownership)
        trimming = Retention(self.tasks, self.ownership)
        moved = LocalState(self.tasks, self.ownership)
        old_files = FileCleanup(self.tasks, self.ownership)
        consoles = Consoles(self.tasks, self.ownership)
        batches = Batches(self.tasks, self.ownership, self.endpoints)
        searches = AllocationRecovery(self.tasks, self.ownership, self.endpoints.allocator)
        return [
            Sweep("time-outs", settings.check_provision_state_interval, timeouts.sweep),
            Sweep("orphans", seldom and min(seldom, often), self.orphans.sweep),
            Sweep("allocations", seldom and min(seldom, often), searches.sweep),
            Sweep("power sync", settings.sync_power_state_interval, self.power.sweep),
            Sweep("power recovery", settings.power_failure_recovery_interval, self.power.recover),
            Sweep("old history", settings.node_history_cleanup_interval, trimming.sweep),
            Sweep("batches", settings.batch_interval, batches.sweep, self.runtime.run_ends),
            Sweep("old batches", _HOUR, batches.forget),
            Sweep("old keys", _HOUR, OldKeys(self.tasks).sweep),
            Sweep("evidence key", certificate_files.LOOK_SECONDS, self._renew_key),
            Sweep("sensors", self.sensors.interval, self.sensors.sweep),
            Sweep("consoles", consoles.interval, consoles.sweep),
            Sweep("moved nodes", settings.sync_local_state_interval, moved.sweep),
            Sweep("joins and leaves", settings.sync_local_state_interval and often, moved.follow),
            Sweep("hanging work", self.hung.interval, self.hung.sweep),
            Sweep("overdue steps", seldom, self.overdue.sweep),
            Sweep("webhooks", self.webhooks.interval, self.webhooks.sweep),
            Sweep("old files", settings.sync_local_state_interval, old_files.sweep),
        ]

    def claim(self) -> None:
        """Claim this conductor's name before using it.

        :raises errors.Error: another living process has the name.
        """
        runtime = self.runtime
        runtime.boot.claim(runtime.host, config.state_path())
        settings = self._conf.conductor
        self.tasks.alone = runtime.boot.alone(
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
        run_lines.install(self.runtime.registry.packages)
        if self.files is not None:
            self.files.start()
        if self.runtime.evidence_key.current is not None:
            self._publish_key(self.runtime.evidence_key.current)
        if self._server is not None:
            self._server.start()
        self.runtime.database.write(functools.partial(keepalive.register, runtime=self.runtime))
        self.tasks.leases.renewed()  # the row is the first heartbeat
        self.keepalive.start()

    def _publish_key(self, key: evidence_key.EvidenceKey) -> None:
        """Store the public key, so that no record is older than its key."""
        at = clock.now()
        self.runtime.database.write(lambda conn: erasures.publish_key(conn, key.name, key.pem, at))

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
        _run_briefly(self._sign_off)
        if self._server is not None:
            self._stay_reachable()
            self._server.stop()
            self._server.wait(min(_CALLS_END, max(_BRIEF, end - time.monotonic())))
        self.timers.stop()
        finished = self._finish_work(end)
        self.runtime.stopping.set()  # sleeping steps leave their nodes to the next owner
        finished = self.runtime.workers.wait_idle(_GRACE) and finished
        if not _run_briefly(self.runtime.registry.close, _CLOSING):
            LOG.warning("Drivers have not closed what they keep open; the stop continues")
        self.keepalive.stop()
        self.runtime.fence.close()
        if not _run_briefly(self._let_go):
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

        _run_briefly(look)
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
        left = self.tasks.held
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


def _run_briefly(act: Callable[[], None], seconds: float | None = None) -> bool:
    """Run ``act`` in a thread; return False if it fails or has not ended in time.

    A locked or hung database, or a hung driver, delays the stop no longer than that. ``act``
    continues in the background until the process ends.

    :param seconds: the limit; None: `_BRIEF`.
    """
    done = threading.Event()

    def run() -> None:
        try:
            act()
        except Exception:
            LOG.exception("A part of the stop failed; the stop continues")
        else:
            done.set()

    thread = threading.Thread(target=run, name="stopping", daemon=True)
    try:
        thread.start()
        thread.join(_BRIEF if seconds is None else seconds)
    except RuntimeError:  # the system has no thread; locks are more important than a quick stop
        run()
    return done.is_set()


def _new_notifier(conf: Configuration, database: Transactions) -> notifier.Notifier:
    def ask(node: str) -> list[str]:
        return database.read(lambda conn: traits.get(conn, node))

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
