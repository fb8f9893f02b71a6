"""Starts of claimed nodes: send the request of the batch, and write what has become of it."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch import batch_results, node_queue
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.conductor.work import rights
from ironic_lite.core import context
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batches, events, nodes, runbooks, runs
from ironic_lite.domain import batches as core
from ironic_lite.domain import verbs
from ironic_lite.domain.batches import BatchState, NodeState
from ironic_lite.drivers import deadline
from ironic_lite.rpc import interface, verb_calls

LOG = logging.getLogger(__name__)
_THREADS = 8
_MOST_HANGING = 8
"""Requests that hang, such as in a driver's check, beyond which no other one is sent.

Each of them keeps a thread, and the slot of a worker, until it ends.
"""
_SECONDS = 50.0
"""Limit for drivers that, against their contract, ask a machine while they check a request."""
BORNE = 60.0
"""Seconds after which a request is no longer waited for."""
_REQUEST = ("uuid", "request", "options", "project", "context")


class _Claimed(NamedTuple):
    """A claimed node, and its row of the batch."""

    uuid: str
    member: Row


class Starts:
    """Sends the requests of claimed nodes."""

    def __init__(self, tasks: Tasks, fleet: Ownership, conductor: interface.Conductor) -> None:
        self._runtime = tasks.runtime
        self._database = tasks.runtime.database
        self._fleet = fleet
        self._conductor = conductor
        self._hanging: set[str] = set()

    @property
    def blocked(self) -> bool:
        """True if no request is sent, because so many hang."""
        return len(self._hanging) >= _MOST_HANGING

    def start(self, uuid: str, members: Sequence[Row]) -> bool:
        """Start nodes of a batch that this conductor has claimed.

        A node whose request hangs stays claimed, because its outcome is unknown.

        :return: False if no more nodes are to be claimed, because one of them has met a limit of
            the service, or the service stops.
        """
        free = [member for member in members if member["node_uuid"] not in self._hanging]
        if self.blocked or not free:
            return not self.blocked
        batch = self._database.read(lambda conn: batches.get(conn, uuid, _REQUEST))
        limits: list[str] = []

        def act(claimed: _Claimed) -> None:
            if not self._start(batch, claimed.member):
                limits.append(claimed.uuid)

        node_queue.go_through(
            (_Claimed(one["node_uuid"], one) for one in free if not self.blocked),
            act,
            most=_THREADS,
            halted=self._runtime.draining,
            hanging=self._hanging,
            borne=BORNE,
        )
        return not limits and not self._runtime.draining.is_set()

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
            self._write_start(batch, member, found)
        except errors.Unavailable as why:  # the database: the next sweep looks again
            LOG.warning("Batch %s, node %s: %s", batch["uuid"], member["node_uuid"], why)
            return True
        finally:
            context.enter(before)
        return not batch_results.is_limit(found)

    def _send(self, batch: Row, member: Row, who: Context) -> Json | errors.Error | None:
        """Return the values of an accepted, skipped or stopped node, or the refusal.

        None leaves the node as it is, because the outcome is unknown.
        """
        node = member["node_uuid"]
        try:
            return (
                self._accepted(batch, member)
                or self._kept_back(batch, member, who)
                or (
                    batch_results.accepted(
                        self._call(batch["request"], who, node), batch["request"]
                    )
                )
            )
        except errors.NodeNotFound:
            return batch_results.ended(NodeState.SKIPPED, batch_results.GONE)
        except errors.RightsLost as why:
            lost = batch_results.rights_lost(str(why.facts["change"]))
            return self._accepted(batch, member) or lost
        except errors.Error as why:
            # The request may have been carried out by another conductor, or before an error.
            return self._accepted(batch, member) or (None if batch_results.is_unknown(why) else why)
        except Exception as why:  # drivers may raise anything while they check a request
            LOG.exception("Batch %s, node %s: the request failed", batch["uuid"], node)
            return self._accepted(batch, member) or errors.Unexpected(str(why))

    def _kept_back(self, batch: Row, member: Row, who: Context) -> Json | None:
        """Return the values of a node whose request must not be sent, None for others.

        :raises errors.NoValidHost: no living conductor can drive the node.
        """
        # A pause or an abort since the claim holds for this node as well.
        state = self._database.read(lambda conn: batches.state_of(conn, batch["uuid"]))
        if state != BatchState.RUNNING:
            return batch_results.stopped(member, state)
        columns = ("uuid", "provision_state", "driver", "conductor_group", "owner", "lessee")
        read = functools.partial(nodes.get, ident=member["node_uuid"], columns=columns)
        row = self._database.read(read)
        # The owners are compared again under the lock of the node: see `work.rights`.
        before, now = ((one["owner"], one["lessee"]) for one in (member, row))
        lost = core.change_of_hands(before, now) or rights.lost_login(self._runtime.conf, who.user)
        if lost := lost or self._database.read(lambda conn: _lost_runbook(conn, batch)):
            return batch_results.rights_lost(lost)
        if row["provision_state"] != member["was"]:
            return batch_results.skipped(member, row["provision_state"])
        if batch["request"].get("target") == "retry":
            # The rights of the requester were checked for the steps of this run.
            run = self._database.read(lambda conn: runs.newest_of(conn, [row["uuid"]]))
            newest = run[row["uuid"]]["uuid"] if run else None
            if newest != member["retry_of"]:
                return batch_results.run_changed(member, newest)
        if not self._fleet.has_owner(row):
            raise batch_results.no_host(row)
        return None if self._fleet.mine(row) else batch_results.released(member)  # to its owner

    def _call(self, request: RowView, who: Context, node: str) -> str | None:
        with deadline.until(_SECONDS):
            if request.get("power"):
                target = request["power"]
                self._conductor.change_node_power_state(who, node_uuid=node, target=target)
                return None
            event = verbs.BY_TARGET[request["target"]].event
            return verb_calls.send(self._conductor, who, event=event, node_uuid=node, body=request)

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


def _lost_runbook(conn: Connection, batch: RowView) -> str | None:
    """Return why the project of a batch can no longer use its runbook, None if it can.

    Callers of the whole system need no runbook for its steps.
    """
    book = batch["options"].get("runbook")
    if book is None or batch["project"] is None:
        return None
    try:
        now = runbooks.get(conn, book["uuid"])
    except errors.RunbookNotFound:
        return f"the runbook {book['uuid']} was removed"
    if now["public"] or (now["owner"] == book["owner"] and not book["public"]):
        return None
    return f"the runbook {book['uuid']} is not the project's any more"
