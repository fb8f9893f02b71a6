"""Rescues and volumes by real agents against real processes of ours."""

from __future__ import annotations

import pathlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.agent import process
from tests.support import http_nodes
from tests.support.http_nodes import asks, reaches
from tests.support.service import Service, service, until

MAC = "52:54:00:00:00:01"
Json = dict[str, Any]

SETTINGS = """
node_locked_retry_interval = 1
recovery_interval = 1
rescue_callback_timeout = 1800
check_provision_state_interval = 1
[DEFAULT]
enabled_deploy_interfaces = custom-agent
enabled_raid_interfaces = agent
enabled_rescue_interfaces = agent
[deploy]
delete_configuration_priority = 7
create_configuration_priority = 5
"""
ROOT: Json = {
    "raid_level": "1",
    "size_gb": 100,
    "controller": "software",
    "is_root_volume": True,
}
DATA: Json = {"raid_level": "1+0", "size_gb": "MAX", "controller": "software"}
VOLUMES = {"logical_disks": [ROOT, DATA]}


@pytest.fixture
def machine() -> Iterator[process.Agent]:
    """A machine with a real agent, not started, whose ramdisk can rescue."""
    with process.agent([MAC]) as found:
        password(found).parent.mkdir()
        password(found).parent.chmod(0o777)
        yield found


@pytest.fixture
def up(machine: process.Agent) -> Iterator[Service]:
    """A service that the machine's agent knows as its own."""
    with service(SETTINGS) as found:
        found.start()
        found.up()
        machine.api = found.url
        yield found


def password(machine: process.Agent) -> pathlib.Path:
    return machine.folder / "rescue" / "password"


def enrol(up: Service, state: str = "active") -> None:
    """Create a node of the machine in this state."""
    http_nodes.enrol(up, MAC)
    if state == "active":
        up.provision("m1", "adopt", "active")


def test_a_machine_is_rescued_twice_and_boots_its_instance_again(
    up: Service, machine: process.Agent
) -> None:
    """Another password is another hash; the agent has nothing else of it."""
    enrol(up)
    seen = []
    for word in ("open sesame", "close sesame"):
        asks(up, "rescue", rescue_password=word)
        reaches(up, "rescue wait")
        machine.kill()
        machine.start()
        settled = up.settled("m1", "rescue")
        seen.append(password(machine).read_text())
        assert settled["instance_info"]["hashed_rescue_password"] == "******"
        told = settled["driver_internal_info"]
        assert "agent_url" not in told
        until(lambda: not listens(machine), "the agent's end")
    assert [hashed[:3] for hashed in seen] == ["$5$", "$5$"]
    assert len(set(seen)) == 2
    assert "sesame" not in machine.log()
    asks(up, "unrescue")
    settled = up.settled("m1", "active")
    assert (settled["instance_info"], settled["power_state"]) == ({}, "power on")
    assert "agent_rescue" not in str(settled["driver_internal_info"])


def listens(machine: process.Agent) -> bool:
    try:
        socket.create_connection((process.HOST, machine.port), 1).close()
    except OSError:
        return False
    return True


def test_a_ramdisk_that_cannot_rescue_fails_it_and_is_switched_off(
    up: Service, machine: process.Agent
) -> None:
    enrol(up)
    password(machine).parent.rmdir()
    asks(up, "rescue", rescue_password="sesame")
    reaches(up, "rescue wait")
    machine.start()
    failed = reaches(up, "rescue failed")
    assert "did not accept the password" in failed["last_error"]
    assert "/etc/ipa-rescue-config" in failed["last_error"]
    assert (failed["power_state"], failed["instance_info"]) == ("power off", {})


def test_a_rescue_that_is_aborted_or_waited_for_in_vain_leaves_no_password(up: Service) -> None:
    enrol(up)
    asks(up, "rescue", rescue_password="sesame")
    reaches(up, "rescue wait")
    asks(up, "abort")
    failed = reaches(up, "rescue failed")
    assert failed["instance_info"] == {}
    up.again(rescue_callback_timeout=1)
    asks(up, "rescue", rescue_password="sesame")
    until(lambda: "Timeout" in (up.get("/v1/nodes/m1")["last_error"] or ""), "the time-out")
    failed = reaches(up, "rescue failed")
    assert "Timeout reached while rescuing" in failed["last_error"]
    assert (failed["power_state"], failed["instance_info"]) == ("power off", {})
    asks(up, "unrescue")
    up.settled("m1", "active")


def test_volumes_are_made_anew_in_each_clean(up: Service, machine: process.Agent) -> None:
    """As [deploy] says by its two priorities; the list stays to be read."""
    enrol(up, "manageable")
    answer = up.ask("PUT", "/v1/nodes/m1/states/raid", VOLUMES)
    assert answer.status_code == 204, answer.text
    wrong = {"logical_disks": [{**ROOT, "raid_level": "0"}]}
    answer = up.ask("PUT", "/v1/nodes/m1/states/raid", wrong)
    assert answer.status_code == 400, answer.text
    assert "logical_disks/0/raid_level" in answer.text
    asks(up, "provide")
    reaches(up, "clean wait")
    machine.start()
    settled = up.settled("m1", "available")
    ran = machine.ran()
    assert ran.index("delete_configuration") < ran.index("create_configuration")
    assert settled["raid_config"]["logical_disks"] == VOLUMES["logical_disks"]
    assert settled["properties"] == {"local_gb": 100, "capabilities": "raid_level:1"}
    listed = up.get("/v1/nodes/m1/cleaning/steps")
    known = {one["step"]: one["priority"] for one in listed if one["interface"] == "raid"}
    assert known == {"delete_configuration": 7, "create_configuration": 5, "paint": 0}


def test_volumes_are_made_in_service(up: Service, machine: process.Agent) -> None:
    enrol(up)
    step = {"interface": "raid", "step": "apply_configuration", "args": {"raid_config": VOLUMES}}
    asks(up, "service", service_steps=[step])
    reaches(up, "service wait")
    machine.start()
    settled = up.settled("m1", "active")
    assert machine.told() == [
        {"step": "apply_configuration", "target": VOLUMES, "delete_existing": False}
    ]
    assert settled["raid_config"]["logical_disks"] == VOLUMES["logical_disks"]
