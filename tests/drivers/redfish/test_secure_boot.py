"""Secure boot and boot mode: settings that some machines only take up when they start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import management, power
from ironic_lite.drivers.redfish.bmc import pending_settings
from tests.emulators import bmc
from tests.emulators.bmc import acts
from tests.support import bmc_tasks, fake_task

MANAGEMENT = management.RedfishManagement()
DEFAULT_KEYS = "management.reset_secure_boot_keys_to_default"


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


@pytest.fixture
def task(machine: bmc.Machine) -> bmc_tasks.BmcTask:
    return bmc_tasks.task_of(machine)


def secure(machine: bmc.Machine) -> dict[str, Any]:
    return machine["SecureBoot"]


@pytest.fixture
def patience() -> Iterator[None]:
    config.CONF.set_override("boot_mode_config_timeout", 1, group="redfish")
    yield
    config.CONF.clear_override("boot_mode_config_timeout", group="redfish")


# -- machines that say at once that it is so ------------------------------------------------------


def test_the_emulator_is_switched_on_and_off_and_on_again_is_not_sent(
    emulated: bmc_tasks.BmcTask,
) -> None:
    task = emulated
    assert MANAGEMENT.get_secure_boot_state(task) is False
    for state in (True, True, False):
        MANAGEMENT.set_secure_boot_state(task, state)
        assert MANAGEMENT.get_secure_boot_state(task) is state


def test_secure_boot_is_switched_with_the_etag_of_the_document(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    MANAGEMENT.set_secure_boot_state(task, True)
    assert secure(machine)["SecureBootEnable"] is True
    (patch,) = [request for request in machine.requests if request.method == "PATCH"]
    assert patch.headers["If-Match"].startswith('"')
    assert machine.sent == []


def test_setting_that_is_already_so_is_not_sent(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    MANAGEMENT.set_secure_boot_state(task, False)
    assert machine.changes() == []


def test_in_bios_mode_it_cannot_be_switched_on(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.tree[machine.system]["Boot"]["BootSourceOverrideMode"] = "Legacy"
    with pytest.raises(errors.HardwareError, match="needs the boot mode uefi; this machine has"):
        MANAGEMENT.set_secure_boot_state(task, True)
    assert machine.changes() == []


# -- machines that are restarted for it -----------------------------------------------------------


def at_boot(machine: bmc.Machine, path: str, *keys: str) -> None:
    """Let a machine take a PATCH up when it boots."""

    def later(handler: bmc.Handler) -> None:
        body = handler.request_read.body
        machine.at_boot(lambda: acts.merge(machine.tree[path], body))
        handler.say(202)

    machine.tricks[f"PATCH {path}"] = later


@pytest.mark.parametrize("before", ["On", "Off"])
def test_a_machine_that_needs_a_restart_gets_it_and_its_power_state_back(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, before: str
) -> None:
    machine.go(before, boots=False)
    at_boot(machine, f"{machine.system}/SecureBoot")
    MANAGEMENT.set_secure_boot_state(task, True)
    assert secure(machine)["SecureBootEnable"] is True
    assert machine.tree[machine.system]["PowerState"] == before
    assert task.node.power_state == f"power {before.lower()}"


def test_a_bmc_that_takes_some_seconds_costs_no_restart(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    path = f"{machine.system}/SecureBoot"
    machine.tricks[f"PATCH {path}"] = bmc.says(202)
    looked = 0

    def shown(handler: bmc.Handler) -> None:
        nonlocal looked
        looked += 1
        if looked > 4:
            secure(machine)["SecureBootEnable"] = True
        handler.truth()

    machine.tricks[f"GET {path}"] = shown
    MANAGEMENT.set_secure_boot_state(task, True)
    assert machine.sent == []
    assert task.pauses == [pending_settings.LOOK_PAUSE] * 2


def test_boot_mode_restarts_the_machine(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    at_boot(machine, machine.system)
    MANAGEMENT.set_boot_mode(task, "bios")
    assert MANAGEMENT.get_boot_mode(task) == "bios"
    assert machine.tree[machine.system]["PowerState"] == "Off"
    assert machine.sent == ["On", "ForceOff"]


def test_a_bmc_that_is_busy_with_the_change_is_asked_again(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    at_boot(machine, f"{machine.system}/SecureBoot")
    looks = f"GET {machine.system}/SecureBoot"

    def stumble() -> None:
        machine.tricks[looks] = bmc.says_first(4, bmc.says(500))

    machine.at_boot(stumble)
    MANAGEMENT.set_secure_boot_state(task, True)
    assert pending_settings.PAUSE in task.pauses


@pytest.mark.parametrize("state", sorted(pending_settings.OCCUPIED))
def test_a_machine_with_an_instance_is_not_restarted(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, state: str
) -> None:
    task.node.provision_state = state
    at_boot(machine, f"{machine.system}/SecureBoot")
    with pytest.raises(errors.HardwareError, match="not restarted automatically: reboot it, then"):
        MANAGEMENT.set_secure_boot_state(task, True)
    assert machine.sent == []


def test_a_machine_that_never_takes_it_up_is_told_of_and_has_its_power_state_back(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, patience: None
) -> None:
    machine.tricks[f"PATCH {machine.system}/SecureBoot"] = bmc.says(202)
    with pytest.raises(errors.HardwareError, match="does not show it after 1 s"):
        MANAGEMENT.set_secure_boot_state(task, True)
    assert machine.tree[machine.system]["PowerState"] == "Off"
    assert task.node.power_state == base.POWER_OFF


def test_wait_for_secure_boot_can_be_switched_off(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.tricks[f"PATCH {machine.system}/SecureBoot"] = bmc.says(202)
    config.CONF.set_override("boot_mode_config_timeout", 0, group="redfish")
    try:
        MANAGEMENT.set_secure_boot_state(task, True)
    finally:
        config.CONF.clear_override("boot_mode_config_timeout", group="redfish")
    assert machine.sent == ["On", "ForceOff"]


# -- machines that do not have it, or do not give it ----------------------------------------------


@pytest.mark.parametrize("gone", ["link", "document"])
def test_a_machine_without_it_is_no_fault_of_the_bmc(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, gone: str
) -> None:
    if gone == "link":
        del machine.tree[machine.system]["SecureBoot"]
    else:
        del machine.tree[f"{machine.system}/SecureBoot"]
    lacking = pytest.raises(errors.UnsupportedDriverExtension, match="has no SecureBoot resource")
    with lacking:
        MANAGEMENT.get_secure_boot_state(task)
    with lacking:
        MANAGEMENT.set_secure_boot_state(task, True)
    with lacking:
        MANAGEMENT.clear_secure_boot_keys(task)


def test_a_state_that_is_not_told_is_unknown(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    secure(machine)["SecureBootEnable"] = None
    assert MANAGEMENT.get_secure_boot_state(task) is None
    secure(machine).clear()
    assert MANAGEMENT.get_secure_boot_state(task) is None
    with pytest.raises(errors.BmcBadAnswer, match="The property SecureBootEnable is unknown"):
        MANAGEMENT.set_secure_boot_state(task, True)


def test_for_want_of_a_licence_it_is_unknown_and_cannot_be_switched(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    refusal = {"error": {"@Message.ExtendedInfo": [{"MessageId": "SMC.1.0.OemLicenseNotPassed"}]}}
    machine.tricks[f"GET {machine.system}/SecureBoot"] = bmc.says(403, refusal)
    assert MANAGEMENT.get_secure_boot_state(task) is None
    with pytest.raises(errors.HardwareError, match="licence"):
        MANAGEMENT.set_secure_boot_state(task, True)


def test_another_403_is_about_the_user(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    machine.tricks[f"GET {machine.system}/SecureBoot"] = bmc.says(403)
    with pytest.raises(errors.BmcAccessDenied, match="does not allow this"):
        MANAGEMENT.get_secure_boot_state(task)


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, errors.BmcBadAnswer, "refused the request: HTTP 400 .Not with these keys.."),
        (500, errors.BmcBadAnswer, "has an internal error: HTTP 500 .Not with these keys.."),
        (503, errors.BmcUnreachable, "is not ready: HTTP 503"),
    ],
)
def test_a_refusal_is_told_in_the_bmcs_words(
    machine: bmc.Machine,
    task: bmc_tasks.BmcTask,
    status: int,
    kind: type[errors.Error],
    words: str,
) -> None:
    said = {"error": {"message": "Not with these keys."}}
    machine.tricks[f"PATCH {machine.system}/SecureBoot"] = bmc.says(status, said)
    with pytest.raises(kind, match=words):
        MANAGEMENT.set_secure_boot_state(task, True)


# -- keys -----------------------------------------------------------------------------------------


def test_keys_are_deleted_and_put_back_by_steps(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    clear = fake_task.step("management.clear_secure_boot_keys")
    assert MANAGEMENT.execute_clean_step(task, clear) is None
    assert secure(machine)["SecureBootMode"] == "SetupMode"
    assert MANAGEMENT.execute_service_step(task, fake_task.step(DEFAULT_KEYS)) is None
    assert secure(machine)["SecureBootMode"] == "UserMode"


def test_keys_that_cannot_be_put_back_are_left_alone(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    action = secure(machine)["Actions"]["#SecureBoot.ResetKeys"]
    action["ResetKeysType@Redfish.AllowableValues"] = ["DeletePK"]
    with pytest.raises(errors.UnsupportedDriverExtension, match="has no such action"):
        MANAGEMENT.execute_clean_step(task, fake_task.step(DEFAULT_KEYS))
    assert machine.changes() == []


# -- boot mode ------------------------------------------------------------------------------------


def test_a_mode_that_the_machine_does_not_offer_is_refused_with_those_it_does(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    boot = machine.tree[machine.system]["Boot"]
    boot["BootSourceOverrideMode@Redfish.AllowableValues"] = ["UEFI"]
    with pytest.raises(
        errors.InvalidParameter, match=r"boot_mode: bios is not offered .* only uefi"
    ):
        MANAGEMENT.set_boot_mode(task, "bios")


def test_a_machine_that_shows_no_mode_is_told_one_all_the_same(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    del machine.tree[machine.system]["Boot"]["BootSourceOverrideMode"]
    with pytest.raises(
        errors.UnsupportedDriverExtension, match="does not show or accept a boot mode"
    ):
        MANAGEMENT.set_boot_mode(task, "bios")
    machine.tricks[f"PATCH {machine.system}"] = bmc.says(204)
    MANAGEMENT.set_boot_mode(task, "bios")
    assert machine.sent == []


def test_the_power_interface_of_these_tests_is_the_real_one(task: bmc_tasks.BmcTask) -> None:
    assert isinstance(task.driver.power, power.RedfishPower)
