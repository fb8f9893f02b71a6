"""The conductor that owns a node, by rendezvous hashing.

A conductor that joins or leaves moves as few nodes as possible. Every process computes the same
owner from the same membership rows. Two processes may disagree for a moment; then the node's lock
decides (invariant 2).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable


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
