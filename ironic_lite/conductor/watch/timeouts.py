"""Time-outs: of the wait states, of steps, and of work that hangs.

Requirement S5.18 for the wait states.
"""

from __future__ import annotations

import datetime
import functools
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.engine import db_retry
from ironic_lite.conductor.engine.locks import Lock
from ironic_lite.conductor.engine.phases import Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import activities as flow_activities
from ironic_lite.conductor.flows import activities as flows
from ironic_lite.conductor.flows import admission, operations, retry
from ironic_lite.conductor.flows.activities import resume, waiting_steps
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock, config, context
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, nodes, step_durations, sweeps
from ironic_lite.db.queries.step_durations import LongStep, UsualTimes
from ironic_lite.domain import activities, states, step_times, steps, waiting
from ironic_lite.domain.activities import Activity
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers.agent import ramdisk
from ironic_lite.membership import FailureDetector

# Timers of waiting nodes.
#
# Timers are stored in the column ``wake_at``, so they survive any conductor. Memory only has a heap
# of the timers set by this process. A slower query of the table finds all others.
#
# Timers of this process use the monotonic clock, so setting the system clock changes nothing.
# Timers of other processes use the system clock.

LOG = logging.getLogger(__name__)

_LOOK_EVERY = 5.0  # seconds between two queries for timers of other conductors
_TIMERS = 500
_FAR = 600.0
"""Seconds; timers that end later than this are looked at, as a clock may have been ahead."""
_LATEST_TIMER = datetime.datetime(9999, 1, 1)
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
        self._outage = db_retry.OutageLog(LOG)
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

    def start(self, tasks: TaskRunner, ownership: Ownership) -> None:
        """Start."""
        args = (tasks, ownership)
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

    def _run_timers(self, tasks: TaskRunner, ownership: Ownership) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                wait = self._seconds_left()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
            try:
                self._wake_due_nodes(tasks, ownership)
            except errors.Unavailable as why:
                self._outage.away("Waking waiting nodes failed and will be retried: %s", why)
            except BaseException:  # such as sys.exit in a driver: all nodes have only this thread
                LOG.exception("Waking waiting nodes failed and will be retried")

    def _seconds_left(self) -> float:
        """Return the seconds until the next timer or query."""
        first = min(self._look_at, self._heap[0][0]) if self._heap else self._look_at
        return first - time.monotonic()

    def _wake_due_nodes(self, tasks: TaskRunner, ownership: Ownership) -> None:
        listed: dict[str, datetime.datetime] = {}
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_EVERY
            listed = {**_listed(tasks, ownership), **_listed_ahead(tasks, ownership)}
            self._outage.back("Waiting nodes are woken again")
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

    def wake(
        self, tasks: TaskRunner, node_uuid: str, when: datetime.datetime | None = None
    ) -> None:
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
                failed = flow_activities.failed_steps(task.state)
                if due and failed is None:
                    _poll_or_fail(task, tasks.missing_interface(task.node))
            if due and failed is not None:
                self._begin_retry(tasks, node_uuid, failed, wake_at)
        except (errors.NodeLocked, errors.Unavailable):
            self._ring_in(_AGAIN, node_uuid, when or clock.now())
        except errors.NodeNotFound:
            LOG.debug("Node %s was deleted before its timer rang", node_uuid)
        except errors.Error as why:  # one node's driver must not block the others
            LOG.warning("Node %s cannot be woken: %s", node_uuid, why)

    def _begin_retry(
        self, tasks: TaskRunner, node_uuid: str, phase: Phase, wake_at: datetime.datetime | None
    ) -> None:
        """Have a worker retry a failed run, because a driver's check of the retry may hang.

        :param wake_at: of the failed run; another verb may have begun since it was read.
        """
        who = context.internal("retries")
        with tasks.lock(
            who, node_uuid, worker=True, patient=False, reserved=False, whole=False
        ) as task:
            if task.node.wake_at == wake_at and flow_activities.failed_steps(task.state) is phase:
                task.hand_over(self._retry, phase, tasks.missing_interface(task.node), wake_at)

    def _retry(
        self, task: Task, phase: Phase, missing: errors.Error | None, wake_at: datetime.datetime
    ) -> None:
        """Retry a failed run by the service itself; a refusal ends the automatic retries.

        :param missing: of `TaskRunner.missing_interface`.
        :param wake_at: the time of the timer, which rings again if the service is at a limit.
        """
        try:
            if missing is not None:
                raise missing
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


def _poll_or_fail(task: Task, missing: errors.Error | None) -> None:
    """Poll the step; without the interface that began it, the step has failed."""
    if missing is None:
        task.hand_over(resume, poll=True)
    else:
        task.hand_over(flow_activities.give_up, missing)


def _listed(tasks: TaskRunner, ownership: Ownership) -> dict[str, datetime.datetime]:
    """Return all due nodes of this conductor, whichever process set the timer."""
    question = functools.partial(sweeps.due, now=clock.now())
    return {row["uuid"]: row["wake_at"] for row in _mine(tasks, ownership, question)}


def _listed_ahead(tasks: TaskRunner, ownership: Ownership) -> dict[str, datetime.datetime]:
    """Return the nodes whose timer was set by a clock that was ahead, and has had its time."""
    since, now = clock.ahead_since(), clock.now()
    since = since if since < now else clock.after(_FAR)
    question = functools.partial(sweeps.due, now=_LATEST_TIMER, since=since)
    found = {}
    for row in _mine(tasks, ownership, question):
        written, wake_at = row["updated_at"], row["wake_at"]
        if written is None:
            continue
        if clock.lived(written) >= (wake_at - written).total_seconds():
            found[row["uuid"]] = wake_at
    return found


def _mine(
    tasks: TaskRunner, ownership: Ownership, question: Callable[..., list[sweeps.Due]]
) -> Iterator[sweeps.Due]:
    last = None
    while True:
        page = tasks.runtime.database.read(functools.partial(question, after=last, limit=_TIMERS))
        yield from (row for row in page if ownership.mine(row))
        if len(page) < _TIMERS:
            return
        last = page[-1]


_PAGE = 100

DISCOVERY_SECONDS = 3600.0
"""Time in which a repeated report of a machine continues its discovery."""
_UNHEARD = (
    "No conductor has received it within an hour, so no hooks and rules were applied. Complete "
    "driver_info, then manage and inspect the node."
)

_FIRST, _LATEST = datetime.datetime(1970, 1, 1), datetime.datetime(9999, 1, 1)


class Timeouts:
    """Fails nodes that have waited too long."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership) -> None:
        self._tasks = tasks
        self._ownership = ownership

    def sweep(self) -> None:
        """Check each wait state once, at most [conductor]periodic_max_workers nodes each."""
        settings = self._tasks.runtime.conf.conductor
        for activity in activities.TABLE:
            state, option = activity.waiting, activity.timeout
            if state is None or option is None or (seconds := settings[option]) <= 0:
                continue
            before = clock.ago(seconds)  # a clock that was set forward must not end a wait
            found = itertools.chain(
                self._overdue_nodes(state, before), self._nodes_ahead(state, seconds)
            )
            left = settings.periodic_max_workers
            for node_uuid in found:
                left -= self._end_overdue(node_uuid, activity, before, seconds)
                if left <= 0:
                    break

    def end_discoveries(self) -> None:
        """End discoveries of machines whose next report would not continue them any more."""
        before, who = clock.ago(DISCOVERY_SECONDS), context.internal("time-outs")
        rows = _waiting_nodes(self._tasks, self._ownership, State.ENROLL, before)
        for node in (row["uuid"] for row in rows if row["run_uuid"] is not None):
            why = errors.TimedOut(action="processing the report of", node=node, hint=_UNHEARD)
            try:
                with self._tasks.lock(who, node, patient=False, whole=False) as task:
                    if task.state is State.ENROLL and task.node.run_uuid is not None:
                        flows.give_up(task, why)
            except errors.Error as refusal:
                LOG.info("Node %s: its discovery will be ended later: %s", node, refusal)

    def _overdue_nodes(self, state: State, before: datetime.datetime) -> Iterator[str]:
        """Yield this conductor's overdue nodes by age, whatever other conductors have."""
        for row in _waiting_nodes(self._tasks, self._ownership, state, before):
            yield row["uuid"]

    def _nodes_ahead(self, state: State, seconds: float) -> Iterator[str]:
        """Yield the overdue nodes whose wait began by a clock that was ahead of this one."""
        since = clock.ahead_since()
        for row in _waiting_nodes(self._tasks, self._ownership, state, _LATEST, since=since):
            if clock.lived(row["provision_updated_at"]) >= seconds:
                yield row["uuid"]

    def _end_overdue(
        self, node_uuid: str, activity: Activity, before: datetime.datetime, seconds: float
    ) -> bool:
        """End the wait of a node; return False if its share of the workers is full."""
        who = context.internal("time-outs")
        try:
            with self._tasks.lock(
                who, node_uuid, worker=True, patient=False, reserved=False, whole=False
            ) as task:
                if _is_over(task, activity, before, seconds):
                    task.hand_over(_time_out, activity)
        except errors.Error as why:
            LOG.info("Node %s: its time-out will be checked again later: %s", node_uuid, why)
            return "share" not in why.facts
        return True


def _waiting_nodes(
    tasks: TaskRunner,
    ownership: Ownership,
    state: State,
    before: datetime.datetime,
    since: datetime.datetime = _FIRST,
) -> Iterator[sweeps.OverdueNode]:
    """Yield this conductor's nodes whose wait began between two times."""
    last = None
    while True:
        question = functools.partial(
            sweeps.overdue, state=str(state), before=before, after=last, since=since, limit=_PAGE
        )
        page = tasks.runtime.database.read(question)
        yield from (row for row in page if ownership.mine(row))
        if len(page) < _PAGE:
            return
        last = page[-1]


def _is_over(task: Task, activity: Activity, before: datetime.datetime, seconds: float) -> bool:
    """Return whether the node is still overdue under the lock."""
    node = task.node
    since, wake_at = node.provision_updated_at, node.wake_at
    # Maintenance set by an operator stops the clock, one that a fault has set does not.
    if task.state is not activity.waiting or (node.maintenance and node.fault is None):
        return False
    if since is None or (since > before and clock.lived(since) < seconds):
        return False
    return wake_at is None or wake_at <= before


def _time_out(task: Task, activity: Activity) -> None:
    phase = waiting_steps(task.state)
    waited = phase.current(task) if phase is not None else None
    # Only the title of the step, because its arguments may be secret.
    step = steps.title(waited) if waited else None
    hint = f"Failed on step {step}." if step else "No agent or BMC has reported."
    sentence = f"Timeout reached while {activity.overdue} {task.node.uuid}. {hint}"
    facts = {"action": activity.overdue, "node": task.node.uuid, "hint": hint, "step": step}
    error = errors.TimedOut(sentence, **facts, **_limit_facts(task, activity))
    silence = _agent_silence(task, activity)
    flows.give_up(task, error if silence is None else error.because(silence))


def _limit_facts(task: Task, activity: Activity) -> Json:
    """Return the option that limits the wait, its seconds, and since when the node has waited."""
    option = str(activity.timeout)
    return {
        "option": f"[conductor]{option}",
        "limit": task.runtime.conf.conductor[option],
        "since": task.node.provision_updated_at,
    }


def _agent_silence(task: Task, activity: Activity) -> errors.AgentUnreachable | None:
    """Return the silence of an agent as the cause of a time-out.

    None: the node waited for its machine or a timer; or the agent has sent heartbeats. A timer
    alone does not tell: the first look at the work of an agent is set as one, too.
    """
    agent, limits = task.notes.agent, _limit_facts(task, activity)
    node = task.node.as_dict()
    if waiting.waited_for(node, activity) != waiting.AGENT:
        return None
    looked_up = waiting.asked_for_token(node)
    if agent is None and looked_up:
        reason = "its ramdisk has looked the node up, and has sent no heartbeat since"
    elif agent is None:
        reason = "no ramdisk has sent a heartbeat since the machine was booted"
    elif agent.heard_at <= clock.ago(limits["limit"]):
        reason = f"its last heartbeat came at {agent.heard_at:%Y-%m-%d %H:%M:%S} UTC"
    else:
        return None
    heard: Json = {"looked_up": looked_up, "heard_at": None}
    if agent is not None:
        heard = {"address": agent.url, "heard_at": agent.heard_at}
    return errors.AgentUnreachable(node=task.node.uuid, reason=reason, **heard, **limits)


# Ramdisks that do not report within ``[pxe]boot_retry_timeout``: their machines boot again.
#
# Loaders and networks fail once in a while. A machine is left alone as soon as its ramdisk has
# looked up its node, and while its BMC works or a step polls it.

_BOOTS: Mapping[Activity, str] = {
    activities.CLEAN: "deploy",
    activities.DEPLOY: "deploy",
    activities.SERVICE: "deploy",
    activities.RESCUE: "rescue",
}
"""The activities that wait for a ramdisk, and the kind of the ramdisk."""


class BootRetries:
    """Starts machines again whose ramdisk has not looked up its node."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership) -> None:
        self._tasks = tasks
        self._ownership = ownership
        pxe = tasks.runtime.conf.pxe
        self._seconds = pxe.boot_retry_timeout or 0
        self.interval = float(pxe.boot_retry_check_interval if self._seconds else 0)

    def sweep(self) -> None:
        """Check each wait state once, and restart at most periodic_max_workers machines."""
        left = self._tasks.runtime.conf.conductor.periodic_max_workers
        for activity in _BOOTS:
            assert activity.waiting is not None
            for node_uuid in self._without_lookup(activity.waiting):
                left -= self._restart_silent(node_uuid, activity)
                if left <= 0:
                    return

    def _without_lookup(self, state: State) -> Iterator[str]:
        """Yield the nodes whose notes say that their ramdisk has not looked them up.

        Most of many waiting nodes have been looked up, so only the others are read whole.
        """
        before = clock.ago(self._seconds)
        rows = _waiting_nodes(self._tasks, self._ownership, state, before)
        still = (row["uuid"] for row in rows if row["wake_at"] is None)
        while some := list(itertools.islice(still, _PAGE)):
            noted = self._tasks.runtime.database.read(functools.partial(sweeps.notes, uuids=some))
            booted = {row["uuid"] for row in noted if waiting.ramdisk_boot(row).at is not None}
            yield from (uuid for uuid in some if uuid in booted)

    def _restart_silent(self, node_uuid: str, activity: Activity) -> bool:
        """Restart a machine if it is due; return whether that was tried."""
        who = context.internal("boot retries")
        try:
            if not self._is_due(self._tasks.look(who, node_uuid), activity):
                return False
            with self._tasks.lock(
                who, node_uuid, worker=True, patient=False, reserved=False
            ) as task:
                if self._is_due(task, activity):
                    task.hand_over(_boot_again, activity, self._seconds)
        except errors.Error as why:
            LOG.info("Node %s: its boot will be checked again later: %s", node_uuid, why)
        return True

    def _is_due(self, task: Task, activity: Activity) -> bool:
        node = task.node
        if task.state is not activity.waiting or node.maintenance or node.wake_at is not None:
            return False
        step = activity.step_of(node) if isinstance(activity, activities.StepActivity) else None
        if step and not task.driver.interface(step["interface"]).uses_agent(task):
            return False  # its BMC may work
        return task.notes.token is None and ramdisk.silent_seconds(task) >= self._seconds


def _boot_again(task: Task, activity: Activity, seconds: int) -> None:
    """Start a machine again; if that fails, its wait goes on."""
    restarts = ramdisk.count_restart(task)
    reason = f"no lookup of its ramdisk for {seconds} s"
    data = {"reason": reason, "restarts": restarts}
    task.journal.event("boot_retry", run=task.node.run_uuid, data=data)
    task.save()
    count = (restarts, ramdisk.MOST_RESTARTS)
    LOG.warning("Node %s: %s; restart %d of %d", task.node.uuid, reason, *count)
    try:
        ramdisk.boot(task, _BOOTS[activity])
    except (errors.LockLost, errors.Stopping):
        raise
    except Exception as why:  # drivers may raise anything
        LOG.warning("Node %s: its machine was not restarted: %s", task.node.uuid, why)
    task.save()


# Steps that take too long: reported as overdue, or ended at their deadline.
#
# A step is overdue by its usual duration (`domain.step_times`). That is only reported, by one event
# for each attempt. ``[conductor]step_deadline`` sets deadlines. A waiting step past its deadline
# fails. A step that a thread of a conductor runs cannot be ended there, and is reported as overdue.


class _OverdueStep(NamedTuple):
    """An overdue step: since when, its usual 90th percentile, its deadline in seconds."""

    step: LongStep
    since: datetime.datetime
    usual_p90: float | None
    deadline: int | None


class OverdueSteps:
    """Checks the steps under way on this conductor's nodes."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership) -> None:
        self._tasks = tasks
        self._ownership = ownership
        self._usual = UsualTimes(tasks.runtime.database)
        self.deadlines = {
            title: int(seconds)
            for title, seconds in config.priorities(
                tasks.runtime.conf.conductor.step_deadline
            ).items()
        }
        self.count = 0
        """Runs with an overdue step at the last sweep."""

    def sweep(self) -> None:
        """Check all steps once; one statement if no step has been under way for long."""
        runtime = self._tasks.runtime
        shortest = min(step_times.OVERDUE_SECONDS, *self.deadlines.values(), float("inf"))
        ends = runtime.conf.conductor.periodic_max_workers
        found = set()
        for step in step_durations.long_steps(runtime.database, clock.ago(shortest)):
            if not self._ownership.mine(step):
                continue
            if step["state"] == "waiting" and self._passed_deadline(step):
                ends -= 1
                if ends >= 0:  # others have their turn in the next sweep
                    self._end_step(step)
                continue
            finding = self._judge(step)
            if finding is not None:
                found.add(step["run_uuid"])
                if not step_durations.is_marked_overdue(step):
                    self._report(finding)
        self.count = len(found)

    def _passed_deadline(self, step: LongStep) -> int | None:
        """Return the deadline of a step if it is over, in seconds; None if not.

        As for time-outs, an operator watches a node in maintenance without a fault.
        """
        deadline = self.deadlines.get(steps.title(step))
        if step["step"] in step_times.BY_REQUEST or (step["maintenance"] and step["fault"] is None):
            return None
        if deadline is None or clock.lived(step["started_at"]) < deadline:
            return None
        return deadline

    # -- overdue steps -----------------------------------------------------------------------

    def _judge(self, step: LongStep) -> _OverdueStep | None:
        usual = self._usual.of(
            step["interface"], step["step"], step["driver"], step["resource_class"]
        )
        started = step["started_at"]
        now = started + datetime.timedelta(seconds=clock.lived(started))
        late = step_times.overdue_of(usual, started, now)
        deadline = self._passed_deadline(step)
        if late is not None:
            return _OverdueStep(step, late.since, late.usual_p90, deadline)
        if deadline is not None:
            since = started + datetime.timedelta(seconds=deadline)
            return _OverdueStep(step, since, usual.p90 if usual else None, deadline)
        return None

    def _report(self, finding: _OverdueStep) -> None:
        """Write one event for this attempt at a step."""
        runtime, step = self._tasks.runtime, finding.step
        who = context.internal("overdue steps")
        row: Json = {
            "at": clock.now(),
            "node_uuid": step["uuid"],
            "run_uuid": step["run_uuid"],
            "kind": "overdue",
            "event": step["kind"],
            "conductor": runtime.host,
            **who.recorded(),
            "data": _event_data(finding),
        }

        def write(conn: Connection) -> bool:
            marked = step_durations.mark_overdue(
                conn, step["id"], attempt=step["attempt"], at=row["at"]
            )
            if marked:
                events.add(conn, [row])
            return marked

        if runtime.database.write(write):
            LOG.warning(
                "Node %s: the step %s is overdue since %s UTC",
                *(step["uuid"], steps.title(step), f"{finding.since:%Y-%m-%d %H:%M:%S}"),
            )

    # -- deadlines ---------------------------------------------------------------------------

    def _end_step(self, step: LongStep) -> None:
        who = context.internal("deadlines")
        try:
            with self._tasks.lock(
                who, step["uuid"], worker=True, patient=False, reserved=False, whole=False
            ) as task:
                if self._still_waits(task, step):
                    task.hand_over(_fail_step, step, self.deadlines[steps.title(step)])
        except errors.Error as why:
            LOG.info("Node %s: its deadline will be checked again later: %s", step["uuid"], why)

    def _still_waits(self, task: Task, step: LongStep) -> bool:
        """Return whether the same attempt at the step still waits, under the lock."""
        now = self._tasks.runtime.database.read(
            lambda conn: step_durations.get_long_step(conn, step["id"])
        )
        return (
            waiting_steps(task.state) is not None
            and now is not None
            and (now["attempt"], now["state"]) == (step["attempt"], "waiting")
            and now["run_uuid"] == task.node.run_uuid
            and self._passed_deadline(now) is not None
        )


def _fail_step(task: Task, step: LongStep, deadline: int) -> None:
    seconds = int(clock.lived(step["started_at"]))
    why = errors.DeadlinePassed(
        step=steps.title(step), node=task.node.uuid, seconds=seconds, deadline=deadline
    )
    flows.give_up(task, why)


def _event_data(finding: _OverdueStep) -> Json:
    step = finding.step
    return {
        "step": steps.title(step),
        "ordinal": step["ordinal"],
        "attempt": step["attempt"],
        "since": f"{finding.since.isoformat()}+00:00",
        "usual_p90": finding.usual_p90,
        "deadline": finding.deadline,
    }


# Ending of hung work, so that it only costs its node a failure.
#
# Each request to a machine, pause and save of a task is progress. Work is given up after
# ``[conductor]work_timeout`` seconds without progress, or after holding its lock for
# ``[conductor]busy_timeout``. Its thread may no longer send or write, its lease is not renewed, and
# its worker slot is freed. The node goes into its fail state under a new lock. The node's
# interfaces are not called for this, because they may hang again.
#
# Python cannot end a thread. A hung thread stays until its wait or the process ends.


_HUNG_CHECK_SECONDS = 10.0  # seconds between two checks, at most
_HUNG_CHECK_SHARE = 0.25  # of the shortest limit


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

    def __init__(self, tasks: TaskRunner) -> None:
        self._tasks = tasks
        settings = tasks.runtime.conf.conductor
        self._idle, self._whole = settings.work_timeout, settings.busy_timeout
        self._limits = {"work_timeout": self._idle, "busy_timeout": self._whole}
        limits = [limit for limit in (self._idle, self._whole) if limit]
        self.interval = min(_HUNG_CHECK_SECONDS, min(limits) * _HUNG_CHECK_SHARE) if limits else 0.0
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

    def _check_lock(self, held: Lock) -> None:
        idle = self._pulses.silence(held.token, held.progress)
        whole = self._pulses.silence(("whole", held.token), None)
        if self._idle and idle >= self._idle:
            why = f"no request to a machine, no pause and no end of a step for {self._idle} s"
            self._give_up(held, idle, why, "work_timeout")
        elif self._whole and whole >= self._whole:
            self._give_up(held, whole, f"it has not ended within {self._whole} s", "busy_timeout")

    def _give_up(self, held: Lock, seconds: float, why: str, option: str) -> None:
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
        operations.fail_power_change(task, error.message, error)
    if task.notes.order is not None:
        operations.fail_operation(task, error.message, error)
    task.notes.untidied = False
    if states.kind(task.state) in (Kind.BUSY, Kind.WAIT):
        reason = "it was not called, because work on this node hangs"
        task.hand_over(flows.give_up_unseen, error, reason)
    else:
        task.node.last_error = error.message
        task.node.wake_at = None  # a retry by the service would hang again
        flows.give_up(task, error)  # ends an abort
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
