"""A file of users and the bcrypt hashes of their passwords, as ``htpasswd -B`` writes it."""

from __future__ import annotations

import hmac
import logging
import os
import pathlib
import re
import secrets
import threading
import time
from collections.abc import Callable

import bcrypt

from ironic_lite import config, errors

LOG = logging.getLogger(__name__)

_HASH = re.compile(rb"\$2[yab]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_LONGEST = 72  # bytes: bcrypt reads no more, and refuses to be given more
_KEPT_SECONDS = 60.0
_MOST_KEPT = 1024
_CHECKS = 2
PATIENCE = 1.0
"""Seconds that a password waits to be checked before its request is refused."""


class PasswordFile:
    """Tells whether a password is right; the file may change at any time.

    A hash takes long to compute, on purpose. A password that was right is known again for a minute,
    by a hash under a key that only this process has; a change of the user's line ends that at once.
    What is known needs no place among the few that are checked at once: whoever floods the service
    with wrong passwords takes neither all threads nor all processors from those who are in.

    :param now: seconds, of a clock that only goes forward.
    :param most: how many hashes are computed at once.
    :param patience: seconds that others wait for a place, by default `PATIENCE`.
    :raises config.ConfigError: the file cannot be read, or has a line that is of no use.
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
        self._places = threading.BoundedSemaphore(most)
        self._patience = PATIENCE if patience is None else patience
        self._key = secrets.token_bytes(32)
        self._guard = threading.Lock()
        self._right: dict[bytes, float] = {}
        try:
            self._stamp = self._look()
            self._users, faults = _read(self._path)
        except OSError as why:
            raise config.ConfigError(
                reason=f"[DEFAULT]http_basic_auth_user_file: cannot read {path}: {why.strerror}"
            ) from None
        if faults:
            raise config.ConfigError(reason=f"[DEFAULT]http_basic_auth_user_file: {faults[0]}")
        self._warn()

    def check(self, user: str, password: bytes) -> bool:
        """Tell whether this is the user's password; it takes as long for a user nobody knows.

        :raises errors.Unavailable: the file cannot be read any more, or too many passwords are
            being checked.
        """
        users = self._current()
        known = users.get(user)
        # The costliest there is, so that nobody learns who is in the file by its being faster.
        against = known or max(users.values(), key=_cost, default=None)
        if against is None:
            return False
        proof = self._proof(user, against, password)
        if known is not None and self._kept(proof):
            return True
        if not self._places.acquire(timeout=self._patience):
            raise errors.Crowded(limit=self._most, option="max_password_checks")
        try:
            # Of many who came with the same one together, the first has been told meanwhile.
            right = self._kept(proof) or (_same(password, against) and known is not None)
            if right:
                self._keep(proof)
        finally:
            self._places.release()
        return right

    def _proof(self, user: str, line: bytes, password: bytes) -> bytes:
        parts = (user.encode(), line, password)
        told = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._key, told, "sha256")

    def _kept(self, proof: bytes) -> bool:
        with self._guard:
            return self._right.get(proof, 0.0) > self._now()

    def _keep(self, proof: bytes) -> None:
        with self._guard:
            while len(self._right) >= _MOST_KEPT:
                del self._right[next(iter(self._right))]
            self._right[proof] = self._now() + _KEPT_SECONDS

    def _look(self) -> tuple[int, int, int]:
        found = os.stat(self._path)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _warn(self) -> None:
        if not self._users:
            LOG.warning("Nobody can log in: %s names no user", self._path)

    def _current(self) -> dict[str, bytes]:
        """Return the users of the file as it is now."""
        try:
            stamp = self._look()
            if stamp != self._stamp:
                users, faults = _read(self._path)
                for fault in faults:
                    LOG.error("That user cannot log in: %s", fault)
                self._users, self._stamp = users, stamp
                self._warn()
        except OSError as why:
            LOG.error("Nobody can log in: cannot read %s: %s", self._path, why.strerror)
            raise errors.Unavailable(
                "Logins cannot be checked; the service's log says why."
            ) from why
        return self._users


def _same(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:_LONGEST], hashed)
    except ValueError:
        return False


def _read(path: pathlib.Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the hashes by user, and what is wrong with the other lines; the first of two holds.

    :raises OSError: the file cannot be read.
    """
    users: dict[str, bytes] = {}
    faults = []
    lines = path.read_bytes().decode(errors="replace").splitlines()
    for number, line in enumerate(map(str.strip, lines), 1):
        user, colon, told = line.partition(":")
        if not colon:
            continue
        # What follows the hash is of no concern, as in a line of passwd(5).
        hashed = told.partition(":")[0].strip().encode()
        if _HASH.fullmatch(hashed):
            users.setdefault(user, hashed)
        else:
            faults.append(f"{path}, line {number}: no bcrypt hash of {user!r}; use htpasswd -B")
    return users, faults


def _cost(hashed: bytes) -> bytes:
    return hashed[4:6]
