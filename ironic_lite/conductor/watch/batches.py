"""Batches: start their nodes and record the results, each conductor for its own nodes.

A batch has no owner. A conductor claims some of its own nodes in one transaction, starts them, and
then writes their runs. The ID of a node's request is the same at every try (`request_id`), so a
node that a lost conductor has claimed is started again by its next owner: if the request has a run,
that run is taken. One of the living conductors acts for the nodes that none of them can drive.

A sweep is a fixed number of statements for all open batches and all their nodes. Only a batch that
may start a node, or has a result, costs more. The end of a run starts a sweep as well.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import batch_results
from ironic_lite.conductor.watch.batch_aborts import Aborts
from ironic_lite.conductor.watch.batch_places import Passed, own_places
from ironic_lite.conductor.watch.batch_starts import Starts
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock, context
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batch_sweeps, batches, events
from ironic_lite.domain import batches as core
from ironic_lite.domain.batches import BatchState, NodeState
from ironic_lite.rpc import interface

LOG = logging.getLogger(__name__)

_RESULTS = 200  # results of one transaction
_LOOK = 1000  # results, and claimed nodes, of one sweep: the next one finds the rest
_CLAIMS = 16  # nodes that are claimed and started at once
_ROUNDS = 4  # claims of a batch in one sweep


class _Seen(NamedTuple):
    """Rows that a sweep has found, by batch.

    :ivar runs: nodes whose run has ended.
    :ivar power: nodes whose power change has ended, each with the event of the end.
    :ivar left: nodes that were claimed and not started.
    """

    runs: Mapping[str, list[Row]]
    power: Mapping[str, list[tuple[Row, Row | None]]]
    left: Mapping[str, list[Row]]


class _Plan(NamedTuple):
    """Choice of a sweep for a batch: own nodes that may start, removed ones, homeless ones."""

    decided: core.Turn
    mine: list[Row]
    gone: list[Row]
    homeless: list[Row]


class Batches:
    """Brings the open batches on, as far as this conductor's nodes are concerned."""

    def __init__(self, tasks: Tasks, fleet: Ownership, conductor: interface.Conductor) -> None:
        self._runtime = tasks.runtime
        self._database = tasks.runtime.database
        self._fleet = fleet
        self._starts = Starts(tasks, fleet, conductor)
        self._aborts = Aborts(tasks, fleet, conductor)
        self._passed = Passed()

    def sweep(self) -> None:
        """Look at all open batches once; one statement if there are none."""
        found = self._database.read(batch_sweeps.open_batches)
        # From here on, the end of a run starts the next sweep at once.
        running = any(batch["state"] == core.BatchState.RUNNING for batch in found)
        self._runtime.run_ends.armed = running
        uuids = [batch["uuid"] for batch in found]
        self._passed.keep(uuids)
        if not found:
            return
        hosts = [one.host for one in self._fleet.members()]
        seen = self._database.read(functools.partial(self._look, uuids=uuids, hosts=hosts))
        for uuid in uuids:
            with self._guarded(uuid):
                self._record_results(uuid, seen)
                self._start_left(uuid, seen.left.get(uuid, ()))
        counts = self._database.read(lambda conn: batches.counts_of(conn, uuids))
        for batch in found:
            if self._runtime.draining.is_set():
                return
            with self._guarded(batch["uuid"]):
                self._claim_all(batch, counts.get(batch["uuid"], {}))
        self._aborts.sweep([batch["uuid"] for batch in found if batch["abort_runs"]])

    def pause(self, uuid: str, by: str) -> None:
        """Pause a batch that is running; ``by`` is the reason."""

        def write(conn: Connection) -> None:
            row = batches.get(conn, uuid, batch_sweeps.OPEN, hold=True)
            if row["state"] == BatchState.RUNNING:
                decided = core.Turn(BatchState.PAUSED, row["wave"], by=by)
                self._write_turn(conn, row, core.of_row(row), decided)

        self._database.write(write)

    def forget(self) -> None:
        """Remove batches that have ended long ago, one transaction each."""
        before = clock.ago(core.KEPT_DAYS * 24 * 3600)
        while not self._runtime.draining.is_set() and self._database.write(
            functools.partial(batches.remove_old, before=before)
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
        for row in filter(self._acts_for, batch_sweeps.ended_runs(conn, uuids, limit=_LOOK)):
            seen.runs[row["batch_uuid"]].append(row)
        power = batch_sweeps.ended_power(conn, uuids, hosts, limit=_LOOK)
        power = [row for row in power if self._acts_for(row)]
        # The targets were read first: a change that has ended since has its event.
        ends = batch_sweeps.power_ends(conn, power)
        for row in power:
            end = ends.get((row["node_uuid"], row["request_id"]))
            seen.power[row["batch_uuid"]].append((row, end))
        me = self._runtime.host
        for row in batch_sweeps.left(conn, uuids, me, hosts, limit=_LOOK):
            seen.left[row["batch_uuid"]].append(row)
        return seen

    def _mine(self, member: RowView) -> bool:
        return self._fleet.mine({**member, "uuid": member["node_uuid"]})

    def _is_first(self) -> bool:
        """Return whether this conductor acts for nodes that no living conductor can drive."""
        members = self._fleet.members()
        return min((one.host for one in members), default=None) == self._runtime.host

    def _without_conductor(self, member: RowView) -> bool:
        """Return whether no living conductor can drive a node, and this one acts for it."""
        return self._is_first() and not self._fleet.has_owner(
            {**member, "uuid": member["node_uuid"]}
        )

    def _acts_for(self, member: RowView) -> bool:
        """Return whether this conductor records the result of a node."""
        if member["present"] is None:
            return self._is_first()
        return self._mine(member) or self._without_conductor(member)

    # -- results -----------------------------------------------------------------------------

    def _record_results(self, uuid: str, seen: _Seen) -> None:
        ends = [batch_results.of_run(row) for row in seen.runs.get(uuid, ())]
        for member, event in seen.power.get(uuid, ()):
            end = batch_results.of_power(member, event, lost=self._is_lost(member))
            ends += [end] if end is not None else []
        for first in range(0, len(ends), _RESULTS):
            self._database.write(
                functools.partial(batch_results.write_all, uuid=uuid, ends=ends[first:][:_RESULTS])
            )

    def _is_lost(self, member: RowView) -> bool:
        """Return whether nobody ends a power change that has not ended.

        The lock of a lost conductor is taken over by the node's next owner, which ends the change.
        """
        return member["reservation"] is None or self._without_conductor(member)

    # -- claims ------------------------------------------------------------------------------

    def _start_left(self, uuid: str, members: Sequence[Row]) -> None:
        """Start the nodes that were claimed and not started: own ones, and those of lost hosts."""
        me = self._runtime.host
        found: list[Row] = []
        for member in members:
            if member["host"] == me:
                found.append(member)
            elif member["present"] is None or self._mine(member) or self._without_conductor(member):
                taken = self._database.write(
                    functools.partial(
                        batches.change_node,
                        batch=uuid,
                        node=member["node_uuid"],
                        values={"host": me},
                        states=(NodeState.STARTING,),
                        host=member["host"],
                    )
                )
                found += [{**member, "host": me}] if taken else []
        if found:
            self._starts.start(uuid, found)

    def _claim_all(self, batch: Row, counts: core.Counts) -> None:
        """Claim and start own nodes, as many as the batch allows now."""
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

    def _claim(self, batch: Row, counts: core.Counts) -> list[Row]:
        """Mark own nodes as starting, as many as the batch allows; write its next state."""
        uuid = batch["uuid"]
        if batch["ended_at"] is not None:
            return []
        before = core.of_row(batch)
        decided = core.turn(before, counts)
        plan = _Plan(decided, [], [], [])
        if decided.start:
            plan = self._database.read(functools.partial(self._choose, uuid=uuid, decided=decided))
        changed = (decided.state, decided.wave) != (before.state, before.wave) or decided.ended
        changed = changed or (decided.skips and core.total(counts, (NodeState.PENDING,)) > 0)
        if not changed and not any(plan[1:]):
            return []
        return self._database.write(functools.partial(self._write_claim, uuid=uuid, plan=plan))

    def _choose(self, conn: Connection, uuid: str, decided: core.Turn) -> _Plan:
        """Return the nodes that this conductor starts, or writes a result of."""
        plan, members = _Plan(decided, [], [], []), self._fleet.members()
        own = None if self._is_first() else own_places(members, self._runtime.host)
        passed = self._passed.place(uuid, decided.wave, members)
        for member in batches.pending(
            conn, uuid, decided.wave, clock.now(), own=own, passed=passed
        ):
            if member["present"] is None:
                plan.gone.extend([member] if self._is_first() else ())
            elif self._mine(member):
                plan.mine.append(member)
            elif self._without_conductor(member):
                plan.homeless.append(member)
            results = len(plan.gone) + len(plan.homeless)
            if not plan.mine and not results:
                passed = max(passed, member["place"])
            if len(plan.mine) >= min(decided.start, _CLAIMS) or results >= _RESULTS:
                break
        self._passed.note(uuid, passed)
        return plan

    def _write_claim(self, conn: Connection, uuid: str, plan: _Plan) -> list[Row]:
        row = batches.get(conn, uuid, batch_sweeps.OPEN, hold=True)
        if row["ended_at"] is not None:
            return []
        now = clock.now()
        gone = [member["node_uuid"] for member in plan.gone]
        if gone:
            batches.skip_pending(conn, uuid, now, batch_results.GONE, nodes=gone)
        for member in plan.homeless:
            batch_results.postpone(
                conn, uuid, member, batch_results.no_host(member), (NodeState.PENDING,)
            )
        before = core.of_row(row)
        decided = core.turn(before, batches.counts(conn, uuid))
        claimed = []
        if decided.wave == plan.decided.wave:
            for member in plan.mine[: decided.start]:
                values: Json = {
                    "state": NodeState.STARTING.value,
                    "host": self._runtime.host,
                    "request_id": core.request_id(uuid, member["node_uuid"]),
                    "tries": member["tries"] + 1,
                    "started_at": member["started_at"] or now,
                    "error": None,
                }
                if batches.change_node(
                    conn, uuid, member["node_uuid"], values, states=(NodeState.PENDING,)
                ):
                    claimed.append({**member, **values})
        self._write_turn(conn, row, before, decided)
        return claimed

    def _write_turn(
        self, conn: Connection, row: Row, before: core.Batch, decided: core.Turn
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
            batches.skip_pending(conn, row["uuid"], now, core.SKIPPED_BY_ABORT)
        if decided.ended:
            changes |= {"state": decided.state.value, "ended_at": now, "paused_by": None}
            # Nothing sends the request any more, so its secrets go; the rest is shown on.
            request = batches.get(conn, row["uuid"], ("request",))["request"]
            changes["request"] = core.masked(request)
            counts = core.by_state(batches.counts(conn, row["uuid"]))
            data = {"state": decided.state.value, "counts": counts}
            told.append({"kind": "batch_ended", "data": data})
        if changes:
            batches.update(conn, row["uuid"], {**changes, "updated_at": now})
            self._tell(conn, row, told)

    def _tell(self, conn: Connection, row: RowView, told: Sequence[Json]) -> None:
        """Write events of a batch; its UUID stands in place of a node's."""
        who = context.internal("batches")
        about = {
            "at": clock.now(),
            "node_uuid": row["uuid"],
            "conductor": self._runtime.host,
            **who.recorded(),
            "owner": row["project"],
        }
        batch = {"batch": row["uuid"], "name": row["name"]}
        events.add(conn, [{**about, **one, "data": {**batch, **one["data"]}} for one in told])


def _read_again(conn: Connection, uuid: str) -> tuple[Row, core.Counts]:
    return batches.get(conn, uuid, batch_sweeps.OPEN), batches.counts(conn, uuid)
