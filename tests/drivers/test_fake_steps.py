"""Steps of a fake machine: which there are, how long they take, how they wait and fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.domain import raid
from ironic_lite.drivers import base
from ironic_lite.drivers.base import StepKind
from tests.support import fake_task

FakeTask = fake_task.FakeTask

VOLUMES = {"logical_disks": [{"size_gb": 1, "raid_level": "0"}]}
APPLY = {name: arg.required for name, arg in raid.APPLY_ARGS.items()}
LISTED: dict[StepKind, dict[str, tuple[float, bool, dict[str, bool]]]] = {
    StepKind.CLEAN: {
        "deploy.erase_devices": (10, True, {}),
        "deploy.erase_devices_metadata": (99, True, {}),
        "raid.create_configuration": (
            0,
            True,
            dict.fromkeys(raid.CREATE_ARGS, False),
        ),
        "raid.delete_configuration": (0, False, {}),
        "bios.apply_configuration": (0, False, {"settings": True}),
        "bios.factory_reset": (0, False, {}),
        "firmware.update": (0, False, {"settings": True}),
        "management.reset_bmc": (0, False, {}),
        "power.cycle": (0, False, {}),
        "vendor.log_passthrough": (0, False, {}),
    },
    StepKind.DEPLOY: {
        "deploy.deploy": (100, True, {}),
        "deploy.write_image": (80, True, {}),
        "deploy.boot_instance": (20, True, {}),
        "raid.apply_configuration": (0, True, APPLY),
        "raid.delete_configuration": (0, True, {}),
        "bios.apply_configuration": (0, True, {"settings": True}),
        "bios.factory_reset": (0, True, {}),
        "firmware.update": (0, True, {"settings": True}),
    },
    StepKind.SERVICE: {
        "vendor.log_passthrough": (0, False, {}),
        "raid.apply_configuration": (0, False, APPLY),
        "raid.delete_configuration": (0, False, {}),
        "bios.apply_configuration": (0, False, {"settings": True}),
        "bios.factory_reset": (0, False, {}),
        "firmware.update": (0, False, {"settings": True}),
    },
}
FAILURES = {
    StepKind.CLEAN: errors.CleanStepFailed,
    StepKind.DEPLOY: errors.DeployStepFailed,
    StepKind.SERVICE: errors.StepFailed,
}
SETTINGS = [{"name": "boot", "value": "fast"}]
IMAGES = [{"component": "bmc", "url": "http://images.example.org/bmc-7.bin"}]
TITLES = [(kind, title) for kind, listed in LISTED.items() for title in listed]


ARGS: dict[str, dict[str, Any]] = {
    "bios.apply_configuration": {"settings": SETTINGS},
    "firmware.update": {"settings": IMAGES},
    "raid.apply_configuration": {"raid_config": VOLUMES},
}


def _args(title: str) -> dict[str, Any]:
    return ARGS.get(title, {})


@pytest.fixture
def five_seconds() -> Iterator[None]:
    """Set what a step takes on nodes that say nothing."""
    config.CONF.set_override("step_seconds", 5, group="fake")
    yield
    config.CONF.clear_override("step_seconds", group="fake")


@pytest.mark.parametrize("kind", LISTED)
def test_the_steps_are_those_of_the_list(kind: StepKind) -> None:
    task = FakeTask()
    found = {
        f"{step['interface']}.{step['step']}": (
            step["priority"],
            step["abortable"],
            {name: arg["required"] for name, arg in (step["argsinfo"] or {}).items()},
        )
        for interface in task.driver.interfaces()
        for step in getattr(interface, f"get_{kind}_steps")(task)
    }
    assert found == LISTED[kind]


@pytest.mark.parametrize(("kind", "title"), TITLES)
def test_every_step_succeeds_by_default_and_takes_no_time(kind: StepKind, title: str) -> None:
    task = FakeTask(fake_task.node(target_raid_config=VOLUMES))
    assert fake_task.run(task, kind, title, **_args(title)) is None
    assert task.pauses == task.timers == []


@pytest.mark.parametrize(("kind", "title"), TITLES)
def test_every_step_can_be_run_twice(kind: StepKind, title: str) -> None:
    task = FakeTask(fake_task.node(target_raid_config=VOLUMES))
    fake_task.run(task, kind, title, **_args(title))
    fake_task.run(task.elsewhere(), kind, title, **_args(title))


@pytest.mark.parametrize(("kind", "title"), TITLES)
def test_a_step_told_to_fail_does_so_by_its_kind_after_its_time(kind: StepKind, title: str) -> None:
    task = FakeTask(fake_fail_steps={title: "the disk {burns}"}, fake_step_seconds=1.5)
    with pytest.raises(FAILURES[kind]) as failure:
        fake_task.run(task, kind, title, **_args(title))
    assert type(failure.value) is FAILURES[kind]
    assert failure.value.message == f"Step {title} failed: the disk {{burns}}"
    assert task.pauses == [1.5]


@pytest.mark.parametrize(("kind", "title"), TITLES)
@pytest.mark.parametrize("told", ["by name", "by star"])
def test_a_step_told_to_wait_does_its_work_when_its_timer_ends(
    kind: StepKind, title: str, told: str
) -> None:
    task = FakeTask(fake_async_steps=["*"] if told == "by star" else [title], fake_step_seconds=40)
    task.node.target_raid_config = VOLUMES
    assert fake_task.run(task, kind, title, **_args(title)) is base.WAIT
    assert task.timers == [40]
    assert task.pauses == []
    later = task.elsewhere()
    interface = later.driver.interface(title.partition(".")[0])
    assert interface.poll_step(later, kind, fake_task.step(title, **_args(title))) is base.DONE
    assert later.timers == []


def test_a_waiting_step_has_no_effect_before_its_end() -> None:
    task = FakeTask(fake_async_steps=["raid.delete_configuration"])
    task.node.raid_config = {"logical_disks": []}
    fake_task.clean(task, "raid.delete_configuration")
    assert task.node.raid_config == {"logical_disks": []}
    task.driver.raid.poll_step(task, StepKind.CLEAN, fake_task.step("raid.delete_configuration"))
    assert task.node.raid_config == {}


def test_a_waiting_step_that_is_to_fail_fails_at_its_end() -> None:
    title = "deploy.erase_devices"
    task = FakeTask(fake_async_steps=[title], fake_fail_steps={title: "broken"})
    assert fake_task.clean(task, title) is base.WAIT
    with pytest.raises(errors.CleanStepFailed, match="broken"):
        task.driver.deploy.poll_step(task, StepKind.CLEAN, fake_task.step(title))


def test_other_steps_than_the_told_ones_neither_fail_nor_wait() -> None:
    task = FakeTask(
        fake_async_steps=["deploy.erase_devices"],
        fake_fail_steps={"deploy.erase_devices": "broken"},
    )
    assert fake_task.clean(task, "deploy.erase_devices_metadata") is None
    assert task.timers == []


def test_the_time_of_a_step_comes_from_the_node_or_else_the_configuration(
    five_seconds: None,
) -> None:
    unsaid, said, none = FakeTask(), FakeTask(fake_step_seconds=0.25), FakeTask(fake_step_seconds=0)
    for task in (unsaid, said, none):
        fake_task.clean(task, "deploy.erase_devices")
    assert [unsaid.pauses, said.pauses, none.pauses] == [[5], [0.25], []]


def test_nonsense_that_got_into_the_node_fails_the_step_by_name() -> None:
    task = FakeTask(fake_step_seconds="soon")
    with pytest.raises(errors.InvalidParameter, match="driver_info/fake_step_seconds"):
        fake_task.clean(task, "deploy.erase_devices")


@pytest.mark.parametrize("seconds", [30, 0, -1])
def test_the_list_of_clean_steps_can_be_unavailable(seconds: int) -> None:
    task = FakeTask(fake_steps_unavailable=seconds)
    with pytest.raises(errors.StepsUnavailable) as answer:
        task.driver.deploy.get_clean_steps(task)
    assert answer.value.facts == {"node": task.node.uuid, "seconds": seconds}
    assert task.driver.deploy.get_deploy_steps(task)


def test_verification_is_one_step_that_never_waits() -> None:
    task = FakeTask(fake_async_steps=["*"])
    assert [
        (step["interface"], step["step"], step["priority"])
        for interface in task.driver.interfaces()
        for step in interface.get_verify_steps(task)
    ] == [("management", "verify_access", 10)]
    assert fake_task.run(task, StepKind.VERIFY, "management.verify_access") is None


def test_verification_fails_if_told_to() -> None:
    task = FakeTask(fake_fail_verbs={"verify": "no such user"})
    with pytest.raises(errors.HardwareError, match=r"^no such user$"):
        fake_task.run(task, StepKind.VERIFY, "management.verify_access")
    task = FakeTask(fake_fail_steps={"management.verify_access": "no"})
    with pytest.raises(errors.StepFailed, match=r"management\.verify_access failed: no"):
        fake_task.run(task, StepKind.VERIFY, "management.verify_access")


# -- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        None,
        [],
        {},
        "boot=fast",
        ["boot"],
        [{"name": "boot"}],
        [{"value": 1}],
        [{"name": "boot", "value": 1, "unit": "s"}],
        [{"name": 5, "value": 1}],
        [{"name": "", "value": 1}],
    ],
)
@pytest.mark.parametrize("kind", FAILURES)
def test_wrong_settings_fail_the_step_by_the_name_of_the_argument(
    kind: StepKind, settings: Any
) -> None:
    task = FakeTask()
    with pytest.raises(FAILURES[kind], match=r"Step bios\.apply_configuration failed: settings"):
        fake_task.run(task, kind, "bios.apply_configuration", settings=settings)


@pytest.mark.parametrize("wrong", [None, [], {}, {"logical_disks": []}, {"logical_disks": [1]}])
@pytest.mark.parametrize("kind", [StepKind.DEPLOY, StepKind.SERVICE])
def test_a_wrong_raid_config_fails_the_step_by_the_name_of_the_argument(
    kind: StepKind, wrong: Any
) -> None:
    with pytest.raises(FAILURES[kind], match="failed: raid_config"):
        fake_task.run(FakeTask(), kind, "raid.apply_configuration", raid_config=wrong)


@pytest.mark.parametrize("name", list(raid.CREATE_ARGS))
def test_a_wrong_flag_fails_the_step_by_the_name_of_the_argument(name: str) -> None:
    task = FakeTask(fake_task.node(target_raid_config=VOLUMES))
    with pytest.raises(errors.CleanStepFailed, match=f"failed: {name}: 'no' is not true or false"):
        fake_task.clean(task, "raid.create_configuration", **{name: "no"})
