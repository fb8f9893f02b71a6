"""A receiver of webhooks: checks and keeps what arrives, and fails now and then."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import random
import threading
from collections.abc import Iterator
from typing import Any

from tests.chaos.records import Delivery
from tests.support.ports import HOST

FAILS = 0.05
"""The share of deliveries that are answered with 503, or not at all; never two in a row, since the
second is followed by a pause of a minute."""


class Receiver:
    """An HTTP server for one webhook.

    :ivar deliveries: all that it got, in the order of their arrival.
    :ivar hook: the UUID of the webhook, with its secret.
    """

    def __init__(self, seed: int) -> None:
        self.deliveries: list[Delivery] = []
        self.hook, self.secret = "", ""
        self._dice = random.Random(f"{seed} receiver")
        self._guard = threading.Lock()
        self._failed = False
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.take({k.lower(): v for k, v in self.headers.items()}, body)
                if status is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                del args

        self._server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
        self.url = f"http://{HOST}:{self._server.server_port}/chaos"

    def take(self, headers: dict[str, str], body: bytes) -> int | None:
        """Keep a delivery; return the status of the answer, None for no answer."""
        ident = headers["webhook-id"]
        signed = f"{ident}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        wanted = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        events = tuple(int(one["cursor"]) for one in json.loads(body)["data"]["events"])
        with self._guard:
            self._failed = not self._failed and self._dice.random() < FAILS
            status = self._dice.choice((503, None)) if self._failed else 200
            self.deliveries.append(
                Delivery(
                    self.hook,
                    ident,
                    hashlib.sha256(body).hexdigest(),
                    events,
                    signed=headers["webhook-signature"] == f"v1,{wanted}",
                    accepted=status == 200,
                )
            )
        return status

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Serve for the length of a block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
