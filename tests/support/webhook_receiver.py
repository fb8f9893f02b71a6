"""Receivers of webhooks, and webhooks in the database of a conductor under test."""

from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import ssl
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from ironic_lite.core import clock
from ironic_lite.db.queries import events
from ironic_lite.features.webhooks import rows, rules
from ironic_lite.features.webhooks.work import WebhookWork
from tests.support.conductor_fixture import ConductorFixture, wait_for

SECRET = rules.new_secret()


class Receiver:
    """An HTTP server that answers as told and keeps what it received.

    :ivar got: headers and bodies of deliveries, in the order of their arrival.
    :ivar held: cleared, deliveries are kept and not answered; set as long as they are.
    :ivar addresses: the own address of each connection.
    """

    def __init__(self, address: str = "127.0.0.1", tls: tuple[pathlib.Path, ...] = ()) -> None:
        """Listen on a free port.

        :param tls: files of a certificate and its key; empty: plain HTTP.
        """
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.addresses: list[str] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.held = threading.Event()
        self.held.set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.addresses.append(str(self.connection.getsockname()[0]))
                receiver.got.append((headers, body))
                receiver.held.wait()
                with contextlib.suppress(OSError):  # its sender was killed
                    self.answer()

            def answer(self) -> None:
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"as told")

            def log_message(self, *args: Any) -> None:
                del args

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.port = self.server.server_port
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls[0], tls[1])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}/metal"

    @contextlib.contextmanager
    def serving(self) -> Iterator[Receiver]:
        """Serve for the length of a block."""
        thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.held.set()
            self.server.shutdown()
            self.server.server_close()

    def cursors(self) -> list[int]:
        """Return the cursors of all received events, in the order of their arrival."""
        return [
            int(event["cursor"])
            for _, body in self.got
            for event in json.loads(body)["data"]["events"]
        ]


def allow_loopback(rig: ConductorFixture) -> WebhookWork:
    """Let a conductor deliver to this machine; return its part that does."""
    conf = rig.service.runtime.conf
    conf.set_override("allow_http", True, "webhooks")
    conf.set_override("allowed_networks", ["127.0.0.0/8"], "webhooks")
    return next(one for one in rig.service.extensions if isinstance(one, WebhookWork))


def add_hook(rig: ConductorFixture, url: str, **values: Any) -> str:
    """Add an active webhook for all events; return its UUID."""
    row = {
        **dict.fromkeys(rows.COLUMNS[1:]),
        **rows.BLANK,
        "uuid": str(uuid.uuid4()),
        "url": url,
        "secret": {"current": SECRET},
        "state": "active",
        "generation": 1,
        "position": 0,
        "created_at": clock.now(),
        **values,
    }
    rig.database.write(lambda conn: rows.add(conn, row))
    return str(row["uuid"])


def add_events(rig: ConductorFixture, count: int, **values: Any) -> None:
    """Add events of a node that does not exist."""
    row = {"at": clock.now(), "node_uuid": str(uuid.uuid4()), "kind": "provision", **values}
    rig.database.write(lambda conn: events.add(conn, [dict(row) for _ in range(count)]))


def get(rig: ConductorFixture, hook: str) -> dict[str, Any]:
    """Return the row of a webhook."""
    return rig.database.read(lambda conn: rows.get(conn, hook))


def change(rig: ConductorFixture, hook: str, **values: Any) -> None:
    """Change the row of a webhook."""
    rig.database.write(lambda conn: rows.change(conn, rows.get(conn, hook), values))


def sweep_until(served: WebhookWork, what: Any) -> None:
    """Sweep again and again until something is true."""

    def done() -> Any:
        served.sweep()
        return what()

    wait_for(done)
