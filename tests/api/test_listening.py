"""Where the API listens: at a socket of its own, or at one that systemd keeps for it."""

from __future__ import annotations

import os
import pathlib
import socket
import struct
import types
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import config
from ironic_lite.api.traffic import listening

HOST = "127.0.0.1"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket as systemd hands it over: by its number, and two variables."""
    with socket.create_server((HOST, 0)) as made:
        monkeypatch.setattr(listening, "_FIRST_HANDED", os.dup(made.fileno()))
        monkeypatch.setenv("LISTEN_FDS", "1")
        monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
        yield made


def conf(port: int, host: str = HOST) -> Any:
    return types.SimpleNamespace(api=types.SimpleNamespace(host=host, port=port))


def test_the_socket_of_systemd_is_taken_once(kept: socket.socket) -> None:
    port = kept.getsockname()[1]
    with listening.listen(conf(port)) as door:
        assert isinstance(door, listening.Handed)
        assert door.getsockname() == kept.getsockname()
        assert not door.get_inheritable()
        assert "LISTEN_FDS" not in os.environ, "children have sockets of their own"
        with pytest.raises(config.ConfigError, match="Address already in use"):
            listening.listen(conf(port))


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_socket_elsewhere_or_one_of_many_is_refused(
    kept: socket.socket, monkeypatch: pytest.MonkeyPatch, count: str
) -> None:
    monkeypatch.setenv("LISTEN_FDS", count)
    port = kept.getsockname()[1] + (count == "1")
    with pytest.raises(config.ConfigError, match=f"ListenStream={HOST}:{port}"):
        listening.listen(conf(port))


def test_what_was_for_another_process_is_not_taken(
    kept: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTEN_PID", "1")
    with listening.listen(conf(0)) as door:
        assert not isinstance(door, listening.Handed)


def test_as_many_connections_may_wait_as_the_kernel_allows() -> None:
    with listening.listen(conf(0)) as door:
        told = door.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    (longest,) = struct.unpack_from("=I", told, 28)  # of a listener, tcpi_sacked is that
    assert longest == int(pathlib.Path("/proc/sys/net/core/somaxconn").read_text("ascii"))
