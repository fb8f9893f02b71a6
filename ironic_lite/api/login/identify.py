"""Who asks: one way for each [api]auth_strategy.

A way is called for every request that ``front`` has opened, returns the caller, and leaves what the
caller may do in ``Call.access``. Public paths are answered to anybody.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import importlib
import logging
from collections.abc import Callable
from http import HTTPStatus

from oslo_config import cfg

from ironic_lite import config
from ironic_lite.api.login import passwords
from ironic_lite.api.wire import exchange, faults
from ironic_lite.api.wire.exchange import Environ
from ironic_lite.context import Context

LOG = logging.getLogger(__name__)

Identify = Callable[[Environ, str], Context]

_MAPPED = "::ffff:"  # IPv4 at a socket of IPv6 (RFC 4291 2.5.5.2)
_FAR = (
    "Without a login only this machine itself is served; see [api]auth_strategy and "
    "[api]allow_unauthenticated_bind."
)
_CHALLENGE: faults.Headers = (("WWW-Authenticate", 'Basic realm="Baremetal API"'),)


def way(conf: cfg.ConfigOpts) -> Identify:
    """Return how callers of this configuration are known.

    :raises config.ConfigError: its files or libraries cannot be used.
    """
    return _WAYS[conf.api.auth_strategy](conf)


class Basic:
    """HTTP basic authentication (RFC 7617): who is in the file may do everything."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._file = passwords.PasswordFile(
            conf.http_basic_auth_user_file, most=conf.api.max_password_checks
        )

    def __call__(self, environ: Environ, request_id: str) -> Context:
        """Return the user.

        :raises faults.Refusal: 401 without a right password, 400 if the header is no such.
        :raises errors.Unavailable: nobody can tell just now.
        """
        who = exchange.anonymous(environ, request_id)
        if environ[exchange.CALL].public:
            return who
        user, password = _credentials(environ.get("HTTP_AUTHORIZATION"))
        if not self._file.check(user, password):
            LOG.info("No login with the name and password given")
            raise _unauthorized("Incorrect username or password")
        return dataclasses.replace(who, user=user)


def _credentials(header: str | None) -> tuple[str, bytes]:
    if header is None:
        raise _unauthorized("Authorization required")
    kind, _, token = header.strip().partition(" ")
    if not token.strip():
        raise _malformed("Could not parse Authorization header")
    if kind.lower() != "basic":
        # Not repeated: it may be what should have been the token.
        raise _malformed("Unsupported authorization type; Basic is supported")
    try:
        pair = base64.b64decode(token.strip(), validate=True)
        user, colon, password = pair.partition(b":")
        name = user.decode()
    except (binascii.Error, ValueError):
        raise _malformed("Could not decode authorization token") from None
    if not colon:
        raise _malformed("Could not decode authorization token")
    return name, password


def _unauthorized(text: str) -> faults.Refusal:
    return faults.login(HTTPStatus.UNAUTHORIZED, text, _CHALLENGE)


def _malformed(text: str) -> faults.Refusal:
    return faults.login(HTTPStatus.BAD_REQUEST, text)


def _anonymous(conf: cfg.ConfigOpts) -> Identify:
    return exchange.anonymous if conf.api.allow_unauthenticated_bind else _near


def _near(environ: Environ, request_id: str) -> Context:
    """Return the caller, who is on this machine: another WSGI server listens where it likes.

    :raises faults.Refusal: 403, who is not.
    """
    address = environ.get("REMOTE_ADDR")
    # Nothing at all, where the server has a unix socket.
    if address and not config.is_loopback(address.removeprefix(_MAPPED)):
        raise faults.login(HTTPStatus.FORBIDDEN, _FAR)
    return exchange.anonymous(environ, request_id)


def _keystone(conf: cfg.ConfigOpts) -> Identify:
    try:
        # Loaded only if needed: its libraries are big, and come with an extra.
        keystone = importlib.import_module("ironic_lite.api.login.keystone")
    except ImportError as why:
        raise config.ConfigError(
            reason=f"[api]auth_strategy: keystone needs a library that is missing ({why.name}); "
            "pip install 'ironic_lite[keystone]'"
        ) from None
    found: Identify = keystone.Tokens(conf)
    return found


_WAYS: dict[str, Callable[[cfg.ConfigOpts], Identify]] = {
    "noauth": _anonymous,
    "http_basic": Basic,
    "keystone": _keystone,
}
