"""The server's end of connections without a broker: messages, listener, threads."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import queue
import select
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import oslo_messaging

from ironic_lite.core import log_lines
from ironic_lite.core import threads as core_threads
from ironic_lite.core.json_types import Json
from ironic_lite.rpc.sockets import frames

# A received message, and the connection for its answer.

LOG = logging.getLogger(__name__)


class Line:
    """The server's side of one connection.

    One thread at a time serves a line: it reads a message, carries it out and answers it before it
    reads again, because TLS sockets do not allow two threads. It alone closes the descriptor,
    because the kernel reuses its number at once; other threads only shut the connection down.
    """

    def __init__(self, sock: socket.socket, limit: int) -> None:
        self.sock = sock
        self.limit = limit
        self._reader = frames.Reader(limit)
        self._arrival = select.poll()
        self._arrival.register(sock, select.POLLIN)
        self._state = threading.Lock()  # held briefly, never while waiting for a peer
        # True if a call is not answered yet.
        self.running = False
        self._draining = False
        sock.settimeout(STALLED_SECONDS)

    @property
    def peer(self) -> str:
        """The address of the client, for the log."""
        try:
            return str(self.sock.getpeername())
        except OSError:
            return "unknown"

    def has_bytes(self, seconds: float | None = None) -> bool:
        """Wait for bytes of the client, or its end; return False if there are none in time."""
        return bool(self._arrival.poll(None if seconds is None else seconds * 1000))

    def receive(self) -> Incoming:
        """Wait for the next message, and return it; questions of the client are answered.

        :raises OSError: the client has closed the connection, or stopped within a message.
        :raises frames.FrameTooLarge, frames.BadFrame: the server cannot read the message.
        """
        chunk = b""
        while True:
            for body in self._reader.feed(chunk):
                if frames.is_ping(body):
                    frames.send(self.sock, frames.PONG)
                    continue
                message = _new_incoming(self, body)
                if message.is_call:
                    self._begin_call()
                return message
            if self._reader.empty:
                # Between messages there is no limit, but within them, and within a record of TLS.
                # A read takes all of a record, so none of it waits in the library.
                self.has_bytes()
            if not (chunk := self.sock.recv(self._reader.wanted)):
                raise ConnectionResetError

    def _begin_call(self) -> None:
        with self._state:
            if self._draining:
                raise ConnectionAbortedError
            self.running = True

    def answer(self, frame: bytes) -> None:
        """Send the answer to the running call. Raises OSError if the client is gone."""
        try:
            frames.send(self.sock, frame)
        except OSError:
            # Part of it may be sent, so the client could not parse anything after it.
            frames.hang_up(self.sock)
            raise
        finally:
            with self._state:
                self.running = False
                if self._draining:
                    frames.hang_up(self.sock)

    def hung_up(self) -> bool:
        """Return whether the client has closed the connection; for the thread that serves it."""
        end = select.poll()
        end.register(self.sock, select.POLLRDHUP)
        return bool(end.poll(0))

    def refuse(self, why: Exception) -> None:
        """Send the client the reason why this connection ends; for the thread that serves it."""
        with contextlib.suppress(OSError):
            frames.send(self.sock, frames.refusal(why))

    def drain(self) -> None:
        """Hang up, but after the answer if a call is running."""
        with self._state:
            self._draining = True
            if not self.running:
                frames.hang_up(self.sock)

    def close(self) -> None:
        """Close the connection; for the thread that serves it."""
        frames.hang_up(self.sock)
        self.sock.close()


class Incoming:
    """One message, with the interface of oslo.messaging's servers; see `driver`."""

    def __init__(self, line: Line, body: frames.Body) -> None:
        self.ctxt: Json = body["ctxt"]
        self.message: Json = body["msg"]
        self.msg_id = str(body["id"])
        self.client_timeout = None  # callers want no keepalives
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
            body["failure"] = frames.dump_exception(failure)
        else:
            body["result"] = reply
        try:
            self._line.answer(self._answer_frame(body))
        except OSError as why:
            LOG.debug("No caller waits for the answer of RPC method %s: %s", self._method_name, why)

    def _answer_frame(self, body: frames.Body) -> bytes:
        """Encode an answer; if that fails, a refusal, which spares the caller a time-out."""
        try:
            return frames.encode(body, self._line.limit, "answer")
        except (frames.FrameTooLarge, TypeError) as why:
            LOG.error("The answer of RPC method %s cannot be sent: %s", self._method_name, why)
            return frames.refusal(why, self._ident)

    @property
    def _method_name(self) -> str:
        return str(self.message.get("method"))

    def heartbeat(self) -> None:
        """Do nothing: the kernel notices a lost machine, and a dead process."""

    def given_up(self) -> bool:
        """Return whether the caller has closed its connection, which has one call."""
        return self.is_call and self._line.hung_up()

    def requeue(self) -> None:
        """Refuse, like `SocketDriver.require_features`: there is no queue for the message."""
        raise NotImplementedError("no broker has a queue to put a message back into")


def _new_incoming(line: Line, body: frames.Body) -> Incoming:
    if not (
        isinstance(body.get("id"), int)
        and isinstance(body.get("ctxt"), dict)
        and isinstance(body.get("msg"), dict)
    ):
        raise frames.BadFrame("the frame is not a request: it lacks id, ctxt or msg")
    return Incoming(line, body)


# The server's end: a thread accepts connections, and a thread of a pool serves each of them.
#
# An idle thread waits in the kernel, and takes a few dozen KiB. Clients that do not complete their
# authentication or a message are hung up after some seconds. While many authentications are under
# way, new clients wait in the kernel's queue.

CONNECTIONS = 2048
"""Most connections; those of further clients wait in the kernel's queue until another ends."""

STRANGERS = 256
"""Most connections without authentication; further ones wait until they are accepted."""

SILENT_SECONDS = 1.0
"""A stranger that has sent nothing for so long is hung up when its place is needed.

One that sends byte by byte has its place for twice as long.
"""

STALLED_SECONDS = 10.0
"""Time limit of an authentication, and of a pause within a message, which then is a dead client."""

_NO_DESCRIPTOR_SECONDS = 0.1
"""Pause between two attempts to accept a connection without any free descriptor."""

Callback = Callable[[list[Any]], Sequence[core_threads.Work] | None]
"""Takes messages, and may return work that follows in the same thread."""


def _remove_nothing() -> None:
    """Do nothing: the address ends with its socket."""


@dataclasses.dataclass(frozen=True)
class ServerSocket:
    """A listening socket.

    ``remove`` removes its address when the listener stops. ``context`` returns the context of TLS
    for a new connection; ``greeting`` is sent to each client that is authenticated.
    """

    sock: socket.socket
    remove: Callable[[], None] = _remove_nothing
    context: Callable[[], ssl.SSLContext] | None = None
    greeting: bytes = b""


class Listener:
    """Receives messages of listening sockets; oslo.messaging starts and stops it."""

    def __init__(
        self,
        servers: Sequence[ServerSocket],
        limit: int,
        batch: tuple[int, float | None] = (1, None),
    ) -> None:
        """``limit``: bytes of a frame; ``batch``: count, seconds."""
        self.pool = core_threads.WarmPool(CONNECTIONS, "rpc")
        self._hand_on: Callback = lambda _: None
        self.batch_size, self.batch_timeout = batch[0] or 1, batch[1]
        self._batches = queue.SimpleQueue[Incoming | None]()
        self._servers = servers
        self._limit = limit
        self._lines: set[Line] = set()
        self._strangers: dict[Line, float] = {}
        """By line without authentication: the time from which its silence counts."""
        self._changed = threading.Condition()  # for the lines; held briefly
        self._refusals = log_lines.LogThrottle()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._accept, args=(one,), name="rpc-listener", daemon=True)
            for one in servers
        ]
        frames.close_in_children(self)

    # -- what oslo.messaging calls -----------------------------------------------------------

    def start(self, on_incoming_callback: Callback) -> None:
        """Start to pass lists of messages to the callback, in the threads of the connections.

        A call is answered when the callback returns, or never.
        """
        self._hand_on = on_incoming_callback
        if self.batch_size > 1:
            self._hand_on = lambda messages: self._batches.put(messages.pop())
            collect = functools.partial(self._collect, on_incoming_callback)
            self._threads.append(threading.Thread(target=collect, name="rpc-batches", daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Accept no more messages: refuse new connections, close idle ones.

        A connection with a running call is closed after its answer.
        """
        if self._stopping:
            return
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._batches.put(None)
        for server in self._servers:
            server.remove()
            frames.hang_up(server.sock)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for server in self._servers:
            server.sock.close()
        for line in list(self._lines):
            line.drain()

    def cleanup(self) -> None:
        """Close all connections, even those that wait for an answer."""
        self.stop()
        for line in list(self._lines):
            frames.hang_up(line.sock)
        self.pool.drain(0)

    def close(self) -> None:
        """Close all file descriptors and nothing else, as a forked child must."""
        for sock in [one.sock for one in self._servers] + [one.sock for one in self._lines]:
            sock.close()

    # -- the threads -------------------------------------------------------------------------

    def _accept(self, server: ServerSocket) -> None:
        while not self._stopping:
            self._await_room()
            try:
                sock, _address = server.sock.accept()
            except OSError as why:
                if not self._stopping:
                    if self._refusals.new(str(why)):
                        LOG.error("Cannot accept an RPC connection: %s", why)
                    time.sleep(_NO_DESCRIPTOR_SECONDS)  # otherwise the loop would spin
                continue
            try:
                self._add_line(server, sock)
            except OSError as why:  # such as a scan of ports, which must not fill the log
                LOG.debug("An RPC client is gone before its authentication: %s", why)
                sock.close()
            except Exception:
                # One connection must not end the thread that accepts all of them.
                LOG.exception("Accepting an RPC connection failed unexpectedly")
                sock.close()

    def _await_room(self) -> None:
        """Wait until a stranger may be accepted, perhaps in the place of a silent one."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) < CONNECTIONS or self._stopping)
            while len(self._strangers) >= STRANGERS and not self._stopping:
                left = min(self._strangers.values()) + SILENT_SECONDS - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)

    def _add_line(self, server: ServerSocket, sock: socket.socket) -> None:
        serve = self._serve
        if server.context is not None:
            sock = server.context().wrap_socket(
                sock, server_side=True, do_handshake_on_connect=False
            )
            serve = functools.partial(self._authenticate, server.greeting)
        line = Line(sock, self._limit)
        with self._changed:
            self._lines.add(line)
            if server.context is not None:
                if len(self._strangers) >= STRANGERS:
                    oldest = min(self._strangers, key=self._strangers.__getitem__)
                    del self._strangers[oldest]
                    frames.hang_up(oldest.sock)
                self._strangers[line] = time.monotonic()
        try:
            self.pool.run(functools.partial(serve, line))
        except RuntimeError as why:  # no thread
            self._end(line, why)

    def _authenticate(self, greeting: bytes, line: Line) -> None:
        """Let the client show its certificate, then serve it."""
        try:
            self._shake_hands(line)
            frames.send(line.sock, greeting)
        except Exception as why:
            # Rarely, because scans of ports must not fill the log.
            if isinstance(why, ssl.SSLError) and self._refusals.new(str(why)):
                LOG.warning("Refused an RPC client at %s: %s", line.peer, why)
            self._end(line, why)
            return
        with self._changed:
            self._strangers.pop(line, None)
            self._changed.notify()
        self._serve(line)

    def _shake_hands(self, line: Line) -> None:
        assert isinstance(line.sock, ssl.SSLSocket)
        begun = time.monotonic()
        end = begun + STALLED_SECONDS
        line.sock.settimeout(0)
        while True:
            try:
                line.sock.do_handshake()
            except ssl.SSLWantReadError:
                if not line.has_bytes(max(end - time.monotonic(), 0)):
                    raise TimeoutError("the authentication does not end") from None
                with self._changed:
                    if line in self._strangers:
                        self._strangers[line] = min(time.monotonic(), begun + SILENT_SECONDS)
            else:
                line.sock.settimeout(STALLED_SECONDS)
                return

    def _serve(self, line: Line) -> None:
        """Carry out the messages of a connection, until a call leaves work to this thread.

        Another thread then goes on with the connection.
        """
        work: Sequence[core_threads.Work] | None = None
        try:
            while not work:
                work = self._hand_on([line.receive()])
                if line.running:  # its answer has failed, so the caller must not wait for it
                    raise ConnectionAbortedError
            self.pool.run(functools.partial(self._serve, line))
        except Exception as why:
            self._end(line, why)
        for one in work or ():
            self.pool.step_out(one)

    def _end(self, line: Line, why: Exception) -> None:
        """Close a connection whose client cannot be served any more, or does not want to be."""
        match why:
            case frames.FrameTooLarge() | frames.BadFrame():
                if self._refusals.new(type(why).__name__):
                    LOG.warning("Closed the connection of an RPC client: %s", why)
                line.refuse(why)
            case OSError():
                LOG.debug("An RPC connection has ended: %s", why)
            case _ if not self._stopping:
                LOG.error("An RPC connection failed unexpectedly", exc_info=why)
        with self._changed:
            self._lines.discard(line)
            self._strangers.pop(line, None)
            self._changed.notify()
        line.close()

    def _collect(self, hand_on: Callback) -> None:
        """Pass on batches of messages that are full or have waited long enough."""
        wait = threading.TIMEOUT_MAX if self.batch_timeout is None else self.batch_timeout
        while not self._stopping:
            batch, end = [self._batches.get()], time.monotonic() + wait
            with contextlib.suppress(queue.Empty):
                while len(batch) < self.batch_size and not self._stopping:
                    left = end - time.monotonic()
                    batch.append(self._batches.get(timeout=max(left, 0)))
            if found := [message for message in batch if message is not None]:
                hand_on(found)


# The server of transports without a broker.
#
# oslo.messaging's own server gives calls to its threads in turn, and each thread wakes every
# second. Both take CPU time: a short call costs up to twice as much as here.


class CallHandler(Protocol):
    """Carries out calls."""

    def dispatch(self, incoming: Any) -> Any:
        """Return the result of a call.

        :raises oslo_messaging.ExpectedException: contains the error for the caller.
        """


class SocketServer:
    """Passes the messages of one listener to a dispatcher, and sends the answers.

    It has the methods of ``oslo_messaging.RPCServer``. A call runs in the thread of its connection.

    :param listen: returns a new listener.
    :param calls: calls at once; further calls wait.
    """

    def __init__(self, listen: Callable[[], Listener], dispatcher: CallHandler, calls: int) -> None:
        self.listener: Listener | None = None
        self._listen = listen
        self._dispatcher = dispatcher
        self._places = threading.Semaphore(calls)

    def start(self) -> None:
        """Listen. Raises as ``SocketDriver.listen``."""
        self.listener = self._listen()
        self.listener.start(self._take_message)

    def stop(self) -> None:
        """Accept no more messages; running calls continue."""
        if self.listener is not None:
            self.listener.stop()

    def wait(self) -> None:
        """Wait after `stop` until all calls are answered, then close the connections."""
        if self.listener is not None:
            self.listener.pool.drain()
            self.listener.cleanup()

    def _take_message(self, messages: list[Incoming]) -> Sequence[core_threads.Work]:
        """Answer the only one of ``messages``; return the work that its method has deferred.

        The list is emptied, so a message with its secrets is freed before long work.
        """
        if messages[0].is_call:
            return self._carry_out(messages)
        # The client may use the connection of a message without answer for a call at once.
        assert self.listener is not None
        self.listener.pool.run(functools.partial(self._carry_out_cast, messages[:]))
        return ()

    def _carry_out_cast(self, messages: list[Incoming]) -> None:
        assert self.listener is not None
        for work in self._carry_out(messages):
            self.listener.pool.step_out(work)

    def _carry_out(self, messages: list[Incoming]) -> Sequence[core_threads.Work]:
        with self._places, core_threads.deferring() as deferred:
            self._answer(messages.pop())
        return deferred

    def _answer(self, message: Incoming) -> None:
        failure = result = None
        try:
            result = self._dispatcher.dispatch(message)
        except oslo_messaging.ExpectedException as why:
            failure = why.exc_info
        except Exception:
            failure = sys.exc_info()
            LOG.exception("RPC method %s failed unexpectedly", message.message.get("method"))
        try:
            message.reply(result, failure)
        except Exception:
            LOG.exception("The answer of RPC method %s failed", message.message.get("method"))
        finally:
            del failure  # its traceback refers to this frame
