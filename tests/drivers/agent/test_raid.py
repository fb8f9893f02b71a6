"""The raid interface ``agent`` with a real agent: what it has built is what the node shows."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import raid
from ironic_lite.drivers.agent.raid import AgentRAID
from tests.emulators.agent import process
from tests.support import fake_task
from tests.support.fake_task import FakeTask, step
from tests.support.real_agent import until

Json = dict[str, Any]
RAID = AgentRAID()
ROOT: Json = {
    "raid_level": "1",
    "size_gb": 100,
    "controller": "software",
    "is_root_volume": True,
}
DATA: Json = {"raid_level": "0", "size_gb": "MAX", "controller": "software"}
BOTH = {"logical_disks": [ROOT, DATA]}
STATES = {
    base.StepKind.CLEAN: "cleaning",
    base.StepKind.DEPLOY: "deploying",
    base.StepKind.SERVICE: "servicing",
}


def run(task: FakeTask, kind: base.StepKind, name: str, **args: Any) -> None:
    """Run a step to its end, as the engine would."""
    task.node.provision_state = STATES[kind]
    wanted = step(f"raid.{name}", **args)
    assert getattr(RAID, f"execute_{kind}_step")(task, wanted) is base.WAIT
    until(lambda: RAID.poll_step(task, kind, wanted) is base.DONE)


def shown(task: FakeTask) -> list[Json]:
    """Return the volumes of the node."""
    listed: list[Json] = (task.node.raid_config or {}).get("logical_disks", [])
    return listed


def test_volumes_are_built_as_the_node_wants_them_and_shown(
    task: FakeTask, machine: process.Agent
) -> None:
    """The root volume says how large the instance's disk is, and of which level."""
    task.node.target_raid_config = BOTH
    task.node.properties = {"capabilities": "boot_mode:bios", "local_gb": 1}
    run(task, base.StepKind.CLEAN, "create_configuration")
    assert machine.told() == [{"step": "create_configuration", "target": BOTH}]
    assert shown(task) == [ROOT, DATA]
    assert (task.node.raid_config or {})["last_updated"]
    assert task.node.properties == {
        "capabilities": "boot_mode:bios,raid_level:1",
        "local_gb": 100,
    }


def test_volumes_that_are_deleted_are_shown_no_more(task: FakeTask, machine: process.Agent) -> None:
    """With them goes where the instance was to be written."""
    task.node.raid_config = {"logical_disks": [ROOT]}
    task.node.properties = {"root_device": {"wwn": "1"}, "local_gb": 100}
    run(task, base.StepKind.CLEAN, "delete_configuration")
    assert machine.ran() == ["delete_configuration"]
    assert task.node.raid_config == {}
    assert task.node.properties == {"local_gb": 100}


@pytest.mark.parametrize("kind", [base.StepKind.DEPLOY, base.StepKind.SERVICE], ids=str)
def test_a_configuration_of_a_step_is_built_in_part_if_that_is_wanted(
    task: FakeTask, machine: process.Agent, kind: base.StepKind
) -> None:
    """What the node wants is another thing."""
    task.node.target_raid_config = BOTH
    run(
        task,
        kind,
        "apply_configuration",
        raid_config=BOTH,
        create_nonroot_volumes=False,
        delete_existing=True,
    )
    told = {"target": {"logical_disks": [ROOT]}, "delete_existing": True}
    assert machine.told() == [{"step": "apply_configuration", **told}]
    assert shown(task) == [ROOT]


def test_nothing_built_is_a_failure(task: FakeTask) -> None:
    """No hardware manager of this agent makes volumes of a controller."""
    task.node.target_raid_config = {"logical_disks": [{"raid_level": "5", "size_gb": 1}]}
    task.node.raid_config = None
    with pytest.raises(errors.StepFailed, match='"controller": "software"'):
        run(task, base.StepKind.CLEAN, "create_configuration")
    assert task.node.raid_config is None


def test_a_node_that_wants_no_volumes_has_none_built(
    task: FakeTask, machine: process.Agent
) -> None:
    task.node.provision_state = "cleaning"
    with pytest.raises(errors.MissingParameter, match="target_raid_config"):
        RAID.execute_clean_step(task, step("raid.create_configuration"))
    assert machine.ran() == []


def test_configuration_with_too_few_disks_fails_in_the_agents_words(
    task: FakeTask,
) -> None:
    """The agent counts its disks: there is one."""
    task.node.target_raid_config = {"logical_disks": [ROOT, {**DATA, "raid_level": "5"}]}
    with pytest.raises(errors.AgentCommandFailed, match="only 1 block devices"):
        run(task, base.StepKind.CLEAN, "create_configuration")


@pytest.mark.parametrize(
    "answer",
    [
        {"logical_disks": "two"},
        {"logical_disks": ["sda"]},
        {"logical_disks": [{"raid_level": "1"}]},
        {"logical_disks": [{"raid_level": 1, "size_gb": True}]},
        "built",
        None,
    ],
    ids=["no list", "no objects", "no size", "no level", "text", "none"],
)
def test_an_answer_that_describes_no_volumes_fails_the_step(task: FakeTask, answer: Any) -> None:
    wanted = step("raid.create_configuration")
    task.node.raid_config = {"logical_disks": [ROOT]}
    with pytest.raises(errors.StepFailed):
        RAID.after_step(task, base.StepKind.CLEAN, wanted, {"clean_result": answer})
    assert shown(task) == [ROOT]


def test_other_steps_of_an_agents_managers_are_its_own_affair(
    task: FakeTask, machine: process.Agent
) -> None:
    run(task, base.StepKind.CLEAN, "paint", colour="blue")
    assert machine.told() == [{"step": "paint", "colour": "blue"}]


def test_a_conductor_that_died_finds_its_volumes_being_built(
    task: FakeTask, machine: process.Agent
) -> None:
    """They are built once."""
    task.node.provision_state = "deploying"
    wanted = step("raid.apply_configuration", raid_config=BOTH)
    assert RAID.execute_deploy_step(task, wanted) is base.WAIT
    task.keep("agent_command", None)
    assert RAID.execute_deploy_step(task, wanted) is base.WAIT
    until(lambda: RAID.poll_step(task, base.StepKind.DEPLOY, wanted) is base.DONE)
    assert machine.ran() == ["apply_configuration"]
    assert shown(task) == [ROOT, DATA]


def test_target_raid_config_is_checked(task: FakeTask) -> None:
    task.driver = dataclasses.replace(fake_task.FAKE, raid=RAID)
    RAID.validate(task)
    task.node.target_raid_config = {"logical_disks": [{**ROOT, "raid_level": "0"}]}
    with pytest.raises(errors.InvalidParameter, match="target_raid_config/logical_disks/0"):
        RAID.validate(task)
    with pytest.raises(errors.InvalidParameter):
        RAID.validate_raid_config(task, task.node.target_raid_config)
    with pytest.raises(errors.InvalidParameter, match="raid_config/logical_disks/0/raid_level"):
        RAID.apply_configuration(task, raid_config=task.node.target_raid_config)


# Configurations that no agent can build are refused before anything is touched.

BY_AGENT = {"controller": "software"}
FIRST: Json = {"raid_level": "1", "size_gb": 100, **BY_AGENT}
SECOND: Json = {"raid_level": "0", "size_gb": "MAX", **BY_AGENT}


def test_configuration_that_an_agent_can_build_is_accepted() -> None:
    for disks in ([FIRST], [{**FIRST, "size_gb": "MAX"}], [FIRST, SECOND]):
        assert raid.check_volumes({"logical_disks": disks}) == disks


def test_volumes_of_real_controllers_have_no_such_rules() -> None:
    disks = [{"raid_level": "5", "size_gb": "MAX"}] * 3
    assert raid.check_volumes({"logical_disks": disks}) == disks


CASES: dict[str, tuple[list[Json], str, str]] = {
    "three": ([FIRST, SECOND, {**FIRST}], "logical_disks/2", "at most 2 volumes"),
    "first level": ([{**FIRST, "raid_level": "0"}], "logical_disks/0/raid_level", "level 1"),
    "second level": (
        [FIRST, {**SECOND, "raid_level": "5+0"}],
        "logical_disks/1/raid_level",
        "not one of 0, 1, 5, 6, 1.0",
    ),
    "all of the disk twice": (
        [{**FIRST, "size_gb": "MAX"}, SECOND],
        "logical_disks/1/size_gb",
        "only one",
    ),
    "one name twice": (
        [{**FIRST, "volume_name": "a"}, {**SECOND, "volume_name": "a"}],
        "logical_disks/1/volume_name",
        "another volume",
    ),
    "only one of them by software": (
        [FIRST, {"raid_level": "0", "size_gb": 1}],
        "logical_disks/1/controller",
        "for all volumes or for none",
    ),
    "names of disks": (
        [{**FIRST, "physical_disks": ["sda", "sdb"]}],
        "logical_disks/0/physical_disks",
        "hints",
    ),
    "a number of disks": (
        [{**FIRST, "number_of_physical_disks": 2}],
        "logical_disks/0/number_of_physical_disks",
        "would take all disks",
    ),
    "a kind of disk": (
        [FIRST, {**SECOND, "disk_type": "ssd"}],
        "logical_disks/1/disk_type",
        "physical_disks",
    ),
    "an interface": (
        [{**FIRST, "interface_type": "sas"}],
        "logical_disks/0/interface_type",
        "physical_disks",
    ),
    "nothing": ([{**FIRST, "size_gb": 0}], "logical_disks/0/size_gb", "at least"),
}


@pytest.mark.parametrize("case", CASES)
def test_configuration_that_no_agent_can_build_is_refused_by_its_path(case: str) -> None:
    disks, path, words = CASES[case]
    with pytest.raises(errors.InvalidParameter, match=words) as caught:
        raid.check_volumes({"logical_disks": disks}, "target_raid_config")
    assert caught.value.facts["path"] == f"target_raid_config/{path}"
