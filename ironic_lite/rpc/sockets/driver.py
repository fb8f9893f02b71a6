"""The common part of the drivers of transports without a broker."""

from __future__ import annotations

import abc
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging

from ironic_lite.core.options import Configuration
from ironic_lite.rpc.sockets import client, frames
from ironic_lite.rpc.sockets import server as socket_server

LOG = logging.getLogger(__name__)

Waiter = Callable[[client.Connection], frames.Body | None]


class SocketDriver(abc.ABC):
    """oslo.messaging over connections to the servers, without a broker.

    oslo.messaging finds a driver by its entry point and calls its methods. Of a message it uses
    ``ctxt``, ``message``, ``msg_id``, ``client_timeout`` and the methods of ``Incoming``; of a
    listener those of ``Listener``. Its guide for drivers describes them all but calls the base
    classes private, so this driver has none of them. ``tests/rpc/test_transport.py`` compares it
    with the base classes.

    Unlike a broker, a driver stores nothing. A message to a missing server is an error at once. The
    callers' ``retry`` is ignored.
    """

    def __init__(
        self,
        conf: Configuration,
        url: oslo_messaging.TransportURL,
        default_exchange: str | None = None,
        allowed_remote_exmods: Sequence[str] | None = None,
    ) -> None:
        self.conf = conf
        self._url = url
        self._default_exchange = default_exchange
        self._rebuilt = frozenset(allowed_remote_exmods or ())
        self._limit = frames.frame_limit(conf)
        self._pool = client.Pool(self._connect)
        self._idents = itertools.count(1)

    # -- the parts of a transport ------------------------------------------------------------

    @abc.abstractmethod
    def _servers_of(self, target: oslo_messaging.Target) -> Sequence[str]:
        """Return addresses: all for a fanout, otherwise those that may be tried, in order.

        :raises frames.PeerAbsent: no server exists.
        """

    @abc.abstractmethod
    def _connect(self, address: str, deadline: float | None) -> client.Connection:
        """Return a new connection; ``deadline`` is on the monotonic clock.

        :raises frames.PeerAbsent: no server answers there.
        """

    @abc.abstractmethod
    def check(self, target: oslo_messaging.Target) -> None:
        """Check what `listen` needs, as far as it can be seen beside a running server.

        :raises config.ConfigError: the address cannot be used.
        """

    @abc.abstractmethod
    def listen(
        self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None
    ) -> socket_server.Listener:
        """Listen for calls and casts to the server of ``target``.

        :raises config.ConfigError: the address cannot be used.
        :raises errors.Unavailable: another process uses the address, or the system refuses it.
        """

    # -- sending -----------------------------------------------------------------------------

    def require_features(self, requeue: bool = False) -> None:  # theirs
        """Refuse unsupported features. Raises NotImplementedError for ``requeue``."""
        if requeue:
            raise NotImplementedError("there is no queue to put a message back into")

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

        ``call_monitor_timeout`` is for brokers: the kernel notices the loss of a server here.

        :raises frames.PeerAbsent, frames.PeerLost: no living server, or it died
            during the call.
        :raises frames.FrameTooLarge: the message exceeds frame_limit_mib.
        :raises frames.NoServerNamed: the transport needs the name of a server.
        :raises oslo_messaging.MessagingTimeout: no answer within ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        request = {"ctxt": ctxt, "msg": message, "reply": bool(wait_for_reply)}
        ident, frame = self._request_frame(request)
        servers = self._servers_of(target)
        if target.fanout:
            self._post_all(servers, frame)
            return None

        def wait(connection: client.Connection) -> frames.Body | None:
            if not wait_for_reply:
                return None
            return connection.answer(ident, deadline)

        return self._answer_result(self._send_to_first(servers, frame, wait, deadline))

    def _request_frame(self, request: frames.Body) -> tuple[int, bytes]:
        ident = next(self._idents)
        return ident, frames.encode({"id": ident, **request}, self._limit)

    def _send_to_first(
        self, servers: Sequence[str], frame: bytes, wait: Waiter, deadline: float | None
    ) -> frames.Body | None:
        """Send the frame to the first living server."""
        absent = frames.PeerAbsent("no conductor listens")
        for server in servers:
            try:
                return self._pool.use(server, frame, wait, deadline)
            except frames.PeerAbsent as why:
                absent = why
        raise absent

    def _post_all(self, servers: Sequence[str], frame: bytes) -> None:
        for server in servers:
            try:
                self._pool.post(server, frame)
            except (frames.PeerAbsent, oslo_messaging.MessagingTimeout) as why:
                LOG.debug("Skipped in a fanout: %s", why)

    def _answer_result(self, answer: frames.Body | None) -> Any:
        if answer is None:
            return None
        if "failure" in answer:
            raise frames.load_exception(answer["failure"], self._rebuilt)
        return answer.get("result")

    def cleanup(self) -> None:
        """Close the idle connections; the driver can still be used."""
        self._pool.close()
