"""Client that offers requests at a fixed rate, whether the server keeps up or not.

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

CONNECTIONS = 128
_AGAIN = 1.0  # seconds until a refused request comes again
_REFUSED = (409, 503)
_END = b"\r\n\r\n"


@dataclasses.dataclass(slots=True)
class Outcome:
    """Results of all requests: ``lags`` of the accepted ones, in seconds since their first due
    time; ``refused`` counts answers.
    """

    lags: list[float] = dataclasses.field(default_factory=list)
    refused: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Return the number of accepted requests a second."""
        return len(self.lags) / self.seconds

    def within(self, seconds: float) -> float:
        """Return the share, in percent, that was taken within so many seconds."""
        return 100 * sum(lag <= seconds for lag in self.lags) / len(self.lags)

    def lag(self, share: float) -> float:
        """Return the lag in milliseconds that a share (0 to 1) does not exceed."""
        return sorted(self.lags)[min(len(self.lags) - 1, int(share * len(self.lags)))] * 1000


class _Line:
    """One connection and the request under way on it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((harness.HOST, port), timeout=harness.PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due, self.request, self._got = 0.0, b"", b""
        self.body = b""
        self.last = False
        """Whether the server closes the connection after this answer."""

    def send(self, due: float, request: bytes) -> None:
        self.due, self.request, self._got = due, request, b""
        self.socket.sendall(request)

    def receive(self) -> int | None:
        """Return the status once the answer is here; its body is left out."""
        got = self.socket.recv(1 << 16)
        if not got:
            raise ConnectionError("the server has closed the connection")
        self._got += got
        head, end, body = self._got.partition(_END)
        if not end:
            return None
        names = head.lower().split(b"\r\n")
        lengths = (int(line[15:]) for line in names if line.startswith(b"content-length:"))
        wanted = next(lengths, 0)
        self.body, self.last = body, b"connection: close" in names
        return int(head.split(b" ", 2)[1]) if len(body) >= wanted else None


class _Offer:
    def __init__(self, port: int, requests: Sequence[bytes], rate: float) -> None:
        start = time.perf_counter() + 0.1
        self.outcome = Outcome()
        self.left = len(requests)
        # (when to send, due at first, request)
        self._to_come = [(start + n / rate, start + n / rate, r) for n, r in enumerate(requests)]
        self._port = port
        self._idle: collections.deque[_Line] = collections.deque()
        self._selector = selectors.DefaultSelector()
        for _ in range(CONNECTIONS):
            self._connect()

    def _connect(self) -> None:
        line = _Line(self._port)
        self._selector.register(line.socket, selectors.EVENT_READ, line)
        self._idle.append(line)

    def run(self) -> Outcome:
        begin = time.perf_counter()
        while self.left:
            self._send()
            for line, status in self._answers():
                self._take(line, status)
        self.outcome.seconds = time.perf_counter() - begin
        return self.outcome

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.data.socket.close()
        self._selector.close()

    def _send(self) -> None:
        now = time.perf_counter()
        while self._idle and self._to_come and self._to_come[0][0] <= now:
            _, due, request = heapq.heappop(self._to_come)
            self._idle.pop().send(due, request)

    def _answers(self) -> Iterator[tuple[_Line, int]]:
        wait = self._to_come[0][0] - time.perf_counter() if self._to_come and self._idle else 1.0
        for key, _ in self._selector.select(max(0.0, wait)):
            line: Any = key.data
            status = line.receive()
            if status is not None:
                yield line, status

    def _take(self, line: _Line, status: int) -> None:
        now = time.perf_counter()
        if status in _REFUSED:
            self.outcome.refused += 1
            heapq.heappush(self._to_come, (now + _AGAIN, line.due, line.request))
        elif status == 202:
            self.outcome.lags.append(now - line.due)
            self.left -= 1
        else:
            raise RuntimeError(f"status {status}: {line.body[:500]!r}")
        if line.last:
            self._selector.unregister(line.socket)
            line.socket.close()
            self._connect()
        else:
            self._idle.append(line)


def offer(port: int, requests: Sequence[bytes], rate: float) -> Outcome:
    """Send requests at a rate until each was taken; what is refused comes again a second later.

    :param rate: requests a second.
    :raises RuntimeError: an answer was neither 202 nor a refusal for now.
    """
    under_way = _Offer(port, requests, rate)
    try:
        return under_way.run()
    finally:
        under_way.close()
