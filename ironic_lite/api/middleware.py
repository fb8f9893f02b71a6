"""Entry of every request and exit of every answer: request id, version, errors.

A request passes to Pecan (`app.Application`), which routes it to a method of a controller. Any
exception on the way becomes an error answer here, and only here.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Protocol

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.auth import identify
from ironic_lite.api.traffic import body_reader, browser_guard
from ironic_lite.api.wire import refusals, request
from ironic_lite.api.wire.request import Environ, StartResponse
from ironic_lite.core import context, log_lines, metrics
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.context import Context
from ironic_lite.domain import versions

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
        :param watched: the probes, `probes.table`, and the window, `files.table`, by path.
        """
        self._inner = inner
        self._watched = watched or {}
        self._links = request.LinkBase(conf)
        self._default = str(conf.api.default_version)
        self._identify = who
        self.admits_at_once = conf.api.auth_strategy == "noauth"
        """True if `admit` waits for nothing, because it checks no login."""
        self._guard = browser_guard.BrowserGuard(conf)
        self.bodies = body_reader.Reader(
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
