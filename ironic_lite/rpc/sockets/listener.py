"""The server's end: one thread reads all connections.

The thread waits in the kernel while no bytes arrive. The threads that ran the calls send the
answers. Clients that do not complete their authentication or a message are hung up after some
seconds. While many authentications are under way, new clients wait in the kernel's queue.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import logging
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ironic_lite.core import log_lines
from ironic_lite.rpc.sockets import ciphers, incoming, kernel, transport_errors

LOG = logging.getLogger(__name__)

_ACCEPTS = 64
"""Most connections accepted at once; the others wait for the next turn of the loop."""

STRANGERS = 256
"""Most connections without authentication; further ones wait until they are accepted."""

SILENT_SECONDS = 1.0
"""A stranger that has sent nothing for so long is hung up when its place is needed."""

STALLED_SECONDS = 10.0
"""Time limit of an authentication, and of a pause within a message, which then is a dead client."""

_NO_DESCRIPTOR_SECONDS = 0.1
"""Pause between two attempts to accept a connection without any free descriptor."""

Callback = Callable[[list[Any]], None]


def _remove_nothing() -> None:
    """Do nothing: the address ends with its socket."""


def _open_spare() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


@dataclasses.dataclass(frozen=True)
class ServerSocket:
    """A listening socket.

    ``remove`` removes its address when the listener stops; ``cipher`` makes the cipher of a new
    connection.
    """

    sock: socket.socket
    remove: Callable[[], None] = _remove_nothing
    cipher: Callable[[], ciphers.Cipher] = ciphers.Plain


class Listener:
    """Receives messages of listening sockets; oslo.messaging starts and stops it."""

    def __init__(
        self,
        servers: Sequence[ServerSocket],
        limit: int,
        batch: tuple[int, float | None] = (1, None),
    ) -> None:
        """``limit``: bytes of a frame; ``batch``: count, seconds."""
        self._hand_on: Callback = lambda _: None
        self.batch_size, self.batch_timeout = batch[0] or 1, batch[1]
        self._servers = servers
        self._limit = limit
        self._lines: set[incoming.Line] = set()
        self._hang_up_at: dict[incoming.Line, float] = {}
        """By incomplete line, in order: the time at which it is given up."""
        self._strangers: dict[incoming.Line, float] = {}
        """By line without authentication, in order: the time of its last bytes."""
        self._accepting = True
        self._refusals = log_lines.LogThrottle()
        self._pending: list[incoming.Incoming] = []
        self._flush_at: float | None = None
        self._stopping = False
        self._spare = _open_spare()
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        for server in servers:
            server.sock.setblocking(False)
            self._selector.register(server.sock, selectors.EVENT_READ, server)
        self._thread = threading.Thread(target=self._read_sockets, name="rpc-listener", daemon=True)
        kernel.close_in_children(self)

    # -- what oslo.messaging calls -----------------------------------------------------------

    def start(self, on_incoming_callback: Callback) -> None:
        """Start to pass lists of messages to the callback."""
        self._hand_on = on_incoming_callback
        self._thread.start()

    def stop(self) -> None:
        """Accept no more messages: refuse new connections, close idle ones.

        A connection with a running call is closed after its answer.
        """
        if self._stopping:
            return
        self._stopping = True
        if self._thread.is_alive():
            self._wake.send(b"!")
            self._thread.join()
        for server in self._servers:
            server.remove()
            server.sock.close()
        for line in list(self._lines):
            line.drain()

    def cleanup(self) -> None:
        """Close all connections, even those that wait for an answer."""
        self.stop()
        for line in list(self._lines):
            line.close()
        self._close_own()

    def close(self) -> None:
        """Close all file descriptors and nothing else, as a forked child must."""
        for line in list(self._lines):
            line.abandon()
        self._close_own()

    def _close_own(self) -> None:
        things: list[kernel.Closable] = [self._wake, self._woken, self._selector]
        for thing in (*things, *(server.sock for server in self._servers)):
            thing.close()
        self._close_spare()

    def _close_spare(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._spare)
        self._spare = -1

    # -- the thread --------------------------------------------------------------------------

    def _read_sockets(self) -> None:
        while not self._stopping:
            ready = [key.data for key, _ in self._selector.select(self._select_timeout())]
            begun = time.monotonic()
            lines = [one for one in ready if isinstance(one, incoming.Line)]
            for line in sorted(lines, key=lambda line: not line.established):
                self._read_line(line)
            self._flush_batch()
            self._end_stalled()
            for server in ready:
                if isinstance(server, ServerSocket):
                    self._accept_lines(server, begun)
            self._pause_or_resume()

    def _select_timeout(self) -> float | None:
        ends = [*itertools.islice(self._hang_up_at.values(), 1)]
        if self._flush_at is not None:
            ends.append(self._flush_at)
        if not self._accepting:
            ends.append(next(iter(self._strangers.values())) + SILENT_SECONDS)
        return max(min(ends) - time.monotonic(), 0) if ends else None

    def _accept_lines(self, server: ServerSocket, begun: float) -> None:
        """Accept some connections; ``begun`` is when the lines with bytes were found."""
        for _ in range(_ACCEPTS):
            if not self._has_room(begun):
                return
            try:
                sock, _address = server.sock.accept()
            except BlockingIOError:
                return
            except OSError as why:
                self._turn_away(server.sock, why)
                return
            try:
                self._add_line(sock, server.cipher)
            except Exception:
                # As in `_read_line`.
                LOG.exception("Accepting an RPC connection failed unexpectedly")
                sock.close()

    def _add_line(self, sock: socket.socket, new_cipher: Callable[[], ciphers.Cipher]) -> None:
        """Serve a connection; if this fails, the line is forgotten and the error raised."""
        line = incoming.Line(sock, self._limit, new_cipher())
        try:
            self._watch_line(line)
        except Exception:
            self._forget_line(line)
            raise

    def _watch_line(self, line: incoming.Line) -> None:
        self._selector.register(line.sock, selectors.EVENT_READ, line)
        self._lines.add(line)
        if not line.established:
            if len(self._strangers) >= STRANGERS:
                self._forget_line(next(iter(self._strangers)))
            self._strangers[line] = time.monotonic()
            self._hang_up_at[line] = time.monotonic() + STALLED_SECONDS

    def _has_room(self, now: float) -> bool:
        """Return whether a stranger may be accepted, perhaps in the place of a silent one."""
        if len(self._strangers) < STRANGERS:
            return True
        return now - next(iter(self._strangers.values())) >= SILENT_SECONDS

    def _pause_or_resume(self) -> None:
        """Watch the listening sockets only while there is room; otherwise the loop would spin."""
        room = self._has_room(time.monotonic())
        if room == self._accepting:
            return
        self._accepting = room
        for server in self._servers:
            if room:
                self._selector.register(server.sock, selectors.EVENT_READ, server)
            else:
                self._selector.unregister(server.sock)

    def _end_stalled(self) -> None:
        """Hang up on clients that have not completed what they began."""
        while self._hang_up_at:
            line, end = next(iter(self._hang_up_at.items()))
            if end > time.monotonic():
                return
            LOG.debug("Closed an RPC connection whose client has stopped within a message")
            self._forget_line(line)

    def _note_progress(self, line: incoming.Line) -> None:
        """Set the time at which a line is given up; a stranger's time is set once."""
        self._strangers.pop(line, None)
        if not line.established:
            self._strangers[line] = time.monotonic()
        if line.complete:
            self._hang_up_at.pop(line, None)
        elif line.established:
            self._hang_up_at.pop(line, None)
            self._hang_up_at[line] = time.monotonic() + STALLED_SECONDS

    def _turn_away(self, server: socket.socket, why: OSError) -> None:
        """Refuse a connection with the spare descriptor; otherwise the loop would spin.

        Another thread may take the descriptor meanwhile. Then the connection waits.
        """
        if self._refusals.new(str(why)):
            LOG.error("Cannot accept an RPC connection: %s", why)
        if why.errno not in {errno.EMFILE, errno.ENFILE}:
            return
        self._close_spare()
        with contextlib.suppress(OSError):
            server.accept()[0].close()
        try:
            self._spare = _open_spare()
        except OSError:
            time.sleep(_NO_DESCRIPTOR_SECONDS)

    def _read_line(self, line: incoming.Line) -> None:
        try:
            for message in line.read():
                self._take_message(message)
            self._note_progress(line)
        except (transport_errors.FrameTooLarge, transport_errors.BadFrame) as why:
            if self._refusals.new(type(why).__name__):
                LOG.warning("Closed the connection of an RPC client: %s", why)
            line.refuse(why)
            self._forget_line(line)
        except OSError as why:
            if not line.established:
                self._log_refusal(line, why)
            self._forget_line(line)
        except Exception:
            # One connection must not end the thread that serves all of them.
            LOG.exception("Passing on an RPC message failed unexpectedly")
            self._forget_line(line)

    def _log_refusal(self, line: incoming.Line, why: OSError) -> None:
        """Log a client that is refused, rarely, because scans of ports must not fill the log."""
        if isinstance(why, ssl.SSLError) and self._refusals.new(str(why)):
            LOG.warning("Refused an RPC client at %s: %s", line.peer, why)

    def _forget_line(self, line: incoming.Line) -> None:
        self._lines.discard(line)
        self._hang_up_at.pop(line, None)
        self._strangers.pop(line, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.sock)
        line.close()

    def _take_message(self, message: incoming.Incoming) -> None:
        self._pending.append(message)
        if len(self._pending) >= self.batch_size:
            self._flush_batch(full=True)
        elif self._flush_at is None and self.batch_timeout is not None:
            self._flush_at = time.monotonic() + self.batch_timeout

    def _flush_batch(self, *, full: bool = False) -> None:
        """Pass on a batch that is full or has waited long enough."""
        due = full or (self._flush_at is not None and time.monotonic() >= self._flush_at)
        if not (self._pending and (due or self._stopping)):
            return
        batch, self._pending, self._flush_at = self._pending, [], None
        self._hand_on(batch)
