"""A way to a BMC, on UDP, on which it is lost in the middle of what it is doing."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

ADDRESS = "127.0.0.1"
_LONGEST = 4096


@contextlib.contextmanager
def way(port: int, *, carries: int) -> Iterator[int]:
    """Give a port behind which the BMC at ``port`` hears so many datagrams and then no more."""
    with (
        socket.socket(type=socket.SOCK_DGRAM) as near,
        socket.socket(type=socket.SOCK_DGRAM) as far,
    ):
        near.bind((ADDRESS, 0))
        far.connect((ADDRESS, port))
        carrier = threading.Thread(target=_carry, args=(near, far, carries), daemon=True)
        carrier.start()
        try:
            yield int(near.getsockname()[1])
        finally:
            # An empty datagram ends it; none of IPMI is empty.
            with socket.socket(type=socket.SOCK_DGRAM) as ender:
                ender.sendto(b"", near.getsockname())
            carrier.join()


def _carry(near: socket.socket, far: socket.socket, carries: int) -> None:
    """Carry question and answer in turn: ipmitool asks one thing at a time."""
    while True:
        asked, asker = near.recvfrom(_LONGEST)
        if not asked:
            return
        if carries <= 0:
            continue
        carries -= 1
        far.send(asked)
        near.sendto(far.recv(_LONGEST), asker)
