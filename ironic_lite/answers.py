"""Answers of HTTP with a deadline and a size for the whole of each, whoever sends them.

A socket's own time-out starts anew with each byte: a server that sends one a minute is never done.
"""

from __future__ import annotations

import dataclasses
import http.client
import io
import socket
import time
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """What one answer may take.

    ``size``: bytes; ``head``: seconds until its headers are there; ``whole``: seconds for all of
    it. None is without end.
    """

    size: int
    head: float | None
    whole: float | None


class _Reader(io.RawIOBase):
    """Reads an answer."""

    def __init__(self, sock: socket.socket, bounds: Bounds) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._silence = sock.gettimeout()
        self._bounds = bounds
        self._begin = time.monotonic()
        self._most = bounds.head
        self._size = 0

    def headed(self) -> None:
        """Its headers have come."""
        self._most = self._bounds.whole

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._most is not None:
            left = self._begin + self._most - time.monotonic()
            if left <= 0:
                raise TimeoutError("the answer was not complete in time")
            self._sock.settimeout(left if self._silence is None else min(left, self._silence))
        count = self._raw.readinto(buffer)
        self._size += count or 0
        if self._size > self._bounds.size:
            raise http.client.HTTPException(too_large(self._bounds.size))
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Socket:
    """What http.client wants of a socket once the request is sent."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader)


def bounded(bounds: Callable[[float | None], Bounds]) -> type[http.client.HTTPResponse]:
    """Return a response class for connections of http.client and urllib3.

    :param bounds: asked for each answer, with the connection's time-out in seconds.
    """

    class Answer(http.client.HTTPResponse):
        def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
            self._reader = _Reader(sock, bounds(sock.gettimeout()))
            held: Any = _Socket(self._reader)  # all that http.client needs of a socket
            super().__init__(held, *args, **kwargs)

        def begin(self) -> None:
            super().begin()
            self._reader.headed()

    return Answer


def too_large(limit: int) -> str:
    """Return what to say of an answer of more than ``limit`` bytes."""
    return f"the answer is larger than {limit // 1024**2} MiB"
