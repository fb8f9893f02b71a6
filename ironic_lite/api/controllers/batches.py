"""Batches: one request for many nodes, in waves, with a bounded number of failures.

Ironic does not have batches: every version of this API has them. The conductors carry them out.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from http import HTTPStatus
from typing import cast

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.policy import NODE
from ironic_lite.api.policy.access import OWNERS, target
from ironic_lite.api.resources import (
    batch_changes,
    batch_plans,
    batch_requests,
    changes,
    pages,
    queries,
)
from ironic_lite.api.validation import rules, shapes, types
from ironic_lite.api.watching import waits
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.later import Suspension
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batch_owners, batches, events, nodes
from ironic_lite.domain import batches as core
from ironic_lite.domain.batches import BatchState, NodeState

_LIMIT = 8 * 1024  # KiB of a body, which may have a configdrive
_FIRST = 20  # nodes of the first wave that a plan names
_EPOCH, _MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
_NO_TIME = datetime.timedelta()
_PAUSE = 1.0  # seconds between two looks of a request that waits
_OPTIONS = ("waves", "concurrency", "on_failures", "between_waves")
_WITHOUT_REQUEST = tuple(name for name in batches.COLUMNS if name not in ("request", "context"))


class Batches(expose.Controller):
    """The batches, and the nodes of each."""

    @expose.expose("GET", "/batches", raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of batches, the newest first: by three statements at most."""
        query = pages.query(self.service, request, queries.BATCHES)
        where = dict(query.where)
        owner = request.access.only(where.get("project"))
        if owner is not None:
            where["project"] = owner

        def read(conn: Connection) -> list[Json]:
            found = batches.LISTING.page(
                conn,
                columns=_columns("request" in query.fields),
                where=where,
                marker_id=query.marker,
                direction=query.direction,
                limit=query.limit,
            )
            counts = batches.counts_of(conn, [row["uuid"] for row in found])
            return _documents(conn, [(row, counts.get(row["uuid"], {})) for row in found])

        shown = self.service.database.read(read)
        keys = [one["uuid"] for one in shown]
        chosen = [{name: one[name] for name in query.fields} for one in shown]
        return pages.body(request, query, "batches", chosen, keys)

    @expose.expose("GET", "/batches/{ident}", types.word, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return a batch; with ``wait``, when it is in a state that ``until`` names."""
        given, wait = waits.split(request.query, self.service.conf, waits.of_batch)
        chosen = queries.one(queries.BATCHES, given, version=request.version)

        def read(conn: Connection) -> Json:
            columns = _columns(chosen is None or "request" in chosen)
            row = self._get(conn, request, ident, columns)
            return _documents(conn, [(row, batches.counts(conn, row["uuid"]))])[0]

        found = self.service.database.read(read)
        if wait is not None:
            _check_wait(request, wait, found)
        _add_tag(request, found)
        return {name: found[name] for name in chosen or found}

    @expose.expose("GET", "/batches/{ident}/nodes", types.word, raw_query=True)
    def members(self, request: Request, ident: str) -> Json:
        """Return a page of the nodes of a batch with their results, in the order of their start.

        A lessee of a node sees the code of its error, but not the text.
        """
        query = pages.query(self.service, request, queries.BATCHES_NODES)

        def read(conn: Connection) -> list[Json]:
            row = self._get(conn, request, ident)
            where: Json = {**query.where, "batch_uuid": row["uuid"]}
            if "result" in where:
                where["state"] = where.pop("result")
            rows = batches.NODES.page(
                conn,
                where=where,
                marker_id=query.marker,
                direction=query.direction,
                limit=query.limit,
            )
            hidden = _unreadable(conn, request, rows)
            return [_member(row, row["node_uuid"] in hidden) for row in rows]

        found = self.service.database.read(read)
        keys = [one["uuid"] for one in found]
        chosen = [{name: one[name] for name in query.fields} for one in found]
        return pages.body(request, query, "nodes", chosen, keys)

    @expose.expose(
        "POST",
        "/batches",
        types.boolean,
        status=HTTPStatus.CREATED,
        body=expose.WHOLE,
        limit=_LIMIT,
    )
    def create(self, request: Request, plan: bool = False) -> Json:
        """Begin a batch; with ``plan``, return what it would be with status 200."""
        wanted = batch_requests.read(self.service, request)
        row = _new_row(request, wanted)
        members = list(wanted.members(row["uuid"]))
        counts = _first_counts(wanted)
        uuids = [node["uuid"] for node in wanted.nodes]

        def shown(project: str | None) -> bool:
            about = target(policy.BATCH, {"owner": project})
            return request.access.allows("baremetal:batch:get", about)

        if plan:
            self.service.database.read(lambda conn: batch_owners.refuse_taken(conn, uuids, shown))
            request.answer.status = HTTPStatus.OK
            refused = batch_plans.refusals(self.service, request, wanted)
            first = [{"uuid": one["node_uuid"], "name": one["name"]} for one in members]
            size = min(wanted.options["waves"][0], _FIRST)
            planned = {"uuid": None, "state": "planned", "first_wave": first[:size]}
            return {**_document(row, counts), **planned, "refused": refused}

        def write(conn: Connection) -> None:
            batch_owners.take_out(conn, uuids, clock.now())
            batch_owners.refuse_taken(conn, uuids, shown)
            batches.add(conn, row, members)
            events.add(
                conn, [batch_changes.event(request, row, "batch_started", {"nodes": len(members)})]
            )

        changes.write(self.service, request, write)
        location = f"{request.base}/v1/batches/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        _add_tag(request, row)
        return _document(row, counts)

    @expose.expose("PUT", "/batches/{ident}/state", types.word, body=expose.WHOLE)
    def set_state(self, request: Request, ident: str) -> Json:
        """Pause, resume or abort a batch; a repetition changes nothing."""
        seen = self.service.database.read(
            lambda conn: self._get(conn, request, ident, _columns(request.access.limited))
        )
        body = request.json
        shapes.check("batch_state", body, "", "Schema error for state")
        if "runs" in body and body["target"] != "abort":
            raise errors.InvalidParameter(path="runs", reason="belongs to the target abort")
        if "max_failures" in body and body["target"] != "resume":
            raise errors.InvalidParameter(
                path="max_failures", reason="belongs to the target resume"
            )

        rights = batch_changes.without_right(self.service, request, seen, body)

        def write(conn: Connection) -> Json:
            row = self._get(conn, request, ident, _columns(True), hold=True)
            return _documents(conn, [batch_changes.change(conn, request, row, body, rights)])[0]

        found = changes.write(self.service, request, write)
        _add_tag(request, found)
        return {**found, "refused": {"count": len(rights.kept)}} if body.get("runs") else found

    @expose.expose("DELETE", "/batches/{ident}", types.word, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Delete a batch that has ended; the runs of its nodes stay."""

        def write(conn: Connection) -> None:
            row = self._get(conn, request, ident, hold=True)
            if row["ended_at"] is None:
                raise errors.Conflict(
                    f"Batch {row['uuid']} has not ended. Abort it, and wait for the end of its "
                    "runs.",
                    batch=row["uuid"],
                )
            batches.delete(conn, row["uuid"])
            events.add(conn, [batch_changes.event(request, row, "batch_deleted", {})])

        changes.write(self.service, request, write)

    def _get(
        self,
        conn: Connection,
        request: Request,
        ident: str,
        columns: tuple[str, ...] = _WITHOUT_REQUEST,
        *,
        hold: bool = False,
    ) -> Json:
        """Return a batch that the caller may use in this way.

        :param columns: with ``project``; the request may be large, and is encrypted.
        :param hold: lock the row for a change, which If-Match may bind to a version.
        :raises errors.NotFound: it does not exist, or the caller may not see it.
        :raises errors.PreconditionFailed: it has changed since the tag in If-Match.
        """
        if not rules.uuid_like(ident):
            raise errors.NotFound(what="Batch", ident=ident)
        known = rules.uuid(ident, "batch")
        row = batches.get(conn, known, columns, hold=hold)
        missing = errors.NotFound(what="Batch", ident=known)
        request.access.owned(policy.BATCH, {"owner": row["project"]}, missing)
        wanted = request.if_match if hold else frozenset()
        if wanted and not wanted & {"*", _tag(row)}:
            raise errors.PreconditionFailed(
                f"Batch {known} has changed: its ETag is {_tag(row)} now. Read it again.",
                batch=known,
            )
        return row


# -- versions --------------------------------------------------------------------------------


def _tag(row: JsonView) -> str:
    """Return the entity tag of a batch: the time of its last change, not of its nodes' results.

    So a pause is not refused because a node has ended.
    """
    at: datetime.datetime = row["updated_at"] or row["created_at"]
    return f'"{(at - _EPOCH) // _MICROSECOND}"'


def _add_tag(request: Request, row: JsonView) -> None:
    request.answer.headers.append(("ETag", _tag(row)))


# -- documents -------------------------------------------------------------------------------


def _new_row(request: Request, wanted: batch_requests.Wanted) -> Json:
    return {
        **dict.fromkeys(batches.COLUMNS[1:]),
        "uuid": changes.subject(request),
        "name": wanted.name,
        "state": BatchState.RUNNING.value,
        "request": wanted.request,
        "options": wanted.options,
        "wave": 0,
        "max_failures": wanted.max_failures,
        "forgiven": 0,
        "abort_runs": False,
        "requester": request.who.user,
        "project": request.who.project,
        "context": request.who.as_dict(),
        "created_at": clock.now(),
    }


def _first_counts(wanted: batch_requests.Wanted) -> dict[tuple[int, str], int]:
    pending = NodeState.PENDING.value
    return {(wave, pending): size for wave, size in enumerate(wanted.options["waves"])}


def _columns(request: bool) -> tuple[str, ...]:
    return (*_WITHOUT_REQUEST, "request") if request else _WITHOUT_REQUEST


def _documents(conn: Connection, found: Sequence[tuple[Json, core.Counts]]) -> list[Json]:
    """Return the documents of batches; one statement if the end of one can be estimated."""
    estimated = [row["uuid"] for row, counts in found if _has_pace(row, counts)]
    paused = batches.paused_times(conn, estimated)
    return [_document(row, counts, paused.get(row["uuid"], _NO_TIME)) for row, counts in found]


def _document(row: JsonView, counts: core.Counts, paused: datetime.timedelta = _NO_TIME) -> Json:
    options = {name: row["options"][name] for name in _OPTIONS}
    batch = core.of_row(row)
    return {
        "uuid": row["uuid"],
        "name": row["name"],
        "state": row["state"],
        "wave": row["wave"],
        "waves": options["waves"],
        "counts": core.by_state(counts),
        "failures_left": max(0, core.failures_left(batch, counts)),
        "max_failures": row["max_failures"],
        "concurrency": options["concurrency"],
        "on_failures": options["on_failures"],
        "between_waves": options["between_waves"],
        "request": core.masked(row["request"]) if "request" in row else None,
        "eta": _end_of(row, counts, paused),
        "requester": row["requester"],
        "project": row["project"],
        "paused_by": row["paused_by"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "ended_at": row["ended_at"],
    }


def _has_pace(row: JsonView, counts: core.Counts) -> bool:
    ended, left = core.total(counts, core.ENDED), core.total(counts, core.UNENDED)
    return bool(row["state"] == BatchState.RUNNING and ended and left)


def _end_of(
    row: JsonView, counts: core.Counts, paused: datetime.timedelta
) -> datetime.datetime | None:
    """Return the end of a running batch if its nodes go on at the pace so far, without pauses."""
    if not _has_pace(row, counts):
        return None
    ended, left = core.total(counts, core.ENDED), core.total(counts, core.UNENDED)
    now, began = clock.now(), cast(datetime.datetime, row["created_at"])
    return now + max(now - began - paused, _NO_TIME) / ended * left


def _unreadable(conn: Connection, request: Request, rows: Sequence[JsonView]) -> set[str]:
    """Return the nodes whose errors are hidden from the caller, as in their runs."""
    failed = {row["node_uuid"] for row in rows if row["error"]}
    if not failed or not request.access.limited:
        return set()
    where = {"uuids": sorted(failed), "include_children": True}
    found = nodes.page(conn, columns=("uuid", *OWNERS), where=where)
    return failed - {
        row["uuid"]
        for row in found
        if request.access.allows("baremetal:node:runs:get", target(NODE, row))
    }


def _member(row: JsonView, hidden: bool) -> Json:
    kept = ("name", "wave", "was", "tries", "started_at", "ended_at")
    error = row["error"]
    return {
        "uuid": row["node_uuid"],
        "result": row["state"],
        "run": row["run_uuid"],
        "error": {**error, "text": "See the runs of the node."} if error and hidden else error,
        **{name: row[name] for name in kept},
    }


def _check_wait(request: Request, wait: waits.Wait, found: JsonView) -> None:
    """Return if the batch is in a state that the request waits for.

    :raises errors.EndedOtherwise: it has ended otherwise, or is paused.
    :raises errors.NotYet: it may still come.
    """
    state, over = found["state"], found["ended_at"] is not None
    # An aborted batch has ended when the runs under way have.
    if (state in wait.until and (over or state != BatchState.ABORTED)) or (
        over and waits.ENDED in wait.until
    ):
        return
    if over or state == BatchState.PAUSED:
        what = "has ended as" if over else "is"
        by = f" by {found['paused_by']}" if found["paused_by"] else ""
        raise errors.EndedOtherwise(
            f"Batch {found['uuid']} {what} {state}{by}, not {' or '.join(wait.until)}. "
            f"GET /v1/batches/{found['uuid']}/nodes?result=failed,refused lists its failures.",
            batch=found["uuid"],
        )
    left = wait.seconds - request.call.watch.seconds
    request.call.later = Suspension(left, pause=_PAUSE) if left > 0 else None
    raise errors.NotYet(
        what=f"Batch {found['uuid']}",
        until=" or ".join(wait.until),
        seconds=f"{wait.seconds:g}",
        state=state,
    )
