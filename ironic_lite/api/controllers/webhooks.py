"""Webhooks: receivers to which conductors send events.

Ironic does not have webhooks: every version of this API has them.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.resources import changes, node_lists, patches
from ironic_lite.api.validation import rules, shapes, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock, networks
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, feed
from ironic_lite.db.queries import webhooks as rows
from ironic_lite.domain import event_rows, webhooks
from ironic_lite.domain.webhooks import State

_HIDDEN = "******"
_PLAIN = (
    *("uuid", "url", "kinds", "nodes", "state", "failing_since", "last_status", "last_error"),
    *("created_by", "created_at", "updated_at"),
)
_LEAD = "Schema error for webhook"


class Webhooks(expose.Controller):
    """/v1/webhooks, for administrators: the receiver of a webhook sees the events of all nodes."""

    @expose.expose("GET", "/webhooks")
    def index(self, _request: Request) -> Json:
        """Return all webhooks, the oldest first."""
        return {"webhooks": [_document(row) for row in self.service.database.read(rows.every)]}

    @expose.expose("GET", "/webhooks/{ident}", types.word)
    def show(self, _request: Request, ident: str) -> Json:
        """Return one webhook."""
        uuid = _known(ident)
        return _document(self.service.database.read(lambda conn: rows.get(conn, uuid)))

    @expose.expose("GET", "/webhooks/{ident}/failed", types.word)
    def failed(self, _request: Request, ident: str) -> Json:
        """Return the deliveries of a webhook that were put aside, the oldest first."""
        uuid = _known(ident)

        def read(conn: Connection) -> list[Json]:
            rows.get(conn, uuid)
            return rows.failures(conn, uuid)

        return {"failed": [_failure(row) for row in self.service.database.read(read)]}

    @expose.expose("POST", "/webhooks", status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Json:
        """Add a webhook and return it with its secret, which is not shown again."""
        given = request.json
        shapes.check("webhook", given, "", _LEAD)
        values = self._values(request, given)
        row: Json = {
            **dict.fromkeys(rows.COLUMNS[1:]),
            **rows.BLANK,
            **values,
            "uuid": changes.subject(request),
            "secret": {"current": webhooks.new_secret()},
            "state": str(State.ACTIVE),
            "generation": 1,
            "position": self._start(given.get("since", "now")),
            "created_by": request.who.user,
            "created_at": clock.now(),
        }

        def work(conn: Connection) -> None:
            rows.add(conn, row)
            events.add(conn, [event_rows.of_resource(request.who, "webhook_created", row)])

        changes.write(self.service, request, work)
        location = f"{request.base}/v1/webhooks/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return {**_document(row), "secret": row["secret"]["current"]}

    @expose.expose("PATCH", "/webhooks/{ident}", types.word, body=expose.WHOLE)
    def change(self, request: Request, ident: str) -> Json:
        """Change a webhook; a patch that removes the secret makes a new one and shows it once."""
        uuid, given = _known(ident), _read_patch(request.json, request.version)
        renew = "secret" in given
        wanted = {name: value for name, value in given.items() if name != "secret"}
        shapes.check("webhook_change", wanted, "", _LEAD)
        values = self._values(request, wanted)
        if "state" in wanted:
            values["state"] = wanted["state"]

        def work(conn: Connection) -> Json:
            row = rows.get(conn, uuid, hold=True)
            changed = {**values, "updated_at": clock.now()}
            if values.get("state") == State.ACTIVE or "url" in values:
                changed |= {"failing_since": None, "not_before": None, "tries": 0, "refusals": 0}
            if "kinds" in values or "nodes" in values:
                changed |= rows.BLANK
            if renew:
                changed["secret"] = webhooks.replaced(row["secret"], clock.now())
            if not rows.change(conn, row, changed):
                raise errors.WebhookChanged(webhook=uuid)
            _record_change(conn, request, row, given)
            return {**row, **changed}

        row = changes.write(self.service, request, work)
        shown = {"secret": row["secret"]["current"]} if renew else {}
        return {**_document(row), **shown}

    @expose.expose(
        "POST",
        "/webhooks/{ident}/replay",
        types.word,
        status=HTTPStatus.ACCEPTED,
        body=expose.WHOLE,
    )
    def replay(self, request: Request, ident: str) -> Json:
        """Set the cursor of a webhook back: to an earlier cursor, or before a failed delivery."""
        uuid, given = _known(ident), request.json
        shapes.check("webhook_replay", given, "", _LEAD)

        def work(conn: Connection) -> Json:
            row = rows.get(conn, uuid, hold=True)
            if "failed" in given:
                since = rows.failure(conn, uuid, given["failed"])["position"]
            else:
                since = int(given["since"])
            if since > row["position"]:
                reason = f"is above the cursor of the webhook, {row['position']}"
                raise errors.InvalidParameter(path="since", reason=reason)
            changed = {**rows.BLANK, "position": since, "updated_at": clock.now()}
            if not rows.change(conn, row, changed):
                raise errors.WebhookChanged(webhook=uuid)
            _record_change(conn, request, row, ("cursor",))
            return {**row, **changed}

        return _document(changes.write(self.service, request, work))

    @expose.expose("DELETE", "/webhooks/{ident}", types.word, status=HTTPStatus.NO_CONTENT)
    def remove(self, request: Request, ident: str) -> None:
        """Remove a webhook; a delivery under way may still arrive."""
        uuid = _known(ident)

        def work(conn: Connection) -> None:
            rows.remove(conn, uuid)
            gone = {"uuid": uuid}
            events.add(conn, [event_rows.of_resource(request.who, "webhook_deleted", gone)])

        changes.write(self.service, request, work)

    def _start(self, since: str) -> int:
        """Return the position of a new webhook."""
        tail = self.service.tail
        tail.look()
        if since == "now":
            return tail.settled
        if int(since) > tail.head:
            head = self.service.database.read(feed.head)
            if int(since) > head:
                reason = f"is above the newest event, {head}: use now or 0"
                raise errors.InvalidParameter(path="since", reason=reason)
        return int(since)

    def _values(self, request: Request, given: JsonView) -> Json:
        """Return the columns url, kinds and nodes that a body names."""
        found: Json = {}
        if "url" in given:
            self._check_url(given["url"])
            found["url"] = given["url"]
        if "kinds" in given:
            kinds = given["kinds"]
            found["kinds"] = None if kinds is None else list(dict.fromkeys(kinds))
        if "nodes" in given:
            nodes = given["nodes"]
            if nodes is not None:
                chosen = node_lists.named(self.service, request, nodes)
                nodes = list(dict.fromkeys(row["uuid"] for row in chosen))
            found["nodes"] = nodes
        return found

    def _check_url(self, url: str) -> None:
        """Refuse a URL at once whose deliveries would be refused later."""
        settings = self.service.conf.webhooks
        reason = webhooks.url_fault(url, allow_http=settings.allow_http)
        if reason is None:
            host = urllib.parse.urlsplit(url).hostname or ""
            try:
                ipaddress.ip_address(host)
            except ValueError:  # a name, judged by the address that it has when it is connected to
                return
            blocked = networks.parse(settings.blocked_networks)
            closed = networks.containing(host, blocked) is not None
            if closed or not networks.may_manage(host, settings.allowed_networks):
                reason = (
                    f"{host} is closed by [webhooks]blocked_networks, or not in the networks of "
                    "[webhooks]allowed_networks"
                )
        if reason is not None:
            raise errors.InvalidParameter(path="url", reason=reason)


def _known(ident: str) -> str:
    if not rules.uuid_like(ident):
        raise errors.NotFound(what="Webhook", ident=ident)
    return rules.uuid(ident, "webhook")


def _record_change(
    conn: Connection, request: Request, row: JsonView, changed: Iterable[str]
) -> None:
    """Add the event of a changed webhook, without its URL, which may contain a secret."""
    about = {"changed": sorted(changed)}
    events.add(conn, [event_rows.of_resource(request.who, "webhook_updated", row, about)])


def _document(row: JsonView) -> Json:
    return {
        **{name: row[name] for name in _PLAIN},
        "cursor": str(row["position"]),
        "secret": _HIDDEN,
    }


def _failure(row: JsonView) -> Json:
    names = ("first", "last")
    bounds = {name: str(row[name]) for name in names}
    return {"id": row["id"], **bounds, **{name: row[name] for name in ("status", "answer", "at")}}


def _read_patch(body: Any, version: int) -> Json:
    """Return the new values of a JSON PATCH by field.

    :raises errors.InvalidParameter: an operation is malformed, or on an unknown field.
    """
    found: Json = {}
    for place, one in enumerate(patches.check_form(body, version=version)):
        if one.root not in ("url", "kinds", "nodes", "state", "secret") or not one.whole:
            reason = "url, kinds, nodes, state and secret can be changed, each as a whole"
            raise errors.InvalidParameter(path=f"{place}/path", reason=reason)
        if one.root in ("url", "state") and one.op == "remove":
            reason = f"{one.root} cannot be removed"
            raise errors.InvalidParameter(path=f"{place}/op", reason=reason)
        if one.root == "secret" and one.op != "remove":
            reason = "remove the secret to get a new one; it cannot be chosen"
            raise errors.InvalidParameter(path=f"{place}/op", reason=reason)
        found[one.root] = None if one.op == "remove" else one.value
    return found
