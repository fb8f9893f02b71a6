"""The sockets of ``local://``: one directory, one socket for each listener.

A socket is called ``<channel>@<member>``. The channel is a short hash of kind, exchange and topic;
the member is the server's name (or, for notifications, the pool and a number). Names are short
because the path of a Unix socket is limited to 107 bytes.
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
from collections.abc import Callable, Iterator

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.rpc.sockets import transport_errors

LONGEST = 107
"""Bytes of a path: sun_path has 108 on Linux, the last of them a NUL."""

_BACKLOG = 1024
_PROBE_SECONDS = 1.0
_NAME_ROOM = 24
_PLAIN = re.compile(rf"[A-Za-z0-9._-]{{1,{_NAME_ROOM}}}")


@functools.lru_cache(maxsize=512)
def channel(kind: str, exchange: str, topic: str) -> str:
    """Return the prefix of socket names that all listeners of one topic share."""
    return hashlib.sha256(f"{kind}\0{exchange}\0{topic}".encode()).hexdigest()[:8]


@functools.lru_cache(maxsize=4096)
def member(name: str) -> str:
    """Return ``name`` for a socket's name: unchanged if short and plain, or hashed."""
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)[: _NAME_ROOM - 9] + "~" + digest


class Directory:
    """The directory of one transport URL."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        """Create the directory, mode 0700, if it is missing. Raises as `check` does."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise config.ConfigError(
                reason=f"transport_url: cannot make the directory {self.path}: there is a file"
            ) from None
        except OSError as why:
            raise _unusable_folder("cannot make the directory", self.path, why) from None
        self.check()

    def check(self) -> None:
        """Check that only this user can create sockets there.

        :raises config.ConfigError: other users can, or it is not a directory.
        :raises errors.Unavailable: it cannot be read at present.
        :raises transport_errors.PeerAbsent: it does not exist, so no server listens.
        """
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise transport_errors.PeerAbsent(
                f"no conductor listens: the directory {self.path} does not exist"
            ) from None
        except OSError as why:
            raise _unusable_folder("cannot use the directory", self.path, why) from None
        fault = untrusted_reason(found, os.geteuid())
        if fault:
            raise config.ConfigError(reason=f"transport_url: the directory {self.path} {fault}")

    def address(self, channel: str, member: str) -> str:
        """Return the path of a socket. Raises config.ConfigError if the path is too long."""
        path = f"{self.path}/{channel}@{member}"
        length = len(os.fsencode(path))
        if length > LONGEST:
            raise config.ConfigError(
                reason=f"transport_url: the socket path {path} has {length} bytes, and a Unix "
                f"socket allows {LONGEST}; choose a directory whose path is "
                f"{length - LONGEST} bytes shorter, with state_path or with "
                "transport_url = local:///short/path"
            )
        return path

    def members(self, channel: str) -> list[str]:
        """Return the members with a socket on ``channel``, alive or dead, sorted by name."""
        self.check()
        prefix = f"{channel}@"
        return sorted(n[len(prefix) :] for n in os.listdir(self.path) if n.startswith(prefix))

    def claim(self, channel: str, member: str) -> socket.socket:
        """Listen at an address, and remove sockets of dead processes.

        :raises config.ConfigError: the configured path cannot be used, now or later.
        :raises errors.Unavailable: a living process listens there, or the system refuses; a retry
            may succeed.
        """
        path = self.address(channel, member)
        self.prepare()
        try:
            with self._lock_directory():
                self._remove_dead_sockets()
                return _listening_socket(path)
        except OSError as why:
            raise _unusable_folder("cannot listen at", path, why) from None

    @contextlib.contextmanager
    def _lock_directory(self) -> Iterator[None]:
        """Hold the directory's lock, because a socket looks dead between bind and listen."""
        handle = os.open(f"{self.path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _remove_dead_sockets(self) -> None:
        for name in os.listdir(self.path):
            path = f"{self.path}/{name}"
            if "@" in name and is_stale(path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def remover(server: socket.socket) -> Callable[[], None]:
    """Return the removal of a socket's file, unless another process has replaced the file."""
    path = server.getsockname()
    inode = os.stat(path).st_ino

    def remove() -> None:
        with contextlib.suppress(OSError):
            if os.stat(path).st_ino == inode:
                os.unlink(path)

    return remove


def is_stale(path: str) -> bool:
    """Return whether ``path`` is a socket without a listening process."""
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
        # Full, slow or not permitted: the process is not known to be dead.
        return False
    finally:
        probe.close()
    return False


def untrusted_reason(found: os.stat_result, user: int) -> str | None:
    """Return why ``user`` must not trust the directory ``found``, or None."""
    if not stat.S_ISDIR(found.st_mode):
        return "is not a directory"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        return f"has mode {mode:04o}: other users could pose as a conductor; chmod it to 0700"
    if user != 0 and found.st_uid not in {0, user}:
        return f"belongs to user {found.st_uid}, who could pose as a conductor; this is user {user}"
    return None


def _listening_socket(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _unusable_folder(what: str, path: str, why: OSError) -> errors.Unavailable:
    """Return the error for a refusal of the system; the configuration may be right."""
    if why.errno == errno.EADDRINUSE:
        return errors.Unavailable(
            f"[DEFAULT]host: another process of this name listens at {path}; "
            "stop it or change the name."
        )
    return errors.Unavailable(f"transport_url: {what} {path}: {why.strerror or why}.")
