"""IP networks of options, and checks of addresses against them. Pure."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_MAPPED_BITS = 0xFFFFFFFF


@functools.lru_cache(maxsize=32)
def _parse_cached(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def parse(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks that a list of options names.

    :raises ValueError: one of them is not a network.
    """
    return _parse_cached(tuple(text.strip() for text in texts if text.strip()))


METADATA = ("169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "fd00:ec2::254/128")
"""Addresses of clouds' metadata services.

These are link-local addresses, and those of Alibaba Cloud and Amazon EC2.
"""
CLOSED = parse(
    (
        *("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32"),
        *("::/128", "::1/128", "ff00::/8"),
        *METADATA,
    )
)
"""Networks without machines to manage.

These are this host (RFC 1122, 3.2.1.3; RFC 4291, 2.5), link-local addresses (RFC 3927), multicast
and broadcast, and `METADATA`.
"""


def containing(address: str, networks: Iterable[Network]) -> Network | None:
    """Return the network that contains an IP address, None without one.

    An IPv6 address that represents an IPv4 one (RFC 4291, 2.5.5.2; RFC 6052, 2.1, for a translator
    of the network) is treated as the IPv4 address.

    :raises ValueError: ``address`` is not an IP address.
    """
    found: Address = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        translated = found in _TRANSLATED
        inner = ipaddress.IPv4Address(int(found) & _MAPPED_BITS) if translated else None
        found = found.ipv4_mapped or inner or found
    return next((net for net in networks if found.version == net.version and found in net), None)


def may_manage(address: str, allowed: Sequence[str]) -> bool:
    """Return whether a BMC or agent may be contacted at an IP address.

    :param allowed: networks, ``[<group>]allowed_networks``; without any, all but `CLOSED`.
    :raises ValueError: ``address`` is not an IP address, or one of ``allowed`` not a network.
    """
    named = parse(allowed)
    if named:
        return containing(address, named) is not None
    return containing(address, CLOSED) is None
