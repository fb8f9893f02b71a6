"""Allocations: the search of nodes by workers, after ``POST /v1/allocations``, and its recovery.

The row of an allocation names the conductor that searches. That conductor has it ``under_way``; if
it dies, `AllocationRecovery` of another one continues. Two searches for one allocation do no harm:
see ``db.queries.allocations``.
"""

from __future__ import annotations

import datetime
import functools
import logging
import random
import threading
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.conductor.engine import db_retry
from ironic_lite.conductor.engine.runtime import Runtime
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock, context, masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView, Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import allocations, events, holds, nodes
from ironic_lite.domain import allocations as allocation_rules
from ironic_lite.domain import history
from ironic_lite.domain.allocations import AllocationState, NodeOffer
from ironic_lite.domain.holds import ALLOCATION

LOG = logging.getLogger(__name__)

_CHANGED = ("allocation_uuid", "instance_uuid", *masking.TEXT_FIELDS)
"""Columns of a node for the event of its change."""


class Allocator:
    """The searches of one conductor."""

    def __init__(self, runtime: Runtime, chance: random.Random | None = None) -> None:
        self._runtime = runtime
        self._chance = chance or random.Random()  # not used for secrets
        self._guard = threading.Lock()
        self._under_way: set[str] = set()

    @property
    def under_way(self) -> frozenset[str]:
        """The allocations for which this conductor is searching now."""
        with self._guard:
            return frozenset(self._under_way)

    def begin(self, context: Context, row: JsonView) -> None:
        """Add an allocation and let a worker search its node.

        :param row: its columns; state and conductor are set here.
        :raises errors.Duplicate: its uuid or name is taken.
        :raises errors.NoFreeWorker: nothing has changed.
        """
        own = {**row, "state": AllocationState.ALLOCATING.value, "conductor": self._runtime.host}

        def insert(conn: Connection) -> bool:
            allocations.insert(conn, own)
            events.add(conn, [history.resource_event_row(context, "allocation_created", own)])
            return True

        self._start_search(context, row["uuid"], insert, reserved=True)

    def resume(self, context: Context, uuid: str, before: str | None) -> None:
        """Continue the search of a dead conductor, unless another conductor already does.

        :raises errors.NoFreeWorker: nothing has changed.
        """
        take_over = functools.partial(
            allocations.take_over, uuid=uuid, before=before or "", after=self._runtime.host
        )
        self._start_search(context, uuid, take_over, reserved=False)

    def _start_search(
        self, context: Context, uuid: str, claim: Callable[[Connection], bool], *, reserved: bool
    ) -> None:
        self._runtime.workers.claim(reserved=reserved)
        # Recorded as ours before the insert, because the sweep may find the row at once.
        with self._guard:
            self._under_way.add(uuid)
        try:
            mine = self._runtime.database.write(claim)
        except BaseException:
            self._end_search(uuid)
            self._runtime.workers.leave()
            raise
        if not mine:
            self._end_search(uuid)
            self._runtime.workers.leave()
            return
        try:
            self._runtime.workers.run(lambda: self._run_search(context, uuid))
        except errors.NoFreeWorker:  # the service has begun to stop: another conductor continues
            self._end_search(uuid)

    def _end_search(self, uuid: str) -> None:
        with self._guard:
            self._under_way.discard(uuid)

    # -- on a worker -------------------------------------------------------------------------

    def _run_search(self, context: Context, uuid: str) -> None:
        try:
            with db_retry.waiting_for_database():
                self._find_node(context, uuid)
        except errors.AllocationNotFound:
            LOG.info("Allocation %s was settled or removed during its search for a node", uuid)
        except errors.Stopping as why:
            LOG.info("Allocation %s is left to another conductor: %s", uuid, why)
        except Exception as why:  # otherwise the search would never end
            ours = isinstance(why, errors.Error)
            LOG.warning("Allocation %s: %s", uuid, why, exc_info=None if ours else why)
            said = str(why) if ours else "an unexpected error; see the conductor's log"
            self._fail_allocation(
                context, uuid, allocation_rules.failed({"uuid": uuid}, said.rstrip("."))
            )
        finally:
            self._end_search(uuid)

    def _find_node(self, context: Context, uuid: str) -> None:
        conf = self._runtime.conf.conductor
        wanted = self._runtime.database.read(lambda conn: allocations.get(conn, uuid))
        wanted = {**wanted, "clean_data": conf.require_clean_data}
        offers: list[NodeOffer] = []
        for attempt in range(max(1, conf.node_locked_retry_attempts)):
            if attempt and self._runtime.stopping.wait(conf.node_locked_retry_interval):
                raise errors.Stopping(host=self._runtime.host)
            found = self._runtime.database.read(lambda conn: allocations.offers(conn, wanted))
            offers = allocation_rules.order(found, wanted["name"], self._chance)
            if not offers:
                break
            for offer in offers:
                if not offer.locked and self._take_node(context, wanted, offer):
                    return
        self._fail_allocation(context, uuid, self._reason_for_failure(wanted, offers))

    def _reason_for_failure(self, wanted: Row, offers: list[NodeOffer]) -> str:
        if offers:
            return allocation_rules.why_locked(wanted, len(offers))
        return allocation_rules.why_none(
            wanted, self._runtime.database.read(lambda conn: allocations.tally(conn, wanted))
        )

    def _take_node(self, context: Context, wanted: Row, offer: NodeOffer) -> bool:
        """Give the allocation a node; return True if the allocation is settled."""
        listened = self._runtime.notifier.on
        at = clock.now()
        event: Row = {
            **history.event_row(context, offer.uuid, "node_updated"),
            **{"at": at, "conductor": self._runtime.host},
        }

        def take(conn: Connection) -> Row:
            ours = {"node_uuid": offer.uuid, "last_error": None}
            if not allocations.settle(
                conn, context, wanted["uuid"], AllocationState.ACTIVE, **ours
            ):
                raise errors.AllocationNotFound(allocation=wanted["uuid"])
            node = nodes.get(conn, offer.uuid, None if listened else _CHANGED)
            taken = allocation_rules.taken(node, wanted)
            event["data"] = {"fields": sorted(taken), "changes": history.changes(node, taken)}
            columns = {**taken, "updated_at": at}
            nodes.edit(conn, offer.uuid, columns, generation=offer.generation)
            # the row is locked now
            holds.refuse(conn, offer.uuid, ALLOCATION, ALLOCATION, context.project)
            events.add(conn, [event])
            return {**node, **columns}

        try:
            node = self._runtime.database.write(take)
        except (
            errors.Conflict,
            errors.NodeNotFound,
        ) as why:  # the node is locked, held, changed or deleted
            if why.facts.get("key") == "instance_uuid":  # another node already has this instance
                raise
            LOG.debug("Allocation %s: %s", wanted["uuid"], why)
            return False
        if listened:
            self._runtime.notifier.tell(context, [event], node)
        LOG.info("Allocation %s has got node %s", wanted["uuid"], offer.uuid)
        return True

    def _fail_allocation(self, context: Context, uuid: str, reason: str) -> None:
        text = masking.PROSE(reason)
        with db_retry.waiting_for_database():
            self._runtime.database.write(
                lambda conn: allocations.settle(
                    conn, context, uuid, AllocationState.ERROR, last_error=text
                )
            )
        LOG.warning("%s", text)


class AllocationRecovery:
    """Continues the searches of dead conductors."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership, allocator: Allocator) -> None:
        self._runtime = tasks.runtime
        self._ownership = ownership
        self._allocator = allocator

    def sweep(self) -> None:
        """Take over the searches of dead conductors, and of earlier lives of this one.

        The first conductor gets them. Without a free worker the next sweep continues.
        """
        found = self._runtime.database.read(allocations.unsettled)
        if not found:
            return
        own = self._allocator.under_way
        living = {member.host for member in self._ownership.members()} - {self._runtime.host}
        for row in found:
            if row["uuid"] in own or row["conductor"] in living or self._runtime.draining.is_set():
                continue
            LOG.warning("Allocation %s was left by %s", row["uuid"], row["conductor"])
            try:
                who = context.internal("recovery")
                self._allocator.resume(who, row["uuid"], row["conductor"])
            except errors.NoFreeWorker as why:
                LOG.info("Taking over allocations continues later: %s", why)
                return


class AllocationEndpoints:
    """The endpoint that starts the search for a node."""

    allocator: Allocator

    def create_allocation(self, context: Context, *, allocation: Json) -> None:
        """Add an allocation; a worker searches for its node."""
        at = datetime.datetime.fromisoformat(allocation["created_at"])
        self.allocator.begin(context, {**allocation, "created_at": at})
