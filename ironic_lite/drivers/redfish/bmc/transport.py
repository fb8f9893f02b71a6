"""HTTP to one BMC with limits on time, size and target address.

A BMC may be slow, may send bytes for ever, or may point to another host. `Wire` is the connector
handed to sushy (``sushy.Sushy(connector=)``). No request of it outlasts its timeouts or leaves its
address.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import json
import logging
import re
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, cast

from ironic_lite.core import bmc_metrics, bounded_http
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import allowed_networks, deadline
from ironic_lite.drivers.redfish.bmc import ca_files, info, quirks
from ironic_lite.drivers.redfish.bmc import library as sushy
from ironic_lite.drivers.redfish.bmc.responses import Response, not_json

__all__ = ["LIMIT", "Asked", "Response", "Wire", "WrongTurn", "not_json"]

LOG = logging.getLogger(__name__)

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
    # Some BMCs fail on connections that stay open between two calls.
    "Connection": "close",
    "OData-Version": "4.0",
    "User-Agent": "ironic-lite",
}

Headers = Mapping[str, str]


class Asked(NamedTuple):
    """A request to a BMC: its method, and the path of its URL without the query."""

    method: str
    path: str


class WrongTurn(OSError):
    """A refused redirection: it would send our credentials elsewhere, or lose the request body."""


# -- TLS --------------------------------------------------------------------------------------


def tls_context(node: info.Info) -> ssl.SSLContext:
    """Return the TLS context of a node; nodes with equal settings share one context.

    Loading the certificates of all authorities takes tens of milliseconds and a megabyte, so it
    happens once and not for each login.

    :raises errors.InvalidParameter: the CA file or folder cannot be read, or has no certificate.
    """
    trusted = ca_files.state(node.verify) if isinstance(node.verify, str) else None
    return _tls_context(node.verify, trusted, node.tls_minimum_version, node.tls_ciphers)


@functools.lru_cache(maxsize=32)
def _tls_context(
    verify: str | bool, trusted: ca_files.State | None, minimum: str | None, ciphers: str | None
) -> ssl.SSLContext:
    context = bounded_http.tls_context()
    if trusted is not None:
        ca_files.load(context, trusted)
    elif verify:
        context.load_verify_locations(cafile=bounded_http.PUBLIC_AUTHORITIES)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if minimum:
        context.minimum_version = info.TLS_VERSIONS[minimum]
    if ciphers:
        context.set_ciphers(ciphers)
    return context


# -- the connector ----------------------------------------------------------------------------


class Wire:
    """Sushy connector that sends each request once; `connection` decides on retries and pauses.

    Sushy's own connector would sleep in this thread, where a stopping service cannot wake it.
    """

    def __init__(
        self,
        node: info.Info,
        *,
        connect_timeout: float,
        read_timeout: float,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the requests to a BMC; nothing is sent yet.

        :param connect_timeout: seconds a connection may take, TLS included.
        :param read_timeout: seconds from a sent request to its complete answer.
        :param before: called before each request; if it raises, nothing is sent.
        :raises errors.InvalidParameter: see `tls_context`.
        """
        parts = urllib.parse.urlsplit(node.address)
        self._base = node.address
        self._before = before
        self._host, self._port = parts.hostname or "", parts.port
        self._secret = node.password
        self._timeouts = connect_timeout, read_timeout
        self._tls = tls_context(node) if parts.scheme == "https" else None
        self._login: dict[str, str] = {}
        self.accepted: Response | None = None
        """The newest answer 202 to a change, for callers whose library drops the answer."""

    @property
    def has_token(self) -> bool:
        """Return whether requests carry the token of a Redfish session."""
        return "X-Auth-Token" in self._login

    def use_password(self, username: str, password: str) -> None:
        """Send user and password with each request from now on (RFC 7617, in UTF-8)."""
        pair = base64.b64encode(f"{username}:{password}".encode()).decode()
        self._login = {"Authorization": f"Basic {pair}"}

    def use_token(self, token: str) -> None:
        """Send the token of a session with each request from now on."""
        self._login = {"X-Auth-Token": token}

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
            error.asked = Asked(method, urllib.parse.urlsplit(path).path)
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
        with bmc_metrics.BMCS.call("redfish", method, what, reads=reads) as counted:
            try:
                response = self._send_following(method, url, data, headers or {}).tidied(
                    self._secret
                )
            except (OSError, http.client.HTTPException) as why:
                counted.answer = f"no answer ({type(why).__name__})"
                raise sushy.exceptions.ConnectionError(url=url, error=type(why).__name__) from why
            counted.answer = str(response.status_code)
            LOG.debug("%s %s: %d", method, url, response.status_code)
            counted.result = bmc_metrics.ERROR
            try:
                sushy.exceptions.raise_for_response(method, url, response)
            except sushy.exceptions.HTTPError as error:
                error.retry_after = response.retry_after
                raise
            counted.result = bmc_metrics.OK
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
        memory = bounded_http.AnswerMemory(LIMIT, read)
        with memory, contextlib.closing(made) as connection:
            connection.connect()
            self._before()  # after connecting, which may take long
            with connection.exchange(method, target, headers, body) as answer:
                content = bounded_http.content(answer, LIMIT, memory)
                response = Response(url, answer.status, cast(Headers, answer.headers), content)
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
