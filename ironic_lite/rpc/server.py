"""The conductor's end of RPC: a server with threads for calls."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from typing import Any

import oslo_messaging
from oslo_messaging.rpc import server as rpc_server

from ironic_lite.rpc import encoding, interface
from ironic_lite.rpc.dispatcher import Dispatcher
from ironic_lite.rpc.sockets.server import SocketServer
from ironic_lite.rpc.transport import Messaging

LOG = logging.getLogger(__name__)


def answer_seconds(messaging: Messaging) -> float:
    """Return the seconds that callers wait, if configured like this process."""
    # The library registers this option only in a process that has made a client.
    oslo_messaging.get_rpc_client(messaging.bus, oslo_messaging.Target(topic=interface.TOPIC))
    seconds: float = messaging.bus.conf.rpc_response_timeout
    return seconds


def check(messaging: Messaging, host: str) -> None:
    """Check that a host could serve, as far as it can be seen beside a running server.

    :raises config.ConfigError: the address cannot be used.
    """
    if messaging.brokerless:
        messaging.socket_driver().check(_target(host))


def _target(host: str) -> oslo_messaging.Target:
    return oslo_messaging.Target(exchange=interface.EXCHANGE, topic=interface.TOPIC, server=host)


class Server:
    """Serves one endpoint under the name of one host."""

    def __init__(
        self,
        messaging: Messaging,
        host: str,
        endpoint: object,
        *,
        version: str = interface.VERSION,
    ) -> None:
        """Serve ``endpoint``, which implements the contract.

        Every public method of ``endpoint`` can be called, as ``method(context, **arguments)``.
        ``version`` is reported to callers of a method that it lacks.
        """
        encode = None if messaging.brokerless else encoding.plain
        self.dispatcher = Dispatcher(host, endpoint, version, encode)
        self._started = False
        target = _target(host)
        # Also without a broker: the library registers executor_thread_pool_size only here.
        self._server: Any = rpc_server.RPCServer(messaging.bus, target, self.dispatcher)
        self.threads: int = messaging.bus.conf.executor_thread_pool_size
        """The number of calls that are answered at the same time."""
        if messaging.brokerless:
            listen = functools.partial(messaging.socket_driver().listen, target, 1, None)
            self._server = SocketServer(listen, self.dispatcher, self.threads)

    def start(self) -> None:
        """Start to serve; return once the server listens, after waiting for a broker.

        :raises config.ConfigError: the address cannot be used.
        :raises errors.Unavailable: another process uses it, or the system refuses it at present.
        """
        self._started = True
        self._server.start()

    @property
    def in_hand(self) -> int:
        """The number of running calls."""
        return len(self.dispatcher.running)

    def stop(self) -> None:
        """Refuse new calls, which callers notice at once; running calls continue."""
        # Without a start, oslo.messaging would wait for one.
        if self._started:
            self._server.stop()

    def wait(self, seconds: float = 60) -> bool:
        """Wait, after `stop`, until running calls are done, at most ``seconds``.

        Return True if they are done. Otherwise their callers are cut off, and the threads continue.
        With a broker, Python waits for these threads at its end, so a main must leave with
        ``os._exit``. Without a broker they are daemons.
        """
        if not self._started:
            return True
        waiter = threading.Thread(target=self._server.wait, name="rpc-stop", daemon=True)
        with contextlib.suppress(RuntimeError):  # without a thread, running calls are given up now
            waiter.start()
            waiter.join(seconds)
        self.dispatcher.end()
        if waiter.ident is not None and not waiter.is_alive():
            return True
        LOG.warning(
            "RPC calls still running %s s after the stop are given up: %s",
            seconds,
            ", ".join(self.dispatcher.running) or "none started",
        )
        self._server.listener.cleanup()
        return False
