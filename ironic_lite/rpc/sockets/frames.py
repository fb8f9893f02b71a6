"""Frames on a socket: a 4-byte big-endian length and that many bytes of JSON.

====================  ==========================================================================
request               ``{"id": int, "ctxt": {}, "msg": {}, "reply": bool}``
answer                ``{"id": int, "result": any}``
remote exception      ``{"id": int, "failure": str}``, serialised by oslo.messaging
refusal               ``{"id": int | None, "refused": {"reason": str, "what": str | None,
                      "size": int | None, "limit": int | None}}``; without id it is the last
question              ``{"ping": true}``, before a request: does the server read?
reply                 ``{"pong": true}``
====================  ==========================================================================

``id`` is unique on its connection. A client has one call at a time on a connection, so a slow call
never delays another call.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import struct
import weakref
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Protocol

import oslo_messaging

from ironic_lite.core import options
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import Configuration
from ironic_lite.rpc import encoding

MIB = 1024 * 1024
LIMIT_GROUP = "oslo_messaging_local"


def frame_limit(conf: Configuration) -> int:
    """Return the most bytes of a message; ``conf`` may be another program's."""
    conf.register_opts(options.GROUPS[LIMIT_GROUP], group=LIMIT_GROUP)
    return int(conf[LIMIT_GROUP].frame_limit_mib) * MIB


# Errors of transports over sockets, in the form that oslo.messaging's callers expect.
#
# ::
#
#     oslo_messaging.MessagingException
#     +- oslo_messaging.MessagingTimeout            no answer in time (raised as it is)
#     +- oslo_messaging.MessageDeliveryFailure
#     |  +- PeerAbsent                              no server listens there: nothing was done
#     |  +- PeerLost                                it went away before the answer: it may have done
#     |                                             any part of the call
#     +- FrameTooLarge                              a message over the limit of either side
#     +- NoServerNamed                              the transport cannot reach an unnamed server
#     +- BadFrame                                   not a message, or an answer without JSON form

_LIMIT_OPTION = f"[{LIMIT_GROUP}]frame_limit_mib"


class PeerAbsent(oslo_messaging.MessageDeliveryFailure):  # type: ignore[misc]
    """No server listens at this address; the message was not delivered."""


class PeerLost(oslo_messaging.MessageDeliveryFailure):  # type: ignore[misc]
    """The server went away during the call; it may have done any part of it."""


class NoServerNamed(oslo_messaging.MessagingException):  # type: ignore[misc]
    """The transport reaches servers by their names only."""


class BadFrame(oslo_messaging.MessagingException):  # type: ignore[misc]
    """The bytes are not a message of this transport, or a value has no JSON form."""


class FrameTooLarge(oslo_messaging.MessagingException):  # type: ignore[misc]
    """A message of ``size`` bytes exceeds ``limit`` bytes.

    ``what`` is "request" or "answer"; ``option`` sets the limit.
    """

    def __init__(
        self, size: int, limit: int, what: str = "request", option: str = _LIMIT_OPTION
    ) -> None:
        super().__init__(
            f"the {what} of {size / MIB:.1f} MiB is larger than the "
            f"{limit / MIB:g} MiB which {option} allows"
        )
        self.size = size
        self.limit = limit
        self.what = what


def system_reason(why: OSError) -> str:
    """Return the words of an error of the system."""
    return why.strerror or str(why)


# Exceptions as text, for failed calls.
#
# The form is that of oslo.messaging's other transports, a JSON object in a string, so both sides of
# an upgrade understand each other. Tracebacks stay in the server's log, because they may contain
# secrets.

Raised = tuple[type[BaseException], BaseException, TracebackType | None]


def dump_exception(raised: Raised) -> str:
    """Return an exception as text.

    :param raised: as ``sys.exc_info()`` returns it. The exception's attribute ``kwargs``, if any,
        contains the keyword arguments to rebuild it with.
    """
    error = raised[1]
    data: Json = {
        "class": type(error).__name__,
        "module": type(error).__module__,
        "message": str(error),
        "tb": [],
        "args": error.args,
        "kwargs": getattr(error, "kwargs", {}),
    }
    try:
        return encoding.dumps(data).decode()
    except TypeError:
        # The caller gets a RemoteError with the message.
        return encoding.dumps({**data, "args": [str(error)], "kwargs": {}}).decode()


def load_exception(text: str, modules: Collection[str]) -> Exception:
    """Return the exception that a text describes.

    :param modules: names of the modules whose exceptions are rebuilt.
    :returns: the exception itself, or an ``oslo_messaging.RemoteError`` with its class and message.
    """
    data: Json = encoding.loads(text.encode())
    name, module = data.get("class"), data.get("module")
    unknown: Exception = oslo_messaging.RemoteError(name, data.get("message"), data.get("tb"))
    if module not in modules:
        return unknown
    try:
        kind = getattr(importlib.import_module(str(module)), str(name))
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            return unknown
        return kind(*data.get("args", ()), **data.get("kwargs", {}))
    except (AttributeError, ImportError, TypeError):
        return unknown


# Sends with a time limit, and sockets closed in forked children.
#
# A forked child holds a copy of every socket of its parent. The peer would then not see that the
# parent has died, and two processes would read one stream. Therefore every socket registered here
# is closed in the child.

SEND_SECONDS = 10.0
"""Time limit of a peer to accept a connection, or to read any of the bytes sent."""

_PIECE = 256 * 1024
"""Bytes that must be sent within the time-out of the socket."""


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


def send(sock: socket.socket, data: bytes) -> None:
    """Send all of ``data``; the time-out of ``sock`` is for each piece of it."""
    view = memoryview(data)
    for begin in range(0, len(view), _PIECE):
        sock.sendall(view[begin : begin + _PIECE])


def hang_up(sock: socket.socket) -> None:
    """End the connection for both sides and for all threads, but keep the descriptor."""
    with contextlib.suppress(OSError):
        # The method of a TLS socket would drop the state that other threads use.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def is_timeout(why: OSError) -> bool:
    """Return whether the time-out of the socket has passed, not the kernel's for a lost peer."""
    return isinstance(why, TimeoutError) and why.errno is None


Body = Json

HEADER = struct.Struct("!I")
_CHUNK = 64 * 1024
_LARGE_CHUNK = 1024 * 1024
_PING, _PONG = "ping", "pong"


def encode(body: Body, limit: int, what: str = "request") -> bytes:
    """Return the frame of ``body``.

    :raises FrameTooLarge: its JSON is longer than ``limit`` bytes.
    :raises TypeError: a value has no JSON form.
    """
    payload = encoding.dumps(body)
    if len(payload) > limit:
        raise FrameTooLarge(len(payload), limit, what)
    return HEADER.pack(len(payload)) + payload


def refusal(why: Exception, ident: int | None = None) -> bytes:
    """Return the frame that refuses a message, or reports an unsendable answer."""
    reason = {
        "reason": str(why),
        "what": getattr(why, "what", None),
        "size": getattr(why, "size", None),
        "limit": getattr(why, "limit", None),
    }
    payload = encoding.dumps({"id": ident, "refused": reason})
    return HEADER.pack(len(payload)) + payload


def refused(body: Body) -> Exception | None:
    """Return the exception that a refusal stands for, None if ``body`` is no refusal."""
    reason = body.get("refused")
    if reason is None:
        return None
    if reason.get("size") is not None:
        return FrameTooLarge(reason["size"], reason["limit"], reason["what"])
    return BadFrame(reason.get("reason"))


def _short(key: str) -> bytes:
    payload = encoding.dumps({key: True})
    return HEADER.pack(len(payload)) + payload


PING, PONG = _short(_PING), _short(_PONG)
"""The question whether a server reads, and its reply."""


def is_ping(body: Body) -> bool:
    """Return whether a client asks if the server reads."""
    return body.get(_PING) is True


class Reader:
    """Divides the bytes of one connection into frames."""

    def __init__(self, limit: int, what: str = "request") -> None:
        """``limit``: most bytes of a frame; ``what`` is read here, "request" or "answer"."""
        self._limit = limit
        self._what = what
        self._buffer = bytearray()
        self.wanted = _CHUNK
        """The number of bytes to request from the socket: more within a large frame."""

    @property
    def empty(self) -> bool:
        """True if no part of a frame waits for the rest."""
        return not self._buffer

    def feed(self, chunk: bytes) -> Iterator[Body]:
        """Add bytes from the socket; yield every frame that is now complete.

        :raises FrameTooLarge: a frame announces more than the limit.
        :raises BadFrame: a frame is not a JSON object.
        """
        self._buffer += chunk
        while len(self._buffer) >= HEADER.size:
            (size,) = HEADER.unpack_from(self._buffer)
            if size > self._limit:
                raise FrameTooLarge(size, self._limit, self._what)
            end = HEADER.size + size
            missing = end - len(self._buffer)
            if missing > 0:
                self.wanted = min(max(missing, _CHUNK), _LARGE_CHUNK)
                return
            self.wanted = _CHUNK
            payload = bytes(memoryview(self._buffer)[HEADER.size : end])
            del self._buffer[:end]
            yield _decode_body(payload)


def _decode_body(payload: bytes) -> Body:
    try:
        body = encoding.loads(payload)
    except ValueError as why:
        raise BadFrame(f"the frame is not JSON: {why}") from None
    if not isinstance(body, dict):
        raise BadFrame(f"the frame is a JSON {type(body).__name__}, not an object")
    return body
