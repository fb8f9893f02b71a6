"""What a fake machine's BMC can be told, and that a driver which cannot says so."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import behaviour
from tests.support import fake_task
from tests.support.fake_task import FakeTask

Act = Callable[[base.Management, FakeTask], Any]

CALLS: dict[str, Act] = {
    "set_boot_mode": lambda bmc, task: bmc.set_boot_mode(task, "uefi"),
    "set_secure_boot_state": lambda bmc, task: bmc.set_secure_boot_state(task, True),
    "inject_nmi": lambda bmc, task: bmc.inject_nmi(task),
    "set_indicator_state": lambda bmc, task: bmc.set_indicator_state(task, "system", "led", "on"),
    "get_sensors_data": lambda bmc, task: bmc.get_sensors_data(task),
    "attach_virtual_media": lambda bmc, task: bmc.attach_virtual_media(task, "disk", "http://a/b"),
    "detach_virtual_media": lambda bmc, task: bmc.detach_virtual_media(task, ["disk"]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_takes_its_time_and_fails_if_told_to(call: str) -> None:
    told: dict[str, Any] = {
        "fake_fail_calls": {f"management.{call}": "out of order"},
        "fake_step_seconds": 7,
    }
    task = FakeTask(**told)
    with pytest.raises(errors.HardwareError, match="out of order"):
        CALLS[call](task.driver.management, task)
    assert task.pauses == [7]
    assert task.notes == {}
    CALLS[call](task.driver.management, FakeTask())


def test_every_call_that_can_be_made_to_fail_is_tried_here() -> None:
    assert {f"management.{call}" for call in CALLS} | {"vendor.blink"} == set(behaviour.CALLS)


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
    assert tried >= {*CALLS, "get_virtual_media", "get_supported_indicators", "detect_vendor"}


def test_a_step_and_a_method_may_live_in_one_vendor() -> None:
    vendor = fake_task.FAKE.vendor
    assert [one["step"] for one in vendor.get_service_steps(FakeTask())] == ["log_passthrough"]
