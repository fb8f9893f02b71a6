"""The client end of ``local://``: connections that are kept, calls that wait for their answer.

A call has a connection to itself. Idle ones wait in a pool, last used first, so a process has as
many as it makes calls at once. Before one is used again it is checked for end of file: a server
that restarted costs nothing, and a message is never sent twice.
"""

from __future__ import annotations

import collections
import os
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import oslo_messaging

from ironic_lite.rpc.local import faults, frames, sockets

_LEAST_WAIT = 0.001
_SLACK = 0.01

T = TypeVar("T")


class Connection:
    """One connection to a server; used by one thread at a time."""

    def __init__(self, path: str, limit: int) -> None:
        """Connect to the socket at ``path``. Raises faults.PeerAbsent if nobody answers there."""
        self._path = path
        self._limit = limit
        self._socket = sockets.stream()
        self._wait = 0.0
        try:
            self._socket.connect(path)
        except OSError as why:
            self._socket.close()
            raise faults.PeerAbsent(f"nobody listens at {path}: {_words(why)}") from None
        sockets.close_in_children(self)

    def is_fresh(self) -> bool:
        """Say whether the server still holds this idle connection and has said nothing on it."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def send(self, frame: bytes) -> None:
        """Send all of ``frame``.

        :raises faults.FrameTooLarge: the server refuses it.
        :raises faults.PeerAbsent: it could not be delivered whole, so nothing was done.
        :raises oslo_messaging.MessagingTimeout: the server lives, but takes nothing.
        """
        try:
            self._socket.sendall(frame)
        except BlockingIOError:
            raise oslo_messaging.MessagingTimeout(
                f"the conductor at {self._path} reads nothing"
            ) from None
        except OSError as why:
            refused = self._last_words()
            raise refused or faults.PeerAbsent(
                f"the conductor at {self._path} does not take the message: {_words(why)}"
            ) from None

    def _last_words(self) -> Exception | None:
        try:
            reader = self._reader()
            chunk = self._socket.recv(reader.wanted, socket.MSG_DONTWAIT)
            return next(filter(None, map(frames.refused, reader.feed(chunk))), None)
        except (OSError, faults.BadFrame, faults.FrameTooLarge):
            return None

    def _reader(self) -> frames.Reader:
        return frames.Reader(self._limit, "answer")

    def answer(self, ident: int, deadline: float | None, monitor: float | None) -> frames.Body:
        """Wait for the answer to request ``ident``, or the remote exception.

        ``deadline`` is on the monotonic clock; ``monitor`` is the longest silence, in seconds, of a
        server that gives signs of life.

        :raises oslo_messaging.MessagingTimeout: the deadline passed, or the silence was too long.
        :raises faults.PeerLost: end of file.
        :raises faults.FrameTooLarge, faults.BadFrame: the server refused.
        """
        reader = self._reader()
        silent_since = time.monotonic()
        while True:
            self._bound(deadline, silent_since + monitor if monitor else None)
            for body in reader.feed(self._receive(reader.wanted)):
                why = frames.refused(body)
                if why:
                    raise why
                if body.get("id") == ident and not body.get("beat"):
                    return body
                silent_since = time.monotonic()

    def _bound(self, *deadlines: float | None) -> None:
        known = [deadline for deadline in deadlines if deadline is not None]
        wait = max(min(known) - time.monotonic(), _LEAST_WAIT) if known else 0.0
        # Most calls have the same time-out, so the kernel nearly always has it already.
        if abs(self._wait - wait) > _SLACK or (wait == 0) != (self._wait == 0):
            sockets.bound_receiving(self._socket, wait)
            self._wait = wait

    def _receive(self, size: int) -> bytes:
        try:
            chunk = self._socket.recv(size)
        except BlockingIOError:
            raise oslo_messaging.MessagingTimeout(f"no answer in time from {self._path}") from None
        except OSError as why:
            raise faults.PeerLost(f"the conductor at {self._path} is gone: {_words(why)}") from None
        if not chunk:
            raise faults.PeerLost(
                f"the conductor at {self._path} went away before it answered; "
                "it may have begun what it was asked"
            )
        return chunk

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class Pool:
    """The idle connections of this process, by socket path."""

    def __init__(self, limit: int, check: Callable[[], None]) -> None:
        """``limit``: bytes a frame may have; ``check`` is called before each new connection."""
        self._limit = limit
        self._check = check
        self._owner = os.getpid()
        self._idle: dict[str, collections.deque[Connection]] = {}

    def use(self, path: str, frame: bytes, then: Callable[[Connection], T]) -> T:
        """Send ``frame`` to ``path`` and return what ``then`` makes of the connection."""
        connection = self._deliver(path, frame)
        try:
            result = then(connection)
        except BaseException:
            # An answer may still come: nobody else may read it.
            connection.close()
            raise
        self._stack(path).append(connection)
        return result

    def post(self, path: str, frame: bytes) -> None:
        """Send ``frame`` to ``path`` and wait for nothing. Raises as `Connection.send` does."""
        self.use(path, frame, lambda connection: None)

    def _deliver(self, path: str, frame: bytes) -> Connection:
        stack = self._stack(path)
        while stack:
            try:
                connection = stack.pop()
            except IndexError:
                break
            if connection.is_fresh() and self._sent(connection, frame):
                return connection
            connection.close()
        self._check()
        connection = Connection(path, self._limit)
        try:
            connection.send(frame)
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def _sent(connection: Connection, frame: bytes) -> bool:
        """Say whether a kept connection took the frame; if not, a new one may try safely."""
        try:
            connection.send(frame)
        except faults.PeerAbsent:
            return False
        except BaseException:
            connection.close()
            raise
        return True

    def _stack(self, path: str) -> collections.deque[Connection]:
        here = os.getpid()
        if self._owner != here:
            # Forked: the connections are the parent's, and closed here already.
            self._owner, self._idle = here, {}
        # setdefault and the methods of deque are atomic, so a fork finds no lock taken.
        return self._idle.setdefault(path, collections.deque())

    def close(self) -> None:
        """Hang up on every idle connection."""
        for stack in self._idle.values():
            while stack:
                stack.pop().close()


def _words(why: OSError) -> str:
    return why.strerror or str(why)
