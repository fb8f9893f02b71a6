"""Limit the concurrent requests of one client address."""

from __future__ import annotations

import threading

from ironic_lite import errors
from ironic_lite.api.wire import client_address
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Json

_OPTION = "max_requests_per_address"


class SourceLimit:
    """Counts requests by client address (`client_address`); thread-safe.

    The addresses of one IPv6 network of 64 bits count together. A request counts from its head to
    its answer, including the wait for its body. Clients of a Unix socket have no address and no
    limit.
    """

    def __init__(self, conf: Configuration) -> None:
        self._most = int(conf.api[_OPTION])
        self._proxied = bool(conf.api.enable_proxy_headers_parsing)
        self._here: dict[str, int] = {}
        self._guard = threading.Lock()

    def enter(self, environ: Json) -> str:
        """Count a request; return the argument for `leave`.

        :raises errors.TooManyRequests: its address has too many running requests.
        """
        if not self._most:
            return ""
        place = client_address.network(client_address.of(environ, proxied=self._proxied))
        if place:
            with self._guard:
                count = self._here.get(place, 0)
                if count < self._most:
                    self._here[place] = count + 1
                    return place
            raise errors.TooManyRequests(limit=f"{self._most} of one address", option=_OPTION)
        return place

    def leave(self, place: str) -> None:
        """Stop counting a request."""
        if place:
            with self._guard:
                count = self._here.pop(place)
                if count > 1:
                    self._here[place] = count - 1
