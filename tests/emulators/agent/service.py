"""The least a real agent needs of a service: it is told a token, and its heartbeats are kept.

with service.serve(node_uuid) as found:
    ...                              # an agent with api=found.url is started
    beat = found.beat()              # what it told of itself: url, token, certificate
"""

from __future__ import annotations

import contextlib
import http.server
import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
TOKEN = "t" * 43
PATIENCE = 30.0


class Service:
    """Answers one agent."""

    def __init__(self, node_uuid: str) -> None:
        self.node_uuid = node_uuid
        self.heartbeat_timeout = 300
        self.asked: list[str] = []
        """The paths of all GETs."""
        self._beats: queue.Queue[Json] = queue.Queue()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        """The URL that the agent gets as its API."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def beat(self) -> Json:
        """Return the body of the next heartbeat."""
        return self._beats.get(timeout=PATIENCE)

    def answer(self, path: str) -> Json:
        """Return the document of a GET."""
        self.asked.append(path.partition("?")[0])
        if not path.startswith("/v1/lookup"):
            return {"default_version": {"version": "1.115"}}
        return {
            "node": {
                "uuid": self.node_uuid,
                "instance_info": {},
                "properties": {},
                # Unsaid, an agent takes the one of its own machine: that which runs the tests.
                "driver_internal_info": {"deploy_boot_mode": "bios"},
            },
            "config": {
                "heartbeat_timeout": self.heartbeat_timeout,
                "agent_token": TOKEN,
                "enable_bios_bootloader_install": True,
            },
        }

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, json.dumps(service.answer(self.path)).encode())

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                service._beats.put(json.loads(self.rfile.read(size)))
                self._answer(202, b"")

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: Any) -> None:
                pass

        return Handler


@contextlib.contextmanager
def serve(node_uuid: str) -> Iterator[Service]:
    """Serve for the length of the block."""
    found = Service(node_uuid)
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        thread.join(PATIENCE)
        found.server.server_close()
