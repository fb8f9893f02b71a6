"""Answers of HTTP with one deadline and one size for the whole of each: of BMCs and of agents."""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Callable
from typing import Any

from ironic_lite.drivers import patience


class _Reader(io.RawIOBase):
    """Reads an answer; a socket's own time-out starts anew with each byte, this one does not."""

    def __init__(self, sock: socket.socket, limit: int) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        timeout = sock.gettimeout()
        most = None if timeout is None else patience.within(timeout)
        self._deadline = None if most is None else time.monotonic() + most
        self._limit = limit
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the answer was not complete in time")
            self._sock.settimeout(left)
        count = self._raw.readinto(buffer)
        self._size += count or 0
        if self._size > self._limit:
            raise http.client.HTTPException(too_large(self._limit))
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Socket:
    """What http.client wants of a socket once the request is sent."""

    def __init__(self, sock: socket.socket, limit: int) -> None:
        self._sock = sock
        self._limit = limit

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._limit))


def bounded(limit: Callable[[], int]) -> type[http.client.HTTPResponse]:
    """Return a response class for connections of http.client and urllib3.

    Its answers end when the connection's time-out, or the caller's patience, is over for the whole.

    :param limit: returns the bytes that an answer may have.
    """

    class Answer(http.client.HTTPResponse):
        def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
            held: Any = _Socket(sock, limit())  # all that http.client needs of a socket
            super().__init__(held, *args, **kwargs)

    return Answer


def too_large(limit: int) -> str:
    """Return what to say of an answer of more than ``limit`` bytes."""
    return f"the answer is larger than {limit // 1024**2} MiB"
