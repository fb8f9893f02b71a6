"""Batches: start their nodes and record the results, each conductor for its own nodes.

A batch has no owner. A conductor claims some of its own nodes in one transaction, starts them, and
then writes their runs. The ID of a node's request is the same at every try (`request_id`), so a
node that a lost conductor has claimed is started again by its next owner: if the request has a run,
that run is taken.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import batch_results
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock, context
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batches, events, nodes, runs
from ironic_lite.domain import batches as core
from ironic_lite.domain import verbs
from ironic_lite.domain.batches import BatchState, NodeState
from ironic_lite.domain.states import Kind
from ironic_lite.rpc import interface, verb_calls

LOG = logging.getLogger(__name__)

_THREADS = 8
_RESULTS = 200  # results of one transaction
_CLAIMS = 16  # nodes that are claimed and started at once
_ROUNDS = 4  # claims of a batch in one sweep


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
        self._conductor = conductor

    def sweep(self) -> None:
        """Look at all open batches once; one statement if there are none."""
        for batch in self._database.read(batches.open_batches):
            if self._runtime.draining.is_set():
                return
            self._advance(batch)

    def forget(self) -> None:
        """Remove batches that have ended long ago, one transaction each."""
        before = clock.ago(core.KEPT_DAYS * 24 * 3600)
        while not self._runtime.draining.is_set() and self._database.write(
            functools.partial(batches.remove_old, before=before)
        ):
            pass

    def _advance(self, batch: Row) -> None:
        self._record_results(batch)
        self._start_all(batch, self._left(batch))
        for _ in range(_ROUNDS):
            work = self._claim(batch)
            if not work:
                break
            self._start_all(batch, work)
        if batch["abort_runs"]:
            self._abort_runs(batch)

    def _mine(self, member: Row) -> bool:
        return self._fleet.mine({**member, "uuid": member["node_uuid"]})

    # -- results -----------------------------------------------------------------------------

    def _record_results(self, batch: Row) -> None:
        found = self._database.read(lambda conn: batches.results(conn, batch["uuid"]))
        ends = [batch_results.of_run(row) for row in found]
        if batch["request"].get("power"):
            ends += self._results_of_power(batch)
        for first in range(0, len(ends), _RESULTS):
            self._database.write(
                functools.partial(
                    batch_results.write_all, uuid=batch["uuid"], ends=ends[first:][:_RESULTS]
                )
            )

    def _results_of_power(self, batch: Row) -> list[Json]:
        members = self._database.read(lambda conn: batches.without_run(conn, batch["uuid"]))
        ends = []
        for member in members:
            if member["present"] is None:
                ends.append(batch_results.gone(member, NodeState.FAILED))
            elif self._mine(member):
                # The target was read first: a change that has ended since has its event.
                event = self._database.read(
                    functools.partial(
                        events.end_of,
                        node_uuid=member["node_uuid"],
                        request_id=member["request_id"],
                    )
                )
                ends += batch_results.of_power(member, event)
        return ends

    # -- claims ------------------------------------------------------------------------------

    def _left(self, batch: Row) -> list[Row]:
        """Take the nodes that were claimed and not started: own ones, and those of lost hosts."""
        hosts = {one.host for one in self._fleet.members()}
        me = self._runtime.host
        found: list[Row] = []
        for member in self._database.read(
            lambda conn: batches.in_state(conn, batch["uuid"], NodeState.STARTING)
        ):
            if member["host"] == me:
                found.append(member)
            elif member["host"] not in hosts and (member["present"] is None or self._mine(member)):
                taken = self._database.write(
                    functools.partial(
                        batches.change_node,
                        batch=batch["uuid"],
                        node=member["node_uuid"],
                        values={"host": me},
                        states=(NodeState.STARTING,),
                        host=member["host"],
                    )
                )
                found += [{**member, "host": me}] if taken else []
        return found

    def _claim(self, batch: Row) -> list[Row]:
        """Mark own nodes as starting, as many as the batch allows; write its next state."""
        plan = self._database.read(functools.partial(self._look, uuid=batch["uuid"]))
        if plan is None:
            return []
        return self._database.write(
            functools.partial(self._write_claim, uuid=batch["uuid"], plan=plan)
        )

    def _look(self, conn: Connection, uuid: str) -> _Plan | None:
        """Return what may be done, None if nothing is to be written."""
        row = batches.get(conn, uuid)
        if row["ended_at"] is not None:
            return None
        before = core.of_row(row)
        counts = batches.counts(conn, uuid)
        decided = core.turn(before, counts)
        plan = _Plan(decided, [], [], [])
        if decided.start:
            self._choose(conn, uuid, plan)
        changed = (decided.state, decided.wave) != (before.state, before.wave) or decided.ended
        changed = changed or (decided.skips and core.total(counts, (NodeState.PENDING,)) > 0)
        return plan if changed or any(plan[1:]) else None

    def _choose(self, conn: Connection, uuid: str, plan: _Plan) -> None:
        members = self._fleet.members()
        first = bool(members) and min(one.host for one in members) == self._runtime.host
        for member in batches.pending(conn, uuid, plan.decided.wave, clock.now()):
            if member["present"] is None:
                plan.gone.append(member)
            elif self._mine(member):
                plan.mine.append(member)
            elif first and not self._fleet.has_owner({**member, "uuid": member["node_uuid"]}):
                plan.homeless.append(member)
            if len(plan.mine) >= min(plan.decided.start, _CLAIMS) or len(plan.homeless) >= _RESULTS:
                return

    def _write_claim(self, conn: Connection, uuid: str, plan: _Plan) -> list[Row]:
        row = batches.get(conn, uuid, hold=True)
        if row["ended_at"] is not None:
            return []
        now = clock.now()
        for member in plan.gone:
            batch_results.write(
                conn, uuid, {**batch_results.gone(member, NodeState.SKIPPED), "at": now}
            )
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
            changes |= {"state": decided.state.value, "paused_by": decided.paused_by}
            told.append({"kind": "batch_paused", "data": {"by": decided.paused_by}})
        if decided.state is BatchState.ABORTED and before.state != BatchState.ABORTED:
            changes["state"] = decided.state.value
            told.append({"kind": "batch_aborted", "data": {"by": core.BY_FAILURES}})
        if decided.skips:
            batches.skip_pending(conn, row["uuid"], now, batch_results.ABORTED)
        if decided.ended:
            changes |= {"state": decided.state.value, "ended_at": now, "paused_by": None}
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
            "requester": who.user,
            "request_id": who.request_id,
        }
        batch = {"batch": row["uuid"], "name": row["name"]}
        events.add(conn, [{**about, **one, "data": {**batch, **one["data"]}} for one in told])

    # -- starts ------------------------------------------------------------------------------

    def _start_all(self, batch: Row, members: Sequence[Row]) -> None:
        if members:
            with ThreadPoolExecutor(_THREADS, thread_name_prefix="batch") as pool:
                list(pool.map(functools.partial(self._start, batch), members))

    def _start(self, batch: Row, member: Row) -> None:
        """Send the request of a claimed node, and write what has become of it."""
        if self._runtime.draining.is_set():
            return  # the next owner starts it
        who = Context.from_dict({**batch["context"], "request_id": member["request_id"]})
        before = context.enter(who)
        try:
            self._write_start(batch, member, self._send(batch, member, who))
        except errors.Unavailable as why:  # the database: the next sweep looks again
            LOG.warning("Batch %s, node %s: %s", batch["uuid"], member["node_uuid"], why)
        finally:
            context.enter(before)

    def _send(self, batch: Row, member: Row, who: Context) -> Json | errors.Error | None:
        """Return the values of an accepted, skipped or stopped node, or the refusal.

        None leaves the node as it is, because the outcome is unknown.
        """
        node = member["node_uuid"]
        try:
            accepted = self._accepted(batch, member)
            if accepted is None:
                # A pause or an abort since the claim holds for this node as well.
                state = self._database.read(lambda conn: batches.state_of(conn, batch["uuid"]))
                if state != BatchState.RUNNING:
                    return batch_results.stopped(member, state)
                row = self._database.read(lambda conn: nodes.get(conn, node, ("provision_state",)))
                if row["provision_state"] != member["was"]:
                    return batch_results.skipped(member, row["provision_state"])
                run = self._call(batch["request"], who, node)
                accepted = batch_results.accepted(run, batch["request"])
            return accepted
        except errors.NodeNotFound:
            return batch_results.ended(NodeState.SKIPPED, batch_results.GONE)
        except errors.Error as why:
            # The request may have been carried out by another conductor, or before an error.
            return self._accepted(batch, member) or (None if batch_results.is_unknown(why) else why)
        except Exception as why:  # drivers may raise anything while they check a request
            LOG.exception("Batch %s, node %s: the request failed", batch["uuid"], node)
            return self._accepted(batch, member) or errors.Unexpected(str(why))

    def _call(self, request: RowView, who: Context, node: str) -> str | None:
        if request.get("power"):
            self._conductor.change_node_power_state(who, node_uuid=node, target=request["power"])
            return None
        verb = verbs.BY_TARGET[request["target"]]
        return verb_calls.send(self._conductor, who, event=verb.event, node_uuid=node, body=request)

    def _accepted(self, batch: Row, member: Row) -> Json | None:
        """Return the values of a node whose request was accepted before, None if it was not."""
        node, ident = member["node_uuid"], member["request_id"]
        run = self._database.read(lambda conn: runs.of_request(conn, ident, node))
        if run is None and not self._database.read(
            lambda conn: events.has_request(conn, node, ident)
        ):
            return None
        return batch_results.accepted(run, batch["request"])

    def _write_start(self, batch: Row, member: Row, found: Json | errors.Error | None) -> None:
        if found is None:
            return
        states, host = (NodeState.STARTING,), self._runtime.host

        def write(conn: Connection) -> None:
            if isinstance(found, errors.Error) and batch_results.may_pass(found):
                batch_results.postpone(conn, batch["uuid"], member, found, states, host=host)
                return
            values = batch_results.refused(found) if isinstance(found, errors.Error) else found
            batches.change_node(
                conn, batch["uuid"], member["node_uuid"], values, states=states, host=host
            )

        self._database.write(write)

    # -- aborts ------------------------------------------------------------------------------

    def _abort_runs(self, batch: Row) -> None:
        """Abort the runs of own nodes; those that cannot be aborted yet are tried again."""
        members = self._database.read(
            lambda conn: batches.in_state(conn, batch["uuid"], NodeState.RUNNING)
        )
        for member in members:
            run, node = member["run_uuid"], member["node_uuid"]
            if run is None or member["present"] is None or not self._mine(member):
                continue
            ident = core.request_id(batch["uuid"], node, "abort")
            who = Context.from_dict({**batch["context"], "request_id": ident})
            try:
                stop = functools.partial(batch_results.stop, node=node, run=run, who=who)
                kind = self._database.write(stop)
                if kind is Kind.WAIT:
                    self._conductor.stop_run(who, node_uuid=node, run_uuid=run)
                if kind is not None:
                    continue
                row = self._database.read(
                    functools.partial(nodes.get, ident=node, columns=("run_uuid",))
                )
                if row["run_uuid"] == run:
                    self._conductor.do_provisioning_action(who, node_uuid=node, action="abort")
            except errors.Error as why:
                LOG.debug("Batch %s, node %s: not aborted: %s", batch["uuid"], node, why)
