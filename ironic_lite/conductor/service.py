"""One running conductor: registers, listens, sweeps, and stops without losing anything.

The RPC server hands calls to ``Endpoints``; the sweeps of ``watch`` look after the rest.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from ironic_lite import clock, config, errors
from ironic_lite.conductor import outage
from ironic_lite.conductor.allocating import Allocator
from ironic_lite.conductor.desk import Desk
from ironic_lite.conductor.endpoints.agent import Agent
from ironic_lite.conductor.endpoints.allocation import Allocation
from ironic_lite.conductor.endpoints.machine import Machine
from ironic_lite.conductor.endpoints.management import Management
from ironic_lite.conductor.endpoints.network import Network
from ironic_lite.conductor.endpoints.provision import Provision
from ironic_lite.conductor.endpoints.vendor import Vendor
from ironic_lite.conductor.endpoints.waited import Waited
from ironic_lite.conductor.fence import Fence
from ironic_lite.conductor.rulebook import Rulebook
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import keepalive
from ironic_lite.conductor.watch.alarm import Alarm
from ironic_lite.conductor.watch.consoles import Consoles
from ironic_lite.conductor.watch.fleet import Fleet, pace
from ironic_lite.conductor.watch.leftovers import Leftovers
from ironic_lite.conductor.watch.moved import Moved
from ironic_lite.conductor.watch.orphans import Orphans
from ironic_lite.conductor.watch.powersync import PowerSync
from ironic_lite.conductor.watch.searches import Searches
from ironic_lite.conductor.watch.sensors import Sensors
from ironic_lite.conductor.watch.sweeps import Sweep, Sweeps
from ironic_lite.conductor.watch.timeouts import Timeouts
from ironic_lite.conductor.watch.trimming import Trimming
from ironic_lite.conductor.workers import Workers
from ironic_lite.db import conductors, nodes, traits
from ironic_lite.db.session import Database
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.rpc import notifier
from ironic_lite.rpc.server import Server, answer_seconds

if TYPE_CHECKING:
    from ironic_lite.conductor.fileserver import FileServer

LOG = logging.getLogger(__name__)


class Endpoints(Provision, Machine, Management, Network, Vendor, Agent, Allocation):
    """Everything of ``rpc.interface.Conductor`` in one object."""

    def __init__(self, tasks: Tasks) -> None:
        super().__init__(tasks)
        self.allocator = Allocator(tasks.desk)


class Service:
    """A conductor from registration to its last unlock.

    :param conf: the oslo.config object with our groups.
    :param transport: from ``rpc.transport``; None runs without RPC (tests call ``endpoints``).
    :raises config.ConfigError: notifications cannot be sent, files not served, or rules not read,
        as configured.
    """

    def __init__(
        self, conf: Any, database: Database, registry: Registry, transport: Any | None
    ) -> None:
        self._conf = conf
        settings = conf.conductor
        workers = Workers(settings.workers_pool_size, settings.reserved_workers_pool_percentage)
        self._alarm = Alarm()
        stopping = threading.Event()
        database = outage.outlasting(database, conf.host, stopping)
        self.desk = Desk(
            conf.host,
            conf,
            database,
            registry,
            workers,
            self._alarm,
            Fence(settings.heartbeat_timeout),
            clean_priorities=Settings.read(conf).clean_priorities,
            verify_priorities=config.priorities(settings.verify_step_priority_override),
            notifier=notifier.build(
                conf, "ironic-conductor", lambda node: database.read(lambda c: traits.get(c, node))
            ),
            rulebook=_rulebook(conf),
            stopping=stopping,
        )
        self.tasks = Tasks(self.desk)
        self.endpoints = Endpoints(self.tasks)
        self._fleet = Fleet(self.desk)
        self._keepalive = keepalive.Keepalive(
            self.tasks, lambda: self._server.in_hand if self._server else 0
        )
        self._orphans = Orphans(self.tasks, self._fleet)
        self.power = PowerSync(self.tasks, self._fleet)
        self._metrics = notifier.metrics(conf, "ironic-conductor")
        self.sensors = Sensors(self.tasks, self._fleet, self._metrics)
        self._sweeps = Sweeps(self.desk.draining, self._plan())
        self.files = file_server(conf)
        self._server = self._serve(transport) if transport else None

    def _serve(self, transport: Any) -> Server:
        waited = Waited(self.endpoints, answer_seconds(transport) * _WAITED)
        return Server(transport, self.desk.host, waited)

    def _plan(self) -> list[Sweep]:
        """Return what is done again and again: name, seconds between, act."""
        settings = self._conf.conductor
        seldom, often = settings.check_provision_state_interval, pace(settings.heartbeat_timeout)
        timeouts = Timeouts(self.tasks, self._fleet)
        trimming = Trimming(self.tasks, self._fleet)
        moved = Moved(self.tasks, self._fleet)
        old_files = Leftovers(self.tasks, self._fleet)
        consoles = Consoles(self.tasks, self._fleet)
        searches = Searches(self.tasks, self._fleet, self.endpoints.allocator)
        return [
            Sweep("time-outs", settings.check_provision_state_interval, timeouts.sweep),
            Sweep("orphans", seldom and min(seldom, often), self._orphans.sweep),
            Sweep("allocations", seldom and min(seldom, often), searches.sweep),
            Sweep("power sync", settings.sync_power_state_interval, self.power.sweep),
            Sweep("power recovery", settings.power_failure_recovery_interval, self.power.recover),
            Sweep("old history", settings.node_history_cleanup_interval, trimming.sweep),
            Sweep("sensors", self.sensors.interval, self.sensors.sweep),
            Sweep("consoles", consoles.interval, consoles.sweep),
            Sweep("moved nodes", settings.sync_local_state_interval, moved.sweep),
            Sweep("joins and leaves", settings.sync_local_state_interval and often, moved.follow),
            Sweep("old files", settings.sync_local_state_interval, old_files.sweep),
        ]

    def start(self) -> None:
        """Register, listen, then begin: see `announce` and `begin`."""
        self.announce()
        self.begin()

    def announce(self) -> None:
        """Listen for calls, then register: nobody calls before that. A broker that is away is
        waited for.

        Breaking this off costs nothing: no node has been touched, unless a call came in.
        """
        if self.files is not None:
            self.files.start()
        if self._server is not None:
            self._server.start()
        self.desk.database.write(functools.partial(keepalive.register, desk=self.desk))
        self._keepalive.start()

    def begin(self) -> None:
        """Take back what an earlier life of this host left, ring timers, sweep."""
        self._alarm.start(self.tasks, self._fleet)
        self.recovery = self._orphans.take_back()
        self._sweeps.start()
        LOG.info("Conductor %s is up", self.desk.host)

    def stop(self, timeout: float | None = None) -> bool:
        """Stop: others own the nodes, workers finish or leave them, the leases end last.

        :param timeout: seconds for running work; None takes [conductor]graceful_shutdown_timeout,
            0 waits for ever.
        :returns: True if everything had finished in time.
        """
        limit = self._conf.conductor.graceful_shutdown_timeout if timeout is None else timeout
        end = time.monotonic() + limit if limit else float("inf")
        host = self.desk.host
        self.desk.draining.set()
        self._sign_off()
        if self._server is not None:
            self._stay()
            self._server.stop()
            self._server.wait(_CALLS_END)
        self._alarm.stop()
        finished = self._finish(end)
        self.desk.stopping.set()  # sleeping steps leave their nodes to the next owner
        finished = self.desk.workers.wait_idle(_GRACE) and finished
        self.desk.registry.close()
        self._keepalive.stop()
        self._let_go()
        if self.files is not None:
            self.files.stop()
        self.desk.workers.close()
        self.desk.notifier.close()
        self._metrics.close()
        LOG.info("Conductor %s has stopped%s", host, "" if finished else ", work was left over")
        return finished

    def hurry(self) -> None:
        """Let a stop that is under way wait no longer: what runs is left to others."""
        self.desk.stopping.set()

    def _stay(self) -> None:
        """Answer on, until every API has read anew who owns the nodes now.

        Without others there is nobody to go to.
        """
        try:
            others = [one for one in self._fleet.members() if one.host != self.desk.host]
        except errors.Error:
            return
        if others:
            LOG.info("Answering until others are asked; nodes belong to %d others now", len(others))
            self.desk.stopping.wait(self._conf.conductor.hash_ring_reset_interval + _ON_THE_WAY)

    def _finish(self, end: float) -> bool:
        """Wait for running work until ``end``, or until somebody is in a hurry; True if done."""
        while not self.desk.stopping.is_set():
            if self.desk.workers.wait_idle(max(0.0, min(_LOOK, end - time.monotonic()))):
                return True
            if time.monotonic() >= end:
                return False
        return self.desk.workers.busy == 0

    def _let_go(self) -> None:
        """Leave what still runs, and ends with this process, to others at once: its locks would
        live on for as long as those of a dead one.
        """
        left = self.tasks.held
        try:
            if left:
                give_up = functools.partial(nodes.give_up, host=self.desk.host, tokens=left)
                self.desk.database.write(give_up)
        except errors.Error as why:
            LOG.warning("Nodes are taken over when their leases end: %s", why)

    def _sign_off(self) -> None:
        """Say that this conductor takes no more nodes; without it peers find out a little later."""
        host, now = self.desk.host, clock.now()
        try:
            self.desk.database.write(lambda conn: conductors.offline(conn, host, now))
        except errors.Error as why:
            LOG.warning("Stopping without having said so in the database: %s", why)


def _rulebook(conf: Any) -> Rulebook:
    made = Rulebook(conf.inspection_rules.built_in_rules)
    made.check()
    return made


_WAITED = 0.9  # of the time RPC gives a call: an error of the machine is to come before RPC's own
_CALLS_END = 10.0  # seconds for calls being answered; each only checks, moves and hands over
_GRACE = 5.0  # seconds for interrupted workers to give their locks back
_ON_THE_WAY = 1.0  # seconds for a call that went off with an old answer to the question who owns
_LOOK = 0.5  # seconds between two looks whether a stop is to hurry


def file_server(conf: Any) -> FileServer | None:
    """Return the server of files that the configuration asks for, if it asks for one.

    :raises config.ConfigError: see ``fileserver.configured``.
    """
    if conf.deploy.http_port is None:
        return None
    from ironic_lite.conductor import fileserver  # noqa: PLC0415  # two MiB, which few need

    return fileserver.configured(conf)
