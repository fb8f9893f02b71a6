"""Open-loop client: it sends requests at a fixed rate, even if the server is slower.

The lag of a request counts from its due time, including the wait for a free connection, so a slow
server does not get fewer requests.
"""

from __future__ import annotations

import dataclasses
import heapq
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import harness
from benchmarks.figures import quantile

CONNECTIONS = 128
"""Most connections; the server closes those that are idle for long."""
LONGEST = 120.0
"""Seconds after which requests that are still refused end a benchmark."""
REFUSALS = (409, 503)
"""Statuses of requests that are to be sent again."""
_RETRY_AFTER = 1.0  # seconds
_END = b"\r\n\r\n"


@dataclasses.dataclass(slots=True)
class Outcome:
    """Results of all requests.

    :ivar lags: of the accepted ones, in seconds since their first due time.
    :ivar refused: the number of refusals.
    """

    lags: list[float] = dataclasses.field(default_factory=list)
    refused: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Return the number of accepted requests a second."""
        return len(self.lags) / self.seconds

    def within(self, seconds: float) -> float:
        """Return the percentage that was accepted within so many seconds."""
        return 100 * sum(lag <= seconds for lag in self.lags) / len(self.lags)

    def lag(self, share: float) -> float:
        """Return the lag in milliseconds that a share (0 to 1) does not exceed."""
        return quantile(self.lags, share) * 1000


class _Connection:
    """A connection and its current request."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((harness.HOST, port), timeout=harness.PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due, self.request, self._received = 0.0, b"", b""
        self.body = b""
        self.busy = False
        self.closing = False
        """Whether the server closes the connection after this response."""

    def send(self, due: float, request: bytes) -> None:
        self.due, self.request, self._received = due, request, b""
        self.busy = True
        self.socket.sendall(request)

    def receive(self) -> int | None:
        """Return the status once the response is complete.

        :raises ConnectionError: the server has closed the connection.
        """
        received = self.socket.recv(1 << 16)
        if not received:
            raise ConnectionError("the server has closed the connection")
        self._received += received
        head, end, body = self._received.partition(_END)
        if not end:
            return None
        lines = head.lower().split(b"\r\n")
        lengths = (int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        length = next(lengths, 0)
        self.body, self.closing = body, b"connection: close" in lines
        self.busy = len(body) < length
        return None if self.busy else int(head.split(b" ", 2)[1])


class _Load:
    def __init__(self, port: int, requests: Sequence[bytes], rate: float) -> None:
        start = time.perf_counter() + 0.1
        self.outcome = Outcome()
        self._left = len(requests)
        # (time to send, first due time, request)
        self._queue = [(start + n / rate, start + n / rate, r) for n, r in enumerate(requests)]
        self._end = self._queue[-1][0] + LONGEST
        self._port = port
        self._idle: list[_Connection] = []
        self._selector = selectors.DefaultSelector()

    def _free(self) -> bool:
        """Return whether a connection can send; open one if there are fewer than the most."""
        if not self._idle and len(self._selector.get_map()) < CONNECTIONS:
            connection = _Connection(self._port)
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            self._idle.append(connection)
        return bool(self._idle)

    def _close(self, connection: _Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def _lose(self, connection: _Connection) -> None:
        """Remove a connection that the server has closed, and send its request again."""
        self._close(connection)
        if connection.busy:
            self._refuse(connection, delay=0.0)
        else:
            self._idle.remove(connection)

    def _refuse(self, connection: _Connection, *, delay: float) -> None:
        self.outcome.refused += 1
        at = time.perf_counter() + delay
        heapq.heappush(self._queue, (at, connection.due, connection.request))

    def run(self) -> Outcome:
        begin = time.perf_counter()
        while self._left:
            if time.perf_counter() > self._end:
                raise RuntimeError(f"{self._left} requests not accepted within {LONGEST:g} s")
            self._send()
            for connection, status in self._responses():
                self._record(connection, status)
        self.outcome.seconds = time.perf_counter() - begin
        return self.outcome

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.data.socket.close()
        self._selector.close()

    def _send(self) -> None:
        now = time.perf_counter()
        while self._queue and self._queue[0][0] <= now and self._free():
            _, due, request = heapq.heappop(self._queue)
            connection = self._idle.pop()
            try:
                connection.send(due, request)
            except ConnectionError:
                self._lose(connection)

    def _responses(self) -> Iterator[tuple[_Connection, int]]:
        full = not self._idle and len(self._selector.get_map()) == CONNECTIONS
        wait = 1.0 if full or not self._queue else self._queue[0][0] - time.perf_counter()
        for key, _ in self._selector.select(max(0.0, wait)):
            connection: Any = key.data
            try:
                status = connection.receive()
            except ConnectionError:
                self._lose(connection)
                continue
            if status is not None:
                yield connection, status

    def _record(self, connection: _Connection, status: int) -> None:
        now = time.perf_counter()
        if status in REFUSALS:
            self._refuse(connection, delay=_RETRY_AFTER)
        elif status == 202:
            self.outcome.lags.append(now - connection.due)
            self._left -= 1
        else:
            raise RuntimeError(f"status {status}: {connection.body[:500]!r}")
        if connection.closing:
            self._close(connection)
        else:
            self._idle.append(connection)


def send(port: int, requests: Sequence[bytes], rate: float) -> Outcome:
    """Send requests at a rate until each is accepted; refused ones are sent again after a second.

    :param rate: requests a second.
    :raises RuntimeError: a response was neither 202 nor one of `REFUSALS`, or requests are refused
        for too long.
    """
    load = _Load(port, requests, rate)
    try:
        return load.run()
    finally:
        load.close()
