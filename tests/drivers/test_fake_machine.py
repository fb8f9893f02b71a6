"""A fake machine as a whole: what it is told it remembers, on its node and nowhere else."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import behaviour, hardware
from tests.support import fake_task
from tests.support.fake_task import FakeTask

NotedTask = fake_task.FakeTask

DISKS = [
    {"size_gb": 10, "raid_level": "1", "is_root_volume": True},
    {"size_gb": "MAX", "raid_level": "5"},
]


# -- power -----------------------------------------------------------------------------------


def test_a_new_machine_is_off() -> None:
    task = NotedTask()
    assert task.driver.power.get_power_state(task) == base.POWER_OFF


@pytest.mark.parametrize(
    ("target", "end"),
    [
        (base.POWER_ON, base.POWER_ON),
        (base.POWER_OFF, base.POWER_OFF),
        (base.SOFT_POWER_OFF, base.POWER_OFF),
        (base.REBOOT, base.POWER_ON),
        (base.SOFT_REBOOT, base.POWER_ON),
    ],
)
@pytest.mark.parametrize("before", [base.POWER_ON, base.POWER_OFF])
def test_power_is_what_was_set_last_also_elsewhere(target: str, end: str, before: str) -> None:
    task = NotedTask()
    task.driver.power.set_power_state(task, before)
    task.driver.power.set_power_state(task, target, timeout=3)
    assert task.driver.power.get_power_state(task.elsewhere()) == end
    assert target in task.driver.power.get_supported_power_states(task)


@pytest.mark.parametrize("soft", [True, False])
def test_a_reboot_ends_with_the_power_on(soft: bool) -> None:
    task = NotedTask()
    task.driver.power.reboot(task, soft=soft)
    assert task.driver.power.get_power_state(task) == base.POWER_ON


def test_an_unknown_power_state_is_refused() -> None:
    task = NotedTask()
    with pytest.raises(errors.InvalidParameter, match="'dim' is not one of power on"):
        task.driver.power.set_power_state(task, "dim")


def test_the_power_cycle_step_leaves_the_machine_on() -> None:
    task = NotedTask()
    fake_task.clean(task, "power.cycle")
    assert task.driver.power.get_power_state(task) == base.POWER_ON
    assert task.node.power_state == base.POWER_ON


def test_every_power_call_fails_if_told_to() -> None:
    task = NotedTask(fake_fail_power="fuse blown")
    with pytest.raises(errors.HardwareError, match="fuse blown"):
        task.driver.power.get_power_state(task)
    with pytest.raises(errors.PowerFailure, match="power on: fuse blown"):
        task.driver.power.set_power_state(task, base.POWER_ON)
    with pytest.raises(errors.PowerFailure, match="fuse blown"):
        task.driver.power.reboot(task)
    with pytest.raises(errors.PowerFailure, match="fuse blown"):
        fake_task.clean(task, "power.cycle")


# -- management ------------------------------------------------------------------------------


def test_a_new_machine_boots_from_the_network_in_an_unknown_mode() -> None:
    task = NotedTask()
    management = task.driver.management
    assert management.get_boot_device(task) == {"boot_device": "pxe", "persistent": False}
    assert management.get_boot_mode(task) is None


@pytest.mark.parametrize("persistent", [True, False])
def test_the_boot_device_is_what_was_set_last_also_elsewhere(persistent: bool) -> None:
    task = NotedTask()
    management = task.driver.management
    devices = management.get_supported_boot_devices(task)
    assert {"pxe", "disk", "cdrom", "bios", "safe"} <= set(devices)
    for device in devices:
        management.set_boot_device(task, device, persistent=persistent)
        assert management.get_boot_device(task.elsewhere()) == {
            "boot_device": device,
            "persistent": persistent,
        }


def test_the_boot_mode_is_what_was_set_last_also_elsewhere() -> None:
    task = NotedTask()
    management = task.driver.management
    for mode in management.get_supported_boot_modes(task):
        management.set_boot_mode(task, mode)
        assert management.get_boot_mode(task.elsewhere()) == mode


def test_unknown_boot_devices_and_modes_are_refused() -> None:
    task = NotedTask()
    with pytest.raises(errors.InvalidParameter, match="boot_device: 'tape'"):
        task.driver.management.set_boot_device(task, "tape")
    with pytest.raises(errors.InvalidParameter, match="boot_mode: 'legacy'"):
        task.driver.management.set_boot_mode(task, "legacy")


# -- settings and volumes --------------------------------------------------------------------


def test_settings_add_up_until_they_are_reset() -> None:
    task = NotedTask()
    for settings in (
        [{"name": "b", "value": 1}, {"name": "a", "value": "x"}],
        [{"name": "b", "value": 2}],
    ):
        fake_task.clean(task, "bios.apply_configuration", settings=settings)
    assert task.elsewhere().recall(hardware.BIOS_SETTINGS) == [
        {"name": "a", "value": "x"},
        {"name": "b", "value": 2},
    ]
    fake_task.clean(task, "bios.factory_reset")
    assert task.recall(hardware.BIOS_SETTINGS) is None


@pytest.mark.parametrize(
    ("args", "built"),
    [
        ({}, DISKS),
        ({"create_root_volume": False}, DISKS[1:]),
        ({"create_nonroot_volumes": False}, DISKS[:1]),
        ({"create_root_volume": True, "create_nonroot_volumes": True}, DISKS),
    ],
)
def test_the_wanted_volumes_are_built(args: dict[str, bool], built: list[Any]) -> None:
    task = NotedTask(fake_task.node(target_raid_config={"logical_disks": DISKS}))
    fake_task.clean(task, "raid.create_configuration", **args)
    config = task.elsewhere().node.raid_config
    assert config is not None
    assert config["logical_disks"] == built
    assert datetime.datetime.fromisoformat(config["last_updated"]).tzinfo is datetime.UTC
    assert task.node.target_raid_config == {"logical_disks": DISKS}


@pytest.mark.parametrize("target", [None, {}])
def test_step_without_a_target_builds_nothing(target: Any) -> None:
    task = NotedTask(fake_task.node(target_raid_config=target))
    before = task.elsewhere().node.raid_config
    fake_task.clean(task, "raid.create_configuration")
    assert task.elsewhere().node.raid_config == before


def test_leaving_out_all_volumes_is_a_fault() -> None:
    task = NotedTask(fake_task.node(target_raid_config={"logical_disks": DISKS[:1]}))
    with pytest.raises(errors.CleanStepFailed, match="create_root_volume, create_nonroot_volumes"):
        fake_task.clean(task, "raid.create_configuration", create_root_volume=False)


def test_removing_volumes_leaves_none() -> None:
    task = NotedTask(fake_task.node(raid_config={"logical_disks": DISKS}))
    fake_task.clean(task, "raid.delete_configuration")
    assert task.node.raid_config == {}


@pytest.mark.parametrize("kind", [base.StepKind.DEPLOY, base.StepKind.SERVICE])
def test_volumes_can_be_given_with_the_step(kind: base.StepKind) -> None:
    task = NotedTask()
    fake_task.run(task, kind, "raid.apply_configuration", raid_config={"logical_disks": DISKS})
    assert task.node.raid_config is not None
    assert task.node.raid_config["logical_disks"] == DISKS


# -- inspection, rescue, deployment ----------------------------------------------------------


def test_inspection_fills_in_what_the_operator_did_not() -> None:
    task = NotedTask(fake_task.node(properties={"cpus": 2, "local_gb": None, "rack": "r1"}))
    assert task.driver.inspect.inspect_hardware(task) is base.DONE
    assert task.node.properties == {**hardware.FOUND, "cpus": 2, "rack": "r1"}
    assert "properties" in task.node.changes


def test_inspection_finds_the_network_cards_it_is_told_of() -> None:
    task = NotedTask(fake_ports=["52:54:00:00:00:02", "52:54:00:00:00:01"])
    task.driver.inspect.inspect_hardware(task)
    assert task.added == ["52:54:00:00:00:01", "52:54:00:00:00:02"]


def test_an_inspection_told_to_wait_ends_by_its_timer() -> None:
    task = NotedTask(fake_async_verbs=["inspect"], fake_step_seconds=7)
    assert task.driver.inspect.inspect_hardware(task) is base.WAIT
    assert (task.timers, task.node.properties) == ([7], {})
    later = task.elsewhere()
    assert later.driver.inspect.poll_inspection(later) is base.DONE
    assert later.node.properties == hardware.FOUND


def test_a_rescue_told_to_wait_ends_by_its_timer() -> None:
    task = NotedTask(fake_async_verbs=["rescue"], fake_step_seconds=7)
    assert task.driver.rescue.rescue(task) is base.WAIT
    assert task.timers == [7]
    assert task.driver.rescue.poll_rescue(task.elsewhere()) is base.DONE


def test_a_rescue_ends_at_once_by_default() -> None:
    task = NotedTask()
    assert task.driver.rescue.rescue(task) is base.DONE
    task.driver.rescue.unrescue(task)
    task.driver.rescue.clean_up(task)
    assert task.timers == []


CALLS: dict[str, Callable[[base.Task], object]] = {
    "inspect": lambda task: task.driver.inspect.inspect_hardware(task),
    "rescue": lambda task: task.driver.rescue.rescue(task),
    "unrescue": lambda task: task.driver.rescue.unrescue(task),
    "adopt": lambda task: task.driver.deploy.adopt(task),
    "delete": lambda task: task.driver.deploy.tear_down(task),
}


@pytest.mark.parametrize("verb", CALLS)
def test_a_verb_told_to_fail_does_so_and_no_other(verb: str) -> None:
    task = NotedTask(fake_fail_verbs={verb: "not today"})
    for other, call in CALLS.items():
        if other == verb:
            with pytest.raises(errors.HardwareError, match=r"^not today$"):
                call(task)
        else:
            call(task)


def test_all_verbs_are_tried_here() -> None:
    assert {*CALLS, "verify"} == set(behaviour.VERBS)


@pytest.mark.parametrize("verb", behaviour.ASYNC_VERBS)
def test_a_verb_that_waits_and_fails_fails_at_its_end(verb: str) -> None:
    task = NotedTask(fake_async_verbs=[verb], fake_fail_verbs={verb: "not today"})
    assert CALLS[verb](task) is base.WAIT
    poll: dict[str, Any] = {
        "inspect": task.driver.inspect.poll_inspection,
        "rescue": task.driver.rescue.poll_rescue,
    }
    with pytest.raises(errors.HardwareError, match="not today"):
        poll[verb](task.elsewhere())


def test_an_instance_runs_from_its_boot_to_its_end() -> None:
    task = NotedTask()
    for name in ("deploy", "write_image", "boot_instance"):
        fake_task.run(task, base.StepKind.DEPLOY, f"deploy.{name}")
    assert task.driver.power.get_power_state(task) == task.node.power_state == base.POWER_ON
    task.driver.deploy.tear_down(task)
    task.driver.deploy.tear_down(task)
    assert task.driver.power.get_power_state(task) == task.node.power_state == base.POWER_OFF


def test_a_machine_that_must_stay_on_is_not_switched_off_at_the_end() -> None:
    task = NotedTask(fake_task.node(disable_power_off=True))
    fake_task.run(task, base.StepKind.DEPLOY, "deploy.boot_instance")
    task.driver.deploy.tear_down(task)
    assert task.driver.power.get_power_state(task) == base.POWER_ON


# What a fake machine's BMC can be told, and that a driver which cannot says so.

Act = Callable[[base.Management, FakeTask], Any]

MANAGEMENT_CALLS: dict[str, Act] = {
    "set_boot_mode": lambda bmc, task: bmc.set_boot_mode(task, "uefi"),
    "set_secure_boot_state": lambda bmc, task: bmc.set_secure_boot_state(task, True),
    "inject_nmi": lambda bmc, task: bmc.inject_nmi(task),
    "set_indicator_state": lambda bmc, task: bmc.set_indicator_state(task, "system", "led", "on"),
    "get_sensors_data": lambda bmc, task: bmc.get_sensors_data(task),
    "attach_virtual_media": lambda bmc, task: bmc.attach_virtual_media(task, "disk", "http://a/b"),
    "detach_virtual_media": lambda bmc, task: bmc.detach_virtual_media(task, ["disk"]),
}


@pytest.mark.parametrize("call", MANAGEMENT_CALLS)
def test_a_call_takes_its_time_and_fails_if_told_to(call: str) -> None:
    told: dict[str, Any] = {
        "fake_fail_calls": {f"management.{call}": "out of order"},
        "fake_step_seconds": 7,
    }
    task = FakeTask(**told)
    with pytest.raises(errors.HardwareError, match="out of order"):
        MANAGEMENT_CALLS[call](task.driver.management, task)
    assert task.pauses == [7]
    assert task.notes == {}
    MANAGEMENT_CALLS[call](task.driver.management, FakeTask())


def test_every_call_that_can_be_made_to_fail_is_tried_here() -> None:
    assert {f"management.{call}" for call in MANAGEMENT_CALLS} | {"vendor.blink"} == set(
        behaviour.CALLS
    )


@pytest.mark.parametrize(
    "value", [{"management.get_boot_mode": "x"}, {"vendor.echo": "x"}, ["vendor.blink"], {"": "x"}]
)
def test_only_calls_that_there_are_can_be_made_to_fail(value: Any) -> None:
    with pytest.raises(errors.InvalidParameter) as refusal:
        behaviour.parse({"fake_fail_calls": value})
    assert refusal.value.facts["path"] == "driver_info/fake_fail_calls"


def test_fake_settings_are_known_on_other_conductors() -> None:
    task = FakeTask(fake_ports=["52:54:00:12:34:56"], fake_vendor="Fake Machines")
    bmc = task.driver.management
    assert (bmc.get_secure_boot_state(task), bmc.get_indicator_state(task, "system", "led")) == (
        False,
        "off",
    )
    bmc.set_secure_boot_state(task, True)
    bmc.set_indicator_state(task, "system", "led", "blinking")
    bmc.attach_virtual_media(task, "cdrom", "http://a/b")
    other = task.elsewhere()
    assert bmc.get_secure_boot_state(other) is True
    assert bmc.get_indicator_state(other, "system", "led") == "blinking"
    assert [one["image"] for one in bmc.get_virtual_media(other)] == [None, "http://a/b", None]
    assert bmc.get_mac_addresses(other) == ["52:54:00:12:34:56"]
    assert bmc.detect_vendor(other) == "Fake Machines"


def test_drives_are_emptied_one_by_one_or_all() -> None:
    task = FakeTask()
    bmc = task.driver.management
    for kind in base.VIRTUAL_MEDIA:
        bmc.attach_virtual_media(task, kind, f"http://a/{kind}")
    bmc.detach_virtual_media(task, ["floppy"])
    assert [one["inserted"] for one in bmc.get_virtual_media(task)] == [True, True, False]
    bmc.detach_virtual_media(task)
    bmc.detach_virtual_media(task)  # what is empty may stay so
    assert [one["inserted"] for one in bmc.get_virtual_media(task)] == [False] * 3


def test_an_unknown_drive_is_refused() -> None:
    task = FakeTask()
    with pytest.raises(errors.InvalidParameter, match="device_type"):
        task.driver.management.attach_virtual_media(task, "tape", "http://a/b")


def test_a_driver_that_cannot_says_so_with_the_name_of_the_call() -> None:
    task = FakeTask()
    bare = base.Management()
    words = {"device": "pxe", "mode": "uefi", "state": True, "component": "system"}
    words |= {"indicator": "led", "device_type": "disk", "image_url": "http://a/b"}
    tried = set()
    for name, method in vars(base.Management).items():
        if not inspect.isfunction(method):
            continue
        asked = [
            each.name
            for each in list(inspect.signature(method).parameters.values())[2:]
            if each.default is inspect.Parameter.empty
        ]
        with pytest.raises(errors.UnsupportedDriverExtension, match=name) as refusal:
            getattr(bare, name)(task, **{key: words[key] for key in asked})
        assert refusal.value.status == 400
        tried.add(name)
    assert tried >= {
        *MANAGEMENT_CALLS,
        "get_virtual_media",
        "get_supported_indicators",
        "detect_vendor",
    }


def test_a_step_and_a_method_may_live_in_one_vendor() -> None:
    vendor = fake_task.FAKE.vendor
    assert [one["step"] for one in vendor.get_service_steps(FakeTask())] == ["log_passthrough"]
