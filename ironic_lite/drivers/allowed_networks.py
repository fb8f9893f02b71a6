"""Check of BMC and agent addresses against ``[<group>]allowed_networks``.

Users of the API write these addresses, so an address must not lead to services that trust this
machine.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.core import bounded_http, config, networks


def judge(group: str) -> Callable[[str], None]:
    """Return a function that raises ``bounded_http.AddressRefused`` for an IP address.

    :param group: option group, such as ``redfish``.
    """
    return functools.partial(_check_allowed, group)


def _check_allowed(group: str, address: str) -> None:
    if not networks.may_manage(address, config.CONF[group].allowed_networks):
        raise bounded_http.AddressRefused(reason(group))


def reason(group: str) -> str:
    """Return the reason for a refused address; it does not repeat the address."""
    if config.CONF[group].allowed_networks:
        return f"is not in the networks of [{group}]allowed_networks"
    return (
        "is a loopback, link-local or multicast address, which only "
        f"[{group}]allowed_networks can allow"
    )


def refuse(host: str, group: str, path: str) -> None:
    """Reject a host that is an IP address outside the allowed networks.

    Host names are checked after they are resolved.

    :param path: the place of the host, such as ``driver_info/redfish_address``.
    :raises errors.InvalidParameter: naming ``path``.
    """
    try:
        _check_allowed(group, host.strip("[]"))
    except bounded_http.AddressRefused as why:
        raise errors.InvalidParameter(path=path, reason=str(why)) from None
    except ValueError:  # a name
        return


def resolve(host: str, port: int, group: str) -> str:
    """Return the first allowed IP address of a host; connect to it, not to the name.

    :raises bounded_http.AddressRefused: none of its addresses is allowed.
    :raises OSError: the name cannot be resolved.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except UnicodeError as why:
        raise socket.gaierror(socket.EAI_NONAME, str(why)) from None
    for *_, address in found:
        if networks.may_manage(str(address[0]), config.CONF[group].allowed_networks):
            return str(address[0])
    raise bounded_http.AddressRefused(reason(group))
