"""The common part of the drivers of transports without a broker."""

from __future__ import annotations

import abc
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging

from ironic_lite.core.configuration import Configuration
from ironic_lite.rpc.sockets import frames, listener, options, remote, sender, transport_errors

LOG = logging.getLogger(__name__)

Waiter = Callable[[sender.Connection], frames.Body | None]


class SocketDriver(abc.ABC):
    """oslo.messaging over connections to the servers, without a broker.

    oslo.messaging finds a driver by its entry point and calls its methods. Of a message it uses
    ``ctxt``, ``message``, ``msg_id``, ``client_timeout`` and the methods of `incoming`; of a
    listener the methods of `listener`. Its guide for drivers describes them all but calls the base
    classes private, so this driver has none of them. ``tests/rpc/test_driver.py`` compares it with
    the base classes.

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
        self._limit = options.frame_limit(conf)
        self._pool = sender.Pool(self._connect)
        self._idents = itertools.count(1)

    # -- the parts of a transport ------------------------------------------------------------

    @abc.abstractmethod
    def _servers_of(self, target: oslo_messaging.Target) -> Sequence[str]:
        """Return addresses: all for a fanout, otherwise those that may be tried, in order.

        :raises transport_errors.PeerAbsent: no server exists.
        """

    @abc.abstractmethod
    def _connect(self, address: str, deadline: float | None) -> sender.Connection:
        """Return a new connection; ``deadline`` is on the monotonic clock.

        :raises transport_errors.PeerAbsent: no server answers there.
        """

    @abc.abstractmethod
    def check(self, target: oslo_messaging.Target) -> None:
        """Check what `listen` needs, as far as it can be seen beside a running server.

        :raises config.ConfigError: the address cannot be used.
        """

    @abc.abstractmethod
    def listen(
        self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None
    ) -> listener.Listener:
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

        :raises transport_errors.PeerAbsent, transport_errors.PeerLost: no living server, or it died
            during the call.
        :raises transport_errors.FrameTooLarge: the message exceeds frame_limit_mib.
        :raises transport_errors.NoServerNamed: the transport needs the name of a server.
        :raises oslo_messaging.MessagingTimeout: no answer within ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        monitor = call_monitor_timeout if wait_for_reply else None
        request = {"ctxt": ctxt, "msg": message, "reply": bool(wait_for_reply), "monitor": monitor}
        ident, frame = self._request_frame(request)
        servers = self._servers_of(target)
        if target.fanout:
            self._post_all(servers, frame)
            return None

        def wait(connection: sender.Connection) -> frames.Body | None:
            if not wait_for_reply:
                return None
            return connection.answer(ident, deadline, monitor)

        return self._answer_result(self._send_to_first(servers, frame, wait, deadline))

    def _request_frame(self, request: frames.Body) -> tuple[int, bytes]:
        ident = next(self._idents)
        return ident, frames.encode({"id": ident, **request}, self._limit)

    def _send_to_first(
        self, servers: Sequence[str], frame: bytes, wait: Waiter, deadline: float | None
    ) -> frames.Body | None:
        """Send the frame to the first living server."""
        absent = transport_errors.PeerAbsent("no conductor listens")
        for server in servers:
            try:
                return self._pool.use(server, frame, wait, deadline)
            except transport_errors.PeerAbsent as why:
                absent = why
        raise absent

    def _post_all(self, servers: Sequence[str], frame: bytes) -> None:
        for server in servers:
            try:
                self._pool.post(server, frame)
            except (transport_errors.PeerAbsent, oslo_messaging.MessagingTimeout) as why:
                LOG.debug("Skipped in a fanout: %s", why)

    def _answer_result(self, answer: frames.Body | None) -> Any:
        if answer is None:
            return None
        if "failure" in answer:
            raise remote.load(answer["failure"], self._rebuilt)
        return answer.get("result")

    def cleanup(self) -> None:
        """Close the idle connections; the driver can still be used."""
        self._pool.close()
