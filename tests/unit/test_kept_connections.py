"""Connections that are kept between two exchanges: what is sent again, and what never is."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import http.client
import pathlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from ironic_lite.core import bounded_http
from tests.emulators import redfish

LIMITS = bounded_http.Limits(connect=30, whole=30, size=1_000_000)
SECONDS = 60.0  # more than any test takes


class Server:
    """A server that answers requests, and closes as it is told.

    :ivar requests: (number of the connection, method) of each request.
    :ivar most: answers on one connection, after which it is closed without a word.
    :ivar unread: from this request on, it closes without an answer, after ``seconds`` and
        ``last_words``.
    :ivar excess: sent after each answer.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[int, str]] = []
        self.most, self.unread, self.excess = 1000, 1000, b""
        self.status, self.head, self.body = b"200 OK", b"", b"{}"
        self.seconds, self.last_words = 0.0, b""
        self.open: list[socket.socket] = []
        self.connections = 0
        self.tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                args = (client, self.connections)
                threading.Thread(target=self._serve, args=args, daemon=True).start()

    def _serve(self, client: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            opened.enter_context(client)
            if self.tls is not None:
                client = opened.enter_context(self.tls.wrap_socket(client, server_side=True))
            self.open.append(client)
            for _ in range(self.most):
                head = b""
                while b"\r\n\r\n" not in head:
                    part = client.recv(4096)
                    if not part:
                        return
                    head += part
                self.requests.append((number, head.split()[0].decode()))
                if len(self.requests) >= self.unread:
                    time.sleep(self.seconds)
                    client.sendall(self.last_words)
                    return
                length = f"Content-Length: {len(self.body)}\r\n".encode()
                head = b"HTTP/1.1 " + self.status + b"\r\n" + length + self.head
                client.sendall(head + b"\r\n" + self.body + self.excess)

    def close(self) -> None:
        """Accept no more, and end all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def server() -> Iterator[Server]:
    with contextlib.closing(Server()) as found:
        yield found


@pytest.fixture
def kept() -> Iterator[bounded_http.IdleConnections]:
    with contextlib.closing(bounded_http.IdleConnections(SECONDS)) as found:
        yield found


def ask(
    kept: bounded_http.IdleConnections,
    port: int,
    method: str = "GET",
    *,
    key: object = "bmc",
    tls: ssl.SSLContext | None = None,
    before: Callable[[], None] = lambda: None,
    limits: bounded_http.Limits = LIMITS,
) -> bytes:
    fresh = bounded_http.Connection("127.0.0.1", port, limits=limits, tls=tls)
    request = bounded_http.HttpRequest(method, "/", {})
    with bounded_http.AnswerMemory(100_000, 30) as memory:
        answer = kept.exchange(key, fresh, request, before=before, memory=memory)
    return answer.content


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


def ends(server: Server, count: int) -> None:
    """Wait until this side has the end of all connections."""
    until(lambda: _states(server).count("CLOSE_WAIT") == count)


def descriptors(server: Server) -> int:
    """Return the connections of this process to a server, as the system counts them."""
    return len(_states(server))


def _states(server: Server) -> list[str]:
    found = psutil.Process().net_connections("tcp")
    return [str(one.status) for one in found if one.raddr and one.raddr[1] == server.port]


def test_requests_share_a_connection_once_it_is_proven(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    for method in ("GET", "GET", "POST", "PATCH", "GET", "DELETE"):
        assert ask(kept, server.port, method) == b"{}"
    assert {number for number, _ in server.requests} == {1}


def test_change_gets_its_own_connection_where_none_has_been_used_twice(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    for method in ("GET", "POST", "GET", "POST"):
        ask(kept, server.port, method)
    assert server.requests == [(1, "GET"), (2, "POST"), (2, "GET"), (2, "POST")]
    until(lambda: descriptors(server) == 1)


def test_no_key_keeps_nothing(server: Server, kept: bounded_http.IdleConnections) -> None:
    for _ in range(3):
        ask(kept, server.port, key=None)
    assert server.connections == 3
    assert descriptors(server) == 0


@pytest.mark.parametrize("head", [b"Connection: close\r\n", b"connection: CLOSE\r\n"])
def test_announced_end_is_respected(
    server: Server, kept: bounded_http.IdleConnections, head: bytes
) -> None:
    server.head = head
    for method in ("GET", "GET", "POST"):
        ask(kept, server.port, method)
    assert server.connections == 3


def test_server_that_closes_after_each_answer_loses_no_change(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    """Also if its end comes only after the next request was sent."""
    server.most = 1
    for _ in range(50):
        for method in ("GET", "POST"):
            assert ask(kept, server.port, method) == b"{}"
    assert [method for _, method in server.requests].count("POST") == 50


def test_get_on_an_ended_connection_is_sent_on_a_new_one(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    ask(kept, server.port)
    server.unread = 2
    with pytest.raises(ConnectionError):
        ask(kept, server.port)
    # The kept connection, and a new one: not a third time.
    assert server.requests == [(1, "GET"), (1, "GET"), (2, "GET")]
    server.unread = 1000
    assert ask(kept, server.port) == b"{}"


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_change_that_was_sent_is_never_sent_again(
    server: Server, kept: bounded_http.IdleConnections, method: str
) -> None:
    for _ in range(2):
        ask(kept, server.port)
    server.unread = 3
    with pytest.raises(ConnectionError):
        ask(kept, server.port, method)
    assert server.requests == [(1, "GET"), (1, "GET"), (1, method)]
    assert descriptors(server) == 0


def test_change_uses_no_connection_that_has_ended(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    for _ in range(2):
        ask(kept, server.port)
    server.open[0].shutdown(socket.SHUT_WR)  # half-closed: it would still read
    ends(server, 1)
    ask(kept, server.port, "POST")
    assert server.requests[-1] == (2, "POST")


def test_change_uses_no_connection_that_was_unused_for_a_second(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    for _ in range(2):
        ask(kept, server.port)
    time.sleep(1.1)
    ask(kept, server.port, "POST")
    assert server.requests[-1] == (2, "POST")
    assert descriptors(server) == 1


def test_bytes_beyond_an_answer_end_a_connection(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    for _ in range(2):
        ask(kept, server.port)
    server.open[0].sendall(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
    server.open[0].shutdown(socket.SHUT_WR)  # its end comes after the bytes
    ends(server, 1)
    assert ask(kept, server.port, "POST") == b"{}"
    assert server.requests[-1] == (2, "POST")


def test_refusal_before_a_request_sends_nothing(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    for _ in range(2):
        ask(kept, server.port)

    def refuse() -> None:
        raise InterruptedError

    for method in ("GET", "POST"):
        with pytest.raises(InterruptedError):
            ask(kept, server.port, method, before=refuse)
    assert len(server.requests) == 2
    assert descriptors(server) == 0


def test_unused_connection_is_closed(server: Server) -> None:
    kept = bounded_http.IdleConnections(0.2)
    for key in range(5):
        ask(kept, server.port, key=key)
    assert descriptors(server) == 5
    until(lambda: descriptors(server) == 0)
    ask(kept, server.port)  # the thread that closes starts again
    until(lambda: descriptors(server) == 0)


def test_threads_with_one_key_have_connections_of_their_own(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    met = threading.Barrier(2, timeout=60)

    def meet() -> None:
        met.wait()

    first = threading.Thread(target=ask, args=(kept, server.port), kwargs={"before": meet})
    first.start()
    ask(kept, server.port, before=meet)
    first.join()
    assert server.connections == 2
    until(lambda: descriptors(server) == 1)


def test_other_certificate_counts_for_new_connections_alone(
    tmp_path: pathlib.Path, kept: bounded_http.IdleConnections
) -> None:
    certificate, key = redfish.certificate(tmp_path)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate, key)
    pinned = bounded_http.pinned_tls_context(certificate.read_text())
    other = tmp_path / "other"
    other.mkdir()
    with contextlib.closing(Server(own)) as server:
        for method in ("GET", "GET", "POST"):
            assert ask(kept, server.port, method, tls=pinned) == b"{}"
        assert server.connections == 1
        server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.tls.load_cert_chain(*redfish.certificate(other))
        server.open[0].shutdown(socket.SHUT_RDWR)
        ends(server, 1)
        for method in ("GET", "POST"):
            with pytest.raises(ssl.SSLCertVerificationError):
                ask(kept, server.port, method, tls=pinned)
        assert len(server.requests) == 3


# -- bounds ---------------------------------------------------------------------------------------


def test_most_connections_are_bounded(
    server: Server, kept: bounded_http.IdleConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "_MOST_KEPT", 3)
    for key in range(8):
        ask(kept, server.port, key=key)
    assert descriptors(server) == 3
    ask(kept, server.port, key=5)
    assert server.connections == 8  # those of the last three keys are left
    ask(kept, server.port, key=4)
    assert (server.connections, descriptors(server)) == (9, 3)


def test_dropped_connection_is_closed(server: Server, kept: bounded_http.IdleConnections) -> None:
    ask(kept, server.port, key="other")
    ask(kept, server.port)
    for _ in range(2):
        kept.drop("bmc")
        assert descriptors(server) == 1


def test_later_limits_count_for_a_kept_connection(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    ask(kept, server.port)
    server.unread, server.seconds = 2, 30.0
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        ask(kept, server.port, limits=dataclasses.replace(LIMITS, head=0.2))
    assert time.monotonic() - begun < 20


# -- ends that are noticed late -------------------------------------------------------------------


def test_change_uses_no_connection_that_ended_while_it_waited(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    for _ in range(2):
        ask(kept, server.port)

    waits = [lambda: server.open[0].shutdown(socket.SHUT_WR), lambda: None]

    def wait() -> None:
        waits.pop(0)()
        if len(waits) == 1:
            ends(server, 1)

    ask(kept, server.port, "POST", before=wait)
    assert waits == []
    assert server.requests[-1] == (2, "POST")


def test_change_uses_no_connection_that_grew_old_while_it_waited(
    server: Server, kept: bounded_http.IdleConnections
) -> None:
    for _ in range(2):
        ask(kept, server.port)
    ask(kept, server.port, "POST", before=lambda: time.sleep(1.1))
    assert server.requests[-1] == (2, "POST")


@pytest.mark.parametrize(("seconds", "words"), [(1.2, b""), (0.0, b"HTTP/1.1 2")])
def test_get_that_may_have_been_worked_on_is_not_sent_again(
    server: Server, kept: bounded_http.IdleConnections, seconds: float, words: bytes
) -> None:
    ask(kept, server.port)
    server.unread, server.seconds, server.last_words = 2, seconds, words
    with pytest.raises(http.client.BadStatusLine):
        ask(kept, server.port)
    assert server.requests == [(1, "GET"), (1, "GET")]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_no_http_is_named_as_on_a_new_connection(
    server: Server, kept: bounded_http.IdleConnections, method: str
) -> None:
    for _ in range(2):
        ask(kept, server.port)
    server.unread, server.last_words = 3, b"220 ready\r\n"
    with pytest.raises(http.client.BadStatusLine) as caught:
        ask(kept, server.port, method)
    assert not isinstance(caught.value, ConnectionError)
    assert server.requests == [(1, "GET"), (1, "GET"), (1, method)]


def test_server_that_acknowledges_nothing_is_noticed_after_the_time_to_connect(
    server: Server, kept: bounded_http.IdleConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []

    def lose(sock: socket.socket, *_: object) -> None:
        found.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    for method in ("GET", "POST"):
        for _ in range(2):
            ask(kept, server.port)
        with monkeypatch.context() as patch:
            patch.setattr("ironic_lite.core.bounded_http._Socket.recv_into", lose)
            patch.setattr(bounded_http, "_END_SECONDS", 0.0)
            with pytest.raises(http.client.RemoteDisconnected):
                ask(kept, server.port, method)
    assert found == [30_000, 0]


# -- TLS, and answers that belong to no request ---------------------------------------------------


@pytest.fixture
def secure(tmp_path: pathlib.Path) -> Iterator[tuple[Server, ssl.SSLContext]]:
    """A server with TLS, and the settings that trust it."""
    certificate, key = redfish.certificate(tmp_path)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate, key)
    with contextlib.closing(Server(own)) as server:
        yield server, bounded_http.pinned_tls_context(certificate.read_text())


def test_change_over_tls_does_not_take_a_stray_answer(
    secure: tuple[Server, ssl.SSLContext], kept: bounded_http.IdleConnections
) -> None:
    server, tls = secure
    server.body = b" " * 20_000
    ask(kept, server.port, tls=tls)
    server.excess = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"
    ask(kept, server.port, tls=tls)
    server.body, server.excess = b"{}", b""
    assert ask(kept, server.port, "POST", tls=tls) == b"{}"
    assert server.requests[-1] == (2, "POST")


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_answer_with_a_forbidden_body_ends_a_connection(
    server: Server, kept: bounded_http.IdleConnections, status: bytes
) -> None:
    server.status = status
    for _ in range(2):
        ask(kept, server.port)
    assert server.connections == 2
    server.body = b""
    for _ in range(2):
        ask(kept, server.port)
    assert server.connections == 3


def test_change_lost_on_an_ended_tls_connection_is_a_hang_up(
    secure: tuple[Server, ssl.SSLContext],
    kept: bounded_http.IdleConnections,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, tls = secure
    for _ in range(2):
        ask(kept, server.port, tls=tls)

    def end(*_: object) -> int:
        raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol")

    monkeypatch.setattr("ironic_lite.core.bounded_http._TlsSocket.send", end)
    with pytest.raises(http.client.RemoteDisconnected) as caught:
        ask(kept, server.port, "POST", tls=tls)
    assert caught.value.__context__ is None
    assert descriptors(server) == 0
