"""How many nodes are asked by few threads: at a pace, and the doubtful ones in a lane of their own.

Nothing here knows what the nodes are asked.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator

from ironic_lite.records import Node

LOG = logging.getLogger(__name__)

Act = Callable[[Node], None]


class Pace:
    """Spreads some acts over a time, so that they do not begin all at once.

    :param count: how many there will be; further ones begin at once.
    :param seconds: over which they are spread; each begins somewhere in its own share of them.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._share = seconds / count if count else 0.0
        self._next = time.monotonic()
        self._left = count

    def wait(self) -> float:
        """Return the seconds until the next one shall begin; one thread at a time may ask."""
        if self._left <= 0:
            return 0.0
        self._left -= 1
        # Jitter is no secret: an ordinary random generator does.
        begin = self._next + self._share * random.random()
        self._next += self._share
        return max(begin - time.monotonic(), 0.0)


def go_through(
    queue: Iterator[Node], act: Act, *, most: int, halted: threading.Event, pace: Pace | None = None
) -> None:
    """Let threads take nodes from a queue until it is empty, or the service stops.

    :param queue: what it raises, such as errors.Unavailable, is raised here when all threads have
        ended; there is nothing more to be had from it then.
    :param act: should it raise something, that is logged.
    :param most: threads; they start as long as there are nodes, and the system has threads to give.
    :raises RuntimeError: it has not even one.
    """
    crew = _Crew(queue, act, most, halted, pace)
    with crew.guard:
        crew.start()
    for thread in crew.threads:  # it grows meanwhile, and no more once its last one has ended
        thread.join()
    if crew.faults:
        raise crew.faults[0]


@dataclasses.dataclass
class _Crew:
    """Threads at one queue; ``guard`` is held by the one that takes from it, and starts another."""

    queue: Iterator[Node]
    act: Act
    most: int
    halted: threading.Event
    pace: Pace | None
    guard: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    threads: list[threading.Thread] = dataclasses.field(default_factory=list)
    faults: list[BaseException] = dataclasses.field(default_factory=list)
    enough: bool = False

    def start(self) -> None:
        name = f"power-{len(self.threads)}"
        thread = threading.Thread(target=self._drain, name=name, daemon=True)
        thread.start()
        self.threads.append(thread)

    def _drain(self) -> None:
        while not self.halted.is_set():
            with self.guard:
                node = self._taken()
                if node is None:
                    return
                pause = self.pace.wait() if self.pace is not None else 0.0
                if len(self.threads) < self.most and not self.enough:
                    self._start_another()
            if pause and self.halted.wait(pause):
                return
            self._do(node)

    def _do(self, node: Node) -> None:
        try:
            self.act(node)
        except BaseException:  # as sys.exit in a driver: the others wait for their turn
            LOG.exception("Node %s: what was to be done with it failed", node.uuid)

    def _taken(self) -> Node | None:
        try:
            return next(self.queue, None)
        except BaseException as why:  # the thread's end would be nobody's business
            self.faults.append(why)
            return None

    def _start_another(self) -> None:
        try:
            self.start()
        except RuntimeError as why:
            self.enough = True
            had = len(self.threads)
            LOG.warning("%d threads must do, %d were wanted: %s", had, self.most, why)


class Lane:
    """A queue worked on in the background by a few threads, which end when it is empty.

    :param act: what is done with each node; should it raise something, that is logged.
    :param halted: set when nothing new is begun.
    """

    def __init__(self, act: Act, *, most: int, halted: threading.Event) -> None:
        self._act = act
        self._most = most
        self._halted = halted
        self._queue: collections.deque[Node] = collections.deque()
        self._known: set[str] = set()
        self._threads = 0
        self._changed = threading.Condition()

    def put(self, node: Node) -> None:
        """Add a node, unless it is there already, waiting or being asked."""
        with self._changed:
            if node.uuid in self._known:
                return
            if self._threads < self._most:
                # First, for there may be no thread to be had: then the node is not known, either.
                threading.Thread(target=self._drain, name="power-doubtful", daemon=True).start()
                self._threads += 1
            self._known.add(node.uuid)
            self._queue.append(node)

    def wait_idle(self, timeout: float) -> bool:
        """Wait until nothing is left, at most so many seconds; True if so."""
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
            try:
                self._act(node)
            except BaseException:  # a thread that ended here would be missed for ever
                LOG.exception("Node %s: what was to be done apart failed", node.uuid)
            finally:
                with self._changed:
                    self._known.discard(node.uuid)


# -- who is doubtful -------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Record:
    failures: int = 0
    doubt: int = 0
    resets: int = 0
    touched: float = 0.0


class Records:
    """What is remembered of machines that did not answer as they should; of others nothing.

    :param calm: quick answers in a row after which a machine is trusted again.
    """

    def __init__(self, calm: int) -> None:
        self._calm = calm
        self._records: dict[str, _Record] = {}
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._records)

    def doubtful(self, node: str) -> bool:
        """Tell whether a machine has lately been silent or slow; whoever is asked for is kept."""
        record = self._records.get(node)
        if record is None:
            return False
        # Its turn in a lane may come long after this: until then it must not be forgotten.
        record.touched = time.monotonic()
        return record.doubt > 0

    def failed(self, node: str) -> int:
        """Note an answer that did not come; return how many in a row that makes."""
        with self._guard:
            record = self._of(node)
            record.failures += 1
            record.doubt = self._calm
            return record.failures

    def slow(self, node: str) -> None:
        """Note that the machine keeps others waiting."""
        with self._guard:
            self._of(node).doubt = self._calm

    def answered(self, node: str, *, quick: bool) -> None:
        """Note an answer: no failures in a row any more, and one step towards trust if quick."""
        with self._guard:
            if quick and node not in self._records:
                return
            record = self._of(node)
            record.failures = 0
            record.doubt = max(record.doubt - 1, 0) if quick else self._calm
            self._drop_clean(node, record)

    def reset(self, node: str) -> int:
        """Note that a machine was put right; return how often in a row it was."""
        with self._guard:
            record = self._of(node)
            record.resets += 1
            return record.resets

    def settled(self, node: str) -> None:
        """Note that a machine is as it is wanted."""
        with self._guard:
            record = self._records.get(node)
            if record is not None:
                record.resets = 0
                self._drop_clean(node, record)

    def given_up(self, node: str) -> None:
        """Note that somebody else looks after its failures now; it stays doubtful."""
        with self._guard:
            self._of(node).failures = 0

    def forget(self, seconds: float) -> None:
        """Forget machines that nobody has asked for that long: they are another's, or gone."""
        before = time.monotonic() - seconds
        with self._guard:
            for node in [one for one, it in self._records.items() if it.touched < before]:
                del self._records[node]

    def _of(self, node: str) -> _Record:
        record = self._records.setdefault(node, _Record())
        record.touched = time.monotonic()
        return record

    def _drop_clean(self, node: str, record: _Record) -> None:
        if not (record.failures or record.doubt or record.resets):
            del self._records[node]
