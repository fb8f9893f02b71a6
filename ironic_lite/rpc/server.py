"""The conductor's end of RPC: a server with threads for calls, and the run of each call."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import logging
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
from oslo_messaging import dispatcher
from oslo_messaging.rpc import server as rpc_server

from ironic_lite import errors
from ironic_lite.core import clock, metrics
from ironic_lite.core import context as contexts
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.rpc import contract, deadlines, encoding
from ironic_lite.rpc.sockets.server import SocketServer
from ironic_lite.rpc.transport import Messaging

# Keepalives for the callers of calls that a conductor runs.
#
# A caller behind a broker takes the conductor for dead after some seconds without a keepalive. One
# thread serves all calls; oslo.messaging's own dispatcher would start a thread for each.

LOG = logging.getLogger(__name__)

_DUE = 1 / 2
"""Part of the caller's keepalive limit after which a keepalive is due."""


class CallKeepalives:
    """The running calls of one server; one object serves all its threads."""

    def __init__(self) -> None:
        self._calls: dict[Any, float] = {}
        """By call: the time at which its next keepalive is due."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ended = False

    @contextlib.contextmanager
    def during(self, call: Any) -> Iterator[None]:
        """Send the caller keepalives for the length of the block.

        :param call: a message with ``client_timeout``, its caller's keepalive limit in seconds, and
            ``heartbeat()``, which sends a keepalive.
        """
        with self._changed:
            self._calls[call] = clock.steady() + call.client_timeout * _DUE
            if self._thread is None:
                self._start_thread()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._calls[call]

    def _start_thread(self) -> None:
        """Start the thread late, because a process may fork before; the guard is held."""
        thread = threading.Thread(target=self._send_keepalives, name="rpc-signs", daemon=True)
        try:
            thread.start()
        except RuntimeError as why:  # the next call tries again; short calls need no keepalive
            LOG.warning("No keepalives for the callers of RPC methods: %s", why)
        else:
            self._thread = thread

    def end(self) -> None:
        """Stop sending keepalives."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _send_keepalives(self) -> None:
        while True:
            with self._changed:
                now, first = clock.steady(), min(self._calls.values(), default=None)
                if self._ended:
                    return
                if first is None or first > now:
                    self._changed.wait(None if first is None else first - now)
                    continue
                due = [call for call, moment in self._calls.items() if moment <= now]
                for call in due:
                    self._calls[call] = now + call.client_timeout * _DUE
            for call in due:
                send_keepalive(call)
            del call, due  # an answered message must not stay alive until the next keepalive


def send_keepalive(call: Any) -> None:
    """Send the caller of a call one keepalive, if possible."""
    try:
        call.heartbeat()
    except Exception as why:  # the transport may raise anything; the next keepalive may succeed
        LOG.debug("No keepalive for RPC method %s: %s", call.message.get("method"), why)


# The conductor's last check before a call begins: its caller must still wait.
#
# Without a broker, a caller that has given up has closed its connection; `deadlines` judges callers
# behind a broker. A call that waits for a free thread sends no keepalives, so an API keeps the
# number of its calls small (``deadlines.SendLimiter``).


class Admission:
    """Admits the calls of one server; one object serves all its threads."""

    def __init__(self, host: str) -> None:
        """Store ``host``, the name under which the server is called."""
        self._host = host
        self._senders = deadlines.ClockOffsets()
        self._guard = threading.Lock()

    def admit(self, call: Any) -> None:
        """Return if a call is to be run now.

        :param call: a message, with the attributes in oslo.messaging's guide for drivers.
        :raises failures.Again: its caller has given up, or may have.
        """
        if _given_up(call):
            self._refuse_call(call, logging.INFO)
        note = deadlines.CallDeadline.of(call.ctxt)
        if note is None:
            return  # a cast, or no broker
        with self._guard:
            age = self._senders.age(note, clock.steady())
        silence = call.client_timeout or math.inf
        if not deadlines.waits(age, silence=silence, limit=note.limit):
            self._refuse_call(call, logging.DEBUG if age is None else logging.INFO)
        if deadlines.sign_is_due(age, silence=silence):
            send_keepalive(call)

    def _refuse_call(self, call: Any, level: int) -> None:
        LOG.log(
            level,
            "RPC method %s is not begun unless its caller repeats it: it may have given up",
            call.message.get("method"),
        )
        raise encoding.Again(host=self._host, at=clock.steady())


def _given_up(call: object) -> bool:
    """Return whether the caller is known to be gone; a broker does not report it."""
    known = getattr(call, "given_up", None)
    return known is not None and bool(known())


# The run of a call in a conductor: admission, method, result or error.
#
# Errors of the service return unchanged. Any other exception is logged here, once, and the caller
# gets a plain 500.


class Dispatcher(dispatcher.DispatcherBase):  # type: ignore[misc]
    """Dispatches the messages of one server; one object serves all its threads.

    oslo.messaging's own dispatcher supports versions and namespaces, which the contract does not
    use. It starts a thread for each call, which takes a tenth of a call over ``local://``.
    """

    def __init__(
        self, host: str, endpoint: object, version: str, encode: Callable[[Any], object] | None
    ) -> None:
        """Call the public methods of ``endpoint``.

        :param host: the name of the server.
        :param version: reported to callers of a method that the endpoint lacks.
        :param encode: converts a result to plain JSON types, None if the transport does.
        """
        self._host = host
        self._endpoint = endpoint
        self._version = version
        self._encode = encode
        self.admission = Admission(host)
        self._signs = CallKeepalives()
        self._tickets = itertools.count()
        self._running: dict[int, str] = {}

    @property
    def running(self) -> list[str]:
        """The names of the running methods."""
        return list(self._running.values())

    def dispatch(self, incoming: Any) -> Any:
        """Run the method that a message names, and return its result.

        :param incoming: a message as in oslo.messaging's guide for drivers.
        :raises oslo_messaging.ExpectedException: contains a `encoding.Failure`, or a
            `encoding.Again` if the method was not begun.
        """
        try:
            self.admission.admit(incoming)
            name, method = self._find_method(incoming.message)
            with self._signs.during(incoming) if incoming.client_timeout else _NOTHING:
                context = Context.from_dict(incoming.ctxt)
                return self._carry_out(name, method, context, incoming.message.get("args", {}))
        except (encoding.Failure, encoding.Again):
            raise oslo_messaging.ExpectedException from None

    def end(self) -> None:
        """Stop sending keepalives to callers."""
        self._signs.end()

    def _find_method(self, message: Json) -> tuple[str, Callable[..., Any]]:
        name = str(message.get("method"))
        method = None if name.startswith("_") else getattr(self._endpoint, name, None)
        if not callable(method):
            unknown = errors.UnknownMethod(host=self._host, method=name, version=self._version)
            raise encoding.pack(unknown)
        return name, method

    def _carry_out(
        self, name: str, method: Callable[..., object], context: Context, arguments: Json
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
            raise encoding.pack(why) from None
        except (Exception, SystemExit) as why:
            if isinstance(why, TypeError) and not _fits_signature(method, context, arguments):
                raise encoding.pack(self._unknown_method(name, why)) from None
            LOG.exception(
                "RPC method %s failed unexpectedly in request %s", name, context.request_id
            )
            raise encoding.pack(self._call_fault(name, context)) from None
        finally:
            del self._running[ticket]
            contexts.enter(None)
            metrics.BOARD.count("rpc_served_total", name, outcome)
            metrics.BOARD.observe("rpc_served_seconds", watch.seconds, name)

    def _unknown_method(self, name: str, why: TypeError) -> errors.UnknownMethod:
        """Return the error for a caller of another version with different arguments."""
        return errors.UnknownMethod(
            f"Conductor {self._host} does not accept these arguments of the method {name}: {why} "
            f"(its RPC API version is {self._version}); run the same version on both sides.",
            host=self._host,
            method=name,
            version=self._version,
        )

    def _call_fault(self, name: str, context: Context) -> errors.Error:
        """Return an error that names the log; the fault itself may contain secrets."""
        return errors.Error(
            f"Conductor {self._host} failed unexpectedly in {name}; its log has the details "
            f"under request {context.request_id}.",
            host=self._host,
            method=name,
        )


_NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


def _fits_signature(method: Callable[..., object], context: Context, arguments: Json) -> bool:
    try:
        inspect.signature(method).bind(context, **arguments)
    except TypeError:
        return False
    return True


def answer_seconds(messaging: Messaging) -> float:
    """Return the seconds that callers wait, if configured like this process."""
    # The library registers this option only in a process that has made a client.
    oslo_messaging.get_rpc_client(messaging.bus, oslo_messaging.Target(topic=contract.TOPIC))
    seconds: float = messaging.bus.conf.rpc_response_timeout
    return seconds


def check(messaging: Messaging, host: str) -> None:
    """Check that a host could serve, as far as it can be seen beside a running server.

    :raises config.ConfigError: the address cannot be used.
    """
    if messaging.brokerless:
        messaging.socket_driver().check(_target(host))


def _target(host: str) -> oslo_messaging.Target:
    return oslo_messaging.Target(exchange=contract.EXCHANGE, topic=contract.TOPIC, server=host)


class Server:
    """Serves one endpoint under the name of one host."""

    def __init__(
        self,
        messaging: Messaging,
        host: str,
        endpoint: object,
        *,
        version: str = contract.VERSION,
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
