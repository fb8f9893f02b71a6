"""Sweep that rebuilds boot files of nodes that moved to this conductor.

Boot files are on the conductor that wrote them. A node needs them here if its ramdisk runs, or if
its instance boots from them each time, when the ring assigns the node to this conductor. Rebuilding
may need a download, or a BMC's time. So some workers do it, beginning with the machine that may
boot soonest. The same applies to a started console; ``consoles`` handles those with a program.
"""

from __future__ import annotations

import collections
import datetime
import functools
import logging
import threading
from collections.abc import Iterator
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.flows import consoles
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import context
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.queries import nodes as db_nodes
from ironic_lite.db.queries import sweeps
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers import base

LOG = logging.getLogger(__name__)

STATES = tuple(
    sorted(
        str(state)
        for state in {*states.of_kind(Kind.WAIT), *states.of_kind(Kind.HELD)}
        | {State.ACTIVE, State.RESCUE}
    )
)
"""States in which a machine may boot again without a verb; verbs write all files again."""

_PAGE = 5000  # rows have few columns
_LATER = (Kind.WAIT, Kind.HELD, Kind.STABLE, Kind.FAIL, Kind.BUSY)
"""Sort order: machines that may boot soonest first, such as a booting or held ramdisk."""


class Stamp(NamedTuple):
    """Values that change when a node is moved or its console is started."""

    moved: datetime.datetime | None
    console: bool


class Waiting(NamedTuple):
    """A node to be checked; ``owner`` is its project."""

    uuid: str
    stamp: Stamp
    owner: str | None


class LocalState:
    """Remembers complete nodes, and checks each node once per owner and state.

    At most [conductor]periodic_max_workers nodes are checked at once, so one slow BMC delays
    neither the sweep nor the other nodes. The nodes of one project have their share of these
    workers, because its servers of images may hang. A node under check is not begun again.

    A node whose state has changed is checked again: while this conductor was silent, calls may have
    gone to another one, which has written the boot files there.
    """

    def __init__(self, tasks: Tasks, fleet: Ownership) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._guard = threading.Lock()
        self._settled: dict[str, Stamp] = {}
        self._left: list[Waiting] = []  # in order
        self._under_way: dict[str, str | None] = {}  # the project of each node
        self._workers = 0  # that check nodes now
        self._hosts: frozenset[str] = frozenset()

    def follow(self) -> None:
        """Sweep if a conductor has come or gone since the last check."""
        hosts = frozenset(member.host for member in self._fleet.members())
        if hosts != self._hosts:
            self._hosts = hosts
            self.sweep()

    def sweep(self) -> None:
        """Have new nodes of this conductor checked, without waiting for the result."""
        mine = [row for row in self._standing_nodes() if self._fleet.mine(row)]
        mine.sort(key=_row_urgency)
        seen = {row["uuid"]: Waiting(row["uuid"], _row_stamp(row), row["owner"]) for row in mine}
        with self._guard:
            self._settled = {one: self._settled[one] for one in seen.keys() & self._settled.keys()}
            self._left = [
                one
                for uuid, one in seen.items()
                if self._settled.get(uuid) != one.stamp and uuid not in self._under_way
            ]
            most: int = self._tasks.runtime.conf.conductor.periodic_max_workers
            wanted = min(len(self._left), most - self._workers)
        for _ in range(wanted):
            if not self._start_worker():
                return  # all are busy: the next sweep finds the rest

    def _start_worker(self) -> bool:
        workers = self._tasks.runtime.workers
        with self._guard:
            self._workers += 1
        try:
            workers.claim(reserved=False)
            workers.run(self._work_off)
        except errors.NoFreeWorker as why:
            with self._guard:
                self._workers -= 1
            LOG.info("Rebuilding the boot files of moved nodes continues later: %s", why)
            return False
        return True

    def _work_off(self) -> None:
        while (found := self._next_node()) is not None:
            uuid, stamp = found.uuid, found.stamp
            before = self._settled.get(uuid)
            anew = before is None or not before.console
            settled = self._settle_node(uuid, console=anew)
            with self._guard:
                del self._under_way[uuid]
                if settled:
                    self._settled[uuid] = stamp

    def _next_node(self) -> Waiting | None:
        """Return the next node to check; None: this worker has ended."""
        with self._guard:
            full = self._full_projects()
            found = next((one for one in self._left if one.owner not in full), None)
            if found is None or self._tasks.runtime.draining.is_set():
                self._workers -= 1
                return None
            self._left.remove(found)
            self._under_way[found.uuid] = found.owner
            return found

    def _full_projects(self) -> set[str]:
        """Return the projects whose share of the workers is in use."""
        settings = self._tasks.runtime.conf.conductor
        share = settings.periodic_max_workers * settings.workers_project_percentage // 100
        begun = collections.Counter(self._under_way.values())
        return {one for one, count in begun.items() if one is not None and count >= max(1, share)}

    def _standing_nodes(self) -> Iterator[sweeps.Standing]:
        after = 0
        while not self._tasks.runtime.draining.is_set():
            question = functools.partial(
                sweeps.standing, states=STATES, after_id=after, limit=_PAGE
            )
            page = self._tasks.runtime.database.read(question)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1]["id"]

    def _settle_node(self, uuid: str, *, console: bool) -> bool:
        """Take a node over if its files are missing; return True if nothing is left.

        :param console: the node has not been seen with a started console before.
        """
        who = context.internal("taking over")
        database = self._tasks.runtime.database
        try:
            seen = self._tasks.view(who, database.read(lambda conn: db_nodes.load(conn, uuid)))
            lacks = str(seen.state) in STATES and seen.driver.deploy.lacks_files(seen)
            if not (lacks or (console and _needs_console(seen))):
                return True
            with self._tasks.lock(who, uuid, patient=False, reserved=False) as task:
                if lacks and str(task.state) in STATES:
                    task.driver.deploy.take_over(task)
                if console and _needs_console(task):
                    task.driver.console.start_console(task)
                task.save()
        except errors.Error as why:
            LOG.warning(
                "Node %s: its boot files or its console will be rebuilt later: %s", uuid, why
            )
            return False
        except BaseException:  # a driver's bug, such as sys.exit, must not stop the other nodes
            LOG.exception("Node %s: its boot files or its console could not be rebuilt", uuid)
            return False
        return True


def _needs_console(task: Task) -> bool:
    """Return whether this sweep must keep the node's console reachable."""
    console = task.driver.console
    can = type(console).start_console is not base.Console.start_console and not console.by_program
    return consoles.wanted(task.node) and can


def _row_stamp(row: JsonView) -> Stamp:
    return Stamp(row["provision_updated_at"], bool(row["console_enabled"]))


def _row_urgency(row: JsonView) -> int:
    return _LATER.index(states.kind(State(row["provision_state"])))
