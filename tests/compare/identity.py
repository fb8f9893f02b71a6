"""A stand-in for OpenStack Identity: it gives a token for each persona, and tells who has it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from keystoneauth1 import fixture

Personas = Mapping[str, tuple[tuple[str, ...], str | None]]
"""Roles and project by name; the project is None for the whole system."""

OWNER = "p-owner"
SERVICE = "service"
PERSONAS: Personas = {
    "admin": (("admin", "manager", "member", "reader"), None),
    "member": (("member", "reader"), None),
    "reader": (("reader",), None),
    "owner-member": (("member", "reader"), OWNER),
    "owner-reader": (("reader",), OWNER),
    "norole": (("nothing",), OWNER),
    SERVICE: (("service",), "services"),
}


class Identity:
    """Serves the third version of the Identity API, as far as tokens need it.

    The token of a persona is its name. Another user who logs in gets the token `SERVICE`.

    :param endpoints: URLs of other services, by type, for the catalog.
    """

    def __init__(
        self, personas: Personas = PERSONAS, endpoints: Mapping[str, str] | None = None
    ) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._personas = personas
        self._endpoints = {"identity": self.url, **(endpoints or {})}
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def _token(self, name: str) -> dict[str, Any]:
        roles, project = self._personas[name]
        token = fixture.V3Token(user_id=f"u-{name}", user_name=name)
        if project is None:
            token.set_system_scope()
        else:
            token.set_project_scope(id=project, name=project)
        for role in roles:
            token.add_role(name=role, id=role)
        for kind, url in self._endpoints.items():
            token.add_service(kind).add_standard_endpoints(public=url, internal=url, admin=url)
        for stamp in ("issued_at", "expires_at"):  # as Keystone writes them; tempest reads no other
            token.root[stamp] = token.root[stamp].replace("+00:00", "Z")
        return dict(token)

    def _logged_in(self, body: bytes) -> str:
        """Return the token of the user that the body of a login names."""
        user = json.loads(body)["auth"]["identity"]["password"]["user"]
        return user["name"] if user.get("name") in self._personas else SERVICE

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                token = self.headers["X-Subject-Token"]
                if token is None:
                    self._send(300, dict(fixture.DiscoveryList(outer.url, v2=False)))
                elif token in outer._personas:
                    self._send(200, outer._token(token))
                else:
                    self._send(404, {"error": {"code": 404}})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                token = outer._logged_in(body)
                self._send(201, outer._token(token), token)

            def _send(self, status: int, body: dict[str, Any], token: str = "") -> None:
                sent = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                if token:
                    self.send_header("X-Subject-Token", token)
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler
