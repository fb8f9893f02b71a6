"""The address of the API: its reservation, its certificate, its URL.

Separate from `server`, because callers need it before they import large modules.
"""

from __future__ import annotations

import errno
import socket
import ssl

from ironic_lite import errors
from ironic_lite.core import certificate_files, config
from ironic_lite.core.options import Configuration

CERTIFICATE = "[api]ssl_cert_file"
"""The name of the API's certificate in logs, checks and metrics."""
Address = tuple[str, int]
"""An IP address and a port."""
MOST_WAITING = 2**31 - 1
"""Backlog of connections; listen(2) reduces it to net.core.somaxconn."""


def reserve(conf: Configuration) -> socket.socket:
    """Reserve the address of [api]host and port; return the socket that holds it.

    Each process of the API opens its own socket there with SO_REUSEPORT, so that they share the
    address. A second service of the same user could do that too and take part of the connections.
    Therefore this socket, which never listens, is bound first and alone. It sets SO_REUSEPORT only
    when it has the address. From then on a second service fails to bind, also while no process
    listens.

    :raises errors.OpenError: the address is in use, not of this machine, or not permitted.
    """
    host, port = conf.api.host, conf.api.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        keeper = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Ignores closing connections; another bound socket still counts as in use.
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            keeper.bind(address)
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError:
            keeper.close()
            raise
    except OSError as error:
        why = error.strerror or error
        taken = error.errno == errno.EADDRINUSE
        advice = "; stop the other program, or choose another port" if taken else ""
        raise errors.OpenError(
            reason=f"[api]host, port: cannot listen on {host} port {port}: {why}{advice}"
        ) from None
    return keeper


def address(keeper: socket.socket) -> Address:
    """Return the address that `reserve` has bound."""
    host, port, *_ = keeper.getsockname()
    return str(host), int(port)


def check_tls(conf: Configuration) -> None:
    """Check that certificate and key, if configured, are valid and belong together.

    :raises config.ConfigError: they are not usable.
    """
    pair = certificate(conf)
    if pair is None:
        return
    try:
        certificate_files.load_pair(
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair.certificate, pair.key
        )
    except ValueError as why:
        own = pair.certificate == conf.api.ssl_cert_file
        options = "ssl_cert_file, ssl_key_file" if own else "cert_file, key_file"
        raise config.ConfigError(reason=f"[api]{options}: {why}") from None


def certificate(conf: Configuration) -> certificate_files.Pair | None:
    """Return the files of the API's certificate and key, None without TLS."""
    pair = config.api_certificate(conf)
    return None if pair is None else certificate_files.Pair(CERTIFICATE, *pair)


def url(conf: Configuration, address: Address) -> str:
    """Return the URL at which the API listens."""
    host = f"[{conf.api.host}]" if ":" in conf.api.host else conf.api.host
    scheme = "http" if config.api_certificate(conf) is None else "https"
    return f"{scheme}://{host}:{address[1]}"
