"""A way to a BMC, on UDP, on which it is lost in the middle of what it is doing, or refuses."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from typing import Any

ADDRESS = "127.0.0.1"
_LONGEST = 4096


_OPEN, _OPENED = 0x10, 0x11  # payload types of RMCP+ (IPMI 2.0, table 13-16)
_ALGORITHM = 28  # where an open session request has the authentication algorithm
_SHA1 = 1  # that of cipher suite 3


@contextlib.contextmanager
def way(port: int, *, carries: int = 10**9, suite_3_off: int | None = None) -> Iterator[int]:
    """Give a port behind which the BMC at ``port`` hears so many datagrams and then no more.

    :param suite_3_off: the status with which sessions of cipher suite 3 are refused (IPMI 2.0,
        table 13-15), 0 for silence.
    """
    with (
        socket.socket(type=socket.SOCK_DGRAM) as near,
        socket.socket(type=socket.SOCK_DGRAM) as far,
    ):
        near.bind((ADDRESS, 0))
        far.connect((ADDRESS, port))
        carrier = threading.Thread(
            target=_carry, args=(near, far, carries, suite_3_off), daemon=True
        )
        carrier.start()
        try:
            yield int(near.getsockname()[1])
        finally:
            # An empty datagram ends it; none of IPMI is empty.
            with socket.socket(type=socket.SOCK_DGRAM) as ender:
                ender.sendto(b"", near.getsockname())
            carrier.join()


def _carry(near: socket.socket, far: socket.socket, carries: int, suite_3_off: int | None) -> None:
    """Carry questions, and answers to the last asker; the BMC leaves some without an answer."""
    asker: Any = None
    while True:
        for ready in select.select([near, far], [], [])[0]:
            if ready is far:
                near.sendto(far.recv(_LONGEST), asker)
                continue
            asked, asker = near.recvfrom(_LONGEST)
            if not asked:
                return
            carries -= 1
            if carries < 0:
                continue
            if suite_3_off is None or not _opens_suite_3(asked):
                far.send(asked)
            elif suite_3_off:
                near.sendto(_refusal(asked, suite_3_off), asker)


def _opens_suite_3(asked: bytes) -> bool:
    return asked[4:6] == bytes([6, _OPEN]) and asked[_ALGORITHM] == _SHA1


def _refusal(asked: bytes, status: int) -> bytes:
    """Return the response to an open session request (IPMI 2.0, table 13-10)."""
    body = bytes([asked[16], status, 0, 0]) + asked[20:24]
    head = asked[:4] + bytes([6, _OPENED]) + bytes(8)
    return head + len(body).to_bytes(2, "little") + body
