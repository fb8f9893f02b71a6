"""The address of the API: its reservation, its certificate, its URL.

Separate from `server`, because callers need it before they import large modules.
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import glob
import os
import pathlib
import socket
import ssl
from typing import BinaryIO, NamedTuple, Self

from ironic_lite import errors
from ironic_lite.core import certificate_files, config
from ironic_lite.core.options import Configuration

CERTIFICATE = "[api]ssl_cert_file"
"""The name of the API's certificate in logs, checks and metrics."""


class ListenAddress(NamedTuple):
    """An IP address and a port, or the path of a unix socket and port 0."""

    host: str
    port: int = 0

    @property
    def path(self) -> pathlib.Path | None:
        """The path of the unix socket; None for TCP."""
        return pathlib.Path(self.host) if self.host.startswith("/") else None


@dataclasses.dataclass(frozen=True)
class ReservedAddress:
    """An address that no second service can take while this object, or a copy of it, is open."""

    address: ListenAddress
    held: socket.socket | BinaryIO

    def close(self) -> None:
        """Give the address up in this process."""
        self.held.close()

    def remove(self) -> None:
        """Remove the unix socket, because no process listens there any more."""
        if self.address.path is not None:
            self.address.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


MOST_WAITING = 2**31 - 1
"""Backlog of connections; listen(2) reduces it to net.core.somaxconn."""


def reserve(conf: Configuration) -> ReservedAddress:
    """Reserve the address of [api]unix_socket, or of host and port.

    :raises errors.OpenError: the address is in use, not of this machine, or not permitted.
    """
    if conf.api.unix_socket:
        return _reserve_path(conf.api.unix_socket)
    return _reserve_port(conf.api.host, conf.api.port)


def _reserve_port(host: str, port: int) -> ReservedAddress:
    """Reserve an IP address and a port by a socket.

    Each process of the API opens its own socket there with SO_REUSEPORT, so that they share the
    address. A second service of the same user could do that too and take part of the connections.
    Therefore this socket, which never listens, is bound first and alone. It sets SO_REUSEPORT only
    when it has the address. From then on a second service fails to bind, also while no process
    listens.
    """
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
    bound, port, *_ = keeper.getsockname()
    return ReservedAddress(ListenAddress(str(bound), int(port)), keeper)


def _reserve_path(name: str) -> ReservedAddress:
    """Reserve the path of a unix socket by a lock on a file beside it.

    Each worker binds a name of its own there, and renames it: see `claimed`.
    """
    path = check_path(name)
    try:
        lock = path.with_name(f"{path.name}.lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise _path_error("another service listens there; stop it, or name another") from None
        for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
            if left.is_socket():  # of a worker that was killed
                left.unlink(missing_ok=True)
    except OSError as error:
        raise _path_error(f"cannot listen at {path}: {error.strerror}") from None
    return ReservedAddress(ListenAddress(str(path)), lock)


def check_path(name: str) -> pathlib.Path:
    """Check that a unix socket can be made at a path, which a running service may have taken.

    :raises errors.OpenError: its folder is missing or not writable, or another file is there.
    """
    path = pathlib.Path(name)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise _path_error(f"cannot make {path}: {path.parent} is no folder that can be written to")
    if path.exists() and not path.is_socket():
        raise _path_error(f"{path} exists and is not a socket; remove it, or name another path")
    return path


def _path_error(why: str) -> errors.OpenError:
    return errors.OpenError(reason=f"[api]unix_socket: {why}")


def claimed(path: pathlib.Path) -> pathlib.Path:
    """Return the name that this process binds before it renames the socket to ``path``.

    So a new process takes over without a connection being refused.
    """
    return path.with_name(f".{path.name}.{os.getpid()}")


def publish(path: pathlib.Path, mode: int) -> None:
    """Give the socket that this process has bound its mode and its name."""
    own = claimed(path)
    own.chmod(mode)
    own.rename(path)


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


def url(conf: Configuration, address: ListenAddress) -> str:
    """Return the URL at which the API listens, or ``unix:`` and a path."""
    if address.path is not None:
        return f"unix:{address.path}"
    host = f"[{conf.api.host}]" if ":" in conf.api.host else conf.api.host
    scheme = "http" if config.api_certificate(conf) is None else "https"
    return f"{scheme}://{host}:{address[1]}"
