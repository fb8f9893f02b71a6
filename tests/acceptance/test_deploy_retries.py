"""Retries of deployments with real agents that write real disks."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators import images, machines
from tests.emulators.agent import process
from tests.support import machine_room

Json = dict[str, Any]
BREAKS_DOWN = {
    "deploy": [
        {
            "step": "break_down",
            "interface": "deploy",
            "priority": 70,
            "reboot_requested": False,
            "abortable": True,
        }
    ]
}
"""A step after write_image that fails until the file ``repaired`` exists."""


@pytest.fixture
def one() -> Iterator[machine_room.Room]:
    process.available()
    with machine_room.serve() as found:
        yield found


def available(one: machine_room.Room) -> str:
    node = one.enrol(0, automated_clean=False)
    one.up.provision(node, "provide", "available")
    return node


def lies_on(image: bytes, machine: machines.Machine) -> bool:
    """Return whether the disk starts with the image, byte for byte."""
    return pathlib.Path(machine.agent.disks[0]["name"]).read_bytes().startswith(image)


def latest_runs(one: machine_room.Room, node: str) -> tuple[Json, Json]:
    """Return the retry and the failed run before it, with their steps."""
    listed = one.up.get(f"/v1/nodes/{node}/runs")["runs"][:2]
    retried, failed = (one.up.get(f"/v1/nodes/{node}/runs/{run['uuid']}") for run in listed)
    return retried, failed


def states_of(run: Json) -> dict[str, Json]:
    return {f"{step['interface']}.{step['step']}": step for step in run["steps"]}


@pytest.mark.parametrize("fault", ["absent", "cut"])
def test_retry_writes_an_image_that_could_not_be_fetched(
    one: machine_room.Room, fault: str
) -> None:
    machine, node = one.rack[0], available(one)
    image = images.disk()
    good = one.images.put("system.raw", image)
    one.fill(node, {**good, "image_source": f"{one.images.url}/{fault}/system.raw"})
    one.ask(node, "active")
    assert "write_image" in one.reaches(node, "deploy failed")["last_error"]
    assert not lies_on(image, machine)

    one.fill(node, good)
    shown = one.up.provision(node, "retry", "active")
    assert lies_on(image, machine)
    assert (shown["maintenance"], shown["last_error"]) == (False, None)
    retried, failed = latest_runs(one, node)
    assert (retried["state"], retried["retry_of"]) == ("done", failed["uuid"])
    assert one.images.fetched[-1] == "system.raw"


def test_retry_after_a_later_step_keeps_a_written_whole_disk_image(
    one: machine_room.Room,
) -> None:
    machine = one.rack[0]
    machine.agent.steps = BREAKS_DOWN
    node = available(one)
    image = images.disk()
    one.fill(node, one.images.put("system.raw", image))
    one.ask(node, "active")
    assert "break_down" in one.reaches(node, "deploy failed")["last_error"]
    assert lies_on(image, machine)

    machine.agent.flag("repaired")
    one.up.provision(node, "retry", "active")
    assert lies_on(image, machine)
    assert one.images.fetched == ["system.raw"]
    assert machine.agent.ran() == ["break_down", "break_down"]
    retried, failed = latest_runs(one, node)
    steps = states_of(retried)
    assert steps["deploy.write_image"]["done_in"] == failed["uuid"]
    assert steps["deploy.break_down"]["done_in"] is None
    assert steps["deploy.break_down"]["attempt"] == 2
    assert steps["deploy.deploy"]["done_in"] is None  # the ramdisk boots again
