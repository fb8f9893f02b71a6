"""Which conductor answers for a node: membership rows, kept for a while, and `ring` over them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_config import cfg

from ironic_lite import errors, ring
from ironic_lite.db import conductors
from ironic_lite.db.session import Database
from ironic_lite.roster import Roster, members


class Fleet:
    """The living conductors as this process last saw them; one serves all threads."""

    def __init__(self, database: Database, conf: cfg.ConfigOpts) -> None:
        self._database = database
        self._conf = conf
        self._members: tuple[ring.Member, ...] = ()
        self._read_at = float("-inf")
        self._roster = Roster(conf.conductor.heartbeat_timeout)
        self._reading = threading.Lock()

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
            self._read_at = time.monotonic()

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
        """Return the host to call about an existing node.

        :param node: at least its ``uuid``, ``driver`` and ``conductor_group``.
        :raises errors.NoConductor: those that could are away.
        :raises errors.NotFound: nobody ever could drive it.
        """
        driver, group, uuid = node["driver"], node["conductor_group"], node["uuid"]
        host = self.owner(driver, group, uuid)
        if host is None:
            self.refresh()
            host = self.owner(driver, group, uuid)
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
        able = ring.candidates(self.members(), group, driver)
        if not able:
            self.refresh()
            able = ring.candidates(self.members(), group, driver)
        if not able:
            raise self._missing(driver, group)
        return able[0].host

    def _missing(self, driver: str, group: str) -> errors.Error:
        registered = members(self._database.read(conductors.members))
        away = ring.candidates(registered, group, driver)
        if away:
            return errors.NoConductor(host=", ".join(sorted(one.host for one in away)))
        return errors.NoValidHost(driver=driver, group=group)
