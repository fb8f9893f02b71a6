"""Real ramdisk agents against real processes of ours: clean, fail, die, change, be left alone.

Machines are fake: switching one on does nothing, so a test starts its agent where the machine would
have booted it.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.agent import process
from tests.support import http_nodes
from tests.support.http_nodes import asks, reaches, told
from tests.support.service import Service, service, until

MAC = "52:54:00:00:00:01"
Json = dict[str, Any]

SETTINGS = """
node_locked_retry_interval = 1
recovery_interval = 1
clean_callback_timeout = 1800
check_provision_state_interval = 1
[DEFAULT]
enabled_deploy_interfaces = custom-agent,fake
enabled_raid_interfaces = no-raid,fake
[agent]
deploy_logs_local_path = {logs}
"""


@pytest.fixture
def machine() -> Iterator[process.Agent]:
    """A machine with a real agent, not started."""
    with process.agent([MAC]) as found:
        yield found


@pytest.fixture
def up(machine: process.Agent) -> Iterator[Service]:
    """A service that the machine's agent knows as its own."""
    with service(SETTINGS.format(logs=machine.folder / "kept")) as found:
        found.start()
        found.up()
        machine.api = found.url
        yield found


def enrol(up: Service, **fields: Any) -> str:
    """Create a manageable node of the machine and return its UUID."""
    return http_nodes.enrol(up, MAC, deploy_interface="custom-agent", **fields)


def cleans(up: Service, *names: str, **args: Any) -> None:
    """Ask for these steps of the agent, and let the node wait for its ramdisk."""
    http_nodes.cleans(up, *names, **args)
    reaches(up, "clean wait")


def lingers(up: Service, machine: process.Agent) -> None:
    """Return when the agent is at work on the step ``linger`` and the service waits for it."""
    until(lambda: machine.ran() == ["linger"], "linger")
    until(lambda: up.get("/v1/nodes/m1")["clean_step"].get("step") == "linger", "clean_step")
    reaches(up, "clean wait")


def test_an_automated_clean_is_done_by_the_agent(up: Service, machine: process.Agent) -> None:
    node = enrol(up)
    (machine.folder / "disk.img").write_bytes(b"old" * 1000)
    asks(up, "provide")
    reaches(up, "clean wait")
    machine.start()
    settled = up.settled("m1", "available")
    assert (settled["clean_step"], settled["power_state"]) == ({}, "power off")
    assert machine.ran() == ["erase_devices_metadata", "scrub", "erase_devices"]
    assert machine.told()[1]["node"] == node
    assert machine.told()[1]["ports"] == [MAC]
    assert set((machine.folder / "disk.img").read_bytes()) == {0}
    told = settled["driver_internal_info"]
    assert not [key for key in told if key.startswith("agent_")]
    assert told["hardware_manager_version"]["FileMachine"] == "1"
    listed = up.get("/v1/nodes/m1/cleaning/steps")
    assert {"scrub", "linger"} <= {one["step"] for one in listed}


def test_step_failure_is_reported_in_its_words_and_its_logs_are_kept(
    up: Service, machine: process.Agent
) -> None:
    node = enrol(up)
    cleans(up, "break_down", "scrub", break_down={"words": "disk sda is on fire"})
    machine.start()
    failed = reaches(up, "clean failed")
    assert "deploy.break_down" in failed["last_error"]
    assert "disk sda is on fire" in failed["last_error"]
    assert (failed["maintenance"], failed["fault"]) == (True, "clean failure")
    assert failed["power_state"] == "power on"
    assert machine.ran() == ["break_down"]
    logs = list((machine.folder / "kept").iterdir())
    assert [path.name.startswith(node) for path in logs] == [True]


def test_retry_repeats_only_the_failed_step_and_those_after_it(
    up: Service, machine: process.Agent
) -> None:
    enrol(up)
    machine.flag()  # the step linger ends at once
    cleans(up, "scrub", "linger", "scrub", "break_down", "scrub")
    machine.start()
    reaches(up, "clean failed")
    assert machine.ran() == ["scrub", "linger", "scrub", "break_down"]
    machine.kill()
    machine.forget()
    machine.flag("repaired")
    asks(up, "retry")
    reaches(up, "clean wait")
    machine.start()
    settled = up.settled("m1", "manageable")
    assert machine.ran() == ["break_down", "scrub"]
    assert (settled["maintenance"], settled["last_error"]) == (False, None)
    retried, failed = (
        up.get(f"/v1/nodes/m1/runs/{run['uuid']}")
        for run in up.get("/v1/nodes/m1/runs")["runs"][:2]
    )
    assert (retried["state"], retried["retry_of"]) == ("done", failed["uuid"])
    kept = [step["done_in"] for step in retried["steps"]]
    assert kept == [*[failed["uuid"]] * 3, None, None]
    assert [step["attempt"] for step in retried["steps"]] == [1, 1, 1, 2, 1]


def test_a_new_ramdisk_lists_its_steps_anew_and_gets_its_step_again(
    up: Service, machine: process.Agent
) -> None:
    """The step ``renew`` wants a reboot, after which the hardware manager is of version 2."""
    enrol(up)
    cleans(up, "renew", "scrub")
    machine.start()
    until(lambda: machine.ran() == ["renew"], "renew")
    until(lambda: told(up).get("agent_url") is None, "the reboot")
    machine.kill()
    machine.version = "2"
    machine.start()
    settled = up.settled("m1", "manageable")
    assert machine.ran() == ["renew", "scrub"]
    assert settled["driver_internal_info"]["hardware_manager_version"]["FileMachine"] == "2"


def test_an_agent_that_is_killed_in_mid_step_and_comes_back_fails_the_step(
    up: Service, machine: process.Agent
) -> None:
    """It has the token and the certificate of before, as an agent that its ramdisk restarts."""
    enrol(up)
    cleans(up, "linger")
    machine.start()
    lingers(up, machine)
    token = _secret(up)
    machine.kill()
    machine.parameters["agent_token"] = token
    machine.environment["MACHINE_KEEPS_TLS"] = "yes"
    machine.start()
    failed = reaches(up, "clean failed")
    assert "was restarted during this step" in failed["last_error"]


def _secret(up: Service) -> str:
    """Return the node's token out of the database."""
    path = up.folder / "state" / "ironic-lite.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (text,) = connection.execute("SELECT driver_internal_info FROM nodes").fetchone()
    return str(json.loads(text)["agent_secret_token"])


def test_a_conductor_that_is_killed_finds_the_step_that_went_on_without_it(
    up: Service, machine: process.Agent
) -> None:
    enrol(up)
    cleans(up, "linger", "scrub")
    machine.start()
    until(lambda: machine.ran() == ["linger"], "linger")
    for one in up.running():
        one.clear()
    machine.flag()
    up.start()
    up.up()
    up.settled("m1", "manageable")
    assert machine.ran() == ["linger", "scrub"]


def test_an_agent_that_never_comes_back_is_waited_for_no_longer_than_was_said(
    up: Service, machine: process.Agent
) -> None:
    """The limit is short only once the agent is gone: nobody knows how long one takes to start."""
    enrol(up)
    cleans(up, "linger")
    machine.start()
    lingers(up, machine)
    machine.kill()
    up.again(clean_callback_timeout=1)
    failed = reaches(up, "clean failed")
    assert "Timeout reached while cleaning" in failed["last_error"]
    assert "deploy.linger" in failed["last_error"]


def test_servicing_is_done_by_the_agent_beside_the_instance(
    up: Service, machine: process.Agent
) -> None:
    enrol(up)
    up.provision("m1", "adopt", "active")
    steps = [{"interface": "deploy", "step": "scrub"}]
    asks(up, "service", service_steps=steps)
    reaches(up, "service wait")
    machine.start()
    up.settled("m1", "active")
    assert machine.ran() == ["scrub"]


def test_a_deployment_is_done_by_the_agents_steps(up: Service, machine: process.Agent) -> None:
    """A step of the agent has a priority of its own among those of the deploy interface."""
    enrol(up)
    asks(up, "provide")
    reaches(up, "clean wait")
    machine.start()
    up.settled("m1", "available")
    machine.kill()
    machine.forget()
    asks(up, "active")
    reaches(up, "wait call-back")
    machine.start()
    settled = up.settled("m1", "active")
    assert settled["power_state"] == "power on"
    assert machine.ran() == ["scrub"]
