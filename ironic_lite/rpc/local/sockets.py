"""Sockets with kernel time-outs, which a forked child does not keep.

A child made by fork holds a copy of every socket of its parent. With it the peer would not see
that the parent has died, and two processes would read one stream; so everything registered here
is closed in the child.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import weakref
from typing import Protocol

SEND_SECONDS = 10.0
"""How long a peer may take none of the bytes it is sent, or not accept a connection."""

_TIMEVAL = struct.Struct("@ll")


class Closable(Protocol):
    """Anything with a file descriptor of its own."""

    def close(self) -> None:
        """Close it; also a second time."""


_OPEN: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_in_children(thing: Closable) -> None:
    """Call ``thing.close()`` in every child forked from now on, as long as ``thing`` lives."""
    _OPEN.add(thing)


def _close_all() -> None:
    for thing in list(_OPEN):
        with contextlib.suppress(OSError):
            thing.close()
    _OPEN.clear()


os.register_at_fork(after_in_child=_close_all)


def stream() -> socket.socket:
    """Return a new unix socket that never waits longer than `SEND_SECONDS` to connect or send."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound_sending(sock)
    return sock


def bound_sending(sock: socket.socket) -> None:
    """Give ``sock`` the time-out for connecting and sending.

    The kernel keeps it: unlike Python's own time-outs this costs no poll() for each call, and a
    connect to a full backlog waits instead of failing at once.
    """
    sock.setblocking(True)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(SEND_SECONDS))


def bound_receiving(sock: socket.socket, seconds: float) -> None:
    """Let recv wait ``seconds`` at most; then it raises BlockingIOError. 0 waits for ever."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(seconds))


def _timeval(seconds: float) -> bytes:
    whole = int(seconds)
    return _TIMEVAL.pack(whole, int((seconds - whole) * 1_000_000))
