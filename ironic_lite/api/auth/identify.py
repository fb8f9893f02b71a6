"""Identification of callers, one way for each [api]auth_strategy.

`middleware` calls the way for each request it opens. The way returns the caller and stores the
caller's rights in ``Call.access``. Public paths need no login.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import importlib
import logging
from collections.abc import Callable
from http import HTTPStatus

from ironic_lite.api.auth import passwords
from ironic_lite.api.wire import client_address, refusals, request
from ironic_lite.api.wire.request import Environ
from ironic_lite.core import config
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.context import Context

LOG = logging.getLogger(__name__)

Identify = Callable[[Environ, str], Context]

_MAPPED = "::ffff:"  # prefix of IPv4 at an IPv6 socket (RFC 4291 2.5.5.2)
_FAR = (
    "Without a login only this machine itself is served; see [api]auth_strategy and "
    "[api]allow_unauthenticated_bind."
)
_CHALLENGE: refusals.Headers = (("WWW-Authenticate", 'Basic realm="Baremetal API"'),)


def way(conf: Configuration) -> Identify:
    """Return the function that identifies callers, for this configuration.

    :raises config.ConfigError: its files or libraries cannot be used.
    """
    return _WAYS[conf.api.auth_strategy](conf)


class Basic:
    """HTTP basic authentication (RFC 7617): each user of the file has all rights."""

    def __init__(self, conf: Configuration) -> None:
        self._conf = conf
        self._file = passwords.PasswordFile(
            conf.http_basic_auth_user_file, most=conf.api.max_password_checks
        )

    def __call__(self, environ: Environ, request_id: str) -> Context:
        """Return the user.

        :raises refusals.Refusal: 401 without a right password, 400 for a malformed header.
        :raises errors.Unavailable: the password cannot be checked at present.
        """
        who = request.anonymous(environ, request_id)
        if environ[request.CALL].public:
            return who
        user, password = _basic_credentials(environ.get("HTTP_AUTHORIZATION"))
        proxied = self._conf.api.enable_proxy_headers_parsing
        source = client_address.of(environ, proxied=proxied)
        if not self._file.check(user, password, source):
            LOG.debug("No login with the name and password given")
            raise _login_refused("Incorrect username or password")
        return dataclasses.replace(who, user=user)


def _basic_credentials(header: str | None) -> tuple[str, bytes]:
    if header is None:
        raise _login_refused("Authorization required")
    kind, _, token = header.strip().partition(" ")
    if not token.strip():
        raise _malformed_login("Could not parse Authorization header")
    if kind.lower() != "basic":
        # Not repeated in the message, because it may contain a token.
        raise _malformed_login("Unsupported authorization type; Basic is supported")
    try:
        pair = base64.b64decode(token.strip(), validate=True)
        user, colon, password = pair.partition(b":")
        name = user.decode()
    except (binascii.Error, ValueError):
        raise _malformed_login("Could not decode authorization token") from None
    if not colon:
        raise _malformed_login("Could not decode authorization token")
    return name, password


def _login_refused(text: str) -> refusals.Refusal:
    return refusals.login(HTTPStatus.UNAUTHORIZED, text, _CHALLENGE)


def _malformed_login(text: str) -> refusals.Refusal:
    return refusals.login(HTTPStatus.BAD_REQUEST, text)


def _anonymous_identify(conf: Configuration) -> Identify:
    return request.anonymous if conf.api.allow_unauthenticated_bind else _local_caller


def _local_caller(environ: Environ, request_id: str) -> Context:
    """Return the caller, who must be on the machine of the WSGI server.

    Unlike ironic-lite-api, another WSGI server may listen at any address.

    :raises refusals.Refusal: 403 for any other machine.
    """
    address = environ.get("REMOTE_ADDR")
    # The address is empty if the server has a Unix socket.
    if address and not config.is_loopback(address.removeprefix(_MAPPED)):
        raise refusals.login(HTTPStatus.FORBIDDEN, _FAR)
    return request.anonymous(environ, request_id)


def _keystone_identify(conf: Configuration) -> Identify:
    try:
        # Loaded only if needed, because its libraries are large and come with an extra.
        keystone = importlib.import_module("ironic_lite.api.auth.keystone")
    except ImportError as why:
        raise config.ConfigError(
            reason=f"[api]auth_strategy: keystone needs a library that is missing ({why.name}); "
            "pip install 'ironic_lite[keystone]'"
        ) from None
    found: Identify = keystone.Tokens(conf)
    return found


_WAYS: dict[str, Callable[[Configuration], Identify]] = {
    "noauth": _anonymous_identify,
    "http_basic": Basic,
    "keystone": _keystone_identify,
}
