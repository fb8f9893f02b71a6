"""Where the sockets of ``local://`` are: one directory, mode 0700, one socket for each listener.

A socket is called ``<channel>@<member>``. The channel is a short hash of kind, exchange and
topic; the member is the server's name (or, for notifications, the pool and a number). Names are
short because the path of a unix socket has room for 107 bytes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import re
import socket
import stat
from collections.abc import Iterator

from ironic_lite import config
from ironic_lite.rpc.local import faults

LONGEST = 107
"""Bytes: sun_path has 108 on Linux, the last of them a NUL."""

_BACKLOG = 1024
_PROBE_SECONDS = 1.0
_NAME_ROOM = 24
_PLAIN = re.compile(rf"[A-Za-z0-9._-]{{1,{_NAME_ROOM}}}")


@functools.lru_cache(maxsize=512)
def channel(kind: str, exchange: str, topic: str) -> str:
    """Return the part of a socket's name that all listeners of one topic share."""
    return hashlib.sha256(f"{kind}\0{exchange}\0{topic}".encode()).hexdigest()[:8]


@functools.lru_cache(maxsize=4096)
def member(name: str) -> str:
    """Return ``name`` as a socket's name has it: itself if short and plain, else with a hash."""
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)[: _NAME_ROOM - 9] + "~" + digest


class Directory:
    """The directory of one transport URL."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        """Make the directory, mode 0700, unless it is there. Raises as `check` does."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
        except OSError as why:
            raise config.ConfigError(
                reason=f"transport_url: cannot make the directory {self.path}: {why.strerror}"
            ) from None
        self.check()

    def check(self) -> None:
        """Make sure that only this user can put sockets there.

        :raises config.ConfigError: others could, or it is no directory.
        :raises faults.PeerAbsent: it does not exist, so nobody can listen.
        """
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise faults.PeerAbsent(
                f"no conductor listens: the directory {self.path} does not exist"
            ) from None
        except OSError as why:
            raise config.ConfigError(
                reason=f"transport_url: cannot use the directory {self.path}: {why.strerror}"
            ) from None
        fault = distrust(found, os.geteuid())
        if fault:
            raise config.ConfigError(reason=f"transport_url: the directory {self.path} {fault}")

    def address(self, channel: str, member: str) -> str:
        """Return the path of a socket. Raises config.ConfigError if it is too long for one."""
        path = f"{self.path}/{channel}@{member}"
        length = len(os.fsencode(path))
        if length > LONGEST:
            raise config.ConfigError(
                reason=f"transport_url: the socket path {path} has {length} bytes, and a unix "
                f"socket has room for {LONGEST}; choose a directory whose path is "
                f"{length - LONGEST} bytes shorter, with state_path or with "
                "transport_url = local:///short/path"
            )
        return path

    def members(self, channel: str) -> list[str]:
        """Return the members with a socket on ``channel``, living or not, in order of name."""
        self.check()
        prefix = f"{channel}@"
        return sorted(n[len(prefix) :] for n in os.listdir(self.path) if n.startswith(prefix))

    def claim(self, channel: str, member: str) -> socket.socket:
        """Listen at an address, and remove the sockets of dead processes from the directory.

        :raises config.ConfigError: a living process listens there already.
        """
        path = self.address(channel, member)
        self.prepare()
        with self._locked():
            self._sweep()
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.bind(path)
                sock.listen(_BACKLOG)
            except OSError as why:
                sock.close()
                raise config.ConfigError(reason=_not_bound(path, why)) from None
            return sock

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Between bind and listen a socket looks dead: let nobody else sweep in that moment."""
        handle = os.open(f"{self.path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _sweep(self) -> None:
        for name in os.listdir(self.path):
            path = f"{self.path}/{name}"
            if "@" in name and is_stale(path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def is_stale(path: str) -> bool:
    """Say whether ``path`` is a socket at which nobody answers a connect."""
    with contextlib.suppress(OSError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(_PROBE_SECONDS)
    try:
        probe.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        # Full, slow or not ours to touch: whatever it is, it is not known to be dead.
        return False
    finally:
        probe.close()
    return False


def distrust(found: os.stat_result, user: int) -> str | None:
    """Say why ``user`` should not look for conductors in the directory ``found``, or None."""
    if not stat.S_ISDIR(found.st_mode):
        return "is not a directory"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        return f"has mode {mode:04o}: others could pose as a conductor; chmod it to 0700"
    if user != 0 and found.st_uid not in {0, user}:
        return f"belongs to user {found.st_uid}, who could pose as a conductor; this is user {user}"
    return None


def _not_bound(path: str, why: OSError) -> str:
    if why.errno == errno.EADDRINUSE:
        return (
            f"[DEFAULT]host: another process of this name listens at {path}; "
            "stop it or change the name"
        )
    return f"transport_url: cannot listen at {path}: {why.strerror}"
