"""Bounds what those may try who need no login: so many refusals a minute from one address.

Who guesses MAC addresses or tokens is refused without a look into the database once the bound is
reached. Of IPv6, whoever has one address has a network of them (a /64, RFC 4291 2.5.4), so these
are counted together, too, with a higher bound: the machines of a rack may be in one.

Agents that are refused for good reason, because their node is not yet waiting for them,
ask again later anyway.
"""

from __future__ import annotations

import functools
import ipaddress
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.service import Service
from ironic_lite.api.wire import expose, faults

Handler = TypeVar("Handler", bound=Callable[..., Any])

_REFUSED = (errors.InvalidRequest, errors.NotFound, faults.Refusal)
"""What a stranger is refused with; that a node is locked, or a conductor away, is not its fault."""
_OURS = (errors.InterfaceNotFound,)  # nor is what the operator has not enabled
_WINDOW = 60.0  # seconds
_NETWORK = 64  # bits of an IPv6 address
_MORE = 10
"""How many times as much as one address all those of a network may be refused."""
_MOST = 10_000  # addresses that are counted at once


class Strangers:
    """Counts refusals by address, within the present minute; one serves all threads."""

    def __init__(
        self, conf: cfg.ConfigOpts, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._conf = conf
        self._clock = clock
        self._refused: dict[str, int] = {}
        self._until = 0.0
        self._guard = threading.Lock()

    def check(self, environ: dict[str, Any]) -> None:
        """Refuse who has been refused too often.

        :raises errors.Unavailable: until the end of the minute.
        """
        limit = self._conf.api.ramdisk_refusals_per_minute
        if not limit or not self._refused:
            return
        source = self.source(environ)
        network = _network(source)
        for counted, most in ((source, limit), (network, limit * _MORE)):
            if counted is not None and self._refused.get(counted, 0) >= most:
                if self._clock() >= self._until:
                    self._begin()
                    return
                who = "this address" if counted == source else counted
                raise errors.Unavailable(
                    f"More than {most} requests of {who} were refused within a minute "
                    "([api]ramdisk_refusals_per_minute); retry later."
                )

    def note(self, environ: dict[str, Any]) -> None:
        """Count a refusal."""
        source = self.source(environ)
        with self._guard:
            if self._clock() >= self._until:
                self._begin()
            network = _network(source)
            for counted in (source,) if network is None else (source, network):
                # To the end of the order: who was refused longest ago is forgotten first, so that
                # nobody fills the table from some addresses to be free at another.
                self._refused[counted] = self._refused.pop(counted, 0) + 1
                if len(self._refused) > _MOST:
                    del self._refused[next(iter(self._refused))]

    def _begin(self) -> None:
        self._refused, self._until = {}, self._clock() + _WINDOW

    def source(self, environ: dict[str, Any]) -> str:
        """Return the address a request comes from; behind a proxy, the one the proxy has seen."""
        if self._conf.api.enable_proxy_headers_parsing:
            last = str(environ.get("HTTP_X_FORWARDED_FOR") or "").rpartition(",")[2].strip()
            if last:
                return last
        return str(environ.get("REMOTE_ADDR") or "")


def _network(address: str) -> str | None:
    """Return the network that whoever has this address has, None if it is one of IPv4."""
    if ":" not in address:
        return None
    try:
        found = ipaddress.IPv6Address(address.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if found.ipv4_mapped is not None:
        return None
    return str(ipaddress.IPv6Network((found, _NETWORK), strict=False))


class Open(expose.Controller):
    """The methods of a resource that need no login; each of them is marked by `counted`."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.strangers = Strangers(service.conf)


def counted(method: Handler) -> Handler:
    """Bound what strangers may try with an exposed method of an `Open` controller.

    It stands above `expose.expose`, so that a body or a query which cannot be read counts as well.
    The method may also raise errors.Forbidden (there are no ramdisks here) and errors.Unavailable
    (too many refusals).
    """

    @functools.wraps(method)
    def answer(self: Open, request: Any, *words: str) -> Any:
        if not self.service.conf.api.enable_ramdisk_endpoints:
            raise errors.Forbidden(what="the endpoints of ramdisk agents")
        self.strangers.check(request.environ)
        try:
            return method(self, request, *words)
        except _REFUSED as why:
            if not isinstance(why, _OURS):
                self.strangers.note(request.environ)
            raise

    return answer  # type: ignore[return-value]  # same calls, seen from the routes
