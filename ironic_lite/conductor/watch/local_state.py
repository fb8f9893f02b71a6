"""Local state of nodes: boot files and consoles kept at the owner, and files that are removed."""

from __future__ import annotations

import collections
import datetime
import functools
import logging
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from ironic_lite import errors
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import consoles
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.conductor.watch import ownership, sweep_threads
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock, context
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, nodes, ports, sweeps
from ironic_lite.db.queries import nodes as db_nodes
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import medium, network
from ironic_lite.images import published
from ironic_lite.records import Node

# Local files of nodes: rebuilt after a move to this conductor, removed when no longer needed.

# Sweep that rebuilds boot files of nodes that moved to this conductor.
#
# Boot files are on the conductor that wrote them. A node needs them here if its ramdisk runs, or if
# its instance boots from them each time, when the ring assigns the node to this conductor.
# Rebuilding may need a download, or a BMC's time. So some workers do it, beginning with the machine
# that may boot soonest. The same applies to a started console; `Consoles` handles those with a
# program.

LOG = logging.getLogger(__name__)

T = TypeVar("T")

STATES = tuple(
    sorted(
        str(state)
        for state in {*states.of_kind(Kind.WAIT), *states.of_kind(Kind.HELD)}
        | {State.ACTIVE, State.RESCUE}
    )
)
"""States in which a machine may boot again without a verb; verbs write all files again."""

_MOST = 5000  # rows have few columns
_PAGE = 100
_LATER = (Kind.WAIT, Kind.HELD, Kind.STABLE, Kind.FAIL, Kind.BUSY)
"""Sort order: machines that may boot soonest first, such as a booting or held ramdisk."""


class Stamp(NamedTuple):
    """Values that change when a node is moved, its ports change or its console is started."""

    moved: datetime.datetime | None
    console: bool
    ports: str | None


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
    gone to another one, which has written the boot files there. So is one whose ports have changed,
    because the boot files have their addresses. In other states than `STATES` only the notes of new
    nodes are read, because few have an image in a virtual drive.
    """

    def __init__(self, tasks: TaskRunner, ownership: Ownership) -> None:
        self._tasks = tasks
        self._ownership = ownership
        self._guard = threading.Lock()
        self._settled: dict[str, Stamp] = {}
        self._left: list[Waiting] = []  # in order
        self._under_way: dict[str, str | None] = {}  # the project of each node
        self._workers = 0  # that check nodes now
        self._hosts: frozenset[str] = frozenset()

    def follow(self) -> None:
        """Sweep if a conductor has come or gone since the last check."""
        hosts = frozenset(member.host for member in self._ownership.members())
        if hosts != self._hosts:
            self._hosts = hosts
            self.sweep()

    def sweep(self) -> None:
        """Have new nodes of this conductor checked, without waiting for the result."""
        seen: set[str] = set()
        new: dict[str, sweeps.Standing] = {}
        for row in filter(self._ownership.mine, self._standing_nodes()):
            seen.add(row["uuid"])
            if self._settled.get(row["uuid"]) != _row_stamp(row):
                new[row["uuid"]] = row
        idle = [
            uuid
            for uuid, row in new.items()
            if row["provision_state"] not in STATES and not row["console_enabled"]
        ]
        done = list(self._without_media(idle))
        with self._guard:
            for uuid in self._settled.keys() - seen:
                del self._settled[uuid]
            self._settled |= {uuid: _row_stamp(new[uuid]) for uuid in done}
            self._left = [
                Waiting(uuid, _row_stamp(row), row["owner"])
                for uuid, row in sorted(new.items(), key=lambda one: _row_urgency(one[1]))
                if self._settled.get(uuid) != _row_stamp(row) and uuid not in self._under_way
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

    def _without_media(self, uuids: Sequence[str]) -> Iterator[str]:
        """Yield the nodes without an image in a virtual drive, by their notes."""
        for some in _pages(uuids, self._tasks.runtime.draining):
            question = functools.partial(sweeps.notes, uuids=some)
            for row in self._tasks.runtime.database.read(question):
                if medium.ATTACHED_NOTE not in str(row["driver_internal_info"]):
                    yield row["uuid"]

    def _standing_nodes(self) -> Iterator[sweeps.Standing]:
        after = 0
        while not self._tasks.runtime.draining.is_set():
            read = functools.partial(sweeps.standing, states=STATES, after_id=after, limit=_MOST)
            page = self._tasks.runtime.database.read(read)
            yield from page
            if len(page) < _MOST:
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
            lacks = _lacks_files(seen)
            media = medium.lacks_attached(seen)
            if not (lacks or media or (console and _needs_console(seen))):
                return True
            with self._tasks.lock(who, uuid, patient=False, reserved=False) as task:
                # Each is saved at once, because the next one may fail.
                if lacks and str(task.state) in STATES:
                    task.driver.deploy.take_over(task)
                    task.save()
                if console and _needs_console(task):
                    task.driver.console.start_console(task)
                    task.save()
                if media:
                    medium.restore_attached(task)
        except errors.Error as why:
            LOG.warning(
                "Node %s: its boot files or its console will be rebuilt later: %s", uuid, why
            )
            return False
        except BaseException:  # a driver's bug, such as sys.exit, must not stop the other nodes
            LOG.exception("Node %s: its boot files or its console could not be rebuilt", uuid)
            return False
        return True


def _pages(found: Sequence[T], draining: threading.Event) -> Iterator[Sequence[T]]:
    """Yield some after some, until the service stops."""
    for first in range(0, len(found), _PAGE):
        if draining.is_set():
            return
        yield found[first : first + _PAGE]


def _lacks_files(seen: Task) -> bool:
    """Return whether boot files are missing, unless the node has no port that boots.

    Such a node is checked again when its ports change; its console and media do not wait for that.
    """
    try:
        return str(seen.state) in STATES and seen.driver.deploy.lacks_files(seen)
    except errors.MissingParameter as why:
        if why.facts.get("path") != "ports":
            raise
        LOG.warning("Node %s: its boot files will be rebuilt later: %s", seen.node.uuid, why)
        return False


def _needs_console(task: Task) -> bool:
    """Return whether this sweep must keep the node's console reachable."""
    console = task.driver.console
    can = type(console).start_console is not base.Console.start_console and not console.by_program
    return consoles.wanted(task.node) and can


def _row_stamp(row: JsonView) -> Stamp:
    return Stamp(row["provision_updated_at"], bool(row["console_enabled"]), row["ports"])


def _row_urgency(row: JsonView) -> int:
    return _LATER.index(states.kind(State(row["provision_state"])))


# Removal of files for machines that are no longer needed.
#
# These are all files of nodes that were deleted here, and the media and images that other nodes no
# longer use. A conductor keeps such files when a node moves away or the conductor is killed, and
# media contain an agent's token.
#
# A file stays as long as its node's notes name it, whichever conductor owns the node, and while the
# node has a lock. Conductors may share folders. A dnsmasq entry for a card, even one that ignores
# the card, stays as long as a node of this machine's conductors has the card.


OLD_SECONDS = 3600.0
"""Age below which a file is left alone, because a node records a file after it was made."""


class FileCleanup:
    """Checks the folders of this conductor."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership) -> None:
        self._runtime = tasks.runtime
        self._ownership = ownership

    def sweep(self) -> None:
        """Check all files once."""
        before = clock.ago(OLD_SECONDS).replace(tzinfo=datetime.UTC).timestamp()
        gone = 0
        for file in published.unused(before):
            published.remove(file)
            gone += 1
        for page in _pages(published.of_nodes(before), self._runtime.draining):
            gone += self._clean_page(page)
        for told in _pages(list(network.dnsmasq_files(before)), self._runtime.draining):
            gone += self._report_removed(told)
        if gone:
            LOG.info("Removed %d files for machines that are no longer needed", gone)

    def _clean_page(self, found: Sequence[published.Left]) -> int:
        question = functools.partial(sweeps.notes, uuids={left.node for left in found})
        rows = {row["uuid"]: row for row in self._runtime.database.read(question)}
        foreign = self._not_ours({left.node for left in found} - rows.keys())
        gone = 0
        for left in found:
            if left.node in foreign:
                continue
            if not _may_use_file(left, rows.get(left.node)):
                try:
                    gone += published.remove_left(left)
                except errors.LocalFileError as why:
                    LOG.warning("%s", why)
        return gone

    def _not_ours(self, uuids: set[str]) -> set[str]:
        """Return which of the nodes without a row this service has not deleted, by its history.

        Other services, and a database of another time, may have files in the same folders.
        """
        if not uuids:
            return set()
        return uuids - self._runtime.database.read(lambda conn: events.deleted(conn, uuids))

    def _report_removed(self, found: Sequence[network.DnsmasqFile]) -> int:
        question = functools.partial(_nodes_of_files, found=found)
        rows, owners = self._runtime.database.read(question)
        foreign = self._not_ours({told.node for told in found if told.node} - rows.keys())
        gone = 0
        for told in found:
            if told.node in foreign:
                continue
            owner = rows.get(str(owners.get(told.address) if told.address else told.node))
            if not self._still_meant(told, owner):
                try:
                    gone += network.withdraw_file(told)
                except errors.LocalFileError as why:
                    LOG.warning("%s", why)
        return gone

    def _still_meant(self, told: network.DnsmasqFile, owner: sweeps.NodeNotes | None) -> bool:
        """Return whether a dnsmasq entry is still needed.

        :param owner: the node that has the card, or that these options are for.
        """
        if owner is None or (told.node is not None and told.node != owner["uuid"]):
            return False
        if owner["observed"]:
            return True
        if told.node is None:
            return self._ownership.here(owner)
        return owner["reservation"] is not None or network.NOTE in str(
            owner["driver_internal_info"]
        )


def _nodes_of_files(
    conn: Connection, *, found: Sequence[network.DnsmasqFile]
) -> tuple[dict[str, sweeps.NodeNotes], dict[str, str]]:
    """Return the nodes of these files by UUID, and the owners of the cards."""
    owners = ports.owners(conn, {told.address for told in found if told.address})
    uuids = {told.node for told in found if told.node} | set(owners.values())
    return {row["uuid"]: row for row in sweeps.notes(conn, uuids=uuids)}, owners


def _may_use_file(left: published.Left, row: sweeps.NodeNotes | None) -> bool:
    """Return whether a node may still use a file; common names are overwritten."""
    if row is None:
        return False
    notes = str(row["driver_internal_info"])
    return (
        row["observed"]
        or not left.named
        or row["reservation"] is not None
        or left.file.name in notes
    )


# Sweep that keeps started consoles reachable at the conductor owning the node.
#
# A console may be reached through a program of the conductor. The program is lost when it ends by
# itself, when the conductor ends, or when the node moves to another conductor. The node's owner
# starts it again, and the former owner ends it.


_SOON = 30.0  # seconds until nodes that had a lock are checked again


class Consoles:
    """The console programs of this conductor, compared with the nodes."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership) -> None:
        self._tasks = tasks
        self._ownership = ownership
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
        hosts = frozenset(member.host for member in self._ownership.members())
        proxies = self._console_programs()
        dead = {proxy for _, _, proxy in proxies if not proxy.running}
        if hosts == self._hosts and dead <= set(self._dead) and time.monotonic() < self._next:
            return
        regular = self._tasks.runtime.conf.conductor.sync_local_state_interval
        self._next = time.monotonic() + (regular or float("inf"))
        settings = self._tasks.runtime.conf.conductor
        standing: set[tuple[base.Console, str]] = set()
        sweep_threads.run_all(
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
        for node in ownership.read_own(database, sweeps.with_console, self._ownership.mine):
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
        here = consoles.wanted(node) and self._ownership.mine(node.as_dict())
        return bool(here) and self._console_of(node) in {None, console}
