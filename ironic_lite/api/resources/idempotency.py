"""Requests with the header ``Idempotency-Key``: carried out once, however often they are sent.

First the value of the header and the fingerprint of a request, then the marks of changes and the
kept answers, last the repetitions.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

import orjson

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.http import expose, refusals, request
from ironic_lite.api.http.request import Call, Environ, Request, StartResponse, Suspension
from ironic_lite.api.policy.access import OWNERS, Access
from ironic_lite.api.resources import preferred
from ironic_lite.api.service import Service
from ironic_lite.core import clock, context, metrics
from ironic_lite.core.json_types import Json, Row
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, idempotency, nodes, runs
from ironic_lite.db.queries.idempotency import Claim

NAME = "Idempotency-Key"
HEADER = "HTTP_IDEMPOTENCY_KEY"
LONGEST_KEY = 255
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
"""A string of Structured Fields (RFC 9651, 3.3.3)."""
_TOKEN = re.compile(r"[!#-+\--:<-\[\]-~]*")
"""Visible ASCII without the quote, comma, semicolon and backslash."""
_ESCAPED = re.compile(r'\\(["\\])')


def read_key(given: str) -> str:
    """Return the key of a header; a quoted key is the same as the bare one.

    :raises errors.InvalidParameter: the header has another form, or occurs twice.
    """
    text = given.strip(" \t")
    quoted = _QUOTED.fullmatch(text)
    key = _ESCAPED.sub(r"\1", quoted[1]) if quoted is not None else text
    if quoted is None and not _TOKEN.fullmatch(text):
        reason = (
            "must be one string in double quotes, or one bare word, of printable ASCII; a bare "
            "word has no quote, comma, semicolon, backslash or space"
        )
        raise errors.InvalidParameter(path=NAME, reason=reason)
    if not 1 <= len(key) <= LONGEST_KEY:
        reason = f"must have 1 to {LONGEST_KEY} characters, not {len(key)}"
        raise errors.InvalidParameter(path=NAME, reason=reason)
    return key


def hashed(*parts: str | None) -> str:
    """Return a hash of texts, for an index."""
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()


def fingerprint(method: str, path: str, query: str, body: bytes) -> str:
    """Return the hash that two requests share if they ask for the same.

    :param path: below ``/v1``.
    :param query: the query string; the order of its arguments does not count.
    """
    arguments = "&".join(sorted(filter(None, query.split("&"))))
    head = orjson.dumps((method, path.encode("utf-8", "backslashreplace").decode(), arguments))
    return hashlib.sha256(head + b"\n" + body).hexdigest()


# Changes that the API itself writes, marked for requests with an Idempotency-Key.
#
# The mark is made in the transaction of the change. So a repetition after a crash knows whether the
# change was made, and a slow first attempt cannot make it after a repetition.

T = TypeVar("T")


def write_change(service: Service, request: Request, work: Callable[[Connection], T]) -> T:
    """Return the result of ``work`` after the commit of its transaction.

    :raises errors.KeyInUse: a repetition has taken the request over.
    """
    claim = request.call.claim
    if claim is None:
        return service.database.write(work)

    def marked(conn: Connection) -> T:
        idempotency.mark(conn, claim)
        return work(conn)

    return service.database.write(marked)


def subject_uuid(request: Request) -> str:
    """Return the UUID of a resource that the request creates without naming one."""
    claim = request.call.claim
    return claim.subject if claim is not None else str(uuid.uuid4())


# Answers that are kept for repetitions of a request.

LARGEST_ANSWER = 16 * 1024
"""Bytes of a kept body. In place of a larger one, a repetition gets the resource as it is."""
UNSHOWN = "unshown"
"""The key of `request.Call.notes` for what a repetition adds to the resource then."""
_SECONDS = 10.0
"""Time after which the room is read again from the table."""
_MIB = 1024 * 1024
_KEPT = frozenset({"Location", "Link", "ETag", "Content-Type"})
_CONDITIONS = frozenset({"HTTP_PREFER", "HTTP_IF_MATCH", "HTTP_IDEMPOTENCY_KEY"})
_TEXT = "text"
Headers = list[tuple[str, str]]


class Kept(NamedTuple):
    """An answer: its status, the headers that are kept, its body, and what is `UNSHOWN`."""

    status: int
    headers: Headers
    body: bytes
    unshown: Json | None = None


class Captured:
    """The beginning of an answer that is not yet sent; used as ``start_response``."""

    def __init__(self) -> None:
        self._line = "500 Internal Server Error"
        self.headers: Headers = []

    @property
    def status(self) -> int:
        """The status code."""
        return int(self._line[:3])

    def __call__(self, status: str, headers: Headers, _info: Any = None) -> None:
        self._line, self.headers = status, headers

    def send(self, start_response: StartResponse) -> None:
        """Begin the answer."""
        start_response(self._line, self.headers)


class Room:
    """The room that kept answers take, for each caller and in all.

    The table is read every ten seconds, and sooner after many requests; what this process adds in
    between is counted. So the limits are not exact.

    :param used: reads the table, as `db.queries.idempotency.used`.
    """

    def __init__(self, conf: Configuration, used: Callable[[], Mapping[str, tuple[int, int]]]):
        self._most_rows = int(conf.api.idempotency_max_rows)
        self._most_bytes = int(conf.api.idempotency_max_mib) * _MIB
        self._used = used
        self._guard = threading.Lock()
        self._known: dict[str, list[int]] = {}
        self._added = [0, 0]
        self._due = time.monotonic() + _SECONDS

    def admit(self, caller: str, *, project: bool) -> None:
        """Count one more request of a caller.

        :param caller: its hash.
        :param project: the caller belongs to a project: others find room when projects do not.
        :raises errors.TooManyKeys: there is no room for its answer.
        """
        self._read_again()
        with self._guard:
            rows, size = self._known.get(caller, (0, 0))
            whole = sum(found[1] for found in self._known.values())
            most = self._most_bytes * 3 // 4 if project else self._most_bytes
            if rows >= self._most_rows:
                limit, option = f"{self._most_rows} requests of one caller", "idempotency_max_rows"
            elif size >= self._most_bytes // 4 or whole >= most:
                limit, option = f"{self._most_bytes // _MIB} MiB", "idempotency_max_mib"
            else:
                self._count(caller, 1, 0)
                return
        raise errors.TooManyKeys(limit=limit, option=option)

    def add(self, caller: str, size: int) -> None:
        """Count the bytes of an answer that is kept."""
        with self._guard:
            self._count(caller, 0, size)

    def _count(self, caller: str, rows: int, size: int) -> None:
        for counts in (self._known.setdefault(caller, [0, 0]), self._added):
            counts[0] += rows
            counts[1] += size

    def _read_again(self) -> None:
        with self._guard:
            rows, size = self._added
            many = rows > self._most_rows // 16 or size > self._most_bytes // 16
            if not many and time.monotonic() < self._due:
                return
            self._added, self._due = [0, 0], time.monotonic() + _SECONDS
        known = {caller: list(counts) for caller, counts in self._used().items()}
        with self._guard:
            self._known = known


def headers_of(given: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers that are kept."""
    return [pair for pair in given if pair[0] in _KEPT]


def stored_body(kept: Kept) -> Json:
    """Return the JSON value stored for the body of an answer."""
    if len(kept.body) <= LARGEST_ANSWER:
        return {_TEXT: kept.body.decode("utf-8", "replace")}
    return {"size": len(kept.body), UNSHOWN: kept.unshown}


def body_of(stored: Json | None) -> bytes | None:
    """Return a kept body, None for one that was too large."""
    if stored is None:
        return b""
    return str(stored[_TEXT]).encode() if _TEXT in stored else None


def _named_uuid(body: bytes) -> str | None:
    """Return the UUID that the body of a POST contains."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    named = given.get("uuid") if isinstance(given, dict) else None
    return named if isinstance(named, str) else None


# The first request inserts a row (`db.queries.idempotency`) and keeps its answer there. A
# repetition gets the kept answer. If the row has no answer because its process died, a later
# repetition takes it over, with the request id and the UUID of the first, and finds what the first
# has done: the mark of `write_change`, the run or event of the request id, or the refusal of a
# conductor that has received the request before.

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

    def __init__(self, service: Service, table: expose.Table) -> None:
        self._service = service
        self._table = table
        self._enabled = service.conf.api.idempotency_hours > 0
        self._room = Room(service.conf, lambda: service.database.read(idempotency.used))
        self._patience = _answer_seconds(service.conf) + _SPARE_SECONDS

    def answer(self, environ: Environ, start_response: StartResponse, act: Act) -> Iterable[bytes]:
        """Answer a request whose header is present; ``act`` carries it out."""
        call: Call = environ[request.CALL]
        changing = environ["REQUEST_METHOD"] in _CHANGING and not call.public
        if not changing or not self._enabled or call.replayed:
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
        key = read_key(str(environ[HEADER]))
        access, who = call.access, call.who
        # The roles, too: a reader must not get the answer that was given to an administrator.
        scope = "system" if access.system else None
        caller = hashed(who.user, who.project, scope, *sorted(access.roles))
        claim = Claim(caller, hashed(key), call.who.request_id, str(uuid.uuid4()))
        now = clock.now()
        query = str(environ.get("QUERY_STRING") or "")
        values = {
            "fingerprint": fingerprint(environ["REQUEST_METHOD"], call.path, query, call.body),
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
            self._keep(claim, Kept(caught.status, headers, body, call.notes.get(UNSHOWN)))
        else:
            self._give_up(call, certain=True)
        caught.send(start_response)
        return parts

    def _keep(self, claim: Claim, kept: Kept) -> None:
        """Keep an answer; without the database, a repetition finds out what was done."""
        headers = [list(pair) for pair in kept.headers]
        stored = stored_body(kept)
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
        self._check_subject(environ, act, found["subject_uuid"])
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
            shown = self._show_subject(environ, act, found["subject_uuid"])
            body = shown.body if shown is not None else b""
            if more := found["body"].get(UNSHOWN):
                body = orjson.dumps({**orjson.loads(body or b"{}"), **more})
        return request.send(environ, start_response, found["status"], body, headers)

    def _check_subject(self, environ: Environ, act: Act, subject: str) -> None:
        """Refuse a repetition to a caller who may no longer see its resource.

        Nodes are checked with their own rules. A resource that is gone is no secret any more, so
        the kept answer is given.

        :raises errors.NotFound, errors.Forbidden: the resource exists, and the caller may not see
            it; the latter for a POST, whose path has no resource.
        """
        call: Call = environ[request.CALL]
        if not call.access.limited or call.path.startswith("/nodes/"):
            return
        made = environ["REQUEST_METHOD"] == "POST" and "{" not in call.found.route.path
        depth = 3 if call.path.startswith("/volume/") else 2
        path = f"{call.path}/{_named_uuid(call.body) or subject}" if made else call.path
        path = "/".join(path.split("/")[: depth + 1])
        if self._shown(environ, act, path, call.access) is not None:
            return
        if self._shown(environ, act, path, Access()) is not None:
            if made:
                raise errors.Forbidden(what=path)
            raise errors.NotFound(f"{path} could not be found.")

    def _shown(
        self, environ: Environ, act: Act, path: str, access: Access
    ) -> tuple[Environ, Kept] | None:
        """Return the answer to a GET with the rights of ``access``, and its request.

        :return: None if there is no such resource, or the caller may not see it.
        """
        call: Call = environ[request.CALL]
        caught = Captured()
        try:
            found = self._table.find("GET", path, call.version.minor)
            shown = dataclasses.replace(
                call, path=path, found=found, claim=None, body=b"", access=access
            )
            shown.access.enter(found.rule)
            asked = {name: value for name, value in environ.items() if name not in _CONDITIONS}
            asked.update({"REQUEST_METHOD": "GET", "QUERY_STRING": "", request.CALL: shown})
            body = b"".join(act(asked, caught))
        except (errors.Error, refusals.Refusal):
            return None
        if caught.status != HTTPStatus.OK:
            return None
        return asked, Kept(call.found.route.status, headers_of(caught.headers), body)

    def _show_subject(self, environ: Environ, act: Act, subject: str) -> Kept | None:
        """Return the answer to a POST or PATCH with the resource as it is now.

        :param subject: UUID of what a POST without a UUID has made.
        :return: None if there is no such resource, or the caller may not see it.
        """
        call: Call = environ[request.CALL]
        made = environ["REQUEST_METHOD"] == "POST"
        path = f"{call.path}/{_named_uuid(call.body) or subject}" if made else call.path
        found = self._shown(environ, act, path, call.access)
        if found is None:
            return None
        asked, shown = found
        if made:
            location = f"{request.Request(asked).base}/v1{path}"
            return shown._replace(headers=[*shown.headers, ("Location", location)])
        return shown

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
            return self._show_subject(environ, act, claim.subject)
        return None

    def _as_shown(self, environ: Environ, call: Call, act: Act) -> Kept:
        """Return an answer with the resource as it is now."""
        claim = call.claim
        assert claim is not None
        shown = None
        if environ["REQUEST_METHOD"] in {"POST", "PATCH"}:
            shown = self._show_subject(environ, act, claim.subject)
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
