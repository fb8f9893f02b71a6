"""A message that came in, and the line to answer it on."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

from oslo_messaging._drivers import base, common

from ironic_lite.rpc.local import faults, frames, sockets

LOG = logging.getLogger(__name__)


class Line:
    """The server's side of one connection: read by the listener's thread, written by any."""

    def __init__(self, sock: socket.socket, limit: int) -> None:
        self.sock = sock
        self.limit = limit
        self._reader = frames.Reader(limit)
        self._lock = threading.Lock()
        self._owed = 0
        self._draining = False
        sockets.bound_sending(sock)

    def read(self) -> Iterator[Incoming]:
        """Yield the messages that are complete now.

        :raises OSError: the client has hung up.
        :raises faults.FrameTooLarge, faults.BadFrame: the client sends what this server can't take.
        """
        try:
            chunk = self.sock.recv(self._reader.wanted, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not chunk:
            raise ConnectionResetError
        for body in self._reader.feed(chunk):
            message = _message(self, body)
            with self._lock:
                self._owed += message.is_call
            yield message

    def answer(self, frame: bytes, *, final: bool) -> None:
        """Send an answer, or with ``final`` False a sign of life. Raises OSError: nobody hears."""
        with self._lock:
            try:
                self.sock.sendall(frame)
            except OSError:
                # Half an answer may be out: nothing after it would be understood.
                with contextlib.suppress(OSError):
                    self.sock.shutdown(socket.SHUT_RDWR)
                raise
            finally:
                self._owed -= final
                if self._draining and not self._owed:
                    self.sock.close()

    def hung_up(self) -> bool:
        """Say whether the client has closed the connection."""
        try:
            return not self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def refuse(self, why: Exception) -> None:
        """Tell the client why this connection ends, if it listens."""
        # An answer that is being sent just now must not be broken in two.
        if not self._lock.acquire(blocking=False):
            return
        with contextlib.suppress(OSError):
            self.sock.send(frames.refusal(why), socket.MSG_DONTWAIT)
        self._lock.release()

    def drain(self) -> None:
        """Close the connection as soon as no answer is owed on it."""
        with self._lock:
            self._draining = True
            if not self._owed:
                self.sock.close()

    def close(self) -> None:
        """Hang up now."""
        self.sock.close()


class Incoming(base.RpcIncomingMessage):  # type: ignore[misc]
    """One message, as oslo.messaging's dispatchers want it."""

    def __init__(self, line: Line, body: frames.Body) -> None:
        super().__init__(body["ctxt"], body["msg"], msg_id=str(body["id"]))
        self.client_timeout = body.get("monitor")
        self.is_call: bool = body.get("reply") is True
        self._ident: int = body["id"]
        self._line = line

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the result, or the exception of the ``sys.exc_info()`` tuple ``failure``."""
        if not self.is_call:
            return
        body: frames.Body = {"id": self._ident}
        if failure:
            body["failure"] = common.serialize_remote_exception(failure)
        else:
            body["result"] = reply
        self._send(self._frame(body), final=True)

    def _frame(self, body: frames.Body) -> bytes:
        """Encode an answer, or if that fails a refusal: silence would cost a time-out."""
        try:
            return frames.encode(body, self._line.limit, "answer")
        except (faults.FrameTooLarge, TypeError) as why:
            LOG.error("The answer of RPC method %s cannot be sent: %s", self._method, why)
            return frames.refusal(why, self._ident)

    @property
    def _method(self) -> str:
        return str(self.message.get("method"))

    def heartbeat(self) -> None:
        """Tell the caller that its call is still worked on. Raises OSError if it is gone."""
        self._line.answer(
            frames.encode({"id": self._ident, "beat": True}, self._line.limit), final=False
        )

    def given_up(self) -> bool:
        """Say whether a caller waited and does so no more: a connection serves one call at once."""
        return self.is_call and self._line.hung_up()

    def _send(self, frame: bytes, *, final: bool) -> None:
        try:
            self._line.answer(frame, final=final)
        except OSError as why:
            LOG.debug("Nobody waits for the answer of RPC method %s: %s", self._method, why)

    def requeue(self) -> None:
        """Refuse, as `LocalDriver.require_features` does: there is no queue to put it back into."""
        raise NotImplementedError("local:// has no queue to put a message back into")


def _message(line: Line, body: frames.Body) -> Incoming:
    if not (
        isinstance(body.get("id"), int)
        and isinstance(body.get("ctxt"), dict)
        and isinstance(body.get("msg"), dict)
    ):
        raise faults.BadFrame("the frame is not a request: it lacks id, ctxt or msg")
    return Incoming(line, body)
