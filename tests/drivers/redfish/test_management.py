"""Boot device, boot mode and BMC reset by Redfish."""

from __future__ import annotations

import functools
import json

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base, bmc_reset
from ironic_lite.drivers.redfish import management, override, power
from tests.emulators import liar as liars
from tests.support import bmc_tasks, fake_task

MANAGEMENT = management.RedfishManagement()
POWER = power.RedfishPower()
RESET = fake_task.step("management.reset_bmc")


# -- the emulator -----------------------------------------------------------------------------


def test_the_emulator_offers_network_disk_cd_and_http(machine: bmc_tasks.BmcTask) -> None:
    found = MANAGEMENT.get_supported_boot_devices(machine)
    assert found == ["pxe", "disk", "cdrom", "uefihttp"]


@pytest.mark.parametrize("device", ["pxe", "disk", "cdrom"])
def test_a_device_that_was_set_is_read_back(machine: bmc_tasks.BmcTask, device: str) -> None:
    MANAGEMENT.set_boot_device(machine, device, persistent=True)
    assert MANAGEMENT.get_boot_device(machine) == {"boot_device": device, "persistent": True}


def test_a_boot_mode_that_was_set_is_read_back(machine: bmc_tasks.BmcTask) -> None:
    assert MANAGEMENT.get_supported_boot_modes(machine) == ["bios", "uefi"]
    assert MANAGEMENT.get_boot_mode(machine) == "uefi"
    MANAGEMENT.set_boot_mode(machine, "bios")
    assert MANAGEMENT.get_boot_mode(machine) == "bios"


def test_the_emulators_bmc_cannot_be_reset_and_that_is_said(machine: bmc_tasks.BmcTask) -> None:
    with pytest.raises(errors.UnsupportedDriverExtension, match=r"offers no Manager\.Reset"):
        MANAGEMENT.execute_clean_step(machine, RESET)


# -- our own BMC ------------------------------------------------------------------------------


@pytest.mark.parametrize(("persistent", "word"), [(False, "Once"), (True, "Continuous")])
def test_persistence_reaches_the_bmc(liar: liars.Liar, persistent: bool, word: str) -> None:
    task = bmc_tasks.task_at(liar.address)
    MANAGEMENT.set_boot_device(task, "pxe", persistent=persistent)
    assert liar.boot["BootSourceOverrideTarget"] == "Pxe"
    assert liar.boot["BootSourceOverrideEnabled"] == word
    assert MANAGEMENT.get_boot_device(task) == {"boot_device": "pxe", "persistent": persistent}


def test_a_machine_without_override_has_no_boot_device(liar: liars.Liar) -> None:
    found = MANAGEMENT.get_boot_device(bmc_tasks.task_at(liar.address))
    assert found == {"boot_device": None, "persistent": None}


def test_a_device_the_machine_does_not_offer_is_refused_with_those_it_does(
    liar: liars.Liar,
) -> None:
    with pytest.raises(errors.InvalidParameter, match=r"cdrom is not offered .* only pxe, disk"):
        MANAGEMENT.set_boot_device(bmc_tasks.task_at(liar.address), "cdrom")


def test_unknown_devices_and_modes_are_refused_before_the_bmc_is_asked(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address)
    with pytest.raises(errors.InvalidParameter, match="boot_device: 'tape' is not one of pxe"):
        MANAGEMENT.set_boot_device(task, "tape")
    with pytest.raises(errors.InvalidParameter, match="boot_mode: 'dos' is not one of bios, uefi"):
        MANAGEMENT.set_boot_mode(task, "dos")
    assert liar.log == []


def only_once(handler: liars.Handler, status: int = 400) -> None:
    """Refuse what shall last."""
    wanted = json.loads(handler.body)["Boot"].get("BootSourceOverrideEnabled")
    if wanted == "Continuous":
        handler.say(status, {"error": {"message": "Continuous is not supported."}})
    else:
        handler.truth()


@pytest.mark.parametrize("status", [400, 500, 501])
def test_a_bmc_that_refuses_to_keep_a_device_is_told_anew_before_each_boot(
    liar: liars.Liar, status: int
) -> None:
    liar.tricks[f"PATCH {liars.SYSTEM}"] = functools.partial(only_once, status=status)
    task = bmc_tasks.task_at(liar.address)
    MANAGEMENT.set_boot_device(task, "disk", persistent=True)
    assert task.recall(override.NOTE) == "disk"
    assert MANAGEMENT.get_boot_device(task) == {"boot_device": "disk", "persistent": True}

    for target in (base.POWER_ON, base.POWER_OFF, base.POWER_ON):
        POWER.set_power_state(task, target)
        assert MANAGEMENT.get_boot_device(task) == {"boot_device": "disk", "persistent": True}
    assert liar.booted == ["Hdd", "Hdd"]


def test_a_device_for_one_boot_is_not_overwritten_by_the_remembered_one(liar: liars.Liar) -> None:
    liar.tricks[f"PATCH {liars.SYSTEM}"] = only_once
    task = bmc_tasks.task_at(liar.address)
    MANAGEMENT.set_boot_device(task, "disk", persistent=True)
    MANAGEMENT.set_boot_device(task, "pxe")
    assert MANAGEMENT.get_boot_device(task) == {"boot_device": "pxe", "persistent": False}
    for target in (base.POWER_ON, base.POWER_OFF, base.POWER_ON):
        POWER.set_power_state(task, target)
    assert liar.booted == ["Pxe", "Hdd"]
    assert task.recall(override.NOTE) == "disk"


def test_a_bmc_that_keeps_the_device_itself_needs_no_note(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address)
    task.keep(override.NOTE, "pxe")
    MANAGEMENT.set_boot_device(task, "disk", persistent=True)
    assert task.recall(override.NOTE) is None


def test_some_manufacturers_get_mode_duration_and_target_in_one_request(liar: liars.Liar) -> None:
    liar.manufacturer = "AMI"
    bodies = []

    def listen(handler: liars.Handler) -> None:
        bodies.append(json.loads(handler.body)["Boot"])
        handler.truth()

    liar.tricks[f"PATCH {liars.SYSTEM}"] = listen
    task = bmc_tasks.task_at(liar.address)
    MANAGEMENT.set_boot_device(task, "pxe")
    MANAGEMENT.set_boot_mode(task, "bios")
    whole = {
        "BootSourceOverrideTarget": "Pxe",
        "BootSourceOverrideEnabled": "Once",
        "BootSourceOverrideMode": "UEFI",
    }
    assert bodies == [whole, {**whole, "BootSourceOverrideMode": "Legacy"}]


def test_only_the_modes_the_machine_offers_are_told(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address)
    liar.boot["BootSourceOverrideMode@Redfish.AllowableValues"] = ["UEFI"]
    assert MANAGEMENT.get_supported_boot_modes(task) == ["uefi"]
    liar.boot.clear()
    assert MANAGEMENT.get_supported_boot_modes(task) == []
    assert MANAGEMENT.get_boot_mode(task) is None


def test_a_mode_that_is_set_already_is_not_sent(liar: liars.Liar) -> None:
    MANAGEMENT.set_boot_mode(bmc_tasks.task_at(liar.address), "uefi")
    assert f"PATCH {liars.SYSTEM}" not in liar.log


# -- the BMC itself ---------------------------------------------------------------------------


STEPS = {"reset_bmc", "reset_secure_boot_keys_to_default", "clear_secure_boot_keys"}


def test_the_steps_are_clean_and_service_steps_that_need_no_ramdisk() -> None:
    task = bmc_tasks.task_at("https://bmc")
    clean, service = MANAGEMENT.get_clean_steps(task), MANAGEMENT.get_service_steps(task)
    for found, more in ((clean, {"set_bmc_clock"}), (service, set())):
        assert {step["step"] for step in found} == STEPS | more
        assert {(step["priority"], step["requires_ramdisk"]) for step in found} == {(0, False)}


def test_a_bmc_reset_waits_until_the_bmc_is_back(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address)
    assert MANAGEMENT.execute_clean_step(task, RESET) is base.WAIT
    assert liar.restarts == ["GracefulRestart"]
    assert task.timers == [bmc_reset.PAUSE]

    liar.tricks[f"GET {liars.ROOT}"] = liars.says_first(3, liars.says(503))
    assert MANAGEMENT.poll_step(task, base.StepKind.CLEAN, RESET) is base.WAIT
    assert task.timers == [bmc_reset.PAUSE] * 2

    later = task.elsewhere()
    later.node.driver_info = task.node.driver_info
    assert MANAGEMENT.poll_step(later, base.StepKind.CLEAN, RESET) is base.DONE
    assert later.recall(bmc_reset.NOTE) is None


@pytest.mark.parametrize("gone", [liars.hangs_up, liars.silent, liars.ends_early])
def test_a_bmc_that_is_gone_before_it_answers_obeys(liar: liars.Liar, gone: liars.Trick) -> None:
    task = bmc_tasks.task_at(liar.address)
    place = f"POST {liars.MANAGER}/Actions/Manager.Reset"
    if gone is liars.silent:
        bmc_tasks.wait_for_answers(1)
    liar.tricks[place] = gone
    assert MANAGEMENT.execute_clean_step(task, RESET) is base.WAIT
    assert liar.log.count(place) == 1
    looks = [MANAGEMENT.poll_step(task, base.StepKind.CLEAN, RESET) for _ in range(bmc_reset.LOOKS)]
    assert looks == [*[base.WAIT] * (bmc_reset.LOOKS - 1), base.DONE]


def test_a_bmc_that_refuses_to_restart_fails_the_step(liar: liars.Liar) -> None:
    refusal = liars.says(400, {"error": {"message": "Not now."}})
    liar.tricks[f"POST {liars.MANAGER}/Actions/Manager.Reset"] = refusal
    with pytest.raises(errors.BmcBadAnswer, match=r"refused the request: HTTP 400 \(Not now\)"):
        MANAGEMENT.execute_clean_step(bmc_tasks.task_at(liar.address), RESET)


def test_a_bmc_that_does_not_come_back_fails_the_step(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address)
    MANAGEMENT.execute_service_step(task, RESET)
    task.keep(bmc_reset.NOTE, {"until": 1.0, "looks": 0})  # long ago
    liar.tricks[f"GET {liars.ROOT}"] = liars.says(503)
    with pytest.raises(errors.StepFailed, match=r"did not come back within 900 s.*HTTP 503"):
        MANAGEMENT.poll_step(task, base.StepKind.SERVICE, RESET)
