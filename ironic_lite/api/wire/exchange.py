"""One request and its answer, as slim as the service needs them: what Pecan makes for every call.

Pecan's own classes are WebOb's, which parse and guess much that nobody here asks for.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from http import HTTPStatus
from typing import Any

from oslo_config import cfg

from ironic_lite import metrics
from ironic_lite.api.policy.access import Access
from ironic_lite.api.wire import faults, intake
from ironic_lite.context import Context
from ironic_lite.versions import Version

LOG = logging.getLogger(__name__)

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
_EVERYTHING = Access()
CALL = "ironic_lite.call"
"""Where `front` leaves a `Call` in the WSGI environment."""

_HOST = re.compile(r"[A-Za-z0-9._~-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PREFIX = re.compile(r"(/[\w.~%-]+)*", re.ASCII)
_JSON = ("Content-Type", "application/json")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READING = frozenset({"GET", "HEAD"})
_PHRASES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


@dataclasses.dataclass(slots=True)
class Call:
    """What is known of a request before it is routed.

    ``path`` starts below ``/v1`` and has no trailing slash; ``headers`` go on every answer.
    ``route`` is the path of the table that answers, once that is known. ``public`` says that nobody
    has to log in for it; ``access`` is what the caller may do. ``found`` and ``body`` are there
    once it is routed, and its body has come. ``suffix`` has been taken off the path.
    """

    path: str
    version: Version
    who: Context
    headers: tuple[tuple[str, str], ...]
    conf: cfg.ConfigOpts
    route: str = "none"
    watch: metrics.Watch = dataclasses.field(default_factory=metrics.Watch)
    public: bool = False
    access: Access = _EVERYTHING
    found: Any = None
    body: bytes = b""
    suffix: str = ""


class Request:
    """What a handler may ask of the request it answers."""

    def __init__(self, environ: Environ) -> None:
        call: Call = environ[CALL]
        self.environ = environ
        self.method: str = environ["REQUEST_METHOD"]
        self.path = call.path
        self.version = call.version.minor
        self.asked = call.version.explicit
        """Whether the client has named a version."""
        self.suffix = call.suffix
        """``.json``, if the path had it and the version takes it off; a name may end so, too."""
        self.who = call.who
        self.access = call.access
        self.body = b""
        self.answer: Answer = _NOWHERE
        # Pecan's own scratch space, under the names it expects.
        self.context: dict[str, Any] = {}
        self.pecan: dict[str, Any] = {}

    @cached_property
    def query(self) -> dict[str, str]:
        """The arguments of the query string, as `intake.query`. Raises InvalidRequest."""
        return intake.query(self.environ.get("QUERY_STRING") or "")

    @cached_property
    def json(self) -> Any:
        """The JSON value of the body, None for an empty one. Raises as `intake.parse`."""
        # What machines tell of themselves is taken as it comes.
        exact = not self.environ[CALL].public
        return intake.parse(self.body, self.environ.get("CONTENT_TYPE") or "", exact=exact)

    @cached_property
    def if_match(self) -> frozenset[str]:
        """The entity tags that a change is bound to (RFC 9110, 13.1.1), ``*`` for any; empty: none.

        GETs are bound to nothing.
        """
        if self.method == "GET":
            return frozenset()
        given = str(self.environ.get("HTTP_IF_MATCH") or "").split(",")
        return frozenset(tag.strip() for tag in given if tag.strip())

    @cached_property
    def base(self) -> str:
        """Start of every link: scheme, host and prefix, without a slash at the end."""
        api = self.environ[CALL].conf.api
        if api.public_endpoint:
            return str(api.public_endpoint).rstrip("/")
        return _base(self.environ, proxied=api.enable_proxy_headers_parsing)


def anonymous(environ: Environ, request_id: str) -> Context:
    """Tell who asks when nobody must log in; a caller's own request id is kept beside ours."""
    theirs = environ.get("HTTP_X_OPENSTACK_REQUEST_ID") or ""
    known = theirs if _REQUEST_ID.fullmatch(theirs) else None
    return Context(request_id=request_id, global_request_id=known)


def _base(environ: Environ, *, proxied: bool) -> str:
    scheme = environ["wsgi.url_scheme"]
    host = environ.get("HTTP_HOST") or ""
    prefix = environ.get("SCRIPT_NAME") or ""
    if proxied:
        scheme = _first(environ, "HTTP_X_FORWARDED_PROTO") or scheme
        host = _first(environ, "HTTP_X_FORWARDED_HOST") or host
        prefix = _first(environ, "HTTP_X_FORWARDED_PREFIX") or prefix
    if not _is_host(host):
        host = f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    if scheme not in {"http", "https"}:
        scheme = "http"
    return f"{scheme}://{host}{prefix.rstrip('/') if _PREFIX.fullmatch(prefix) else ''}"


def _first(environ: Environ, name: str) -> str:
    """Return what the outermost of several proxies said."""
    return str(environ.get(name) or "").split(",", maxsplit=1)[0].strip()


@lru_cache(maxsize=256)
def _is_host(host: str) -> bool:
    return _HOST.fullmatch(host) is not None


class Answer:
    """What Pecan fills in and then calls as a WSGI application."""

    # Pecan looks at these two to tell an empty answer.
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
        """Send it."""
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
    _count(call, environ["REQUEST_METHOD"], status)
    _log(call, environ, status)
    start_response(_PHRASES[status], _headers(call, status, body, headers))
    return [body] if body and environ["REQUEST_METHOD"] != "HEAD" else []


def _headers(
    call: Call, status: int, body: bytes, headers: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    shown = [*headers, *call.headers]
    if body and not any(name == _JSON[0] for name, _ in shown):
        shown.append(_JSON)
    if status != HTTPStatus.NO_CONTENT:
        shown.append(("Content-Length", str(len(body))))
    return shown


def refusal_headers(environ: Environ, why: faults.Refusal) -> list[tuple[str, str]]:
    """Return the headers of a refusal, for a server that sends it by itself."""
    return _headers(environ[CALL], why.status, why.body, why.headers)


def _count(call: Call, method: str, status: int) -> None:
    # Anybody may invent methods: they must not make series.
    known = method if method in _METHODS else "other"
    metrics.BOARD.count("http_requests_total", known, call.route, str(status))
    metrics.BOARD.observe("http_request_seconds", call.watch.seconds, known, call.route)


def _log(call: Call, environ: Environ, status: int) -> None:
    """Write a line: what changes something, and what failed, is of interest to whoever keeps logs.

    Agents of machines, and strangers, ask too often for that. The query may be secret.
    """
    method = environ["REQUEST_METHOD"]
    quiet = (method in _READING or call.public) and status < HTTPStatus.INTERNAL_SERVER_ERROR
    level = logging.DEBUG if quiet else logging.INFO
    if LOG.isEnabledFor(level):
        asked = ascii(f"{method} {environ.get('PATH_INFO')}")
        who, seconds = environ.get("REMOTE_ADDR"), call.watch.seconds
        LOG.log(level, "%s from %s: %s in %.3f s", asked, who, status, seconds)


def refuse(environ: Environ, start_response: StartResponse, why: faults.Refusal) -> list[bytes]:
    """Send a refusal."""
    return send(environ, start_response, why.status, why.body, why.headers)
