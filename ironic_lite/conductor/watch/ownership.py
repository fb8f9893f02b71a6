"""Ownership of nodes and of batches: the ring over the membership rows, cached for a moment."""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ironic_lite import errors, membership
from ironic_lite.conductor.engine.runtime import Runtime
from ironic_lite.core.json_types import JsonView, Row
from ironic_lite.db.engine.session import Transactions
from ironic_lite.db.queries import conductors, sweeps
from ironic_lite.membership import Membership
from ironic_lite.records import Node
from ironic_lite.rpc import contract, stub


def pace(timeout: float) -> float:
    """Return the seconds between two reads of the heartbeats of others.

    :param timeout: ``[conductor]heartbeat_timeout``; a death is detected at most a twentieth of it
        later.
    """
    return max(_SHORTEST, timeout * _SHARE)


_SHORTEST = 0.25  # seconds
_SHARE = 0.05


class Ownership:
    """A conductor's view of its peers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._members: tuple[membership.Member, ...] = ()
        self._ring = membership.Ring(())
        self._fresh_until = 0.0
        self._roster = Membership(runtime.conf.conductor.heartbeat_timeout)
        self._guard = threading.Lock()

    def members(self) -> tuple[membership.Member, ...]:
        """Return the living conductors, at most ``hash_ring_reset_interval`` seconds old.

        The cache is shorter if a death would otherwise be detected too late.
        """
        with self._guard:
            if time.monotonic() >= self._fresh_until:
                settings = self._runtime.conf.conductor
                try:
                    rows = self._runtime.database.read(conductors.members)
                except errors.Error:
                    self._roster.blind()
                    raise
                members = self._roster.living(rows)
                if members != self._members:
                    self._members, self._ring = members, membership.Ring(members)
                fresh = min(settings.hash_ring_reset_interval, pace(settings.heartbeat_timeout))
                self._fresh_until = time.monotonic() + fresh
            return self._members

    def mine(self, row: JsonView) -> bool:
        """Return whether this conductor owns a node.

        :param row: with uuid, driver and conductor_group.
        """
        return self.owner(row) == self._runtime.host

    def share(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that this conductor serves, of those that every conductor can serve.

        No statement without ``rows``.
        """
        members, me = self.members() if rows else (), self._runtime.host
        return [row for row in rows if membership.responsible(members, row["uuid"]) == me]

    def here(self, row: JsonView) -> bool:
        """Return whether a process of this machine owns a node; ``row`` as for `mine`."""
        owner = self.owner(row)
        return owner is not None and membership.machine_name(owner) == membership.machine_name(
            self._runtime.host
        )

    def owner(self, row: JsonView) -> str | None:
        """Return the host that owns a node, None if no living conductor can drive it."""
        self.members()
        return self._ring.owner(row["conductor_group"], row["driver"], row["uuid"])

    def has_owner(self, row: JsonView) -> bool:
        """Return whether any living conductor can drive a node; ``row`` as for `mine`."""
        group, driver = row["conductor_group"], row["driver"]
        return bool(membership.candidates(self.members(), group, driver))


_ABSENT_SECONDS = 2.0


class Peers:
    """The conductors of nodes: this one is called directly, the others by RPC.

    :param host: of this conductor.
    :ivar own: the endpoints of this conductor.
    :ivar send: carries out the calls of other conductors.
    """

    def __init__(
        self, ownership: Ownership, host: str, own: contract.Conductor, send: stub.Send
    ) -> None:
        self._ownership, self._host, self.own, self.send = ownership, host, own, send
        self._absent: dict[str | None, float] = {}
        """By host: the time until which it is not called."""

    def conductor_of(self, row: JsonView) -> contract.Conductor:
        """Return the conductor that owns a node.

        :param row: with uuid, driver and conductor_group.
        :raises errors.NoValidHost: no living conductor can drive the node.
        """
        host = self._ownership.owner(row)
        if host is None:
            raise errors.NoValidHost(group=row["conductor_group"], driver=row["driver"])
        return self.own if host == self._host else stub.connect(self._call, host=host)

    def _call(self, call: stub.RpcCall) -> Any:
        """Carry out a call of another conductor, unless it did not listen a moment ago.

        Many calls follow each other, and each waits for a machine that is cut off.
        """
        if time.monotonic() < self._absent.get(call.host, 0.0):
            raise errors.ConductorNotListening(host=call.host, reason="it did not listen before")
        try:
            return self.send(call)
        except errors.ConductorNotListening:
            self._absent[call.host] = time.monotonic() + _ABSENT_SECONDS
            raise


# A conductor's own nodes for sweeps that need whole rows.
#
# In a large fleet most rows belong to other conductors, and decoding all columns of a row costs
# much more than deciding its owner. So few columns of all nodes are read first, and then the whole
# rows of the own nodes, just before they are needed.

_CANDIDATES_PAGE = 5000  # rows with few columns
_WHOLE_PAGE = 500

Question = Callable[..., list[sweeps.Candidate]]
"""A query of ``sweeps`` that takes ``after_id`` and ``limit``."""


def read_own(
    database: Transactions,
    question: Question,
    wanted: Callable[[sweeps.Candidate], bool],
    *,
    after_id: int = 0,
) -> Iterator[Node]:
    """Yield the wanted nodes by their id, after ``after_id``.

    A node may have changed since the question, also by a lock: check again what must hold.
    """
    ids = (row["id"] for row in _candidates(database, question, after_id) if wanted(row))
    while some := list(itertools.islice(ids, _WHOLE_PAGE)):
        yield from map(Node.of, database.read(functools.partial(sweeps.whole, ids=some)))


def _candidates(
    database: Transactions, question: Question, after_id: int
) -> Iterator[sweeps.Candidate]:
    while True:
        page = database.read(functools.partial(question, after_id=after_id, limit=_CANDIDATES_PAGE))
        yield from page
        if len(page) < _CANDIDATES_PAGE:
            return
        after_id = page[-1]["id"]
