"""Finds nodes that came from another conductor, and rebuilds here what their machines boot from.

Boot files lie on the conductor that wrote them. A node whose ramdisk runs, or whose instance boots
from them each time, takes them along when the ring gives it to another one. Rebuilding may take a
download, or a BMC's time: some workers do it, whose machine may boot soonest first. So does a
console that was started; those with a program of their own are looked after by ``consoles``.
"""

from __future__ import annotations

import collections
import datetime
import functools
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ironic_lite import context, errors, states
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import nodes as db_nodes
from ironic_lite.db import sweeps
from ironic_lite.drivers import base
from ironic_lite.states import Kind, State

LOG = logging.getLogger(__name__)

STATES = tuple(
    sorted(
        str(state)
        for state in {*states.of_kind(Kind.WAIT), *states.of_kind(Kind.HELD)}
        | {State.ACTIVE, State.RESCUE}
    )
)
"""Those in which a machine may boot again without a verb; verbs write all files anew."""

_PAGE = 100
_LATER = (Kind.WAIT, Kind.HELD, Kind.STABLE, Kind.FAIL, Kind.BUSY)
"""Whose machines may boot soonest comes first: a ramdisk about to come up, one that is held."""


class Stamp(NamedTuple):
    """What tells that nobody has moved a node, nor started its console, since it was looked at."""

    moved: datetime.datetime | None
    console: bool


class Moved:
    """Remembers which nodes have all they need here, and looks once per owner and state at each.

    At most [conductor]periodic_max_workers nodes are looked at at once, so one slow BMC holds up
    neither the sweep nor the other nodes; who is under way is not begun again.

    A node that has changed its state since is looked at again: while this conductor was silent,
    calls may have gone to another one, which has written there what the machine boots from.
    """

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._guard = threading.Lock()
        self._settled: dict[str, Stamp] = {}
        self._left: collections.deque[tuple[str, Stamp]] = collections.deque()
        self._under_way: set[str] = set()
        self._hands = 0  # workers that look at nodes now
        self._hosts: frozenset[str] = frozenset()

    def follow(self) -> None:
        """Sweep, if a conductor has come or gone since the last look."""
        hosts = frozenset(member.host for member in self._fleet.members())
        if hosts != self._hosts:
            self._hosts = hosts
            self.sweep()

    def sweep(self) -> None:
        """Have this conductor's nodes looked at that it has not seen before; do not wait for it."""
        mine = [row for row in self._standing() if self._fleet.mine(row)]
        mine.sort(key=_urgency)
        seen = {row["uuid"]: _stamp(row) for row in mine}
        with self._guard:
            self._settled = {one: self._settled[one] for one in seen.keys() & self._settled.keys()}
            self._left = collections.deque(
                (uuid, stamp)
                for uuid, stamp in seen.items()
                if self._settled.get(uuid) != stamp and uuid not in self._under_way
            )
            most: int = self._tasks.desk.conf.conductor.periodic_max_workers
            wanted = min(len(self._left), most - self._hands)
        for _ in range(wanted):
            if not self._hire():
                return  # all are busy: the next sweep finds what is left

    def _hire(self) -> bool:
        workers = self._tasks.desk.workers
        try:
            workers.claim(reserved=False)
            with self._guard:
                self._hands += 1
            workers.run(self._work_off)
        except errors.NoFreeWorker as why:
            LOG.info("Rebuilding what moved nodes boot from goes on later: %s", why)
            return False
        return True

    def _work_off(self) -> None:
        while (found := self._next()) is not None:
            uuid, stamp = found
            before = self._settled.get(uuid)
            anew = before is None or not before.console
            settled = self._settle(uuid, console=anew)
            with self._guard:
                self._under_way.discard(uuid)
                if settled:
                    self._settled[uuid] = stamp

    def _next(self) -> tuple[str, Stamp] | None:
        """Return the next node to be looked at; None: this worker has gone."""
        with self._guard:
            if not self._left or self._tasks.desk.draining.is_set():
                self._hands -= 1
                return None
            found = self._left.popleft()
            self._under_way.add(found[0])
            return found

    def _standing(self) -> Iterator[Mapping[str, Any]]:
        after = 0
        while not self._tasks.desk.draining.is_set():
            question = functools.partial(
                sweeps.standing, states=STATES, after_id=after, limit=_PAGE
            )
            page = self._tasks.desk.database.read(question)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1]["id"]

    def _settle(self, uuid: str, *, console: bool) -> bool:
        """Take a node over if its files are missing; True if there is nothing left to do.

        :param console: it has not been seen with a started console yet.
        """
        who = context.internal("taking over")
        database = self._tasks.desk.database
        try:
            seen = self._tasks.view(who, database.read(lambda conn: db_nodes.load(conn, uuid)))
            lacks = str(seen.state) in STATES and seen.driver.deploy.lacks_files(seen)
            if not (lacks or (console and _reached(seen))):
                return True
            with self._tasks.lock(who, uuid, patient=False, reserved=False) as task:
                if lacks and str(task.state) in STATES:
                    task.driver.deploy.take_over(task)
                if console and _reached(task):
                    task.driver.console.start_console(task)
                task.save()
        except errors.Error as why:
            LOG.warning("Node %s: its files, or its console, are rebuilt later: %s", uuid, why)
            return False
        except Exception:  # a driver's bug with one node leaves the others to be looked at
            LOG.exception("Node %s: its files, or its console, could not be rebuilt", uuid)
            return False
        return True


def _reached(task: Task) -> bool:
    """Tell whether the node's console is to be reachable, and nobody else sees to that."""
    console = task.driver.console
    can = type(console).start_console is not base.Console.start_console and not console.by_program
    return bool(task.node.console_enabled) and can


def _stamp(row: Mapping[str, Any]) -> Stamp:
    return Stamp(row["provision_updated_at"], bool(row["console_enabled"]))


def _urgency(row: Mapping[str, Any]) -> int:
    return _LATER.index(states.kind(State(row["provision_state"])))
