"""The first connection to a broker, made without blocking callers for ever.

oslo.messaging connects for answers within the first call, and waits for the broker without limit,
whatever time-out the caller gives. Therefore a thread of its own makes a first call without a
receiver, and callers wait for that connection within their limits.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import uuid
from concurrent import futures

import oslo_messaging

from ironic_lite.rpc import interface
from ironic_lite.rpc.transport import Messaging

_AMQP_PORT = 5672
_CONNECT_SECONDS = 2
_PATIENCE = 5.0
"""Seconds that a caller waits for the first connection."""


class Opening:
    """The connection attempt of a process; one object serves all threads."""

    def __init__(self, messaging: Messaging) -> None:
        self._url = messaging.url
        target = oslo_messaging.Target(exchange=interface.EXCHANGE, topic=interface.TOPIC)
        self._rpc = oslo_messaging.get_rpc_client(
            messaging.bus,
            target,
            timeout=1,
            retry=0,
            # The broker then returns a message without a receiver at once.
            transport_options=oslo_messaging.TransportOptions(at_least_once=True),
        )
        self._guard = threading.Lock()
        self._attempt: futures.Future[None] | None = None

    def wait(self) -> None:
        """Return once there is a connection for answers.

        :raises oslo_messaging.MessageDeliveryFailure: there is no connection within seconds.
        """
        if not self._broker_answers():
            raise oslo_messaging.MessageDeliveryFailure("the message broker does not answer")
        try:
            self._begin_attempt().result(_PATIENCE)
        except TimeoutError:
            raise oslo_messaging.MessageDeliveryFailure(
                "the message broker takes no connection"
            ) from None

    def _broker_answers(self) -> bool:
        """Return whether one of the brokers accepts a connection, within 2 seconds each."""
        for host in self._url.hosts:
            with contextlib.suppress(OSError):
                address = (host.hostname, host.port or _AMQP_PORT)
                socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
                return True
        return False

    def _begin_attempt(self) -> futures.Future[None]:
        """Return the running or successful attempt; raises as `wait` without a thread for it."""
        with self._guard:
            last = self._attempt
            if last is None or (last.done() and last.exception()):
                last = futures.Future()
                thread = threading.Thread(
                    target=self._open_connection, args=(last,), name="rpc-opening", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as why:  # the next caller tries again
                    raise oslo_messaging.MessageDeliveryFailure(str(why)) from None
                self._attempt = last
            return last

    def _open_connection(self, attempt: futures.Future[None]) -> None:
        try:
            self._rpc.prepare(server=f"nobody-{uuid.uuid4().hex}").call({}, "open")
        except (oslo_messaging.MessageUndeliverable, oslo_messaging.MessagingTimeout):
            attempt.set_result(None)
        except Exception as why:  # a broker lost again or refusing the login: pass to the caller
            attempt.set_exception(why)
