"""The oslo.messaging transports of this process: unix sockets in the state path, or a broker.

`threads.native` must have been called before this module is imported for the first time, else
oslo.messaging loads eventlet.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging._drivers import common

from ironic_lite import clock, config, errors
from ironic_lite.rpc import failures, interface
from ironic_lite.rpc.local import LocalDriver

LOG = logging.getLogger(__name__)

_AMQP_PORT = 5672
_CONNECT_SECONDS = 2

_OVERSLEPT = 0.25
"""Seconds that a thread wakes up too late if its process stood still, or found no processor."""

_READING = 1.0
"""Seconds in which another thread of it then has read what came meanwhile."""

NOTES_EXCHANGE = "ironic"
"""Where consumers of Ironic's notifications listen, unless [DEFAULT]control_exchange says else."""

_NO_QUEUE = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})
"""What brokers say, in AMQP's numbers, where there is nothing to be dropped by us."""

_BROKER_LIBRARIES = frozenset({"amqp", "kombu"})
"""Their exceptions come through at times; nobody imports them only to name them."""

REMOTE_MODULES = (failures.__name__, errors.__name__)
"""Only exceptions of these modules are rebuilt from an answer."""


def build(url: str | None = None) -> Any:
    """Return a new oslo.messaging RPCTransport.

    ``url`` overrides [DEFAULT]transport_url. A ``local://`` without a path, the default, means the
    directory ``rpc`` in the state path. The options are those of ``config.CONF``, because parts of
    oslo.messaging read the global ones in any case.

    :raises config.ConfigError: the URL cannot be used.
    """
    oslo_messaging.set_transport_defaults(interface.EXCHANGE)
    with _worded("[DEFAULT]transport_url"):
        return oslo_messaging.get_rpc_transport(
            config.CONF,
            url=_parsed(config.CONF, url or _configured()),
            allowed_remote_exmods=list(REMOTE_MODULES),
        )


def notifications(conf: cfg.ConfigOpts) -> Any:
    """Return a new oslo.messaging NotificationTransport; nothing is connected yet.

    :param conf: says where to: [oslo_messaging_notifications]transport_url, unset the RPC's URL.
    :raises config.ConfigError: the URL cannot be used.
    """
    oslo_messaging.set_transport_defaults(NOTES_EXCHANGE)
    own = conf.oslo_messaging_notifications.transport_url
    option = "[oslo_messaging_notifications]transport_url" if own else "[DEFAULT]transport_url"
    with _worded(option):
        return oslo_messaging.get_notification_transport(
            conf, url=_parsed(conf, own or _configured(conf))
        )


@contextlib.contextmanager
def _worded(option: str) -> Iterator[None]:
    """Raise what is wrong with a URL as a ConfigError that names its option."""
    try:
        yield
    except (
        oslo_messaging.InvalidTransportURL,
        oslo_messaging.DriverLoadFailure,
        ModuleNotFoundError,
    ) as why:
        raise config.ConfigError(reason=f"{option}: {why}") from None
    except ValueError:
        # Its reason would show a part of the URL, which may be one of the password.
        raise config.ConfigError(
            reason=f"{option}: not a URL such as rabbit://user:password@host:5672/vhost"
            "; write a / of the password as %2F and an @ of it as %40"
        ) from None


def _parsed(conf: cfg.ConfigOpts, url: str) -> oslo_messaging.TransportURL:
    parsed = oslo_messaging.TransportURL.parse(conf, url)
    if parsed.transport == "local" and not (parsed.virtual_host or parsed.hosts):
        parsed.virtual_host = str(config.state_path(conf).resolve() / "rpc").lstrip("/")
    return parsed


def _configured(conf: cfg.ConfigOpts = config.CONF) -> str:
    oslo_messaging.TransportURL(conf)  # registers the option
    conf.set_default("transport_url", "local://")
    return str(conf.transport_url)


@functools.cache
def get() -> Any:
    """Return the transport of this process, built on the first call. Raises as `build` does.

    With ``local://`` it may be built before a fork and used on both sides; with ``rabbit://`` build
    it in the child.
    """
    return build()


def broker_answers(transport: Any) -> bool:
    """Say whether one of the brokers in the URL takes a connection, within 2 seconds each.

    oslo.messaging waits for ever, whatever time-out a caller gives, when it needs its first
    connection for answers; so that a caller who asks this first is spared that.
    """
    # The URL has no public name either.
    for host in transport._driver._url.hosts:
        with contextlib.suppress(OSError):
            address = (host.hostname, host.port or _AMQP_PORT)
            socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
            return True
    return False


def watch_waits(transport: Any, sent: Callable[[], None]) -> None:
    """Call ``sent`` on the thread of each call when its message is at the broker. A broker must
    answer.

    And let callers read what came while this process stood still, before they give up: their time
    ran on, and the answer may be here already.
    """
    # None of these has a public name; the queue for answers is made by the first call otherwise.
    transport._driver._get_reply_q()
    waiters = transport._driver._waiter.waiters
    get = waiters.get

    def patient(msg_id: str, timeout: float) -> Any:
        sent()
        due = clock.steady() + timeout
        try:
            found = get(msg_id, timeout)
            if clock.steady() < due:
                return found
        except oslo_messaging.MessagingTimeout:
            if clock.steady() - due < _OVERSLEPT:
                raise
            found = get(msg_id, _READING)
        return _behind_signs(found, functools.partial(get, msg_id))

    waiters.get = patient


def _behind_signs(found: Any, get: Callable[[float], Any]) -> Any:
    """Return the answer that may be behind signs of life, or the last of them: after a sign the
    library looks at the time, and not whether there is more.
    """
    end = clock.steady() + _READING
    with contextlib.suppress(oslo_messaging.MessagingTimeout):
        while not any(found.get(key) for key in ("ending", "failure", "result")):
            found = get(max(0.0, end - clock.steady()))
    return found


def of_broker(why: Exception) -> bool:
    """Say whether an exception of oslo.messaging means that the broker is away.

    A connection cut while it is set up comes out of the broker's library as a plain OSError.
    """
    library = type(why).__module__.partition(".")[0]
    lost = isinstance(why, oslo_messaging.MessageDeliveryFailure | OSError)
    return lost or library in _BROKER_LIBRARIES


def forget(transport: Any, host: str) -> None:
    """Drop the messages that lie at a broker for a conductor which is about to listen.

    They were sent to an earlier life of it. Whoever waits for an answer hears nothing for two
    seconds and gives up, and may have asked another by now: it must not be done a second time, nor
    when nobody expects it any more. A broker that is away is waited for.
    """
    if is_local(transport):
        return  # nothing lies there
    queue = f"{interface.TOPIC}.{host}"
    # Neither the driver nor its connections have public names.
    with transport._driver._get_connection(common.PURPOSE_LISTEN) as opened:
        connection = opened.connection

        def purge() -> None:
            try:
                dropped = connection.channel.queue_purge(queue)
            except Exception as why:
                if getattr(why, "code", None) not in _NO_QUEUE:
                    raise
                return
            if dropped:
                LOG.warning("Dropped %d calls to an earlier life of conductor %s", dropped, host)

        connection.ensure(purge)


def is_local(transport: Any) -> bool:
    """Say whether ``transport`` is ours: then the death of a server is seen without heartbeats."""
    # The driver has no public name; nothing but this function asks for it.
    return isinstance(transport._driver, LocalDriver)
