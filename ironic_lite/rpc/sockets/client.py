"""The client's end: kept connections, and calls with an answer.

A call has a connection to itself. Idle connections wait in a pool, last used first, so a process
has as many as its concurrent calls; those unused for a minute are closed. Before reuse a connection
is checked for end of file, and a server that has not been heard just now is asked whether it reads.
So a server's restart causes no error, a message is never sent twice, and a server that hangs, or
whose machine is lost, has received nothing: another one may be called.
"""

from __future__ import annotations

import collections
import math
import os
import select
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import oslo_messaging

from ironic_lite.rpc.sockets import frames

_LEAST_WAIT = 0.001

PROVEN_SECONDS = 0.5
"""A server that was heard so long ago is not asked again."""

REPLY_SECONDS = 5.0
"""Most seconds in which a server replies that it reads; longer than a machine stalls."""

IDLE_SECONDS = 60.0
"""A connection unused for so long is closed when another is made, or returned to its address."""

T = TypeVar("T")


class Connection:
    """One connection to a server; used by one thread at a time."""

    def __init__(self, sock: socket.socket, place: str, limit: int) -> None:
        """Use a connected socket.

        :param place: the address of the server, for errors.
        :param limit: most bytes of a frame.
        """
        self._socket = sock
        self._place = place
        self._limit = limit
        self._arrival = select.poll()
        self._arrival.register(sock, select.POLLIN)
        self.idle_since = 0.0
        """The time at which it was returned to the pool."""
        self.heard_at = -math.inf
        """The time at which the server's process was heard."""
        frames.close_in_children(self)

    def is_fresh(self) -> bool:
        """Return whether the server holds this idle connection and has sent nothing."""
        return not self._arrival.poll(0)

    def ask(self, seconds: float) -> bool:
        """Return whether the server reads this connection; False if it has closed or refused it.

        :raises frames.PeerAbsent: it has not replied within these seconds.
        """
        if time.monotonic() - self.heard_at < PROVEN_SECONDS:
            return True
        try:
            self._send_bytes(frames.PING)
            reader, end = self._new_reader(), time.monotonic() + seconds
            while True:
                self._set_timeout(end)
                for body in reader.feed(self._receive_bytes(reader.wanted)):
                    return frames.refused(body) is None
        except oslo_messaging.MessagingTimeout:
            raise frames.PeerAbsent(f"the conductor at {self._place} does not read calls") from None
        except (OSError, oslo_messaging.MessagingException):
            return False

    def send(self, frame: bytes) -> None:
        """Send all of ``frame``.

        :raises frames.FrameTooLarge: the server refuses it.
        :raises frames.PeerAbsent: not delivered completely, so nothing was done.
        :raises oslo_messaging.MessagingTimeout: the server lives but reads nothing.
        """
        try:
            self._send_bytes(frame)
        except OSError as why:
            refused = self._last_words()
            raise refused or frames.PeerAbsent(
                f"the conductor at {self._place} does not take the message: "
                f"{frames.system_reason(why)}"
            ) from None

    def _send_bytes(self, data: bytes) -> None:
        self._socket.settimeout(frames.SEND_SECONDS)
        try:
            frames.send(self._socket, data)
        except OSError as why:
            if not frames.is_timeout(why):
                raise
            raise oslo_messaging.MessagingTimeout(
                f"the conductor at {self._place} reads nothing"
            ) from None

    def _last_words(self) -> Exception | None:
        self._socket.settimeout(0)
        try:
            reader = self._new_reader()
            chunk = self._socket.recv(reader.wanted)
            return next(filter(None, map(frames.refused, reader.feed(chunk))), None)
        except (OSError, frames.BadFrame, frames.FrameTooLarge):
            return None

    def _new_reader(self) -> frames.Reader:
        return frames.Reader(self._limit, "answer")

    def answer(self, ident: int, deadline: float | None) -> frames.Body:
        """Wait for the answer to request ``ident``, or the remote exception.

        ``deadline`` is on the monotonic clock.

        :raises oslo_messaging.MessagingTimeout: the deadline has passed.
        :raises frames.PeerLost: end of file.
        :raises frames.FrameTooLarge, frames.BadFrame: the server refused.
        """
        reader = self._new_reader()
        while True:
            self._set_timeout(deadline)
            for body in reader.feed(self._receive_bytes(reader.wanted)):
                why = frames.refused(body)
                if why:
                    raise why
                if body.get("id") == ident:
                    return body

    def _set_timeout(self, deadline: float | None) -> None:
        left = None if deadline is None else max(deadline - time.monotonic(), _LEAST_WAIT)
        self._socket.settimeout(left)

    def _receive_bytes(self, size: int) -> bytes:
        try:
            received = self._socket.recv(size)
        except OSError as why:
            if frames.is_timeout(why):
                raise oslo_messaging.MessagingTimeout(
                    f"no answer in time from {self._place}"
                ) from None
            raise frames.PeerLost(
                f"the conductor at {self._place} is gone: {frames.system_reason(why)}"
            ) from None
        if not received:
            raise frames.PeerLost(
                f"the conductor at {self._place} went away before it answered; "
                "it may have begun the call"
            )
        self.heard_at = time.monotonic()
        return received

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


Connect = Callable[[str, float | None], Connection]
"""Connects to an address until a time of the monotonic clock; None is the transport's own limit."""


class Pool:
    """The idle connections of this process, by address."""

    def __init__(self, connect: Connect, reply_seconds: float = REPLY_SECONDS) -> None:
        """``connect`` makes a new connection."""
        self._connect = connect
        self._reply_seconds = reply_seconds
        self._owner = os.getpid()
        self._idle: dict[str, collections.deque[Connection]] = {}

    def use(
        self,
        address: str,
        frame: bytes,
        then: Callable[[Connection], T],
        deadline: float | None = None,
    ) -> T:
        """Send ``frame`` to ``address`` and return the result of ``then`` on the connection.

        ``deadline`` limits the time to connect.
        """
        connection = self._deliver_frame(address, frame, deadline)
        try:
            result = then(connection)
        except BaseException:
            # A late answer must not reach another call.
            connection.close()
            raise
        connection.idle_since = time.monotonic()
        stack = self._idle_connections(address)
        stack.append(connection)
        _close_unused(stack)
        return result

    def post(self, address: str, frame: bytes, deadline: float | None = None) -> None:
        """Send ``frame`` to ``address`` without an answer. Raises as `Connection.send` does.

        ``deadline`` is as for `use`.
        """
        self.use(address, frame, lambda connection: None, deadline)

    def _deliver_frame(self, address: str, frame: bytes, deadline: float | None) -> Connection:
        stack = self._idle_connections(address)
        while stack:
            try:
                connection = stack.pop()
            except IndexError:
                break
            if connection.is_fresh() and self._try_kept_connection(connection, frame, deadline):
                return connection
            connection.close()
        # A conductor that is gone, and will not come back under its address, is never called again.
        for each in list(self._idle.values()):
            _close_unused(each)
        connection = self._new_connection(address, deadline)
        try:
            connection.send(frame)
        except BaseException:
            connection.close()
            raise
        return connection

    def _new_connection(self, address: str, deadline: float | None) -> Connection:
        """Return a connection to a server that reads.

        :raises frames.PeerAbsent: it does not read, or has hung up.
        """
        connection = self._connect(address, deadline)
        try:
            if connection.ask(self._limit_to_reply(deadline)):
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        raise frames.PeerAbsent(f"the conductor at {address} has hung up")

    def _try_kept_connection(
        self, connection: Connection, frame: bytes, deadline: float | None
    ) -> bool:
        """Return whether a kept connection took the frame; if not, a new one may try.

        :raises frames.PeerAbsent: the server hangs, as it would with a new connection.
        """
        try:
            if not connection.ask(self._limit_to_reply(deadline)):
                return False
        except BaseException:
            connection.close()
            raise
        try:
            connection.send(frame)
        except frames.PeerAbsent:
            return False
        except BaseException:
            connection.close()
            raise
        return True

    def _limit_to_reply(self, deadline: float | None) -> float:
        if deadline is None:
            return self._reply_seconds
        return max(min(self._reply_seconds, deadline - time.monotonic()), _LEAST_WAIT)

    def _idle_connections(self, address: str) -> collections.deque[Connection]:
        here = os.getpid()
        if self._owner != here:
            # Forked: the connections belong to the parent and are already closed here.
            self._owner, self._idle = here, {}
        # setdefault and the methods of deque are atomic, so a fork cannot hold a lock.
        return self._idle.setdefault(address, collections.deque())

    def close(self) -> None:
        """Close every idle connection."""
        for stack in self._idle.values():
            while stack:
                stack.pop().close()


def _close_unused(stack: collections.deque[Connection]) -> None:
    """Close the connections to an address that have long been unused."""
    before = time.monotonic() - IDLE_SECONDS
    while stack:
        # Another thread may take the connection in between, so it is looked at in hand.
        try:
            oldest = stack.popleft()
        except IndexError:
            return
        if oldest.idle_since >= before:
            stack.appendleft(oldest)
            return
        oldest.close()
