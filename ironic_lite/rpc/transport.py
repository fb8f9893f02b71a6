"""The oslo.messaging transports of this process: Unix sockets, TCP, or a broker.

Call `threads.native` before the first import of this module, or oslo.messaging loads eventlet.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import socket
import threading
import uuid
from collections.abc import Iterator
from concurrent import futures
from typing import TYPE_CHECKING, Any

import oslo_messaging

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.options import Configuration
from ironic_lite.rpc import contract, deadlines, encoding

if TYPE_CHECKING:
    from ironic_lite.rpc.sockets.driver import SocketDriver


LOCAL = "local"
"""The scheme of Unix sockets on one machine; see ``rpc.sockets.local``."""

DIRECT = "direct"
"""The scheme of TCP between machines; see ``rpc.sockets.direct``."""

NOTES_EXCHANGE = "ironic"
"""The exchange of consumers of Ironic's notifications, unless [DEFAULT]control_exchange differs."""

_BROKERLESS = frozenset({LOCAL, DIRECT})

_BROKER_LIBRARIES = frozenset({"amqp", "kombu"})
"""Libraries whose exceptions occur here; they are named so that nothing needs to import them."""

_NOTES = "oslo_messaging_notifications"

_WITHOUT_TRANSPORT = frozenset({"log", "noop", "test"})
"""Drivers of notifications that send no messages."""

_BROKER_GROUP = "oslo_messaging_rabbit"

_BROKER_DEFAULTS = {"heartbeat_timeout_threshold": 10, "rpc_conn_pool_size": deadlines.MOST_CALLS}
"""Our defaults of the library's options for RabbitMQ.

With the library's 60 s, a call waits longer for a hung broker than its caller does. With fewer
connections than calls to one conductor, these calls also wait for each other.
"""

REMOTE_MODULES = (encoding.__name__, errors.__name__)
"""Modules whose exceptions are rebuilt from an answer."""


@dataclasses.dataclass(frozen=True)
class Messaging:
    """A transport and its URL, because oslo.messaging does not publish the URL."""

    bus: Any
    """An ``oslo_messaging.RPCTransport``."""
    url: oslo_messaging.TransportURL

    @property
    def brokerless(self) -> bool:
        """True for local:// and direct://, which detect a dead server by themselves."""
        return self.url.transport in _BROKERLESS

    def socket_driver(self) -> SocketDriver:
        """Return a driver for a server, which oslo.messaging does not run; only if brokerless."""
        return _socket_driver_class(self.url.transport)(
            self.bus.conf, self.url, allowed_remote_exmods=REMOTE_MODULES
        )

    def cleanup(self) -> None:
        """Close the connections."""
        self.bus.cleanup()


def _socket_driver_class(scheme: str) -> type[SocketDriver]:
    # Each process needs one of them, and oslo.messaging has loaded it already.
    if scheme == LOCAL:
        from ironic_lite.rpc.sockets.local import LocalDriver  # noqa: PLC0415

        return LocalDriver
    from ironic_lite.rpc.sockets.direct import DirectDriver  # noqa: PLC0415

    return DirectDriver


def build(url: str | None = None) -> Messaging:
    """Return a new transport for RPC, not yet connected.

    ``url`` overrides [DEFAULT]transport_url. A ``local://`` without a path, the default, means the
    directory ``rpc`` in the state path. The options are those of ``config.CONF``, because parts of
    oslo.messaging always read the global options.

    :raises config.ConfigError: the URL cannot be used.
    """
    oslo_messaging.set_transport_defaults(contract.EXCHANGE)
    with _name_option_in_errors("[DEFAULT]transport_url"):
        parsed = _parsed_url(config.CONF, url or configured())
        _set_broker_defaults(config.CONF, parsed)
        bus = oslo_messaging.get_rpc_transport(
            config.CONF, url=parsed, allowed_remote_exmods=list(REMOTE_MODULES)
        )
    return Messaging(bus, parsed)


def register_notifications(conf: Configuration) -> None:
    """Register the options of [oslo_messaging_notifications] in ``conf``.

    The library registers them when it makes a transport. Its public list of options would load the
    libraries of all brokers. The transport made here connects to nothing.
    """
    oslo_messaging.get_notification_transport(conf, url=f"{LOCAL}:///nowhere")


def notifications(conf: Configuration) -> Any:
    """Return a new oslo.messaging NotificationTransport, not yet connected.

    :param conf: [oslo_messaging_notifications]transport_url is its URL; if unset, the RPC's URL.
    :raises config.ConfigError: the URL cannot be used.
    """
    oslo_messaging.set_transport_defaults(NOTES_EXCHANGE)
    register_notifications(conf)
    own = conf.oslo_messaging_notifications.transport_url
    option = "[oslo_messaging_notifications]transport_url" if own else "[DEFAULT]transport_url"
    with _name_option_in_errors(option):
        parsed = _parsed_url(conf, own or configured(conf))
        if parsed.transport == DIRECT:
            parsed = _transport_of_logs(conf)
        _set_broker_defaults(conf, parsed)
        return oslo_messaging.get_notification_transport(conf, url=parsed)


def _transport_of_logs(conf: Configuration) -> oslo_messaging.TransportURL:
    """Return an URL for drivers that send no messages, which connects to nothing.

    :raises config.ConfigError: a driver sends messages.
    """
    senders = sorted(set(conf[_NOTES].driver) - _WITHOUT_TRANSPORT)
    if senders:
        raise config.ConfigError(
            reason=f"[{_NOTES}]transport_url: direct:// carries no notifications, and driver is "
            f"{', '.join(senders)}; set the URL of a broker there, or the driver to log"
        )
    return oslo_messaging.TransportURL.parse(conf, f"{LOCAL}:///nowhere")


def _set_broker_defaults(conf: Configuration, url: oslo_messaging.TransportURL) -> None:
    """Set `_BROKER_DEFAULTS`, which values of the configuration override.

    The library registers the options when it makes a transport. Its public list of options would
    load the libraries of all brokers. The transport made here connects to nothing.
    """
    if url.transport in _BROKERLESS:
        return
    oslo_messaging.get_rpc_transport(conf, url=url)
    if _BROKER_GROUP in conf:
        for name, value in _BROKER_DEFAULTS.items():
            conf.set_default(name, value, group=_BROKER_GROUP)


@contextlib.contextmanager
def _name_option_in_errors(option: str) -> Iterator[None]:
    """Raise the fault in a URL as a ConfigError that names its option."""
    try:
        yield
    except (
        oslo_messaging.InvalidTransportURL,
        oslo_messaging.DriverLoadFailure,
        ModuleNotFoundError,
    ) as why:
        raise config.ConfigError(reason=f"{option}: {why}") from None
    except ValueError:
        # The library's text could reveal a part of the password in the URL.
        raise config.ConfigError(
            reason=f"{option}: not a URL such as rabbit://user:password@host:5672/vhost"
            "; write a / of the password as %2F and an @ of it as %40"
        ) from None


def _parsed_url(conf: Configuration, url: str) -> oslo_messaging.TransportURL:
    parsed = oslo_messaging.TransportURL.parse(conf, url)
    if parsed.transport == LOCAL and not (parsed.virtual_host or parsed.hosts):
        parsed.virtual_host = str(config.state_path(conf).resolve() / "rpc").lstrip("/")
    return parsed


def configured(conf: Configuration = config.CONF) -> str:
    """Return the configured URL of the transport."""
    oslo_messaging.TransportURL(conf)  # registers the option
    conf.set_default("transport_url", "local://")
    return str(conf.transport_url)


@functools.cache
def get() -> Messaging:
    """Return the transport of this process, built once. Raises as `build` does.

    Without a broker it may be built before a fork and used on both sides; with ``rabbit://`` build
    it in the child. With ``direct://``, no thread may connect during the fork, because the resolver
    of the C library has locks.
    """
    return build()


def of_broker(why: BaseException) -> bool:
    """Return whether an exception of oslo.messaging means that the broker is away.

    A connection cut during its setup raises a plain OSError from the broker's library.
    """
    library = type(why).__module__.partition(".")[0]
    lost = isinstance(why, oslo_messaging.MessageDeliveryFailure | OSError)
    return lost or library in _BROKER_LIBRARIES


# The first connection to a broker, made without blocking callers for ever.
#
# oslo.messaging connects for answers within the first call, and waits for the broker without limit,
# whatever time-out the caller gives. Therefore a thread of its own makes a first call without a
# receiver, and callers wait for that connection within their limits.

_AMQP_PORT = 5672
_CONNECT_SECONDS = 2
_PATIENCE = 5.0
"""Seconds that a caller waits for the first connection."""


class Opening:
    """The connection attempt of a process; one object serves all threads."""

    def __init__(self, messaging: Messaging) -> None:
        self._url = messaging.url
        target = oslo_messaging.Target(exchange=contract.EXCHANGE, topic=contract.TOPIC)
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
