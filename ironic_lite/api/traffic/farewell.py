"""How a process of the API ends without a request being lost.

First it accepts no more connections: they wait at the socket for another process, if somebody else
keeps it; else they are refused, which every client and load balancer understands. Then it gives
clients that are connected a moment, in which each answer says that it is the last of its
connection. What is left then are connections that nobody uses.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

LOG = logging.getLogger(__name__)

CLOSE = signal.SIGUSR1
"""Asks a process of the API to end like this; SIGTERM leaves out the moment."""
_MOMENT = 0.5  # seconds
_LOOK = 0.02
_FDS = "/proc/self/fd"
_SO_ATTACH_FILTER = 26  # asm-generic/socket.h
_RETURN_NOTHING = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))


def prepare(address: object, closing: Callable[[], None], *, kept: bool) -> None:
    """Have `CLOSE` end this process.

    :param address: where it listens, as ``socket.getsockname``.
    :param closing: called first; from then on answers are the last of their connections.
    :param kept: somebody else keeps the socket when this service has ended.
    """

    def begin(*_: object) -> None:
        closing()
        args = (address, kept)
        threading.Thread(target=_leave, args=args, name="farewell", daemon=True).start()

    signal.signal(CLOSE, begin)


def _leave(address: object, kept: bool) -> None:
    try:
        if not kept:
            _empty(address)
        stop_accepting(address)
        end = time.monotonic() + _MOMENT
        while time.monotonic() < end and _connected(address):
            time.sleep(_LOOK)
    except OSError as why:  # no /proc, or no descriptor left
        LOG.warning("Connections may be lost at the end of this process: %s", why)
    os.kill(os.getpid(), signal.SIGTERM)


def _empty(address: object) -> None:
    """Let no more connections come, and those that wait be accepted: to close the socket would
    break them. Whoever comes now is refused when it is closed.
    """
    for _, one in sockets(address):
        if not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            continue
        one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _drop_all())
        end = time.monotonic() + _MOMENT
        while time.monotonic() < end and _waiting(one):
            time.sleep(_LOOK)
        return


def _drop_all() -> bytes:
    """Return a ``struct sock_fprog`` with the one instruction "return 0": packets are dropped."""
    address = ctypes.addressof(_RETURN_NOTHING)
    return struct.pack("HL", 1, address)


def _waiting(one: socket.socket) -> int:
    """Return how many connections wait to be accepted: of a listening socket, ``tcpi_unacked``."""
    found = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int(struct.unpack_from("I", found, 24)[0])


def stop_accepting(address: object) -> None:
    """Let go of the listening socket, whoever in this process holds it, without closing it.

    Its descriptors are made those of a socket to which nobody connects. The server, which cannot be
    asked to stop accepting alone, goes on with that. To close it, or to shut it down, would break
    the connections that wait at it, which may be another process's next.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as nowhere:
        nowhere.bind("")  # a name that Linux makes up
        nowhere.listen(1)
        nowhere.setblocking(False)
        for fd, one in sockets(address):
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                os.dup2(nowhere.fileno(), fd, inheritable=False)


def _connected(address: object) -> bool:
    return any(True for _ in sockets(address))


def sockets(address: object) -> Iterator[tuple[int, socket.socket]]:
    """Yield the descriptors of this process that are sockets at our end of this address.

    Each comes with a socket of its own, which is closed when the next is asked for.
    """
    port = address[1] if isinstance(address, tuple) else address
    for name in os.listdir(_FDS):
        with contextlib.suppress(OSError), _twin(int(name)) as one:
            here = one.getsockname()
            if isinstance(here, tuple) and here[1] == port:
                yield int(name), one


def _twin(fd: int) -> socket.socket:
    """Return a second descriptor of a socket.

    :raises OSError: it is none, or no more.
    """
    twin = os.dup(fd)
    try:
        return socket.socket(fileno=twin)
    except OSError:
        os.close(twin)
        raise
