"""Callers with tokens of OpenStack Identity, which keystonemiddleware looks into.

The middleware is asked for its verdict only: requests and answers do not pass through it.
"""

from __future__ import annotations

import dataclasses
import logging
from http import HTTPStatus

import webob.exc
from keystonemiddleware import auth_token
from keystonemiddleware import opts as ksm_opts
from keystonemiddleware.auth_token import _request
from oslo_config import cfg

from ironic_lite import config
from ironic_lite.api.policy import enforcer
from ironic_lite.api.wire import exchange, faults
from ironic_lite.api.wire.exchange import Environ
from ironic_lite.context import Context

LOG = logging.getLogger(__name__)

_GROUP = "keystone_authtoken"
_SECONDS = 10
"""How long the identity service may take, unless the configuration says otherwise."""


class Tokens:
    """Knows callers by their X-Auth-Token, and asks oslo.policy what they may do.

    :raises config.ConfigError: [keystone_authtoken] or the policy file cannot be used.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._asker = enforcer.Asker(conf)
        for group, opts in ksm_opts.list_auth_token_opts():
            conf.register_opts(opts, group=group)
        conf.set_default("http_connect_timeout", _SECONDS, group=_GROUP)
        if not conf[_GROUP].auth_type and not conf[_GROUP].auth_section:
            reason = f"[{_GROUP}]auth_type: must be set, as must what it needs to ask for tokens"
            raise config.ConfigError(reason=reason)
        try:
            self._middleware = auth_token.AuthProtocol(None, {"oslo_config_config": conf})
        except Exception as why:  # of keystoneauth's plugins, which raise what they like
            raise config.ConfigError(reason=f"[keystone_authtoken]: {why}") from None

    def __call__(self, environ: Environ, request_id: str) -> Context:
        """Return whose token came.

        :raises faults.Refusal: 401 without a valid token, 503 if nobody can tell.
        """
        who = exchange.anonymous(environ, request_id)
        call: exchange.Call = environ[exchange.CALL]
        if call.public:
            call.access = self._asker.stranger()
            return who
        # Of its own making, so that nothing a caller sends is taken for a verdict.
        asked = dict(environ)
        try:
            refused = self._middleware.process_request(_request._AuthTokenRequest(asked))
        except webob.exc.HTTPException as why:
            refused = why
        except Exception:  # of keystoneauth, which raises what the service makes it stumble over
            LOG.exception("The identity service could not be asked for request %s", request_id)
            raise _unavailable() from None
        if refused is not None:
            raise _refusal(refused)
        call.access = self._asker.access(asked)
        roles = tuple(filter(None, asked.get("HTTP_X_ROLES", "").split(",")))
        return dataclasses.replace(
            who,
            user=asked.get("HTTP_X_USER_ID"),
            project=asked.get("HTTP_X_PROJECT_ID"),
            roles=roles,
        )


def _refusal(answer: webob.Response) -> faults.Refusal:
    kept = tuple(
        (name, value)
        for name, value in answer.headers.items()
        if name.lower() in {"www-authenticate", "retry-after"}
    )
    if answer.status_int == HTTPStatus.UNAUTHORIZED:
        return faults.Refusal(answer.status_int, answer.body, kept)
    return _unavailable(kept)


def _unavailable(headers: faults.Headers = faults.NO_HEADERS) -> faults.Refusal:
    text = "The identity service cannot be asked just now."
    return faults.login(HTTPStatus.SERVICE_UNAVAILABLE, text, headers)
