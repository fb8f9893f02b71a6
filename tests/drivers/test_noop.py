"""What is not there says so; what needs nothing done agrees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.noop import interfaces
from tests.support import fake_task

ABSENT = [
    interfaces.NoBIOS(),
    interfaces.NoConsole(),
    interfaces.NoFirmware(),
    interfaces.NoInspect(),
    interfaces.NoRAID(),
    interfaces.NoRescue(),
    interfaces.NoVendor(),
]
OPERATIONS: list[Callable[[base.Task], object]] = [
    interfaces.NoInspect().inspect_hardware,
    interfaces.NoInspect().poll_inspection,
    interfaces.NoInspect().abort,
    interfaces.NoRescue().rescue,
    interfaces.NoRescue().poll_rescue,
    interfaces.NoRescue().unrescue,
]


def test_every_optional_kind_can_be_absent() -> None:
    assert {interface.kind for interface in ABSENT} == base.OPTIONAL_KINDS


@pytest.mark.parametrize("interface", ABSENT, ids=lambda found: found.kind)
def test_validating_an_absent_interface_says_what_is_missing(interface: base.Interface) -> None:
    with pytest.raises(errors.UnsupportedDriverExtension) as answer:
        interface.validate(fake_task.FakeTask())
    assert answer.value.facts == {"driver": "fake-hardware", "extension": interface.kind}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_absent_interface_refuses_each_operation(
    operation: Callable[[base.Task], object],
) -> None:
    with pytest.raises(errors.UnsupportedDriverExtension):
        operation(fake_task.FakeTask())


@pytest.mark.parametrize("interface", ABSENT, ids=lambda found: found.kind)
def test_an_absent_interface_has_no_steps_and_no_properties(interface: base.Interface) -> None:
    task = fake_task.FakeTask()
    assert interface.get_properties() == {}
    for kind in base.StepKind:
        assert getattr(interface, f"get_{kind}_steps")(task) == []


def test_cleaning_up_after_an_absent_rescue_is_harmless() -> None:
    interfaces.NoRescue().clean_up(fake_task.FakeTask())


def test_networks_and_storage_need_nothing() -> None:
    interfaces.NoopNetwork().validate(fake_task.FakeTask())
    interfaces.NoopStorage().validate(fake_task.FakeTask())


def test_management_takes_any_request_and_knows_nothing() -> None:
    task = fake_task.FakeTask()
    management = interfaces.NoopManagement()
    management.validate(task)
    for device in management.get_supported_boot_devices(task):
        management.set_boot_device(task, device, persistent=True)
    assert management.get_boot_device(task) == {"boot_device": None, "persistent": None}
    with pytest.raises(errors.UnsupportedDriverExtension):
        management.set_boot_mode(task, "uefi")
