"""Failed attempts of callers without a login: their count, their limit, their traces.

The limit applies to failed requests only; requests that succeed are never limited. Failures are
counted for each pair of a sender's address and the node that it names; the addresses of one IPv6
network of 64 bits count together. After too many failures of a pair, further failures get 429, and
a heartbeat reaches a conductor only after its token has been checked. Other senders behind the same
address cannot make a valid request fail.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from ironic_lite import errors
from ironic_lite.api.http import expose, refusals
from ironic_lite.api.http import request as http_request
from ironic_lite.api.service import Service
from ironic_lite.core import clock, log_lines
from ironic_lite.core.json_types import Json, Row
from ironic_lite.core.options import Configuration
from ironic_lite.db.queries import events, nodes
from ironic_lite.domain import history, states
from ironic_lite.domain.states import Kind, State

# Failed attempts of unidentified callers, counted for a time in limited memory.

_WINDOW = 60.0  # seconds
_MOST_KEYS = 10_000
"""Most keys counted at once."""


class Failures:
    """Counts failures by key in the current minute; one object serves all threads.

    :param now: seconds of a monotonic clock.
    :param window: seconds instead of a minute.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, window: float = _WINDOW) -> None:
        self._now = now
        self._window = window
        self._counts: dict[Hashable, int] = {}
        self._until = 0.0
        self._guard = threading.Lock()

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._counts)

    def count(self, key: Hashable) -> int:
        """Return the number of failures of ``key``."""
        if not self._counts:
            return 0
        return 0 if self._now() >= self._until else self._counts.get(key, 0)

    def note(self, *keys: Hashable) -> None:
        """Count a failure for each of these keys."""
        with self._guard:
            if self._now() >= self._until:
                self._counts, self._until = {}, self._now() + self._window
            for key in keys:
                # Move the key to the end: the key that failed longest ago is dropped first, so a
                # client cannot fill the table under some names to reset another.
                self._counts[key] = self._counts.pop(key, 0) + 1
                if len(self._counts) > _MOST_KEYS:
                    del self._counts[next(iter(self._counts))]


# Traces of refused ramdisks, whose answers must not say why: a warning, and an event of the node.
#
# A refused ramdisk shows its operator nothing, and its node waits until its time-out. Senders need
# no login, so traces are limited: one in ten minutes for each node, or each sender that names no
# node, and reason. The first trace of a wait is left in any case.

LOG = logging.getLogger(__name__)

_TRACE_SECONDS = 600.0
MOST_TRACES = 600
"""Most traces of a process in this time."""
_MOST_NODES = 5
"""Most nodes of one trace: addresses may belong to several."""
_MOST_READ = 100
"""Most nodes that are read to find those that wait."""
_LONGEST = 400  # characters of a reason
_EXPECTING = frozenset({Kind.WAIT, Kind.BUSY, Kind.HELD})
_UUID = re.compile(r"[0-9a-f-]{36}")
_COLUMNS = ("uuid", *history.STANDING)


class RefusalReason(Exception):
    """The reason of a refusal that its sender does not learn; the cause of the refusal.

    :param reason: a text without secrets.
    :param nodes: UUIDs of the nodes that the request may concern, the surest first.
    """

    def __init__(self, reason: str, nodes: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.nodes = tuple(nodes)


class RefusedAgents:
    """Leaves the traces of a process; one object serves all threads.

    :param now: seconds of a monotonic clock.
    """

    def __init__(self, service: Service, *, now: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._traced = Failures(now, _TRACE_SECONDS)

    def trace(self, request: Any, named: str | None, why: Exception) -> None:
        """Leave a trace of a refusal, unless the same has one already. Raises nothing.

        :param named: the node that the request names by UUID or name.
        """
        try:
            self._trace(request, named, why)
        except errors.Error as fault:  # such as a lost database
            LOG.debug("A refused ramdisk left no trace: %s", fault)

    def _trace(self, request: Any, named: str | None, why: Exception) -> None:
        proxied = self._service.conf.api.enable_proxy_headers_parsing
        sender = http_request.client_address(request.environ, proxied=proxied)
        reason, kind = _reason(why)
        found = list(self._nodes(named, why))
        for node in found:
            waits = _expects(node)
            if self._is_new((node["uuid"], node["provision_updated_at"]), kind, sure=waits):
                LOG.warning(
                    "Node %s: a ramdisk at %s was refused: %s", node["uuid"], sender, reason
                )
                if waits:
                    self._add_event(request, node, sender, reason)
        if not found and self._is_new(http_request.client_network(sender), kind):
            about = f" as {log_lines.path(named)}" if named else ""
            LOG.warning("A ramdisk at %s%s was refused: %s", sender, about, reason)

    def _nodes(self, named: str | None, why: Exception) -> list[Row]:
        """Return the nodes of a trace: a node that waits, and the named one, before others."""
        cause = why.__cause__
        wanted = cause.nodes if isinstance(cause, RefusalReason) else ()
        if not wanted:
            return list(self._named(named))
        where = {"uuids": list(wanted[:_MOST_READ]), "include_children": True}
        found = self._service.database.read(
            lambda conn: nodes.page(conn, columns=_COLUMNS, where=where, limit=_MOST_READ)
        )
        found.sort(key=lambda node: (not _expects(node), wanted.index(node["uuid"])))
        return found[:_MOST_NODES]

    def _named(self, named: str | None) -> Iterator[Row]:
        if named:
            read = functools.partial(nodes.get, ident=named, columns=_COLUMNS)
            with contextlib.suppress(errors.NodeNotFound):
                yield self._service.database.read(read)

    def _is_new(self, about: Hashable, kind: str, *, sure: bool = False) -> bool:
        """Return whether to leave a trace, and count it.

        :param sure: the first trace about this is new, however many others there are.
        """
        key = about, kind
        spent = self._traced.count("") >= MOST_TRACES and not (
            sure and not self._traced.count(about)
        )
        if self._traced.count(key) or spent:
            return False
        self._traced.note(key, about, "")
        if self._traced.count("") == MOST_TRACES:
            LOG.warning("%d refusals of ramdisks; more are not logged for now", MOST_TRACES)
        return True

    def _add_event(self, request: Any, node: Row, sender: str, reason: str) -> None:
        row = {
            "at": clock.now(),
            "node_uuid": node["uuid"],
            "kind": "agent_refused",
            **request.who.recorded(),
            "data": {**history.standing_of(node), "address": sender, "reason": reason},
        }
        self._service.database.write(lambda conn: events.add(conn, [row]))


def _expects(node: Row) -> bool:
    return states.kind(State(node["provision_state"])) in _EXPECTING


def _reason(why: Exception) -> tuple[str, str]:
    """Return the text of a reason, and its kind, which does not depend on the sender."""
    cause = why.__cause__
    if isinstance(cause, RefusalReason):
        text = str(cause)
        kind = _UUID.sub("", text)
    elif isinstance(why, refusals.Refusal):
        text = kind = f"{why.status} {HTTPStatus(why.status).phrase}"
    else:
        kind = f"{type(why).__name__} {getattr(why, 'facts', {}).get('path')}"
        text = str(why)
    return (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."), kind


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
        self._failures = Failures(clock)

    def key(self, environ: Json, name: str) -> Key:
        """Return the key that a request counts under.

        :param name: as `Unauthenticated.named` returns it.
        """
        proxied = self._conf.api.enable_proxy_headers_parsing
        source = http_request.client_network(http_request.client_address(environ, proxied=proxied))
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
        self.refused = RefusedAgents(service)

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
