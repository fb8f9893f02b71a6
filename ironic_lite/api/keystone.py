"""Callers with tokens of OpenStack Identity, which keystonemiddleware looks into.

The middleware is asked for its verdict only: requests and answers do not pass through it.
"""

from __future__ import annotations

import dataclasses
from http import HTTPStatus

import webob.exc
from keystonemiddleware import auth_token
from keystonemiddleware.auth_token import _request
from oslo_config import cfg

from ironic_lite import config
from ironic_lite.api import enforcer, exchange, faults, identify
from ironic_lite.api.exchange import Environ
from ironic_lite.context import Context


class Tokens:
    """Knows callers by their X-Auth-Token, and asks oslo.policy what they may do.

    :raises config.ConfigError: [keystone_authtoken] or the policy file cannot be used.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._asker = enforcer.Asker(conf)
        try:
            self._middleware = auth_token.AuthProtocol(None, {"oslo_config_config": conf})
        except Exception as why:  # of keystoneauth's plugins, which raise what they like
            raise config.ConfigError(reason=f"[keystone_authtoken]: {why}") from None

    def __call__(self, environ: Environ, request_id: str) -> Context:
        """Return whose token came.

        :raises faults.Refusal: 401 without a valid token, 503 if nobody can tell.
        """
        who = identify.anonymous(environ, request_id)
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
    return faults.login(answer.status_int, "The identity service cannot be asked just now.", kept)
