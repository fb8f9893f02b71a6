"""Delivery of events to webhooks: in order, at least once, each webhook by one conductor.

The bounds of a delivery are written before its first try, so a conductor that takes the webhook
over sends the same delivery under the same id. A result is written only if the row is as it was
read: a request that pauses, replays or changes a webhook wins over a try that is under way.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import http.client
import logging
import ssl
import threading
import urllib.parse
from http import HTTPStatus
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.engine.runtime import Runtime
from ironic_lite.conductor.service import ConductorService, FeatureWork
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.conductor.watch.sweep_threads import Sweep
from ironic_lite.core import bounded_http, clock, context, log_lines, masking, metrics, networks
from ironic_lite.core.json_types import Json, Row
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events
from ironic_lite.domain import history
from ironic_lite.features.webhooks import rows, rules
from ironic_lite.features.webhooks.rules import State
from ironic_lite.feed import Event, Filter, Tail
from ironic_lite.images import download

LOG = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two sweeps."""
_IN_A_ROW = 50
"""Deliveries of one webhook before its thread ends; the next sweep continues."""
_LOOKS = 20
_CONNECT_SECONDS = 5.0
_SECONDS = 15.0
"""Limit of a try, from the start of the connection to the last byte that is read."""
_ANSWER_BYTES = 4096
_HEAD_BYTES = 64 * 1024
_SHOWN = 500
_FAR = 1000
"""Event numbers without a matching event after which the position is written."""


class Answer(NamedTuple):
    """The result of a try: the status, None without an answer; a reason; the Retry-After header."""

    status: int | None
    text: str
    retry_after: str | None = None

    @property
    def accepted(self) -> bool:
        """True if the receiver has taken the delivery."""
        return self.status is not None and (
            HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES
        )


class WebhookWork(FeatureWork):
    """Delivers the webhooks that this conductor is responsible for.

    Each webhook with a delivery under way has a thread, so a slow receiver or a slow resolver of
    names delays only its own events. There are at most `domain.webhooks.MOST`.
    """

    def __init__(
        self, runtime: Runtime, ownership: Ownership, *, seconds: float = _SECONDS
    ) -> None:
        """Prepare; nothing is read yet.

        :param seconds: limit of a try.
        """
        self._runtime, self._ownership, self._seconds = runtime, ownership, seconds
        self._tail = Tail(runtime.database, kept=0)
        self._guard = threading.Lock()
        self._busy: set[str] = set()
        self._mine: list[Row] = []
        self._complaints = log_lines.LogThrottle()

    def sweeps(self) -> list[Sweep]:
        """Return the sweep, which never runs if webhooks are not enabled."""
        interval = INTERVAL if self._runtime.conf.webhooks.enabled else 0.0
        return [Sweep("webhooks", interval, self.sweep)]

    def gauges(self) -> Json:
        """Return the values of this conductor's webhooks, by metric."""
        mine = self._mine
        states = [
            {"state": str(state), "value": sum(row["state"] == state for row in mine)}
            for state in State
        ]
        settled = self._tail.settled
        behind = [
            {"webhook": row["uuid"], "value": max(0, settled - row["position"])} for row in mine
        ]
        return {"webhooks": states, "webhook_behind": behind}

    def sweep(self) -> None:
        """Start the deliveries that are due: one statement if there is no webhook."""
        self._mine = self._ownership.share(self._runtime.database.read(rows.every))
        if not any(row["state"] == State.ACTIVE for row in self._mine):
            return
        for _ in range(_LOOKS):
            if not self._tail.look().more:
                break
        for row in self._mine:
            if _is_due(row):
                self._start(row)

    def _start(self, row: Row) -> None:
        uuid: str = row["uuid"]
        with self._guard:
            if uuid in self._busy or len(self._busy) >= rules.MOST:
                return
            self._busy.add(uuid)
        thread = threading.Thread(
            target=self._deliver_all, args=(uuid,), name=f"webhook {uuid}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left: the next sweep tries again
            with self._guard:
                self._busy.discard(uuid)
            raise

    def _deliver_all(self, uuid: str) -> None:
        try:
            for _ in range(_IN_A_ROW):
                # The row of the sweep may be older than the last delivery of another thread.
                row = self._runtime.database.read(functools.partial(rows.get, uuid=uuid))
                if self._runtime.draining.is_set() or not _is_due(row) or not self.deliver(row):
                    return
        except errors.NotFound:
            LOG.info("Webhook %s was removed", uuid)
        except errors.Error as why:
            if self._complaints.new(f"{uuid} {type(why).__name__}"):
                LOG.warning("Webhook %s will be served again later: %s", uuid, why)
        except Exception as why:
            if self._complaints.new(f"{uuid} {type(why).__name__}"):
                LOG.exception("Webhook %s will be served again later", uuid)
        finally:
            with self._guard:
                self._busy.discard(uuid)

    def deliver(self, row: Row) -> bool:
        """Try one delivery of a webhook; return whether another one may follow at once."""
        if row["first"] is None and not self._begin(row):
            return False
        events = self._page(row, row["last"])
        if not events:  # removed from the database meanwhile
            return self._change(row, {**rows.BLANK, "position": row["last"]})
        body = rules.body(row["position"], row["last"], [one.document for one in events])
        answer = self._send(row, body)
        metrics.BOARD.count("webhook_deliveries_total", "ok" if answer.accepted else "failed")
        return self.record(row, answer)

    def _begin(self, row: Row) -> bool:
        """Write the bounds of the next delivery; return False without an event."""
        settled = self._tail.settled
        events = self._page(row, settled)
        if not events:
            if settled > row["position"] + _FAR:
                self._change(row, {"position": settled})
            return False
        last = events[rules.portion([one.line for one in events]) - 1].id
        return self._change(row, {**rows.BLANK, "first": events[0].id, "last": last})

    def _page(self, row: Row, upto: int) -> list[Event]:
        nodes, kinds = row["nodes"], row["kinds"]
        choice = Filter(
            nodes=None if nodes is None else frozenset(nodes),
            kinds=None if kinds is None else frozenset(kinds),
        )
        most = rules.MOST_EVENTS
        return list(self._tail.page(choice, after=row["position"], upto=upto, limit=most))

    def record(self, row: Row, answer: Answer) -> bool:
        """Write the result of a try; return whether another delivery may follow at once."""
        answer = answer._replace(text=masking.PROSE(answer.text)[:_SHOWN])
        if answer.accepted:
            return self._change(row, {**_delivered(row), "last_status": answer.status})
        now, tries = clock.now(), row["tries"] + 1
        since = row["failing_since"] or now
        refusals = row["refusals"] + rules.refuses(answer.status)
        failed: Json = {"last_status": answer.status, "last_error": answer.text}
        if refusals >= rules.MOST_REFUSALS:
            if self._complaints.new(row["uuid"]):  # the receiver may refuse each one
                LOG.error("Webhook %s: a delivery was refused and is put aside", row["uuid"])
            return self._change(row, {**_delivered(row), **failed}, aside=answer)
        pause = rules.delay(tries, answer.retry_after)
        failed |= {
            "tries": tries,
            "refusals": refusals,
            "failing_since": since,
            "not_before": now + datetime.timedelta(seconds=pause),
        }
        gone = answer.status == HTTPStatus.GONE
        if gone or clock.lived(since) >= rules.SUSPENDED_AFTER:
            LOG.error("Webhook %s is suspended: %s", row["uuid"], answer.text)
            failed["state"] = str(State.SUSPENDED)
        self._change(row, failed)
        return False

    def _change(self, row: Row, values: Json, aside: Answer | None = None) -> bool:
        """Write changes of a webhook, here as well; return False if it was changed by a request."""

        def write(conn: Connection) -> bool:
            changed = rows.change(conn, row, values)
            if changed and "state" in values:
                about = {"changed": ["state"], "state": values["state"]}
                who = context.internal("webhooks")
                events.add(conn, [history.resource_event_row(who, "webhook_updated", row, about)])
            if changed and aside is not None:
                bounds = {name: row[name] for name in ("position", "first", "last")}
                outcome = {"status": aside.status, "answer": aside.text}
                rows.put_aside(
                    conn, {"webhook_uuid": row["uuid"], "at": clock.now(), **bounds, **outcome}
                )
            return changed

        changed = self._runtime.database.write(write)
        if changed:
            row.update(values, generation=row["generation"] + 1)
        return changed

    def _send(self, row: Row, body: bytes) -> Answer:
        now = clock.now()
        ident = rules.delivery_id(row)
        timestamp = int(now.replace(tzinfo=datetime.UTC).timestamp())
        used = rules.signing(row["secret"], now)
        headers = rules.headers(used, ident, timestamp, body)
        try:
            return post(row["url"], headers, body, self._runtime.conf, self._seconds)
        except bounded_http.AddressRefused as why:
            return Answer(None, str(why))
        except ssl.SSLCertVerificationError as why:
            advice = "[DEFAULT]webserver_verify_ca names the trusted authorities"
            return Answer(None, f"certificate refused: {why.verify_message}; {advice}")
        except errors.Error as why:
            return Answer(None, why.message)
        except (OSError, http.client.HTTPException, ValueError) as why:
            return Answer(None, f"no answer: {type(why).__name__}")


def _is_due(row: Row) -> bool:
    if row["state"] != State.ACTIVE:
        return False
    at, now = row["not_before"], clock.now()
    if at is None or at <= now:
        return True
    # A time further away was written by a clock that was ahead of this one.
    return bool(at - now > rules.longest_delay(row["tries"], row["last_status"]))


def _delivered(row: Row) -> Json:
    done = {"position": row["last"], "failing_since": None, "last_error": None}
    return {**rows.BLANK, **done}


def judge(address: str, conf: Configuration) -> None:
    """Refuse an IP address to which no webhook may be delivered.

    :raises bounded_http.AddressRefused: naming the option.
    """
    settings = conf.webhooks
    net = networks.containing(address, networks.parse(settings.blocked_networks))
    if net is not None:
        raise bounded_http.AddressRefused(
            f"{address} is in {net}, closed by [webhooks]blocked_networks"
        )
    if not networks.may_manage(address, settings.allowed_networks):
        raise bounded_http.AddressRefused(
            f"{address} is not in the networks of [webhooks]allowed_networks"
        )


def post(
    url: str, headers: dict[str, str], body: bytes, conf: Configuration, seconds: float
) -> Answer:
    """Send one delivery; redirections are not followed, and no proxy is used.

    The address judged is the one connected to, so a name with changing addresses gains nothing.

    :param seconds: limit of the whole exchange.
    :raises OSError, http.client.HTTPException: there is no answer in time.
    """
    fault = rules.url_fault(url, allow_http=conf.webhooks.allow_http)
    if fault is not None:
        return Answer(None, f"url: {fault}")
    where = urllib.parse.urlsplit(url)
    tls = download.trusted_tls(conf.webserver_verify_ca) if where.scheme == "https" else None
    size = _HEAD_BYTES + _ANSWER_BYTES
    limits = bounded_http.Limits(connect=_CONNECT_SECONDS, whole=seconds, last=seconds, size=size)
    connection = bounded_http.Connection(
        where.hostname or "",
        where.port,
        limits=limits,
        judge=functools.partial(judge, conf=conf),
        tls=tls,
    )
    target = urllib.parse.urlunsplit(("", "", where.path or "/", where.query, ""))
    with contextlib.closing(connection):
        answer = connection.exchange("POST", target, headers, body)
        after = answer.headers.get("Retry-After")
        found = Answer(answer.status, f"status {answer.status}", after)
        return found if found.accepted else found._replace(text=_beginning(answer))


def _beginning(answer: http.client.HTTPResponse) -> str:
    """Return the status and the first characters of a body, as far as it arrives in time."""
    body = b""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        while len(body) < _SHOWN and (part := answer.read1(_SHOWN - len(body))):
            body += part
    text = "".join(one if one.isprintable() else " " for one in body.decode("utf-8", "replace"))
    return f"status {answer.status} {text}".strip()


def extend(service: ConductorService) -> WebhookWork:
    """Return the deliverer of a conductor."""
    return WebhookWork(service.runtime, service.ownership)
