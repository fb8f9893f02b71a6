"""Wakes waiting nodes when their timer rings.

Timers live in the column ``wake_at``, so they survive any conductor; in memory there is only a heap
of what this one has set, to ring in time. A slow look into the table finds the rest.

What this conductor has set rings by the monotonic clock: a clock on the wall that is set meanwhile
changes nothing. Timers of others, and of its earlier lives, ring by the clock on the wall.
"""

from __future__ import annotations

import datetime
import functools
import heapq
import logging
import threading
import time

from ironic_lite import clock, context, errors
from ironic_lite.conductor import outage
from ironic_lite.conductor.flows import failure
from ironic_lite.conductor.flows.resume import resume
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import sweeps

LOG = logging.getLogger(__name__)

_LOOK_EVERY = 5.0  # seconds between two looks into the table for timers of other conductors
_PAGE = 500
_AGAIN = 1.0  # seconds until a node that could not be woken (locked, no worker) is tried again


class Alarm:
    """One thread, one heap of timers: when, in monotonic seconds; node; its ``wake_at``."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, datetime.datetime]] = []
        self._set: dict[str, tuple[float, datetime.datetime]] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._told = outage.Told(LOG)
        # Not by the clock on the wall: set back by an hour, it would stop the looks for as long.
        self._look_at = time.monotonic()

    def set(self, node_uuid: str, when: datetime.datetime) -> None:
        """Ring for this node at ``when``, its ``wake_at``."""
        self._ring_in((when - clock.now()).total_seconds(), node_uuid, when)

    def _ring_in(self, seconds: float, node_uuid: str, when: datetime.datetime) -> None:
        at = time.monotonic() + seconds
        with self._changed:
            heapq.heappush(self._heap, (at, node_uuid, when))
            self._set[node_uuid] = (at, when)
            self._changed.notify()

    def start(self, tasks: Tasks, fleet: Fleet) -> None:
        """Begin."""
        args = (tasks, fleet)
        threading.Thread(target=self._run, args=args, name="alarm", daemon=True).start()

    def stop(self) -> None:
        """Ring no more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self, tasks: Tasks, fleet: Fleet) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                wait = self._left()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
            try:
                self._ring(tasks, fleet)
            except errors.Unavailable as why:
                self._told.away("Waking waiting nodes failed; it is tried again: %s", why)
            except Exception:
                LOG.exception("Waking waiting nodes failed; it is tried again")

    def _left(self) -> float:
        """Return the seconds until the next timer or look."""
        first = min(self._look_at, self._heap[0][0]) if self._heap else self._look_at
        return first - time.monotonic()

    def _ring(self, tasks: Tasks, fleet: Fleet) -> None:
        listed: dict[str, datetime.datetime] = {}
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_EVERY
            listed = _listed(tasks, fleet, clock.now())
            self._told.back("Waiting nodes are woken again")
        due = self._rung()  # last: what has rung is not to be lost if the look fails
        for node_uuid, when in listed.items():
            if not self._to_come(node_uuid, when):
                due.setdefault(node_uuid, when)
        for node_uuid, when in due.items():
            self._wake(tasks, node_uuid, when)

    def _rung(self) -> dict[str, datetime.datetime]:
        """Return the nodes whose timers of this conductor have rung, each with its wake_at."""
        now, due = time.monotonic(), {}
        with self._changed:
            while self._heap and self._heap[0][0] <= now:
                at, node_uuid, when = heapq.heappop(self._heap)
                if self._set.get(node_uuid) == (at, when):
                    del self._set[node_uuid]
                    due[node_uuid] = when
        return due

    def _to_come(self, node_uuid: str, when: datetime.datetime) -> bool:
        """Tell whether a timer that seems due is to ring later: the clock was set forward."""
        with self._changed:
            known = self._set.get(node_uuid)
        return known is not None and known[1] == when

    def _wake(self, tasks: Tasks, node_uuid: str, when: datetime.datetime | None = None) -> None:
        """Poll one node in a worker; one that is not due any more is left alone.

        :param when: the wake_at that is due, also if a clock that was set back says otherwise.
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
                if wake_at is not None and (wake_at == when or wake_at <= clock.now()):
                    _go_on(task, tasks.lack(task.node))
        except (errors.NodeLocked, errors.Unavailable):
            self._ring_in(_AGAIN, node_uuid, when or clock.now())
        except errors.NodeNotFound:
            LOG.debug("Node %s was deleted before its timer rang", node_uuid)
        except errors.Error as why:  # one node's driver must not keep the others asleep
            LOG.warning("Node %s cannot be woken: %s", node_uuid, why)


def _go_on(task: Task, lack: errors.Error | None) -> None:
    """Ask how the step stands; without the interface that began it, it has failed."""
    if lack is None:
        task.hand_over(resume, poll=True)
    else:
        task.hand_over(failure.give_up, lack)


def _listed(tasks: Tasks, fleet: Fleet, now: datetime.datetime) -> dict[str, datetime.datetime]:
    """Return all nodes of this conductor whose timer has rung, whoever has set it."""
    found: dict[str, datetime.datetime] = {}
    seen = 0
    while True:
        question = functools.partial(sweeps.due, now=now, skip=seen, limit=_PAGE)
        page = tasks.desk.database.read(question)
        found.update((row["uuid"], row["wake_at"]) for row in page if fleet.mine(row))
        seen += len(page)
        if len(page) < _PAGE:
            return found
