"""The rescue interface ``agent`` with real agents: each is told the password once, or fails."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.client import AgentClient
from ironic_lite.drivers.agent.ramdisk import AgentPower
from ironic_lite.drivers.agent.rescue import AgentRescue
from ironic_lite.drivers.fake.hardware import FakeBoot
from tests.emulators.agent import process
from tests.support import fake_task
from tests.support.fake_task import FakeTask, node
from tests.support.real_agent import until

HASHED = "$5$salt$Gcm6FsVtF/Qa77ZKD.iwsJlCVPY0XSMgLJL0Hnww/c1"
RESCUE = AgentRescue()


class Boot(FakeBoot):
    """Notes what is asked of it, and fails where a test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.broken = ""

    def _note(self, name: str, mode: str) -> None:
        self.asked.append((name, mode))
        if name == self.broken:
            raise errors.HardwareError(reason="the BMC does not let go of it")

    def prepare_ramdisk(self, task: base.Task, params: Any, mode: str = "deploy") -> None:
        self._note("prepare", mode)

    def clean_up_ramdisk(self, task: base.Task, mode: str = "deploy") -> None:
        self._note("clean up", mode)

    def prepare_instance(self, task: base.Task) -> None:
        self._note("instance", "")

    def check_ramdisk(self, task: base.Task, mode: str) -> None:
        self._note("check", mode)


@pytest.fixture
def boot() -> Boot:
    return Boot()


@pytest.fixture
def rescued(mortal: tuple[process.Agent, FakeTask], boot: Boot) -> tuple[process.Agent, FakeTask]:
    """A machine whose ramdisk has booted for a rescue, and its task in rescue wait."""
    machine, known = mortal
    password(machine).parent.mkdir()
    password(machine).parent.chmod(0o777)
    task = waiting(boot)
    task.agent = known.agent
    return machine, task


def waiting(boot: Boot) -> FakeTask:
    info = {"hashed_rescue_password": HASHED}
    driver = dataclasses.replace(fake_task.FAKE, boot=boot, rescue=RESCUE)
    task = FakeTask(node(provision_state="rescuing", instance_info=info), driver=driver)
    assert RESCUE.rescue(task) is base.WAIT
    task.node.provision_state = "rescue wait"
    return task


def password(machine: process.Agent) -> pathlib.Path:
    return machine.folder / "rescue" / "password"


def power(task: FakeTask) -> str:
    return str(task.driver.power.get_power_state(task))


def test_the_ramdisk_for_rescues_boots_and_its_agent_is_waited_for(boot: Boot) -> None:
    task = waiting(boot)
    assert boot.asked == [("prepare", "rescue")]
    assert power(task) == base.POWER_ON
    assert RESCUE.poll_rescue(task) is base.WAIT


def test_the_agent_gets_the_hash_and_listens_no_more(
    rescued: tuple[process.Agent, FakeTask], boot: Boot
) -> None:
    """That it is told is written down first; then the machine stays on, with nothing in it."""
    machine, task = rescued
    assert RESCUE.poll_rescue(task) is base.WAIT
    assert task.timers[-1] == 0
    assert not password(machine).exists()
    client = AgentClient(task)
    assert RESCUE.poll_rescue(task) is base.DONE
    assert password(machine).read_text() == HASHED
    assert boot.asked[-1] == ("clean up", "rescue")
    assert (power(task), task.agent) == (base.POWER_ON, None)
    until(lambda: silent(client))


def silent(client: AgentClient) -> bool:
    try:
        client.result("any")
    except errors.AgentUnreachable:
        return True
    return False


def test_an_agent_that_cannot_write_it_down_says_why(
    rescued: tuple[process.Agent, FakeTask],
) -> None:
    machine, task = rescued
    password(machine).parent.rmdir()
    RESCUE.poll_rescue(task)
    with pytest.raises(errors.HardwareError, match=r"did not accept the password.*OSError"):
        RESCUE.poll_rescue(task)


def test_a_conductor_that_died_having_asked_asks_again(
    rescued: tuple[process.Agent, FakeTask],
) -> None:
    """An agent that has not been told yet is told by the next one."""
    machine, task = rescued
    RESCUE.poll_rescue(task)
    other = task.elsewhere()
    other.agent = task.agent
    assert RESCUE.poll_rescue(other) is base.DONE
    assert password(machine).read_text() == HASHED


def test_an_agent_that_was_told_already_is_booted_once_more(
    rescued: tuple[process.Agent, FakeTask], boot: Boot
) -> None:
    """The conductor died with its answer; nobody knows, so the rescue begins anew, once."""
    machine, task = rescued
    RESCUE.poll_rescue(task)
    other, agent = task.elsewhere(), task.agent
    RESCUE.poll_rescue(task)
    machine.kill()
    other.agent = agent
    assert RESCUE.poll_rescue(other) is base.WAIT
    assert other.agent is None
    assert boot.asked[-1] == ("prepare", "rescue")
    other.agent = agent
    assert RESCUE.poll_rescue(other) is base.WAIT
    with pytest.raises(errors.AgentUnreachable):
        RESCUE.poll_rescue(other)


def test_a_ramdisk_that_knows_no_hashes_gets_the_password_where_it_was_kept(
    task: FakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands beside the hash only if the operator allows that."""
    asked: list[Any] = []

    def call(_client: AgentClient, name: str, params: Any) -> Any:
        if name == "rescue.finalize_rescue":
            asked.append(params)
        if "hashed" in params:
            raise errors.AgentRefused(node="", address="", what="", reason="TypeError", status=500)
        return {}

    monkeypatch.setattr(AgentClient, "call", call)
    info = {"hashed_rescue_password": HASHED}
    for given in (info, {**info, "rescue_password": "sesame"}):
        task.node.instance_info = given
        task.keep("agent_rescue", None)
        RESCUE.poll_rescue(task)
        if "rescue_password" in given:
            assert RESCUE.poll_rescue(task) is base.DONE
        else:
            with pytest.raises(errors.HardwareError, match="TypeError"):
                RESCUE.poll_rescue(task)
    assert asked[1:] == [asked[0], {"rescue_password": "sesame"}]
    assert asked[0] == {"rescue_password": HASHED, "hashed": True}


def test_unrescue_takes_the_ramdisk_away_and_boots_the_instance(boot: Boot) -> None:
    task = waiting(boot)
    task.node.provision_state = "unrescuing"
    RESCUE.unrescue(task)
    assert boot.asked[1:] == [("clean up", "rescue"), ("instance", "")]
    assert power(task) == base.POWER_ON


def test_failed_or_aborted_rescue_is_switched_off(boot: Boot) -> None:
    task = waiting(boot)
    task.node.provision_state = "rescue failed"
    RESCUE.clean_up(task)
    assert boot.asked[1:] == [("clean up", "rescue")]
    assert power(task) == base.POWER_OFF


def test_an_instance_that_is_removed_without_ever_being_rescued_costs_nothing(boot: Boot) -> None:
    task = FakeTask(node(provision_state="deleting"))
    RESCUE.clean_up(task)
    assert boot.asked == []


def test_a_medium_that_stays_in_its_drive_fails_the_rescue(
    rescued: tuple[process.Agent, FakeTask], boot: Boot
) -> None:
    _, task = rescued
    RESCUE.poll_rescue(task)
    boot.broken = "clean up"
    with pytest.raises(errors.HardwareError, match="let go"):
        RESCUE.poll_rescue(task)


def test_the_ramdisk_for_rescues_is_what_is_validated(boot: Boot) -> None:
    task = waiting(boot)
    RESCUE.validate(task)
    assert boot.asked[-1] == ("check", "rescue")


def test_a_machine_that_only_its_ramdisk_switches_cannot_be_rescued(boot: Boot) -> None:
    task = waiting(boot)
    task.driver = dataclasses.replace(task.driver, power=AgentPower())
    with pytest.raises(errors.InvalidParameter, match="power_interface"):
        RESCUE.validate(task)
