"""Living conductors, and the conductor that owns a node."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import RowView

# Names of the processes of one conductor machine.
#
# The name of a process is the name of its machine, from the second one on with a colon and a number
# from 2 to 99. [DEFAULT]host may be either, but [conductor]processes needs one without a colon.

_NUMBER_MARK = ":"


def process_names(host: str, count: int) -> tuple[str, ...]:
    """Return the names of the processes of a machine; the first has the machine's own name.

    So one process keeps its locks when an operator asks for more.
    """
    return (host, *(f"{host}{_NUMBER_MARK}{number}" for number in range(2, count + 1)))


def process_number(name: str) -> int:
    """Return the number of a process on its machine; the first is 1."""
    return int(name.partition(_NUMBER_MARK)[2] or 1)


def machine_name(name: str) -> str:
    """Return the name of the machine of a process."""
    return name.partition(_NUMBER_MARK)[0]


# The conductor that owns a node, by rendezvous hashing.
#
# A conductor that joins or leaves moves as few nodes as possible. Every process computes the same
# owner from the same membership rows. Two processes may disagree for a moment; then the node's lock
# decides (invariant 2).


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A living conductor: its host name, its group (lower case, "" = none), the drivers it has."""

    host: str
    group: str = ""
    drivers: frozenset[str] = frozenset()


def candidates(members: Iterable[Member], group: str, driver: str) -> list[Member]:
    """Return the members that may own nodes of this group and driver."""
    wanted = group.lower()
    return [one for one in members if one.group.lower() == wanted and driver in one.drivers]


def owner(members: Iterable[Member], group: str, driver: str, node_uuid: str) -> str | None:
    """Return the host that owns a node, None if no member can drive it.

    :param members: the living conductors, in any order.
    :param group: the node's conductor_group; case does not matter.
    :param driver: the node's hardware type.
    """
    return Ring(members).owner(group, driver, node_uuid)


class Ring:
    """The owners of many nodes by the same members.

    The candidates of each group and driver, and the hashed beginning of their weights, are computed
    once.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self._members = tuple(members)
        self._able: dict[tuple[str, str], list[tuple[str, hashlib.blake2b]]] = {}

    def owner(self, group: str, driver: str, node_uuid: str) -> str | None:
        """Return the host that owns a node, None if no member can drive it; as `owner`."""
        able = self._able.get((group, driver))
        if able is None:
            hosts = (one.host for one in candidates(self._members, group, driver))
            able = self._able[group, driver] = [(host, _hashed_host(host)) for host in hosts]
        if not able:
            return None
        if len(able) == 1:
            return able[0][0]  # the common case needs no hash
        node = node_uuid.encode()
        return max((_weight(hashed, node), host) for host, hashed in able)[1]


def responsible(members: Iterable[Member], ident: str) -> str | None:
    """Return the host that does work that every conductor can do, None without members."""
    return max(
        (one.host for one in members),
        key=lambda host: (_host_weight(host, ident), host),
        default=None,
    )


def _host_weight(host: str, node_uuid: str) -> bytes:
    return _weight(_hashed_host(host), node_uuid.encode())


def _hashed_host(host: str) -> hashlib.blake2b:
    return hashlib.blake2b(f"{host}\0".encode(), digest_size=8)


def _weight(hashed_host: hashlib.blake2b, node_uuid: bytes) -> bytes:
    found = hashed_host.copy()
    found.update(node_uuid)
    return found.digest()


# Failure detection by heartbeats that change, independent of wall clocks.
#
# A living process changes its heartbeat every few seconds. A watcher that sees the same heartbeat
# for long enough, by its own monotonic clock, takes the process for dead. The content of the
# heartbeat does not matter: it may be a time from a clock that is wrong or was set.
#
# Silence counts only while the watcher checks. After a pause of the watcher, or of the database
# that both need, living processes get time for a new heartbeat.


@dataclasses.dataclass(slots=True)
class _LastSign:
    sign: Hashable
    at: float
    silent: float


class FailureDetector:
    """Heartbeats of many processes by key; one detector serves all threads.

    :param stride: seconds between two checks of one key, beyond which the key was not watched.
    :param steady: returns seconds of a clock that cannot be set.
    """

    def __init__(self, stride: float, steady: Callable[[], float] = time.monotonic) -> None:
        self._stride = stride
        self._steady = steady
        self._seen: dict[Hashable, _LastSign] = {}
        self._guard = threading.Lock()

    def silence(self, key: Hashable, sign: Hashable, age: float | None = None) -> float:
        """Check one process; return its observed seconds without a new heartbeat.

        :param age: how old the heartbeat may be. It is trusted when the key is new, or was not
            checked for longer than the stride. For a new heartbeat, it counts up to the time since
            the last check. None: the silence begins with this check, or continues as if the stride
            had passed.
        """
        with self._guard:
            now, known = self._steady(), self._seen.get(key)
            if known is None:
                silent = age or 0.0
            elif now - known.at > self._stride and age is not None:
                silent = age
            elif sign != known.sign:
                silent = min(age or 0.0, now - known.at)
            else:
                silent = known.silent + min(now - known.at, self._stride)
            self._seen[key] = _LastSign(sign, now, silent)
            return silent

    def blind(self) -> None:
        """Record that checks failed until now; this time counts as no process's silence."""
        with self._guard:
            now = self._steady()
            for one in self._seen.values():
                one.at = now

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget all keys but these."""
        with self._guard:
            self._seen = {key: one for key, one in self._seen.items() if key in keys}


# Living conductors, as one process sees them.
#
# A conductor is alive while it has not signed off and its row keeps changing. A detector judges the
# changes by this process's monotonic clock. A conductor that this process sees for the first time,
# or has not checked for long, is judged by the age of its row. If the clocks of two machines differ
# by more than ``[conductor]heartbeat_timeout``, that judgement may be wrong until the conductor's
# next heartbeat, or until the timeout has passed.


class Membership:
    """Memory of each conductor's last heartbeat.

    :param timeout: ``[conductor]heartbeat_timeout``, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._pulses = FailureDetector(timeout)

    def lives(self, row: RowView) -> bool:
        """Check a conductor's row and return whether the conductor is alive.

        :param row: with hostname, online and updated_at.
        """
        at = row["updated_at"]
        if at is None:
            return False
        silent = self._pulses.silence(row["hostname"], at, clock.lived(at))
        return bool(row["online"]) and silent < self._timeout

    def blind(self) -> None:
        """Record that the database did not answer; this time is no conductor's silence."""
        self._pulses.blind()

    def living(self, rows: Iterable[RowView]) -> tuple[Member, ...]:
        """Return the living conductors, for the ring.

        :param rows: of ``db.queries.conductors.members``.
        """
        return members(row for row in rows if self.lives(row))


def living_hosts(read: Callable[[], Sequence[RowView]], timeout: float) -> list[str]:
    """Return the names of living conductors, for a process that looks only once.

    A heartbeat ahead of this process's clock tells no age. It is watched for up to ``timeout``
    seconds, as that of a dead conductor does not change.

    :param read: returns the rows of the conductors in question.
    """
    membership, first = Membership(timeout), clock.now()
    known: dict[str, datetime.datetime] = {}
    while True:
        living = [row for row in read() if membership.lives(row)]
        certain = [
            row
            for row in living
            if row["updated_at"] <= first
            or known.setdefault(row["hostname"], row["updated_at"]) != row["updated_at"]
        ]
        if certain or not living:
            return [row["hostname"] for row in living]
        time.sleep(_LOOK)


_LOOK = 1.0  # seconds between two looks at a heartbeat


def refuse_living(read: Callable[[], Sequence[RowView]], timeout: float, purpose: str) -> None:
    """Refuse a command beside living conductors.

    :param read: as for `living_hosts`.
    :param purpose: such as "you end runs".
    :raises errors.Conflict: a conductor is alive.
    """
    if hosts := living_hosts(read, timeout):
        raise errors.Conflict(
            f"Conductors are alive: {', '.join(hosts)}. Stop all conductors before {purpose}. A "
            "conductor that was killed, or that ran at the time of the backup, counts as alive for "
            f"[conductor]heartbeat_timeout seconds ({timeout}) after its last heartbeat in this "
            "database."
        )


def members(rows: Iterable[RowView]) -> tuple[Member, ...]:
    """Return conductors as members of the ring, dead or alive."""
    return tuple(
        Member(row["hostname"], row["conductor_group"], frozenset(row["hardware_types"]))
        for row in rows
    )
