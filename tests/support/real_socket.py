"""A real socket in front of an API in this process, for clients of other projects."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from wsgiref import simple_server

from tests.support import prefork
from tests.support.operator import Operator

SCRIPTS = pathlib.Path(sys.executable).parent


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Silent(simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def listening(operator: Operator) -> Iterator[str]:
    """Serve a test's API on a port of its own; gives its URL."""
    with simple_server.make_server("127.0.0.1", 0, operator.api.app, _Server, _Silent) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def to_run(url: str, *words: str) -> dict[str, Any]:
    """Return how the command line of python-ironicclient is started against this URL."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    return {
        "args": [str(SCRIPTS / "baremetal"), *words],
        "env": {**clean, "OS_AUTH_TYPE": "none", "OS_ENDPOINT": url},
        "text": True,
    }


def baremetal(url: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line of python-ironicclient as it is, against this URL."""
    started = to_run(url, *words)
    return prefork.run(started["args"], env=started["env"], input=stdin, timeout=120)
