"""HTTP to one BMC, bounded: in time as a whole, in size, and to that BMC alone.

A BMC may be slow, may drip bytes for ever, or may point somewhere else. `Wire` is the connector
handed to sushy; nothing it is told to do lasts longer than its time-outs or leaves its address.
"""

from __future__ import annotations

import functools
import os
import ssl
import urllib.parse
from http import HTTPStatus
from typing import Any

import orjson
import requests
import requests.adapters
import requests.auth
import requests.utils
import sushy.connector
import sushy.exceptions
import urllib3.connection
import urllib3.connectionpool

from ironic_lite import counters
from ironic_lite.drivers import answers, patience
from ironic_lite.drivers.redfish import info

LIMIT = 16 * 1024 * 1024
"""Bytes one answer may have; the largest real ones, message registries, have one or two million."""

_REDIRECTS = 3
_KEEPING = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
"""Only on these is a POST or PATCH sent on as it was (RFC 9110, 15.4)."""

_CHUNK = 256 * 1024
_POOLS = 32
"""BMCs whose host and port need not be parsed anew; one in use that is beyond them stays in use."""
_TOO_LARGE = answers.too_large(LIMIT)


class NotJson(sushy.exceptions.SushyError):  # type: ignore[misc]  # sushy ships no types
    """An answer said 200 and is no JSON object. ``what`` says what it is instead."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class WrongTurn(requests.exceptions.RequestException):
    """A redirection not to be followed: our credentials would be handed over, or an order lost."""


# -- one deadline and one size for a whole answer ---------------------------------------------


_Answer = answers.bounded(lambda: LIMIT)


class _Http(urllib3.connection.HTTPConnection):
    response_class = _Answer


class _Https(urllib3.connection.HTTPSConnection):
    response_class = _Answer


class _HttpPool(urllib3.connectionpool.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(urllib3.connectionpool.HTTPSConnectionPool):
    ConnectionCls = _Https


# -- TLS --------------------------------------------------------------------------------------


def tls_context(node: info.Info) -> ssl.SSLContext:
    """Return the TLS settings of a node; nodes with equal ones share one object.

    Reading the certificates of all authorities takes tens of milliseconds and a megabyte, so it is
    done once and not for each request, as requests would.

    :raises OSError: the CA file or folder cannot be read (ssl.SSLError: holds no certificate).
    """
    place = requests.utils.DEFAULT_CA_BUNDLE_PATH if node.verify is True else node.verify
    changed = os.stat(place).st_mtime_ns if isinstance(place, str) else 0
    return _tls_context(place, changed, node.tls_minimum_version, node.tls_ciphers)


@functools.lru_cache(maxsize=32)
def _tls_context(
    place: str | bool, changed: int, minimum: str | None, ciphers: str | None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if isinstance(place, str):
        folder = os.path.isdir(place)
        context.load_verify_locations(**{"capath" if folder else "cafile": place})
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if minimum:
        context.minimum_version = info.TLS_VERSIONS[minimum]
    if ciphers:
        context.set_ciphers(ciphers)
    return context


class _Adapter(requests.adapters.HTTPAdapter):
    """Connections with our reader and our TLS settings."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(pool_connections=_POOLS, pool_maxsize=1)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}

    def build_connection_pool_key_attributes(
        self, request: Any, verify: Any, cert: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        host, _ = super().build_connection_pool_key_attributes(request, verify, cert)
        return host, {"ssl_context": self._context, "cert_reqs": self._mode}

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        # The context has the certificates; the method of requests would load them once more.
        conn.cert_reqs = self._mode

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> Any:
        # Here, and not in the session: it would read the answers that redirect by itself.
        response = super().send(request, *args, **{**kwargs, "stream": True})
        body = bytearray()
        for part in response.iter_content(_CHUNK):
            body += part
            if len(body) > LIMIT:
                # Sixteen megabytes of compressed nothing are sixteen gigabytes unpacked; urllib3
                # unpacks no more than a part at a time since 2.6.
                response.close()
                raise requests.exceptions.ContentDecodingError(_TOO_LARGE)
        response._content = bytes(body)
        return response

    @property
    def _mode(self) -> str:
        checked = self._context is not None and self._context.verify_mode is ssl.CERT_REQUIRED
        return "CERT_REQUIRED" if checked else "CERT_NONE"


@functools.lru_cache(maxsize=64)
def _adapter(context: ssl.SSLContext | None) -> _Adapter:
    """Return what all BMCs with these TLS settings share.

    It keeps no connection from one request to the next, so one for each BMC would be 8 KiB of locks
    and empty queues, ten thousand times.
    """
    return _Adapter(context)


# -- the connector ----------------------------------------------------------------------------


class _Session(requests.Session):
    """A session that knows no proxy and no .netrc, and stays on one host."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self.trust_env = False
        self.max_redirects = _REDIRECTS
        adapter = _adapter(context)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target is None:
            return None
        here, there = (urllib.parse.urlsplit(url) for url in (resp.url, target))
        if there.netloc and (there.scheme, there.netloc) != (here.scheme, here.netloc):
            place = f"{there.scheme}://{there.netloc.rpartition('@')[2]}"
            raise WrongTurn(f"it redirects to {place}; set redfish_address to that if it is right")
        if resp.request.method != "GET" and resp.status_code not in _KEEPING:
            raise WrongTurn(
                f"it redirects a {resp.request.method} by {resp.status_code}, on which the order "
                "itself is lost"
            )
        return target


class Wire(sushy.connector.Connector):  # type: ignore[misc]  # sushy ships no types
    """One request is one try: who repeats what, and after which pause, is decided in `connection`.

    Sushy would sleep in this thread, where a stopping service cannot wake it.
    """

    def __init__(self, node: info.Info, *, connect_timeout: float, read_timeout: float) -> None:
        """Prepare to speak to a BMC; nothing is sent yet.

        :param connect_timeout: seconds a connection may take, TLS included.
        :param read_timeout: seconds from a request sent to its answer read.
        :raises OSError: see `tls_context`.
        """
        super().__init__(
            node.address,
            verify=node.verify,
            response_callback=functools.partial(_tidy, node.password),
            server_side_retries=1,
            default_request_timeout=read_timeout,
            connect_timeout=connect_timeout,
        )
        secure = node.address.startswith("https:")
        self._session: requests.Session = _Session(tls_context(node) if secure else None)
        # Some BMCs choke on connections that stay open between two calls.
        self._session.headers["Connection"] = "close"

    @property
    def has_token(self) -> bool:
        """Tell whether requests carry the token of a Redfish session."""
        return "X-Auth-Token" in self._session.headers

    @property
    def tried_session(self) -> bool:
        """Tell whether a login at the session service was tried."""
        return self._sessions_uri is not None

    def document(self, path: str) -> dict[str, Any]:
        """Return the JSON object at ``path``: one GET, parsed once.

        :raises sushy.exceptions.SushyError: no answer, or a bad one (NotJson).
        """
        return _parsed(super().get(path))

    def answer(self, path: str) -> requests.Response:
        """Return the answer to a GET as it came: that of a task's monitor may have no body.

        :raises sushy.exceptions.SushyError: no answer, or an error.
        """
        response: requests.Response = super().get(path)
        return response

    def get(self, path: str = "", *args: Any, **kwargs: Any) -> Any:
        response = super().get(path, *args, **kwargs)
        # Sushy logs all of an answer that it cannot parse, however large; so it never sees one.
        _parsed(response)
        return response

    def set_http_basic_auth(self, username: str, password: str) -> None:
        # As text, requests would send Latin-1 and break on anything beyond (RFC 7617: UTF-8).
        self._session.auth = requests.auth.HTTPBasicAuth(username.encode(), password.encode())

    def _op(self, method: str, path: str = "", *args: Any, **kwargs: Any) -> Any:
        # An absolute link may name a host that only the BMC's own network knows, or a stranger.
        parts = urllib.parse.urlsplit(path)
        if parts.netloc:
            path = parts._replace(scheme="", netloc="").geturl()
        # One login serves a sweep that is in a hurry, and a step that has time.
        limits = self._connect_timeout, self._default_request_timeout
        kwargs["timeout"] = tuple(map(patience.within, limits))
        kwargs.update(server_side_retries_left=0, allow_reauth=False)
        with counters.BMCS.call("redfish", method) as counted:
            try:
                response = super()._op(method, path, *args, **kwargs)
            except sushy.exceptions.HTTPError:
                counted.result = counters.ERROR
                raise
            counted.result = counters.OK
        return response


def _tidy(secret: str | None, response: requests.Response) -> None:
    """Bring the body of an error answer into the form of DSP0266: sushy breaks on any other one.

    Sushy also logs what it says, so a BMC that repeats the password must not be quoted.
    """
    if response.status_code < HTTPStatus.BAD_REQUEST:
        return
    try:
        document = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        document = None
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else ""}
    said = error.get("@Message.ExtendedInfo")
    entries = said if isinstance(said, list) else [said]
    error["@Message.ExtendedInfo"] = [entry for entry in entries if isinstance(entry, dict)]
    response._content = orjson.dumps({"error": _without(secret, error) if secret else error})


_NAMES = frozenset({"@odata.type", "MessageId", "RelatedProperties", "code"})
"""What only names things, and makes a difference to us and to sushy."""


def _without(secret: str, said: Any) -> Any:
    if isinstance(said, str):
        return said.replace(secret, "***")
    if isinstance(said, dict):
        return {key: one if key in _NAMES else _without(secret, one) for key, one in said.items()}
    return [_without(secret, one) for one in said] if isinstance(said, list) else said


def _parsed(response: requests.Response) -> dict[str, Any]:
    body = response.content
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as why:
        kind = response.headers.get("Content-Type") or "none"
        start = body[:40].decode("utf-8", "replace")
        raise NotJson(
            f"{response.url} is not JSON ({why}); content type {kind}, begins with {start!r}"
        ) from None
    if not isinstance(document, dict):
        raise NotJson(f"{response.url} is not a JSON object but {type(document).__name__}")
    return document
