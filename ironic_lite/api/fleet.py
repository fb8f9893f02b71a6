"""Which conductor answers for a node: membership rows, kept for a while, and `ring` over them.

One that did not answer is doubted: others are asked in its place until it gives a sign of life.
Doubt only chooses whom to ask. Who owns a node is left as it is, and who is shown for it, too.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_config import cfg

from ironic_lite import errors, ring
from ironic_lite.db import conductors
from ironic_lite.db.session import Database
from ironic_lite.roster import Roster, members

LOG = logging.getLogger(__name__)


class Fleet:
    """The living conductors as this process last saw them; one serves all threads."""

    def __init__(self, database: Database, conf: cfg.ConfigOpts) -> None:
        self._database = database
        self._conf = conf
        self._members: tuple[ring.Member, ...] = ()
        self._read_at = float("-inf")
        self._roster = Roster(conf.conductor.heartbeat_timeout)
        self._reading = threading.Lock()
        self._signs: dict[str, Any] = {}
        self._doubted: dict[str, Any] = {}  # the last sign of life before each did not answer

    def members(self) -> tuple[ring.Member, ...]:
        """Return the living conductors, at most [conductor]hash_ring_reset_interval seconds old."""
        if time.monotonic() - self._read_at >= self._conf.conductor.hash_ring_reset_interval:
            self.refresh()
        return self._members

    def refresh(self) -> None:
        """Read the membership anew."""
        with self._reading:
            try:
                rows = self._database.read(conductors.members)
            except errors.Error:
                self._roster.blind()
                raise
            self._members = self._roster.living(rows)
            self._signs = {row["hostname"]: row["updated_at"] for row in rows}
            self._doubted = {
                host: sign for host, sign in self._doubted.items() if self._signs.get(host) == sign
            }
            self._read_at = time.monotonic()

    def doubt(self, host: str) -> None:
        """Note that a conductor did not answer: others are asked until it gives a sign of life."""
        if host in self._doubted:
            return
        # What it has written until now is no sign that it lives still.
        with contextlib.suppress(errors.Error):
            self.refresh()
        with self._reading:
            self._doubted = {**self._doubted, host: self._signs.get(host)}
        LOG.warning("Conductor %s does not answer: if there are others, they are asked", host)

    def trusted(self, hosts: Iterable[str]) -> str:
        """Return the first of these hosts that is not doubted, or the first if all are."""
        some = list(hosts)
        return next((host for host in some if host not in self._doubted), some[0])

    def _asked(self, able: list[ring.Member]) -> list[ring.Member]:
        """Return who is asked out of those that could answer: those not doubted, if any."""
        doubted = self._doubted
        return [one for one in able if one.host not in doubted] or able

    def lives(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a conductor lives, as it stands in the table at this moment.

        :param row: with hostname, online and updated_at.
        """
        return self._roster.lives(row)

    def living(self, rows: Iterable[Mapping[str, Any]]) -> tuple[ring.Member, ...]:
        """Return those that live, as the table stands at this moment.

        :param rows: of ``db.conductors.members``.
        """
        return self._roster.living(rows)

    def owners(self) -> Callable[[Mapping[str, Any]], str | None]:
        """Return what tells the owner of a node, for many nodes at one moment.

        It takes at least a node's ``uuid``, ``driver`` and ``conductor_group``.
        """
        members = self.members()
        able: dict[tuple[str, str], list[ring.Member]] = {}

        def owner(node: Mapping[str, Any]) -> str | None:
            driver, group = node["driver"], node["conductor_group"]
            some = able.get((driver, group))
            if some is None:
                some = able[driver, group] = ring.candidates(members, group, driver)
            # A fleet of one is the common case, and needs no hash.
            return some[0].host if len(some) == 1 else ring.owner(some, group, driver, node["uuid"])

        return owner

    def owner(self, driver: str, group: str, node_uuid: str) -> str | None:
        """Return the host that owns a node, None if nobody living can: the field `conductor`."""
        return ring.owner(self.members(), group, driver, node_uuid)

    def host_for(self, node: Mapping[str, Any]) -> str:
        """Return the host to call about an existing node: its owner, or who would be next.

        :param node: at least its ``uuid``, ``driver`` and ``conductor_group``.
        :raises errors.NoConductor: those that could are away.
        :raises errors.NotFound: nobody ever could drive it.
        """
        driver, group, uuid = node["driver"], node["conductor_group"], node["uuid"]
        able = self._able(driver, group)
        host = ring.owner(self._asked(able), group, driver, uuid)
        if host is not None:
            return host
        why = self._missing(driver, group)
        if isinstance(why, errors.NoValidHost):
            raise errors.NotFound(why.message, **why.facts)
        raise why

    def any_host(self, driver: str, group: str) -> str:
        """Return a host that can check a node of this driver and group.

        :raises errors.NoConductor: those that could are away.
        :raises errors.NoValidHost: nobody ever could.
        """
        able = self._able(driver, group)
        if not able:
            raise self._missing(driver, group)
        return self._asked(able)[0].host

    def some_host(self) -> str:
        """Return one of the living hosts, for what any of them can do.

        :raises errors.NoConductor: nobody lives.
        """
        living = self.members()
        if not living:
            self.refresh()
            living = self.members()
        if not living:
            raise errors.NoConductor(host="any", reason="none is alive")
        return random.choice(self._asked(list(living))).host  # to spread the work, no secret

    def _able(self, driver: str, group: str) -> list[ring.Member]:
        """Return the living that can drive such nodes; if there are none, looked up anew."""
        able = ring.candidates(self.members(), group, driver)
        if not able:
            self.refresh()
            able = ring.candidates(self.members(), group, driver)
        return able

    def _missing(self, driver: str, group: str) -> errors.Error:
        registered = members(self._database.read(conductors.members))
        away = ring.candidates(registered, group, driver)
        if away:
            return errors.NoConductor(host=", ".join(sorted(one.host for one in away)))
        return errors.NoValidHost(driver=driver, group=group)
