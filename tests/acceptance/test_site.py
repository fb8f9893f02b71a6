"""The simulated machines of benchmarks/site: a small site, and the agent beside the real one."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from benchmarks.site import agents, bmc, faults, trees
from benchmarks.site.wire import Request
from ironic_lite.drivers.boot import loaders
from tests.emulators import images
from tests.emulators.agent import process
from tests.emulators.agent import service as agent_service
from tests.support import event_loop, real_agent, service
from tests.support.ports import free_port
from tests.support.service import short_folder, until

Json = dict[str, Any]

pytestmark = pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
LIMIT = 900.0
"""Seconds; an idle machine needs 40, and 120 with faults, because silent agents are waited for."""


def run_site(scenario: str, count: int) -> None:
    """Run a site; each of its machines must come to its expected end."""
    done = subprocess.run(
        ("make", "site", f"NODES={count}", f"SCENARIO={scenario}"),
        cwd=service.ROOT,
        env=service.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"{count} of {count} ends as expected" in done.stdout


@pytest.mark.parametrize(("scenario", "count"), [("small", 60), ("media", 6)])
def test_small_site_brings_all_machines_to_available(scenario: str, count: int) -> None:
    run_site(scenario, count)


# -- an exchange with an agent --------------------------------------------------------------------

NODE = "6d78b13c-0000-4000-8000-000000000001"
HOST = bmc.address(0, agents.FIRST)
UNKNOWN = "0c4ed361-0000-4000-8000-000000000000"
MANAGERS = {"FileMachine", "GenericHardwareManager", "generic_hardware_manager"}
"""Names of hardware managers, which are keys."""
LISTED = [
    {
        "step": name,
        "priority": 0,
        "interface": "deploy",
        "reboot_requested": False,
        "abortable": True,
    }
    for name in ("linger", "break_down")
]


def shape(value: object) -> object:
    """Return a document with types instead of values, keys in their order."""
    if isinstance(value, dict):
        pairs = (
            (("manager" if key in MANAGERS else key), shape(one)) for key, one in value.items()
        )
        return {key: one for key, one in pairs if key != "argsinfo"}
    if isinstance(value, list):
        found = [shape(one) for one in value]
        return found[:1] if all(one == found[0] for one in found) else found
    return type(value).__name__


class Talk:
    """Requests to an agent, with what a recording keeps of the answers."""

    def __init__(self, url: str, token: str) -> None:
        self.said: list[Json] = []
        self.listed: Json = {}
        self._url, self._token = url, token

    def send(self, method: str, path: str, body: Any = None, **query: str) -> Json:
        """Send a request with the token, and note the answer."""
        asked = urllib.parse.urlencode({"agent_token": self._token, **query})
        url = f"{self._url}{path}?{asked}"
        found = requests.request(method, url, json=body, verify=False, timeout=60)
        document: Json = found.json()
        title = f"{method} {path}".replace(UNKNOWN, "UNKNOWN")
        self.said.append({"asked": title, "status": found.status_code, "answer": shape(document)})
        return document

    def order(self, name: str, wait: str = "false", **params: Any) -> Json:
        """Send a command."""
        body = {"name": name, "params": {"node": {"uuid": NODE}, "ports": [], **params}}
        return self.send("POST", "/v1/commands/", body, wait=wait)

    def ends(self, command: Json) -> None:
        """Wait for the end of a command, and note the last answer alone."""
        known = len(self.said)
        path = f"/v1/commands/{command['id']}"
        until(lambda: self.send("GET", path)["command_status"] != "RUNNING", "the command")
        del self.said[known:-1]
        self.said[-1]["asked"] = "GET the ended command"


def exchange(talk: Talk, fail: Callable[[], None], release: Callable[[], None]) -> list[Json]:
    """Talk with an agent as the service does; return the recording.

    :param fail: lets the next step fail.
    :param release: lets the step that runs go on to its end.
    """
    talk.send("GET", "/v1/commands/")
    talk.send("GET", "/v1/commands/", agent_token="wrong")
    talk.listed = talk.order("clean.get_clean_steps", wait="true")["command_result"]["clean_steps"]
    step: Json = {**LISTED[0], "args": {}, "ironic_lite_step_id": "1"}
    running = talk.order("clean.execute_clean_step", step=step, clean_version=None)
    talk.order("clean.get_clean_steps", wait="true")
    release()
    talk.ends(running)
    talk.send("GET", "/v1/commands/")
    talk.send("GET", f"/v1/commands/{UNKNOWN}")
    fail()
    step = {**LISTED[1], "args": {"words": "disk sda is on fire"}}
    failing = talk.order("clean.execute_clean_step", step=step, clean_version=None)
    talk.said.pop()  # it may have failed already
    talk.ends(failing)
    talk.order("nothing.at_all")
    return talk.said


def test_recording_is_that_of_the_real_agent() -> None:
    recorded = agents.RECORDED
    with process.agent([real_agent.MAC]) as machine, agent_service.serve(NODE) as heard:
        machine.api, machine.steps = heard.url, {"clean": LISTED}
        machine.start()
        beat = heard.beat()
        talk = Talk(beat["callback_url"], beat["agent_token"])
        assert exchange(talk, lambda: None, machine.flag) == recorded["exchange"]
        assert (beat["agent_version"], shape(beat)) == (agents.VERSION, recorded["beat"])
        assert heard.asked == recorded["asked"]
        assert talk.listed["GenericHardwareManager"] == recorded["steps"]


# -- one simulated machine ------------------------------------------------------------------------


class Ground:
    """A simulated machine, the files that are published for it, and what its agent is told."""

    def __init__(
        self,
        loop: event_loop.Loop,
        place: agents.Place,
        heard: agent_service.Service,
        files: images.Images,
    ) -> None:
        self.loop, self.heard, self.files = loop, heard, files
        self.place = place
        self._ramdisk: agents.Ramdisk | None = None
        times = bmc.Times((0.0, 0.0), (0.01, 0.01))
        self.machine = bmc.Machine(0, trees.load("dell"), times, self._switch)
        self.machine.identify()

    def _switch(self, _machine: bmc.Machine, source: str | None) -> None:
        if self._ramdisk is not None:
            self._ramdisk.stop()
        boots = source not in {None, "None", "Hdd"}
        self._ramdisk = agents.Ramdisk(self.machine, self.place, str(source)) if boots else None

    def publish(self) -> None:
        """Publish what the boot interface ipxe writes for the machine."""
        (self.files.folder / "pxelinux.cfg").mkdir()
        for name in ("kernel", "ramdisk"):
            self.files.put(name, name.encode())
        words = [f"{loaders.API_URL}={self.heard.url}", "BOOTIF=01-02"]
        parts = (f"{self.files.url}/kernel", f"{self.files.url}/ramdisk")
        card = loaders.dashed_address(self.machine.macs[0])
        self.files.put(f"pxelinux.cfg/{card}", loaders.ipxe(*parts, words).encode())
        self.files.put("boot.ipxe", loaders.ipxe_entry().encode())

    def send(self, method: str, path: str, **body: object) -> int:
        """Send a request to the BMC; return the status."""
        login = {"authorization": "Basic b3BlcmF0b3I6cmlnaHQtcGFzc3dvcmQtMA=="}
        request = Request(
            method, self.machine.tree.system + path, "", login, json.dumps(body).encode()
        )
        return self.loop.call(lambda: self.machine.answer(request).status)

    def boot_once(self) -> None:
        """Boot the machine from the network, once."""
        boot = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
        assert self.send("PATCH", "", Boot=boot) == 200
        assert self.send("POST", "/Actions/ComputerSystem.Reset", ResetType="On") == 204

    def close(self) -> None:
        """Switch the machine off."""
        self.loop.call(lambda: self._switch(self.machine, None))


@pytest.fixture
def ground() -> Iterator[Ground]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        (folder / "files").mkdir()
        loop = stack.enter_context(event_loop.running())
        heard = stack.enter_context(agent_service.serve(NODE))
        files = stack.enter_context(images.serve(folder / "files"))
        times = agents.Times((0.1, 0.1), (1.0, 1.0))
        found = Ground(loop, agents.Place(files.url, folder, free_port(), times), heard, files)
        stack.callback(found.close)
        yield found


def listens(ground: Ground) -> bool:
    """Return whether an agent listens."""
    try:
        socket.create_connection((HOST, ground.place.port), 5).close()
    except OSError:
        return False
    return True


def test_simulated_agent_answers_as_the_recorded_one(ground: Ground) -> None:
    ground.publish()
    ground.boot_once()
    beat = ground.heard.beat()
    assert beat["callback_url"] == f"https://{HOST}:{ground.place.port}"
    pinned = ssl.create_default_context(cadata=beat["agent_verify_ca"])
    with socket.create_connection((HOST, ground.place.port), 60) as plain:
        pinned.wrap_socket(plain, server_hostname=HOST).close()
    talk = Talk(beat["callback_url"], beat["agent_token"])

    def fail() -> None:
        ground.machine.fault = "step_error"

    assert exchange(talk, fail, lambda: None) == agents.RECORDED["exchange"]
    assert shape(beat) == agents.RECORDED["beat"]
    # The real one was given an address; without one it tries whether it reaches the API.
    assert ground.heard.asked == [*agents.RECORDED["asked"], "/"]


def test_machine_boots_only_what_is_published_for_it(ground: Ground) -> None:
    ground.boot_once()
    until(lambda: ground.machine.counts["none", "file GET"] >= 3, "tries to boot")
    assert (ground.heard.asked, listens(ground)) == ([], False)
    ground.publish()
    ground.heard.beat()
    assert ground.machine.booted == ["Pxe"]


def test_boot_device_is_used_up_by_its_boot(ground: Ground) -> None:
    ground.publish()
    ground.boot_once()
    ground.heard.beat()
    assert listens(ground)
    assert ground.send("POST", "/Actions/ComputerSystem.Reset", ResetType="ForceRestart") == 204
    until(lambda: ground.machine.booted == ["Pxe", "None"], "the second boot")
    time.sleep(0.5)  # five boots
    assert not listens(ground)


def test_power_off_ends_the_step_of_an_agent(ground: Ground) -> None:
    ground.publish()
    ground.boot_once()
    beat = ground.heard.beat()
    talk = Talk(beat["callback_url"], beat["agent_token"])
    step = {**LISTED[0], "step": faults.ERASES}
    talk.order("clean.execute_clean_step", step=step)
    assert ground.send("POST", "/Actions/ComputerSystem.Reset", ResetType="ForceOff") == 204
    until(lambda: not listens(ground), "the power-off")
    time.sleep(1.5)  # longer than the step
    assert ground.machine.erasures == 0
