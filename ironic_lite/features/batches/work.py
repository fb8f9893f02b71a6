"""Batches: start their nodes and record the results, each batch by the conductor that owns it.

Each batch has one owner, by the ring. The owner claims some nodes in one transaction, sends their
requests to the conductors of the nodes, and then writes their runs. The ID of a node's request is
the same at every try (`request_id`), so the next owner sends it again for a node whose claim is
left: if the request has a run, that run is taken. Two conductors may both take themselves for the
owner for a moment: claims are made under the lock of the batch, and a request begins nothing
without the claim of its node, which its first save locks.

A sweep is a fixed number of statements for all open batches and all their nodes. Only a batch that
may start a node, or has a result, costs more. The end of a run on the owner starts a sweep as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import pathlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.engine import rights
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.service import ConductorService, FeatureWork, Leftover
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.conductor.watch import sweep_threads
from ironic_lite.conductor.watch.ownership import Peers
from ironic_lite.conductor.watch.sweep_threads import Sweep
from ironic_lite.core import clock, context
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.queries import events, nodes, resources, runs
from ironic_lite.domain import history, retries, states, verbs
from ironic_lite.domain.holds import BY_RESTORE
from ironic_lite.domain.run_stops import How, Stop, StopProgress, ends_uncleaned, stoppable
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers import deadline
from ironic_lite.features.batches import rows, rules
from ironic_lite.features.batches.rules import BatchState, NodeState

# Nodes of batches: their starts, aborts and results, by the owner of the batch.

# Starts of claimed nodes: send the request of the batch, and write what has become of it.

LOG = logging.getLogger(__name__)
_THREADS = 8
_MOST_HANGING = 8
"""Requests that hang, such as in a driver's check, beyond which no other one is sent.

Each of them keeps a thread, and the slot of a worker, until it ends.
"""
_DRIVER_SECONDS = 50.0
"""Limit for drivers that, against their contract, ask a machine while they check a request."""
HANG_SECONDS = 60.0
"""Seconds after which a request is no longer waited for."""
_REQUEST = ("uuid", "request", "options", "project", "context")


class _Claimed(NamedTuple):
    """A claimed node, and its row of the batch."""

    uuid: str
    member: Row


class Starts:
    """Sends the requests of claimed nodes."""

    def __init__(self, tasks: TaskRunner, peers: Peers) -> None:
        self._runtime = tasks.runtime
        self._database = tasks.runtime.database
        self._peers = peers
        self._hanging: set[str] = set()
        self._unknown: set[str] = set()

    @property
    def blocked(self) -> bool:
        """True if no further node is claimed, because so many requests have an unknown outcome."""
        return len(self._hanging | self._unknown) >= _MOST_HANGING

    def begin_sweep(self) -> None:
        """Forget unknown outcomes, because each sweep first asks for them again."""
        self._unknown.clear()

    def start(self, uuid: str, members: Sequence[Row]) -> bool:
        """Start nodes of a batch that this conductor has claimed.

        A node whose request hangs stays claimed, because its outcome is unknown.

        :return: False if no more nodes are to be claimed, because one of them has met a limit of
            the service, or the service stops.
        """
        free = [member for member in members if member["node_uuid"] not in self._hanging]
        if not free:
            return True
        batch = self._database.read(lambda conn: rows.get(conn, uuid, _REQUEST))
        limits: list[str] = []

        def act(claimed: _Claimed) -> None:
            if not self._start(batch, claimed.member):
                limits.append(claimed.uuid)

        sweep_threads.run_all(
            (_Claimed(one["node_uuid"], one) for one in free if not self._many_hang()),
            act,
            most=_THREADS,
            halted=self._runtime.draining,
            hanging=self._hanging,
            hang_seconds=HANG_SECONDS,
        )
        return not limits and not self._runtime.draining.is_set()

    def _many_hang(self) -> bool:
        return len(self._hanging) >= _MOST_HANGING

    def _start(self, batch: Row, member: Row) -> bool:
        """Send the request of a claimed node, and write what has become of it."""
        if self._runtime.draining.is_set():
            return False  # the next owner starts it
        who = Context.from_dict({**batch["context"], "request_id": member["request_id"]})
        owners = (member["node_uuid"], member["owner"], member["lessee"])
        who = dataclasses.replace(who, background=True, owners=owners)
        before = context.enter(who)
        try:
            found = self._send(batch, member, who)
            if not self._database.write(lambda conn: _write_start(conn, batch, member, found)):
                self._unknown.add(member["node_uuid"])
        except errors.Unavailable as why:  # the database: the next sweep looks again
            LOG.warning("Batch %s, node %s: %s", batch["uuid"], member["node_uuid"], why)
            return True
        finally:
            context.enter(before)
        return not is_limit(found)

    def _send(self, batch: Row, member: Row, who: Context) -> Json | errors.Error | None:
        """Return the values of a skipped or stopped node, or the refusal of its request.

        None: the request was accepted, or its outcome is unknown.
        """
        node = member["node_uuid"]
        try:
            accepted = self._database.read(lambda conn: _accepted(conn, batch, member))
            kept_back = None if accepted else self._kept_back(batch, member, who)
            if not (accepted or kept_back):
                self._call(batch["request"], who, node)
            return kept_back
        except errors.NodeNotFound:
            return ended_values(NodeState.SKIPPED, GONE)
        except errors.RightsLost as why:
            return rights_lost_values(str(why.facts["change"]))
        except errors.Error as why:
            return None if is_unknown(why) else why
        except Exception as why:  # drivers may raise anything while they check a request
            LOG.exception("Batch %s, node %s: the request failed", batch["uuid"], node)
            return errors.Unexpected(str(why))

    def _kept_back(self, batch: Row, member: Row, who: Context) -> Json | None:
        """Return the values of a node whose request must not be sent, None for others."""
        # A pause or an abort since the claim holds for this node as well.
        state = self._database.read(lambda conn: rows.state_of(conn, batch["uuid"]))
        if state != BatchState.RUNNING:
            return stopped_values(member, state)
        columns = ("uuid", "provision_state", "owner", "lessee")
        read = functools.partial(nodes.get, ident=member["node_uuid"], columns=columns)
        row = self._database.read(read)
        # The owners are compared again under the lock of the node: see `engine.rights`.
        before, now = ((one["owner"], one["lessee"]) for one in (member, row))
        lost = retries.change_of_hands(before, now) or _lost_login(self._runtime.conf, who.user)
        if lost := lost or self._database.read(lambda conn: _lost_runbook(conn, batch)):
            return rights_lost_values(lost)
        if row["provision_state"] != member["was"]:
            return skipped_values(member, row["provision_state"])
        if batch["request"].get("target") == "retry":
            # The rights of the requester were checked for the steps of this run.
            run = self._database.read(lambda conn: rows.newest_of(conn, [row["uuid"]]))
            newest = run[row["uuid"]]["uuid"] if run else None
            if newest != member["retry_of"]:
                return run_changed_values(member, newest)
        return None

    def _call(self, request: RowView, who: Context, node: str) -> None:
        columns = ("uuid", "driver", "conductor_group")
        row = self._database.read(lambda conn: nodes.get(conn, node, columns))
        conductor = self._peers.conductor_of(row)
        with deadline.until(_DRIVER_SECONDS):
            if request.get("power"):
                target = request["power"]
                conductor.change_node_power_state(who, node_uuid=node, target=target)
                return
            event = verbs.BY_TARGET[request["target"]].event
            conductor.start_verb(who, node_uuid=node, event=event, body=dict(request))


def _accepted(conn: Connection, batch: Row, member: Row) -> Json | None:
    """Return the values of a node whose request was accepted, None if it was not."""
    node, ident = member["node_uuid"], member["request_id"]
    run = runs.of_request(conn, ident, node)
    if run is None and not events.has_request(conn, node, ident):
        return None
    return accepted_values(run, batch["request"])


def _write_start(
    conn: Connection, batch: Row, member: Row, found: Json | errors.Error | None
) -> bool:
    """Write what has become of a request; return False if that is unknown."""
    node = member["node_uuid"]
    if not rows.lock_claim(conn, node, member["request_id"]):
        return True
    if isinstance(found, errors.Error):
        found = postponed_values(member, found) if may_pass(found) else refused_values(found)
    # No request is accepted while the row is locked: see `Task`.
    values = _accepted(conn, batch, member) or found
    if values is not None:
        rows.change_node(conn, batch["uuid"], node, values, states=(NodeState.STARTING,))
    return values is not None


def _lost_runbook(conn: Connection, batch: RowView) -> str | None:
    """Return why the project of a batch can no longer use its runbook, None if it can.

    Callers of the whole system need no runbook for its steps.
    """
    book = batch["options"].get("runbook")
    if book is None or batch["project"] is None:
        return None
    try:
        now = resources.get_runbook(conn, book["uuid"])
    except errors.RunbookNotFound:
        return f"the runbook {book['uuid']} was removed"
    if now["public"] or (now["owner"] == book["owner"] and not book["public"]):
        return None
    return f"the runbook {book['uuid']} is not the project's any more"


# Aborts of the runs of a batch.

_ABORT_REASON = "The batch was aborted."
_ABORT = verbs.BY_TARGET["abort"]
_ABORT_COLUMNS = (
    "uuid",
    "owner",
    "lessee",
    *history.STANDING,
    "run_uuid",
    "run_stop",
    "automated_clean",
)


class Aborts:
    """Aborts runs: at their next step where they have steps, else by the verb ``abort``.

    A node is tried again when it has changed, or after a refusal that may pass by itself, such as
    a lock, so that waiting runs cost one statement for all.
    """

    def __init__(self, tasks: TaskRunner, peers: Peers) -> None:
        self._database = tasks.runtime.database
        self._peers = peers
        self._settings = tasks.runtime.conf.conductor
        self._tried: Mapping[str, int] = {}

    def sweep(self, uuids: Sequence[str]) -> None:
        """Abort the runs under way in these batches."""
        if not uuids:
            return
        found = self._database.read(lambda conn: rows.abortable_runs(conn, uuids))
        callers: dict[str, Row] = {}
        tried: dict[str, int] = {}
        for row in found:
            run, generation = row["run_uuid"], row["generation"]
            if self._tried.get(run) == generation or self._abort(row, callers):
                tried[run] = generation
        self._tried = tried

    def _abort(self, row: Row, callers: dict[str, Row]) -> bool:
        """Abort a run; return False if it is to be tried again although nothing has changed."""
        batch, node, run = row["batch_uuid"], row["node_uuid"], row["run_uuid"]
        try:
            if batch not in callers:
                read = functools.partial(rows.get, uuid=batch, columns=("context",))
                callers[batch] = self._database.read(read)["context"]
            ident = rules.request_id(batch, node, "abort")
            owners = (node, row["owner"], row["lessee"])
            who = Context.from_dict({**callers[batch], "request_id": ident, "owners": owners})
            state = State(row["provision_state"])
            conductor = self._peers.conductor_of({**row, "uuid": node})
            cleans = self._settings.automated_clean_enable
            if _may_abort(row, cleans=cleans):
                if not _abort_is_asked(row["run_stop"], run):
                    about = {"node": node, "run": run, "who": who, "cleans": cleans}
                    self._database.write(functools.partial(_ask_for_abort, **about))
                if states.kind(state) is Kind.WAIT:
                    conductor.stop_run(who, node_uuid=node, run_uuid=run)
            elif verbs.possible(_ABORT, state):
                conductor.start_verb(who, node_uuid=node, event="abort", body={})
        except errors.Error as why:
            LOG.debug("Batch %s, node %s: not aborted: %s", batch, node, why)
            return not may_pass(why)
        except Exception:  # drivers may raise anything
            LOG.exception("Batch %s, node %s: the abort failed", batch, node)
        return True


def _may_abort(row: RowView, *, cleans: bool) -> bool:
    state = State(row["provision_state"])
    if ends_uncleaned(state, row["automated_clean"], cleans=cleans):
        return False
    return stoppable(state) and states.kind(state) is not Kind.HELD


def _abort_is_asked(text: str | None, run: str) -> bool:
    known = Stop.read(text, run)
    if known is None:
        return False
    return known.progress is StopProgress.TAKEN or (known.how is How.ABORT and known.after is None)


def _ask_for_abort(conn: Connection, node: str, run: str, who: Context, *, cleans: bool) -> None:
    """Ask for the abort of a run at its next step; a repetition changes nothing."""
    row: RowView = nodes.get(conn, node, _ABORT_COLUMNS, lock_row=True)
    rights.check_owners(who, node, row["owner"], row["lessee"])
    if row["run_uuid"] != run or _abort_is_asked(row["run_stop"], run):
        return
    if not _may_abort(row, cleans=cleans):
        return
    now = clock.now()
    wanted = Stop(run, How.ABORT, None, _ABORT_REASON, who.user, now.isoformat())
    runs.put_stop(conn, node, run, wanted.text)
    facts = {"how": str(wanted.how), "after": wanted.after, "reason": wanted.reason}
    told = {
        "at": now,
        "node_uuid": node,
        "kind": "stop_requested",
        "event": str(wanted.how),
        "run_uuid": run,
        **who.recorded(),
        "data": {**history.standing_of(row), "project": who.project, **facts},
    }
    events.add(conn, [told])


# Results of nodes in batches: the values of their rows, and how they are written.

_LATER = (
    errors.Unavailable,
    errors.NodeLocked,
    errors.ConcurrentUpdate,
    errors.LockLost,
    errors.NoValidHost,
)
GONE = {"code": "NodeNotFound", "text": "The node was removed."}


def ended_values(state: NodeState, error: RowView | None) -> Json:
    return {
        "state": state.value,
        "open_uuid": None,
        "ended_at": clock.now(),
        "error": None if error is None else dict(error),
    }


def refused_values(why: errors.Error) -> Json:
    return ended_values(NodeState.REFUSED, {"code": why.code, "text": why.message})


def skipped_values(member: RowView, state: str) -> Json:
    text = f'The node was in state "{member["was"]}" when the batch was made, and is now "{state}".'
    return ended_values(NodeState.SKIPPED, {"code": "StateChanged", "text": text})


def rights_lost_values(change: str) -> Json:
    return ended_values(NodeState.SKIPPED, rules.rights_lost(change))


def run_changed_values(member: RowView, run: str | None) -> Json:
    """Return the values of a node that was not retried, because another run is its newest."""
    wanted = member["retry_of"]
    if wanted is None:
        text = "The node had no run to retry when the batch was made; begin another batch."
    else:
        text = f"The batch was to retry the run {wanted}, and the newest is now {run}."
    return ended_values(NodeState.SKIPPED, {"code": "StateChanged", "text": text})


def stopped_values(member: RowView, state: str) -> Json:
    """Return the values of a claimed node whose request was not sent.

    :param state: of its batch: paused or aborted.
    """
    if state != rules.BatchState.PAUSED:
        return ended_values(NodeState.SKIPPED, rules.SKIPPED_BY_ABORT)
    return {
        "state": NodeState.PENDING.value,
        "host": None,
        "tries": max(0, member["tries"] - 1),
        "started_at": None,
        "not_before": None,
    }


def accepted_values(run: str | None, request: RowView) -> Json:
    """Return the values of an accepted node; a request without a run has ended with that.

    The time of its claim stays its start: its run may have ended before this is written.
    """
    if run is None and not request.get("power"):
        return ended_values(NodeState.DONE, None)
    return {
        "state": NodeState.RUNNING.value,
        "run_uuid": run,
        "not_before": None,
    }


def is_unknown(why: errors.Error) -> bool:
    """Return whether an error of the database or of RPC leaves it open what was done."""
    if isinstance(why, errors.NoConductor):
        return not isinstance(why, errors.ConductorNotListening)
    return type(why) is errors.Unavailable or bool(why.facts.get("doubtful"))


def is_limit(why: errors.Error | Json | None) -> bool:
    """Return whether a request has met a limit of the service, whose end does not depend on it."""
    return isinstance(why, errors.TooManyActions | errors.NoFreeWorker)


def may_pass(why: errors.Error) -> bool:
    return isinstance(why, _LATER)


def postponed_values(member: RowView, why: errors.Error) -> Json:
    """Return the values of a claimed node that is tried again later, `MOST_TRIES` times at most.

    A limit of the service does not count: a batch may wait for it as long as it is open.
    """
    limit = is_limit(why)
    tries = member["tries"] - limit
    if tries >= rules.MOST_TRIES:
        return refused_values(why)
    pause = rules.LIMIT_SECONDS if limit else rules.pause_seconds(tries)
    return {
        "state": NodeState.PENDING.value,
        "host": None,
        "tries": tries,
        "started_at": None,
        "not_before": clock.ago(-pause),
        "error": {"code": why.code, "text": why.message},
    }


def gone_result(member: RowView) -> Json:
    """Return the result of a node that was removed while its request was under way."""
    end = {"node": member["node_uuid"], "state": NodeState.FAILED.value}
    return {**end, "error": GONE, "at": clock.now()}


def result_of_run(row: RowView) -> Json:
    if row["state"] is None:
        return gone_result(row)
    error = row["error"] or None
    if error is not None:
        code = (error.get("cause") or error).get("code") or error.get("code")
        kept = {name: error[name] for name in ("text", "step") if error.get(name)}
        error = {"code": code, **kept}
    return {
        "node": row["node_uuid"],
        "state": row["state"],
        "error": error,
        "at": row["ended_at"] or clock.now(),
    }


def result_of_power(member: RowView, event: RowView | None, *, lost: bool) -> Json | None:
    """Return the result of a power change, None if it may be under way.

    :param member: from `rows.ended_power`.
    :param event: the end of the change; without one it was lost, or is under way.
    :param lost: nobody is left to end a change that is not ended.
    """
    end: Json = {"node": member["node_uuid"], "at": clock.now(), "error": None}
    if member["present"] is None:
        return gone_result(member)
    if event is None and member["target_power_state"] is not None and not lost:
        return None
    if event is None:
        text = "The end of the power change is not known, because its conductor was lost."
        error: Json | None = {"code": "Interrupted", "text": text}
        return {**end, "state": NodeState.FAILED.value, "error": error}
    if event["event"] == "end":
        return {**end, "state": NodeState.DONE.value, "at": event["at"]}
    error = {"code": "PowerFailure", "text": (event["data"] or {}).get("error", "")}
    return {**end, "state": NodeState.FAILED.value, "at": event["at"], "error": error}


def write_results(conn: Connection, uuid: str, ends: Sequence[Json]) -> None:
    """Write the results of nodes that are under way; a node that has a result keeps it."""
    for end in ends:
        values = {"state": end["state"], "open_uuid": None, "ended_at": end["at"]}
        values["error"] = end["error"]
        rows.change_node(conn, uuid, end["node"], values, states=(NodeState.RUNNING,))


_RESULTS = 200  # results of one transaction
_LOOK = 1000  # results, and claimed nodes, of one sweep: the next one finds the rest
_CLAIMS = 16  # nodes that are claimed and started at once
_ROUNDS = 4  # claims of a batch in one sweep
_HOUR = 3600.0


class _Seen(NamedTuple):
    """Rows that a sweep has found, by batch.

    :ivar runs: nodes whose run has ended.
    :ivar power: nodes whose power change has ended, each with the event of the end.
    :ivar left: nodes that were claimed and not started.
    """

    runs: Mapping[str, list[Row]]
    power: Mapping[str, list[tuple[Row, Row | None]]]
    left: Mapping[str, list[Row]]


class BatchWork(FeatureWork):
    """Brings the open batches on that this conductor owns."""

    def __init__(self, service: ConductorService) -> None:
        tasks, self._runtime = service.tasks, service.runtime
        self._database = tasks.runtime.database
        self._ownership = service.ownership
        self._starts = Starts(tasks, service.peers)
        self._aborts = Aborts(tasks, service.peers)
        self._runtime.moved.append(rows.take_out)
        self._runtime.begun.append(require_claim)

    def sweeps(self) -> list[Sweep]:
        """Return the sweeps of open batches and of old ones."""
        interval = self._runtime.conf.conductor.batch_interval
        return [
            Sweep("batches", interval, self.sweep, self._runtime.run_ends),
            Sweep("old batches", _HOUR, self.forget),
        ]

    def sweep(self) -> None:
        """Look at the own open batches once; one statement if there are none."""
        found = self._ownership.share(self._database.read(rows.open_batches))
        # From here on, the end of a run starts the next sweep at once.
        running = any(batch["state"] == rules.BatchState.RUNNING for batch in found)
        self._runtime.run_ends.armed = running
        uuids = [batch["uuid"] for batch in found]
        if not found:
            return
        self._starts.begin_sweep()
        hosts = [one.host for one in self._ownership.members()]
        seen = self._database.read(functools.partial(self._look, uuids=uuids, hosts=hosts))
        for uuid in uuids:
            with self._guarded(uuid):
                self._record_results(uuid, seen)
                self._starts.start(uuid, seen.left.get(uuid, ()))
        counts = self._database.read(lambda conn: rows.counts_of(conn, uuids))
        for batch in found:
            if self._runtime.draining.is_set():
                return
            with self._guarded(batch["uuid"]):
                self._claim_all(batch, counts.get(batch["uuid"], {}))
        self._aborts.sweep([batch["uuid"] for batch in found if batch["abort_runs"]])

    def forget(self) -> None:
        """Remove batches that have ended long ago, one transaction each."""
        before = clock.ago(rules.KEPT_DAYS * 24 * 3600)
        while not self._runtime.draining.is_set() and self._database.write(
            functools.partial(rows.remove_old, before=before)
        ):
            pass

    @contextlib.contextmanager
    def _guarded(self, uuid: str) -> Iterator[None]:
        """Log an error of one batch, so that the sweep goes on with the others.

        :raises errors.Unavailable: the database cannot be used, which concerns all of them.
        """
        try:
            yield
        except errors.Unavailable:
            raise
        except Exception:
            LOG.exception("Batch %s: the sweep failed; the next one looks at it again", uuid)

    def _look(self, conn: Connection, uuids: Sequence[str], hosts: Sequence[str]) -> _Seen:
        seen = _Seen(defaultdict(list), defaultdict(list), defaultdict(list))
        for row in rows.ended_runs(conn, uuids, limit=_LOOK):
            seen.runs[row["batch_uuid"]].append(row)
        power = rows.ended_power(conn, uuids, hosts, limit=_LOOK)
        # The targets were read first: a change that has ended since has its event.
        ends = rows.power_ends(conn, power)
        for row in power:
            end = ends.get((row["node_uuid"], row["request_id"]))
            seen.power[row["batch_uuid"]].append((row, end))
        for row in rows.left_claims(conn, uuids, limit=_LOOK):
            seen.left[row["batch_uuid"]].append(row)
        return seen

    # -- results -----------------------------------------------------------------------------

    def _record_results(self, uuid: str, seen: _Seen) -> None:
        ends = [result_of_run(row) for row in seen.runs.get(uuid, ())]
        for member, event in seen.power.get(uuid, ()):
            end = result_of_power(member, event, lost=self._is_lost(member))
            ends += [end] if end is not None else []
        for first in range(0, len(ends), _RESULTS):
            self._database.write(
                functools.partial(write_results, uuid=uuid, ends=ends[first:][:_RESULTS])
            )

    def _is_lost(self, member: RowView) -> bool:
        """Return whether nobody ends a power change that has not ended.

        The lock of a lost conductor is taken over by the node's next owner, which ends the change.
        """
        return member["reservation"] is None or not self._ownership.has_owner(member)

    # -- claims ------------------------------------------------------------------------------

    def _claim_all(self, batch: Row, counts: rules.Counts) -> None:
        """Claim and start nodes, as many as the batch allows now."""
        uuid = batch["uuid"]
        for _ in range(_ROUNDS):
            if self._starts.blocked:
                return
            work = self._claim(batch, counts)
            if not work:
                return
            if not self._starts.start(uuid, work):
                return
            batch, counts = self._database.read(functools.partial(_read_again, uuid=uuid))

    def _claim(self, batch: Row, counts: rules.Counts) -> list[Row]:
        """Mark nodes as starting, as many as the batch allows; write its next state."""
        uuid = batch["uuid"]
        if batch["ended_at"] is not None:
            return []
        before = rules.of_row(batch)
        decided = rules.turn(before, counts)
        members: list[Row] = []
        if decided.start:
            choice = functools.partial(rows.pending, uuid=uuid, wave=decided.wave, now=clock.now())
            members = self._database.read(
                functools.partial(choice, limit=min(decided.start, _CLAIMS))
            )
        changed = (decided.state, decided.wave) != (before.state, before.wave) or decided.ended
        changed = changed or (decided.skips and rules.total(counts, (NodeState.PENDING,)) > 0)
        if not changed and not members:
            return []
        claim = functools.partial(self._write_claim, uuid=uuid, wave=decided.wave, members=members)
        return self._database.write(claim)

    def _write_claim(
        self, conn: Connection, uuid: str, wave: int, members: Sequence[Row]
    ) -> list[Row]:
        row = rows.get(conn, uuid, rows.OPEN_COLUMNS, lock_row=True)
        if row["ended_at"] is not None:
            return []
        now = clock.now()
        before = rules.of_row(row)
        decided = rules.turn(before, rows.counts(conn, uuid))
        claimed = []
        if decided.wave == wave:
            for member in members[: decided.start]:
                values: Json = {
                    "state": NodeState.STARTING.value,
                    "host": self._runtime.host,
                    "request_id": rules.request_id(uuid, member["node_uuid"]),
                    "tries": member["tries"] + 1,
                    "started_at": member["started_at"] or now,
                    "error": None,
                }
                if rows.change_node(
                    conn, uuid, member["node_uuid"], values, states=(NodeState.PENDING,)
                ):
                    claimed.append({**member, **values})
        _write_turn(conn, self._runtime.host, row, before, decided)
        return claimed


def _write_turn(
    conn: Connection,
    host: str,
    row: Row,
    before: rules.Batch,
    decided: rules.BatchDecision,
) -> None:
    now = clock.now()
    changes: Json = {}
    told: list[Json] = []
    if decided.wave != before.wave:
        changes["wave"] = decided.wave
        told.append({"kind": "batch_wave", "data": {"wave": decided.wave}})
    if decided.state is BatchState.PAUSED and before.state != BatchState.PAUSED:
        changes |= {"state": decided.state.value, "paused_by": decided.by}
        told.append({"kind": "batch_paused", "data": {"by": decided.by}})
    if decided.state is BatchState.ABORTED and before.state != BatchState.ABORTED:
        changes |= {"state": decided.state.value, "paused_by": None}
        told.append({"kind": "batch_aborted", "data": {"by": decided.by}})
    if decided.skips:
        rows.skip_pending(conn, row["uuid"], now, rules.SKIPPED_BY_ABORT)
    if decided.ended:
        changes |= {"state": decided.state.value, "ended_at": now, "paused_by": None}
        # Nothing sends the request any more, so its secrets go; the rest is shown on.
        request = rows.get(conn, row["uuid"], ("request",))["request"]
        changes["request"] = rules.masked(request)
        counts = rules.by_state(rows.counts(conn, row["uuid"]))
        data = {"state": decided.state.value, "counts": counts}
        told.append({"kind": "batch_ended", "data": data})
    if changes:
        rows.update(conn, row["uuid"], {**changes, "updated_at": now})
        _tell(conn, host, row, told)


def _tell(conn: Connection, host: str, row: RowView, told: Sequence[Json]) -> None:
    """Write events of a batch; its UUID stands in place of a node's."""
    who = context.internal("batches")
    about = {
        "at": clock.now(),
        "node_uuid": row["uuid"],
        "conductor": host,
        **who.recorded(),
        "owner": row["project"],
    }
    batch = {"batch": row["uuid"], "name": row["name"]}
    events.add(conn, [{**about, **one, "data": {**batch, **one["data"]}} for one in told])


def require_claim(task: Task, conn: Connection) -> None:
    """Refuse a request whose batch was paused or aborted while a driver checked it.

    Another caller may have resumed the batch since, with other rights.

    :raises errors.Unavailable: the node is not claimed for this request.
    """
    who = task.context
    batch = rows.lock_claim(conn, task.node.uuid, who.request_id)
    caller = rows.get(conn, batch, ("context",))["context"] if batch is not None else {}
    if batch is None or (caller.get("user"), caller.get("project")) != (who.user, who.project):
        raise errors.Unavailable("The batch of this request no longer waits for its start.")


def _read_again(conn: Connection, uuid: str) -> tuple[Row, rules.Counts]:
    return rows.get(conn, uuid, rows.OPEN_COLUMNS), rows.counts(conn, uuid)


# -- after a restore of the database ---------------------------------------------------------


def _running(conn: Connection) -> list[str]:
    return [row["uuid"] for row in rows.open_batches(conn) if row["state"] == BatchState.RUNNING]


def _find(conn: Connection) -> list[str]:
    return [f"batch {uuid}: running: becomes paused" for uuid in _running(conn)]


def _pause_all(database: Transactions, host: str) -> None:
    """Pause the batches that are running, one transaction each."""

    def write(conn: Connection, uuid: str) -> None:
        row = rows.get(conn, uuid, rows.OPEN_COLUMNS, lock_row=True)
        if row["state"] == BatchState.RUNNING:
            decided = rules.BatchDecision(BatchState.PAUSED, row["wave"], by=BY_RESTORE)
            _write_turn(conn, host, row, rules.of_row(row), decided)

    for uuid in database.read(_running):
        database.write(functools.partial(write, uuid=uuid))


LEFTOVER = Leftover("batches", _find, _pause_all)
_WRITTEN_SECONDS = 1.0
"""Time for the end of a change of a password file, because ``htpasswd`` writes it in place."""


def _lost_login(conf: Configuration, user: str | None) -> str | None:
    """Return why a user can no longer log in, None if the user can, or if it is not known here.

    Only ``[api]auth_strategy = http_basic`` can be asked, on a machine with its file of users.
    """
    if conf.api.auth_strategy != "http_basic" or not user:
        return None
    path = pathlib.Path(conf.http_basic_auth_user_file)
    try:
        if _has_user(path, user):
            return None
        time.sleep(_WRITTEN_SECONDS)
        if _has_user(path, user):
            return None
    except OSError:
        return None
    return f"the user {user} is not in {path.name} any more"


def _has_user(path: pathlib.Path, user: str) -> bool:
    lines = path.read_bytes().decode(errors="replace").splitlines()
    return user in {line.strip().partition(":")[0] for line in lines}


extend = BatchWork
