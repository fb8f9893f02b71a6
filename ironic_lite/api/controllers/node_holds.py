"""Holds: typed reasons to leave nodes alone, each with its own end.

Ironic does not have holds: every version of this API has them. Whether a node is held is read with
the node (the column ``held`` of ``db.queries.nodes.get``), so requests for a node without holds
cost no further statement. The conductor checks again under the node's lock.
"""

from __future__ import annotations

import collections
import datetime
import functools
import uuid
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import idempotency, node_lookup, pages, queries
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, shapes
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, nodes
from ironic_lite.db.queries import holds as hold_rows
from ironic_lite.domain import history, holds, states
from ironic_lite.domain.erasure_records import DECLARED, DataState
from ironic_lite.domain.holds import Hold

_LONGEST = 255


READ = "baremetal:node:hold:get"
"""The rule for reading the holds of a caller's own project, and their reasons."""


def reads_reason(request: Request, row: JsonView) -> bool:
    """Return whether the caller may read the reason of a hold; ``row`` has `holds.PROJECTS`."""
    mine = request.access.project is not None and row["project"] == request.access.project
    return mine or request.access.reads(READ, row)


def reader(request: Request) -> str | None:
    """Return the project to whose holds the reasons are bound that the caller reads; None: all."""
    every = request.access.own_sides(READ) is None
    return None if every else request.access.project or ""


def of(service: Service, request: Request, node: JsonView) -> list[Hold]:
    """Return the holds in force as the caller reads them: no statement if the node has none.

    :param node: with uuid and ``held``.
    """
    if not node["held"]:
        return []
    project = reader(request)
    return service.database.read(lambda conn: hold_rows.in_force(conn, node["uuid"], project))


def refuse(service: Service, request: Request, node: JsonView, operation: str, said: str) -> None:
    """Refuse an operation on a node; ``node`` as `of`, the others as ``domain.holds.refusal``.

    :raises errors.NodeHeld: a hold blocks it.
    """
    why = holds.refusal(node["uuid"], of(service, request, node), operation, said)
    if why is not None:
        raise why


def read_body(body: Any) -> Json:
    """Return the columns of a new hold that its request contains.

    :raises errors.InvalidParameter, errors.MissingParameter: with the path of the value.
    """
    shapes.check("hold", body, "", "Schema error for hold")
    if body["kind"] == holds.TRIAL:
        reason = "only an import sets holds of the kind trial"
        raise errors.InvalidParameter(path="kind", reason=reason)
    reason = rules.text(body["reason"].strip(), "reason", least=1, length=_LONGEST)
    until = body.get("until")
    if until is not None and body["kind"] == holds.OBSERVE:
        text = "a hold of the kind observe ends by request alone; leave until out"
        raise errors.InvalidParameter(path="until", reason=text)
    return {
        "kind": body["kind"],
        "reason": reason,
        "blocks": ",".join(holds.blocks_of(body["kind"], body.get("blocks"))),
        "until": None if until is None else _read_end(until),
    }


def _read_end(text: str) -> datetime.datetime:
    """Return the end of a hold, naive UTC; a time without an offset is UTC."""
    try:
        found = datetime.datetime.fromisoformat(text)
        at = (found.astimezone(datetime.UTC) if found.tzinfo else found).replace(tzinfo=None)
    except (ValueError, OverflowError):
        reason = f"{text!r} is not a time of ISO 8601, such as 2030-01-31T18:00:00Z"
        raise errors.InvalidParameter(path="until", reason=reason) from None
    if at <= clock.now():
        reason = f"{text!r} is not in the future; leave it out for a hold without an end"
        raise errors.InvalidParameter(path="until", reason=reason)
    return at


MANY = "baremetal:hold:many"
_CREATE, _DELETE = "baremetal:node:hold:create", "baremetal:node:hold:delete"
_NODE = ("uuid", *history.STANDING, *masking.TEXT_FIELDS)


class Holds(expose.Controller):
    """The holds of a node, and those of all nodes."""

    @expose.expose("GET", "/nodes/{ident}/holds", raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return a page of a node's holds in force, the oldest first: two statements.

        With ``ended``, those that have ended are in the list, too.
        """
        query = pages.query(self.service, request, queries.NODES_HOLDS)
        node, own = node_lookup.fetch_beside(self.service, request, ident, ("uuid",), READ)
        return self._page(request, query, {**query.where, **own, "node_uuid": node["uuid"]})

    @expose.expose("GET", "/holds", raw_query=True)
    def fleet(self, request: Request) -> Json:
        """Return a page of the holds of all nodes: one statement, and one for ``node``."""
        query = pages.query(self.service, request, queries.HOLDS)
        where = node_lookup.where_visible(self.service, request, query.where)
        return self._page(request, query, where)

    def _page(self, request: Request, query: queries.Query, where: Json) -> Json:
        where.setdefault("ended", False)
        columns = (*query.fields, *(name for name in _NEEDED if name not in query.fields))
        rows = self.service.database.read(
            lambda conn: hold_rows.page(conn, columns=columns, where=where, **query.place)
        )
        now = clock.now()
        for row in rows:
            if not reads_reason(request, row):
                row["reason"] = None
        documents = [holds.document(row, now) for row in rows]
        shown = [{name: each[name] for name in query.fields} for each in documents]
        return pages.body(request, query, "holds", shown, [row["uuid"] for row in rows])

    @expose.expose("POST", "/nodes/{ident}/holds", status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request, ident: str) -> Json:
        """Hold a node; work that is under way goes on."""
        given = read_body(request.json)
        if given["kind"] == holds.OBSERVE:
            request.access.demand(MANY)
        named = (_CREATE, *request.access.written([f"{_CREATE}:{given['kind']}"]))
        node = node_lookup.fetch(self.service, request, ident, ("uuid",), rules=named)
        row: Json = {
            **dict.fromkeys(hold_rows.COLUMNS[1:]),
            **given,
            "uuid": idempotency.subject_uuid(request),
            "node_uuid": node["uuid"],
            "created_at": clock.now(),
            "created_by": request.who.user,
            "project": request.who.project,
        }

        def write(conn: Connection) -> None:
            # The row of the node is locked, so that the number of holds stays below the limit, and
            # a conductor takes the node's lock before the hold or sees it.
            standing = nodes.get(conn, node["uuid"], _NODE, lock_row=True)
            row["reason"] = masking.mask_of_node(standing, prose=True)(row["reason"])
            hold_rows.add(conn, row)
            events.add(conn, [_event(request, "hold_added", row, standing)])

        idempotency.write_change(self.service, request, write)
        shown = {name: value for name, value in row.items() if name not in OWNERS}
        return holds.document(shown, clock.now())

    @expose.expose("DELETE", "/nodes/{ident}/holds/{hold}", status=HTTPStatus.NO_CONTENT)
    def end(
        self,
        request: Request,
        ident: str,
        hold: str,
        reason: str | None = None,
        unread: bool = False,
    ) -> None:
        """End a hold; one that has ended stays as it is.

        :param unread: end one of the kind observe although the power was never read.
        """
        node = node_lookup.fetch(self.service, request, ident, ("uuid",))
        if not rules.uuid_like(hold):
            raise errors.NotFound(what="Hold", ident=hold)
        known = rules.uuid(hold, "hold")
        if reason is not None:
            rules.text(reason, "reason", length=_LONGEST)
        at = clock.now()
        ended: Json = {"ended_at": at, "ended_by": request.who.user, "end_reason": None}

        def write(conn: Connection) -> None:
            standing = nodes.get(conn, node["uuid"], _NODE, lock_row=True)
            if reason:
                ended["end_reason"] = masking.mask_of_node(standing, prose=True)(reason)
            row = hold_rows.get(conn, node["uuid"], known)
            if holds.document(row, at)["ended_at"] is not None:
                return
            if row["kind"] == holds.TRIAL:
                raise errors.TrialImport
            if row["kind"] == holds.OBSERVE:
                request.access.demand(MANY)
                if not unread and hold_rows.is_unread(conn, node["uuid"]):
                    raise errors.PowerUnread(node=node["uuid"])
            if hold_rows.end(conn, known, ended):
                why = {**row, "reason": ended["end_reason"]}
                events.add(conn, [_event(request, "hold_ended", why, standing)])

        idempotency.write_change(self.service, request, write)

    @expose.expose("POST", "/holds", body=expose.WHOLE)
    def create_many(self, request: Request) -> Json:
        """Hold nodes that have no hold of this kind in force, by one transaction."""
        shapes.check("holds", request.json, "", "Schema error for holds")
        where, limit = self._selection(request)
        if request.json["kind"] not in holds.KINDS:
            reason = f"a request for many nodes takes the kinds {', '.join(holds.KINDS)}"
            raise errors.InvalidParameter(path="kind", reason=reason)
        given = read_body({name: request.json[name] for name in ("kind", "reason")})
        for rule in (_CREATE, *request.access.written([f"{_CREATE}:{given['kind']}"])):
            request.access.demand(rule)
        same: Json = {
            **dict.fromkeys(hold_rows.COLUMNS[1:]),
            **given,
            "created_at": clock.now(),
            "created_by": request.who.user,
            "project": request.who.project,
        }

        def write(conn: Connection) -> Json:
            such = {"kind": same["kind"], "until": None}
            found = hold_rows.without(conn, such, where, columns=_NODE, limit=limit)
            rows = [
                {
                    **same,
                    "uuid": str(uuid.uuid4()),
                    "node_uuid": node["uuid"],
                    "reason": masking.mask_of_node(node, prose=True)(same["reason"]),
                }
                for node in found
            ]
            if rows:
                hold_rows.add_all(conn, rows)
                pairs = zip(rows, found, strict=True)
                events.add(conn, [_event(request, "hold_added", *pair) for pair in pairs])
            more = hold_rows.without(conn, such, where, columns=("uuid",), limit=1)
            return {"held": len(rows), "left": 0, "more": bool(more)}

        return idempotency.write_change(self.service, request, write)

    @expose.expose("POST", "/holds/end", body=expose.WHOLE)
    def end_many(self, request: Request) -> Json:
        """End holds of a kind on nodes, the oldest first, by one transaction.

        Observed nodes whose power was never read are left, unless ``unread`` is true.
        """
        body = request.json
        shapes.check("holds_end", body, "", "Schema error for the end of holds")
        where, limit = self._selection(request)
        request.access.demand(_DELETE)
        if body["kind"] == holds.TRIAL:
            raise errors.TrialImport
        reason = rules.text(body["reason"].strip(), "reason", least=1, length=_LONGEST)
        such, columns = {"kind": body["kind"]}, (*_NODE, "name")
        observed = body["kind"] == holds.OBSERVE
        careful = observed and not body.get("unread", False)
        ended: Json = {"ended_at": clock.now(), "ended_by": request.who.user}

        def write(conn: Connection) -> Json:
            ask = functools.partial(hold_rows.such, conn, such, where, columns=columns)
            chosen = ask(limit=limit + 1, unread=False if careful else None, lock_rows=True)
            found, told, by_reason = chosen[:limit], [], collections.defaultdict(list)
            for hold, node in found:
                why = masking.mask_of_node(node, prose=True)(reason)
                by_reason[why].append(hold["uuid"])
                told.append(_event(request, "hold_ended", {**hold, "reason": why}, node))
            for why, uuids in by_reason.items():  # one for all nodes, unless it has a secret
                hold_rows.end_all(conn, uuids, {**ended, "end_reason": why})
            events.add(conn, told)
            left = ask(limit=limit, unread=True) if careful else []
            done = bool(told or left)
            if observed and not done and hold_rows.such(conn, _TRIAL, where, columns=(), limit=1):
                raise errors.TrialImport
            return {
                "ended": len(told),
                "left": hold_rows.count_unread(conn, such, where) if left else 0,
                "more": len(chosen) > limit,
                "nodes": [_left_node(node) for _, node in left],
            }

        answer = idempotency.write_change(self.service, request, write)
        request.call.notes[idempotency.UNSHOWN] = {**answer, "nodes": answer["nodes"][:_SHOWN]}
        return answer

    def _selection(self, request: Request) -> tuple[Json, int]:
        """Return the condition of the nodes that a request for many names, and its limit.

        :raises errors.InvalidParameter: it names none, or in two ways.
        """
        body = request.json
        named = [name for name in _SELECTIONS if name in body]
        if len(named) != 1:
            reason = f"exactly one of {', '.join(_SELECTIONS)} says which nodes are meant"
            raise errors.InvalidParameter(path=named[1] if named else "all", reason=reason)
        where: Json = {}
        if "nodes" in body:
            found = node_lookup.named_nodes(self.service, request, body["nodes"])
            where["uuid"] = [node["uuid"] for node in found]
        elif "conductor_group" in body:
            where["conductor_group"] = body["conductor_group"].lower()
        return where, body.get("limit", shapes.MOST_HELD)


_TRIAL = {"kind": holds.TRIAL}
_SHOWN = 20
"""Nodes that a repetition names of those that are left."""
_SELECTIONS = ("all", "conductor_group", "nodes")
_NEEDED = ("uuid", "blocks", "until", "ended_at", *holds.PROJECTS)


def _left_node(node: Json) -> Json:
    why = errors.PowerUnread(node=node["name"] or node["uuid"])
    return {"uuid": node["uuid"], "name": node["name"], "code": why.code, "text": why.message}


def _event(request: Request, what: str, row: Json, node: Json) -> Json:
    """Return the event of a hold's begin or end, an entry of the node's history."""
    data = holds.event_data(row, history.standing_of(node), request.who.project)
    return {**history.event_row(request.who, node["uuid"], what, data), "event": row["kind"]}


# The state of a node's data.

_DECLARED_NODE = (
    *("uuid", "generation", "data_state", "instance_uuid", "provision_state"),
    *masking.TEXT_FIELDS,
)


class DataStates(expose.Controller):
    """The declared state of a node's data."""

    @expose.expose(
        "PUT",
        "/nodes/{ident}/data_state",
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
        waits=True,
    )
    def declare(self, request: Request, ident: str) -> None:
        """Declare the state of a node's data; the reason is in the event.

        :raises errors.Conflict: the node has an instance, so its data are not gone.
        """
        shapes.check("data_state", request.json, "", "Schema error for data_state")
        reason = rules.text(request.json["reason"].strip(), "reason", least=1, length=_LONGEST)
        after = request.json["data_state"]
        node = node_lookup.fetch(self.service, request, ident, _DECLARED_NODE)
        if after == DataState.CLEAN and node["instance_uuid"] is not None:
            text = "its instance has data. Delete the instance, or remove instance_uuid, and repeat"
            raise errors.Conflict(node=node["uuid"], reason=f"{text} the request.")
        if after == DataState.CLEAN and node["provision_state"] in states.WITH_INSTANCE:
            text = f"in the state {node['provision_state']} it may have an instance with data"
            raise errors.Conflict(
                node=node["uuid"], reason=f"{text}. Undeploy or manage it, and repeat the request."
            )
        values = {"data_state": after, "data_state_at": clock.now(), "data_state_by": DECLARED}
        about = {"reason": masking.mask_of_node(node, prose=True)(reason)}
        told = history.event_row(request.who, node["uuid"], "data_state", about)
        told |= {"event": DECLARED, "before": node["data_state"] or "unknown", "after": after}

        def write(conn: Connection) -> None:
            nodes.edit(conn, node["uuid"], values, generation=node["generation"])
            events.add(conn, [told])

        idempotency.write_change(self.service, request, write)
