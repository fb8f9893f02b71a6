"""The client end of ``local://``: kept connections, and calls with an answer.

A call has a connection to itself. Idle connections wait in a pool, last used first, so a process
has as many as its concurrent calls. Before reuse a connection is checked for end of file. So a
server's restart causes no error, and a message is never sent twice.
"""

from __future__ import annotations

import collections
import os
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import oslo_messaging

from ironic_lite.rpc.sockets import frames, kernel, transport_errors

_LEAST_WAIT = 0.001
_SLACK = 0.01

T = TypeVar("T")


class Connection:
    """One connection to a server; used by one thread at a time."""

    def __init__(self, path: str, limit: int) -> None:
        """Connect to ``path``. Raises transport_errors.PeerAbsent if none listens."""
        self._path = path
        self._limit = limit
        self._socket = kernel.stream()
        self._wait = 0.0
        try:
            self._socket.connect(path)
        except OSError as why:
            self._socket.close()
            raise transport_errors.PeerAbsent(
                f"no conductor listens at {path}: {_error_words(why)}"
            ) from None
        kernel.close_in_children(self)

    def is_fresh(self) -> bool:
        """Return whether the server holds this idle connection and has sent nothing."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def send(self, frame: bytes) -> None:
        """Send all of ``frame``.

        :raises transport_errors.FrameTooLarge: the server refuses it.
        :raises transport_errors.PeerAbsent: not delivered completely, so nothing was done.
        :raises oslo_messaging.MessagingTimeout: the server lives but reads nothing.
        """
        try:
            self._socket.sendall(frame)
        except BlockingIOError:
            raise oslo_messaging.MessagingTimeout(
                f"the conductor at {self._path} reads nothing"
            ) from None
        except OSError as why:
            refused = self._last_words()
            raise refused or transport_errors.PeerAbsent(
                f"the conductor at {self._path} does not take the message: {_error_words(why)}"
            ) from None

    def _last_words(self) -> Exception | None:
        try:
            reader = self._new_reader()
            chunk = self._socket.recv(reader.wanted, socket.MSG_DONTWAIT)
            return next(filter(None, map(frames.refused, reader.feed(chunk))), None)
        except (OSError, transport_errors.BadFrame, transport_errors.FrameTooLarge):
            return None

    def _new_reader(self) -> frames.Reader:
        return frames.Reader(self._limit, "answer")

    def answer(self, ident: int, deadline: float | None, monitor: float | None) -> frames.Body:
        """Wait for the answer to request ``ident``, or the remote exception.

        ``deadline`` is on the monotonic clock; ``monitor`` is the keepalive limit in seconds, for a
        server that sends keepalives.

        :raises oslo_messaging.MessagingTimeout: the deadline or the keepalive limit has passed.
        :raises transport_errors.PeerLost: end of file.
        :raises transport_errors.FrameTooLarge, transport_errors.BadFrame: the server refused.
        """
        reader = self._new_reader()
        silent_since = time.monotonic()
        while True:
            self._set_timeout(deadline, silent_since + monitor if monitor else None)
            for body in reader.feed(self._receive_bytes(reader.wanted)):
                why = frames.refused(body)
                if why:
                    raise why
                if body.get("id") == ident and not body.get("beat"):
                    return body
                silent_since = time.monotonic()

    def _set_timeout(self, *deadlines: float | None) -> None:
        known = [deadline for deadline in deadlines if deadline is not None]
        wait = max(min(known) - time.monotonic(), _LEAST_WAIT) if known else 0.0
        # Most calls have the same time-out, so the kernel rarely needs a new one.
        if abs(self._wait - wait) > _SLACK or (wait == 0) != (self._wait == 0):
            kernel.bound_receiving(self._socket, wait)
            self._wait = wait

    def _receive_bytes(self, size: int) -> bytes:
        try:
            chunk = self._socket.recv(size)
        except BlockingIOError:
            raise oslo_messaging.MessagingTimeout(f"no answer in time from {self._path}") from None
        except OSError as why:
            raise transport_errors.PeerLost(
                f"the conductor at {self._path} is gone: {_error_words(why)}"
            ) from None
        if not chunk:
            raise transport_errors.PeerLost(
                f"the conductor at {self._path} went away before it answered; "
                "it may have begun the call"
            )
        return chunk

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Pool:
    """The idle connections of this process, by socket path."""

    def __init__(self, limit: int, check: Callable[[], None]) -> None:
        """``limit``: most bytes of a frame; ``check`` runs before each new connection."""
        self._limit = limit
        self._check = check
        self._owner = os.getpid()
        self._idle: dict[str, collections.deque[Connection]] = {}

    def use(self, path: str, frame: bytes, then: Callable[[Connection], T]) -> T:
        """Send ``frame`` to ``path`` and return the result of ``then`` on the connection."""
        connection = self._deliver_frame(path, frame)
        try:
            result = then(connection)
        except BaseException:
            # A late answer must not reach another call.
            connection.close()
            raise
        self._idle_connections(path).append(connection)
        return result

    def post(self, path: str, frame: bytes) -> None:
        """Send ``frame`` to ``path`` without waiting. Raises as `Connection.send` does."""
        self.use(path, frame, lambda connection: None)

    def _deliver_frame(self, path: str, frame: bytes) -> Connection:
        stack = self._idle_connections(path)
        while stack:
            try:
                connection = stack.pop()
            except IndexError:
                break
            if connection.is_fresh() and self._try_kept_connection(connection, frame):
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
    def _try_kept_connection(connection: Connection, frame: bytes) -> bool:
        """Return whether a kept connection took the frame; if not, a new one may try."""
        try:
            connection.send(frame)
        except transport_errors.PeerAbsent:
            return False
        except BaseException:
            connection.close()
            raise
        return True

    def _idle_connections(self, path: str) -> collections.deque[Connection]:
        here = os.getpid()
        if self._owner != here:
            # Forked: the connections belong to the parent and are already closed here.
            self._owner, self._idle = here, {}
        # setdefault and the methods of deque are atomic, so a fork cannot hold a lock.
        return self._idle.setdefault(path, collections.deque())

    def close(self) -> None:
        """Close every idle connection."""
        for stack in self._idle.values():
            while stack:
                stack.pop().close()


def _error_words(why: OSError) -> str:
    return why.strerror or str(why)
