"""TLS for the bytes of one connection.

The library's TLS sockets cannot be read by one thread while another one writes, and ignore the
kernel's time-outs. Therefore TLS works on buffers here, and the sockets stay plain.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterable, Iterator

_HEAD = 5
"""Bytes of the head of a record; the last two are the length of the rest."""

_PIECE = 256 * 1024
"""Bytes that are encrypted at once, so that large messages need little more memory."""


class TlsCipher:
    """A cipher whose peers must show a certificate."""

    def __init__(
        self, context: ssl.SSLContext, *, server: str | None = None, greeting: bytes = b""
    ) -> None:
        """Prepare one end of a connection.

        :param server: the name that the server's certificate must have; None in the server.
        :param greeting: the first data that the server sends, once it has accepted the client.
        """
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._received, self._to_send, server_side=server is None, server_hostname=server
        )
        self._greeting = greeting
        self._reply = b""
        # Reading and writing use one state; no I/O happens while the lock is held.
        self._guard = threading.Lock()
        self._established = False
        self._head = bytearray()  # of the record that is arriving
        self._missing = 0  # bytes of this record after its head

    @property
    def established(self) -> bool:
        """True once the handshake is complete at this end."""
        return self._established

    @property
    def empty(self) -> bool:
        """True if no part of a record waits for the rest, which the library does not show."""
        return not self._head and not self._missing

    def encrypt(self, data: bytes) -> Iterable[bytes]:
        """Return the TLS records of ``data``. Raises ssl.SSLError if a part is missing."""
        if len(data) <= _PIECE:
            return (self._encrypt_piece(data),)
        return self._encrypt_large(data)

    def _encrypt_large(self, data: bytes) -> Iterator[bytes]:
        view = memoryview(data)
        for begin in range(0, len(view), _PIECE):
            yield self._encrypt_piece(view[begin : begin + _PIECE])

    def _encrypt_piece(self, data: bytes | memoryview) -> bytes:
        with self._guard:
            self._write(data)
            return self._to_send.read()

    def _write(self, data: bytes | memoryview) -> None:
        # The library may accept a part, after which the peer could not parse anything.
        if (written := self._tls.write(data)) != len(data):
            raise ssl.SSLError(f"only {written} of {len(data)} bytes were encrypted")

    def decrypt(self, data: bytes) -> bytes:
        """Return the data in received bytes, after the handshake; see `take_reply`.

        :raises ssl.SSLError: the peer is refused, refuses this end, or sends something else.
        :raises ConnectionResetError: the peer closes the connection.
        """
        with self._guard:
            self._received.write(data)
            self._follow_records(memoryview(data))
            if not self._established:
                self._advance_handshake()
            return self._read_data() if self._established else b""

    def _follow_records(self, data: memoryview) -> None:
        while data:
            if self._missing:
                size = min(self._missing, len(data))
                self._missing -= size
            else:
                size = min(_HEAD - len(self._head), len(data))
                self._head += data[:size]
                if len(self._head) == _HEAD:
                    self._missing = int.from_bytes(self._head[3:])
                    self._head.clear()
            data = data[size:]

    def _advance_handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            self._established = True
            if self._greeting:
                self._write(self._greeting)
        finally:
            # Also the alert that explains a refusal.
            self._reply += self._to_send.read()

    def _read_data(self) -> bytes:
        parts = []
        try:
            while self._received.pending or self._tls.pending():
                if not (part := self._tls.read(_PIECE)):
                    raise ConnectionResetError("it has closed the connection")
                parts.append(part)
        except ssl.SSLWantReadError:
            pass  # the rest of a record has not arrived
        return b"".join(parts)

    def take_reply(self) -> bytes:
        """Return the bytes of the handshake to send."""
        if not self._reply:
            return b""
        reply, self._reply = self._reply, b""
        return reply
