"""The address of a client, and the network that counts as one source."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import json
import logging
import math
import re
import urllib.parse
from collections.abc import Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from ironic_lite import errors
from ironic_lite.api.http import refusals
from ironic_lite.api.policy.access import Access
from ironic_lite.core import log_lines, masking, metrics
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import Configuration
from ironic_lite.db.queries.idempotency import Claim
from ironic_lite.domain.versions import Version

_NETWORK = 64
"""Bits of an IPv6 network that belongs to one site (RFC 4291, 2.5.4)."""
_LONGEST_ADDRESS = 64
"""Characters of an address that are compared."""


def client_address(environ: Json, *, proxied: bool) -> str:
    """Return the client address of a request, or ``unix`` over a unix socket.

    :param proxied: trust the headers of a proxy ([api]enable_proxy_headers_parsing); the result is
        the address that connected to the proxy.
    """
    if proxied:
        last = str(environ.get("HTTP_X_FORWARDED_FOR") or "").rpartition(",")[2].strip()
        if last:
            return last[:_LONGEST_ADDRESS]
    return str(environ.get("REMOTE_ADDR") or "")


@functools.lru_cache(maxsize=1024)
def client_network(address: str) -> str:
    """Return the site's network of an IPv6 address, or an IPv4 address itself."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.strip("[]").partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return address
    return str(ipaddress.IPv6Network((found, _NETWORK), strict=False))


# Requests that the server answers later, or bit by bit.
#
# A handler cannot wait: it holds a thread and a slot of the concurrency limits. It stores one of
# these records in its `request.Call`, beside the answer that it would give now. The server waits
# without a thread, and calls the handler again.


@dataclasses.dataclass(frozen=True, slots=True)
class Suspension:
    """Call the handler again after a change, or when the time is over.

    :ivar seconds: the time that is left. The last call happens at its end.
    :ivar node: wake after any event of this node.
    :ivar choice: wake after a settled event that this `feed.Filter` accepts.
    :ivar pause: call after this time without a change, too.
    """

    seconds: float
    node: str | None = None
    choice: Any = None
    pause: float = math.inf

    @property
    def next_call(self) -> float:
        """Seconds after which the handler is called without a change."""
        return max(0.0, min(self.seconds, self.pause))

    def within(self, login_seconds: float) -> Suspension:
        """Return a suspension that calls the handler when the login of the caller has ended."""
        return dataclasses.replace(self, pause=min(self.pause, login_seconds))


@dataclasses.dataclass(frozen=True, slots=True)
class Stream:
    """Stream the events that follow a cursor.

    :ivar after: the cursor.
    :ivar choice: an `feed.Filter`.
    :ivar limit: end after this number of events, None for no limit.
    :ivar skipped: ids above the cursor that the client does not want.
    :ivar removed: the largest id of a removed event, 0 if none was removed.
    :ivar login_seconds: the time until the login of the caller ends.
    :ivar complete: no removed event is one that the client wants.
    """

    after: int
    choice: Any
    limit: int | None = None
    skipped: frozenset[int] = frozenset()
    removed: int = 0
    login_seconds: float = math.inf
    complete: bool = False


class Piece(NamedTuple):
    """The next part of a text, and whether it is the last one."""

    text: str
    last: bool


@dataclasses.dataclass(frozen=True, slots=True)
class TextStream:
    """Stream a text as it grows.

    :ivar read: returns the part that follows the part before; it may block on the database.
    :ivar node: read again after any event of this node.
    :ivar login_seconds: the time until the login of the caller ends.
    """

    read: Callable[[], Piece]
    node: str
    login_seconds: float = math.inf


Later = Suspension | Stream | TextStream
"""Any way to go on with a request."""


# Parse body and query: JSON of limited depth, text that databases can store.
#
# Input that a later part could not handle is refused here; the refusal names its place.

MAX_DEPTH = 25
MAX_MARKS = 200_000
"""Most ``{``, ``[`` and ``,`` outside of strings that a body may have.

Each may take up to 200 bytes once parsed, so a limit on the body's size alone does not limit the
memory: ``{"":0},`` becomes 37 times as large.
"""
MAX_ARGUMENTS = 200
LISTED = frozenset({"addresses", "conductor_groups", "device_types", "fields", "shard", "state"})
"""Query arguments whose values are ``a,b,c``; ``x=a&x=b`` means the same."""

_JSON_TYPES = re.compile(r"application/(json|[\w.+-]+\+json)", re.ASCII)
_CHARSET = re.compile(r"""charset\s*=\s*"?([^";\s]+)""", re.IGNORECASE)
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
# A string without an end matches to the end of the text, and nothing is tried twice. Otherwise the
# time for a broken text would grow with the square of its length.
_MARKS = re.compile(rb'[\[\]{}]|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
# Text between strings, and strings; each match ends where the next begins.
_SPANS = re.compile(rb'[^"]++|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NUL_ESCAPE = b"\\u0000"
_LOOKED_THROUGH = 1 << 20
_MANY_DIGITS = re.compile(rb"[:,\[\s]-?[0-9]{19}")
_LEAST, _MOST, _DIGITS = -(2**63), 2**64 - 1, 20
_TOO_LONG = object()
_TOO_MANY = (
    f"The request body has more than {MAX_MARKS} of the characters {{, [ and , outside of strings. "
    "Send fewer values at once."
)
_TOO_DEEP = f"The request body is nested more than {MAX_DEPTH} levels deep."


def parse_body(body: bytes, content_type: str, *, exact: bool = True) -> Any:
    """Return the JSON value of a body; None for an empty one, whatever its type.

    :param content_type: value of the Content-Type header, "" if there was none.
    :param exact: refuse whole numbers that would be rounded, in a body of at most 1 MiB. Larger
        bodies hold images and inventories; to search them would take seconds.
    :raises errors.InvalidRequest: not sent as JSON, not JSON, or with NUL characters or numbers of
        more than 64 bits.
    :raises refusals.Refusal: nested too deeply, or too many values.
    """
    if not body:
        return None
    _check_type(content_type)
    if _too_many_marks(body):
        raise refusals.guarded(HTTPStatus.BAD_REQUEST, _TOO_MANY)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as why:
        # A more exact message is not worth the time to search the rest of a larger body.
        if _marks_too_deep(body[:_LOOKED_THROUGH]):
            raise refusals.guarded(HTTPStatus.BAD_REQUEST, _TOO_DEEP) from None
        raise errors.InvalidRequest(f"The request body is not valid JSON: {why}.") from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        raise refusals.guarded(HTTPStatus.BAD_REQUEST, _TOO_DEEP)
    if _NUL_ESCAPE in body:
        place = _place_of_bad_value(value, lambda one: isinstance(one, str) and "\0" in one, "")
        if place is not None:
            raise errors.InvalidParameter(
                path=place or "/", reason="holds a NUL character, which is no text"
            )
    if exact and len(body) <= _LOOKED_THROUGH and _MANY_DIGITS.search(body):
        _refuse_rounded(body)
    return value


def _refuse_rounded(body: bytes) -> None:
    """Refuse whole numbers that do not fit in 64 bits, because they would be rounded."""
    place = _place_of_bad_value(
        json.loads(body, parse_int=_bounded_integer), lambda one: one is _TOO_LONG
    )
    if place is not None:
        reason = "is a whole number of more than 64 bits; send it as a string"
        raise errors.InvalidParameter(path=place or "/", reason=reason)


def _bounded_integer(digits: str) -> Any:
    # The time of int() grows with the square of the number of digits.
    return int(digits) if len(digits) <= _DIGITS and _LEAST <= int(digits) <= _MOST else _TOO_LONG


def _check_type(content_type: str) -> None:
    kind = content_type.split(";", maxsplit=1)[0].strip().lower()
    if not _JSON_TYPES.fullmatch(kind):
        sent = f"not {kind[:80]}" if kind else "and this one has no such header"
        raise errors.InvalidRequest(
            f"The request body must be sent with the header Content-Type: application/json, {sent}."
        )
    charset = _CHARSET.search(content_type)
    if charset and charset[1].lower() not in _CHARSETS:
        raise errors.InvalidRequest(f"The request body must be sent in UTF-8, not {charset[1]}.")


def _too_many_marks(body: bytes) -> bool:
    """Return whether a body has more than `MAX_MARKS`, in time linear in its size."""
    if _count_marks(body) <= MAX_MARKS:
        return False
    found = strings = 0
    for span in _SPANS.finditer(body):
        text = span[0]
        if text[:1] == b'"':
            strings += 1
        else:
            found += _count_marks(text)
        # Only a key and its value have no mark between them.
        if found > MAX_MARKS or strings > 2 * MAX_MARKS + 1:
            return True
    return False


def _count_marks(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[") + text.count(b",")


def _marks_too_deep(body: bytes) -> bool:
    """Return whether a text that could not be parsed is nested too deeply."""
    depth = 0
    for found in _MARKS.finditer(body):
        mark = found[0]
        if mark in {b"[", b"{"}:
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif mark in {b"]", b"}"}:
            depth -= 1
    return False


def is_deeper(value: object, most: int) -> bool:
    """Return whether lists and objects nest more than ``most`` levels."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        level = [
            inner
            for held in level
            for inner in (held.values() if isinstance(held, dict) else held)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def refuse_mask(value: object, place: str) -> None:
    """Refuse a text that answers show in place of a secret; stored, it would replace the secret.

    :param value: the value at ``place``, the JSON path without a slash in front.
    :raises errors.InvalidParameter: with the path of the text.
    """
    found = masking.mask_path(value, place)
    if found is not None:
        reason = f"holds {masking.MASK}, as answers show a secret; send the secret itself"
        raise errors.InvalidParameter(path=found, reason=reason)


def _place_of_bad_value(value: object, bad: Callable[[Any], bool], place: str = "") -> str | None:
    """Return the JSON pointer of the first bad value, or value with a bad key."""
    if isinstance(value, dict):
        if any(map(bad, value)):
            return place
        pairs: Any = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        return place if bad(value) else None
    for key, held in pairs:
        found = _place_of_bad_value(held, bad, f"{place}/{key}")
        if found is not None:
            return found
    return None


def parse_query(text: str) -> dict[str, str]:
    """Return the arguments of a query string; a list may be in several arguments.

    :param text: QUERY_STRING, its bytes as latin-1 characters as in WSGI.
    :raises errors.InvalidRequest: not UTF-8, too many arguments, a NUL, or an argument twice.
    """
    if not text:
        return {}
    try:
        decoded = text if text.isascii() else text.encode("latin-1").decode()
        pairs = urllib.parse.parse_qsl(
            decoded, keep_blank_values=True, errors="strict", max_num_fields=MAX_ARGUMENTS
        )
    except UnicodeError:
        raise errors.InvalidRequest("The query string is not UTF-8.") from None
    except ValueError:
        raise errors.InvalidRequest(
            f"The query string has more than {MAX_ARGUMENTS} arguments."
        ) from None
    if "\0" in decoded or "%00" in decoded:
        raise errors.InvalidRequest("The query string holds a NUL character.")
    found = dict(pairs)
    return found if len(found) == len(pairs) else _join_repeated(pairs)


def _join_repeated(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the arguments of a query in which a name occurs more than once.

    To use only one of several values would answer another question than the client's.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif name in LISTED:
            found[name] += f",{value}"
        else:
            raise errors.InvalidParameter(path=name, reason="is given more than once")
    return found


# Small classes for a request and its answer, which Pecan makes for every call.
#
# Pecan's own classes are WebOb's. They parse much that this service does not use.

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
        """Return the result of the route's handler."""
        return self._found.handler(self, *self._found.words)

    @property
    def call(self) -> Call:
        """The facts about this request, which outlive a suspension."""
        call: Call = self.environ[CALL]
        return call

    @property
    def query(self) -> dict[str, str]:
        """The arguments of the query string by `parse_query`; raises InvalidRequest."""
        if self._query is None:
            self._query = parse_query(self.environ.get("QUERY_STRING") or "")
        return self._query

    @property
    def json(self) -> Any:
        """The JSON value of the body, None for an empty body. Raises as `parse_body`."""
        if self._json is _UNREAD:
            # Numbers in an agent's report about its machine may be rounded.
            exact = not self.environ[CALL].public
            content_type = self.environ.get("CONTENT_TYPE") or ""
            self._json = parse_body(self._body, content_type, exact=exact)
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
            refuse_mask(value, name)


def anonymous(environ: Environ, request_id: str) -> Context:
    """Return the context of a caller without login, with the caller's request id."""
    theirs = environ.get("HTTP_X_OPENSTACK_REQUEST_ID") or ""
    known = theirs if _REQUEST_ID.fullmatch(theirs) else None
    return Context(request_id=request_id, global_request_id=known)


def takes_coding(environ: Environ, *names: str) -> bool:
    """Return whether ``Accept-Encoding`` allows a coding of these names (RFC 9110, 12.5.3)."""
    accepted = environ.get("HTTP_ACCEPT_ENCODING") or ""
    for one in accepted.lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() in names:
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
    if not (len(host) <= _LONGEST_HOST and _is_valid_host(host)):
        host = f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    if scheme not in {"http", "https"}:
        scheme = "http"
    return f"{scheme}://{host}{prefix.rstrip('/') if _PREFIX.fullmatch(prefix) else ''}"


def _first_value(environ: Environ, name: str) -> str:
    """Return the value added by the outermost of several proxies."""
    return str(environ.get(name) or "").split(",", maxsplit=1)[0].strip()


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
