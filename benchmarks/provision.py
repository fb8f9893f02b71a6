"""Time from a machine's enrolment to its active instance, including cleaning.

Everything is real except the machine: the service's processes, BMCs of an independent emulator that
fetch our medium, an unmodified agent that boots from it twice, an image that it fetches by HTTP.
The start time of the agent is reported separately, because it does not depend on the service.

``python -m benchmarks.provision --reference WHAT`` also measures another service with this API, in
turns. WHAT is its URL, or a program that is run as ``WHAT FOLDER API_PORT FILES_PORT process`` to
start it in the background, and with ``stop`` as last word to end it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import requests

from benchmarks import harness
from benchmarks.figures import Figure, report
from tests.emulators import images, machines
from tests.support import machine_room

Json = dict[str, Any]
ROUNDS = 3
BUDGET = 15.0
"""Seconds from POST of the node until it is active, on an idle machine."""
PATIENCE = 150.0
LOOK_EVERY = 0.05
_AGENT = "the agent starts"
_WAITS = {"clean wait", "wait call-back"}


@dataclasses.dataclass
class Journey:
    """The places of a node on its way, in order, with the time in each."""

    begun: float = dataclasses.field(default_factory=time.perf_counter)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    _since: float = 0.0
    _place: str = "POST of node and port"

    def at(self, place: str) -> None:
        """Take down that the node is somewhere."""
        now = time.perf_counter() - self.begun
        self.seconds[self._place] = self.seconds.get(self._place, 0.0) + now - self._since
        self._since, self._place = now, place

    @property
    def total(self) -> float:
        """Seconds up to now, as far as they have been taken down."""
        return self._since

    @property
    def agent(self) -> float:
        """Those of them in which the agent was starting."""
        return sum(spent for place, spent in self.seconds.items() if _AGENT in place)


class Api:
    """One service, as any client sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["X-OpenStack-Ironic-API-Version"] = "latest"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the body of an answer.

        :raises RuntimeError: it is a refusal.
        """
        answer = self._session.request(method, self.url + path, json=body, timeout=60)
        if not answer.ok:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.content else None

    def travel(self, machine: machines.Machine, node: Json, instance: Json) -> Journey:
        """Take a machine from its enrolment to its instance."""
        found = Journey()
        uuid = self.ask("POST", "/v1/nodes", node)["uuid"]
        self.ask("POST", "/v1/ports", {"node_uuid": uuid, "address": machine.mac})
        try:
            self._verb(uuid, "manage", "manageable", found)
            self._verb(uuid, "provide", "available", found)
            patch = [{"op": "add", "path": "/instance_info", "value": instance}]
            self.ask("PATCH", f"/v1/nodes/{uuid}", patch)
            self._verb(uuid, "active", "active", found)
        except RuntimeError as why:
            seen = f"boots {len(machine.boots)}, on {machine.on}, agent {machine.agent.running}"
            said = machine.agent.log()[-4000:]
            raise RuntimeError(f"{why}; {seen}, {machine.faults}; the agent said:\n{said}") from why
        return found

    def _verb(self, uuid: str, target: str, wanted: str, found: Journey) -> None:
        self.ask("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": target})
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            node = self.ask("GET", f"/v1/nodes/{uuid}")
            found.at(_place(node))
            if node["provision_state"] == wanted:
                return
            if "fail" in node["provision_state"]:
                raise RuntimeError(f"{node['provision_state']}: {node['last_error']}")
            time.sleep(LOOK_EVERY)
        raise RuntimeError(f"{node['provision_state']} for more than {PATIENCE:g} s")


def _place(node: Json) -> str:
    """Say where a node is: its state, and the step, or what it waits for."""
    state = node["provision_state"]
    step = (node.get("clean_step") or node.get("deploy_step") or {}).get("step")
    if state in _WAITS and not node["driver_internal_info"].get("agent_url"):
        return f"{'cleaning' if state == 'clean wait' else 'deploying'}: {_AGENT}"
    group = {"clean wait": "cleaning", "wait call-back": "deploying"}.get(state, state)
    return f"{group}: {step}" if step else str(group)


def _node(rack: machines.Rack, machine: machines.Machine, info: Mapping[str, str]) -> Json:
    bmc = {"redfish_address": rack.address, "redfish_system_id": machine.system_id}
    secrets = {"redfish_username": "user", "redfish_password": "secret"}
    return {
        "driver": "redfish",
        "boot_interface": "redfish-virtual-media",
        "deploy_interface": "direct",
        "driver_info": {**bmc, **secrets, **info},
        "properties": {"cpu_arch": "x86_64", "capabilities": "boot_mode:bios"},
    }


@contextlib.contextmanager
def _reference(what: str) -> Iterator[str]:
    """Give the URL of the other service."""
    if what.startswith("http"):
        yield what.rstrip("/")
        return
    with harness.folder() as folder:
        folder.chmod(0o755)
        port, files = harness.free_port(), harness.free_port()
        command = [what, str(folder), str(port)]
        log = folder / "reference.log"
        with log.open("wb") as out:
            subprocess.run(
                [*command, str(files), "process"], stdout=out, stderr=out, check=True, timeout=120
            )
        try:
            yield f"http://{harness.HOST}:{port}"
        finally:
            subprocess.run([*command, str(files), "stop"], check=False, timeout=60)


def _shown(name: str, found: list[Journey]) -> None:
    """Print where the time went, of the journey in the middle."""
    middle = sorted(found, key=lambda one: one.total)[len(found) // 2]
    print(f"{name}: {', '.join(f'{one.total:.1f}' for one in found)} s; {middle.total:.1f} s were")
    for place, spent in middle.seconds.items():
        if spent >= LOOK_EVERY:
            print(f"    {spent:6.2f} s  {place}")


def main(words: list[str]) -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.provision")
    parser.add_argument("--reference", metavar="WHAT", help="URL or program of another service")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args(words)
    load = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        count = given.rounds * (2 if given.reference else 1)
        here = stack.enter_context(machine_room.serve(count))
        other = stack.enter_context(_reference(given.reference)) if given.reference else None
        ours, theirs = _journeys(here, other, given.rounds)
    _shown("this service", ours)
    if theirs:
        _shown("the reference", theirs)
    after = os.getloadavg()[0]
    print(f"load average before {load:.1f}, after {after:.1f}, {os.cpu_count()} cores")
    return report(_figures(ours, theirs))


def _journeys(
    here: machine_room.Room, other: str | None, rounds: int
) -> tuple[list[Journey], list[Journey]]:
    """Take machines through both services, in turns."""
    image = here.images.put("system.raw", images.disk())
    instance = {**image, "image_download_source": "http"}
    parts = {part: f"file://{here.up.folder / part}" for part in machine_room.PARTS}
    ours: list[Journey] = []
    theirs: list[Journey] = []
    for number in range(rounds):
        machine = here.rack[number]
        ours.append(Api(here.up.url).travel(machine, _node(here.rack, machine, parts), instance))
        _written(machine, here)
        if other is not None:
            machine = here.rack[rounds + number]
            theirs.append(Api(other).travel(machine, _node(here.rack, machine, {}), instance))
            _written(machine, here)
    return ours, theirs


def _written(machine: machines.Machine, here: machine_room.Room) -> None:
    disk = machine.agent.folder / "disk.img"
    image = pathlib.Path(here.images.folder / "system.raw").read_bytes()
    if not disk.read_bytes().startswith(image):
        raise RuntimeError("the disk is not the image")


def _figures(ours: list[Journey], theirs: list[Journey]) -> list[Figure]:
    total = statistics.median(one.total for one in ours)
    agent = statistics.median(one.agent for one in ours)
    figures = [
        Figure("enrolment to active, cleaned: wall", total, "s", BUDGET),
        Figure("... without the agent's two starts", total - agent, "s"),
    ]
    if theirs:
        reference = statistics.median(one.total for one in theirs)
        figures += [
            Figure("the reference: wall", reference, "s"),
            Figure(
                "... without the agent's two starts",
                reference - statistics.median(one.agent for one in theirs),
                "s",
            ),
            Figure("this service beside it", total / reference, "x", 1),
        ]
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
