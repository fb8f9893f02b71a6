"""Sweep that keeps started consoles reachable at the conductor owning the node.

A console may be reached through a program of the conductor. The program is lost when it ends by
itself, when the conductor ends, or when the node moves to another conductor. The node's owner
starts it again, and the former owner ends it.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.conductor.flows import consoles
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import node_queue, own_nodes
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import context
from ironic_lite.db.queries import nodes, sweeps
from ironic_lite.drivers import base
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)

_SOON = 30.0  # seconds until nodes that had a lock are checked again


class Consoles:
    """The console programs of this conductor, compared with the nodes."""

    def __init__(self, tasks: Tasks, fleet: Ownership) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._who = context.internal("consoles")
        loaded = tasks.runtime.registry.interfaces["console"].values()
        self._kinds = [one for one in loaded if isinstance(one, base.Console) and one.by_program]
        self._hosts: frozenset[str] = frozenset()
        self._hanging: set[str] = set()  # nodes whose driver hangs, until it ends
        self._next = float("inf")  # time of the next full check, if nothing happens before
        self._dead: weakref.WeakSet[base.Proxy] = weakref.WeakSet()  # programs already handled

    @property
    def interval(self) -> float:
        """Seconds between two sweeps; 0 if no console interface here uses a program."""
        pause = self._tasks.runtime.conf.console.subprocess_checking_interval
        return float(pause if self._kinds else 0)

    def sweep(self) -> None:
        """Check all nodes if a program ended, a conductor came or went, or time is up."""
        hosts = frozenset(member.host for member in self._fleet.members())
        proxies = self._console_programs()
        dead = {proxy for _, _, proxy in proxies if not proxy.running}
        if hosts == self._hosts and dead <= set(self._dead) and time.monotonic() < self._next:
            return
        regular = self._tasks.runtime.conf.conductor.sync_local_state_interval
        self._next = time.monotonic() + (regular or float("inf"))
        settings = self._tasks.runtime.conf.conductor
        standing: set[tuple[base.Console, str]] = set()
        node_queue.go_through(
            self._lost(standing),
            self._restore_console,
            most=settings.periodic_max_workers,
            halted=self._tasks.runtime.draining,
            hanging=self._hanging,
        )
        self._hosts, self._dead = hosts, weakref.WeakSet(dead)
        for console, uuid, proxy in proxies:
            if (console, uuid) not in standing and not self._is_wanted(console, uuid):
                LOG.info("Node %s: its console is ended here", uuid)
                console.let_go(uuid, proxy)

    def _console_programs(self) -> list[tuple[base.Console, str, base.Proxy]]:
        """Return all programs; call this before reading nodes, so that newer ones stay."""
        return [(kind, uuid, one) for kind in self._kinds for uuid, one in kind.proxies().items()]

    def _check_soon(self) -> None:
        self._next = min(self._next, time.monotonic() + _SOON)

    # -- consoles without a program ------------------------------------------------------------

    def _lost(self, standing: set[tuple[base.Console, str]]) -> Iterator[Node]:
        """Yield this conductor's nodes whose console is started but not reachable.

        :param standing: collects all nodes whose console needs a program here.
        """
        database = self._tasks.runtime.database
        for node in own_nodes.read(database, sweeps.with_console, self._fleet.mine):
            console = self._console_of(node) if consoles.wanted(node) else None
            if console is None or not console.by_program:
                continue
            standing.add((console, node.uuid))
            proxy = console.proxies().get(node.uuid)
            if proxy is None or not proxy.running:
                yield node

    def _console_of(self, node: Node) -> base.Console | None:
        try:
            return self._tasks.driver(node).console
        except errors.Error as why:
            LOG.warning("Node %s: its console cannot be checked: %s", node.uuid, why)
            return None

    def _restore_console(self, node: Node) -> None:
        try:
            with self._tasks.lock(self._who, node.uuid, patient=False) as task:
                consoles.restore(task)
        except (errors.Conflict, errors.Unavailable) as why:
            LOG.info("Node %s: its console will be started soon: %s", node.uuid, why)
            self._check_soon()
        except errors.Error as why:
            LOG.warning("Node %s: its console will be started later: %s", node.uuid, why)

    # -- programs without a node ---------------------------------------------------------------

    def _is_wanted(self, console: base.Console, uuid: str) -> bool:
        """Return whether a program is still needed here; it is while the node has a lock."""
        if self._tasks.runtime.draining.is_set():
            return True
        database = self._tasks.runtime.database
        try:
            node = database.read(lambda conn: nodes.load(conn, uuid))
        except errors.NodeNotFound:
            return False
        if node.reservation is not None:
            self._check_soon()
            return True
        here = consoles.wanted(node) and self._fleet.mine(node.as_dict())
        return bool(here) and self._console_of(node) in {None, console}
