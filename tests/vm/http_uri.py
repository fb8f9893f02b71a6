"""A BMC that takes HttpBootUri, before the one of sushy-tools, which makes a CD of it.

The URL goes into the variables of the machine's firmware, as the option for its next boot. All else
is the emulator's.
"""

from __future__ import annotations

import http.server
import json
import pathlib
import shutil
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import requests

from tests.vm.image import run

_TEMPLATE = pathlib.Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
_VARIABLES = pathlib.Path("/var/lib/libvirt/qemu/nvram/machine_VARS.fd")
_NOT_PASSED_ON = {"connection", "content-encoding", "content-length", "host", "transfer-encoding"}
_ANY = "None"  # what the emulator shows without a URL


def serve(emulator: str, port: int, programs: pathlib.Path) -> None:
    """Answer on a port of loopback in the place of the emulator, until the process ends."""

    def keep(url: str) -> None:
        if not _VARIABLES.exists():
            _VARIABLES.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(_TEMPLATE, _VARIABLES)
        tool = programs / "bin/virt-fw-vars"
        run(tool, "--inplace", _VARIABLES, "--set-boot-uri", url)

    given = {"emulator": emulator, "own": f"http://127.0.0.1:{port}", "keep": staticmethod(keep)}
    handler = type("Handler", (_Handler,), given)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    emulator: str
    own: str
    keep: Callable[[str], None]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        boot = json.loads(body or b"{}").get("Boot") if self.command == "PATCH" else None
        if isinstance(boot, dict) and (url := boot.pop("HttpBootUri", None)) not in (None, _ANY):
            self.keep(url)
        if isinstance(boot, dict):
            if not boot:  # only a URL was to be forgotten
                self._say(HTTPStatus.NO_CONTENT, {}, b"")
                return
            body = json.dumps({**json.loads(body), "Boot": boot}).encode()
        passed = (one for one in self.headers.items() if one[0].lower() not in _NOT_PASSED_ON)
        answer = requests.request(
            self.command, self.emulator + self.path, data=body, headers=dict(passed), timeout=60
        )
        self._say(answer.status_code, answer.headers, answer.content)

    do_POST = do_PATCH = do_DELETE = do_HEAD = do_GET

    def _say(self, status: int, headers: Any, body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in {*_NOT_PASSED_ON, "date", "server"}:
                self.send_header(name, value.replace(self.emulator, self.own))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """The emulator has a log of its own."""
