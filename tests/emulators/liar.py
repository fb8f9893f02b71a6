"""A small BMC of our own that misbehaves on demand: slow, lying, broken, forgetful."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
import types
from collections.abc import Callable
from typing import Any

ROOT = "/redfish/v1/"
SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
MANAGER = "/redfish/v1/Managers/1"
SESSIONS = "/redfish/v1/SessionService/Sessions"

Trick = Callable[["Handler"], None]


class Liar:
    """A BMC with one system. ``tricks`` maps "GET /path" to what is done instead of the truth."""

    def __init__(self, *, tls: tuple[str, str] | None = None) -> None:
        self.tricks: dict[str, Trick] = {}
        self.log: list[str] = []
        self.power: str | None = "Off"
        self.stuck = False
        self.resets = ["On", "ForceOff", "ForceRestart", "GracefulShutdown"]
        self.sent: list[str] = []
        self.boot: dict[str, Any] = {
            "BootSourceOverrideEnabled": "Disabled",
            "BootSourceOverrideTarget": "None",
            "BootSourceOverrideMode": "UEFI",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd"],
        }
        self.manufacturer = "Liars Ltd"
        self.users: dict[str, str] = {}
        self.has_sessions = True
        self.tokens: set[str] = set()
        self.logins = 0
        self.members = [SYSTEM]
        self.most_at_once = 0
        self.stopping = threading.Event()
        self._here = 0
        self._guard = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.liar = self
        self._scheme = "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def address(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Liar:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def enter(self) -> None:
        """Count a request that has come."""
        with self._guard:
            self._here += 1
            self.most_at_once = max(self.most_at_once, self._here)

    def leave(self) -> None:
        """Count a request off whose answer is about to go out, or never will."""
        with self._guard:
            self._here -= 1

    def documents(self) -> dict[str, Any]:
        """Return what it has at each path."""
        sessions = {"Links": {"Sessions": {"@odata.id": SESSIONS}}} if self.has_sessions else {}
        return {
            ROOT: {"Id": "Root", "Systems": {"@odata.id": "/redfish/v1/Systems"}, **sessions},
            "/redfish/v1/Systems": {
                "Name": "Systems",
                "Members": [{"@odata.id": path} for path in self.members],
            },
            SYSTEM: {
                "Id": "1",
                "Manufacturer": self.manufacturer,
                "PowerState": self.power,
                "Boot": self.boot,
                "Links": {"ManagedBy": [{"@odata.id": MANAGER}]},
                "Actions": {
                    "#ComputerSystem.Reset": {
                        "target": RESET,
                        "ResetType@Redfish.AllowableValues": self.resets,
                    }
                },
            },
            MANAGER: {
                "Id": "1",
                "Actions": {
                    "#Manager.Reset": {
                        "target": f"{MANAGER}/Actions/Manager.Reset",
                        "ResetType@Redfish.AllowableValues": ["GracefulRestart"],
                    }
                },
            },
        }


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    liar: Liar

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what these tests are about."""


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    body: bytes = b""
    here = False

    @property
    def liar(self) -> Liar:
        return self.server.liar

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PATCH = do_DELETE = do_GET

    def _answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        title = f"{self.command} {self.path}"
        self.liar.log.append(title)
        self.liar.enter()
        self.here = True
        try:
            trick = self.liar.tricks.get(title, Handler.truth)
            trick(self)
        finally:
            self._leave()

    def _leave(self) -> None:
        if self.here:
            self.here = False
            self.liar.leave()

    # -- the truth --------------------------------------------------------------------------

    def truth(self) -> None:
        """Answer as an honest BMC does."""
        if self.path.rstrip("/") == SESSIONS and self.command == "POST":
            self._log_in()
        elif self.path != ROOT and not self._known():
            self.say(401, {"error": {"code": "Base.1.0.NoValidSession", "message": "Who are you?"}})
        elif self.command == "DELETE":
            self.liar.tokens.discard(self.path.rpartition("/")[2])
            self.say(204)
        elif self.command == "POST":
            self._reset()
        elif self.command == "PATCH":
            self.liar.boot.update(json.loads(self.body).get("Boot", {}))
            self.say(204)
        else:
            document = self.liar.documents().get(self.path)
            self.say(404 if document is None else 200, document or {"error": {"message": "No."}})

    def say(self, status: int, document: Any = None, **headers: str) -> None:
        """Answer with a JSON document, or with bytes as they are."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        body = b"" if document is None else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        # Whoever has the whole answer may ask the next question before this thread runs again.
        self._leave()
        self.end_headers()
        self.wfile.write(body)

    def _known(self) -> bool:
        if not self.liar.users or self.headers.get("X-Auth-Token") in self.liar.tokens:
            return True
        kind, _, value = (self.headers.get("Authorization") or "").partition(" ")
        if kind != "Basic":
            return False
        user, _, password = base64.b64decode(value).decode().partition(":")
        return self.liar.users.get(user) == password

    def _log_in(self) -> None:
        asked = json.loads(self.body)
        if not self.liar.has_sessions:
            self.say(404, {"error": {"message": "No sessions."}})
        elif self.liar.users.get(asked["UserName"]) != asked["Password"]:
            self.say(401, {"error": {"message": "Wrong."}})
        else:
            self.liar.logins += 1
            token = f"token-{self.liar.logins}"
            self.liar.tokens.add(token)
            self.say(201, {}, X_Auth_Token=token, Location=f"{SESSIONS}/{token}")

    def _reset(self) -> None:
        word = json.loads(self.body)["ResetType"]
        self.liar.sent.append(word)
        if self.path == RESET and not self.liar.stuck:
            self.liar.power = "Off" if word in {"ForceOff", "GracefulShutdown"} else "On"
        self.say(204)


# -- tricks -----------------------------------------------------------------------------------


def says(status: int, document: Any = None, **headers: str) -> Trick:
    """Answer with this."""
    return lambda handler: handler.say(status, document, **headers)


def says_first(times: int, trick: Trick) -> Trick:
    """Play the trick that often, then tell the truth."""
    left = [None] * times

    def play(handler: Handler) -> None:
        if left:
            left.pop()
            trick(handler)
        else:
            handler.truth()

    return play


def silent(handler: Handler) -> None:
    """Never answer."""
    handler.liar.stopping.wait(60)


def thinks(handler: Handler) -> None:
    """Take a moment, so that requests at the same time meet."""
    handler.liar.stopping.wait(0.01)
    handler.truth()


def drips(handler: Handler) -> None:
    """Send a byte of a header now and then, for ever."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
    while not handler.liar.stopping.wait(0.2):
        handler.wfile.write(b".")


def drips_body(handler: Handler) -> None:
    """Send a byte of the body now and then, for ever."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not handler.liar.stopping.wait(0.2):
        handler.wfile.write(b" ")


def hangs_up(handler: Handler) -> None:
    """Close the connection instead of answering."""
    handler.close_connection = True


def ends_early(handler: Handler) -> None:
    """Promise more bytes than there are."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"PowerState": "O')


def babbles(handler: Handler) -> None:
    """Speak something else than HTTP."""
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
