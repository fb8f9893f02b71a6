"""HTTP for a BMC of ours, and tricks: what it does instead of telling the truth."""

from __future__ import annotations

import dataclasses
import fnmatch
import http.server
import json
import ssl
import threading
import traceback
import types
from collections.abc import Callable
from typing import Any, Protocol

Trick = Callable[["Handler"], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: Any
    raw: bytes

    @property
    def title(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def body(self) -> Any:
        """Return what its JSON says; an empty object without a body."""
        return json.loads(self.raw) if self.raw else {}


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A response: ``document`` becomes JSON unless it is bytes; status 0 sends no response."""

    status: int
    document: Any = None
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


class Host(Protocol):
    """An object that gives the true response."""

    def answer(self, request: Request) -> Reply:
        """Return what a BMC says."""
        ...


class Server:
    """Serves a host on a free port of loopback until it is left.

    ``tricks`` maps "GET /path" to what is done instead; both words may have ``*`` and ``?``, the
    exact title wins. ``log`` has the titles in the order they came, ``requests`` the whole.
    """

    def __init__(self, host: Host, *, tls: tuple[str, str] | None = None) -> None:
        self.host = host
        self.tricks: dict[str, Trick] = {}
        self.log: list[str] = []
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.mistakes: list[str] = []
        self.stopping = threading.Event()
        self._here = 0
        self._guard = threading.Lock()
        self.http = _Http(("127.0.0.1", 0), Handler)
        self.http.serving = self
        scheme = "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.http.socket = context.wrap_socket(
                self.http.socket, server_side=True, do_handshake_on_connect=False
            )
            scheme = "https"
        self.address = f"{scheme}://127.0.0.1:{self.http.server_address[1]}"
        self._thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stopping.set()
        self.http.shutdown()
        self.http.server_close()
        self._thread.join()
        assert self.mistakes == [], self.mistakes[0]

    def trick(self, title: str) -> Trick | None:
        """Return the trick for a request, if there is one."""
        exact = self.tricks.get(title)
        if exact is not None:
            return exact
        patterns = list(self.tricks.items())
        return next((act for name, act in patterns if fnmatch.fnmatchcase(title, name)), None)

    def enter(self, request: Request) -> None:
        """Count a request that has come."""
        with self._guard:
            self.log.append(request.title)
            self.requests.append(request)
            self._here += 1
            self.most_at_once = max(self.most_at_once, self._here)

    def leave(self) -> None:
        """Count a request off whose answer is about to go out, or never will."""
        with self._guard:
            self._here -= 1


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    serving: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what these tests are about."""


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    server: _Http
    request_read: Request
    here = False

    @property
    def body(self) -> bytes:
        return self.request_read.raw

    @property
    def serving(self) -> Server:
        return self.server.serving

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.request_read = Request(self.command, self.path, self.headers, raw)
        self.serving.enter(self.request_read)
        self.here = True
        try:
            trick = self.serving.trick(self.request_read.title) or Handler.truth
            trick(self)
        finally:
            self._leave()

    do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = do_GET

    def truth(self) -> None:
        """Answer as an honest BMC does."""
        try:
            reply = self.serving.host.answer(self.request_read)
        except Exception:
            # A mistake of ours must not look like one of a BMC.
            self.serving.mistakes.append(traceback.format_exc())
            raise
        if reply.status:
            self.say(reply.status, reply.document, **reply.headers)
        else:
            hangs_up(self)

    def say(self, status: int, document: Any = None, **headers: str) -> None:
        """Answer with JSON, or with bytes as they are; ``_`` in a header's name means ``-``."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        body = b"" if document is None else body
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if body:
            told = {"Content-Type": "application/json; charset=utf-8", **told}
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in told.items():
            self.send_header(name, value)
        # Whoever has the whole answer may ask the next question before this thread runs again.
        self._leave()
        self.end_headers()
        self.wfile.write(body)

    def _leave(self) -> None:
        if self.here:
            self.here = False
            self.serving.leave()


# -- tricks ---------------------------------------------------------------------------------------


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
    handler.serving.stopping.wait(60)


def thinks(handler: Handler, seconds: float = 0.01) -> None:
    """Take a moment, so that requests at the same time meet."""
    handler.serving.stopping.wait(seconds)
    handler.truth()


def drips(handler: Handler) -> None:
    """Send a byte of a header now and then, for ever."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
    while not handler.serving.stopping.wait(0.2):
        handler.wfile.write(b".")


def drips_body(handler: Handler) -> None:
    """Send a byte of the body now and then, for ever."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not handler.serving.stopping.wait(0.2):
        handler.wfile.write(b" ")


def hangs_up(handler: Handler) -> None:
    """Close the connection instead of answering."""
    handler.close_connection = True


def ends_early(handler: Handler) -> None:
    """Promise more bytes than there are."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"PowerState": "O')


def cuts_short(handler: Handler) -> None:
    """Send half of the JSON as if it were all."""
    document = handler.serving.host.answer(handler.request_read).document
    raw = json.dumps(document).encode()
    handler.say(200, raw[: len(raw) // 2])


def speaks_html(handler: Handler) -> None:
    """Answer with a page for people."""
    handler.say(200, b"<html><body>Please log in</body></html>", Content_Type="text/html")


def babbles(handler: Handler) -> None:
    """Speak something else than HTTP."""
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
