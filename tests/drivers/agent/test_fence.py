"""A conductor that has lost a node asks its agent nothing more, whatever method it is in."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import power
from ironic_lite.drivers.agent.client import Client
from tests.support import expiring_locks, fake_task
from tests.support.real_agent import AT


class Handler(http.server.BaseHTTPRequestHandler):
    """An agent that has done everything at once, but hangs up on every third request."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._answer({"commands": []})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        done = {"id": "1", "command_name": "any", "command_status": "SUCCEEDED"}
        self._answer({**done, "command_result": {}, "command_error": None})

    def _answer(self, document: Any) -> None:
        self.server.log.append(f"{self.command} {self.path}")
        self.close_connection = True
        if len(self.server.log) % 3 == 0:
            return
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    """Where that agent listens; ``log`` has what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.log: list[str] = []


@pytest.fixture
def agent() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def _called(task: fake_task.FakeTask) -> None:
    for _ in range(4):
        Client(task).call("clean.get_clean_steps", {})


def _begun(task: fake_task.FakeTask) -> None:
    for _ in range(4):
        with contextlib.suppress(errors.AgentUnreachable):
            Client(task).start("clean.execute_clean_step", {})


ACTS: dict[str, expiring_locks.Act] = {
    "call": _called,
    "start": _begun,
    "restart": power.AgentPower().reboot,
    "power": power.AgentPower().get_power_state,
    "result": lambda task: Client(task).commands(),
}


@pytest.mark.parametrize("name", ACTS)
def test_nothing_is_asked_after_the_lock_is_lost(
    agent: Server, conf: cfg.ConfigOpts, name: str
) -> None:
    def make(answers: int) -> expiring_locks.LeasedTask:
        task = expiring_locks.LeasedTask(fake_task.node(), answers=answers)
        url = f"http://127.0.0.1:{agent.server_address[1]}"
        task.agent = base.Agent(url=url, token="t", verify_ca=None, version="13", heard_at=AT)
        return task

    assert expiring_locks.interrupt(ACTS[name], make, lambda: agent.log) >= 1
