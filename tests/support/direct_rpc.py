"""Certificates and a port for ``direct://`` between processes of this machine.

Conductors are called ``localhost``, ``localhost:2`` and so on, or 127.0.0.1, 127.0.0.2 and so on.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import ssl
from collections.abc import Iterator, Mapping

from ironic_lite.rpc.sockets import frames
from tests.support import certificates
from tests.support.ports import free_ports

SECONDS = 60.0
"""Longest wait for bytes."""
URL = "direct://"
PROCESSES = 10
"""Conductors of one address."""
HOSTS = ("localhost", "127.0.0.1", "127.0.0.2", "127.0.0.3")


def options(folder: pathlib.Path) -> dict[str, str]:
    """Write certificates into a folder; return the options of [direct]."""
    authority = certificates.Authority(folder)
    cert, key = authority.issue("machine", *HOSTS)
    return {
        "cert_file": str(cert),
        "key_file": str(key),
        "ca_file": str(authority.file),
        "port": str(free_ports(PROCESSES)),
    }


def host(number: int) -> str:
    """Return the name of one of several conductors; the first has the number 0."""
    return HOSTS[0] if number == 0 else f"{HOSTS[0]}:{number + 1}"


def settings(found: Mapping[str, str]) -> str:
    """Return a section of a configuration file."""
    return "[direct]\n" + "".join(f"{name} = {value}\n" for name, value in found.items())


def environment(found: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that set the options of every process."""
    return {f"OS_DIRECT__{name.upper()}": value for name, value in found.items()}


@contextlib.contextmanager
def plain(found: Mapping[str, str], number: int = 0) -> Iterator[socket.socket]:
    """Connect to a port of a machine's conductors without TLS."""
    address = ("localhost", int(found["port"]) + number)
    with socket.create_connection(address, timeout=SECONDS) as line:
        yield line


@contextlib.contextmanager
def connected(found: Mapping[str, str], host: str = "localhost") -> Iterator[ssl.SSLSocket]:
    """Connect to a conductor by the standard library, and receive its greeting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(found["ca_file"])
    context.load_cert_chain(found["cert_file"], found["key_file"])
    with plain(found) as sock, context.wrap_socket(sock, server_hostname=host) as line:
        (length,) = frames.HEADER.unpack(line.recv(frames.HEADER.size))
        assert json.loads(line.recv(length)) == {"server": host}
        yield line
