"""Traces of refused ramdisks, whose answers must not say why: a warning, and an event of the node.

A refused ramdisk shows its operator nothing, and its node waits until its time-out. Senders need
no login, so traces are limited: one in ten minutes for each node, or each sender that names no
node, and reason. The first trace of a wait is left in any case.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.auth import failures
from ironic_lite.api.service import Service
from ironic_lite.api.wire import client_address, refusals
from ironic_lite.core import clock, log_lines
from ironic_lite.core.json_types import Row
from ironic_lite.db.queries import events, nodes
from ironic_lite.domain import history, states
from ironic_lite.domain.states import Kind, State

LOG = logging.getLogger(__name__)

_SECONDS = 600.0
MOST = 600
"""Most traces of a process in this time."""
_MOST_NODES = 5
"""Most nodes of one trace: addresses may belong to several."""
_MOST_READ = 100
"""Most nodes that are read to find those that wait."""
_LONGEST = 400  # characters of a reason
_EXPECTING = frozenset({Kind.WAIT, Kind.BUSY, Kind.HELD})
_UUID = re.compile(r"[0-9a-f-]{36}")
_COLUMNS = ("uuid", *history.STANDING)


class Reason(Exception):
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
        self._traced = failures.Failures(now, _SECONDS)

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
        sender = client_address.of(request.environ, proxied=proxied)
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
        if not found and self._is_new(client_address.network(sender), kind):
            about = f" as {log_lines.path(named)}" if named else ""
            LOG.warning("A ramdisk at %s%s was refused: %s", sender, about, reason)

    def _nodes(self, named: str | None, why: Exception) -> list[Row]:
        """Return the nodes of a trace: a node that waits, and the named one, before others."""
        cause = why.__cause__
        wanted = cause.nodes if isinstance(cause, Reason) else ()
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
        spent = self._traced.count("") >= MOST and not (sure and not self._traced.count(about))
        if self._traced.count(key) or spent:
            return False
        self._traced.note(key, about, "")
        if self._traced.count("") == MOST:
            LOG.warning("%d refusals of ramdisks; more are not logged for now", MOST)
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
    if isinstance(cause, Reason):
        text = str(cause)
        kind = _UUID.sub("", text)
    elif isinstance(why, refusals.Refusal):
        text = kind = f"{why.status} {HTTPStatus(why.status).phrase}"
    else:
        kind = f"{type(why).__name__} {getattr(why, 'facts', {}).get('path')}"
        text = str(why)
    return (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."), kind
