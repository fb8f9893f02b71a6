"""Where every request enters and every answer leaves: request id, version, errors.

A request goes on to Pecan (`app.Application`), which routes it to a method of a controller;
whatever is raised on the way is worded here, and nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

from oslo_config import cfg

from ironic_lite import context, errors, versions
from ironic_lite.api import policy
from ironic_lite.api.health import probes
from ironic_lite.api.login import identify
from ironic_lite.api.wire import exchange, faults
from ironic_lite.api.wire.exchange import Environ, StartResponse
from ironic_lite.context import Context

LOG = logging.getLogger(__name__)

Wsgi = Callable[[Environ, StartResponse], Iterable[bytes]]

_NEWEST = versions.Version(versions.LAST)
_ROOT = "/v1"
_FAREWELL = ("Connection", "close")
_SUFFIX = ".json"
_SUFFIX_KEPT_SINCE = 91


class Front:
    """The outermost WSGI application."""

    def __init__(
        self,
        inner: Wsgi,
        conf: cfg.ConfigOpts,
        who: identify.Identify = exchange.anonymous,
        watched: Mapping[str, probes.Probe] | None = None,
    ) -> None:
        """``who`` tells who asks: `identify.way`.

        :param watched: of `probes.table`.
        """
        self._inner = inner
        self._watched = watched or {}
        self._conf = conf
        self._default = str(conf.api.default_version)
        self._identify = who
        self._closing = False

    def close(self) -> None:
        """Have every answer from now on be the last of its connection."""
        self._closing = True

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request; nothing is ever raised out of here."""
        try:
            return self._answer(environ, start_response, context.new_request_id())
        finally:
            context.enter(None)

    def _answer(
        self, environ: Environ, start_response: StartResponse, request_id: str
    ) -> Iterable[bytes]:
        try:
            # One look-up for those who do not ask for it.
            probe = self._watched.get((environ.get("PATH_INFO") or "").removesuffix("/"))
            if probe is not None and probe.takes(environ["REQUEST_METHOD"]):
                return self._watch(environ, start_response, request_id, probe)
            self._open(environ, request_id)
            context.enter(environ[exchange.CALL].who)
            return self._inner(environ, start_response)
        except faults.Refusal as why:
            refusal = why
        except errors.Error as why:
            if why.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                LOG.error("Request %s failed: %s", request_id, why)
            refusal = faults.of(why)
        except Exception:
            LOG.exception(
                "Request %s, %s, ended in an unexpected fault",
                request_id,
                ascii(f"{environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')}"),
            )
            refusal = faults.handled(HTTPStatus.INTERNAL_SERVER_ERROR, faults.UNEXPECTED)
        return exchange.refuse(environ, start_response, refusal)

    def _watch(
        self,
        environ: Environ,
        start_response: StartResponse,
        request_id: str,
        probe: probes.Probe,
    ) -> Iterable[bytes]:
        """Answer a probe, which knows no versions."""
        call = self._call(environ, request_id)
        if probe.guarded:
            call.who = self._identify(environ, request_id)
            call.access.demand(policy.METRICS)
        return probe.answer(environ, start_response)

    def _call(self, environ: Environ, request_id: str) -> exchange.Call:
        names = ("X-OpenStack-Request-Id", "OpenStack-Request-Id")
        ids = (*((name, request_id) for name in names), *((_FAREWELL,) * self._closing))
        # A refusal on the way needs the headers already.
        call = exchange.Call("", _NEWEST, Context(request_id=request_id), ids, self._conf)
        environ[exchange.CALL] = call
        # So have the lines of the log that are written before it is known who asks.
        context.enter(call.who)
        return call

    def _open(self, environ: Environ, request_id: str) -> None:
        """Put what is known of the request into its environment.

        :raises faults.Refusal: a path that is no text, no login, or a version nobody speaks.
        """
        call = self._call(environ, request_id)
        ids = call.headers
        path = _path(environ)
        call.public = policy.public(path)
        try:
            call.version = version = self._version(environ)
        except faults.Refusal:
            # Who needs a login, and has none, is told that first.
            self._identify(environ, request_id)
            raise
        if version.explicit and version.minor < _SUFFIX_KEPT_SINCE and path.endswith(_SUFFIX):
            path, call.suffix = path.removesuffix(_SUFFIX), _SUFFIX
        call.path = path
        call.public = policy.public(path)
        call.headers = (*ids, *versions.answer_headers(version.minor))
        call.who = self._identify(environ, request_id)

    def _version(self, environ: Environ) -> versions.Version:
        try:
            return versions.negotiate(
                environ.get("HTTP_X_OPENSTACK_IRONIC_API_VERSION"),
                environ.get("HTTP_OPENSTACK_API_VERSION"),
                self._default,
            )
        except versions.VersionOutOfRange as why:
            text, headers = why.message, versions.answer_headers(None)
        except versions.VersionUnreadable as why:
            text, headers = why.message, faults.NO_HEADERS
        raise faults.routed(HTTPStatus.NOT_ACCEPTABLE, text, headers)


def _path(environ: Environ) -> str:
    """Return the path below ``/v1`` (which may be left out): "" is the root, "/v1" itself is "/".

    :raises faults.Refusal: not UTF-8, or with NUL in it.
    """
    path: str = environ.get("PATH_INFO") or "/"
    if not path.isascii():
        try:
            path = path.encode("latin-1").decode()
        except UnicodeError:
            text = "The path is not UTF-8."
            raise faults.handled(HTTPStatus.BAD_REQUEST, text) from None
    if "\0" in path:
        raise faults.handled(HTTPStatus.BAD_REQUEST, "The path holds a NUL character.")
    path = path.removesuffix("/")
    if path == _ROOT:
        return "/"
    if path == "/" or (path and path[0] != "/"):
        return "//"  # which is nothing, not /v1
    return path[len(_ROOT) :] if path.startswith(f"{_ROOT}/") else path
