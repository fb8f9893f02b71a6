"""A web server of images, for agents and services to fetch from.

Below ``moved/`` each file is redirected to where it is, below ``cut/`` half of it arrives.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import io
import pathlib
import ssl
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pycdlib

MIB = 1024 * 1024


def disk(text: bytes = b"the system\n") -> bytes:
    """Return the image of a disk of 2 MiB with one partition, which is full of ``text``."""
    entry = struct.pack("<B3sB3sII", 0x80, b"\0\2\0", 0x83, b"\xff\xff\xff", 2048, 2048)
    boot = b"\0" * 446 + entry + b"\0" * 48 + b"\x55\xaa"
    return boot.ljust(MIB, b"\0") + (text * (MIB // len(text) + 1))[:MIB]


def drive(place: str) -> dict[str, bytes]:
    """Return the files of a configuration drive that lies in a partition, or in a file."""
    disc = pycdlib.PyCdlib()
    disc.open_fp(io.BytesIO(pathlib.Path(place).read_bytes()))
    found = {}
    for name in ("meta_data.json", "user_data"):
        out = io.BytesIO()
        disc.get_file_from_iso_fp(out, joliet_path=f"/openstack/latest/{name}")
        found[name] = out.getvalue()
    disc.close()
    return found


class Images:
    """The files of one folder, by HTTP; ``fetched`` are those that were, oldest first."""

    def __init__(
        self, folder: pathlib.Path, url: str, fetched: list[str], hanging: threading.Event
    ) -> None:
        self.folder = folder
        self.url = url
        self.fetched = fetched
        self._hanging = hanging

    def hang(self) -> None:
        """Take requests from now on, and answer none."""
        self._hanging.set()

    def put(self, name: str, content: bytes) -> dict[str, Any]:
        """Offer a file; return what instance_info says of an instance made of it."""
        (self.folder / name).write_bytes(content)
        return {
            "image_source": f"{self.url}/{name}",
            "image_os_hash_algo": "sha512",
            "image_os_hash_value": hashlib.sha512(content).hexdigest(),
            "image_disk_format": "raw",
            "image_type": "whole-disk",
        }


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(
        self,
        *args: Any,
        fetched: list[str],
        hanging: threading.Event,
        ended: threading.Event,
        **options: Any,
    ) -> None:
        self._fetched, self._hanging, self._ended = fetched, hanging, ended
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        self._fetched.append(self.path.lstrip("/"))
        if self._hanging.is_set():
            self._ended.wait()
            return
        how, _, name = self.path.lstrip("/").partition("/")
        if how == "moved":
            self.send_response(302)
            self.send_header("Location", f"/{name}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif how == "cut":
            content = (pathlib.Path(self.directory) / name).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Certificate = tuple[pathlib.Path, pathlib.Path]


@contextlib.contextmanager
def serve(folder: pathlib.Path, certificate: Certificate | None = None) -> Iterator[Images]:
    """Serve a folder for the length of the block.

    :param certificate: files of a certificate and its key: then it is https.
    """
    fetched: list[str] = []
    hanging, ended = threading.Event(), threading.Event()
    handler = functools.partial(
        _Handler, directory=str(folder), fetched=fetched, hanging=hanging, ended=ended
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    scheme = "http"
    if certificate is not None:
        scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield Images(folder, f"{scheme}://127.0.0.1:{server.server_address[1]}", fetched, hanging)
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
