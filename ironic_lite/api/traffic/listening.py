"""The address of the API: its socket, its certificate, its URL.

Apart from `server`, because this is asked before anything big is imported.

The socket may come from systemd, which keeps it while the service is restarted: connections wait
meanwhile. That is sd_listen_fds(3): LISTEN_PID says for whom, LISTEN_FDS how many, from 3 on.
"""

from __future__ import annotations

import os
import socket
import ssl

from oslo_config import cfg

from ironic_lite import config

_FIRST_HANDED = 3  # SD_LISTEN_FDS_START
MOST_WAITING = 2**31 - 1
"""Of connections that wait to be accepted: listen(2) takes net.core.somaxconn for what is more."""
# Connections have these from the socket that accepts them: one whose other end has vanished, in the
# middle of a request perhaps, is given up after a minute and a half, and so is one whose other end
# does not take what it has asked for.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 90_000),
)


def listen(conf: cfg.ConfigOpts) -> socket.socket:
    """Return the socket of [api]host and port, be it one that was handed over; nobody accepts yet.

    Whoever starts the processes of the API keeps it: while a process is away, its connections wait
    in the queue of the socket instead of being refused.

    :raises config.ConfigError: the address is taken, not ours, or not allowed to us.
    """
    host, port = conf.api.host, conf.api.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        handed = _handed_over((str(address[0]), int(address[1])))
        # The address may be reused while old connections fade, but never shared with a listener.
        listening = handed or socket.create_server(address[:2], family=family, backlog=MOST_WAITING)
    except OSError as error:
        why = error.strerror or error
        raise config.ConfigError(
            reason=f"[api]host, port: cannot listen on {host} port {port}: {why}"
        ) from None
    for level, option, value in _KEEPALIVE:
        listening.setsockopt(level, option, value)
    return listening


class Handed(socket.socket):
    """A socket that systemd has opened for us, and keeps when we end."""


def _handed_over(wanted: tuple[str, int]) -> Handed | None:
    """Return the socket that systemd has opened for us, None if it has not.

    :param wanted: the address of the configuration, by which is judged who may reach us.
    :raises config.ConfigError: it is not one socket, which listens there.
    """
    count, pid = os.environ.pop("LISTEN_FDS", "0"), os.environ.pop("LISTEN_PID", "")
    if pid != str(os.getpid()) or count == "0":
        return None
    handed = Handed(fileno=_FIRST_HANDED)
    handed.set_inheritable(False)
    there = handed.getsockname()
    listens = handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if count != "1" or not listens or not isinstance(there, tuple) or there[:2] != wanted:
        reason = (
            f"{wanted[0]} port {wanted[1]}, but systemd opened {count} socket(s), first {there}"
        )
        handed.close()
        raise config.ConfigError(
            reason=f"[api]host, port: {reason}; write ListenStream={wanted[0]}:{wanted[1]}"
        )
    return handed


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
