"""The address of the API: free, or somebody else's."""

from __future__ import annotations

import socket
import types
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.api.traffic import listen_socket

HOST = "127.0.0.1"


def taken(settings: Any) -> listen_socket.Address:
    with listen_socket.reserve(settings) as keeper:
        return listen_socket.address(keeper)


def conf(port: int, host: str = HOST) -> Any:
    return types.SimpleNamespace(api=types.SimpleNamespace(host=host, port=port))


def shared(host: str, family: socket.AddressFamily, port: int = 0) -> socket.socket:
    """Return a listener as granian opens it."""
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, port))
    made.listen()
    return made


@pytest.mark.parametrize(
    ("host", "family"), [(HOST, socket.AF_INET), ("::1", socket.AF_INET6)], ids=["IPv4", "IPv6"]
)
def test_a_listener_that_shares_its_port_is_found(host: str, family: socket.AddressFamily) -> None:
    with shared(host, family) as other:
        port = other.getsockname()[1]
        with pytest.raises(errors.OpenError, match="already in use; stop the other program, or"):
            taken(conf(port, host))
    assert taken(conf(port, host)) == (host, port)


def test_old_connections_do_not_keep_an_address() -> None:
    with shared(HOST, socket.AF_INET) as other:
        port = other.getsockname()[1]
        client = socket.create_connection((HOST, port))
        server, _ = other.accept()
        server.close()  # ours ends first: the port stays in TIME_WAIT
        client.recv(1)
        client.close()
    assert taken(conf(port)) == (HOST, port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(errors.OpenError, match=r"cannot listen on 192\.0\.2\.1"):
        taken(conf(0, "192.0.2.1"))


def test_a_name_and_port_0_are_resolved() -> None:
    host, port = taken(conf(0, "localhost"))
    assert host in {HOST, "::1"}
    assert port > 0


@pytest.mark.parametrize(
    ("host", "family"), [(HOST, socket.AF_INET), ("::1", socket.AF_INET6)], ids=["IPv4", "IPv6"]
)
def test_an_address_is_kept_before_anything_listens_there(
    host: str, family: socket.AddressFamily
) -> None:
    with listen_socket.reserve(conf(0, host)) as keeper:
        port = listen_socket.address(keeper)[1]
        for _ in range(2):
            with pytest.raises(errors.OpenError, match="Address already in use"):
                listen_socket.reserve(conf(port, host))
            with shared(host, family, port):  # our own processes come and go
                with pytest.raises(errors.OpenError, match="Address already in use"):
                    listen_socket.reserve(conf(port, host))
                socket.create_connection((host, port)).close()
