"""HTTP to one BMC with limits on time, size and target address.

A BMC may be slow, may send bytes for ever, or may point to another host. `Wire` is the connector
handed to sushy (``sushy.Sushy(connector=)``). No request of it outlasts its timeouts or leaves its
address.
"""

from __future__ import annotations

import codecs
import contextlib
import datetime
import email.utils
import functools
import html
import http.client
import importlib
import json
import logging
import re
import ssl
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol, cast

import orjson

from ironic_lite import errors
from ironic_lite.core import bounded_http, clock, metrics
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import allowed_networks, deadline
from ironic_lite.drivers.redfish.bmc import info, quirks
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

# Answers of a BMC in the form that sushy reads, with error bodies normalized.

_NAMES = frozenset({"@odata.type", "MessageId", "RelatedProperties", "code"})
"""Properties that only name things, and whose values matter to this driver and to sushy."""
_SHOWN = 80

EXTENDED_INFO = "@Message.ExtendedInfo"
_POINTER = re.compile(r"\bsee\b.{0,12}extendedinfo", re.IGNORECASE)
"""A message that only refers to the entries beside it."""
_ARGUMENT = re.compile(r"%([1-9])")
_ARGS = 8
_DIGITS = 9
_READ, _EXCERPT, _ENTRIES = 4096, 400, 10
_TEXT_NAMES: tuple[str, ...] = (
    *("value", "message", "messages", "detail", "details", "description", "reason", "error"),
    *("errors", "fault", "faultstring", "title", "text", "msg", "messageid"),
)
"""Names in lower case of properties with the text of an error, the best first."""
_BROKEN = frozenset({"GeneralError", "InternalError"})


def message_entries(document: JsonView) -> list[Json]:
    """Return the message entries of a task or of an answer (DSP0266, DSP0268)."""
    error = document.get("error")
    lists = (
        document.get("Messages"),
        document.get(EXTENDED_INFO),
        error.get(EXTENDED_INFO) if isinstance(error, dict) else None,
    )
    return [
        entry
        for found in lists
        if isinstance(found, list)
        for entry in found
        if isinstance(entry, dict)
    ]


def entry_text(entry: JsonView) -> str | None:
    """Return the message of an entry, or its id with its arguments if it has no message."""
    message, ident = entry.get("Message"), entry.get("MessageId")
    given = entry.get("MessageArgs")
    args = [str(arg) for arg in given[:_ARGS]] if isinstance(given, list) else []
    if isinstance(message, str) and message.strip() and not is_pointer(message):

        def filled(mark: re.Match[str]) -> str:
            place = int(mark[1]) - 1
            return args[place] if place < len(args) else mark[0]

        return _ARGUMENT.sub(filled, message.strip())
    if isinstance(ident, str) and ident.strip():
        return f"{ident.strip()} ({', '.join(args)})" if args else ident.strip()
    return None


def is_pointer(message: str) -> bool:
    """Return whether a message only refers to the entries beside it."""
    return _POINTER.search(message) is not None


def is_failure(document: JsonView) -> bool:
    """Return whether a task or an answer without an error status has the entry of an error."""
    return any(
        "Critical" in (entry.get("MessageSeverity"), entry.get("Severity"))
        or str(entry.get("MessageId")).rpartition(".")[2] in _BROKEN
        for entry in message_entries(document)
    )


def memory_size(document: JsonView) -> int:
    """Return the bytes of memory that a document takes."""
    found = 0
    left: list[Any] = [document]
    while left:
        one = left.pop()
        found += sys.getsizeof(one)
        if isinstance(one, dict):
            left += one
            left += one.values()
        elif isinstance(one, list):
            left += one
    return found


def not_json(what: str) -> Exception:
    """Return the error for a successful answer that is not a JSON object, but ``what``."""
    module = importlib.import_module("ironic_lite.drivers.redfish.bmc.logins")
    found: Exception = module.NotJson(what)
    return found


class Response:
    """One answer, with the attributes that sushy reads from a response of requests."""

    __slots__ = ("_document", "content", "headers", "status_code", "url")

    def __init__(self, url: str, status: int, headers: Mapping[str, str], content: bytes) -> None:
        """``headers`` must look up names in any case."""
        self.url = url
        self.status_code = status
        self.headers = headers
        self.content = content
        self._document: Any = None

    def json(self) -> Any:
        """Return the JSON document.

        :raises ValueError: it is not JSON.
        """
        if self._document is None:
            self._document = _json_value(self.content)
        return self._document

    def mapping(self) -> Json:
        """Return the JSON object.

        The error does not quote the body: if the address is not a BMC's, the body may have secrets.

        :raises not_json.NotJson: the body is not JSON, or not an object.
        """
        try:
            document = self.json()
        except bounded_http.TooManyValues as why:
            raise not_json(f"{self.url} is {why}") from None
        except ValueError:
            kind = (self.headers.get("Content-Type") or "none")[:_SHOWN]
            size = len(self.content)
            raise not_json(f"{self.url} is not JSON: {size} bytes, content type {kind}") from None
        if not isinstance(document, dict):
            raise not_json(f"{self.url} is not a JSON object but {type(document).__name__}")
        return document

    @property
    def etag(self) -> str | None:
        """The ETag of the document, from the header or else from the document itself."""
        found = self.headers.get("ETag") or self.mapping().get("@odata.etag")
        return found if isinstance(found, str) and found else None

    @property
    def retry_after(self) -> float | None:
        """The seconds after which the BMC wants the request again (RFC 9110, 10.2.3), or None.

        A date is compared with the BMC's own clock, which may be wrong, if the answer has its time.
        """
        told = (self.headers.get("Retry-After") or "").strip()
        if told.isascii() and told.isdigit():
            return float(told[:_DIGITS])
        then, now = _moment(told), _moment(self.headers.get("Date"))
        if then is None:
            return None
        now = now or clock.now().replace(tzinfo=datetime.UTC)
        return max(0.0, (then - now).total_seconds())

    def tidied(self, secret: str | None) -> Response:
        """Return an error answer in the form of DSP0266, because sushy breaks on other forms.

        Sushy also logs the message, so a password in it is removed.
        """
        if self.status_code < HTTPStatus.BAD_REQUEST:
            return self
        try:
            error = _error_object(self.json())
        except ValueError:
            error = {"message": _excerpt(self.content)}
        body = orjson.dumps({"error": _without_secret(secret, error) if secret else error})
        return Response(self.url, self.status_code, self.headers, body)


def _moment(told: str | None) -> datetime.datetime | None:
    try:
        found = email.utils.parsedate_to_datetime(told or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _json_value(content: bytes) -> Any:
    """Return the value of a JSON body, also of one with the usual mistakes of BMCs.

    These are bytes that are not UTF-8, NaN, a byte order mark, control characters, lone surrogates,
    and NULs, which databases cannot store.

    :raises bounded_http.TooManyValues, ValueError: see `bounded_http.json_value`.
    """
    try:
        found = bounded_http.json_value(content)
    except bounded_http.TooManyValues:
        raise
    except ValueError:
        text = content.removeprefix(codecs.BOM_UTF8).decode(errors="replace").rstrip("\0 \r\n\t")
        try:
            found = json.loads(text, strict=False, parse_constant=lambda name: None)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        return _cleaned(found)
    return _cleaned(found) if b"\\u0000" in content else found


def _cleaned(found: Any) -> Any:
    """Return a value of JSON without lone surrogates and NULs."""
    if isinstance(found, str):
        return found.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(found, dict):
        return {_cleaned(key): _cleaned(one) for key, one in found.items()}
    return [_cleaned(one) for one in found] if isinstance(found, list) else found


def _error_object(document: Any) -> Json:
    """Return the error of an answer as DSP0266 describes it, whatever form it has."""
    error = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(error, dict):
        # Some have a number as the error, and its text beside it.
        beside = document if isinstance(document, dict) and not isinstance(error, str) else {}
        error = {"message": _text_of(error) or _text_of(beside)}
    said = error.get(
        EXTENDED_INFO, document.get(EXTENDED_INFO) if isinstance(document, dict) else None
    )
    listed = said if isinstance(said, list) else [said]
    shown = [_entry(one) for one in listed if isinstance(one, dict | str)]
    found = {name: error[name] for name in ("code", "message") if error.get(name) is not None}
    message = _text_of(found.get("message"))
    if not message and not shown:
        message = _text_of(error)
    code = found.get("code")
    return {
        **({"code": code} if isinstance(code, str) else {}),
        **({"message": message} if message else {}),
        EXTENDED_INFO: shown,
    }


def _entry(said: Json | str) -> Json:
    """Return a message entry whose Message is text."""
    if isinstance(said, str):
        return {"Message": said}
    known = {key: one for key, one in said.items() if key != "Message"}
    message = _text_of(said.get("Message"))
    return {**known, "Message": message} if message else known


def _text_of(said: Any) -> str:
    """Return the text of an error in any form: a word, a list, or an object with lang and value."""
    if isinstance(said, str):
        return said.strip()[:_EXCERPT]
    if isinstance(said, list):
        parts = [_text_of(one) for one in said[:_ENTRIES]]
        return " ".join(filter(None, parts))[:_EXCERPT]
    if isinstance(said, dict):
        lower = {str(key).lower(): one for key, one in said.items()}
        for name in _TEXT_NAMES:
            if isinstance(lower.get(name), str | list | dict) and (found := _text_of(lower[name])):
                return found
    return ""


def _excerpt(content: bytes) -> str:
    """Return the begin of a body that is not JSON, without the tags of HTML."""
    text = content[:_READ].decode(errors="replace")
    text = re.sub(r"(?is)<(script|style|head)\b.*?(</\1>|$)", " ", text)
    text = html.unescape(re.sub(r"<[^>]*(>|$)", " ", text))
    text = " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
    return text[:_EXCERPT]


def _without_secret(secret: str, said: object) -> Any:
    if isinstance(said, str):
        return errors.blanked(said, secret)
    if isinstance(said, dict):
        return {
            key: one if key in _NAMES else _without_secret(secret, one) for key, one in said.items()
        }
    return [_without_secret(secret, one) for one in said] if isinstance(said, list) else said


LIMIT = 16 * 1024 * 1024
"""Bytes one answer may have; the largest real ones, message registries, have one or two million."""

_REDIRECTS = 3
_KEEPING = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
"""Only these redirections keep the method and body of a POST or PATCH (RFC 9110, 15.4)."""
_TURNS = _KEEPING | {HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.SEE_OTHER}
_SLASHES = frozenset({HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND})
_PORTS = {"http": http.client.HTTP_PORT, "https": http.client.HTTPS_PORT}
_WEAK = re.compile(r'W/("[^"]*")')
_PRECONDITION = frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED})

_HEADERS = {
    "Accept": "*/*",
    # Some BMCs give a compressed answer a weak ETag, which a change must not name.
    "Accept-Encoding": "identity",
    "OData-Version": "4.0",
    "User-Agent": "ironic-lite",
}

Headers = Mapping[str, str]

KEPT = bounded_http.IdleConnections(4.0)
"""Connections of logins, by their `Wire`. BMCs have few; many close an idle one after 5 s."""


class BmcRequest(NamedTuple):
    """A request to a BMC: its method, and the path of its URL without the query."""

    method: str
    path: str


class WrongTurn(OSError):
    """A refused redirection: it would send our credentials elsewhere, or lose the request body."""


# -- TLS --------------------------------------------------------------------------------------


def tls_context(node: info.RedfishInfo) -> ssl.SSLContext:
    """Return the TLS context of a node; nodes with equal settings share one context.

    Loading the certificates of all authorities takes tens of milliseconds and a megabyte, so it
    happens once and not for each login.

    :raises errors.InvalidParameter: the CA file or folder cannot be read, or has no certificate.
    """
    trusted = info.ca_state(node.verify) if isinstance(node.verify, str) else None
    return _tls_context(node.verify, trusted, node.tls_minimum_version, node.tls_ciphers)


@functools.lru_cache(maxsize=32)
def _tls_context(
    verify: str | bool, trusted: info.CaState | None, minimum: str | None, ciphers: str | None
) -> ssl.SSLContext:
    context = bounded_http.tls_context()
    if trusted is not None:
        info.load_ca(context, trusted)
    elif verify:
        context.load_verify_locations(cafile=bounded_http.PUBLIC_AUTHORITIES)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    bounded_http.limit_tls(context, minimum, ciphers)
    return context


# -- the connector ----------------------------------------------------------------------------


class Before(Protocol):
    """Called before each request; if it raises, the request is not sent."""

    def __call__(self, *, changes: bool) -> None:
        """Allow a request; ``changes`` is False for reads and for logins."""


class Wire:
    """Sushy connector that sends each request once; `connection` decides on retries and pauses.

    Sushy's own connector would sleep in this thread, where a stopping service cannot wake it.
    """

    def __init__(
        self,
        node: info.RedfishInfo,
        *,
        connect_timeout: float,
        read_timeout: float,
        before: Before = lambda *, changes: None,
    ) -> None:
        """Prepare the requests to a BMC; nothing is sent yet.

        :param connect_timeout: seconds a connection may take, TLS included.
        :param read_timeout: seconds from a sent request to its complete answer.
        :raises errors.InvalidParameter: see `tls_context`.
        """
        parts = urllib.parse.urlsplit(node.address)
        self._base = node.address
        self._before, self._changes = before, True
        self._host, self._port = parts.hostname or "", parts.port
        self._secret = node.password
        self._timeouts = connect_timeout, read_timeout
        self._tls = tls_context(node) if parts.scheme == "https" else None
        self._keeps = node.keep_connections
        self._login: dict[str, str] = {}
        self.accepted: Response | None = None
        """The newest answer 202 to a change, for callers whose library drops the answer."""

    @property
    def has_token(self) -> bool:
        """Return whether requests carry the token of a Redfish session."""
        return "X-Auth-Token" in self._login

    def use_password(self, username: str, password: str) -> None:
        """Send user and password with each request from now on."""
        self._login = {"Authorization": bounded_http.basic_login(username, password)}

    def use_token(self, token: str) -> None:
        """Send the token of a session with each request from now on."""
        self._login = {"X-Auth-Token": token}

    def drop_connection(self) -> None:
        """Close the kept connection, which nobody will use."""
        KEPT.drop(self)

    @contextlib.contextmanager
    def unkept(self) -> Iterator[None]:
        """Use a new connection for each request.

        A request on a kept one may be lost unread, so a missing answer would not tell that the BMC
        obeyed.
        """
        self.drop_connection()
        keeps, self._keeps = self._keeps, False
        try:
            yield
        finally:
            self._keeps = keeps

    def set_auth(self, auth: object) -> None:
        """Do nothing; sushy calls this. `connection` renews logins, not the connector."""

    # -- reading --------------------------------------------------------------------------

    def document(self, path: str) -> Json:
        """Return the JSON object at ``path``; sends one GET and parses its answer once.

        :raises sushy.exceptions.SushyError: no answer, or an invalid one (NotJson).
        """
        return self.answer(path).mapping()

    def get(self, path: str = "", data: object = None, headers: Headers | None = None) -> Response:
        """Return the answer to a GET, checked to be a JSON object.

        :raises sushy.exceptions.SushyError: no answer, or an invalid one (NotJson).
        """
        response = self.answer(path, data, headers)
        # Sushy logs an unparsable answer in full, however large, so it must never receive one.
        response.mapping()
        return response

    def answer(self, path: str, data: object = None, headers: Headers | None = None) -> Response:
        """Return the unchecked answer to a GET; that of a task's monitor may have no body.

        :raises sushy.exceptions.SushyError: no answer, or an error.
        """
        try:
            return self._send_checked("GET", path, data, headers)
        except sushy.exceptions.NotAcceptableError:
            # Some HPE machines send message registries only compressed.
            quirks.PACKED_REGISTRIES.log(f"BMC {self._base}")
            packed = {**(headers or {}), "Accept-Encoding": "gzip"}
            return self._send_checked("GET", path, data, packed)

    # -- changing -------------------------------------------------------------------------

    def post(self, path: str = "", data: object = None, headers: Headers | None = None) -> Response:
        """Return the answer to a POST.

        :raises sushy.exceptions.SushyError: no answer, or an error.
        """
        return self._send_checked("POST", path, data, headers)

    def put(self, path: str = "", data: object = None, headers: Headers | None = None) -> Response:
        """Return the answer to a PUT.

        :raises sushy.exceptions.SushyError: no answer, or an error.
        """
        return self._send_checked("PUT", path, data, headers)

    def delete(
        self, path: str = "", data: object = None, headers: Headers | None = None
    ) -> Response:
        """Return the answer to a DELETE.

        :raises sushy.exceptions.SushyError: no answer, or an error.
        """
        return self._send_checked("DELETE", path, data, headers)

    def patch(
        self,
        path: str = "",
        data: object = None,
        headers: Headers | None = None,
        etag: str | None = None,
    ) -> Response:
        """Return the answer to a PATCH.

        Some BMCs refuse their own weak ETags, and some refuse any ETag. The change is then sent
        again with the strong form, and without an ETag. Others refuse a change without an ETag,
        which they may show in the document alone (DSP0266, ETags); sushy does not look there.

        :raises sushy.exceptions.SushyError: no answer, or an error.
        """
        given = {name: value for name, value in (headers or {}).items() if value}
        tried: list[str | None] = []
        left: list[str | None] = [*_usable_tags(etag or given.pop("If-Match", None)), None]
        while True:
            tag = left.pop(0)
            tried.append(tag)
            sent = given if tag is None else {**given, "If-Match": tag}
            try:
                return self._send_checked("PATCH", path, data, sent)
            except sushy.exceptions.HTTPError as error:
                if error.status_code not in _PRECONDITION:
                    raise
                if tag is None:
                    left += [new for new in _usable_tags(self.get(path).etag) if new not in tried]
                else:
                    quirks.UNUSABLE_ETAG.log(f"BMC {self._base}")
                if not left:
                    raise

    def send_of_session(
        self, method: str, path: str, data: object = None, headers: Headers | None = None
    ) -> Response:
        """Return the answer to the opening or the end of the own session, as `post`."""
        self._changes = False
        try:
            return self._send_checked(method, path, data, headers)
        finally:
            self._changes = True

    # -- the wire -------------------------------------------------------------------------

    def _send_checked(
        self, method: str, path: str, data: object, headers: Headers | None
    ) -> Response:
        """Return an answer without an error status.

        :raises sushy.exceptions.ConnectionError: no complete answer came in time.
        :raises sushy.exceptions.HTTPError: the answer has an error status.
        """
        try:
            return self._send_counted(method, path, data, headers)
        except sushy.exceptions.SushyError as error:
            error.asked = BmcRequest(method, urllib.parse.urlsplit(path).path)
            raise

    def _send_counted(
        self, method: str, path: str, data: object, headers: Headers | None
    ) -> Response:
        # An absolute link may name a host known only in the BMC's own network, or a foreign host.
        bare = urllib.parse.urlsplit(path)._replace(scheme="", netloc="").geturl()
        url = urllib.parse.urljoin(self._base, bare)
        # A query may have a key, as in links to files.
        what = f"{method} {urllib.parse.urlsplit(url).path}"
        reads = method == "GET"
        with metrics.BMCS.call("redfish", method, what, reads=reads) as counted:
            try:
                response = self._send_following(method, url, data, headers or {}).tidied(
                    self._secret
                )
            except (OSError, http.client.HTTPException) as why:
                counted.answer = f"no answer ({type(why).__name__})"
                raise sushy.exceptions.ConnectionError(url=url, error=type(why).__name__) from why
            counted.answer = str(response.status_code)
            LOG.debug("%s %s: %d", method, url, response.status_code)
            counted.result = metrics.ERROR
            try:
                sushy.exceptions.raise_for_response(method, url, response)
            except sushy.exceptions.HTTPError as error:
                error.retry_after = response.retry_after
                raise
            counted.result = metrics.OK
        if not reads and response.status_code == HTTPStatus.ACCEPTED:
            self.accepted = response
        return response

    def _send_following(self, method: str, url: str, data: object, headers: Headers) -> Response:
        """Return the answer after following redirections within the BMC."""
        body = None if data is None else json.dumps(data, allow_nan=False).encode()
        sent = {**_HEADERS, **self._login, **headers}
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        for _ in range(_REDIRECTS + 1):
            response = self._send_once(method, url, body, sent)
            target = response.headers.get("Location")
            if response.status_code not in _TURNS or not target:
                return response
            url = _redirection_target(method, url, target, response.status_code)
        raise WrongTurn(f"Exceeded {_REDIRECTS} redirects")

    def _send_once(self, method: str, url: str, body: bytes | None, headers: Headers) -> Response:
        # The same login serves a sweep with a short deadline and a step with a long one.
        connect, read = map(deadline.within, self._timeouts)
        limits = bounded_http.Limits(connect=connect, whole=read, size=LIMIT)
        judge = allowed_networks.judge("redfish")
        target = url.removeprefix(self._base)
        made = bounded_http.Connection(
            self._host, self._port, limits=limits, judge=judge, tls=self._tls
        )
        changes = self._changes and method not in {"GET", "HEAD"}
        with bounded_http.AnswerMemory(LIMIT, read) as memory:
            status, told, content = KEPT.exchange(
                self if self._keeps else None,
                made,
                bounded_http.HttpRequest(method, target, headers, body),
                before=lambda: self._before(changes=changes),
                memory=memory,
            )
            response = Response(url, status, cast(Headers, told), content)
            if memory.taken:
                with contextlib.suppress(ValueError):  # the reader of the answer says what is wrong
                    response.json()
        return response


class Keeper:
    """A connector for sushy, which drops the answers to changes; this one keeps the last."""

    def __init__(self, wire: Wire) -> None:
        self.last: Response | None = None
        self.get = wire.get
        self._wire = wire

    def post(self, *args: Any, **options: Any) -> Response:
        """Return the answer to a POST; see `Wire.post`."""
        self.last = self._wire.post(*args, **options)
        return self.last

    def patch(self, *args: Any, **options: Any) -> Response:
        """Return the answer to a PATCH; see `Wire.patch`."""
        self.last = self._wire.patch(*args, **options)
        return self.last


def _usable_tags(etag: str | None) -> list[str]:
    """Return an ETag for If-Match, and the strong form of a weak one, which some BMCs want."""
    weak = _WEAK.fullmatch(etag) if etag else None
    return [tag for tag in (etag, weak and weak[1]) if tag]


def _redirection_target(method: str, url: str, target: str, status: int) -> str:
    """Return the target URL of a redirection, with the host as it was written.

    Supermicro X9 to X11 redirect a POST by 301 to the same path with a slash. Method and body are
    then sent again, because nothing was done; any other place would be a request of its own.

    :raises WrongTurn: the redirection leads to another host or changes the method.
    """
    there = urllib.parse.urljoin(url, target)
    before, after = urllib.parse.urlsplit(url), urllib.parse.urlsplit(there)
    if _origin(after) != _origin(before):
        place = f"{after.scheme}://{after.netloc.rpartition('@')[2]}"
        raise WrongTurn(f"it redirects to {place}; if that is right, set redfish_address to it")
    same = after.path.rstrip("/") == before.path.rstrip("/") and after.path != before.path
    if method != "GET" and status not in _KEEPING and not (same and status in _SLASHES):
        raise WrongTurn(f"it redirects a {method} by {status}, which would lose the request body")
    return after._replace(netloc=before.netloc).geturl()


def _origin(parts: urllib.parse.SplitResult) -> tuple[str, str | None, int | None]:
    """Return the scheme, the host and the port of a URL, also of one with an invalid port."""
    try:
        port = parts.port
    except ValueError:
        return parts.scheme, parts.netloc, None
    return parts.scheme, parts.hostname, port or _PORTS.get(parts.scheme)
