"""Small classes for a request and its answer, which Pecan makes for every call.

Pecan's own classes are WebOb's. They parse much that this service does not use.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.policy.access import Access
from ironic_lite.api.wire import parsing, refusals
from ironic_lite.api.wire.later import Later, Suspension
from ironic_lite.core import log_lines, masking, metrics
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries.idempotency import Claim
from ironic_lite.domain.versions import Version

LOG = logging.getLogger(__name__)

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
_EVERYTHING = Access()
CALL = "ironic_lite.call"
"""The key of the `Call` in the WSGI environment, set by `middleware`."""

_HOST = re.compile(r"[A-Za-z0-9._~-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_LONGEST_HOST = 253 + len(":65535")
"""Characters of a name (RFC 1035, 3.1) and a port."""
_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PREFIX = re.compile(r"(/[\w.~%-]+)*", re.ASCII)
_JSON = ("Content-Type", "application/json")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READING = frozenset({"GET", "HEAD"})
_UNREAD = object()
_NO_RETRY_AFTER = "python-ironicclient"
"""User-Agent of clients that raise a TypeError, instead of trying again, for a refusal with
Retry-After (python-ironicclient 6.3: ``HttpError`` does not take ``retry_after``)."""
_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_PHRASES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


@dataclasses.dataclass(slots=True)
class Call:
    """The facts about a request that are collected before and during routing.

    ``path`` starts below ``/v1`` and has no trailing slash; ``headers`` go on every answer.
    ``route`` is the matching path of the table, once found. ``public`` means that no login is
    needed, ``admitted`` that the caller has been identified; ``access`` holds the caller's rights.
    ``found`` is set by routing, and ``body`` once it has been received. ``suffix`` has been taken
    off the path. ``later`` is set by a handler that wants to be called again, or to stream;
    ``notes`` are what it remembers until then. ``waited`` is set once the server has waited,
    ``accepted`` once a conductor has accepted a request that waits for its end. ``heeded`` is the
    value of Preference-Applied for every answer, also a refusal. ``claim`` belongs to a request
    with an Idempotency-Key that is carried out, ``replayed`` is set for a repetition of one.
    """

    path: str
    version: Version
    who: Context
    headers: tuple[tuple[str, str], ...]
    links: LinkBase
    route: str = "none"
    watch: metrics.Watch = dataclasses.field(default_factory=metrics.Watch)
    public: bool = False
    admitted: bool = False
    access: Access = _EVERYTHING
    found: Any = None
    refused: Exception | None = None
    body: bytes = b""
    suffix: str = ""
    later: Later | None = None
    waited: bool = False
    accepted: bool = False
    heeded: str = ""
    claim: Claim | None = None
    replayed: bool = False
    notes: Json = dataclasses.field(default_factory=dict)


class _NoArguments:
    """WebOb's interface to arguments, for Pecan's own reads."""

    @staticmethod
    def mixed() -> Json:
        """Return no arguments: handlers read query and body by their own types."""
        return {}


class Request:
    """The request as handlers use it.

    It has the part of WebOb's interface that Pecan uses; its path leads to `app.Root`.
    """

    path_info = "/"
    accept = None
    content_type = ""
    GET = params = _NoArguments()

    def __init__(self, environ: Environ) -> None:
        call: Call = environ[CALL]
        # A copy, because Pecan stores the request in the environment it was made of. That cycle
        # would keep request and body until a full run of the garbage collector.
        self.environ = environ.copy()
        self._found = call.found
        self._refused = call.refused
        self._body = call.body
        # With one of these, the request may be handled again.
        if "HTTP_PREFER" not in environ and call.claim is None:
            call.body = b""
        self.size = len(self._body)
        """Length of the body in bytes."""
        self.method: str = environ["REQUEST_METHOD"]
        self.path = call.path
        self.version = call.version.minor
        self.asked = call.version.explicit
        """True if the client has named a version."""
        self.suffix = call.suffix
        """``.json`` if the version takes it off the path and the path had it; names may end so."""
        self.who = call.who
        self.access = call.access
        self.answer: Answer = _NOWHERE
        # Not cached_property, which takes a lock.
        self._query: dict[str, str] | None = None
        self._json: Any = _UNREAD

    def handle(self) -> Any:
        """Return the result of the route's handler.

        :raises errors.Forbidden: the rule of the route refuses the caller.
        """
        if self._refused is not None:
            found, routed = self._found, self._found.refusal is not None
            found.route.examine(found.handler.__self__, self, found.words, routed=routed)
            raise self._refused
        return self._found.handler(self, *self._found.words)

    @property
    def call(self) -> Call:
        """The facts about this request, which outlive a suspension."""
        call: Call = self.environ[CALL]
        return call

    @property
    def query(self) -> dict[str, str]:
        """The arguments of the query string by `parsing.query`; raises InvalidRequest."""
        if self._query is None:
            self._query = parsing.query(self.environ.get("QUERY_STRING") or "")
        return self._query

    @property
    def json(self) -> Any:
        """The JSON value of the body, None for an empty body. Raises as `parsing.parse`."""
        if self._json is _UNREAD:
            # Numbers in an agent's report about its machine may be rounded.
            exact = not self.environ[CALL].public
            content_type = self.environ.get("CONTENT_TYPE") or ""
            self._json = parsing.parse(self._body, content_type, exact=exact)
            # A PATCH may send back what a GET has shown (`resources.patches`).
            if exact and self.method != "PATCH" and isinstance(self._json, dict):
                _refuse_masks(self._json)
            self._body = b""
        return self._json

    @property
    def if_match(self) -> frozenset[str]:
        """The entity tags of If-Match (RFC 9110, 13.1.1); ``*`` matches any.

        Empty without the header, and for a GET.

        :raises errors.InvalidParameter: the header names no tag, so its client has lost the tag.
        """
        given = self.environ.get("HTTP_IF_MATCH")
        if given is None or self.method == "GET":
            return frozenset()
        tags = frozenset(tag.strip() for tag in given.split(",") if tag.strip())
        if not tags:
            reason = "names no entity tag; send the ETag of an answer, or no such header"
            raise errors.InvalidParameter(path="If-Match", reason=reason)
        return tags

    @property
    def base(self) -> str:
        """Start of every link: scheme, host and prefix, without a slash at the end."""
        return self.call.links.of(self.environ)


def _refuse_masks(body: Json) -> None:
    """Refuse a body with the mask of a secret in an object or list, or under a secret's name.

    Answers show ``extra`` as it is, so this one may hold the same text.
    """
    for name, value in body.items():
        if name != "extra" and (masking.secret(name) or not isinstance(value, str)):
            parsing.refuse_mask(value, name)


def anonymous(environ: Environ, request_id: str) -> Context:
    """Return the context of a caller without login, with the caller's request id."""
    theirs = environ.get("HTTP_X_OPENSTACK_REQUEST_ID") or ""
    known = theirs if _REQUEST_ID.fullmatch(theirs) else None
    return Context(request_id=request_id, global_request_id=known)


def takes_gzip(environ: Environ) -> bool:
    """Return whether ``Accept-Encoding`` allows gzip (RFC 9110, 12.5.3)."""
    accepted = environ.get("HTTP_ACCEPT_ENCODING") or ""
    for one in accepted.lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() in {"gzip", "*"}:
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


class LinkBase:
    """The start of every link, for one configuration."""

    def __init__(self, conf: Configuration) -> None:
        # Reading an option takes as long as building the URL.
        self._public = str(conf.api.public_endpoint or "").rstrip("/")
        self._proxied = bool(conf.api.enable_proxy_headers_parsing)

    def of(self, environ: Environ) -> str:
        """Return the start of the links in the answer to a request; see `Request.base`."""
        return self._public or _base_url(environ, proxied=self._proxied)


def _base_url(environ: Environ, *, proxied: bool) -> str:
    scheme = environ["wsgi.url_scheme"]
    host = environ.get("HTTP_HOST") or ""
    prefix = environ.get("SCRIPT_NAME") or ""
    if proxied:
        scheme = _first_value(environ, "HTTP_X_FORWARDED_PROTO") or scheme
        host = _first_value(environ, "HTTP_X_FORWARDED_HOST") or host
        prefix = _first_value(environ, "HTTP_X_FORWARDED_PREFIX") or prefix
    if not _is_host(host):
        host = f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    if scheme not in {"http", "https"}:
        scheme = "http"
    return f"{scheme}://{host}{prefix.rstrip('/') if _PREFIX.fullmatch(prefix) else ''}"


def _first_value(environ: Environ, name: str) -> str:
    """Return the value added by the outermost of several proxies."""
    return str(environ.get(name) or "").split(",", maxsplit=1)[0].strip()


def _is_host(host: str) -> bool:
    return len(host) <= _LONGEST_HOST and _is_valid_host(host)


@lru_cache(maxsize=256)
def _is_valid_host(host: str) -> bool:
    return _HOST.fullmatch(host) is not None


class Answer:
    """The answer that Pecan fills in and then calls as a WSGI application."""

    # Pecan reads these two to detect an empty answer.
    charset = None
    app_iter: Iterable[bytes] = ()

    def __init__(self) -> None:
        self.status_int: int = HTTPStatus.OK
        self.body = b""
        self.headers: list[tuple[str, str]] = []
        self.content_type: str | None = None

    @property
    def status(self) -> int:
        """The status code."""
        return self.status_int

    @status.setter
    def status(self, code: int) -> None:
        self.status_int = int(code)

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """Send the answer."""
        return send(environ, start_response, self.status_int, self.body, self.headers)


_NOWHERE = Answer()


def send(
    environ: Environ,
    start_response: StartResponse,
    status: int,
    body: bytes,
    headers: Iterable[tuple[str, str]] = (),
) -> list[bytes]:
    """Start a WSGI answer with the headers every answer has, and return its body."""
    call: Call = environ[CALL]
    if not isinstance(call.later, Suspension):
        _count_answer(call, environ["REQUEST_METHOD"], status)
        _log_answer(call, environ, status)
    start_response(_PHRASES[status], _answer_headers(call, status, body, headers))
    return [body] if body and environ["REQUEST_METHOD"] != "HEAD" else []


def _answer_headers(
    call: Call, status: int, body: bytes, headers: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    shown = [*headers, *call.headers]
    if call.heeded:
        shown.append(("Preference-Applied", call.heeded))
    if body and not any(name == _JSON[0] for name, _ in shown):
        shown.append(_JSON)
    if status not in _BODILESS:
        shown.append(("Content-Length", str(len(body))))
    return shown


def _count_answer(call: Call, method: str, status: int) -> None:
    # Clients may invent methods; these must not create series.
    known = method if method in _METHODS else "other"
    metrics.BOARD.count("http_requests_total", known, call.route, str(status))
    if not call.waited:
        metrics.BOARD.observe("http_request_seconds", call.watch.seconds, known, call.route)


def _log_answer(call: Call, environ: Environ, status: int) -> None:
    """Log a change or a failure at INFO; log all else at DEBUG.

    Requests of agents and of unidentified callers are too frequent for INFO. The query is left out,
    because it may be secret.
    """
    method = environ["REQUEST_METHOD"]
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.GATEWAY_TIMEOUT
    quiet = call.public or not call.admitted or (method in _READING and not failed)
    level = logging.DEBUG if quiet else logging.INFO
    if LOG.isEnabledFor(level):
        asked = ascii(log_lines.path(f"{method} {environ.get('PATH_INFO')}"))
        who, seconds = environ.get("REMOTE_ADDR"), call.watch.seconds
        LOG.log(level, "%s from %s: %s in %.3f s", asked, who, status, seconds)


def refuse(environ: Environ, start_response: StartResponse, why: refusals.Refusal) -> list[bytes]:
    """Send a refusal."""
    headers = why.headers
    if headers and _NO_RETRY_AFTER in (environ.get("HTTP_USER_AGENT") or ""):
        headers = tuple(pair for pair in headers if pair[0] != "Retry-After")
    return send(environ, start_response, why.status, why.body, headers)
