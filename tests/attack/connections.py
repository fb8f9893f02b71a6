"""Clients that do not behave: raw connections, sent piece by piece."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

Address = tuple[str, int]
ANSWER_SECONDS = 30.0
"""How long one exchange may take; a loaded machine needs a part of it."""
_STATUS = re.compile(rb"(?:\A|\r\n)HTTP/1\.1 (\d{3}) ")


def request(
    method: str, path: str, body: bytes = b"", *headers: str, length: int | None = None
) -> bytes:
    """Return a request as bytes.

    :param path: percent-encoded already.
    :param length: stated as Content-Length instead of the body's; a negative number states none.
    """
    stated = len(body) if length is None else length
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        *headers,
    ]
    if stated > 0 or (body and stated >= 0):
        lines.append(f"Content-Length: {stated}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunk(data: bytes) -> bytes:
    """Return data as one chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def exchange(address: Address, data: bytes, *, half_close: bool = False) -> bytes:
    """Send bytes over a connection of their own and return the answer, until its end.

    :param half_close: end our side after the last byte, as a client that was cut off.
    """
    with contextlib.closing(socket.create_connection(address, ANSWER_SECONDS)) as opened:
        answer = b""
        with contextlib.suppress(OSError):
            opened.sendall(data)
            if half_close:
                opened.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            opened.settimeout(3.0)
            while part := opened.recv(65536):
                answer += part
                opened.settimeout(1.0)
        return answer


def statuses(answer: bytes) -> list[int]:
    """Return the status codes in what a server sent."""
    return [int(found) for found in _STATUS.findall(answer)]


@contextlib.contextmanager
def crowd(address: Address, count: int) -> Iterator[list[socket.socket]]:
    """Open connections; all are closed at the end of the block."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                one = socket.create_connection(address, 5)
                one.setblocking(False)
                opened.append(one)
        yield opened
    finally:
        for one in opened:
            one.close()


def drip(
    address: Address,
    count: int,
    first: bytes,
    pieces: Callable[[], bytes],
    *,
    seconds: float,
    every: float = 0.25,
) -> None:
    """Open connections that send ``first``, and then a piece each time, until the time is over."""
    end = time.monotonic() + seconds
    with crowd(address, count) as opened:
        for one in opened:
            with contextlib.suppress(OSError):
                one.send(first)
        while time.monotonic() < end:
            time.sleep(every)
            for one in opened:
                with contextlib.suppress(OSError):
                    one.send(pieces())


def at_once(works: Sequence[Callable[[], object]]) -> None:
    """Run functions in a thread each; return when all have ended."""
    threads = [threading.Thread(target=work) for work in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
