"""A machine whose ramdisk runs a scripted agent: power, boot device and agent API.

The agent keeps the rules of the real agent that matter to a conductor: one command at a time, no
memory beyond a boot, the token returned once. It finds a living conductor by itself.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import itertools
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, cast

from ironic_lite import errors
from ironic_lite.conductor.service import ConductorService
from ironic_lite.core import context
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers

Json = dict[str, Any]

_BEAT = 0.02  # seconds between two heartbeats
_LONG = 0.1  # seconds an asynchronous command takes: longer than a conductor needs to start
ASYNCHRONOUS = {"execute_clean_step", "execute_deploy_step", "install_bootloader", "power_off"}
MORE = ("prepare_ramdisk", "prepare_instance", "heartbeat")
"""Driver calls that a machine has to know of."""


class Machine:
    """One machine, off at first."""

    def __init__(self, **listed: list[Json]) -> None:
        """Make it.

        :param listed: the steps of its agent by kind, such as ``clean``.
        """
        self.listed = listed
        self.service: ConductorService | None = None
        self.node = ""
        self.power = base.POWER_OFF
        self.boots = self.runs = "disk"
        """What it would boot, and what it has booted."""
        self.ran: list[str] = []
        """Commands and steps that were carried out, in order, in all its boots."""
        self.clashes: list[str] = []
        self._guard = threading.Lock()
        self._commands: list[Json] = []
        self._ends: dict[str, float] = {}
        self.token: str | None = None
        self.lost = False
        """Whether its agent has stopped because somebody else was told its token."""
        self.cut_off = False
        """Whether a machine was switched off while its agent looked the node up: a node that is at
        rest by the time of the answer keeps the token until its next boot."""
        self._switched = 0
        self._ids = itertools.count(1)
        self.url = ""

    def fresh(self, node: str) -> None:
        """Be the machine of another node, off, with nothing done yet."""
        self.node = node
        self._switch(base.POWER_OFF)
        self.boots = self.runs = "disk"
        self.token, self.lost, self.cut_off = None, False, False
        self.ran.clear()

    def serve(self, rig: ConductorFixture) -> None:
        """Let its agent call this conductor from now on."""
        self.service = rig.service

    # -- its BMC -----------------------------------------------------------------------------

    def around(self, _kind: str, name: str, call: Callable[[], Any]) -> Any:
        """Do what a call of a driver does to the machine."""
        found = call()
        args: tuple[Any, ...] = getattr(call, "args", ())
        if name == "get_power_state":
            with self._guard:
                self._settle()
                return self.power
        if name == "set_power_state":
            self._switch(args[1])
        elif name == "reboot":
            self._switch(base.POWER_OFF)
            self._switch(base.POWER_ON)
        elif name == "prepare_ramdisk":
            self.boots = "ramdisk"
        elif name == "prepare_instance":
            self.boots = "disk"
        return found

    def _switch(self, to: str) -> None:
        with self._guard:
            if to == self.power:
                return
            self.power, self.runs = to, self.boots
            self._switched += 1
            self._commands, self._ends = [], {}
            self.token, self.lost = None, False

    @property
    def agent(self) -> bool:
        """Return whether the agent of the machine runs."""
        return self.power == base.POWER_ON and self.runs == "ramdisk" and not self.lost

    # -- its agent's side of the network -----------------------------------------------------

    def live(self, halted: threading.Event) -> None:
        """Look the node up once a boot, and send heartbeats, until halted."""
        while not halted.wait(_BEAT):
            service = self.service
            if service is None or not self.agent:
                continue
            with contextlib.suppress(errors.Error, crashes.Died, RuntimeError):
                self._speak(service.endpoints)

    def _speak(self, endpoints: Any) -> None:
        who = context.internal("agent")
        if self.token is None:
            before = self._switched
            found = endpoints.get_node_with_token(who, node_uuid=self.node)
            with self._guard:
                if self._switched != before:
                    self.cut_off = True
                    return
                if not found["fresh"]:
                    self.lost = True  # the real one stops for good
                    return
                self.token = found["agent_token"]
        endpoints.heartbeat(
            who,
            node_uuid=self.node,
            callback_url=self.url,
            agent_version="13.0.0",
            agent_token=self.token,
        )

    # -- its API -----------------------------------------------------------------------------

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        """Answer one request; status 0: nobody is there."""
        parts = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        with self._guard:
            if not self.agent:
                return 0, {}
            if query.get("agent_token") != self.token:
                return 401, {"faultstring": "Token invalid."}
            self._settle()
            if method == "POST":
                return self.begin(body["name"], body["params"])
            known = parts.path.removeprefix("/v1/commands/")
            if not known:
                return 200, {"commands": self._commands}
            found = next((one for one in self._commands if one["id"] == known), None)
            return (404, {"faultstring": "Not found"}) if found is None else (200, found)

    def _settle(self) -> None:
        for one in self._commands:
            running = one["command_status"] == "RUNNING"
            if running and self._ends[one["id"]] <= time.monotonic():
                one["command_status"] = "SUCCEEDED"
                if one["command_name"] == "power_off":
                    self.power = base.POWER_OFF
                    self._switched += 1

    def begin(self, full: str, params: Json) -> tuple[int, Json]:
        name = full.rpartition(".")[2]
        step = params.get("step") or {}
        if self._commands and self._commands[-1]["command_status"] == "RUNNING":
            self.clashes.append(name)
            return 409, {"faultstring": "Agent is busy"}
        self.ran.append(step.get("step") or name)
        one: Json = {
            "id": str(next(self._ids)),
            "command_name": name,
            "command_status": "RUNNING" if name in ASYNCHRONOUS else "SUCCEEDED",
            "command_error": None,
            "command_result": self._result(name, step),
        }
        self._ends[one["id"]] = time.monotonic() + _LONG
        self._commands.append(one)
        return 200, one

    def _result(self, name: str, step: Json) -> Json:
        if name == "collect_system_logs":
            return {"system_logs": base64.b64encode(b"its logs").decode()}
        kind = name.split("_")[1] if name.endswith(("_step", "_steps")) else ""
        if name.startswith("get_") and kind:
            steps = {"Machine": self.listed.get(kind, [])}
            return {f"{kind}_steps": steps, "hardware_manager_version": {"Machine": "1"}}
        return {f"{kind}_result": None, f"{kind}_step": step} if kind else {}


@contextlib.contextmanager
def running(machine: Machine) -> Iterator[Machine]:
    """Serve the agent's API and let it speak."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Json) -> None:
            status, document = machine.answer(self.command, self.path, body)
            if not status:
                self.close_connection = True
                return
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    machine.url = f"http://127.0.0.1:{server.server_address[1]}"
    halted = threading.Event()
    threads = [
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True),
        threading.Thread(target=machine.live, args=(halted,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield machine
    finally:
        halted.set()
        server.shutdown()
        server.server_close()
        for thread in threads:
            thread.join()


def registry(
    machine: Machine,
    deploy: base.Deploy,
    life: crashes.Life,
    *,
    more: tuple[str, ...] = MORE,
    **interfaces: base.Interface,
) -> Registry:
    """Return drivers of this machine with ``deploy`` and other interfaces.

    :param more: driver calls that the machine has to know of.
    """

    def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
        life.check()
        found = machine.around(kind, name, call)
        life.spend("call")
        return found

    inner = cast(Registry, crashes.Replaced(drivers(), deploy=deploy, **interfaces))
    return cast(Registry, crashes.Drivers(inner, around, more=more))
