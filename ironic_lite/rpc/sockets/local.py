"""The ``local://`` transport: oslo.messaging over Unix sockets on one machine.

``local:///var/lib/ironic-lite/rpc`` names a directory. Each server listens on a socket in it, and a
client connects to the socket of the server it wants. So there is no broker, and a dead server shows
as a refused connection. `Directory` defines the paths of the sockets; `LocalDriver` is the class
oslo.messaging loads.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import itertools
import os
import re
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import oslo_messaging

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.options import Configuration
from ironic_lite.rpc.sockets import client, driver, frames
from ironic_lite.rpc.sockets import server as socket_server

# The sockets of ``local://``: one directory, one socket for each listener.
#
# A socket is called ``<channel>@<member>``. The channel is a short hash of kind, exchange and
# topic; the member is the server's name (or, for notifications, the pool and a number). Names are
# short because the path of a Unix socket is limited to 107 bytes.

LONGEST = 107
"""Bytes of a path: sun_path has 108 on Linux, the last of them a NUL."""

_BACKLOG = 1024
_PROBE_SECONDS = 1.0
_NAME_ROOM = 24
_PLAIN = re.compile(rf"[A-Za-z0-9._-]{{1,{_NAME_ROOM}}}")


@functools.lru_cache(maxsize=512)
def channel_name(kind: str, exchange: str, topic: str) -> str:
    """Return the prefix of socket names that all listeners of one topic share."""
    return hashlib.sha256(f"{kind}\0{exchange}\0{topic}".encode()).hexdigest()[:8]


@functools.lru_cache(maxsize=4096)
def member_name(name: str) -> str:
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
        :raises frames.PeerAbsent: it does not exist, so no server listens.
        """
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise frames.PeerAbsent(
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


RPC = "rpc"
NOTE = "notification"

_HUNG_SECONDS = 0.1
"""Time to reply for a listener that did not reply to its last notification."""
_MOST_HUNG = 1000
_LEAST_SECONDS = 0.001  # 0 is no limit for the kernel

_LISTENERS = itertools.count(1)


class LocalDriver(driver.SocketDriver):
    """oslo.messaging over Unix sockets in one directory.

    A notification without a listener is dropped.
    """

    def __init__(self, conf: Configuration, url: oslo_messaging.TransportURL, **more: Any) -> None:
        super().__init__(conf, url, **more)
        self._directory = Directory(_url_path(url))
        self._turn = itertools.count()
        self._hung: set[str] = set()
        """Addresses of listeners that did not reply to their last notification."""

    # -- sending -----------------------------------------------------------------------------

    def _servers_of(self, target: oslo_messaging.Target) -> Sequence[str]:
        """Return the paths of sockets; without a server's name, each is first in turn."""
        channel = self._channel_of(RPC, target)
        address_of = functools.partial(self._directory.address, channel)
        if target.server and not target.fanout:
            return [address_of(member_name(target.server))]
        members = self._directory.members(channel)
        if not members and not target.fanout:
            raise frames.PeerAbsent(f"no conductor listens in {self._directory.path}")
        first = next(self._turn) % len(members) if members else 0
        return [address_of(member) for member in members[first:] + members[:first]]

    def _connect(self, address: str, deadline: float | None) -> client.Connection:
        """Connect to a socket; the kernel limits the wait for a full backlog."""
        self._directory.check()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        left = frames.SEND_SECONDS if deadline is None else deadline - time.monotonic()
        # With Python's own time-out, a connect to a full backlog would fail at once.
        wait = max(min(left, frames.SEND_SECONDS), _LEAST_SECONDS)
        limit = struct.pack("@ll", int(wait), int(wait % 1 * 1_000_000))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        try:
            sock.connect(address)
        except OSError as why:
            sock.close()
            raise frames.PeerAbsent(
                f"no conductor listens at {address}: {frames.system_reason(why)}"
            ) from None
        return client.Connection(sock, address, self._limit)

    def send_notification(
        self,
        target: oslo_messaging.Target,
        ctxt: frames.Body,
        message: frames.Body,
        version: float,
        retry: int | None = None,
    ) -> None:
        """Send to one listener of each pool; a missing listener is no error.

        :raises frames.FrameTooLarge: the message exceeds frame_limit_mib.
        """
        _, frame = self._request_frame({"ctxt": ctxt, "msg": message, "reply": False})
        channel = self._channel_of(NOTE, target)
        try:
            members = self._directory.members(channel)
        except frames.PeerAbsent:
            return
        turn = next(self._turn)
        for _, found in itertools.groupby(members, lambda member: member.partition(".")[0]):
            pool = list(found)
            first = turn % len(pool)
            self._post_one(channel, pool[first:] + pool[:first], frame)

    def _post_one(self, channel: str, members: Sequence[str], frame: bytes) -> None:
        for member in members:
            address = self._directory.address(channel, member)
            # A hung listener must not delay each notification that follows.
            seconds = _HUNG_SECONDS if address in self._hung else client.REPLY_SECONDS
            try:
                self._pool.post(address, frame, time.monotonic() + seconds)
            except (frames.PeerAbsent, oslo_messaging.MessagingTimeout):
                if len(self._hung) >= _MOST_HUNG:
                    self._hung.clear()  # most of them no longer exist
                self._hung.add(address)
            else:
                self._hung.discard(address)
                return

    # -- listening ---------------------------------------------------------------------------

    def check(self, target: oslo_messaging.Target) -> None:
        """Check the path of the socket, and its directory if it exists."""
        self._directory.address(self._channel_of(RPC, target), member_name(target.server))
        with contextlib.suppress(frames.PeerAbsent):  # made at the start
            self._directory.check()

    def listen(
        self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None
    ) -> socket_server.Listener:
        """Listen for calls and casts to the server of ``target``.

        :raises config.ConfigError: the directory or the address cannot be used.
        :raises errors.Unavailable: another process uses the address, or the system refuses it.
        """
        channel = self._channel_of(RPC, target)
        server = self._directory.claim(channel, member_name(target.server))
        return self._listen_at([server], batch_size, batch_timeout)

    def listen_for_notifications(
        self,
        targets_and_priorities: Sequence[tuple[oslo_messaging.Target, str]],
        pool: str | None,
        batch_size: int,
        batch_timeout: float | None,
    ) -> socket_server.Listener:
        """Listen for notifications; each pool gets each once. Raises as `listen`."""
        group = channel_name("pool", "", pool or "")
        member = f"{group}.{os.getpid()}.{next(_LISTENERS)}"
        channels = {
            self._channel_of(NOTE, target, f".{priority}")
            for target, priority in targets_and_priorities
        }
        servers = [self._directory.claim(channel, member) for channel in sorted(channels)]
        return self._listen_at(servers, batch_size, batch_timeout)

    def _listen_at(
        self, sockets: Sequence[socket.socket], batch_size: int, batch_timeout: float | None
    ) -> socket_server.Listener:
        servers = [socket_server.ServerSocket(sock, remover(sock)) for sock in sockets]
        return socket_server.Listener(servers, self._limit, (batch_size, batch_timeout))

    def _channel_of(self, kind: str, target: oslo_messaging.Target, suffix: str = "") -> str:
        exchange = target.exchange or self._default_exchange or ""
        return channel_name(kind, exchange, target.topic + suffix)


def _url_path(url: oslo_messaging.TransportURL) -> str:
    if url.hosts or not url.virtual_host:
        raise config.ConfigError(
            reason="[DEFAULT]transport_url: local:// takes a directory and no host; write it with "
            "three slashes, as in local:///var/lib/ironic-lite/rpc"
        )
    path: str = url.virtual_host
    return "/" + path.strip("/")
