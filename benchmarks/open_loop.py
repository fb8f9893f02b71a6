"""Open-loop client: it sends requests at a fixed rate, even if the server is slower.

The lag of a request counts from its due time, including the wait for a free connection, so a slow
server does not get fewer requests.
"""

from __future__ import annotations

import collections
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
        self.closing = False
        """Whether the server closes the connection after this response."""

    def send(self, due: float, request: bytes) -> None:
        self.due, self.request, self._received = due, request, b""
        self.socket.sendall(request)

    def receive(self) -> int | None:
        """Return the status once the response is complete."""
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
        return int(head.split(b" ", 2)[1]) if len(body) >= length else None


class _Load:
    def __init__(self, port: int, requests: Sequence[bytes], rate: float) -> None:
        start = time.perf_counter() + 0.1
        self.outcome = Outcome()
        self._left = len(requests)
        # (time to send, first due time, request)
        self._queue = [(start + n / rate, start + n / rate, r) for n, r in enumerate(requests)]
        self._end = self._queue[-1][0] + LONGEST
        self._port = port
        self._idle: collections.deque[_Connection] = collections.deque()
        self._selector = selectors.DefaultSelector()
        for _ in range(CONNECTIONS):
            self._connect()

    def _connect(self) -> None:
        connection = _Connection(self._port)
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        self._idle.append(connection)

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
        while self._idle and self._queue and self._queue[0][0] <= now:
            _, due, request = heapq.heappop(self._queue)
            self._idle.pop().send(due, request)

    def _responses(self) -> Iterator[tuple[_Connection, int]]:
        wait = self._queue[0][0] - time.perf_counter() if self._queue and self._idle else 1.0
        for key, _ in self._selector.select(max(0.0, wait)):
            connection: Any = key.data
            status = connection.receive()
            if status is not None:
                yield connection, status

    def _record(self, connection: _Connection, status: int) -> None:
        now = time.perf_counter()
        if status in REFUSALS:
            self.outcome.refused += 1
            heapq.heappush(self._queue, (now + _RETRY_AFTER, connection.due, connection.request))
        elif status == 202:
            self.outcome.lags.append(now - connection.due)
            self._left -= 1
        else:
            raise RuntimeError(f"status {status}: {connection.body[:500]!r}")
        if connection.closing:
            self._selector.unregister(connection.socket)
            connection.socket.close()
            self._connect()
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
