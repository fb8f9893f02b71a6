"""Time-outs that the kernel enforces, and sockets closed in forked children.

A forked child holds a copy of every socket of its parent. The peer would then not see that the
parent has died, and two processes would read one stream. Therefore every socket registered here is
closed in the child.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import weakref
from typing import Protocol

SEND_SECONDS = 10.0
"""Time limit of a peer to accept a connection, or to read any of the bytes sent."""

PEEK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)
"""Flags that look at the next bytes; joining them takes longer than the look."""

_TIMEVAL = struct.Struct("@ll")


class Closable(Protocol):
    """An object with a file descriptor of its own."""

    def close(self) -> None:
        """Close the descriptor; may be called again."""


_OPEN: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_in_children(thing: Closable) -> None:
    """Call ``thing.close()`` in children forked later, as long as ``thing`` lives."""
    _OPEN.add(thing)


def _close_all() -> None:
    for thing in list(_OPEN):
        with contextlib.suppress(OSError):
            thing.close()
    _OPEN.clear()


os.register_at_fork(after_in_child=_close_all)


def bound_sending(sock: socket.socket, seconds: float = SEND_SECONDS) -> None:
    """Set the time-out of ``sock`` for connecting and sending, at most ``SEND_SECONDS``.

    The kernel enforces it. Unlike Python's own time-outs this needs no poll() for each call, and a
    connect to a full backlog waits instead of failing at once.
    """
    sock.setblocking(True)
    sock.setsockopt(
        socket.SOL_SOCKET, socket.SO_SNDTIMEO, _pack_timeval(min(seconds, SEND_SECONDS))
    )


def bound_receiving(sock: socket.socket, seconds: float) -> None:
    """Limit recv to ``seconds``, then BlockingIOError; 0 waits without limit."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _pack_timeval(seconds))


def _pack_timeval(seconds: float) -> bytes:
    whole = int(seconds)
    return _TIMEVAL.pack(whole, int((seconds - whole) * 1_000_000))
