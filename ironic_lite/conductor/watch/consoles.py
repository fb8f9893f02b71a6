"""Sees to it that started consoles can be reached, at the conductor that their nodes belong to.

A console that is reached through a program of the conductor is gone with that program, whether it
ended by itself, or with the conductor, or the node has come here from another one. Here it is
started again, and ended where the node went away.
"""

from __future__ import annotations

import functools
import logging
import time
import weakref
from collections.abc import Iterator

from ironic_lite import context, errors
from ironic_lite.conductor.flows import consoles
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import lanes
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import nodes, sweeps
from ironic_lite.drivers import base
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)

_PAGE = 100
_SOON = 30.0  # seconds after which nodes are looked at again that somebody worked on


class Consoles:
    """The programs of this conductor, compared with what the nodes say."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._who = context.internal("consoles")
        loaded = tasks.desk.registry.interfaces["console"].values()
        self._kinds = [one for one in loaded if isinstance(one, base.Console) and one.by_program]
        self._hosts: frozenset[str] = frozenset()
        self._next = float("inf")  # when all nodes are looked at, if nothing happens before
        self._dead: weakref.WeakSet[base.Proxy] = weakref.WeakSet()  # those looked at already

    @property
    def interval(self) -> float:
        """Seconds between two sweeps, 0 if no console here is reached through a program."""
        pause = self._tasks.desk.conf.console.subprocess_checking_interval
        return float(pause if self._kinds else 0)

    def sweep(self) -> None:
        """Look at all nodes if a program has ended, a conductor has come or gone, or time is up."""
        hosts = frozenset(member.host for member in self._fleet.members())
        proxies = self._proxies()
        dead = {proxy for _, _, proxy in proxies if not proxy.running}
        if hosts == self._hosts and dead <= set(self._dead) and time.monotonic() < self._next:
            return
        regular = self._tasks.desk.conf.conductor.sync_local_state_interval
        self._next = time.monotonic() + (regular or float("inf"))
        settings = self._tasks.desk.conf.conductor
        standing: set[tuple[base.Console, str]] = set()
        lanes.go_through(
            self._lost(standing),
            self._restore,
            most=settings.periodic_max_workers,
            halted=self._tasks.desk.draining,
        )
        self._hosts, self._dead = hosts, weakref.WeakSet(dead)
        for console, uuid, proxy in proxies:
            if (console, uuid) not in standing and not self._wanted(console, uuid):
                LOG.info("Node %s: its console is ended here", uuid)
                console.let_go(uuid, proxy)

    def _proxies(self) -> list[tuple[base.Console, str, base.Proxy]]:
        """Return all programs; before any node is read, so that younger ones are left alone."""
        return [(kind, uuid, one) for kind in self._kinds for uuid, one in kind.proxies().items()]

    def _soon(self) -> None:
        self._next = min(self._next, time.monotonic() + _SOON)

    # -- consoles without a program ------------------------------------------------------------

    def _lost(self, standing: set[tuple[base.Console, str]]) -> Iterator[Node]:
        """Yield this conductor's nodes whose console is started, and not reachable.

        :param standing: takes up all whose console is to be reached through a program here.
        """
        after = 0
        while True:
            question = functools.partial(sweeps.with_console, after_id=after, limit=_PAGE)
            page = self._tasks.desk.database.read(question)
            for node in (Node.of(row) for row in page if self._fleet.mine(row)):
                console = self._console(node)
                if console is None or not console.by_program:
                    continue
                standing.add((console, node.uuid))
                proxy = console.proxies().get(node.uuid)
                if proxy is None or not proxy.running:
                    yield node
            if len(page) < _PAGE:
                return
            after = page[-1]["id"]

    def _console(self, node: Node) -> base.Console | None:
        try:
            return self._tasks.driver(node).console
        except errors.Error as why:
            LOG.warning("Node %s: its console cannot be looked after: %s", node.uuid, why)
            return None

    def _restore(self, node: Node) -> None:
        try:
            with self._tasks.lock(self._who, node.uuid, patient=False) as task:
                consoles.restore(task)
        except (errors.Conflict, errors.Unavailable) as why:
            LOG.info("Node %s: its console is started soon: %s", node.uuid, why)
            self._soon()
        except errors.Error as why:
            LOG.warning("Node %s: its console is started later: %s", node.uuid, why)

    # -- programs without a node ---------------------------------------------------------------

    def _wanted(self, console: base.Console, uuid: str) -> bool:
        """Tell whether a program is still needed here; while somebody works on the node, it is."""
        if self._tasks.desk.draining.is_set():
            return True
        database = self._tasks.desk.database
        try:
            node = database.read(lambda conn: nodes.load(conn, uuid))
        except errors.NodeNotFound:
            return False
        if node.reservation is not None:
            self._soon()
            return True
        here = node.console_enabled and self._fleet.mine(node.as_dict())
        return bool(here) and self._console(node) in {None, console}
