"""The way on which connections break does to them what it is told to, and nothing else."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.chaos import proxy
from tests.support.ports import HOST

SECONDS = 20.0


class Echo:
    """A server that says what it hears, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.socket = socket.create_server((HOST, 0))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(4096):
                self.heard += data
                connection.sendall(data)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    # To close it alone leaves the thread in accept().
    with contextlib.suppress(OSError):
        server.socket.shutdown(socket.SHUT_RDWR)
    server.socket.close()
    server.thread.join()


@pytest.fixture
def way(echo: Echo) -> Iterator[proxy.Proxy]:
    with proxy.before(echo.socket.getsockname()[1]) as found:
        yield found


@pytest.fixture
def line(way: proxy.Proxy) -> Iterator[socket.socket]:
    with socket.create_connection((HOST, way.port), SECONDS) as found:
        yield found


def said(line: socket.socket, text: bytes) -> bytes:
    """Say something and return the answer, nothing if the line is cut."""
    with contextlib.suppress(ConnectionResetError):
        line.sendall(text)
        return line.recv(4096)
    return b""


def test_proxy_passes_data_until_it_is_cut(way: proxy.Proxy, line: socket.socket) -> None:
    assert said(line, b"SELECT") == b"SELECT"
    assert said(line, b"COMMIT") == b"COMMIT"
    assert way.cut() == 1
    assert said(line, b"SELECT") == b""
    with socket.create_connection((HOST, way.port), SECONDS) as other:
        assert said(other, b"SELECT") == b"SELECT"


def test_a_stalled_way_keeps_what_is_said(way: proxy.Proxy, line: socket.socket) -> None:
    assert said(line, b"BEGIN") == b"BEGIN"
    with way.stalled():
        line.sendall(b"SELECT")
        line.settimeout(0.2)
        with pytest.raises(TimeoutError):
            line.recv(4096)
    line.settimeout(SECONDS)
    assert line.recv(4096) == b"SELECT"


@pytest.mark.parametrize(("done", "heard"), [(True, b"UPDATE;COMMIT"), (False, b"UPDATE;")])
def test_a_commit_is_lost_before_or_behind_it(
    way: proxy.Proxy, line: socket.socket, echo: Echo, done: bool, heard: bytes
) -> None:
    way.lose_commits(1, done=done)
    assert said(line, b"UPDATE;") == b"UPDATE;"
    assert said(line, b"COMMIT") == b""
    assert echo.heard == heard
    assert way.commits_lost == 1
    with socket.create_connection((HOST, way.port), SECONDS) as other:
        assert said(other, b"COMMIT") == b"COMMIT"


def test_a_server_that_is_not_there_is_a_line_that_is_cut(
    way: proxy.Proxy, echo: Echo, line: socket.socket
) -> None:
    echo.socket.shutdown(socket.SHUT_RDWR)  # a thread that waits in accept() keeps it open
    echo.socket.close()
    with socket.create_connection((HOST, way.port), SECONDS) as other:
        assert said(other, b"SELECT") == b""
