"""The server of transports without a broker.

oslo.messaging's own server gives calls to its threads in turn, and each thread wakes every second.
Both take CPU time: a short call costs up to twice as much as here.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import oslo_messaging

from ironic_lite.core import warm_pool
from ironic_lite.rpc.sockets import incoming, listener

LOG = logging.getLogger(__name__)


class Dispatcher(Protocol):
    """Carries out calls."""

    def dispatch(self, incoming: Any) -> Any:
        """Return the result of a call.

        :raises oslo_messaging.ExpectedException: contains the error for the caller.
        """


class SocketServer:
    """Passes the messages of one listener to a dispatcher, and sends the answers.

    It has the methods of ``oslo_messaging.RPCServer``.

    :param listen: returns a new listener.
    :param threads: calls at once; further calls wait in order.
    """

    def __init__(
        self, listen: Callable[[], listener.Listener], dispatcher: Dispatcher, threads: int
    ) -> None:
        self.listener: listener.Listener | None = None
        self._listen = listen
        self._dispatcher = dispatcher
        self._pool = warm_pool.WarmPool(threads, "rpc")

    def start(self) -> None:
        """Listen. Raises as ``SocketDriver.listen``."""
        self.listener = self._listen()
        self.listener.start(self._take_messages)

    def stop(self) -> None:
        """Accept no more messages; running calls continue."""
        if self.listener is not None:
            self.listener.stop()

    def wait(self) -> None:
        """Wait after `stop` until all calls are answered, then close the connections."""
        self._pool.drain()
        if self.listener is not None:
            self.listener.cleanup()

    def _take_messages(self, batch: Sequence[incoming.Incoming]) -> None:
        for message in batch:
            try:
                self._pool.run(functools.partial(self._carry_out, [message]))
            except RuntimeError as why:
                # Raised further, it would close the connection, and the caller would not learn why.
                LOG.error("RPC method %s has no thread: %s", message.message.get("method"), why)
                message.reply(failure=sys.exc_info())

    def _carry_out(self, messages: list[incoming.Incoming]) -> None:
        """Answer the only one of ``messages``, then run the work that its method has deferred.

        The list is emptied, so a message with its secrets is freed before long work.
        """
        deferred: list[warm_pool.Work] = []
        try:
            with warm_pool.deferring() as deferred:
                self._answer(messages.pop())
        finally:
            while deferred:
                self._pool.step_out(deferred.pop(0))

    def _answer(self, message: incoming.Incoming) -> None:
        failure = result = None
        try:
            result = self._dispatcher.dispatch(message)
        except oslo_messaging.ExpectedException as why:
            failure = why.exc_info
        except Exception:
            failure = sys.exc_info()
            LOG.exception("RPC method %s failed unexpectedly", message.message.get("method"))
        try:
            message.reply(result, failure)
        except Exception:
            LOG.exception("The answer of RPC method %s failed", message.message.get("method"))
        finally:
            del failure  # its traceback refers to this frame
