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
    able = candidates(members, group, driver)
    if not able:
        return None
    return max(able, key=lambda one: (_host_weight(one.host, node_uuid), one.host)).host


def responsible(members: Iterable[Member], ident: str) -> str | None:
    """Return the host that does work that every conductor can do, None without members."""
    return max(
        (one.host for one in members),
        key=lambda host: (_host_weight(host, ident), host),
        default=None,
    )


def _host_weight(host: str, node_uuid: str) -> bytes:
    return hashlib.blake2b(f"{host}\0{node_uuid}".encode(), digest_size=8).digest()
