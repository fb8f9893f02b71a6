"""The address of the API: its socket, its certificate, its URL.

Apart from `server`, because this is asked before anything big is imported.
"""

from __future__ import annotations

import socket
import ssl

from oslo_config import cfg

from ironic_lite import config

BACKLOG = 1024
"""Connections that may wait to be accepted."""
# Connections have these from the socket that accepts them: one whose other end has vanished, in the
# middle of a request perhaps, is given up after a minute and a half.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


def listen(conf: cfg.ConfigOpts) -> socket.socket:
    """Return the socket of [api]host and port; nobody accepts yet.

    Whoever starts the processes of the API keeps it: while a process is away, its connections wait
    in the queue of the socket instead of being refused.

    :raises config.ConfigError: the address is taken, not ours, or not allowed to us.
    """
    host, port = conf.api.host, conf.api.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        # The address may be reused while old connections fade, but never shared with a listener.
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        why = error.strerror or error
        raise config.ConfigError(
            reason=f"[api]host, port: cannot listen on {host} port {port}: {why}"
        ) from None
    for level, option, value in _KEEPALIVE:
        listening.setsockopt(level, option, value)
    return listening


def check_tls(conf: cfg.ConfigOpts) -> None:
    """Make sure that certificate and key, if there are any, are good and belong together.

    :raises config.ConfigError: they do not.
    """
    certificate, key = conf.api.ssl_cert_file, conf.api.ssl_key_file
    if not certificate:
        return
    try:
        # Without the last argument, a password would be asked for on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise config.ConfigError(
            reason=f"[api]ssl_cert_file, ssl_key_file: {certificate} and {key} are not a PEM "
            f"certificate and its unencrypted key: {why}"
        ) from None


def url(conf: cfg.ConfigOpts, listening: socket.socket) -> str:
    """Return where the API listens."""
    host = f"[{conf.api.host}]" if ":" in conf.api.host else conf.api.host
    scheme = "https" if conf.api.ssl_cert_file else "http"
    return f"{scheme}://{host}:{listening.getsockname()[1]}"
