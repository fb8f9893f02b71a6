"""Callers with tokens of OpenStack Identity, which keystonemiddleware validates.

The middleware wraps a WSGI application that only records the headers it receives. Requests and
answers of the service do not pass through the middleware.
"""

from __future__ import annotations

import dataclasses
import io
import logging
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from keystonemiddleware import auth_token
from keystonemiddleware import opts as ksm_opts
from oslo_config import cfg

from ironic_lite.api.http import refusals, request
from ironic_lite.api.http.request import Environ, StartResponse
from ironic_lite.api.policy import enforcement
from ironic_lite.core import config, log_lines
from ironic_lite.core.context import Context
from ironic_lite.core.slots import Newest


class TokenCache:
    """The part of a memcached client that keystonemiddleware uses, with a size limit.

    The middleware's own cache in memory has no limit, keeps a copy for each thread, and is searched
    in full for each request. The middleware takes a cache from the environment of a request; its
    option ``[keystone_authtoken]cache`` names the key.

    :param most: entries; the entry that was used longest ago is dropped first.
    :param now: seconds of a monotonic clock.
    """

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._guard = threading.Lock()
        self._entries: Newest[str, tuple[float, bytes]] = Newest(most)

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, None if it is missing or has expired."""
        with self._guard:
            found = self._entries.get(key)
            if found is None:
                return None
            until, value = found
            if self._now() >= until:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return value

    def set(self, key: str, value: bytes, time: int = 0) -> bool:
        """Store a value.

        :param time: seconds; 0 keeps the value until other entries need its slot.
        :returns: True, as memcached does for a stored value.
        """
        until = self._now() + time if time else float("inf")
        with self._guard:
            self._entries[key] = until, value
        return True


LOG = logging.getLogger(__name__)

_GROUP = "keystone_authtoken"
_SECONDS = 10
"""Time limit of the identity service, unless the configuration sets another."""
_VERDICT = "ironic_lite.verdict"
"""WSGI environment: the list that `_record_verdict` adds to."""
_CACHE = "ironic_lite.tokens"
"""WSGI environment: the process's token cache, read by the middleware."""
_MOST_TOKENS = 4096
_VALID = "Confirmed"
_STATUSES = (("HTTP_X_IDENTITY_STATUS", ""), ("HTTP_X_SERVICE_IDENTITY_STATUS", _VALID))
"""Headers with the middleware's results, and their values if the middleware omits them."""
_SELDOM = log_lines.Seldom()
_REPEATED = (
    "keystonemiddleware.auth_token",
    *(f"keystoneauth.{name}" for name in ("discover", "identity.base", "identity.generic.base")),
    "keystoneauth.session",
)
"""Loggers that warn for each request while the identity service is away."""
_LOGIN_HEADERS = frozenset({"www-authenticate", "retry-after"})


class Tokens:
    """Identifies callers by X-Auth-Token; oslo.policy decides their rights.

    :raises config.ConfigError: [keystone_authtoken] or the policy file cannot be used.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._access_factory = enforcement.AccessFactory(conf)
        for group, opts in ksm_opts.list_auth_token_opts():
            conf.register_opts(opts, group=group)
        conf.set_default("http_connect_timeout", _SECONDS, group=_GROUP)
        if not conf[_GROUP].memcached_servers:
            conf.set_default("cache", _CACHE, group=_GROUP)
        self._cache = TokenCache(_MOST_TOKENS)
        if not conf[_GROUP].auth_type and not conf[_GROUP].auth_section:
            reason = (
                f"[{_GROUP}]auth_type: must be set, with the account by which the API checks "
                "tokens, such as auth_type = password, auth_url, username, password, project_name"
            )
            raise config.ConfigError(reason=reason)
        try:
            wrap = auth_token.filter_factory({}, oslo_config_config=conf)
            self._middleware = wrap(_record_verdict)
        except Exception as why:  # keystoneauth's plugins may raise anything
            raise config.ConfigError(reason=f"[keystone_authtoken]: {why}") from None
        for name in (__name__, *_REPEATED):
            logging.getLogger(name).addFilter(_SELDOM)

    def __call__(self, environ: Environ, request_id: str) -> Context:
        """Return the caller that the request's token belongs to.

        :raises refusals.Refusal: 401 without a valid token, 503 if the identity service fails.
        """
        who = request.anonymous(environ, request_id)
        call: request.Call = environ[request.CALL]
        if call.public:
            call.access = self._access_factory.anonymous()
            return who
        verdict = self._ask_middleware(environ, request_id)
        call.access = self._access_factory.access(verdict)
        call.access.expires_at = verdict["keystone.token_info"]["token"]["expires_at"]
        call.access.name = verdict.get("HTTP_X_USER_NAME")
        roles = tuple(filter(None, verdict.get("HTTP_X_ROLES", "").split(",")))
        return dataclasses.replace(
            who,
            user=verdict.get("HTTP_X_USER_ID"),
            project=verdict.get("HTTP_X_PROJECT_ID"),
            roles=roles,
        )

    def _ask_middleware(self, environ: Environ, request_id: str) -> Environ:
        """Return the environment that the middleware passes on.

        Its headers about the caller come from the middleware, never from the client.

        :raises refusals.Refusal: as `__call__`.
        """
        verdict: list[Environ] = []
        answer = _Answer()
        # The middleware changes the environment it receives, and reads no body.
        asked = {
            **environ,
            **{"wsgi.input": io.BytesIO(), "CONTENT_LENGTH": "0"},
            **{_VERDICT: verdict, _CACHE: self._cache},
        }
        try:
            answer.body = b"".join(self._middleware(asked, answer.start))
        except Exception:  # keystoneauth may raise anything on a bad answer of the service
            LOG.exception("The identity service could not be asked for request %s", request_id)
            raise _identity_unavailable() from None
        if not verdict:
            raise answer.refusal()
        return verdict[0]


def _record_verdict(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """Add the environment of a request with valid tokens to its `_VERDICT`.

    With ``[keystone_authtoken]delay_auth_decision``, requests without a valid token arrive here
    too. The middleware adds its challenge to the 401 of such an application.
    """
    user, service = (environ.get(name, default) for name, default in _STATUSES)
    if user == service == _VALID:
        environ.pop(_VERDICT).append(environ)  # removed to avoid a reference cycle
        start_response("204 No Content", [])
        return []
    refused = refusals.login(HTTPStatus.UNAUTHORIZED, "The request has no valid token.")
    start_response("401 Unauthorized", [("Content-Type", "application/json")])
    return [refused.body]


class _Answer:
    """An answer that the middleware gives itself, received through WSGI."""

    def __init__(self) -> None:
        self.status = HTTPStatus.SERVICE_UNAVAILABLE
        self.headers: list[tuple[str, str]] = []
        self.body = b""

    def start(self, status: str, headers: list[tuple[str, str]], _error: object = None) -> None:
        """Store the status and headers; this is the ``start_response`` of PEP 3333."""
        self.status, self.headers = HTTPStatus(int(status[:3])), headers

    def refusal(self) -> refusals.Refusal:
        """Return 401 with the middleware's own body, or 503 for any other status."""
        kept = tuple(pair for pair in self.headers if pair[0].lower() in _LOGIN_HEADERS)
        if self.status == HTTPStatus.UNAUTHORIZED:
            return refusals.Refusal(self.status, self.body, kept)
        return _identity_unavailable(kept)


def _identity_unavailable(headers: refusals.Headers = refusals.NO_HEADERS) -> refusals.Refusal:
    text = "The identity service cannot be asked just now."
    return refusals.login(HTTPStatus.SERVICE_UNAVAILABLE, text, headers)
