"""The conductor of a node, found by cached membership rows and `ring`.

A conductor that did not answer is doubted: other conductors are asked until it answers a call, or
until its next heartbeat. Doubt changes only the choice of a conductor to ask. The owner of a node,
and the owner that the API shows, stay the same.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable

from ironic_lite import errors
from ironic_lite.core import log_lines
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import conductors
from ironic_lite.membership import ring
from ironic_lite.membership.members import Membership, members

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
        self._members: tuple[ring.Member, ...] = ()
        self._ring = ring.Ring(())
        self._read_at = float("-inf")
        self._roster = Membership(conf.conductor.heartbeat_timeout)
        self._reading = threading.Lock()
        self._signs: Json = {}
        self._complaints = log_lines.LogThrottle()
        self._doubted: Json = {}  # by host: its last heartbeat before it did not answer

    def members(self) -> tuple[ring.Member, ...]:
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
        self._ring = ring.Ring(self._members)
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

    def _preferred_members(self, able: list[ring.Member]) -> list[ring.Member]:
        """Return the able conductors without doubt, or all of them if all are doubted."""
        doubted = self._doubted
        return [one for one in able if one.host not in doubted] or able

    def lives(self, row: JsonView) -> bool:
        """Return whether a conductor is alive, by its row as read now.

        :param row: with hostname, online and updated_at.
        """
        return self._roster.lives(row)

    def living(self, rows: Iterable[JsonView]) -> tuple[ring.Member, ...]:
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
        host = ring.owner(self._preferred_members(able), group, driver, uuid)
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

    def _able_members(self, driver: str, group: str) -> list[ring.Member]:
        """Return the living conductors for such nodes; without any, read them again."""
        able = ring.candidates(self.members(), group, driver)
        if not able:
            self.refresh()
            able = ring.candidates(self.members(), group, driver)
        return able

    def _no_conductor(self, driver: str, group: str) -> errors.Error:
        registered = members(self._database.read(conductors.members))
        away = ring.candidates(registered, group, driver)
        if away:
            return errors.NoConductor(host=", ".join(sorted(one.host for one in away)))
        if not self._members:
            # The first conductor is starting, and its drivers are not known yet.
            return errors.NoConductor(_NONE_ALIVE, host="any", reason="none is alive")
        return errors.NoValidHost(driver=driver, group=group)
