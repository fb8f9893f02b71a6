"""Webhooks: receivers to which conductors send events.

Ironic does not have webhooks: every version of this API has them.
"""

from __future__ import annotations

import datetime
import ipaddress
import urllib.parse
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypedDict

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy import SYSTEM, Rule
from ironic_lite.api.policy.node_rules import ADMIN
from ironic_lite.api.resources import idempotency, node_lookup, patches
from ironic_lite.api.service import Extension, Service
from ironic_lite.api.validation import rules, shapes
from ironic_lite.core import clock, masking, networks
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events
from ironic_lite.domain import history, notifications
from ironic_lite.features.webhooks import rows
from ironic_lite.features.webhooks import rules as webhook_rules
from ironic_lite.features.webhooks.rules import State

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

_LEAD = "Schema error for webhook"

_WEBHOOK_KEYS: Json = {
    "url": {"type": "string", "minLength": 1, "maxLength": 1024},
    "kinds": {
        "type": ["array", "null"],
        "items": {"enum": list(notifications.KINDS)},
        "minItems": 1,
        "maxItems": 50,
    },
    "nodes": {
        "type": ["array", "null"],
        "items": {"type": "string", "minLength": 1, "maxLength": 255},
        "minItems": 1,
        "maxItems": 50,
    },
}
shapes.SCHEMAS["webhook"] = shapes.closed(
    ("url",),
    **_WEBHOOK_KEYS,
    since=shapes.text(r"^(now|[0-9]{1,18})\Z", "a cursor, 0 or now"),
)
shapes.SCHEMAS["webhook_change"] = shapes.closed(
    **_WEBHOOK_KEYS, state={"enum": ["active", "paused"]}
)
shapes.SCHEMAS["webhook_replay"] = {
    "type": "object",
    "properties": {
        "since": shapes.text(r"^[0-9]{1,18}\Z", "a cursor, or 0"),
        "failed": {"type": "integer", "minimum": 1, "maximum": 2**62},
    },
    "minProperties": 1,
    "maxProperties": 1,
    "description": "an object with since or failed, not both",
    "additionalProperties": False,
}


class Webhook(TypedDict):
    """A webhook; its secret is shown once, and masked afterwards."""

    uuid: str
    url: str
    kinds: list[str] | None
    nodes: list[str] | None
    state: State
    failing_since: datetime.datetime | None
    last_status: int | None
    last_error: str | None
    created_by: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    cursor: str
    secret: str


class WebhookList(TypedDict):
    """All webhooks."""

    webhooks: list[Webhook]


class FailedDelivery(TypedDict):
    """A delivery that was put aside, with its first and last cursor."""

    id: int
    first: str
    last: str
    status: int | None
    answer: str | None
    at: datetime.datetime


class FailedDeliveries(TypedDict):
    """The deliveries of a webhook that were put aside."""

    failed: list[FailedDelivery]


class Webhooks(expose.Controller):
    """/v1/webhooks, for administrators: the receiver of a webhook sees the events of all nodes."""

    @expose.expose("GET", "/webhooks")
    def index(self, _request: Request) -> WebhookList:
        """Return all webhooks, the oldest first."""
        return {"webhooks": [_document(row) for row in self.service.database.read(rows.every)]}

    @expose.expose("GET", "/webhooks/{ident}")
    def show(self, _request: Request, ident: str) -> Webhook:
        """Return one webhook."""
        uuid = _known(ident)
        return _document(self.service.database.read(lambda conn: rows.get(conn, uuid)))

    @expose.expose("GET", "/webhooks/{ident}/failed")
    def failed(self, _request: Request, ident: str) -> FailedDeliveries:
        """Return the deliveries of a webhook that were put aside, the oldest first."""
        uuid = _known(ident)

        def read(conn: Connection) -> list[Json]:
            rows.get(conn, uuid)
            return rows.failures(conn, uuid)

        return {"failed": [_failure(row) for row in self.service.database.read(read)]}

    @expose.expose("POST", "/webhooks", status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Webhook:
        """Add a webhook and return it with its secret, which is not shown again."""
        given = request.json
        shapes.check("webhook", given, "", _LEAD)
        values = self._values(request, given)
        row: Json = {
            **dict.fromkeys(rows.COLUMNS[1:]),
            **rows.BLANK,
            **values,
            "uuid": idempotency.subject_uuid(request),
            "secret": {"current": webhook_rules.new_secret()},
            "state": str(State.ACTIVE),
            "generation": 1,
            "position": self._start(given.get("since", "now")),
            "created_by": request.who.user,
            "created_at": clock.now(),
        }

        def work(conn: Connection) -> None:
            rows.add(conn, row)
            events.add(conn, [history.resource_event_row(request.who, "webhook_created", row)])

        idempotency.write_change(self.service, request, work)
        location = f"{request.base}/v1/webhooks/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return _document(row, row["secret"]["current"])

    @expose.expose("PATCH", "/webhooks/{ident}", body=expose.WHOLE)
    def change(self, request: Request, ident: str) -> Webhook:
        """Change a webhook; a patch that removes the secret makes a new one and shows it once."""
        uuid, given = _known(ident), _read_patch(request.json, request.version)
        renew = "secret" in given
        wanted = {name: value for name, value in given.items() if name != "secret"}
        shapes.check("webhook_change", wanted, "", _LEAD)
        values = self._values(request, wanted)
        if "state" in wanted:
            values["state"] = wanted["state"]

        def work(conn: Connection) -> Json:
            row = rows.get(conn, uuid, lock_row=True)
            changed = {**values, "updated_at": clock.now()}
            if values.get("state") == State.ACTIVE or "url" in values:
                changed |= {"failing_since": None, "not_before": None, "tries": 0, "refusals": 0}
            if "kinds" in values or "nodes" in values:
                changed |= rows.BLANK
            if renew:
                changed["secret"] = webhook_rules.replaced(row["secret"], clock.now())
            if not rows.change(conn, row, changed):
                raise errors.WebhookChanged(webhook=uuid)
            _record_change(conn, request, row, given)
            return {**row, **changed}

        row = idempotency.write_change(self.service, request, work)
        return _document(row, row["secret"]["current"] if renew else masking.MASK)

    @expose.expose(
        "POST",
        "/webhooks/{ident}/replay",
        status=HTTPStatus.ACCEPTED,
        body=expose.WHOLE,
    )
    def replay(self, request: Request, ident: str) -> Webhook:
        """Set the cursor of a webhook back: to an earlier cursor, or before a failed delivery."""
        uuid, given = _known(ident), request.json
        shapes.check("webhook_replay", given, "", _LEAD)

        def work(conn: Connection) -> Json:
            row = rows.get(conn, uuid, lock_row=True)
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

        return _document(idempotency.write_change(self.service, request, work))

    @expose.expose("DELETE", "/webhooks/{ident}", status=HTTPStatus.NO_CONTENT)
    def remove(self, request: Request, ident: str) -> None:
        """Remove a webhook; a delivery under way may still arrive."""
        uuid = _known(ident)

        def work(conn: Connection) -> None:
            rows.remove(conn, uuid)
            gone = {"uuid": uuid}
            events.add(conn, [history.resource_event_row(request.who, "webhook_deleted", gone)])

        idempotency.write_change(self.service, request, work)

    def _start(self, since: str) -> int:
        """Return the position of a new webhook."""
        tail = self.service.tail
        tail.look()
        if since == "now":
            return tail.settled
        if int(since) > tail.head:
            head = self.service.database.read(events.head)
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
                chosen = node_lookup.named_nodes(self.service, request, nodes)
                nodes = list(dict.fromkeys(row["uuid"] for row in chosen))
            found["nodes"] = nodes
        return found

    def _check_url(self, url: str) -> None:
        """Refuse a URL at once whose deliveries would be refused later."""
        settings = self.service.conf.webhooks
        reason = webhook_rules.url_fault(url, allow_http=settings.allow_http)
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
    events.add(conn, [history.resource_event_row(request.who, "webhook_updated", row, about)])


def _document(row: JsonView, secret: str = masking.MASK) -> Webhook:
    return {
        "uuid": row["uuid"],
        "url": row["url"],
        "kinds": row["kinds"],
        "nodes": row["nodes"],
        "state": row["state"],
        "failing_since": row["failing_since"],
        "last_status": row["last_status"],
        "last_error": row["last_error"],
        "created_by": row["created_by"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "cursor": str(row["position"]),
        "secret": secret,
    }


def _failure(row: JsonView) -> FailedDelivery:
    return {
        "id": row["id"],
        "first": str(row["first"]),
        "last": str(row["last"]),
        "status": row["status"],
        "answer": row["answer"],
        "at": row["at"],
    }


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


_MOST_BEHIND = 1000


def attention(service: Service, request: Request) -> list[Json] | None:
    """Return the webhooks that are suspended, or far behind."""
    if not request.access.allows("baremetal:webhook:get"):
        return None
    return service.database.read(lambda conn: rows.late(conn, _MOST_BEHIND))


def _answers() -> Mapping[str, Schemas]:
    from ironic_lite.api.openapi.parts import Schemas  # noqa: PLC0415

    conflict = (HTTPStatus.CONFLICT,)
    patch = {"type": "array", "items": {"type": "object"}}
    created = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)
    return {
        "POST /webhooks": Schemas(takes=shapes.schema("webhook"), refusals=created),
        "PATCH /webhooks/{ident}": Schemas(takes=patch, refusals=conflict),
        "POST /webhooks/{ident}/replay": Schemas(
            takes=shapes.schema("webhook_replay"), refusals=conflict
        ),
    }


EXTENSION = Extension(
    (Webhooks,),
    (
        Rule(
            "baremetal:webhook:get",
            ADMIN,
            "Show webhooks and their failed deliveries.",
            ("GET /webhooks", "GET /webhooks/{ident}", "GET /webhooks/{ident}/failed"),
            scope=SYSTEM,
        ),
        Rule(
            "baremetal:webhook:create",
            ADMIN,
            "Add webhooks, which receive the events of all nodes.",
            ("POST /webhooks",),
            scope=SYSTEM,
        ),
        Rule(
            "baremetal:webhook:update",
            ADMIN,
            "Change webhooks, and send their events again.",
            ("PATCH /webhooks/{ident}", "POST /webhooks/{ident}/replay"),
            scope=SYSTEM,
        ),
        Rule(
            "baremetal:webhook:delete",
            ADMIN,
            "Remove webhooks.",
            ("DELETE /webhooks/{ident}",),
            scope=SYSTEM,
        ),
    ),
    _answers,
    attention={"webhooks": attention},
)
