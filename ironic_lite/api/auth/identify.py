"""Identification of callers, one way for each [api]auth_strategy.

`middleware` calls the way for each request it opens. The way returns the caller and stores the
caller's rights in ``Call.access``. Public paths need no login.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hmac
import importlib
import logging
import os
import pathlib
import re
import secrets
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

import bcrypt

from ironic_lite import errors
from ironic_lite.api.auth import failed_attempts
from ironic_lite.api.http import refusals, request
from ironic_lite.api.http.request import Environ
from ironic_lite.core import config, log_lines
from ironic_lite.core.context import Context
from ironic_lite.core.options import Configuration
from ironic_lite.core.slots import Newest, Slots

# A file of users and bcrypt hashes, as written by ``htpasswd -B``.

LOG = logging.getLogger(__name__)

HASH = re.compile(rb"\$2[yab]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
"""A bcrypt hash, the only kind that a password may have."""
_LONGEST = 72  # bytes: bcrypt reads no more, and refuses longer input
_KEPT_SECONDS = 600.0
_MOST_KEPT = 1024
_CHECKS = 2
_MOST_WAITING = 48
_DOUBTFUL = 20
"""Failures of a network within a minute that make its next check doubtful."""
_RIGHT_LATELY = 86_400.0
"""Seconds for which a user that logged in from a network has precedence from there."""
PATIENCE = 5.0
"""Seconds that a password waits for its check before its request is refused."""


class PasswordFile:
    """Checks passwords; the file may change at any time.

    A hash takes long to compute, on purpose. A right password is remembered until it has not been
    used for ten minutes, as a hash under a key that only this process has. A change of the user's
    line ends that at once. A remembered password needs no slot of the few concurrent checks. Others
    wait in a queue: first users that logged in lately from the same network, then callers with the
    fewest failures. So a flood of wrong passwords keeps out neither users who are logged in nor
    users from other networks.

    :param now: seconds of a monotonic clock.
    :param most: most hashes computed at once.
    :param patience: seconds that others wait for a slot, by default `PATIENCE`.
    :raises config.ConfigError: the file cannot be read, or has a malformed line.
    """

    def __init__(
        self,
        path: str,
        now: Callable[[], float] = time.monotonic,
        *,
        most: int = _CHECKS,
        patience: float | None = None,
    ) -> None:
        self._path = pathlib.Path(path)
        self._now = now
        self._most = most
        self._patience = PATIENCE if patience is None else patience
        # Of the callers that fail often, one is checked at a time, even while slots are free, so
        # a flood leaves CPU time to the rest of the service.
        self._slots = Slots(most, 1, waiting=_MOST_WAITING)
        self._failures = failed_attempts.Failures(now)
        self._throttle = log_lines.LogThrottle()
        self._key = secrets.token_bytes(32)
        self._guard = threading.Lock()
        self._right: Newest[bytes, float] = Newest(_MOST_KEPT)
        self._lately: Newest[bytes, float] = Newest(_MOST_KEPT)
        try:
            self._stamp = self._file_stamp()
            self._users, faults = _read_file(self._path)
        except OSError as why:
            raise config.ConfigError(
                reason=f"[DEFAULT]http_basic_auth_user_file: cannot read {path}: {why.strerror}; "
                f"htpasswd -cB {path} NAME makes it"
            ) from None
        if faults:
            raise config.ConfigError(reason=f"[DEFAULT]http_basic_auth_user_file: {faults[0]}")
        self._warn_about_file()

    def check(self, user: str, password: bytes, source: str = "") -> bool:
        """Return whether this is the user's password; an unknown user takes as long.

        :param source: the client address.
        :raises errors.Unavailable: the file cannot be read any more.
        :raises errors.TooManyRequests: too many passwords are being checked.
        """
        users = self._current_users()
        known = users.get(user)
        # The costliest hash of the file, so that response times do not reveal user names.
        against = known or max(users.values(), key=_hash_cost, default=None)
        if against is None:
            return False
        proof = self._password_proof(user.encode(), against, password)
        if known is not None and self._is_remembered(proof):
            return True
        place = request.client_network(source)
        here, pair = (
            self._password_proof(user.encode(), each.encode()) for each in (place, source)
        )
        rank = (not self._was_right(here), self._failures.count(pair), self._failures.count(place))
        new, _, failed = rank
        doubtful = "doubtful" if new and failed >= _DOUBTFUL else None
        with self._slots.hold(doubtful, seconds=self._patience, rank=rank) as held:
            if not held:
                raise errors.TooManyRequests(limit=self._most, option="max_password_checks")
            # An equal password may have been checked while this one waited.
            right = self._is_remembered(proof) or (
                _matches_hash(password, against) and known is not None
            )
            if right:  # kept before the next in the queue looks
                self._remember_proof(proof, here)
        if not right:
            self._failures.note(pair, place)
        return right

    def _password_proof(self, *parts: bytes) -> bytes:
        told = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._key, told, "sha256")

    def _is_remembered(self, proof: bytes) -> bool:
        """Return whether a password is remembered; if so, remember it for longer."""
        with self._guard:
            if self._right.get(proof, 0.0) <= self._now():
                return False
            self._right[proof] = self._now() + _KEPT_SECONDS
            return True

    def _was_right(self, here: bytes) -> bool:
        return self._lately.get(here, 0.0) > self._now()

    def _remember_proof(self, proof: bytes, here: bytes) -> None:
        with self._guard:
            self._right[proof] = self._now() + _KEPT_SECONDS
            self._lately[here] = self._now() + _RIGHT_LATELY

    def _file_stamp(self) -> tuple[int, int, int]:
        found = os.stat(self._path)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _warn_about_file(self) -> None:
        if not self._users:
            LOG.warning("No user can log in: %s contains no user", self._path)

    def _current_users(self) -> dict[str, bytes]:
        """Return the users of the file in its current state."""
        try:
            with self._throttle:
                stamp = self._file_stamp()
                if stamp != self._stamp:
                    users, faults = _read_file(self._path)
                    for fault in faults:
                        LOG.error("A user cannot log in: %s", fault)
                    self._users, self._stamp = users, stamp
                    self._warn_about_file()
        except OSError as why:
            if self._throttle.new(str(why.strerror)):
                LOG.error("No user can log in: cannot read %s: %s", self._path, why.strerror)
            raise errors.Unavailable(
                "Logins cannot be checked; the service's log says why."
            ) from why
        return self._users


def _matches_hash(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:_LONGEST], hashed)
    except ValueError:
        return False


def _read_file(path: pathlib.Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the hashes by user, and the faults; the first line of a user counts.

    :raises OSError: the file cannot be read.
    """
    users: dict[str, bytes] = {}
    faults = []
    lines = path.read_bytes().decode(errors="replace").splitlines()
    for number, line in enumerate(map(str.strip, lines), 1):
        user, colon, told = line.partition(":")
        if not colon:
            continue
        # Fields after the hash are ignored, as in a line of passwd(5).
        hashed = told.partition(":")[0].strip().encode()
        if HASH.fullmatch(hashed):
            users.setdefault(user, hashed)
        else:
            faults.append(f"{path}, line {number}: no bcrypt hash of {user!r}; use htpasswd -B")
    return users, faults


def _hash_cost(hashed: bytes) -> bytes:
    return hashed[4:6]


Identify = Callable[[Environ, str], Context]

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
        self._file = PasswordFile(conf.http_basic_auth_user_file, most=conf.api.max_password_checks)

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
        source = request.client_address(environ, proxied=proxied)
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
    "noauth": lambda _conf: request.anonymous,
    "http_basic": Basic,
    "keystone": _keystone_identify,
}
