"""Timers of waiting nodes.

Timers are stored in the column ``wake_at``, so they survive any conductor. Memory only has a heap
of the timers set by this process. A slower query of the table finds all others.

Timers of this process use the monotonic clock, so setting the system clock changes nothing. Timers
of other processes use the system clock.
"""

from __future__ import annotations

import datetime
import functools
import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterator

from ironic_lite import errors
from ironic_lite.conductor.flows import activities, admission, failure, retry
from ironic_lite.conductor.flows.resume import resume
from ironic_lite.conductor.steps.phases import Phase
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.conductor.work import db_retry
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock, context
from ironic_lite.db.queries import sweeps

LOG = logging.getLogger(__name__)

_LOOK_EVERY = 5.0  # seconds between two queries for timers of other conductors
_PAGE = 500
_FAR = 600.0
"""Seconds; timers that end later than this are looked at, as a clock may have been ahead."""
_LATEST = datetime.datetime(9999, 1, 1)
_LAST_LOOK = 2.0  # seconds; a hung database must not keep a conductor from stopping
_AGAIN = 1.0  # seconds until a retry for a node that could not be woken (locked, no worker)


class Timers:
    """One thread and one heap of timers: monotonic time, node, ``wake_at``."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, datetime.datetime]] = []
        self._set: dict[str, tuple[float, datetime.datetime]] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._told = db_retry.OutageLog(LOG)
        # Monotonic: a system clock set back by an hour would stop the queries for an hour.
        self._look_at = time.monotonic()

    def set(self, node_uuid: str, when: datetime.datetime) -> None:
        """Set a timer for this node at its ``wake_at``."""
        self._ring_in((when - clock.now()).total_seconds(), node_uuid, when)

    def _ring_in(self, seconds: float, node_uuid: str, when: datetime.datetime) -> None:
        at = time.monotonic() + seconds
        with self._changed:
            heapq.heappush(self._heap, (at, node_uuid, when))
            self._set[node_uuid] = (at, when)
            self._changed.notify()

    def start(self, tasks: Tasks, fleet: Ownership) -> None:
        """Start."""
        args = (tasks, fleet)
        thread = threading.Thread(target=self._run_timers, args=args, name="timers", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Stop; no more timers fire. Waits briefly for a look that is under way."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_LAST_LOOK)

    def _run_timers(self, tasks: Tasks, fleet: Ownership) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                wait = self._seconds_left()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
            try:
                self._wake_due_nodes(tasks, fleet)
            except errors.Unavailable as why:
                self._told.away("Waking waiting nodes failed and will be retried: %s", why)
            except BaseException:  # such as sys.exit in a driver: all nodes have only this thread
                LOG.exception("Waking waiting nodes failed and will be retried")

    def _seconds_left(self) -> float:
        """Return the seconds until the next timer or query."""
        first = min(self._look_at, self._heap[0][0]) if self._heap else self._look_at
        return first - time.monotonic()

    def _wake_due_nodes(self, tasks: Tasks, fleet: Ownership) -> None:
        listed: dict[str, datetime.datetime] = {}
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_EVERY
            listed = {**_listed(tasks, fleet), **_listed_ahead(tasks, fleet)}
            self._told.back("Waiting nodes are woken again")
        due = self._due_here()  # last: timers that are due must not be lost if the query fails
        for node_uuid, when in listed.items():
            if not self._to_come(node_uuid, when):
                due.setdefault(node_uuid, when)
        for node_uuid, when in due.items():
            if self._stopped:  # the next owners find the rest
                return
            self.wake(tasks, node_uuid, when)

    def _due_here(self) -> dict[str, datetime.datetime]:
        """Return the nodes whose timers of this process are due, each with its wake_at."""
        now, due = time.monotonic(), {}
        with self._changed:
            while self._heap and self._heap[0][0] <= now:
                at, node_uuid, when = heapq.heappop(self._heap)
                if self._set.get(node_uuid) == (at, when):
                    del self._set[node_uuid]
                    due[node_uuid] = when
        return due

    def _to_come(self, node_uuid: str, when: datetime.datetime) -> bool:
        """Return whether a seemingly due timer is later, as the clock was set forward."""
        with self._changed:
            known = self._set.get(node_uuid)
        return known is not None and known[1] == when

    def wake(self, tasks: Tasks, node_uuid: str, when: datetime.datetime | None = None) -> None:
        """Poll one node in a worker, if it is still due.

        :param when: the wake_at that is due, even if a clock that was set back says otherwise.
        """
        try:
            with tasks.lock(
                context.internal("timer"),
                node_uuid,
                worker=True,
                patient=False,
                reserved=False,
                whole=False,
            ) as task:
                wake_at = task.node.wake_at
                due = wake_at is not None and (wake_at == when or wake_at <= clock.now())
                failed = activities.failed_steps(task.state)
                if due and failed is None:
                    _go_on(task, tasks.lack(task.node))
            if due and failed is not None:
                self._begin_retry(tasks, node_uuid, failed, wake_at)
        except (errors.NodeLocked, errors.Unavailable):
            self._ring_in(_AGAIN, node_uuid, when or clock.now())
        except errors.NodeNotFound:
            LOG.debug("Node %s was deleted before its timer rang", node_uuid)
        except errors.Error as why:  # one node's driver must not block the others
            LOG.warning("Node %s cannot be woken: %s", node_uuid, why)

    def _begin_retry(
        self, tasks: Tasks, node_uuid: str, phase: Phase, wake_at: datetime.datetime | None
    ) -> None:
        """Have a worker retry a failed run, because a driver's check of the retry may hang.

        :param wake_at: of the failed run; another verb may have begun since it was read.
        """
        who = context.internal("retries")
        with tasks.lock(
            who, node_uuid, worker=True, patient=False, reserved=False, whole=False
        ) as task:
            if task.node.wake_at == wake_at and activities.failed_steps(task.state) is phase:
                task.hand_over(self._retry, phase, tasks.lack(task.node), wake_at)

    def _retry(
        self, task: Task, phase: Phase, lack: errors.Error | None, wake_at: datetime.datetime
    ) -> None:
        """Retry a failed run by the service itself; a refusal ends the automatic retries.

        :param lack: of `Tasks.lack`.
        :param wake_at: the time of the timer, which rings again if the service is at a limit.
        """
        try:
            if lack is not None:
                raise lack
            admission.raise_first(admission.of_verb(task, "retry"))
            retry.start(task, phase, {}, automatic=True)
        except (errors.LockLost, errors.Stopping):
            raise
        except errors.Unavailable as why:
            self._ring_in(why.retry_after, task.node.uuid, wake_at)
        except Exception as why:  # drivers may raise anything while they check a retry
            unknown = None if isinstance(why, errors.Error) else why
            LOG.warning("Node %s is not retried: %s", task.node.uuid, why, exc_info=unknown)
            task.node.wake_at = None
            task.save()


def _go_on(task: Task, lack: errors.Error | None) -> None:
    """Poll the step; without the interface that began it, the step has failed."""
    if lack is None:
        task.hand_over(resume, poll=True)
    else:
        task.hand_over(failure.give_up, lack)


def _listed(tasks: Tasks, fleet: Ownership) -> dict[str, datetime.datetime]:
    """Return all due nodes of this conductor, whichever process set the timer."""
    question = functools.partial(sweeps.due, now=clock.now())
    return {row["uuid"]: row["wake_at"] for row in _mine(tasks, fleet, question)}


def _listed_ahead(tasks: Tasks, fleet: Ownership) -> dict[str, datetime.datetime]:
    """Return the nodes whose timer was set by a clock that was ahead, and has had its time."""
    since, now = clock.ahead_since(), clock.now()
    since = since if since < now else clock.after(_FAR)
    question = functools.partial(sweeps.due, now=_LATEST, since=since)
    found = {}
    for row in _mine(tasks, fleet, question):
        written, wake_at = row["updated_at"], row["wake_at"]
        if written is None:
            continue
        if clock.lived(written) >= (wake_at - written).total_seconds():
            found[row["uuid"]] = wake_at
    return found


def _mine(
    tasks: Tasks, fleet: Ownership, question: Callable[..., list[sweeps.Due]]
) -> Iterator[sweeps.Due]:
    last = None
    while True:
        page = tasks.runtime.database.read(functools.partial(question, after=last, limit=_PAGE))
        yield from (row for row in page if fleet.mine(row))
        if len(page) < _PAGE:
            return
        last = page[-1]
