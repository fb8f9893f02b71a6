"""The form of the bytes on a connection: as they are, or encrypted.

A cipher converts bytes and has no socket. So connections of all transports share their reads,
writes, time-outs and checks for end of file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Cipher(Protocol):
    """The conversion of one connection's bytes; any thread may call it."""

    @property
    def established(self) -> bool:
        """True once the peer is authenticated; before, `decrypt` returns nothing."""

    @property
    def empty(self) -> bool:
        """True if no part of the peer's bytes waits for the rest."""

    def encrypt(self, data: bytes) -> Iterable[bytes]:
        """Return the bytes to send for ``data``, in pieces; for one thread at a time."""

    def decrypt(self, data: bytes) -> bytes:
        """Return the data in bytes that the peer has sent.

        :raises OSError: the peer is refused or closes the connection, or the bytes are malformed.
        """

    def take_reply(self) -> bytes:
        """Return the bytes that must be sent to the peer before it is authenticated."""


class Plain:
    """Bytes as they are, for peers that the address authenticates."""

    established = True
    empty = True

    def encrypt(self, data: bytes) -> Iterable[bytes]:
        """Return ``data`` as one piece."""
        return (data,)

    def decrypt(self, data: bytes) -> bytes:
        """Return ``data``."""
        return data

    def take_reply(self) -> bytes:
        """Return nothing."""
        return b""


PLAIN = Plain()
