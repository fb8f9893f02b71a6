"""The driver of ``local://`` (entry point group ``oslo.messaging.drivers``)."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import socket
import time
from collections.abc import Sequence

import oslo_messaging

from ironic_lite.core import config
from ironic_lite.core.configuration import Configuration
from ironic_lite.rpc.local import addresses
from ironic_lite.rpc.sockets import driver, frames, kernel, listener, sender, transport_errors

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

    def __init__(
        self,
        conf: Configuration,
        url: oslo_messaging.TransportURL,
        default_exchange: str | None = None,
        allowed_remote_exmods: Sequence[str] | None = None,
    ) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        self._directory = addresses.Directory(_url_path(url))
        self._turn = itertools.count()
        self._hung: set[str] = set()
        """Addresses of listeners that did not reply to their last notification."""

    # -- sending -----------------------------------------------------------------------------

    def _servers_of(self, target: oslo_messaging.Target) -> Sequence[str]:
        """Return the paths of sockets; without a server's name, each is first in turn."""
        channel = self._channel_of(RPC, target)
        address_of = functools.partial(self._directory.address, channel)
        if target.server and not target.fanout:
            return [address_of(addresses.member(target.server))]
        members = self._directory.members(channel)
        if not members and not target.fanout:
            raise transport_errors.PeerAbsent(f"no conductor listens in {self._directory.path}")
        first = next(self._turn) % len(members) if members else 0
        return [address_of(member) for member in members[first:] + members[:first]]

    def _connect(self, address: str, deadline: float | None) -> sender.Connection:
        """Connect to a socket; the kernel limits the wait for a full backlog."""
        self._directory.check()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        left = kernel.SEND_SECONDS if deadline is None else deadline - time.monotonic()
        kernel.bound_sending(sock, max(left, _LEAST_SECONDS))
        try:
            sock.connect(address)
            kernel.bound_sending(sock)
        except OSError as why:
            sock.close()
            raise transport_errors.PeerAbsent(
                f"no conductor listens at {address}: {transport_errors.reason(why)}"
            ) from None
        return sender.Connection(sock, address, self._limit)

    def send_notification(
        self,
        target: oslo_messaging.Target,
        ctxt: frames.Body,
        message: frames.Body,
        version: float,
        retry: int | None = None,
    ) -> None:
        """Send to one listener of each pool; a missing listener is no error.

        :raises transport_errors.FrameTooLarge: the message exceeds frame_limit_mib.
        """
        _, frame = self._request_frame({"ctxt": ctxt, "msg": message, "reply": False})
        channel = self._channel_of(NOTE, target)
        try:
            members = self._directory.members(channel)
        except transport_errors.PeerAbsent:
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
            seconds = _HUNG_SECONDS if address in self._hung else sender.REPLY_SECONDS
            try:
                self._pool.post(address, frame, time.monotonic() + seconds)
            except (transport_errors.PeerAbsent, oslo_messaging.MessagingTimeout):
                if len(self._hung) >= _MOST_HUNG:
                    self._hung.clear()  # most of them no longer exist
                self._hung.add(address)
            else:
                self._hung.discard(address)
                return

    # -- listening ---------------------------------------------------------------------------

    def check(self, target: oslo_messaging.Target) -> None:
        """Check the path of the socket, and its directory if it exists."""
        self._directory.address(self._channel_of(RPC, target), addresses.member(target.server))
        with contextlib.suppress(transport_errors.PeerAbsent):  # made at the start
            self._directory.check()

    def listen(
        self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None
    ) -> listener.Listener:
        """Listen for calls and casts to the server of ``target``.

        :raises config.ConfigError: the directory or the address cannot be used.
        :raises errors.Unavailable: another process uses the address, or the system refuses it.
        """
        channel = self._channel_of(RPC, target)
        server = self._directory.claim(channel, addresses.member(target.server))
        return self._listen_at([server], batch_size, batch_timeout)

    def listen_for_notifications(
        self,
        targets_and_priorities: Sequence[tuple[oslo_messaging.Target, str]],
        pool: str | None,
        batch_size: int,
        batch_timeout: float | None,
    ) -> listener.Listener:
        """Listen for notifications; each pool gets each once. Raises as `listen`."""
        group = addresses.channel("pool", "", pool or "")
        member = f"{group}.{os.getpid()}.{next(_LISTENERS)}"
        channels = {
            self._channel_of(NOTE, target, f".{priority}")
            for target, priority in targets_and_priorities
        }
        servers = [self._directory.claim(channel, member) for channel in sorted(channels)]
        return self._listen_at(servers, batch_size, batch_timeout)

    def _listen_at(
        self, sockets: Sequence[socket.socket], batch_size: int, batch_timeout: float | None
    ) -> listener.Listener:
        servers = [listener.ServerSocket(sock, addresses.remover(sock)) for sock in sockets]
        return listener.Listener(servers, self._limit, (batch_size, batch_timeout))

    def _channel_of(self, kind: str, target: oslo_messaging.Target, suffix: str = "") -> str:
        exchange = target.exchange or self._default_exchange or ""
        return addresses.channel(kind, exchange, target.topic + suffix)


def _url_path(url: oslo_messaging.TransportURL) -> str:
    if url.hosts or not url.virtual_host:
        raise config.ConfigError(
            reason="[DEFAULT]transport_url: local:// takes a directory and no host; write it with "
            "three slashes, as in local:///var/lib/ironic-lite/rpc"
        )
    path: str = url.virtual_host
    return "/" + path.strip("/")
