"""A TFTP server of one folder, which sends the first block of a file and no more."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import struct
import threading
from collections.abc import Iterator

_READ, _DATA, _ERROR = 1, 3, 5
_BLOCK = 512


@contextlib.contextmanager
def serve(folder: pathlib.Path) -> Iterator[int]:
    """Serve a folder on 127.0.0.1 for the length of the block; give the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(0.05)
        ended = threading.Event()
        thread = threading.Thread(target=_answer_requests, args=(sock, folder, ended))
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            ended.set()
            thread.join()


def _answer_requests(sock: socket.socket, folder: pathlib.Path, ended: threading.Event) -> None:
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            request, client = sock.recvfrom(1024)
            if struct.unpack_from("!H", request)[0] != _READ:
                continue
            name = request[2:].partition(b"\0")[0].decode()
            # Each transfer has a port of its own (RFC 1350, 4).
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as transfer:
                try:
                    answer = struct.pack("!HH", _DATA, 1) + (folder / name).read_bytes()[:_BLOCK]
                except OSError:
                    answer = struct.pack("!HH", _ERROR, 1) + b"File not found\0"
                transfer.sendto(answer, client)
