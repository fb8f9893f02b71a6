"""Redfish machines that are switched on and off while attacks go on, and what they were told."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

import requests

from ironic_lite.domain import fields
from tests.chaos.faults import World
from tests.chaos.watch import row_of
from tests.emulators import bmc

COUNT = 4
SETTINGS = """\
[DEFAULT]
enabled_hardware_types = fake-hardware,redfish
enabled_deploy_interfaces = chaos,fake
enabled_power_interfaces = chaos,redfish
enabled_management_interfaces = fake,redfish
[redfish]
allowed_networks = 127.0.0.0/8
[conductor]
workers_pool_size = 24
"""
TARGETS = {"power on": "On", "power off": "Off"}
PAUSE = 0.7
QUIET = 60.0
"""Seconds until the last power change has ended."""


class Machines:
    """Some machines, each with a BMC that records its orders.

    :param stack: closed when the BMCs are not needed any more.
    """

    def __init__(self, world: World, stack: contextlib.ExitStack) -> None:
        self._world = world
        self._bmcs = {str(uuid.uuid4()): stack.enter_context(bmc.serve()) for _ in range(COUNT)}
        self._accepted = dict.fromkeys(self._bmcs, 0)
        self._unknown = dict.fromkeys(self._bmcs, 0)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machines")
        world.watch.add([_row(node, machine) for node, machine in self._bmcs.items()])
        world.load.spared = frozenset(self._bmcs)

    def start(self) -> None:
        """Begin to switch."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._closing.set()
        self._thread.join()

    def judged(self) -> Iterator[str]:
        """Yield how orders and record differ, once all power changes have ended."""
        end = time.monotonic() + QUIET
        while time.monotonic() < end and any(
            row["reservation"] for row in map(self._shown, self._bmcs)
        ):
            time.sleep(0.5)
        for node, machine in self._bmcs.items():
            row, state = self._shown(node), machine.tree[machine.system]["PowerState"]
            if TARGETS.get(row["power_state"]) != state:
                yield f"machine {node} is {state}, its record says {row['power_state']}"
            most = self._accepted[node] + self._unknown[node]
            if len(machine.sent) > most:
                yield f"machine {node} got {machine.sent}, and {most} requests were accepted"

    def _shown(self, node: str) -> Mapping[str, Any]:
        with contextlib.suppress(OSError):
            answer = requests.get(f"{self._world.ports.url(0)}/v1/nodes/{node}", timeout=30)
            if answer.ok:
                found: Mapping[str, Any] = answer.json()
                return found
        return {"reservation": "unknown", "power_state": None}

    def _run(self) -> None:
        dice = random.Random(5)
        while not self._closing.wait(PAUSE):
            node = dice.choice(list(self._bmcs))
            body = {"target": dice.choice(list(TARGETS))}
            url = f"{self._world.ports.url(0)}/v1/nodes/{node}/states/power"
            try:
                status = requests.put(url, json=body, timeout=30).status_code
            except OSError:
                self._unknown[node] += 1
                continue
            self._accepted[node] += status == HTTPStatus.ACCEPTED
            self._unknown[node] += status == HTTPStatus.SERVICE_UNAVAILABLE


def _row(node: str, machine: bmc.Machine) -> dict[str, Any]:
    ours = {f"{kind}_interface": "redfish" for kind in ("power", "management")}
    fake = {f"{kind}_interface": "fake" for kind in fields.INTERFACE_KINDS}
    more = {"uuid": node, "name": f"machine-{node[:8]}", "driver": "redfish"}
    return {**row_of(0, 0.1), **fake, **ours, **more, "driver_info": machine.driver_info}
