"""The HTTP part of a stand-in for OpenStack Identity; subclasses decide about tokens."""

from __future__ import annotations

import abc
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from keystoneauth1 import fixture

Answer = tuple[int, Mapping[str, Any]]


class IdentityServer(abc.ABC):
    """Serves the parts of the Identity API, version 3, that logins and tokens need."""

    def __init__(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    @abc.abstractmethod
    def validate(self, token: str, caller: str | None) -> Answer:
        """Return status and body for a token.

        :param caller: the token of the service that asks.
        """

    @abc.abstractmethod
    def login(self, body: bytes) -> tuple[Mapping[str, Any], str]:
        """Return the document of a new token, and the token."""

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                token = self.headers["X-Subject-Token"]
                if token is None:
                    self._send(300, fixture.DiscoveryList(outer.url, v2=False))
                else:
                    self._send(*outer.validate(token, self.headers["X-Auth-Token"]))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                document, token = outer.login(body)
                self._send(201, document, token)

            def _send(self, status: int, body: Mapping[str, Any], token: str = "") -> None:
                sent = json.dumps(dict(body)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                if token:
                    self.send_header("X-Subject-Token", token)
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        return Handler
