"""Real ramdisk agents against real processes of ours."""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.agent import process
from tests.support import http_nodes
from tests.support import service as real_service
from tests.support.http_nodes import asks, reaches, told
from tests.support.service import Program, Service, service, until

# Real ramdisk agents against real processes of ours: clean, fail, die, change, be left alone.
#
# Machines are fake: switching one on does nothing, so a test starts its agent where the machine
# would have booted it.

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


# A real agent whose machine is another conductor's by the time it has ended its step.
#
# The conductor that gave it the step is killed, and stays dead until the other one has gone on.

MOVED_SETTINGS = """
heartbeat_interval = 1
heartbeat_timeout = 3
hash_ring_reset_interval = 1
node_locked_retry_interval = 1
[DEFAULT]
enabled_deploy_interfaces = custom-agent
enabled_rescue_interfaces = agent
"""
WAITS = {"clean": "clean wait", "service": "service wait"}
STEPS: list[dict[str, Any]] = [
    {"interface": "deploy", "step": "linger", "args": {}},
    {"interface": "deploy", "step": "scrub", "args": {}},
]


class Pair:
    """Two conductors, of which one may be dead."""

    def __init__(self, fleet: Service) -> None:
        self._fleet = fleet
        self._programs: dict[str, Program] = {}
        fleet.start("ironic-lite-api")
        self.both()

    def both(self) -> None:
        """Start whoever is dead, and return when both live."""
        for host in ("first", "second"):
            if host not in self._programs:
                self._programs[host] = self._fleet.start("ironic-lite-conductor", host=host)
        until(lambda: self._living() == {"first", "second"}, "two conductors")

    def kill(self) -> str:
        """Kill the one whose machine it is; return the name of the other."""
        owner = str(self._fleet.get("/v1/nodes/m1")["conductor"])
        self._programs.pop(owner).clear()
        return next(iter(self._programs))

    def _living(self) -> set[str]:
        listed = (self._fleet.get("/v1/conductors") or {}).get("conductors", [])
        return {row["hostname"] for row in listed if row["alive"]}


@pytest.fixture
def moved_machine() -> Iterator[process.Agent]:
    """A machine with a real agent, not started, whose ramdisk can rescue."""
    with process.agent([MAC]) as found:
        folder = found.folder / "rescue"
        folder.mkdir()
        folder.chmod(0o777)
        yield found


@pytest.fixture
def moved_up(moved_machine: process.Agent) -> Iterator[Service]:
    """A configuration for two conductors, the database made."""
    with real_service.service(MOVED_SETTINGS) as found:
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(real_service.PATIENCE) == 0
        moved_machine.api = found.url
        yield found


def test_next_conductor_finds_the_result_of_the_agent(
    moved_up: Service, moved_machine: process.Agent
) -> None:
    pair = Pair(moved_up)
    http_nodes.enrol(moved_up, MAC)
    moves(moved_up, pair, moved_machine, "clean", "manageable")
    moved_up.provision("m1", "adopt", "active")
    moves(moved_up, pair, moved_machine, "service", "active")
    asks(moved_up, "rescue", rescue_password="open sesame")
    reaches(moved_up, "rescue wait")
    pair.kill()
    moved_machine.kill()
    moved_machine.start()
    settled = moved_up.settled("m1", "rescue")
    assert settled["last_error"] is None
    assert (moved_machine.folder / "rescue" / "password").read_text().startswith("$5$")


def moves(up: Service, pair: Pair, machine: process.Agent, verb: str, end: str) -> None:
    """Have two steps done, the second of them by another conductor than the first."""
    machine.forget()
    machine.unflag()
    body: dict[str, Any] = {f"{verb}_steps": STEPS}
    asks(up, verb, **body)
    reaches(up, WAITS[verb])
    machine.start()
    until(lambda: machine.ran() == ["linger"], "linger")
    other = pair.kill()
    machine.flag()
    settled = up.settled("m1", end)
    assert settled["last_error"] is None
    assert machine.ran() == ["linger", "scrub"]
    (run, *_) = up.get("/v1/nodes/m1/runs")["runs"]
    assert (run["verb"], run["state"], run["conductor"]) == (verb, "done", other)
    machine.kill()
    pair.both()


# Rescues and volumes by real agents against real processes of ours.

RESCUE_SETTINGS = """
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
def rescue_machine() -> Iterator[process.Agent]:
    """A machine with a real agent, not started, whose ramdisk can rescue."""
    with process.agent([MAC]) as found:
        password(found).parent.mkdir()
        password(found).parent.chmod(0o777)
        yield found


@pytest.fixture
def rescue_up(rescue_machine: process.Agent) -> Iterator[Service]:
    """A service that the machine's agent knows as its own."""
    with service(RESCUE_SETTINGS) as found:
        found.start()
        found.up()
        rescue_machine.api = found.url
        yield found


def password(machine: process.Agent) -> pathlib.Path:
    return machine.folder / "rescue" / "password"


def enrol_for_rescue(up: Service, state: str = "active") -> None:
    """Create a node of the machine in this state."""
    http_nodes.enrol(up, MAC)
    if state == "active":
        up.provision("m1", "adopt", "active")


def test_a_machine_is_rescued_twice_and_boots_its_instance_again(
    rescue_up: Service, rescue_machine: process.Agent
) -> None:
    """Another password is another hash; the agent has nothing else of it."""
    enrol_for_rescue(rescue_up)
    seen = []
    for word in ("open sesame", "close sesame"):
        asks(rescue_up, "rescue", rescue_password=word)
        reaches(rescue_up, "rescue wait")
        rescue_machine.kill()
        rescue_machine.start()
        settled = rescue_up.settled("m1", "rescue")
        seen.append(password(rescue_machine).read_text())
        assert settled["instance_info"]["hashed_rescue_password"] == "******"
        told = settled["driver_internal_info"]
        assert "agent_url" not in told
        until(lambda: not listens(rescue_machine), "the agent's end")
    assert [hashed[:3] for hashed in seen] == ["$5$", "$5$"]
    assert len(set(seen)) == 2
    assert "sesame" not in rescue_machine.log()
    asks(rescue_up, "unrescue")
    settled = rescue_up.settled("m1", "active")
    assert (settled["instance_info"], settled["power_state"]) == ({}, "power on")
    assert "agent_rescue" not in str(settled["driver_internal_info"])


def listens(machine: process.Agent) -> bool:
    try:
        socket.create_connection((process.HOST, machine.port), 1).close()
    except OSError:
        return False
    return True


def test_a_ramdisk_that_cannot_rescue_fails_it_and_is_switched_off(
    rescue_up: Service, rescue_machine: process.Agent
) -> None:
    enrol_for_rescue(rescue_up)
    password(rescue_machine).parent.rmdir()
    asks(rescue_up, "rescue", rescue_password="sesame")
    reaches(rescue_up, "rescue wait")
    rescue_machine.start()
    failed = reaches(rescue_up, "rescue failed")
    assert "did not accept the password" in failed["last_error"]
    assert "/etc/ipa-rescue-config" in failed["last_error"]
    assert (failed["power_state"], failed["instance_info"]) == ("power off", {})


def test_a_rescue_that_is_aborted_or_waited_for_in_vain_leaves_no_password(
    rescue_up: Service,
) -> None:
    enrol_for_rescue(rescue_up)
    asks(rescue_up, "rescue", rescue_password="sesame")
    reaches(rescue_up, "rescue wait")
    asks(rescue_up, "abort")
    failed = reaches(rescue_up, "rescue failed")
    assert failed["instance_info"] == {}
    rescue_up.again(rescue_callback_timeout=1)
    asks(rescue_up, "rescue", rescue_password="sesame")
    until(lambda: "Timeout" in (rescue_up.get("/v1/nodes/m1")["last_error"] or ""), "the time-out")
    failed = reaches(rescue_up, "rescue failed")
    assert "Timeout reached while rescuing" in failed["last_error"]
    assert (failed["power_state"], failed["instance_info"]) == ("power off", {})
    asks(rescue_up, "unrescue")
    rescue_up.settled("m1", "active")


def test_volumes_are_made_anew_in_each_clean(
    rescue_up: Service, rescue_machine: process.Agent
) -> None:
    """As [deploy] says by its two priorities; the list stays to be read."""
    enrol_for_rescue(rescue_up, "manageable")
    answer = rescue_up.ask("PUT", "/v1/nodes/m1/states/raid", VOLUMES)
    assert answer.status_code == 204, answer.text
    wrong = {"logical_disks": [{**ROOT, "raid_level": "0"}]}
    answer = rescue_up.ask("PUT", "/v1/nodes/m1/states/raid", wrong)
    assert answer.status_code == 400, answer.text
    assert "logical_disks/0/raid_level" in answer.text
    asks(rescue_up, "provide")
    reaches(rescue_up, "clean wait")
    rescue_machine.start()
    settled = rescue_up.settled("m1", "available")
    ran = rescue_machine.ran()
    assert ran.index("delete_configuration") < ran.index("create_configuration")
    assert settled["raid_config"]["logical_disks"] == VOLUMES["logical_disks"]
    assert settled["properties"] == {"local_gb": 100, "capabilities": "raid_level:1"}
    listed = rescue_up.get("/v1/nodes/m1/cleaning/steps")
    known = {one["step"]: one["priority"] for one in listed if one["interface"] == "raid"}
    assert known == {"delete_configuration": 7, "create_configuration": 5, "paint": 0}


def test_volumes_are_made_in_service(rescue_up: Service, rescue_machine: process.Agent) -> None:
    enrol_for_rescue(rescue_up)
    step = {"interface": "raid", "step": "apply_configuration", "args": {"raid_config": VOLUMES}}
    asks(rescue_up, "service", service_steps=[step])
    reaches(rescue_up, "service wait")
    rescue_machine.start()
    settled = rescue_up.settled("m1", "active")
    assert rescue_machine.told() == [
        {"step": "apply_configuration", "target": VOLUMES, "delete_existing": False}
    ]
    assert settled["raid_config"]["logical_disks"] == VOLUMES["logical_disks"]
