"""The address of a client, and the network that counts as one source."""

from __future__ import annotations

import functools
import ipaddress

from ironic_lite.core.json_types import Json

_NETWORK = 64
"""Bits of an IPv6 network that belongs to one site (RFC 4291, 2.5.4)."""
_LONGEST = 64
"""Characters of an address that are compared."""


def of(environ: Json, *, proxied: bool) -> str:
    """Return the client address of a request, or "" over a Unix socket.

    :param proxied: trust the headers of a proxy ([api]enable_proxy_headers_parsing); the result is
        the address that connected to the proxy.
    """
    if proxied:
        last = str(environ.get("HTTP_X_FORWARDED_FOR") or "").rpartition(",")[2].strip()
        if last:
            return last[:_LONGEST]
    return str(environ.get("REMOTE_ADDR") or "")


@functools.lru_cache(maxsize=1024)
def network(address: str) -> str:
    """Return the site's network of an IPv6 address, or an IPv4 address itself."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.strip("[]").partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return address
    return str(ipaddress.IPv6Network((found, _NETWORK), strict=False))
