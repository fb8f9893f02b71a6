"""The conductor's end of RPC: carries out calls on an endpoint, each on a thread.

A call goes oslo.messaging -> `_Door` -> the endpoint's method. Errors of ours go back as they
are; any other exception is logged here, once, and the caller gets a plain 500.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import oslo_messaging
from oslo_messaging.rpc import client as rpc_client
from oslo_messaging.rpc import server as rpc_server

from ironic_lite import context as contexts
from ironic_lite import errors, metrics
from ironic_lite.context import Context
from ironic_lite.rpc import encoding, failures, interface, transport
from ironic_lite.rpc.serializer import Serializer
from ironic_lite.rpc.waiting import Waiting

LOG = logging.getLogger(__name__)


def answer_seconds(messaging: Any) -> float:
    """Return how long callers wait for an answer, if they are configured as this process is.

    ``messaging`` is a transport of `transport.build`.
    """
    # The library knows this option only in a process that has made a client.
    messaging.conf.register_opts(rpc_client._client_opts)
    seconds: float = messaging.conf.rpc_response_timeout
    return seconds


class Server:
    """Serves one endpoint under the name of one host."""

    def __init__(
        self, messaging: Any, host: str, endpoint: object, *, version: str = interface.VERSION
    ) -> None:
        """``messaging`` is a transport of `transport.build`; ``endpoint`` implements the contract.

        Every public method of ``endpoint`` can be called, as ``method(context, **arguments)``.
        ``version`` is what callers are told who ask for a method it lacks.
        """
        local = transport.is_local(messaging)
        # Within the door, so that a result without JSON form is logged and answered like any fault.
        encode = None if local else encoding.plain
        self._door = _Door(host, endpoint, version, encode)
        self._started = False
        self._messaging = messaging
        self._server = oslo_messaging.get_rpc_server(
            messaging,
            oslo_messaging.Target(exchange=interface.EXCHANGE, topic=interface.TOPIC, server=host),
            [self._door],
            serializer=Serializer(encode=False),
            server_cls=_ThreadedServer,
        )

    def start(self) -> None:
        """Begin to serve; the listening is done when this returns. A broker that is away is waited
        for, and what lies there for an earlier life is dropped.

        :raises config.ConfigError: the address cannot be used, such as when another process has it.
        """
        self._started = True
        transport.forget(self._messaging, self._door._host)
        self._server.start()
        self._server.waiting.start()

    @property
    def in_hand(self) -> int:
        """How many calls are being answered."""
        return len(self._door._running)

    def stop(self) -> None:
        """Take no new calls, which callers learn at once; those being worked on go on."""
        # oslo.messaging would wait for the start.
        if self._started:
            self._server.stop()

    def wait(self, seconds: float = 60) -> bool:
        """Wait, after `stop`, until the calls being worked on are done, at most ``seconds``.

        Return True if they are. Otherwise their callers are cut off, and the threads are left to
        themselves: Python waits for them at its end, so a main must leave with ``os._exit``.
        """
        if not self._started:
            return True
        waiter = threading.Thread(target=self._server.wait, name="rpc-stop", daemon=True)
        waiter.start()
        waiter.join(seconds)
        self._server.waiting.end()
        if not waiter.is_alive():
            return True
        LOG.warning(
            "RPC calls still running %s s after the stop are given up: %s",
            seconds,
            ", ".join(self._door._running.values()) or "none started",
        )
        self._server.listener.cleanup()
        return False


class _ThreadedServer(rpc_server.RPCServer):  # type: ignore[misc]
    """oslo.messaging's server on the thread pool of the standard library.

    The pool it brings starts a thread for every call until it is full, and wakes each once a
    second; this one uses an idle thread again and sleeps while there is nothing to do.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._executor_cls = functools.partial(
            futures.ThreadPoolExecutor, thread_name_prefix="rpc-call"
        )
        self.waiting = Waiting(self._target.server)

    def _on_incoming(self, incoming: list[Any]) -> None:
        self.waiting.add(incoming[0])
        super()._on_incoming(incoming)

    def _process_incoming(self, incoming: list[Any]) -> None:
        if self.waiting.begin(incoming[0]):
            super()._process_incoming(incoming)


class _Door:
    """Stands before the endpoint: finds the method, sorts the exceptions, counts who is inside."""

    def __init__(
        self,
        host: str,
        endpoint: object,
        version: str,
        encode: Callable[[Any], Any] | None,
    ) -> None:
        self._host = host
        self._encode = encode
        self._endpoint = endpoint
        self._version = version
        self._tickets = itertools.count()
        self._running: dict[int, str] = {}
        # oslo.messaging reads this attribute of an endpoint; None means its defaults.
        self.target = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return what oslo.messaging calls for the method ``name``; made once for each name."""
        if name.startswith(("_", "oslo_")):
            raise AttributeError(name)
        method = getattr(self._endpoint, name, None)
        if not callable(method):
            return self._expected(functools.partial(self._refuse, name))
        guarded = self._expected(functools.partial(self._carry_out, name, method))
        setattr(self, name, guarded)
        return guarded

    @staticmethod
    def _expected(function: Callable[..., Any]) -> Callable[..., Any]:
        marked: Callable[..., Any] = oslo_messaging.expected_exceptions(failures.Failure)(function)
        return marked

    def _refuse(self, name: str, context: Context, **arguments: Any) -> None:
        raise failures.pack(self._unknown(name))

    def _unknown(self, name: str) -> errors.UnknownMethod:
        return errors.UnknownMethod(host=self._host, method=name, version=self._version)

    def _carry_out(
        self, name: str, method: Callable[..., Any], context: Context, **arguments: Any
    ) -> Any:
        ticket, watch, outcome = next(self._tickets), metrics.Watch(), "fault"
        self._running[ticket] = name
        contexts.enter(context)
        try:
            result = method(context, **arguments)
            encoded = self._encode(result) if self._encode else result
            outcome = "ok"
            return encoded
        except errors.Error as why:
            outcome = "error"
            raise failures.pack(why) from None
        except (Exception, SystemExit) as why:
            if isinstance(why, TypeError) and not _fits(method, context, arguments):
                raise failures.pack(self._misfit(name, why)) from None
            LOG.exception(
                "RPC method %s failed unexpectedly in request %s", name, context.request_id
            )
            raise failures.pack(self._fault(name, context)) from None
        finally:
            del self._running[ticket]
            contexts.enter(None)
            metrics.BOARD.count("rpc_served_total", name, outcome)
            metrics.BOARD.observe("rpc_served_seconds", watch.seconds, name)

    def _misfit(self, name: str, why: TypeError) -> errors.UnknownMethod:
        """The caller is of another version: it knows other arguments than we do."""
        return errors.UnknownMethod(
            f"Conductor {self._host} does not take these arguments of the method {name}: {why} "
            f"(its RPC API version is {self._version}); run the same version on both sides.",
            host=self._host,
            method=name,
            version=self._version,
        )

    def _fault(self, name: str, context: Context) -> errors.Error:
        """Say where to look and nothing of what was found: it may hold secrets."""
        return errors.Error(
            f"Conductor {self._host} failed unexpectedly while doing {name}; its log tells why, "
            f"under request {context.request_id}.",
            host=self._host,
            method=name,
        )


def _fits(method: Callable[..., Any], context: Context, arguments: dict[str, Any]) -> bool:
    try:
        inspect.signature(method).bind(context, **arguments)
    except TypeError:
        return False
    return True
