"""Requests with the header ``Idempotency-Key``: carried out once, however often they are sent.

The first request inserts a row (`db.queries.idempotency`) and keeps its answer there. A repetition
gets the kept answer. If the row has no answer because its process died, a later repetition takes it
over, with the request id and the UUID of the first, and finds what the first has done: the mark of
`resources.changes`, the run or event of the request id, or the refusal of a conductor that has
received the request before.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import re
import uuid
from collections.abc import Callable, Iterable
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import preferred
from ironic_lite.api.resources.kept_answers import (
    Captured,
    Kept,
    Room,
    body_of,
    check_subject,
    headers_of,
    show_subject,
    stored_body,
)
from ironic_lite.api.service import Service
from ironic_lite.api.wire import idempotency_key, refusals, request, routes
from ironic_lite.api.wire.later import Suspension
from ironic_lite.api.wire.request import Call, Environ, StartResponse
from ironic_lite.core import clock, context, metrics
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, idempotency, nodes, runs
from ironic_lite.db.queries.idempotency import Claim

LOG = logging.getLogger(__name__)

Act = Callable[[Environ, StartResponse], Iterable[bytes]]
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_USUAL_SECONDS = 60.0
_SPARE_SECONDS = 10
"""Seconds after [DEFAULT]rpc_response_timeout until a row without an answer may be taken over."""
_LINK = re.compile(r"</v1/nodes/[^/]+/runs/([^>/]+)>.*")
_REPLAYED = ("Idempotent-Replay", "true")
_WAITING = frozenset({"verb", "operation"})


class Repeats:
    """Answers requests with a key.

    :param table: finds the GET that shows a created or changed resource.
    """

    def __init__(self, service: Service, table: routes.Table) -> None:
        self._service = service
        self._table = table
        self._enabled = service.conf.api.idempotency_hours > 0
        self._room = Room(service.conf, lambda: service.database.read(idempotency.used))
        self._patience = _answer_seconds(service.conf) + _SPARE_SECONDS

    def answer(self, environ: Environ, start_response: StartResponse, act: Act) -> Iterable[bytes]:
        """Answer a request whose header is present; ``act`` carries it out."""
        call: Call = environ[request.CALL]
        changing = environ["REQUEST_METHOD"] in _CHANGING and not call.public
        if not changing or not self._enabled or call.refused is not None or call.replayed:
            return act(environ, start_response)
        if call.claim is not None:  # the request has waited
            return self._carry_out(environ, start_response, act)
        found = self._claim(environ, call)
        if found is None:
            _count("new")
            return self._carry_out(environ, start_response, act)
        if found["state"] == idempotency.DONE:
            return self._replay(found, environ, start_response, act)
        return self._take_over(found, environ, start_response, act)

    # -- the row -----------------------------------------------------------------------------

    def _claim(self, environ: Environ, call: Call) -> Row | None:
        """Insert the row of a first request; return the row of an earlier one.

        :raises errors.KeyInUse: the earlier one is under way.
        :raises errors.KeyReused: the earlier one was another request.
        :raises errors.TooManyKeys: it is the first one, and there is no room for its answer.
        """
        key = idempotency_key.read(str(environ[idempotency_key.HEADER]))
        access, who = call.access, call.who
        # The roles, too: a reader must not get the answer that was given to an administrator.
        scope = "system" if access.system else None
        caller = idempotency_key.hashed(who.user, who.project, scope, *sorted(access.roles))
        claim = Claim(caller, idempotency_key.hashed(key), call.who.request_id, str(uuid.uuid4()))
        now = clock.now()
        query = str(environ.get("QUERY_STRING") or "")
        values = {
            "fingerprint": idempotency_key.fingerprint(
                environ["REQUEST_METHOD"], call.path, query, call.body
            ),
            "busy_until": self._until(now),
            "created_at": now,
        }
        database = self._service.database
        try:
            self._room.admit(caller, project=who.project is not None)
        except errors.TooManyKeys:
            if database.read(lambda conn: idempotency.get(conn, caller, claim.key)) is None:
                _count("full")
                raise
        try:
            database.write(lambda conn: idempotency.insert(conn, claim, values))
        except errors.Duplicate:
            return self._earlier(claim, values["fingerprint"])
        call.claim = claim
        return None

    def _earlier(self, claim: Claim, fingerprint: object) -> Row:
        row = self._service.database.read(
            lambda conn: idempotency.get(conn, claim.caller, claim.key)
        )
        if row is None:  # the first was refused a moment ago
            _count("busy")
            raise errors.KeyInUse
        if row["fingerprint"] != fingerprint:
            _count("reused")
            raise errors.KeyReused
        # An end that is further away was written by a clock that was ahead of this one.
        now = clock.now()
        if row["state"] != idempotency.DONE and now < row["busy_until"] <= self._until(now):
            _count("busy")
            raise errors.KeyInUse
        return row

    def _until(self, now: datetime.datetime) -> datetime.datetime:
        return now + datetime.timedelta(seconds=self._patience)

    # -- a first request ---------------------------------------------------------------------

    def _carry_out(
        self, environ: Environ, start_response: StartResponse, act: Act
    ) -> Iterable[bytes]:
        """Carry out a request that has a claim, and keep its answer."""
        call: Call = environ[request.CALL]
        claim = call.claim
        assert claim is not None
        caught = Captured()
        try:
            parts = list(act(environ, caught))
        except errors.Error as why:
            kept = self._found_done(environ, call, act, why)
            if kept is None:
                self._settle_refusal(call, why)
                raise
            return self._finish(environ, start_response, kept)
        except Exception as why:
            self._settle_refusal(call, why)
            raise
        if isinstance(call.later, Suspension):
            self._keep_acceptance(call)
        elif caught.status < HTTPStatus.BAD_REQUEST:
            headers, body = headers_of(caught.headers), b"".join(parts)
            self._keep(claim, Kept(caught.status, headers, body))
        else:
            self._give_up(call, certain=True)
        caught.send(start_response)
        return parts

    def _keep(self, claim: Claim, kept: Kept) -> None:
        """Keep an answer; without the database, a repetition finds out what was done."""
        headers = [list(pair) for pair in kept.headers]
        stored = stored_body(kept.body)
        size = len(str(headers)) + len(str(stored))
        self._room.add(claim.caller, size)
        self._write(
            lambda conn: idempotency.keep(conn, claim, kept.status, headers, stored, size=size)
        )
        claim.kept = True

    def _keep_acceptance(self, call: Call) -> None:
        """Keep the answer 202 of a request that has been accepted, and whose end is waited for."""
        claim = call.claim
        if claim is not None and call.accepted and not claim.kept:
            headers = headers_of(preferred.acceptance(call))
            self._keep(claim, Kept(call.found.route.status, headers, b""))

    def _settle_refusal(self, call: Call, why: Exception) -> None:
        """Forget a request that has changed nothing; let another try find out about others."""
        if call.accepted:
            self._keep_acceptance(call)
            return
        claim = call.claim
        again = claim is not None and claim.attempt > 1 and isinstance(why, errors.Conflict)
        self._give_up(call, certain=_certain(why) and not again)

    def _give_up(self, call: Call, *, certain: bool) -> None:
        """End a claim without an answer.

        :param certain: nothing was done, unless a change is marked.
        """
        claim, call.claim = call.claim, None
        if claim is None:
            return

        def work(conn: Connection) -> None:
            if not certain or not idempotency.drop(conn, claim):
                idempotency.release(conn, claim, clock.now())

        self._write(work)

    def _write(self, work: Callable[[Connection], None]) -> None:
        try:
            self._service.database.write(work)
        except errors.Unavailable as why:
            LOG.warning("The row of an Idempotency-Key cannot be written: %s", why)

    # -- a repetition ------------------------------------------------------------------------

    def _replay(
        self, found: Row, environ: Environ, start_response: StartResponse, act: Act
    ) -> Iterable[bytes]:
        """Give the kept answer; with a preference, wait for the end of accepted work."""
        call: Call = environ[request.CALL]
        node = self._checked_node(call)
        check_subject(self._table, environ, act, found["subject_uuid"])
        _count("replayed")
        call.replayed = True
        call.headers = (*call.headers, _REPLAYED)
        headers = [(str(name), str(value)) for name, value in found["headers"] or ()]
        waits = "HTTP_PREFER" in environ and call.found.route.prefers in _WAITING
        if waits and node is not None and found["status"] == HTTPStatus.ACCEPTED:
            call.who = dataclasses.replace(call.who, request_id=found["request_id"])
            context.enter(call.who)
            links = filter(None, (_LINK.fullmatch(value) for _, value in headers))
            run = next((link[1] for link in links), None)
            others = [pair for pair in headers if pair[0] != "Link"]
            preferred.resume(call, preferred.Accepted(node, run), others)
            return act(environ, start_response)
        body = body_of(found["body"])
        if body is None:
            shown = show_subject(self._table, environ, act, found["subject_uuid"])
            body = shown.body if shown is not None else b""
        return request.send(environ, start_response, found["status"], body, headers)

    def _take_over(
        self, found: Row, environ: Environ, start_response: StartResponse, act: Act
    ) -> Iterable[bytes]:
        """Go on with a request whose process has given no answer.

        :raises errors.KeyInUse: another repetition was faster.
        """
        call: Call = environ[request.CALL]
        names = ("caller", "key", "request_id", "subject_uuid", "attempt")
        before = Claim(*(found[name] for name in names))
        until = self._until(clock.now())
        if not self._service.database.write(lambda conn: idempotency.take(conn, before, until)):
            _count("busy")
            raise errors.KeyInUse
        _count("resumed")
        call.claim = dataclasses.replace(before, attempt=before.attempt + 1)
        call.who = dataclasses.replace(call.who, request_id=before.request_id)
        context.enter(call.who)
        try:
            kept = self._done_before(call, environ, act)
        except errors.Error as why:
            self._settle_refusal(call, why)
            raise
        if kept is not None:
            return self._finish(environ, start_response, kept)
        return self._carry_out(environ, start_response, act)

    def _done_before(self, call: Call, environ: Environ, act: Act) -> Kept | None:
        """Return the answer of a request that an earlier attempt has carried out.

        None: carry it out; a request whose run or event is known is only waited for.
        """
        claim = call.claim
        assert claim is not None
        database = self._service.database
        row = database.read(lambda conn: idempotency.get(conn, claim.caller, claim.key))
        if row is not None and row["state"] == idempotency.CHANGED:
            return self._as_shown(environ, call, act)
        node = self._checked_node(call)
        if node is None:
            return None
        run = database.read(lambda conn: runs.of_request(conn, claim.request_id, node))
        known = run is not None or database.read(
            lambda conn: events.has_request(conn, node, claim.request_id)
        )
        if not known:
            return None
        if call.found.route.prefers in _WAITING:
            preferred.resume(call, preferred.Accepted(node, run), [])
            return None
        return Kept(call.found.route.status, [], b"")

    def _found_done(self, environ: Environ, call: Call, act: Act, why: errors.Error) -> Kept | None:
        """Return the answer of a taken-over request whose refusal shows that it was carried out."""
        claim = call.claim
        if claim is None or claim.attempt == 1:
            return None
        if why.facts.get("repeated"):
            return Kept(call.found.route.status, [], b"")
        if environ["REQUEST_METHOD"] == "DELETE" and isinstance(why, errors.NotFound):
            return Kept(call.found.route.status, [], b"")
        if environ["REQUEST_METHOD"] == "POST" and isinstance(why, errors.Duplicate):
            return show_subject(self._table, environ, act, claim.subject)
        return None

    def _as_shown(self, environ: Environ, call: Call, act: Act) -> Kept:
        """Return an answer with the resource as it is now."""
        claim = call.claim
        assert claim is not None
        shown = None
        if environ["REQUEST_METHOD"] in {"POST", "PATCH"}:
            shown = show_subject(self._table, environ, act, claim.subject)
        return shown or Kept(call.found.route.status, [], b"")

    def _finish(
        self, environ: Environ, start_response: StartResponse, kept: Kept
    ) -> Iterable[bytes]:
        """Keep and send the answer of a request that an earlier attempt has carried out."""
        call: Call = environ[request.CALL]
        if call.claim is not None:
            self._keep(call.claim, kept)
        call.headers = (*call.headers, _REPLAYED)
        return request.send(environ, start_response, kept.status, kept.body, kept.headers)

    def _checked_node(self, call: Call) -> str | None:
        """Return the UUID of the path's node; None without one, or if it is gone.

        :raises errors.Error: the caller may no longer do this with the node.
        """
        if not call.found.route.path.startswith("/nodes/") or not call.found.words:
            return None
        ident = call.found.words[0]
        try:
            row = self._service.database.read(
                lambda conn: nodes.get(conn, ident, ("uuid", *OWNERS))
            )
        except errors.NodeNotFound:
            return None
        rule = call.found.rule
        if rule is not None and rule.about == policy.NODE:
            call.access.node(row, errors.NodeNotFound(node=ident))
        return str(row["uuid"])


def _answer_seconds(conf: Configuration) -> float:
    """Return the seconds that a call of a conductor may take."""
    try:
        return float(conf.rpc_response_timeout)
    except AttributeError:  # RPC registers the option; this process has none
        return _USUAL_SECONDS


def _certain(why: Exception) -> bool:
    """Return whether a refusal means that nothing was done."""
    if isinstance(why, refusals.Refusal):
        return why.status < HTTPStatus.INTERNAL_SERVER_ERROR
    if isinstance(why, errors.ConductorUnresponsive):
        return False
    if isinstance(why, errors.Unavailable):
        return not why.facts.get("doubtful")
    return isinstance(why, errors.Error) and why.status < HTTPStatus.INTERNAL_SERVER_ERROR


def _count(result: str) -> None:
    metrics.BOARD.count("idempotent_total", result)
