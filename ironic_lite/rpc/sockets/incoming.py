"""A received message, and the connection for its answer."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

from ironic_lite.core.json_types import Json
from ironic_lite.rpc.sockets import ciphers, frames, kernel, remote, transport_errors

LOG = logging.getLogger(__name__)


class Line:
    """The server's side of one connection: one thread reads, any thread writes.

    The descriptor is closed when the last thread that uses it has left, because the kernel reuses
    its number at once, and an answer would go to the wrong file. Until then the connection is only
    shut down, which ends the waits of those threads.
    """

    def __init__(
        self, sock: socket.socket, limit: int, cipher: ciphers.Cipher = ciphers.PLAIN
    ) -> None:
        self.sock = sock
        self.limit = limit
        self._cipher = cipher
        self._reader = frames.Reader(limit)
        self._sending = threading.Lock()
        self._state = threading.Lock()  # held briefly, never while waiting for a peer
        self._users = 0
        self._owed = 0
        self._draining = self._closed = False
        kernel.bound_sending(sock)

    @property
    def peer(self) -> str:
        """The address of the client, for the log."""
        try:
            return str(self.sock.getpeername())
        except OSError:
            return "unknown"

    @property
    def established(self) -> bool:
        """True once the client is authenticated."""
        return self._cipher.established

    @property
    def complete(self) -> bool:
        """True between two messages, False within one or before the first is allowed."""
        return self._cipher.established and self._cipher.empty and self._reader.empty

    def _enter(self) -> None:
        """Keep the descriptor open until `_leave`. Raises BrokenPipeError if closed."""
        with self._state:
            if self._closed:
                raise BrokenPipeError
            self._users += 1

    def _leave(self) -> None:
        with self._state:
            self._users -= 1
            if self._closed and not self._users:
                self.sock.close()

    def read(self) -> Iterator[Incoming]:
        """Yield the messages that are now complete.

        :raises OSError: the client has closed the connection, or the cipher refuses it.
        :raises transport_errors.FrameTooLarge, transport_errors.BadFrame: the server cannot read
            the client's message.
        """
        # Only the reading thread closes a line, so the descriptor is open here.
        try:
            chunk = self.sock.recv(self._reader.wanted, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not chunk:
            raise ConnectionResetError
        for body in self._reader.feed(self._decrypt(chunk)):
            if frames.is_ping(body):
                self._send_now(frames.PONG)
                continue
            message = _new_incoming(self, body)
            with self._state:
                self._owed += message.is_call
            yield message

    def _decrypt(self, chunk: bytes) -> bytes:
        try:
            return self._cipher.decrypt(chunk)
        finally:
            # The replies before authentication are small, so they fit into the kernel's buffer.
            reply = self._cipher.take_reply()
            if reply and self.sock.send(reply, socket.MSG_DONTWAIT) != len(reply):
                raise ConnectionResetError

    def answer(self, frame: bytes, *, final: bool) -> None:
        """Send an answer, or a keepalive. Raises OSError if the client is gone."""
        self._enter()
        try:
            with self._sending:
                self._send_answer(frame)
        finally:
            with self._state:
                self._owed -= final
                if self._draining and not self._owed:
                    self._hang_up()
            self._leave()

    def _send_answer(self, frame: bytes) -> None:
        try:
            for piece in self._cipher.encrypt(frame):
                self.sock.sendall(piece)
        except OSError:
            # Part of an answer may be sent, so the client could not parse anything after it.
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
            raise

    def hung_up(self) -> bool:
        """Return whether the client has closed the connection."""
        try:
            self._enter()
        except BrokenPipeError:
            return True
        try:
            return not self.sock.recv(1, kernel.PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self._leave()

    def refuse(self, why: Exception) -> None:
        """Send the client the reason why this connection ends; for the reading thread."""
        self._send_now(frames.refusal(why))

    def _send_now(self, frame: bytes) -> None:
        """Send a short frame without waiting for the client, which may miss it."""
        # Do not interrupt an answer that is being sent.
        if not self._sending.acquire(blocking=False):
            return
        with contextlib.suppress(OSError):
            self.sock.send(b"".join(self._cipher.encrypt(frame)), socket.MSG_DONTWAIT)
        self._sending.release()

    def drain(self) -> None:
        """Close the connection once all its answers are sent."""
        with self._state:
            self._draining = True
            if not self._owed:
                self._hang_up()

    def close(self) -> None:
        """Close the connection now; threads that wait for its client continue."""
        with self._state:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        if not self._users:
            self.sock.close()

    def abandon(self) -> None:
        """Close the descriptor in a forked child; the parent keeps the connection."""
        self.sock.close()


class Incoming:
    """One message, with the interface of oslo.messaging's servers; see `driver`."""

    def __init__(self, line: Line, body: frames.Body) -> None:
        self.ctxt: Json = body["ctxt"]
        self.message: Json = body["msg"]
        self.msg_id = str(body["id"])
        monitor = body.get("monitor")
        self.client_timeout = monitor if isinstance(monitor, int | float) else None
        self.is_call: bool = body.get("reply") is True
        self._ident: int = body["id"]
        self._line = line

    def acknowledge(self) -> None:
        """Do nothing, because a socket delivers a message only once."""

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the result, or the exception of the ``sys.exc_info()`` tuple ``failure``."""
        if not self.is_call:
            return
        body: frames.Body = {"id": self._ident}
        if failure:
            body["failure"] = remote.dump(failure)
        else:
            body["result"] = reply
        self._send_answer(self._answer_frame(body), final=True)

    def _answer_frame(self, body: frames.Body) -> bytes:
        """Encode an answer; if that fails, a refusal, which spares the caller a time-out."""
        try:
            return frames.encode(body, self._line.limit, "answer")
        except (transport_errors.FrameTooLarge, TypeError) as why:
            LOG.error("The answer of RPC method %s cannot be sent: %s", self._method_name, why)
            return frames.refusal(why, self._ident)

    @property
    def _method_name(self) -> str:
        return str(self.message.get("method"))

    def heartbeat(self) -> None:
        """Send the caller a keepalive for its call. Raises OSError if the caller is gone."""
        self._line.answer(
            frames.encode({"id": self._ident, "beat": True}, self._line.limit), final=False
        )

    def given_up(self) -> bool:
        """Return whether the caller has closed its connection, which has one call."""
        return self.is_call and self._line.hung_up()

    def _send_answer(self, frame: bytes, *, final: bool) -> None:
        try:
            self._line.answer(frame, final=final)
        except OSError as why:
            LOG.debug("No caller waits for the answer of RPC method %s: %s", self._method_name, why)

    def requeue(self) -> None:
        """Refuse, like `SocketDriver.require_features`: there is no queue for the message."""
        raise NotImplementedError("no broker has a queue to put a message back into")


def _new_incoming(line: Line, body: frames.Body) -> Incoming:
    if not (
        isinstance(body.get("id"), int)
        and isinstance(body.get("ctxt"), dict)
        and isinstance(body.get("msg"), dict)
    ):
        raise transport_errors.BadFrame("the frame is not a request: it lacks id, ctxt or msg")
    return Incoming(line, body)
