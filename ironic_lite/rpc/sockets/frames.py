"""Frames on a socket: a 4-byte big-endian length and that many bytes of JSON.

====================  ==========================================================================
request               ``{"id": int, "ctxt": {}, "msg": {}, "reply": bool, "monitor": int | None}``
answer                ``{"id": int, "result": any}``
remote exception      ``{"id": int, "failure": str}``, serialised by oslo.messaging
keepalive             ``{"id": int, "beat": true}``, only if the request has ``monitor`` seconds
refusal               ``{"id": int | None, "refused": {"reason": str, "what": str | None,
                      "size": int | None, "limit": int | None}}``; without id it is the last
question              ``{"ping": true}``, before a request: does the server read?
reply                 ``{"pong": true}``
====================  ==========================================================================

``id`` is unique on its connection. A client has one call at a time on a connection, so a slow call
never delays another call.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ironic_lite.core.json_types import Json
from ironic_lite.rpc import encoding
from ironic_lite.rpc.sockets import transport_errors

Body = Json

HEADER = struct.Struct("!I")
_CHUNK = 64 * 1024
_LARGE_CHUNK = 1024 * 1024
_PING, _PONG = "ping", "pong"


def encode(body: Body, limit: int, what: str = "request") -> bytes:
    """Return the frame of ``body``.

    :raises transport_errors.FrameTooLarge: its JSON is longer than ``limit`` bytes.
    :raises TypeError: a value has no JSON form.
    """
    payload = encoding.dumps(body)
    if len(payload) > limit:
        raise transport_errors.FrameTooLarge(len(payload), limit, what)
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
        return transport_errors.FrameTooLarge(reason["size"], reason["limit"], reason["what"])
    return transport_errors.BadFrame(reason.get("reason"))


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

        :raises transport_errors.FrameTooLarge: a frame announces more than the limit.
        :raises transport_errors.BadFrame: a frame is not a JSON object.
        """
        self._buffer += chunk
        while len(self._buffer) >= HEADER.size:
            (size,) = HEADER.unpack_from(self._buffer)
            if size > self._limit:
                raise transport_errors.FrameTooLarge(size, self._limit, self._what)
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
        raise transport_errors.BadFrame(f"the frame is not JSON: {why}") from None
    if not isinstance(body, dict):
        raise transport_errors.BadFrame(f"the frame is a JSON {type(body).__name__}, not an object")
    return body
