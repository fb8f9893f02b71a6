"""The server end of ``local://``: one thread reads all connections and hands complete messages on.

The thread waits in the kernel and does nothing while nothing comes. Answers are sent by the
threads that carried out the calls.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from oslo_messaging._drivers import base

from ironic_lite.rpc.local import faults, incoming, sockets

LOG = logging.getLogger(__name__)

_ACCEPTS = 64
"""Connections taken at one go; the others wait for the next turn of the loop."""


class Listener(base.Listener):  # type: ignore[misc]
    """Takes in the messages of some listening sockets; oslo.messaging starts and stops it."""

    def __init__(
        self,
        servers: Sequence[socket.socket],
        limit: int,
        batch: tuple[int, float | None] = (1, None),
    ) -> None:
        """``servers`` listen; ``limit``: bytes of a frame; ``batch``: messages, seconds to wait."""
        super().__init__(batch[0] or 1, batch[1])
        self._servers = {server: os.stat(server.getsockname()).st_ino for server in servers}
        self._limit = limit
        self._lines: set[incoming.Line] = set()
        self._pending: list[incoming.Incoming] = []
        self._flush_at: float | None = None
        self._stopping = False
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ, self._woken.recv)
        for server in servers:
            server.setblocking(False)
            self._selector.register(
                server, selectors.EVENT_READ, lambda _, s=server: self._accept(s)
            )
        self._thread = threading.Thread(target=self._run, name="rpc-listener", daemon=True)
        sockets.close_in_children(self)

    # -- what oslo.messaging calls -----------------------------------------------------------

    def start(self, on_incoming_callback: Callable[[list[Any]], None]) -> None:
        """Begin to hand lists of messages to the callback."""
        super().start(on_incoming_callback)
        self._thread.start()

    def stop(self) -> None:
        """Take no more messages: new connections are refused, idle ones closed.

        A connection with a call being worked on is closed when that is answered.
        """
        if self._stopping:
            return
        self._stopping = True
        if self._thread.is_alive():
            self._wake.send(b"!")
            self._thread.join()
        for server, inode in self._servers.items():
            _unlink(server, inode)
            server.close()
        for line in list(self._lines):
            line.drain()
        super().stop()

    def cleanup(self) -> None:
        """Close everything, even connections that still wait for an answer."""
        self.stop()
        self.close()

    def close(self) -> None:
        """Close all file descriptors and touch nothing else, as a forked child must."""
        for line in list(self._lines):
            line.close()
        things: list[sockets.Closable] = [self._wake, self._woken, self._selector, *self._servers]
        for thing in things:
            thing.close()
        with contextlib.suppress(OSError):
            os.close(self._spare)
        self._spare = -1

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(self._patience()):
                key.data(1)
            self._flush()

    def _patience(self) -> float | None:
        return None if self._flush_at is None else max(self._flush_at - time.monotonic(), 0)

    def _accept(self, server: socket.socket) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, _address = server.accept()
            except BlockingIOError:
                return
            except OSError as why:
                self._turn_away(server, why)
                return
            line = incoming.Line(sock, self._limit)
            self._lines.add(line)
            self._selector.register(
                sock, selectors.EVENT_READ, lambda _, line=line: self._read(line)
            )

    def _turn_away(self, server: socket.socket, why: OSError) -> None:
        """Out of file descriptors: spend the spare one on hanging up, else the loop would spin."""
        LOG.error("Cannot accept an RPC connection: %s", why)
        if why.errno not in {errno.EMFILE, errno.ENFILE}:
            return
        os.close(self._spare)
        with contextlib.suppress(OSError):
            server.accept()[0].close()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _read(self, line: incoming.Line) -> None:
        try:
            for message in line.read():
                self._take(message)
        except (faults.FrameTooLarge, faults.BadFrame) as why:
            LOG.warning("Hung up on an RPC client: %s", why)
            line.refuse(why)
            self._forget(line)
        except OSError:
            self._forget(line)
        except Exception:
            # One connection must never end the thread that serves them all.
            LOG.exception("Handing on an RPC message failed unexpectedly")
            self._forget(line)

    def _forget(self, line: incoming.Line) -> None:
        self._lines.discard(line)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.sock)
        line.close()

    def _take(self, message: incoming.Incoming) -> None:
        self._pending.append(message)
        if len(self._pending) >= self.batch_size:
            self._flush(full=True)
        elif self._flush_at is None and self.batch_timeout is not None:
            self._flush_at = time.monotonic() + self.batch_timeout

    def _flush(self, *, full: bool = False) -> None:
        """Hand on a batch that is full, or has waited long enough."""
        due = full or (self._flush_at is not None and time.monotonic() >= self._flush_at)
        if not (self._pending and (due or self._stopping)):
            return
        batch, self._pending, self._flush_at = self._pending, [], None
        self.on_incoming_callback(batch)


def _unlink(server: socket.socket, inode: int) -> None:
    """Remove the socket's file, unless another process has put its own in the place."""
    path = server.getsockname()
    with contextlib.suppress(OSError):
        if os.stat(path).st_ino == inode:
            os.unlink(path)
