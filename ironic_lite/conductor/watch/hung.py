"""Ending of hung work, so that it only costs its node a failure.

Each request to a machine, pause and save of a task is progress. Work is given up after
``[conductor]work_timeout`` seconds without progress, or after holding its lock for
``[conductor]busy_timeout``. Its thread may no longer send or write, its lease is not renewed, and
its worker slot is freed. The node goes into its fail state under a new lock. The node's interfaces
are not called for this, because they may hang again.

Python cannot end a thread. A hung thread stays until its wait or the process ends.
"""

from __future__ import annotations

import datetime
import functools
import logging
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.flows import bmc_operations, failure, power
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.work.locks import Held
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock, context
from ironic_lite.db.queries import nodes
from ironic_lite.domain import activities, states, steps
from ironic_lite.domain.states import Kind
from ironic_lite.membership.liveness import FailureDetector

LOG = logging.getLogger(__name__)

_OFTEN = 10.0  # seconds between two checks, at most
_SHARE = 0.25  # of the shortest limit


class Hung(NamedTuple):
    """Work that was given up: node, time of its last progress, reason, option and its seconds."""

    node: str
    since: datetime.datetime
    why: str
    option: str
    limit: float


class HungWork:
    """Checks all work of this conductor.

    A pause of the process, or an unavailable database, is not counted as the work's time.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        settings = tasks.runtime.conf.conductor
        self._idle, self._whole = settings.work_timeout, settings.busy_timeout
        self._limits = {"work_timeout": self._idle, "busy_timeout": self._whole}
        limits = [limit for limit in (self._idle, self._whole) if limit]
        self.interval = min(_OFTEN, min(limits) * _SHARE) if limits else 0.0
        self._pulses = FailureDetector(2 * self.interval)
        self._left: dict[str, Hung] = {}  # by the token of the lock that was given up

    def sweep(self) -> None:
        """Check all work once; end hung work."""
        if self._tasks.runtime.fence.database_replies:
            held = self._tasks.locks.all
            for one in held:
                self._check_lock(one)
            keys = {one.token for one in held}
            self._pulses.keep(keys | {("whole", token) for token in keys})
        else:
            self._pulses.blind()
        for token, hung in list(self._left.items()):
            if self._end_hung_work(token, hung):
                del self._left[token]

    def _check_lock(self, held: Held) -> None:
        idle = self._pulses.silence(held.token, held.progress)
        whole = self._pulses.silence(("whole", held.token), None)
        if self._idle and idle >= self._idle:
            why = f"no request to a machine, no pause and no end of a step for {self._idle} s"
            self._give_up(held, idle, why, "work_timeout")
        elif self._whole and whole >= self._whole:
            self._give_up(held, whole, f"it has not ended within {self._whole} s", "busy_timeout")

    def _give_up(self, held: Held, seconds: float, why: str, option: str) -> None:
        since = clock.now() - datetime.timedelta(seconds=seconds)
        held.ended = True
        self._tasks.locks.drop(held.token)
        if held.free_slot is not None:
            held.free_slot()
        limit, option = self._limits[option], f"[conductor]{option}"
        self._left[held.token] = Hung(held.node, since, f"{why} ({option})", option, limit)

    def _end_hung_work(self, token: str, hung: Hung) -> bool:
        """Take the node from its hung work; return False if this must be tried again."""
        who = context.internal("hung work")
        ask = functools.partial(nodes.get, ident=hung.node, columns=_LOCK)
        try:
            row = self._tasks.runtime.database.read(ask)
            if row["lock_token"] != token:
                return True  # it has ended meanwhile, or another conductor has it
            stale = nodes.Lease.seen(row)
            with self._tasks.lock(
                who, hung.node, worker=True, patient=False, stale=stale, whole=False
            ) as task:
                _fail_work(task, hung)
        except errors.NodeNotFound:
            return True
        except errors.Error as why:
            LOG.warning("Node %s: its hung work will be ended later: %s", hung.node, why)
            return False
        return True


_LOCK = ("uuid", "lock_token", "lock_expires")


def _fail_work(task: Task, hung: Hung) -> None:
    """End the current work; a worker brings a busy or waiting node into its fail state."""
    error = _hang_error(task, hung)
    LOG.error("Node %s: %s", task.node.uuid, error.message)
    if task.node.target_power_state is not None:
        power.failed(task, error.message, error)
    if task.notes.order is not None:
        bmc_operations.failed(task, error.message, error)
    task.notes.untidied = False
    if states.kind(task.state) in (Kind.BUSY, Kind.WAIT):
        reason = "it was not called, because work on this node hangs"
        task.hand_over(failure.give_up_unseen, error, reason)
    else:
        task.node.last_error = error.message
        task.node.wake_at = None  # a retry by the service would hang again
        failure.give_up(task, error)  # ends an abort
    task.save()


def _hang_error(task: Task, hung: Hung) -> errors.TimedOut:
    """Return the error for the node: what hangs, since when, and what to do."""
    node = task.node
    activity = activities.stepping(node.provision_state)
    current = activity.step_of(node) if activity is not None else None
    step = steps.title(current) if current else None
    what = f"step {step}" if step else f'the work in state "{task.state}"'
    hint = (
        f"It was given up: it has made no progress since {hung.since:%Y-%m-%d %H:%M:%S} UTC, "
        f"{hung.why}. Check the machine and the log of conductor {task.runtime.host}, and "
        "repeat the request."
    )
    text = f"On node {node.uuid} {what} hangs. {hint}"
    facts = {"option": hung.option, "limit": hung.limit, "since": hung.since}
    about = {"action": str(task.state), "node": node.uuid, "hint": hint, "step": step}
    return errors.TimedOut(text, **about, **facts)
