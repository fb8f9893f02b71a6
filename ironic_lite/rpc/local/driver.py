"""The driver of ``local://`` (entry point group ``oslo.messaging.drivers``)."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging

from ironic_lite.core import config
from ironic_lite.core.configuration import Configuration
from ironic_lite.rpc.local import addresses
from ironic_lite.rpc.sockets import frames, listener, options, remote, sender, transport_errors

LOG = logging.getLogger(__name__)

Waiter = Callable[[sender.Connection], frames.Body | None]

RPC = "rpc"
NOTE = "notification"

_LISTENERS = itertools.count(1)


class LocalDriver:
    """oslo.messaging over Unix sockets in one directory, without a broker.

    oslo.messaging finds the class by its entry point and calls the methods below. Of a message it
    uses ``ctxt``, ``message``, ``msg_id``, ``client_timeout`` and the methods of `incoming`; of a
    listener the methods of `listener`. Its guide for drivers describes them all but calls the base
    classes private, so this driver has no base class. ``tests/rpc/test_driver.py`` compares it with
    the base classes, and all tests of ``local://`` use the library.

    Unlike a broker, the driver stores nothing. A message to a missing server is an error at once,
    and a notification without a listener is dropped. The callers' ``retry`` is ignored.
    """

    def __init__(
        self,
        conf: Configuration,
        url: oslo_messaging.TransportURL,
        default_exchange: str | None = None,
        allowed_remote_exmods: Sequence[str] | None = None,
    ) -> None:
        self.conf = conf
        self._default_exchange = default_exchange
        self._rebuilt = frozenset(allowed_remote_exmods or ())
        self._limit = options.frame_limit(conf)
        self._directory = addresses.Directory(_url_path(url))
        self._pool = sender.Pool(self._limit, self._directory.check)
        self._idents = itertools.count(1)
        self._turn = itertools.count()

    def require_features(self, requeue: bool = False) -> None:  # theirs
        """Refuse unsupported features. Raises NotImplementedError for ``requeue``."""
        if requeue:
            raise NotImplementedError("local:// has no queue to put a message back into")

    # -- sending -----------------------------------------------------------------------------

    def send(
        self,
        target: oslo_messaging.Target,
        ctxt: frames.Body,
        message: frames.Body,
        *,
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        call_monitor_timeout: int | None = None,
        retry: int | None = None,
        transport_options: object = None,
    ) -> Any:
        """Send ``message`` to the server(s) of ``target``.

        :raises transport_errors.PeerAbsent, transport_errors.PeerLost: no living server, or it died
            during the call.
        :raises transport_errors.FrameTooLarge: the message exceeds frame_limit_mib.
        :raises oslo_messaging.MessagingTimeout: no answer within ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        monitor = call_monitor_timeout if wait_for_reply else None
        request = {"ctxt": ctxt, "msg": message, "reply": bool(wait_for_reply), "monitor": monitor}
        ident, frame = self._request_frame(request)
        channel = self._channel_of(RPC, target)
        if target.fanout:
            self._post_all(channel, self._directory.members(channel), frame)
            return None

        def wait(connection: sender.Connection) -> frames.Body | None:
            if not wait_for_reply:
                return None
            return connection.answer(ident, deadline, monitor)

        if target.server:
            member = addresses.member(target.server)
            answer = self._pool.use(self._address_of(channel, member), frame, wait)
        else:
            answer = self._send_to_any(channel, frame, wait)
        return self._answer_result(answer)

    def _request_frame(self, request: frames.Body) -> tuple[int, bytes]:
        ident = next(self._idents)
        return ident, frames.encode({"id": ident, **request}, self._limit)

    def _address_of(self, channel: str, member: str) -> str:
        return self._directory.address(channel, member)

    def _send_to_any(self, channel: str, frame: bytes, wait: Waiter) -> frames.Body | None:
        """Send the frame to one living server, in turn."""
        members = self._directory.members(channel)
        first = next(self._turn) % len(members) if members else 0
        for member in members[first:] + members[:first]:
            with contextlib.suppress(transport_errors.PeerAbsent):
                return self._pool.use(self._address_of(channel, member), frame, wait)
        raise transport_errors.PeerAbsent(f"no conductor listens in {self._directory.path}")

    def _post_all(self, channel: str, members: Sequence[str], frame: bytes) -> None:
        for member in members:
            try:
                self._pool.post(self._address_of(channel, member), frame)
            except (transport_errors.PeerAbsent, oslo_messaging.MessagingTimeout) as why:
                LOG.debug("Skipped in a fanout: %s", why)

    def _answer_result(self, answer: frames.Body | None) -> Any:
        if answer is None:
            return None
        if "failure" in answer:
            raise remote.load(answer["failure"], self._rebuilt)
        return answer.get("result")

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
            with contextlib.suppress(transport_errors.PeerAbsent, oslo_messaging.MessagingTimeout):
                self._pool.post(self._address_of(channel, member), frame)
                return

    # -- listening ---------------------------------------------------------------------------

    def listen(
        self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None
    ) -> listener.Listener:
        """Listen for calls and casts to the server of ``target``.

        :raises config.ConfigError: the directory or the address cannot be used.
        :raises errors.Unavailable: another process uses the address, or the system refuses it.
        """
        channel = self._channel_of(RPC, target)
        server = self._directory.claim(channel, addresses.member(target.server))
        return listener.Listener([server], self._limit, (batch_size, batch_timeout))

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
        return listener.Listener(servers, self._limit, (batch_size, batch_timeout))

    def _channel_of(self, kind: str, target: oslo_messaging.Target, suffix: str = "") -> str:
        exchange = target.exchange or self._default_exchange or ""
        return addresses.channel(kind, exchange, target.topic + suffix)

    def cleanup(self) -> None:
        """Close the idle connections; the driver can still be used."""
        self._pool.close()


def _url_path(url: oslo_messaging.TransportURL) -> str:
    if url.hosts or not url.virtual_host:
        raise config.ConfigError(
            reason="[DEFAULT]transport_url: local:// takes a directory and no host; write it with "
            "three slashes, as in local:///var/lib/ironic-lite/rpc"
        )
    path: str = url.virtual_host
    return "/" + path.strip("/")
