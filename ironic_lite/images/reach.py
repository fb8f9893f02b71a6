"""Sessions of HTTP that connect to no blocked network, whatever a name or redirection leads to.

The address that is judged is the one of the connection itself, so a name that answers once so and
once otherwise gains nothing. Proxies of the environment are not used: they would connect for us.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import requests
import requests.adapters
import urllib3.connection
import urllib3.connectionpool

from ironic_lite.images import sources

MOST_REDIRECTS = 5


class Closed(OSError):
    """A connection led into a blocked network; nothing was sent."""

    def __init__(self, address: str, net: sources.Network) -> None:
        super().__init__(f"{address} is in {net}, closed by [conductor]image_blocked_networks")


class _Http(urllib3.connection.HTTPConnection):
    blocked: Sequence[sources.Network] = ()

    def _new_conn(self) -> socket.socket:
        return _judged(super()._new_conn(), self.blocked)


class _Https(urllib3.connection.HTTPSConnection):
    blocked: Sequence[sources.Network] = ()

    def _new_conn(self) -> socket.socket:
        return _judged(super()._new_conn(), self.blocked)


def _judged(sock: socket.socket, blocked: Sequence[sources.Network]) -> socket.socket:
    address = str(sock.getpeername()[0])
    net = sources.closed(address, blocked)
    if net is None:
        return sock
    sock.close()
    raise Closed(address, net)


class _Adapter(requests.adapters.HTTPAdapter):
    def __init__(self, blocked: Sequence[sources.Network]) -> None:
        self._blocked = blocked
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _pool(urllib3.connectionpool.HTTPConnectionPool, _Http, self._blocked),
            "https": _pool(urllib3.connectionpool.HTTPSConnectionPool, _Https, self._blocked),
        }


def _pool(kind: type[Any], connection: type[Any], blocked: Sequence[sources.Network]) -> type[Any]:
    bound = type(connection.__name__, (connection,), {"blocked": tuple(blocked)})
    return type(kind.__name__, (kind,), {"ConnectionCls": bound})


def session(blocked: Sequence[sources.Network]) -> requests.Session:
    """Return a session for the addresses of images; the caller closes it and sets time-outs.

    A connection into one of ``blocked`` raises ``requests.ConnectionError`` with ``Closed`` in it.
    """
    made = requests.Session()
    made.trust_env = False
    made.max_redirects = MOST_REDIRECTS
    adapter = _Adapter(blocked)
    made.mount("http://", adapter)
    made.mount("https://", adapter)
    return made
