"""Boot device, boot mode, secure boot, the clock of a BMC, and its reset."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.drivers import base, bmc_bases
from ironic_lite.drivers.redfish import boot, management, power
from tests.emulators import bmc
from tests.emulators import liar as liars
from tests.emulators.bmc import acts
from tests.support import bmc_tasks, fake_task

# Boot device, boot mode and BMC reset by Redfish.

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
    assert task.recall(boot.OVERRIDE_NOTE) == "disk"
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
    assert task.recall(boot.OVERRIDE_NOTE) == "disk"


def test_a_bmc_that_keeps_the_device_itself_needs_no_note(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address)
    task.keep(boot.OVERRIDE_NOTE, "pxe")
    MANAGEMENT.set_boot_device(task, "disk", persistent=True)
    assert task.recall(boot.OVERRIDE_NOTE) is None


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
    assert task.timers == [bmc_bases.RESET_PAUSE]

    liar.tricks[f"GET {liars.ROOT}"] = liars.says_first(3, liars.says(503))
    assert MANAGEMENT.poll_step(task, base.StepKind.CLEAN, RESET) is base.WAIT
    assert task.timers == [bmc_bases.RESET_PAUSE] * 2

    later = task.elsewhere()
    later.node.driver_info = task.node.driver_info
    assert MANAGEMENT.poll_step(later, base.StepKind.CLEAN, RESET) is base.DONE
    assert later.recall(bmc_bases.RESET_NOTE) is None


@pytest.mark.parametrize("gone", [liars.hangs_up, liars.silent, liars.ends_early])
def test_a_bmc_that_is_gone_before_it_answers_obeys(liar: liars.Liar, gone: liars.Trick) -> None:
    task = bmc_tasks.task_at(liar.address)
    place = f"POST {liars.MANAGER}/Actions/Manager.Reset"
    if gone is liars.silent:
        bmc_tasks.wait_for_answers(1)
    liar.tricks[place] = gone
    assert MANAGEMENT.execute_clean_step(task, RESET) is base.WAIT
    assert liar.log.count(place) == 1
    looks = [
        MANAGEMENT.poll_step(task, base.StepKind.CLEAN, RESET) for _ in range(bmc_bases.RESET_LOOKS)
    ]
    assert looks == [*[base.WAIT] * (bmc_bases.RESET_LOOKS - 1), base.DONE]


def test_a_bmc_that_refuses_to_restart_fails_the_step(liar: liars.Liar) -> None:
    refusal = liars.says(400, {"error": {"message": "Not now."}})
    liar.tricks[f"POST {liars.MANAGER}/Actions/Manager.Reset"] = refusal
    with pytest.raises(errors.BmcBadAnswer, match=r"refused the request: HTTP 400 \(Not now\)"):
        MANAGEMENT.execute_clean_step(bmc_tasks.task_at(liar.address), RESET)


def test_a_bmc_that_does_not_come_back_fails_the_step(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address)
    MANAGEMENT.execute_service_step(task, RESET)
    task.keep(bmc_bases.RESET_NOTE, {"until": 1.0, "looks": 0})  # long ago
    liar.tricks[f"GET {liars.ROOT}"] = liars.says(503)
    with pytest.raises(errors.StepFailed, match=r"did not come back within 900 s.*HTTP 503"):
        MANAGEMENT.poll_step(task, base.StepKind.SERVICE, RESET)


# The clock of a BMC: what is sent, in which zone, and what is checked afterwards.


@pytest.fixture
def clock_machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


def run(machine: bmc.Machine, **args: Any) -> bmc_tasks.BmcTask:
    task = bmc_tasks.task_of(machine)
    MANAGEMENT.execute_clean_step(task, fake_task.step("management.set_bmc_clock", **args))
    return task


def sent(machine: bmc.Machine) -> list[Any]:
    return [request.body for request in machine.requests if request.method == "PATCH"]


def test_the_clock_gets_the_time_of_the_conductor_in_its_own_zone(
    clock_machine: bmc.Machine,
) -> None:
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    run(clock_machine)
    [body] = sent(clock_machine)
    assert set(body) == {"DateTime"}
    assert body["DateTime"].endswith("+06:00")
    assert datetime.datetime.fromisoformat(body["DateTime"]) >= before


@pytest.mark.parametrize(
    ("shown", "args", "wanted"),
    [
        (
            "2015-03-13T04:14:33Z",
            {"target_datetime": "2026-01-31T12:00:00"},
            {"DateTime": "2026-01-31T12:00:00+00:00"},
        ),
        (
            "2015-03-13T04:14:33.123-05:00",
            {"target_datetime": "2026-01-31T12:00:00Z"},
            {"DateTime": "2026-01-31T07:00:00.000000-05:00"},
        ),
        (
            "2015-03-13T04:14:33",
            {"target_datetime": "2026-01-31T12:00:00.9+01:00"},
            {"DateTime": "2026-01-31T17:00:00+06:00"},
        ),
        (
            "2015-03-13T04:14:33+00:00",
            {"target_datetime": "2026-01-31T12:00:00Z", "datetime_local_offset": "+02:00"},
            {"DateTime": "2026-01-31T14:00:00+02:00", "DateTimeLocalOffset": "+02:00"},
        ),
    ],
)
def test_a_time_is_sent_as_the_bmc_writes_it(
    clock_machine: bmc.Machine, shown: str, args: dict[str, str], wanted: dict[str, str]
) -> None:
    clock_machine[clock_machine.places.manager]["DateTime"] = shown
    run(clock_machine, **args)
    assert sent(clock_machine) == [wanted]
    assert wanted.items() <= clock_machine[clock_machine.places.manager].items()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"target_datetime": "noon"}, "target_datetime: 'noon' is no time such as 2026"),
        ({"target_datetime": 7}, "target_datetime: '7' is no time"),
        (
            {"datetime_local_offset": "CET"},
            r"datetime_local_offset: 'CET' is no offset such as \+02",
        ),
        ({"datetime_local_offset": "+99:00"}, "is no offset"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    clock_machine: bmc.Machine, args: dict[str, Any], said: str
) -> None:
    with pytest.raises(errors.InvalidParameter, match=said):
        run(clock_machine, **args)
    assert clock_machine.log == []


def test_a_bmc_without_a_clock_says_so(clock_machine: bmc.Machine) -> None:
    del clock_machine[clock_machine.places.manager]["DateTime"]
    with pytest.raises(errors.UnsupportedDriverExtension, match=r"no manager .* shows DateTime"):
        run(clock_machine)


def test_a_clock_that_follows_ntp_fails_the_step(clock_machine: bmc.Machine) -> None:
    clock_machine.tricks[f"PATCH {clock_machine.places.manager}"] = bmc.says(200, {})
    with pytest.raises(errors.HardwareError, match=r"shows 2015-03-13T04:14:33\+06:00 .* NTP"):
        run(clock_machine)


def test_a_clock_that_shows_the_time_late_is_waited_for(clock_machine: bmc.Machine) -> None:
    manager = clock_machine.places.manager
    clock_machine.tricks[f"GET {manager}"] = bmc.says_first(3, lambda handler: handler.truth())
    old = dict(clock_machine[manager])
    reads = iter([old, old, old])

    def late(handler: bmc.Handler) -> None:
        document = next(reads, None) or clock_machine[manager]
        handler.say(200, document)

    clock_machine.tricks[f"GET {manager}"] = late
    task = run(clock_machine, target_datetime="2026-01-31T12:00:00Z")
    assert task.pauses == [management.LOOK_PAUSE]


def test_a_refusal_is_told_in_the_bmcs_words(clock_machine: bmc.Machine) -> None:
    refusal = {"error": {"message": "NTP is enabled."}}
    clock_machine.tricks[f"PATCH {clock_machine.places.manager}"] = bmc.says(400, refusal)
    with pytest.raises(errors.BmcBadAnswer, match="NTP is enabled"):
        run(clock_machine)


class RunningClock:
    """The clock of a BMC that is wrong by some seconds; each request to it takes a while.

    ``now`` is the time of the conductor, in UTC.
    """

    def __init__(self, machine: bmc.Machine, wrong: float, form: str) -> None:
        self.machine, self.form = machine, form
        self.wrong = datetime.timedelta(seconds=wrong)
        self.now = datetime.datetime(2026, 11, 30, 12, 0, 0, 700_000)
        self.there, self.back = datetime.timedelta(seconds=0.01), datetime.timedelta(seconds=0.01)
        machine.tricks[f"GET {machine.places.manager}"] = self.show
        machine.tricks[f"PATCH {machine.places.manager}"] = self.set

    def show(self, handler: bmc.Handler) -> None:
        self.now += self.there
        shown = f"{(self.now + self.wrong).isoformat(timespec=self.form)}Z"
        self.now += self.back
        handler.say(200, {**self.machine[self.machine.places.manager], "DateTime": shown})

    def set(self, handler: bmc.Handler) -> None:
        self.now += self.there
        wanted = datetime.datetime.fromisoformat(json.loads(handler.body)["DateTime"])
        self.wrong = wanted.replace(tzinfo=None) - self.now
        handler.say(200, {})


def verify(machine: bmc.Machine) -> bmc_tasks.BmcTask:
    task = bmc_tasks.task_of(machine)
    MANAGEMENT.execute_verify_step(task, fake_task.step("management.verify_bmc_clock"))
    return task


@pytest.fixture
def _verifies() -> Iterator[None]:
    config.CONF.set_override("enable_verify_bmc_clock", True, group="redfish")
    yield
    config.CONF.clear_override("enable_verify_bmc_clock", group="redfish")


@pytest.mark.usefixtures("_verifies")
@pytest.mark.parametrize("form", ["seconds", "milliseconds"])
@pytest.mark.parametrize(("wrong", "sets"), [(0, 0), (0.7, 0), (-0.7, 0), (90, 1), (-90, 1)])
def test_verification_sets_a_wrong_clock_once(
    clock_machine: bmc.Machine,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    wrong: float,
    sets: int,
) -> None:
    running = RunningClock(clock_machine, wrong, form)
    monkeypatch.setattr(clock, "now", lambda: running.now)
    for _ in range(9):
        verify(clock_machine)
        running.now += datetime.timedelta(seconds=60.13)
    assert len(sent(clock_machine)) == sets
    assert abs(running.wrong.total_seconds()) < 1


@pytest.mark.usefixtures("_verifies")
@pytest.mark.parametrize("way", ["there", "back"])
def test_time_of_the_request_makes_no_clock_wrong(
    clock_machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    running = RunningClock(clock_machine, 0.0, "milliseconds")
    setattr(running, way, datetime.timedelta(seconds=30))
    monkeypatch.setattr(clock, "now", lambda: running.now)
    verify(clock_machine)
    assert sent(clock_machine) == []


def test_verification_leaves_the_clock_unless_it_is_enabled(clock_machine: bmc.Machine) -> None:
    verify(clock_machine)
    assert clock_machine.log == []


@pytest.mark.usefixtures("_verifies")
@pytest.mark.parametrize("shown", [None, "", "soon"])
def test_verification_goes_on_without_a_clock(
    clock_machine: bmc.Machine, caplog: pytest.LogCaptureFixture, shown: str | None
) -> None:
    clock_machine[clock_machine.places.manager]["DateTime"] = shown
    verify(clock_machine)
    assert sent(clock_machine) == []
    assert "clock of its BMC is not checked" in caplog.text


@pytest.mark.usefixtures("_verifies")
def test_verification_fails_if_the_clock_cannot_be_set(clock_machine: bmc.Machine) -> None:
    clock_machine.tricks[f"PATCH {clock_machine.places.manager}"] = bmc.says(200, {})
    with pytest.raises(errors.HardwareError, match=r"shows 2015-03-13T04:14:33\+06:00 .* NTP"):
        verify(clock_machine)


# Secure boot and boot mode: settings that some machines only take up when they start.

DEFAULT_KEYS = "management.reset_secure_boot_keys_to_default"


@pytest.fixture
def secure_machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


@pytest.fixture
def task(secure_machine: bmc.Machine) -> bmc_tasks.BmcTask:
    return bmc_tasks.task_of(secure_machine)


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
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    MANAGEMENT.set_secure_boot_state(task, True)
    assert secure(secure_machine)["SecureBootEnable"] is True
    (patch,) = [request for request in secure_machine.requests if request.method == "PATCH"]
    assert patch.headers["If-Match"].startswith('"')
    assert secure_machine.sent == []


def test_setting_that_is_already_so_is_not_sent(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    MANAGEMENT.set_secure_boot_state(task, False)
    assert secure_machine.changes() == []


def test_in_bios_mode_it_cannot_be_switched_on(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    secure_machine.tree[secure_machine.system]["Boot"]["BootSourceOverrideMode"] = "Legacy"
    with pytest.raises(errors.HardwareError, match="needs the boot mode uefi; this machine has"):
        MANAGEMENT.set_secure_boot_state(task, True)
    assert secure_machine.changes() == []


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
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask, before: str
) -> None:
    secure_machine.go(before, boots=False)
    at_boot(secure_machine, f"{secure_machine.system}/SecureBoot")
    MANAGEMENT.set_secure_boot_state(task, True)
    assert secure(secure_machine)["SecureBootEnable"] is True
    assert secure_machine.tree[secure_machine.system]["PowerState"] == before
    assert task.node.power_state == f"power {before.lower()}"


def test_a_bmc_that_takes_some_seconds_costs_no_restart(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    path = f"{secure_machine.system}/SecureBoot"
    secure_machine.tricks[f"PATCH {path}"] = bmc.says(202)
    looked = 0

    def shown(handler: bmc.Handler) -> None:
        nonlocal looked
        looked += 1
        if looked > 4:
            secure(secure_machine)["SecureBootEnable"] = True
        handler.truth()

    secure_machine.tricks[f"GET {path}"] = shown
    MANAGEMENT.set_secure_boot_state(task, True)
    assert secure_machine.sent == []
    assert task.pauses == [management.LOOK_PAUSE] * 2


def test_boot_mode_restarts_the_machine(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    at_boot(secure_machine, secure_machine.system)
    MANAGEMENT.set_boot_mode(task, "bios")
    assert MANAGEMENT.get_boot_mode(task) == "bios"
    assert secure_machine.tree[secure_machine.system]["PowerState"] == "Off"
    assert secure_machine.sent == ["On", "ForceOff"]


def test_a_bmc_that_is_busy_with_the_change_is_asked_again(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    at_boot(secure_machine, f"{secure_machine.system}/SecureBoot")
    looks = f"GET {secure_machine.system}/SecureBoot"

    def stumble() -> None:
        secure_machine.tricks[looks] = bmc.says_first(4, bmc.says(500))

    secure_machine.at_boot(stumble)
    MANAGEMENT.set_secure_boot_state(task, True)
    assert management.SETTINGS_PAUSE in task.pauses


@pytest.mark.parametrize("state", sorted(management.OCCUPIED))
def test_a_machine_with_an_instance_is_not_restarted(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask, state: str
) -> None:
    task.node.provision_state = state
    at_boot(secure_machine, f"{secure_machine.system}/SecureBoot")
    with pytest.raises(errors.HardwareError, match="not restarted automatically: reboot it, then"):
        MANAGEMENT.set_secure_boot_state(task, True)
    assert secure_machine.sent == []


def test_a_machine_that_never_takes_it_up_is_told_of_and_has_its_power_state_back(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask, patience: None
) -> None:
    secure_machine.tricks[f"PATCH {secure_machine.system}/SecureBoot"] = bmc.says(202)
    with pytest.raises(errors.HardwareError, match="does not show it after 1 s"):
        MANAGEMENT.set_secure_boot_state(task, True)
    assert secure_machine.tree[secure_machine.system]["PowerState"] == "Off"
    assert task.node.power_state == base.POWER_OFF


def test_wait_for_secure_boot_can_be_switched_off(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    secure_machine.tricks[f"PATCH {secure_machine.system}/SecureBoot"] = bmc.says(202)
    config.CONF.set_override("boot_mode_config_timeout", 0, group="redfish")
    try:
        MANAGEMENT.set_secure_boot_state(task, True)
    finally:
        config.CONF.clear_override("boot_mode_config_timeout", group="redfish")
    assert secure_machine.sent == ["On", "ForceOff"]


# -- machines that do not have it, or do not give it ----------------------------------------------


@pytest.mark.parametrize("gone", ["link", "document"])
def test_a_machine_without_it_is_no_fault_of_the_bmc(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask, gone: str
) -> None:
    if gone == "link":
        del secure_machine.tree[secure_machine.system]["SecureBoot"]
    else:
        del secure_machine.tree[f"{secure_machine.system}/SecureBoot"]
    lacking = pytest.raises(errors.UnsupportedDriverExtension, match="has no SecureBoot resource")
    with lacking:
        MANAGEMENT.get_secure_boot_state(task)
    with lacking:
        MANAGEMENT.set_secure_boot_state(task, True)
    with lacking:
        MANAGEMENT.clear_secure_boot_keys(task)


def test_a_state_that_is_not_told_is_unknown(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    secure(secure_machine)["SecureBootEnable"] = None
    assert MANAGEMENT.get_secure_boot_state(task) is None
    secure(secure_machine).clear()
    assert MANAGEMENT.get_secure_boot_state(task) is None
    with pytest.raises(errors.BmcBadAnswer, match="The property SecureBootEnable is unknown"):
        MANAGEMENT.set_secure_boot_state(task, True)


def test_for_want_of_a_licence_it_is_unknown_and_cannot_be_switched(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    refusal = {"error": {"@Message.ExtendedInfo": [{"MessageId": "SMC.1.0.OemLicenseNotPassed"}]}}
    secure_machine.tricks[f"GET {secure_machine.system}/SecureBoot"] = bmc.says(403, refusal)
    assert MANAGEMENT.get_secure_boot_state(task) is None
    with pytest.raises(errors.HardwareError, match="licence"):
        MANAGEMENT.set_secure_boot_state(task, True)


def test_another_403_is_about_the_user(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    secure_machine.tricks[f"GET {secure_machine.system}/SecureBoot"] = bmc.says(403)
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
def test_refusal_of_secure_boot_is_told_in_the_bmcs_words(
    secure_machine: bmc.Machine,
    task: bmc_tasks.BmcTask,
    status: int,
    kind: type[errors.Error],
    words: str,
) -> None:
    said = {"error": {"message": "Not with these keys."}}
    secure_machine.tricks[f"PATCH {secure_machine.system}/SecureBoot"] = bmc.says(status, said)
    with pytest.raises(kind, match=words):
        MANAGEMENT.set_secure_boot_state(task, True)


# -- keys -----------------------------------------------------------------------------------------


def test_keys_are_deleted_and_put_back_by_steps(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    clear = fake_task.step("management.clear_secure_boot_keys")
    assert MANAGEMENT.execute_clean_step(task, clear) is None
    assert secure(secure_machine)["SecureBootMode"] == "SetupMode"
    assert MANAGEMENT.execute_service_step(task, fake_task.step(DEFAULT_KEYS)) is None
    assert secure(secure_machine)["SecureBootMode"] == "UserMode"


def test_keys_that_cannot_be_put_back_are_left_alone(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    action = secure(secure_machine)["Actions"]["#SecureBoot.ResetKeys"]
    action["ResetKeysType@Redfish.AllowableValues"] = ["DeletePK"]
    with pytest.raises(errors.UnsupportedDriverExtension, match="has no such action"):
        MANAGEMENT.execute_clean_step(task, fake_task.step(DEFAULT_KEYS))
    assert secure_machine.changes() == []


# -- boot mode ------------------------------------------------------------------------------------


def test_a_mode_that_the_machine_does_not_offer_is_refused_with_those_it_does(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    boot = secure_machine.tree[secure_machine.system]["Boot"]
    boot["BootSourceOverrideMode@Redfish.AllowableValues"] = ["UEFI"]
    with pytest.raises(
        errors.InvalidParameter, match=r"boot_mode: bios is not offered .* only uefi"
    ):
        MANAGEMENT.set_boot_mode(task, "bios")


def test_a_machine_that_shows_no_mode_is_told_one_all_the_same(
    secure_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    del secure_machine.tree[secure_machine.system]["Boot"]["BootSourceOverrideMode"]
    with pytest.raises(
        errors.UnsupportedDriverExtension, match="does not show or accept a boot mode"
    ):
        MANAGEMENT.set_boot_mode(task, "bios")
    secure_machine.tricks[f"PATCH {secure_machine.system}"] = bmc.says(204)
    MANAGEMENT.set_boot_mode(task, "bios")
    assert secure_machine.sent == []


def test_the_power_interface_of_these_tests_is_the_real_one(task: bmc_tasks.BmcTask) -> None:
    assert isinstance(task.driver.power, power.RedfishPower)
