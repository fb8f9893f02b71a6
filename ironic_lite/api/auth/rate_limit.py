"""Limit failed requests without a login; requests that succeed are never limited.

Failures are counted for each pair of a sender's address and the node that it names; the addresses
of one IPv6 network of 64 bits count together. After too many failures of a pair, further failures
get 429, and a heartbeat reaches a conductor only after its token has been checked. Other senders
behind the same address cannot make a valid request fail.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from ironic_lite import errors
from ironic_lite.api.auth import failures, refused_agents
from ironic_lite.api.service import Service
from ironic_lite.api.wire import client_address, expose, refusals
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Json

Handler = TypeVar("Handler", bound=Callable[..., Any])
Key = tuple[str, int]
"""An address or IPv6 network, and the hash of a name, so that long names take no more memory."""

_REFUSED = (errors.InvalidRequest, errors.NotFound, refusals.Refusal)
"""Refusals that count as the sender's failure; a locked node or a missing conductor do not."""
_OURS = (errors.InterfaceNotFound,)  # the operator has not enabled the interface
_LATER = (30, 60)
"""Range of seconds in the Retry-After header."""


class RefusalLimiter:
    """Counts failures within the current minute; one object serves all threads.

    :param clock: seconds of a monotonic clock.
    """

    def __init__(self, conf: Configuration, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._conf = conf
        self._failures = failures.Failures(clock)

    def key(self, environ: Json, name: str) -> Key:
        """Return the key that a request counts under.

        :param name: as `Unauthenticated.named` returns it.
        """
        proxied = self._conf.api.enable_proxy_headers_parsing
        source = client_address.network(client_address.of(environ, proxied=proxied))
        return source, hash(name)

    def over(self, key: Key) -> bool:
        """Return whether a key has too many failures."""
        limit = self._conf.api.ramdisk_refusals_per_minute
        return bool(limit) and self._failures.count(key) >= limit

    def note(self, key: Key) -> None:
        """Count a failure."""
        self._failures.note(key)

    def refusal(self) -> refusals.Refusal:
        """Return the answer to a failure of a key with too many failures."""
        text = (
            "Too many requests from this address for this node were refused within a minute "
            "([api]ramdisk_refusals_per_minute); retry later."
        )
        later = (("Retry-After", str(random.randint(*_LATER))),)
        return refusals.handled(HTTPStatus.TOO_MANY_REQUESTS, text, later)


class Unauthenticated(expose.Controller):
    """The methods of a resource that need no login; each is marked by `counted`."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.limiter = RefusalLimiter(service.conf)
        self.refused = refused_agents.RefusedAgents(service)

    def named(self, request: Any, *words: str) -> str:
        """Return the node that a request names, or the query that searches a node."""
        return words[0] if words else request.environ.get("QUERY_STRING") or ""

    def concerned(self, request: Any, name: str) -> str | None:
        """Return the node that a refused request names; None without one.

        :param name: as `named` returns it.
        """
        given: str | None = request.query.get("node_uuid")
        return given

    def doubt(self, request: Any, name: str) -> None:
        """Check a request of a sender with too many failures, before its method runs.

        :param name: as `named` returns it.
        :raises errors.InvalidRequest, errors.NotFound: the request will fail.
        """


def counted(method: Handler) -> Handler:
    """Limit failed requests to an exposed method of an `Unauthenticated` controller.

    The decorator stands above `expose.expose`, so that malformed bodies and queries count as well.
    The method may also raise errors.Forbidden (the ramdisk endpoints are disabled), and
    refusals.Refusal with 429.
    """

    @functools.wraps(method)
    def answer(self: Unauthenticated, request: Any, *words: str) -> Any:
        name = self.named(request, *words)
        if not self.service.conf.api.enable_ramdisk_endpoints:
            closed = errors.Forbidden(what="the endpoints of ramdisk agents")
            self.refused.trace(request, None, closed)
            raise closed
        key = self.limiter.key(request.environ, name)
        over = self.limiter.over(key)
        try:
            if over:
                self.doubt(request, name)
            return method(self, request, *words)
        except _REFUSED as why:
            if isinstance(why, _OURS):
                raise
            self.limiter.note(key)
            if over:
                raise self.limiter.refusal() from None
            self.refused.trace(request, self.concerned(request, name), why)
            raise

    return answer  # type: ignore[return-value]  # same calls, seen from the routes
