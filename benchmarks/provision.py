"""Time from a machine's enrolment to its active instance, including cleaning.

Everything is real except the machine: the service's processes, BMCs of an independent emulator that
fetch our medium, an unmodified agent that boots from it twice, an image that it fetches by HTTP.
The start time of the agent is reported separately, because it does not depend on the service.

``python -m benchmarks.provision --reference SERVICE`` also measures another service with this API,
in turns. SERVICE is its URL, or a program that is run as ``SERVICE FOLDER API_PORT FILES_PORT
process`` to start it in the background, and with ``stop`` as last argument to end it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import requests

from benchmarks import harness
from benchmarks.figures import Figure, not_measured, report, size
from tests.emulators import images, machines
from tests.support import machine_room
from tests.support.ports import free_port
from tests.support.service import short_folder

Json = dict[str, Any]
ROUNDS = size(3, smoke=1)
BUDGET = 15.0
"""Seconds from POST of the node until it is active, on an idle machine."""
PATIENCE = 150.0
POLL_INTERVAL = 0.05
_AGENT = "the agent starts"
_WAITS = {"clean wait", "wait call-back"}


@dataclasses.dataclass
class Timeline:
    """The seconds that a node has spent in each stage, in order."""

    begin: float = dataclasses.field(default_factory=time.perf_counter)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    _since: float = 0.0
    _stage: str = "POST of node and port"

    def enter(self, stage: str) -> None:
        """Record the current stage of the node."""
        now = time.perf_counter() - self.begin
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        self._since, self._stage = now, stage

    @property
    def total(self) -> float:
        """Seconds until the last record."""
        return self._since

    @property
    def agent(self) -> float:
        """Seconds in which the agent was starting."""
        return sum(spent for stage, spent in self.seconds.items() if _AGENT in stage)


class Api:
    """Client of one service."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["X-OpenStack-Ironic-API-Version"] = "latest"

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; return the body of the response.

        :raises RuntimeError: it is refused.
        """
        response = self._session.request(method, self.url + path, json=body, timeout=60)
        if not response.ok:
            raise RuntimeError(f"{method} {path}: {response.status_code} {response.text[:500]}")
        return response.json() if response.content else None

    def provision(self, machine: machines.Machine, node: Json, instance: Json) -> Timeline:
        """Take a machine from its enrolment to its instance."""
        timeline = Timeline()
        uuid = self.request("POST", "/v1/nodes", node)["uuid"]
        self.request("POST", "/v1/ports", {"node_uuid": uuid, "address": machine.mac})
        try:
            self._verb(uuid, "manage", "manageable", timeline)
            self._verb(uuid, "provide", "available", timeline)
            patch = [{"op": "add", "path": "/instance_info", "value": instance}]
            self.request("PATCH", f"/v1/nodes/{uuid}", patch)
            self._verb(uuid, "active", "active", timeline)
        except RuntimeError as error:
            state = f"boots {len(machine.boots)}, on {machine.on}, agent {machine.agent.running}"
            log = machine.agent.log()[-4000:]
            text = f"{error}; {state}, {machine.faults}; log of the agent:\n{log}"
            raise RuntimeError(text) from error
        return timeline

    def _verb(self, uuid: str, target: str, state: str, timeline: Timeline) -> None:
        self.request("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": target})
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            node = self.request("GET", f"/v1/nodes/{uuid}")
            timeline.enter(_stage(node))
            if node["provision_state"] == state:
                return
            if "fail" in node["provision_state"]:
                raise RuntimeError(f"{node['provision_state']}: {node['last_error']}")
            time.sleep(POLL_INTERVAL)
        raise RuntimeError(f"{node['provision_state']} for more than {PATIENCE:g} s")


def _stage(node: Json) -> str:
    """Return the stage of a node: its state with the step, or with the start of the agent."""
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
def _reference(service: str) -> Iterator[str]:
    """Run the other service if it is a program; gives its URL."""
    if service.startswith("http"):
        yield service.rstrip("/")
        return
    with short_folder() as folder:
        folder.chmod(0o755)
        port, files = free_port(), free_port()
        command = [service, str(folder), str(port)]
        log = folder / "reference.log"
        with log.open("wb") as out:
            subprocess.run(
                [*command, str(files), "process"], stdout=out, stderr=out, check=True, timeout=120
            )
        try:
            yield f"http://{harness.HOST}:{port}"
        finally:
            subprocess.run([*command, str(files), "stop"], check=False, timeout=60)


def _print_stages(name: str, timelines: Sequence[Timeline]) -> None:
    """Print the stages of the median run."""
    middle = sorted(timelines, key=lambda one: one.total)[len(timelines) // 2]
    totals = ", ".join(f"{one.total:.1f}" for one in timelines)
    print(f"{name}: {totals} s; stages of the run of {middle.total:.1f} s:")
    for stage, spent in middle.seconds.items():
        if spent >= POLL_INTERVAL:
            print(f"    {spent:6.2f} s  {stage}")


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", metavar="SERVICE", help="URL or program of another service")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    try:
        with contextlib.ExitStack() as stack:
            count = args.rounds * (2 if args.reference else 1)
            room = stack.enter_context(machine_room.serve(count))
            reference = stack.enter_context(_reference(args.reference)) if args.reference else None
            ours, theirs = _measure(room, reference, args.rounds)
    except pytest.skip.Exception as error:
        return not_measured(error)
    _print_stages("this service", ours)
    if theirs:
        _print_stages("the reference", theirs)
    return report(_figures(ours, theirs))


def _measure(
    room: machine_room.Room, reference: str | None, rounds: int
) -> tuple[list[Timeline], list[Timeline]]:
    """Take machines through both services, in turns."""
    image = room.images.put("system.raw", images.disk())
    instance = {**image, "image_download_source": "http"}
    parts = {part: f"file://{room.up.folder / part}" for part in machine_room.PARTS}
    ours: list[Timeline] = []
    theirs: list[Timeline] = []
    for number in range(rounds):
        machine = room.rack[number]
        node = _node(room.rack, machine, parts)
        ours.append(Api(room.up.url).provision(machine, node, instance))
        _check_disk(machine, room)
        if reference is not None:
            machine = room.rack[rounds + number]
            node = _node(room.rack, machine, {})
            theirs.append(Api(reference).provision(machine, node, instance))
            _check_disk(machine, room)
    return ours, theirs


def _check_disk(machine: machines.Machine, room: machine_room.Room) -> None:
    disk = machine.agent.folder / "disk.img"
    image = pathlib.Path(room.images.folder / "system.raw").read_bytes()
    if not disk.read_bytes().startswith(image):
        raise RuntimeError("the disk does not contain the image")


def _figures(ours: Sequence[Timeline], theirs: Sequence[Timeline]) -> list[Figure]:
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
            Figure("this service compared with it", total / reference, "x", 1),
        ]
    return figures


if __name__ == "__main__":
    sys.exit(main())
