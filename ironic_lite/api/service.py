"""The objects every controller uses: the database, the conductors, the options."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ironic_lite import errors, membership
from ironic_lite.api.policy import Rule
from ironic_lite.core import clock, log_lines, options
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.metrics import Family
from ironic_lite.core.options import Configuration
from ironic_lite.core.slots import Slots
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import conductors
from ironic_lite.db.queries.step_durations import UsualTimes
from ironic_lite.domain.examination import Check
from ironic_lite.feed import Tail
from ironic_lite.membership import Membership, members
from ironic_lite.rpc import contract
from ironic_lite.rpc.notifier import Notifier
from ironic_lite.rpc.stub import Interceptor, RpcCall, Send, connect

# Wait briefly for a locked node before a write of the API gets 409.
#
# Ironic's conductor tries a lock ``[conductor]node_locked_retry_attempts`` times and pauses for
# ``node_locked_retry_interval`` in between. The API writes nodes and their records itself, so its
# writes wait as long. They poll more often within that time, because most locks belong to a power
# action or to the power sweep and end after milliseconds.

Answer = TypeVar("Answer")

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25


class LockWaiters:
    """The requests of a process that wait for a lock; one object serves all threads.

    Each waiting request holds a thread. At most a quarter of ``[api]max_changes`` may wait, and at
    most a quarter of these for one node. Further requests get 409 at once.
    """

    def __init__(self, conf: Configuration) -> None:
        settings = conf.conductor
        pauses = max(settings.node_locked_retry_attempts - 1, 0)
        self._patience = float(pauses * settings.node_locked_retry_interval)
        most = max(int(conf.api.max_changes) // 4, 1)
        self._slots = Slots(most, max(most // 4, 1))

    def until_free(self, act: Callable[[], Answer]) -> Answer:
        """Return the result of ``act``; call ``act`` again while its node is locked.

        :param act: changes nothing if it raises `errors.NodeLocked`.
        :raises errors.NodeLocked: still locked after that time, or too many requests wait.
        """
        try:
            return act()
        except errors.NodeLocked as why:
            node, locked = str(why.facts.get("node")), why
        with self._slots.hold(node) as held:
            if not held:
                raise locked
            return self._retry_until_free(act, locked)

    def _retry_until_free(self, act: Callable[[], Answer], locked: errors.NodeLocked) -> Answer:
        end, pause = clock.steady() + self._patience, _FIRST_PAUSE
        while (left := end - clock.steady()) > 0:
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                return act()
            except errors.NodeLocked as why:
                locked = why
        raise locked


# The conductor of a node, found by cached membership rows and `ring`.
#
# A conductor that did not answer is doubted: other conductors are asked until it answers a call, or
# until its next heartbeat. Doubt changes only the choice of a conductor to ask. The owner of a
# node, and the owner that the API shows, stay the same.

LOG = logging.getLogger(__name__)


_NONE_ALIVE = (
    "No conductor is alive. It may still be starting: GET /readyz shows when one is alive; "
    "retry then."
)


class ConductorRouter:
    """The living conductors as this process last read them; one serves all threads."""

    def __init__(self, database: Database, conf: Configuration) -> None:
        self._database = database
        self._fresh_seconds = conf.conductor.hash_ring_reset_interval
        self._members: tuple[membership.Member, ...] = ()
        self._ring = membership.Ring(())
        self._read_at = float("-inf")
        self._roster = Membership(conf.conductor.heartbeat_timeout)
        self._reading = threading.Lock()
        self._signs: Json = {}
        self._complaints = log_lines.LogThrottle()
        self._doubted: Json = {}  # by host: its last heartbeat before it did not answer

    def members(self) -> tuple[membership.Member, ...]:
        """Return the living conductors, at most hash_ring_reset_interval seconds old."""
        if self._is_old():
            with self._reading:
                if self._is_old():  # no other thread has read it meanwhile
                    self._read_members()
        return self._members

    def _is_old(self) -> bool:
        return time.monotonic() - self._read_at >= self._fresh_seconds

    def refresh(self) -> None:
        """Read the membership again."""
        with self._reading:
            self._read_members()

    def _read_members(self) -> None:
        try:
            rows = self._database.read(conductors.members)
        except errors.Error:
            self._roster.blind()
            raise
        self._members = self._roster.living(rows)
        self._ring = membership.Ring(self._members)
        self._signs = {row["hostname"]: row["updated_at"] for row in rows}
        self._doubted = {
            host: sign for host, sign in self._doubted.items() if self._signs.get(host) == sign
        }
        self._read_at = time.monotonic()

    def doubt(self, host: str) -> None:
        """Record that a conductor did not answer, until its next heartbeat."""
        if host in self._doubted:
            return
        # A heartbeat written before now does not end the doubt.
        with contextlib.suppress(errors.Error):
            self.refresh()
        with self._reading:
            self._doubted = {**self._doubted, host: self._signs.get(host)}
        if self._complaints.new(host):  # it may answer some calls, which end the doubt
            text = "Conductor %s does not answer; other conductors are asked until it does"
            LOG.warning(text, host)

    def trust(self, host: str) -> None:
        """Record that a conductor has answered, which ends its doubt."""
        if host not in self._doubted:
            return
        with self._reading:
            self._doubted = {each: sign for each, sign in self._doubted.items() if each != host}

    def trusted(self, hosts: Iterable[str]) -> str:
        """Return the first of these hosts without doubt, or the first if all are doubted."""
        some = list(hosts)
        return next((host for host in some if host not in self._doubted), some[0])

    def _preferred_members(self, able: list[membership.Member]) -> list[membership.Member]:
        """Return the able conductors without doubt, or all of them if all are doubted."""
        doubted = self._doubted
        return [one for one in able if one.host not in doubted] or able

    def lives(self, row: JsonView) -> bool:
        """Return whether a conductor is alive, by its row as read now.

        :param row: with hostname, online and updated_at.
        """
        return self._roster.lives(row)

    def living(self, rows: Iterable[JsonView]) -> tuple[membership.Member, ...]:
        """Return the living conductors, by their rows as read now.

        :param rows: of ``db.queries.conductors.members``.
        """
        return self._roster.living(rows)

    def owners(self) -> Callable[[JsonView], str | None]:
        """Return a function that returns owners, for many nodes at one moment.

        Its argument has at least a node's ``uuid``, ``driver`` and ``conductor_group``.
        """
        self.members()
        found = self._ring
        return lambda node: found.owner(node["conductor_group"], node["driver"], node["uuid"])

    def owner(self, driver: str, group: str, node_uuid: str) -> str | None:
        """Return the host that owns a node (field `conductor`), None without one."""
        self.members()
        return self._ring.owner(group, driver, node_uuid)

    def host_for(self, node: JsonView) -> str:
        """Return the host to call about a node: its owner, or the next on the ring.

        :param node: at least its ``uuid``, ``driver`` and ``conductor_group``.
        :raises errors.NoConductor: the able conductors are away, or none is alive.
        :raises errors.NotFound: the living conductors do not have its driver.
        """
        driver, group, uuid = node["driver"], node["conductor_group"], node["uuid"]
        able = self._able_members(driver, group)
        host = membership.owner(self._preferred_members(able), group, driver, uuid)
        if host is not None:
            return host
        why = self._no_conductor(driver, group)
        if isinstance(why, errors.NoValidHost):
            raise errors.NotFound(why.message, **why.facts)
        raise why

    def any_host(self, driver: str, group: str) -> str:
        """Return a host that can check a node of this driver and group.

        :raises errors.NoConductor: the able conductors are away, or none is alive.
        :raises errors.NoValidHost: the living conductors do not have this driver.
        """
        able = self._able_members(driver, group)
        if not able:
            raise self._no_conductor(driver, group)
        return self._preferred_members(able)[0].host

    def some_host(self) -> str:
        """Return one of the living hosts, for work that any conductor can do.

        :raises errors.NoConductor: no conductor is alive.
        """
        living = self.members()
        if not living:
            self.refresh()
            living = self.members()
        if not living:
            raise errors.NoConductor(_NONE_ALIVE, host="any", reason="none is alive")
        # Spreads the work; no secret.
        return random.choice(self._preferred_members(list(living))).host

    def _able_members(self, driver: str, group: str) -> list[membership.Member]:
        """Return the living conductors for such nodes; without any, read them again."""
        able = membership.candidates(self.members(), group, driver)
        if not able:
            self.refresh()
            able = membership.candidates(self.members(), group, driver)
        return able

    def _no_conductor(self, driver: str, group: str) -> errors.Error:
        registered = members(self._database.read(conductors.members))
        away = membership.candidates(registered, group, driver)
        if away:
            return errors.NoConductor(host=", ".join(sorted(one.host for one in away)))
        if not self._members:
            # The first conductor is starting, and its drivers are not known yet.
            return errors.NoConductor(_NONE_ALIVE, host="any", reason="none is alive")
        if sentence := options.NOT_BUILT[options.HARDWARE_TYPE].get(driver):
            text = f"driver: {driver} is not available. {sentence}"
            return errors.NoValidHost(text, driver=driver, group=group)
        return errors.NoValidHost(driver=driver, group=group)


# Calls of conductors with failover to the next conductor.
#
# A dead conductor counts as alive until ``[conductor]heartbeat_timeout`` has passed without a
# heartbeat. Until then the next conductor on the ring can answer for its unlocked nodes, because
# the lock decides and not the ring. A call is sent to the next conductor only if the first
# certainly did not receive it: no process listens at its ``local://`` socket, or accepts a
# connection of ``direct://``. A call that may have been received is never repeated. Its caller gets
# the error, and only later requests go to another conductor.


class Failover:
    """An interceptor that sends each call to a conductor that answers.

    :param choose: returns the host to ask. `ConductorRouter` prefers hosts it does not doubt.
    :raises errors.Error: the error ``choose`` raises, at once.
    """

    __slots__ = ("_choose", "_fleet", "_host")

    def __init__(self, fleet: ConductorRouter, choose: Callable[[], str]) -> None:
        self._fleet = fleet
        self._choose = choose
        self._host = choose()

    def __call__(self, call: RpcCall, send: Send) -> Any:
        """Send a call; send it to the next conductor if the first has not received it."""
        host, tried = self._host, set[str]()
        while True:
            try:
                answer = send(call._replace(host=host))
                self._fleet.trust(host)
                return answer
            except errors.ConductorNotListening:
                tried.add(host)
                self._fleet.doubt(host)
                host = self._choose()
                if host in tried:
                    raise
            except errors.ConductorUnresponsive:
                self._fleet.doubt(host)
                raise


class Client(Protocol):
    """The API's end of RPC: `rpc.client.RpcClient`, or a stand-in of a test."""

    def send(self, call: RpcCall) -> Any:
        """Carry out a call."""


class FleetGauge(NamedTuple):
    """A gauge that the database holds: its name, and the value of each series by its labels."""

    name: str
    family: Family
    values: Sequence[tuple[tuple[str, ...], float]]


@dataclasses.dataclass(frozen=True, slots=True)
class Extension:
    """Additions of a feature to the API.

    :ivar controllers: classes of `http.expose.Controller`.
    :ivar rules: rules of the policy for their routes.
    :ivar answers: returns rows as of `openapi.answers.ROUTES`; called for the first document.
    :ivar files: returns what `middleware.RequestMiddleware` answers before versions and routes.
    :ivar window: returns the hash of the window's files for /v1/whoami, None without a window.
    :ivar moved: called by the transaction after which nodes have another owner or lessee, with
        their UUIDs and the time.
    :ivar gauges: returns gauges of /metrics that the database holds.
    :ivar attention: parts of the document of what needs a person, by name: called with this
        service and a request, it returns a list, or None if the caller may not see it.
    :ivar checks: checks of the doctor that an API process makes.
    :ivar facts: what explains a node's state, by name: called with this service, a request and a
        node, it returns a document or None.
    :ivar of_runs: the same for keys of the document of one run: called with a run.
    :ivar of_nodes: fields of nodes by name: called with a connection, a request and the UUIDs of
        some nodes, it returns their values by UUID.
    """

    controllers: tuple[type[Any], ...] = ()
    rules: tuple[Rule, ...] = ()
    answers: Callable[[], JsonView] = dict
    files: Callable[[Configuration], JsonView] = lambda _: {}
    window: Callable[[Configuration], str | None] = lambda _: None
    moved: Callable[[Connection, Sequence[str], datetime.datetime], None] = lambda *_: None
    gauges: Callable[[Connection], Sequence[FleetGauge]] | None = None
    attention: Mapping[str, Callable[..., list[Json] | None]] = dataclasses.field(
        default_factory=dict
    )
    checks: tuple[Check[Any], ...] = ()
    facts: Mapping[str, Callable[..., Json | None]] = dataclasses.field(default_factory=dict)
    of_runs: Mapping[str, Callable[..., str | None]] = dataclasses.field(default_factory=dict)
    of_nodes: Mapping[str, Callable[..., JsonView]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """The shared objects of all requests in a process.

    ``limit`` is the interceptor that holds a slot for a call of a conductor.
    """

    database: Database
    client: Client
    limit: Interceptor
    fleet: ConductorRouter
    conf: Configuration
    notifier: Notifier
    lock_waiters: LockWaiters
    tail: Tail
    usual: UsualTimes
    extensions: tuple[Extension, ...] = ()

    def conductor_of(self, node: JsonView, *, timeout: float | None = None) -> contract.Conductor:
        """Return the conductor of a node, or the next one if that received nothing.

        :param node: at least its ``uuid``, ``driver`` and ``conductor_group``.
        :param timeout: seconds for each call; None means the configured time.
        :raises errors.NoConductor, errors.NotFound: as `ConductorRouter.host_for`.
        """
        return self.reach(functools.partial(self.fleet.host_for, node), timeout=timeout)

    def reach(
        self, choose: Callable[[], str], *, timeout: float | None = None
    ) -> contract.Conductor:
        """Return the conductor ``choose`` names; on failover, ``choose`` names the next."""
        failover = Failover(self.fleet, choose)
        return connect(self.client.send, failover, self.limit, timeout=timeout)

    def conductor(self, host: str, *, timeout: float) -> contract.Conductor:
        """Return the conductor ``host``, without failover."""
        return connect(self.client.send, self.limit, host=host, timeout=timeout)
