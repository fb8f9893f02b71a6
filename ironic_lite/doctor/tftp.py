"""A read request to a TFTP server, for the first block of a file (RFC 1350).

The transfer is ended after that block. Sockets are plain, and each wait is limited.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time

PORT = 69
_READ, _DATA, _ERROR = 1, 3, 5
_TRIES, _SECONDS = 2, 2.0
_BLOCK = 512
_MOST = 1024
_HEAD = struct.Struct("!HH")


class TftpFailed(Exception):
    """The server did not send the file; the text gives the reason."""


def first_block(server: str, name: str, port: int = PORT) -> int:
    """Return the number of bytes in the first block of a file.

    :param server: a name or an IP address.
    :raises TftpFailed: no answer within `_TRIES` requests, or the server refuses.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            server, port, type=socket.SOCK_DGRAM
        )[0]
    except (OSError, UnicodeError) as why:
        raise TftpFailed(f"the name {server} cannot be resolved") from why
    request = struct.pack("!H", _READ) + name.encode() + b"\0octet\0"
    with contextlib.closing(socket.socket(family, kind, protocol)) as sock:
        for _ in range(_TRIES):
            try:
                sock.sendto(request, address)
                answer, sender = _read_answer(sock, str(address[0]))
            except TimeoutError:
                continue
            except OSError as why:
                reason = (why.strerror or type(why).__name__).lower()
                raise TftpFailed(f"{server}: {reason}") from why
            with contextlib.suppress(OSError):
                # Code 0 with a text: the transfer is not wanted any more.
                sock.sendto(_HEAD.pack(_ERROR, 0) + b"examined\0", sender)
            return _block_size(answer)
    raise TftpFailed(f"no answer from {server} within {_TRIES * _SECONDS:g} s")


def _read_answer(sock: socket.socket, server: str) -> tuple[bytes, tuple[object, ...]]:
    """Return the server's next packet, from whatever port it uses for the transfer.

    :raises TimeoutError: none has arrived in time.
    """
    end = time.monotonic() + _SECONDS
    while True:
        sock.settimeout(max(0.001, end - time.monotonic()))
        answer, sender = sock.recvfrom(_MOST)
        if sender[0] == server and len(answer) >= _HEAD.size:
            return answer, sender


def _block_size(answer: bytes) -> int:
    kind, number = _HEAD.unpack_from(answer)
    if kind == _ERROR:
        text = answer[_HEAD.size :].partition(b"\0")[0].decode("ascii", "replace")
        words = "".join(letter if letter.isprintable() else "?" for letter in text)
        raise TftpFailed(f"the server refuses (error {number}): {words or 'no reason given'}")
    if kind != _DATA:
        raise TftpFailed(f"the answer is not TFTP data (opcode {kind})")
    return len(answer) - _HEAD.size
