"""Entry of every request and exit of every answer: request id, version, errors.

A request passes to Pecan (`app.Application`), which routes it to a method of a controller. Any
exception on the way becomes an error answer here, and only here.

A request with several faults is refused for the first one in this order, on every route:

1. limits of the address (`server`), framing, and pages of other sites;
2. the login; then path, version and route;
3. rules that need no object (`app.Application.admit`);
4. limits of the body's size and of concurrency, and the Idempotency-Key;
5. the form: arguments of the query, types, and the keys that a body or a patch may have;
6. the row: 404 if it is missing or hidden; the rule about its owner; If-Match;
7. values, the state of the row and its holds, and last its lock. A verb that the state forbids is
   refused for the lock first, because the state of a locked node changes.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import re
import socket
import traceback
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Protocol

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.auth import identify
from ironic_lite.api.http import limits, refusals, request
from ironic_lite.api.http.request import Environ, StartResponse
from ironic_lite.core import context, log_lines, metrics
from ironic_lite.core.context import Context
from ironic_lite.core.options import Configuration
from ironic_lite.domain import versions

# Refuse requests that a page of another site makes a browser send.
#
# A browser lends its login, or its place on the network, to requests of any page. Two checks keep
# such pages out; other clients than browsers always pass them.
#
# - Cross-site requests: ``Sec-Fetch-Site`` (W3C Fetch Metadata), or ``Origin`` (RFC 6454, 7) if the
#   browser does not send that header, as over plain HTTP. Read-only requests may come from any
#   page,
#   because the browser does not show their answers to other sites.
# - DNS rebinding: a page whose name resolves to this machine for a moment is of the same site as
#   the
#   API and reads its answers. If no login is needed, ``Host`` must be a name of this API.

_READING = frozenset({"GET", "HEAD"})
_VENDOR = "/vendor_passthru"  # here a GET may change something, too
_OWN_SITE = frozenset({"same-origin", "none"})
_PORTS = {"http": 80, "https": 443}
_LONGEST = 255  # characters of a name (RFC 1035, 2.3.4), and of a remembered header
_SHOWN = 64
_LOCAL = "localhost"
_HOST = re.compile(r"(?P<name>[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


class BrowserGuard:
    """The checks of one configuration; one object serves all threads."""

    def __init__(self, conf: Configuration) -> None:
        api = conf.api
        self._proxied = bool(api.enable_proxy_headers_parsing)
        self._endpoint = _host_and_port(api.public_endpoint or "")
        alone = api.auth_strategy == "noauth"
        open_to_all = api.allow_unauthenticated_bind and not api.allowed_hosts
        self._checks_host = alone and not open_to_all
        self._suffixes, self._names = _allowed_hosts(conf)
        self._known = functools.lru_cache(maxsize=256)(self._is_ours)

    def check(self, environ: Environ) -> None:
        """Check a request.

        :raises refusals.Refusal: 403 for a page of another site, or for a foreign host name.
        """
        if environ["REQUEST_METHOD"] not in _READING or _VENDOR in (environ.get("PATH_INFO") or ""):
            self._check_site(environ)
        if self._checks_host:
            self._check_host(environ.get("HTTP_HOST"))

    def _check_site(self, environ: Environ) -> None:
        site = environ.get("HTTP_SEC_FETCH_SITE")
        if site is not None:
            if site not in _OWN_SITE:
                raise _request_refused(
                    f"A browser sent this for a page of another site ({_shortened_text(site)})."
                )
            return
        origin = environ.get("HTTP_ORIGIN")
        if origin is None:
            return
        scheme = origin.partition(":")[0].lower()
        host = environ.get("HTTP_HOST") or ""
        if self._proxied:
            told = str(environ.get("HTTP_X_FORWARDED_HOST") or "")
            host = told.partition(",")[0].strip() or host
        asked = _host_and_port(origin)
        # Behind a proxy that ends TLS, only the browser knows the scheme and so the port.
        if asked is None or asked not in {_host_and_port(f"{scheme}://{host}"), self._endpoint}:
            raise _request_refused(
                f"A browser sent this for a page of {_shortened_text(origin)}, which is not the "
                "address of this API. If a proxy stands between, [api]public_endpoint must name "
                "its address."
            )

    def _check_host(self, host: str | None) -> None:
        """Refuse foreign names; without a Host header (HTTP/1.0), accept the request."""
        if not host or (len(host) <= _LONGEST and self._known(host)):
            return
        raise _request_refused(
            f"The Host header, {_shortened_text(host)}, is not a name of this API, which asks for "
            "no login. [api]allowed_hosts lists the names besides IP addresses and localhost."
        )

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].lower().strip("[]").removesuffix(".")
        if _is_address(name) or name in self._names or name.endswith(f".{_LOCAL}"):
            return True
        return f".{name}".endswith(self._suffixes)


def _allowed_hosts(conf: Configuration) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the suffixes and names allowed in Host; "" is a suffix of all names."""
    listed = [name.lower() for name in conf.api.allowed_hosts]
    suffixes = ["" if name == "*" else name for name in listed if name == "*" or name[0] == "."]
    own = socket.gethostname().lower()
    places = (
        conf.api.public_endpoint,
        conf.service_catalog.endpoint_override,
        conf.deploy.external_callback_url,
    )
    told = (_host_and_port(place or "") for place in places)
    names: Iterable[str] = (
        *(_LOCAL, conf.api.host.lower(), own, own.partition(".")[0]),
        *(place[0] for place in told if place is not None),
        *listed,
    )
    return tuple(suffixes), frozenset(names)


def _host_and_port(url: str) -> tuple[str, int | None] | None:
    """Return host and port of a URL or origin, None without host (origin ``null``)."""
    if len(url) > _LONGEST:
        return None
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    host = (parts.hostname or "").removesuffix(".")
    return (host, port) if host else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shortened_text(text: str) -> str:
    return ascii(text[:_SHOWN])


def _request_refused(text: str) -> refusals.Refusal:
    return refusals.handled(HTTPStatus.FORBIDDEN, text)


LOG = logging.getLogger(__name__)

Wsgi = Callable[[Environ, StartResponse], Iterable[bytes]]

_NEWEST = versions.Version(versions.LAST)
_ROOT = "/v1"
_PROBE = "ironic_lite.probe"
"""WSGI environment: the probe that answers an admitted request."""
_REPLACED = "\N{REPLACEMENT CHARACTER}"
_NO_HOST = "A request of HTTP/1.1 needs exactly one Host header (RFC 9112, 3.2)."
_CODED = "Of transfer codings, only chunked is supported (RFC 9112, 6.1)."
_LAST = (("Connection", "close"),)
_SUFFIX = ".json"
_SUFFIX_KEPT_SINCE = 91


class Inner(Protocol):
    """The application that answers opened requests: `app.Application`."""

    def admit(self, environ: Environ) -> int:
        """Route a request by its head; return the KiB its body may have, 0 for no body."""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer an admitted request."""


class Direct(Protocol):
    """The answer of one path before versions and routes: a probe, or a file of the window."""

    @property
    def guarded(self) -> bool:
        """True if a login and the right to read metrics are needed."""

    @property
    def immediate(self) -> bool:
        """True if the answer waits for nothing."""

    def takes(self, method: str) -> bool:
        """Return whether this method is answered."""

    def answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""


class RequestMiddleware:
    """The outermost WSGI application.

    A server that reads bodies itself calls `admit` with the head of a request and `answer` with its
    body, instead of the application.
    """

    def __init__(
        self,
        inner: Inner,
        conf: Configuration,
        who: identify.Identify = request.anonymous,
        watched: Mapping[str, Direct] | None = None,
    ) -> None:
        """Store the parts.

        :param who: identifies the caller: `identify.way`.
        :param watched: the probes, `health.probe_table`, and the files of features, by path.
        """
        self._inner = inner
        self._watched = watched or {}
        self._links = request.LinkBase(conf)
        self._default = str(conf.api.default_version)
        self._identify = who
        self.admits_at_once = conf.api.auth_strategy == "noauth"
        """True if `admit` waits for nothing, because it checks no login."""
        self._guard = BrowserGuard(conf)
        self.bodies = limits.BodyReader(
            memory=conf.api.max_body_memory_mib, seconds=conf.api.body_timeout
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request; never raises."""
        try:
            limit = self._admit_caller(environ)
            if limit:
                call: request.Call = environ[request.CALL]
                call.body = self.bodies.read(environ, limit, anonymous=call.public)
            return self._carry_out(environ, start_response)
        except Exception as why:
            return self.refuse(environ, start_response, why)
        finally:
            self.bodies.release(environ)
            context.enter(None)

    def immediate(self, environ: Environ) -> bool:
        """Return whether a request is answered without waiting for anything."""
        probe = self._watched.get(environ["PATH_INFO"])
        return probe is not None and probe.immediate and probe.takes(environ["REQUEST_METHOD"])

    def admit(self, environ: Environ) -> int:
        """Check the head of a request: its path, version, login and rights.

        :return: KiB the body may have, 0 if no body is read.
        :raises Exception: the request is refused; pass the exception to `refuse`.
        """
        try:
            return self._admit_caller(environ)
        finally:
            context.enter(None)

    def answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Carry out an admitted request, with its body in its `Call`; never raises."""
        try:
            call: request.Call = environ[request.CALL]
            context.enter(call.who)
            if call.waited and not call.accepted and call.access.login_seconds <= 0:
                text = "The login has ended while the request waited; log in again."
                raise refusals.login(HTTPStatus.UNAUTHORIZED, text)
            return self._carry_out(environ, start_response)
        except Exception as why:
            return self.refuse(environ, start_response, why)
        finally:
            context.enter(None)

    def _admit_caller(self, environ: Environ) -> int:
        """Do the work of `admit`; the thread keeps the caller for its log lines."""
        call = self._new_call(environ, context.new_request_id())
        host = environ.get("HTTP_HOST")
        if (host is None or "," in host) and environ.get("SERVER_PROTOCOL") == "HTTP/1.1":
            raise refusals.handled(HTTPStatus.BAD_REQUEST, _NO_HOST)
        coding = environ.get("HTTP_TRANSFER_ENCODING")
        if coding and coding.lower() != "chunked":
            raise refusals.handled(HTTPStatus.BAD_REQUEST, _CODED, _LAST)
        # One look-up is all that requests to other paths pay for probes.
        probe = self._watched.get((environ.get("PATH_INFO") or "").removesuffix("/"))
        if probe is not None and probe.takes(environ["REQUEST_METHOD"]):
            environ[_PROBE] = probe
            if probe.guarded:
                self._guard.check(environ)
                self._identify_caller(call, environ)
                call.access.demand(policy.METRICS)
            return 0
        self._open_request(environ, call)
        context.enter(call.who)
        return self._inner.admit(environ)

    def _carry_out(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        probe: Direct | None = environ.get(_PROBE)
        if probe is not None:
            return probe.answer(environ, start_response)
        return self._inner(environ, start_response)

    def refuse(
        self, environ: Environ, start_response: StartResponse, why: Exception
    ) -> Iterable[bytes]:
        """Answer a request with the refusal that an exception stands for."""
        call: request.Call | None = environ.get(request.CALL)
        if call is None:
            call = self._new_call(environ, context.new_request_id())
        context.enter(call.who)
        try:
            refusal = _refusal_for(environ, why)
            _release_frames(why)
            if not call.admitted:
                metrics.BOARD.count("logins_refused_total", str(refusal.status))
            return request.refuse(environ, start_response, refusal)
        finally:
            context.enter(None)

    def _new_call(self, environ: Environ, request_id: str) -> request.Call:
        ids = (("X-OpenStack-Request-Id", request_id), ("OpenStack-Request-Id", request_id))
        # A refusal before the login check needs these headers already.
        call = request.Call("", _NEWEST, Context(request_id=request_id), ids, self._links)
        environ[request.CALL] = call
        # Log lines written before the login check need the request id too.
        context.enter(call.who)
        return call

    def _open_request(self, environ: Environ, call: request.Call) -> None:
        """Add the caller, path and version of a request to its environment.

        :raises refusals.Refusal: a page of another site, no login, a malformed path, or an
            unsupported version.
        """
        ids = call.headers
        self._guard.check(environ)
        try:
            path = _path_below_root(environ)
            call.public = policy.public(path)
            call.version = version = self._requested_version(environ)
        except refusals.Refusal:
            # A missing login is reported before a bad path or version.
            self._identify_caller(call, environ)
            raise
        if version.explicit and version.minor < _SUFFIX_KEPT_SINCE and path.endswith(_SUFFIX):
            path, call.suffix = path.removesuffix(_SUFFIX), _SUFFIX
            call.public = policy.public(path)
        call.path = path
        call.headers = (*ids, *versions.answer_headers(version.minor))
        self._identify_caller(call, environ)

    def _identify_caller(self, call: request.Call, environ: Environ) -> None:
        """Identify the caller. Raises Refusal or errors.Error without a valid login."""
        call.who = self._identify(environ, call.who.request_id)
        call.admitted = True

    def _requested_version(self, environ: Environ) -> versions.Version:
        try:
            return versions.negotiate(
                environ.get("HTTP_X_OPENSTACK_IRONIC_API_VERSION"),
                environ.get("HTTP_OPENSTACK_API_VERSION"),
                self._default,
            )
        except versions.VersionOutOfRange as why:
            text, headers = why.message, versions.answer_headers(None)
        except versions.VersionUnreadable as why:
            text, headers = why.message, refusals.NO_HEADERS
        raise refusals.routed(HTTPStatus.NOT_ACCEPTABLE, text, headers)


def _refusal_for(environ: Environ, why: Exception) -> refusals.Refusal:
    """Return the refusal for an exception; faults of the service go to its log."""
    if isinstance(why, refusals.Refusal):
        return why
    request_id = environ[request.CALL].who.request_id
    if isinstance(why, errors.Error):
        if why.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            LOG.error("Request %s failed: %s", request_id, why)
        return refusals.of(why)
    asked = log_lines.path(f"{environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')}")
    text = "Request %s, %s, ended in an unexpected fault"
    LOG.error(text, request_id, ascii(asked), exc_info=why)
    return refusals.handled(HTTPStatus.INTERNAL_SERVER_ERROR, refusals.UNEXPECTED)


def _release_frames(why: BaseException | None) -> None:
    """Clear the frames of an exception, which hold the request and its body.

    A frame with a variable for an exception that passed it forms a cycle with that exception; only
    a full run of the garbage collector would free it.
    """
    if why is not None and why.__traceback__ is not None:
        traceback.clear_frames(why.__traceback__)
        why.__traceback__ = None
        _release_frames(why.__cause__)
        _release_frames(why.__context__)


def _path_below_root(environ: Environ) -> str:
    """Return the path below an optional ``/v1``: "" is the root, "/v1" itself is "/".

    :raises refusals.Refusal: the path is not UTF-8, or contains NUL.
    """
    path: str = environ.get("PATH_INFO") or "/"
    if not path.isascii():
        try:
            path = path.encode("latin-1").decode()
        except UnicodeError:
            path = _REPLACED
        # A server that decodes paths itself leaves this in place of invalid UTF-8.
        if _REPLACED in path:
            raise refusals.handled(HTTPStatus.BAD_REQUEST, "The path is not UTF-8.")
    if "\0" in path:
        raise refusals.handled(HTTPStatus.BAD_REQUEST, "The path holds a NUL character.")
    path = path.removesuffix("/")
    if path == _ROOT:
        return "/"
    if path == "/" or (path and path[0] != "/"):
        return "//"  # no route has this path; it is not /v1
    return path[len(_ROOT) :] if path.startswith(f"{_ROOT}/") else path
