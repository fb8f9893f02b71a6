"""The HTTP server of a rack of outlets, for the driver package in tests/plugin/outlet."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import orjson


class Rack:
    """The outlets of a rack by number, and the passwords of its logins."""

    def __init__(self) -> None:
        self.url = ""
        self.logins: set[str | None] = set()
        self.outlets: dict[int, dict[str, Any]] = defaultdict(
            lambda: {"on": False, "label": "", "blink": False, "watts": 80, "limit": None}
        )
        self.told: dict[int, list[dict[str, Any]]] = defaultdict(list)
        """What each outlet was told, in order."""


@contextlib.contextmanager
def serve() -> Iterator[Rack]:
    """Run a rack on a port of its own."""
    rack = Rack()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            change = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
            rack.told[self._number()].append(change)
            rack.outlets[self._number()].update(change)
            self._answer()

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

        def _number(self) -> int:
            return int(self.path.rpartition("/")[2])

        def _answer(self) -> None:
            rack.logins.add(self.headers["Authorization"])
            body = orjson.dumps(rack.outlets[self._number()])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    rack.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield rack
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
