"""Threads of sweeps: periodic sweeps, and queues of nodes for few threads.

Each periodic sweep has its own thread, so that a slow one delays only itself. Sweeps that ask
machines use a paced queue, and a background queue for doubtful machines. This module does not know
the questions to the machines.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from ironic_lite import errors
from ironic_lite.conductor.engine import db_retry
from ironic_lite.conductor.engine.runtime import Wakeup
from ironic_lite.core import log_lines
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)
_LONGEST_START = 3600.0  # seconds
_GATHER = 0.2  # seconds after a signal, so that one sweep serves the signals which follow
_REST_FACTOR = (
    4  # times its last duration, so that signals keep a sweep running a fifth of the time
)


@dataclasses.dataclass(frozen=True, slots=True)
class Sweep:
    """A periodic action: name for the log, interval in seconds (0: never), function.

    :ivar wakeup: runs the action before its time.
    """

    name: str
    interval: float
    act: Callable[[], None]
    wakeup: Wakeup | None = None


class Sweeps:
    """Runs sweeps on time until halted; a failed sweep is logged and run again.

    ``plan`` has all sweeps by name, those without an interval too.
    """

    def __init__(self, halted: threading.Event, plan: Sequence[Sweep]) -> None:
        self.plan = {one.name: one for one in plan}
        self._halted = halted

    def start(self) -> None:
        """Start the sweeps.

        First runs are spread over their interval and pauses vary a little, so that conductors
        started together do not run in step. A daily sweep first runs within the hour, because a
        service may not run for a day.
        """
        for sweep in (one for one in self.plan.values() if one.interval > 0):
            threading.Thread(
                target=self._run_sweep, args=(sweep,), name=f"sweep {sweep.name}", daemon=True
            ).start()

    def _run_sweep(self, sweep: Sweep) -> None:
        # Jitter needs no cryptographic random generator.
        pause = min(sweep.interval, _LONGEST_START) * random.uniform(0.3, 1.0)
        outage, took = db_retry.OutageLog(LOG), 0.0
        while not self._wait(pause, sweep.wakeup, max(_GATHER, _REST_FACTOR * took)):
            began = time.monotonic()
            try:
                sweep.act()
                outage.back("The sweep for %s is run again", sweep.name)
            except errors.Unavailable as why:  # usually an unavailable database, not a bug
                outage.away("The sweep for %s failed; it runs again: %s", sweep.name, why)
            except errors.Error as why:
                LOG.warning("The sweep for %s failed; it runs again: %s", sweep.name, why)
            except BaseException:  # such as sys.exit in a driver: this sweep has only this thread
                LOG.exception("The sweep for %s failed; it runs again", sweep.name)
            took = time.monotonic() - began
            pause = sweep.interval * random.uniform(0.9, 1.1)

    def _wait(self, seconds: float, wakeup: Wakeup | None, rest: float) -> bool:
        """Wait until the next sweep; return whether the sweeps have been halted.

        :param rest: seconds to wait after a signal.
        """
        if wakeup is None:
            return self._halted.wait(seconds)
        wakeup.wait(seconds)
        return self._halted.wait(min(seconds, rest))


Act = Callable[[Node], None]


class OfNode(Protocol):
    """An item of a queue: a node, or work on it."""

    @property
    def uuid(self) -> str:
        """The node."""


T = TypeVar("T", bound=OfNode)


HANG_SECONDS = 300.0
"""Seconds after which an action is no longer waited for.

Questions to machines have far lower limits, so a driver that takes longer hangs, perhaps for ever.
"""


class Pacer:
    """Spreads actions over a time, so that they do not begin all at once.

    :param count: number of actions; further actions begin at once.
    :param seconds: of the whole time; each action begins at a random time in its own share.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._share = seconds / count if count else 0.0
        self._next = time.monotonic()
        self._left = count

    def wait(self) -> float:
        """Return the seconds until the next action shall begin; one thread at a time."""
        if self._left <= 0:
            return 0.0
        self._left -= 1
        # Jitter needs no cryptographic random generator.
        begin = self._next + self._share * random.random()
        self._next += self._share
        return max(begin - time.monotonic(), 0.0)


def run_all(
    queue: Iterator[T],
    act: Callable[[T], None],
    *,
    most: int,
    halted: threading.Event,
    pace: Pacer | None = None,
    hanging: set[str] | None = None,
    hang_seconds: float | None = None,
) -> None:
    """Let threads take nodes from a queue until it is empty or the service stops.

    A thread that hangs is abandoned, and another one replaces it.

    :param queue: an error it raises, such as errors.Unavailable, is raised here when all threads
        have ended; the queue is not read again.
    :param act: its errors are logged.
    :param most: threads; they start as long as there are nodes and the system allows threads.
    :param hanging: nodes with a hung thread, of this or an earlier call; they are skipped until the
        thread has ended.
    :param hang_seconds: seconds after which a thread counts as hung; None: `HANG_SECONDS`.
    :raises RuntimeError: not even one thread can start.
    """
    skipped = set() if hanging is None else hanging
    pool = _QueueThreads(
        queue,
        act,
        most,
        halted,
        pace,
        skipped,
        HANG_SECONDS if hang_seconds is None else hang_seconds,
    )
    with pool.guard:
        pool.start()
    while pool.threads:
        pool.threads[0].join(_LOOK)
        pool.look()
    if pool.faults:
        raise pool.faults[0]


_LOOK = 0.5  # seconds


@dataclasses.dataclass
class _QueueThreads(Generic[T]):
    """Threads of one queue; ``guard`` protects taking nodes and starting threads."""

    queue: Iterator[T]
    act: Callable[[T], None]
    most: int
    halted: threading.Event
    pace: Pacer | None
    hanging: set[str]
    hang_seconds: float
    begun: dict[threading.Thread, tuple[str, float]] = dataclasses.field(default_factory=dict)
    count: int = 0
    guard: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    threads: list[threading.Thread] = dataclasses.field(default_factory=list)
    faults: list[BaseException] = dataclasses.field(default_factory=list)
    enough: bool = False

    def start(self) -> None:
        thread = threading.Thread(target=self._drain, name=f"power-{self.count}", daemon=True)
        thread.start()
        self.count += 1
        self.threads.append(thread)

    def look(self) -> None:
        """Forget ended threads, and abandon hung ones."""
        with self.guard:
            stuck = [one for one in self.threads if self._note_hanging(one)]
            self.threads = [one for one in self.threads if one.is_alive() and one not in stuck]
            if stuck and not self.halted.is_set():
                self._start_another()

    def _note_hanging(self, thread: threading.Thread) -> bool:
        work = self.begun.get(thread)
        if work is None or time.monotonic() - work[1] < self.hang_seconds:
            return False
        node = work[0]
        self.hanging.add(node)
        if self.begun.get(thread) != work:  # the thread has just ended, or begun another node
            self.hanging.discard(node)
            return False
        LOG.error(
            "Node %s: its driver has been hanging for %.0f s; the other nodes continue",
            node,
            self.hang_seconds,
        )
        return True

    def _drain(self) -> None:
        while not self.halted.is_set():
            with self.guard:
                node = self._take_node()
                if node is None:
                    return
                pause = self.pace.wait() if self.pace is not None else 0.0
                if len(self.threads) < self.most and not self.enough:
                    self._start_another()
            if pause and self.halted.wait(pause):
                return
            self._run_node(node)

    def _run_node(self, node: T) -> None:
        if node.uuid in self.hanging:
            return
        thread = threading.current_thread()
        self.begun[thread] = (node.uuid, time.monotonic())
        try:
            with log_lines.hiding():
                self.act(node)
        except BaseException:  # such as sys.exit in a driver: the other nodes still wait
            LOG.exception("Node %s: its action in a sweep failed", node.uuid)
        finally:
            del self.begun[thread]
            self.hanging.discard(node.uuid)

    def _take_node(self) -> T | None:
        try:
            return next(self.queue, None)
        except BaseException as why:  # otherwise the thread's end would go unnoticed
            self.faults.append(why)
            return None

    def _start_another(self) -> None:
        try:
            self.start()
        except RuntimeError as why:
            self.enough = True
            had = len(self.threads)
            LOG.warning("Only %d threads could start, %d were wanted: %s", had, self.most, why)


class BackgroundQueue:
    """A queue processed in the background by a few threads, which end when empty.

    :param act: called with each node; its errors are logged.
    :param halted: set when no action may begin any more.
    """

    def __init__(self, act: Act, *, most: int, halted: threading.Event) -> None:
        self._act = act
        self._most = most
        self._halted = halted
        self._queue: collections.deque[Node] = collections.deque()
        self._known: set[str] = set()
        self._begun: dict[str, float] = {}
        self._threads = 0
        self._changed = threading.Condition()

    def put(self, node: Node) -> None:
        """Add a node, unless it is already waiting or in progress."""
        with self._changed:
            if node.uuid in self._known:
                return
            now = time.monotonic()
            stuck = sum(now - begun >= HANG_SECONDS for begun in self._begun.values())
            if self._threads - stuck < self._most:
                # First: if no thread can start, the node must not be recorded.
                threading.Thread(target=self._drain, name="power-doubtful", daemon=True).start()
                self._threads += 1
            self._known.add(node.uuid)
            self._queue.append(node)

    def wait_idle(self, timeout: float) -> bool:
        """Wait at most so many seconds until the queue is empty; return True if it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._threads, timeout)

    def _drain(self) -> None:
        while True:
            with self._changed:
                if self._halted.is_set() or not self._queue:
                    self._threads -= 1
                    self._changed.notify_all()
                    return
                node = self._queue.popleft()
                self._begun[node.uuid] = time.monotonic()
            try:
                with log_lines.hiding():
                    self._act(node)
            except BaseException:  # a thread that ended here would never be replaced
                LOG.exception("Node %s: its action in the background failed", node.uuid)
            finally:
                with self._changed:
                    self._known.discard(node.uuid)
                    del self._begun[node.uuid]


# -- who is doubtful -------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Record:
    failures: int = 0
    unanswered: bool = False
    doubt: int = 0
    resets: int = 0
    touched: float = 0.0


class Records:
    """Records of machines with missing or slow answers; other machines have none.

    :param calm: quick answers in a row after which a machine is trusted again.
    """

    def __init__(self, calm: int) -> None:
        self._calm = calm
        self._records: dict[str, _Record] = {}
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._records)

    def doubtful(self, node: str) -> bool:
        """Return whether a machine was recently silent or slow; this keeps its record."""
        record = self._records.get(node)
        if record is None:
            return False
        # Its turn in the queue may come much later; the record must last until then.
        record.touched = time.monotonic()
        return record.doubt > 0

    def unanswered(self, node: str) -> bool:
        """Return whether a machine gave no answer to the last question."""
        record = self._records.get(node)
        return record is not None and record.unanswered

    def failed(self, node: str) -> int:
        """Count a missing answer; return the number in a row."""
        with self._guard:
            record = self._record_of(node)
            record.failures += 1
            record.unanswered = True
            record.doubt = self._calm
            return record.failures

    def hurried(self, node: str) -> None:
        """Record an answer that did not come in a short time, which is no failure yet."""
        with self._guard:
            record = self._record_of(node)
            record.unanswered = True
            record.doubt = self._calm

    def answered(self, node: str, *, quick: bool) -> None:
        """Record an answer: failures in a row end, and a quick answer increases trust."""
        with self._guard:
            if quick and node not in self._records:
                return
            record = self._record_of(node)
            record.failures = 0
            record.unanswered = False
            record.doubt = max(record.doubt - 1, 0) if quick else self._calm
            self._drop_clean(node, record)

    def reset(self, node: str) -> int:
        """Count a correction of a machine; return the number in a row."""
        with self._guard:
            record = self._record_of(node)
            record.resets += 1
            return record.resets

    def settled(self, node: str) -> None:
        """Record that a machine has the wanted state."""
        with self._guard:
            record = self._records.get(node)
            if record is not None:
                record.resets = 0
                self._drop_clean(node, record)

    def given_up(self, node: str) -> None:
        """Record that the failures are handled elsewhere; the machine stays doubtful."""
        with self._guard:
            record = self._record_of(node)
            record.failures, record.unanswered = 0, False

    def forget(self, seconds: float) -> None:
        """Forget machines not asked for a while: they are deleted or have another owner."""
        before = time.monotonic() - seconds
        with self._guard:
            for node in [one for one, it in self._records.items() if it.touched < before]:
                del self._records[node]

    def _record_of(self, node: str) -> _Record:
        record = self._records.setdefault(node, _Record())
        record.touched = time.monotonic()
        return record

    def _drop_clean(self, node: str, record: _Record) -> None:
        if not (record.failures or record.doubt or record.resets):
            del self._records[node]
