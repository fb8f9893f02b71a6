"""The oslo.messaging transport of this process: unix sockets in the state path, or a broker.

`threads.native` must have been called before this module is imported for the first time, else
oslo.messaging loads eventlet.
"""

from __future__ import annotations

import contextlib
import functools
import socket
from typing import Any

import oslo_messaging

from ironic_lite import config, errors
from ironic_lite.rpc import failures, interface
from ironic_lite.rpc.local import LocalDriver

_AMQP_PORT = 5672
_CONNECT_SECONDS = 2

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
    parsed = _parsed(url)
    if parsed.transport == "local" and not (parsed.virtual_host or parsed.hosts):
        parsed.virtual_host = str(config.state_path().resolve() / "rpc").lstrip("/")
    try:
        return oslo_messaging.get_rpc_transport(
            config.CONF, url=parsed, allowed_remote_exmods=list(REMOTE_MODULES)
        )
    except (oslo_messaging.DriverLoadFailure, ModuleNotFoundError) as why:
        raise config.ConfigError(reason=f"[DEFAULT]transport_url: {why}") from None


def _parsed(url: str | None) -> oslo_messaging.TransportURL:
    try:
        # This registers the option transport_url, too.
        return oslo_messaging.TransportURL.parse(config.CONF, url or _configured())
    except oslo_messaging.InvalidTransportURL as why:
        raise config.ConfigError(reason=f"[DEFAULT]transport_url: {why}") from None
    except ValueError:
        # Its reason would show a part of the URL, which may be one of the password.
        raise config.ConfigError(
            reason="[DEFAULT]transport_url: not a URL such as rabbit://user:password@host:5672/vhost"
            "; write a / of the password as %2F and an @ of it as %40"
        ) from None


def _configured() -> str:
    oslo_messaging.TransportURL(config.CONF)
    config.CONF.set_default("transport_url", "local://")
    return str(config.CONF.transport_url)


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


def is_local(transport: Any) -> bool:
    """Say whether ``transport`` is ours: then the death of a server is seen without heartbeats."""
    # The driver has no public name; nothing but this function asks for it.
    return isinstance(transport._driver, LocalDriver)
