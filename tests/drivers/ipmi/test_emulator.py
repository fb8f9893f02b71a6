"""The driver against a real BMC, RMCP+ and ipmitool: operations, faults, and advice."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.checks import examiner
from ironic_lite.core import config
from ironic_lite.domain.examination import Finding
from ironic_lite.drivers import base, bmc_bases
from ironic_lite.drivers.ipmi import management, power, tool, vendor
from ironic_lite.features.doctor import work
from tests.emulators import ipmi, lossy
from tests.emulators.ipmi import PASSWORD, Bmc
from tests.support import fake_task, troubleshooting
from tests.support.bmc_tasks import BmcTask, Program, emulated, task_with
from tests.support.operator import Operator

# The driver against a BMC that nobody here wrote, over RMCP+ and the real ipmitool.

POWER = power.IpmiPower()
MANAGEMENT = management.IpmiManagement()
VENDOR = vendor.IpmiVendor()
Recorded = Callable[[], list[str]]


@pytest.fixture(autouse=True)
def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power.IpmiPower, "settle_seconds", 0.0)


# -- power -------------------------------------------------------------------------------------


def test_power_is_read_and_switched(bmc: Bmc, machine: BmcTask) -> None:
    assert POWER.get_power_state(machine) == "power off"
    POWER.set_power_state(machine, base.POWER_ON)
    assert bmc.power
    assert POWER.get_power_state(machine) == "power on"
    POWER.set_power_state(machine, base.POWER_OFF)
    assert not bmc.power


def test_a_soft_power_off_shuts_the_system_down(bmc: Bmc, machine: BmcTask) -> None:
    bmc.power = True
    POWER.set_power_state(machine, base.SOFT_POWER_OFF)
    assert not bmc.power
    assert bmc.actions == ["shutdown 1"]


def test_the_button_of_a_machine_that_is_off_is_not_pressed(bmc: Bmc, machine: BmcTask) -> None:
    POWER.set_power_state(machine, base.SOFT_POWER_OFF)
    assert bmc.actions == []


@pytest.mark.parametrize(("soft", "first"), [(False, "power 0"), (True, "shutdown 1")])
def test_a_reboot_is_off_and_on(bmc: Bmc, machine: BmcTask, soft: bool, first: str) -> None:
    bmc.power = True
    POWER.reboot(machine, soft=soft)
    assert bmc.power
    assert bmc.actions == [first, "power 1"]


def test_a_machine_that_may_not_be_off_is_reset(bmc: Bmc) -> None:
    bmc.power = True
    task = task_with(bmc.driver_info(), disable_power_off=True)
    POWER.reboot(task)
    assert bmc.actions == ["reset 1"]
    with pytest.raises(errors.PowerFailure, match="cannot restart a system softly"):
        POWER.reboot(task, soft=True)
    bmc.power = False
    POWER.reboot(task)
    assert bmc.power


def test_a_machine_that_does_not_move_is_told(bmc: Bmc, machine: BmcTask) -> None:
    bmc.jam()
    with pytest.raises(errors.PowerFailure, match=r"within 1 s; .* showed the state power off"):
        POWER.set_power_state(machine, base.POWER_ON, timeout=1)


def test_a_bmc_that_is_silent_for_a_while_is_waited_for(
    bmc: Bmc, machine: BmcTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = machine.pause

    def pause(seconds: float) -> None:
        asked(seconds)
        if len(machine.pauses) == 1:
            bmc.stop()
        elif len(machine.pauses) == 2:
            bmc.power = True
            assert bmc.start()

    bmc.jam()
    monkeypatch.setattr(machine, "pause", pause)
    POWER.set_power_state(machine, base.POWER_ON)
    assert len(machine.pauses) == 2


def test_a_refusal_names_what_was_refused(bmc: Bmc, machine: BmcTask, program: Program) -> None:
    program(
        'case "$*" in *" power on") echo "Set Chassis Power Control to Up/On failed: Command not '
        'supported in present state" >&2; exit 1;; esac\nexec "$REAL" "$@"'
    )
    with pytest.raises(errors.PowerFailure, match=r"refused the command power on.*present state"):
        POWER.set_power_state(machine, base.POWER_ON)
    bmc.power = True
    POWER.set_power_state(machine, base.POWER_ON)


def test_another_target_is_refused(machine: BmcTask) -> None:
    with pytest.raises(errors.InvalidParameter, match="target"):
        POWER.set_power_state(machine, "paused")
    assert set(POWER.get_supported_power_states(machine)) == {
        base.POWER_ON,
        base.POWER_OFF,
        base.REBOOT,
        base.SOFT_POWER_OFF,
        base.SOFT_REBOOT,
    }


# -- logging in --------------------------------------------------------------------------------


def test_a_lower_privilege_is_enough_to_look(bmc: Bmc) -> None:
    info = bmc.driver_info(ipmi_username="guest", ipmi_priv_level="user")
    assert POWER.get_power_state(task_with(info)) == "power off"
    with pytest.raises(errors.BmcAccessDenied, match="Raise the user's on the BMC"):
        POWER.set_power_state(task_with(info), base.POWER_ON)


def test_a_bmc_key_is_used(tmp_path: pathlib.Path) -> None:
    with emulated(tmp_path / "bmc", key="a-key") as bmc:
        good = bmc.driver_info(ipmi_hex_kg_key=b"a-key".hex())
        assert POWER.get_power_state(task_with(good)) == "power off"
        with pytest.raises(errors.BmcAccessDenied, match="ipmi_hex_kg_key"):
            POWER.get_power_state(task_with(bmc.driver_info()))


def test_the_old_version_is_spoken(bmc: Bmc) -> None:
    info = bmc.driver_info(ipmi_protocol_version="1.5", ipmi_cipher_suite=None)
    assert POWER.get_power_state(task_with(info)) == "power off"


def test_a_suite_is_found(bmc: Bmc) -> None:
    config.CONF.set_override("cipher_suite_versions", [3, 17], group="ipmi")
    info = bmc.driver_info(ipmi_cipher_suite=None)
    assert POWER.get_power_state(task_with(info)) == "power off"


def test_driver_info_is_checked_without_a_bmc() -> None:
    task = task_with({"ipmi_address": "192.0.2.7", "ipmi_port": "a"})
    for one in (POWER, MANAGEMENT, VENDOR):
        with pytest.raises(errors.InvalidParameter, match="driver_info/ipmi_port"):
            one.validate(task)
        assert "Required." in one.get_properties()["ipmi_address"]


# -- boot device -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["bios", "uefi"])
@pytest.mark.parametrize(
    ("device", "stored"),
    [("pxe", "pxe"), ("disk", "default"), ("cdrom", "cdrom"), ("bios", "bios")],
)
def test_a_boot_device_is_set_and_read(bmc: Bmc, mode: str, device: str, stored: str) -> None:
    task = task_with(bmc.driver_info(), boot_mode=mode)
    MANAGEMENT.set_boot_device(task, device)
    assert bmc.boot == stored
    assert MANAGEMENT.get_boot_device(task) == {"boot_device": device, "persistent": False}


def test_without_a_device_there_is_none(machine: BmcTask) -> None:
    assert MANAGEMENT.get_boot_device(machine) == {"boot_device": None, "persistent": None}


def test_only_known_devices_are_taken(bmc: Bmc, machine: BmcTask) -> None:
    assert MANAGEMENT.get_supported_boot_devices(machine) == [
        "pxe",
        "disk",
        "safe",
        "cdrom",
        "bios",
    ]
    with pytest.raises(errors.InvalidParameter, match="boot_device: 'wanboot' is not one of pxe"):
        MANAGEMENT.set_boot_device(machine, "wanboot")
    assert bmc.actions == []


def test_the_timeout_of_the_device_is_disabled_first(
    bmc: Bmc, machine: BmcTask, recorded: Recorded
) -> None:
    MANAGEMENT.set_boot_device(machine, "pxe", persistent=True)
    assert recorded() == [
        "raw 0x00 0x08 0x03 0x08",
        "raw 0x00 0x08 0x05 0xe0 0x04 0x00 0x00 0x00",
    ]
    config.CONF.set_override("disable_boot_timeout", False, group="ipmi")
    MANAGEMENT.set_boot_device(machine, "pxe")
    assert recorded() == ["raw 0x00 0x08 0x05 0xa0 0x04 0x00 0x00 0x00"]
    info = bmc.driver_info(ipmi_disable_boot_timeout=True)
    MANAGEMENT.set_boot_device(task_with(info, boot_mode="bios"), "pxe", persistent=True)
    assert recorded() == ["raw 0x00 0x08 0x03 0x08", "chassis bootdev pxe options=persistent"]


def test_a_bmc_without_that_timeout_is_no_failure(
    bmc: Bmc,
    machine: BmcTask,
    program: Program,
    caplog: pytest.LogCaptureFixture,
) -> None:
    program(
        'case "$*" in *"0x03 0x08") echo "Unable to send RAW command: Parameter not supported" >&2'
        '; exit 1;; esac\nexec "$REAL" "$@"'
    )
    MANAGEMENT.set_boot_device(machine, "pxe")
    assert bmc.boot == "pxe"
    assert "ipmi_disable_boot_timeout" in caplog.text


@pytest.mark.parametrize(
    ("name", "asked", "byte"),
    [("supermicro", False, "0x24"), ("dell inc.", False, "0x08"), (None, True, "0x08")],
)
def test_the_maker_decides_about_a_byte(
    bmc: Bmc, obedient: Recorded, name: str | None, asked: bool, byte: str
) -> None:
    config.CONF.set_override("disable_boot_timeout", False, group="ipmi")
    task = task_with(bmc.driver_info(), properties={"vendor": name} if name else {})
    for _ in range(2):
        MANAGEMENT.set_boot_device(task, "disk")
    sent = f"raw 0x00 0x08 0x05 0xa0 {byte} 0x00 0x00 0x00"
    assert obedient() == [*(["mc info"] if asked else []), sent, sent]


def test_a_maker_that_was_found_out_counts(bmc: Bmc, obedient: Recorded) -> None:
    task = task_with(bmc.driver_info())
    task.keep(management.VENDOR_NOTE, "super micro computer inc.")
    MANAGEMENT.set_boot_device(task, "disk", persistent=True)
    assert obedient()[-1] == "raw 0x00 0x08 0x05 0xe0 0x24 0x00 0x00 0x00"


def test_a_forgetful_bmc_is_told_before_each_power_on(bmc: Bmc, recorded: Recorded) -> None:
    config.CONF.set_override("disable_boot_timeout", False, group="ipmi")
    task = task_with(bmc.driver_info(ipmi_force_boot_device=True), boot_mode="bios")
    MANAGEMENT.set_boot_device(task, "disk", persistent=True)
    MANAGEMENT.set_boot_device(task, "pxe")
    assert MANAGEMENT.get_boot_device(task) == {"boot_device": "pxe", "persistent": False}
    recorded()
    told = []
    for _ in range(3):
        POWER.reboot(task)
        told.append([line for line in recorded() if line.startswith(("chassis", "power on"))])
        assert MANAGEMENT.get_boot_device(task) == {"boot_device": "disk", "persistent": True}
    always = ["chassis bootdev disk options=persistent", "power on"]
    assert told == [["chassis bootdev pxe", "power on"], always, always]


def test_a_power_on_that_fails_uses_no_device_up(bmc: Bmc, program: Program) -> None:
    task = task_with(bmc.driver_info(ipmi_force_boot_device=True))
    MANAGEMENT.set_boot_device(task, "pxe")
    program('case "$*" in *" power on") echo No. >&2; exit 1 ;; esac\nexec "$REAL" "$@"')
    with pytest.raises(errors.PowerFailure):
        POWER.set_power_state(task, base.POWER_ON)
    assert task.recall(management.NOTE) == {"next": "pxe"}
    program('exec "$REAL" "$@"')
    POWER.set_power_state(task, base.POWER_ON)
    assert task.recall(management.NOTE) is None


def test_power_on_of_a_running_machine_uses_no_device_up(bmc: Bmc, recorded: Recorded) -> None:
    """The device is meant for its next boot."""
    bmc.power = True
    task = task_with(bmc.driver_info(ipmi_force_boot_device=True), boot_mode="bios")
    MANAGEMENT.set_boot_device(task, "pxe")
    POWER.set_power_state(task, base.POWER_ON)
    recorded()
    POWER.reboot(task)
    told = [line for line in recorded() if line.startswith(("chassis", "power on"))]
    assert told == ["chassis bootdev pxe", "power on"]


def test_a_reset_in_one_go_tells_it_too(bmc: Bmc, recorded: Recorded) -> None:
    bmc.power = True
    info = bmc.driver_info(ipmi_force_boot_device=True)
    task = task_with(info, boot_mode="bios", disable_power_off=True)
    MANAGEMENT.set_boot_device(task, "pxe")
    recorded()
    POWER.reboot(task)
    POWER.reboot(task)
    told = [line for line in recorded() if line.startswith(("chassis", "power reset"))]
    assert told == ["chassis bootdev pxe", "power reset", "power reset"]


def test_another_bmc_is_not_told_again(bmc: Bmc, machine: BmcTask, recorded: Recorded) -> None:
    machine.keep(management.NOTE, {"always": "disk"})
    POWER.set_power_state(machine, base.POWER_ON)
    assert recorded() == ["power on", "power status"]
    MANAGEMENT.set_boot_device(machine, "pxe")
    assert machine.recall(management.NOTE) is None


# -- the rest of management --------------------------------------------------------------------


def test_sensors_and_maker_are_read(machine: BmcTask) -> None:
    found = MANAGEMENT.get_sensors_data(machine)
    assert found["Temperature"]["Temp (0x1)"]["Entity ID"] == "3.1 (Processor)"
    assert MANAGEMENT.detect_vendor(machine) == "montavista software, inc."


def test_a_diagnostic_interrupt_is_sent(machine: BmcTask, recorded: Recorded) -> None:
    with pytest.raises(errors.HardwareError, match="refused the command power diag"):
        MANAGEMENT.inject_nmi(machine)
    assert recorded() == ["power diag"]


def test_capabilities_that_differ_are_refused_before_the_bmc_is_told(bmc: Bmc) -> None:
    said = {"instance_info": "uefi", "properties": "bios"}
    values = {at: {"capabilities": f"boot_mode:{mode}"} for at, mode in said.items()}
    with pytest.raises(errors.InvalidParameter, match="instance_info/capabilities: boot_mode uefi"):
        MANAGEMENT.set_boot_device(task_with(bmc.driver_info(), **values), "pxe")
    assert bmc.actions == []


def test_a_boot_mode_cannot_be_set(machine: BmcTask) -> None:
    with pytest.raises(errors.UnsupportedDriverExtension):
        MANAGEMENT.set_boot_mode(machine, "uefi")


@pytest.mark.parametrize("kind", [base.StepKind.CLEAN, base.StepKind.SERVICE])
def test_a_bmc_is_reset_and_waited_for(
    bmc: Bmc, machine: BmcTask, recorded: Recorded, kind: base.StepKind
) -> None:
    step = fake_task.step("management.reset_bmc")
    execute = getattr(MANAGEMENT, f"execute_{kind}_step")
    assert execute(machine, step) is base.WAIT
    assert recorded() == ["mc reset cold"]
    bmc.stop()
    assert MANAGEMENT.poll_step(machine, kind, step) is base.WAIT
    assert machine.timers == [bmc_bases.RESET_PAUSE] * 2
    assert bmc.start()
    assert MANAGEMENT.poll_step(machine, kind, step) is base.DONE
    assert machine.recall(bmc_bases.RESET_NOTE) is None


def test_a_bmc_that_is_slow_to_go_down_is_not_taken_for_back(bmc: Bmc, machine: BmcTask) -> None:
    """It answers for a while after it was told to restart; one that is never silent is believed."""
    step = fake_task.step("management.reset_bmc")
    MANAGEMENT.reset_bmc(machine)
    looks = [MANAGEMENT.poll_step(machine, base.StepKind.CLEAN, step) for _ in range(4)]
    assert looks == [base.WAIT] * 3 + [base.DONE]


def test_a_bmc_that_does_not_come_back_fails_the_step(bmc: Bmc, machine: BmcTask) -> None:
    MANAGEMENT.reset_bmc(machine)
    machine.keep(bmc_bases.RESET_NOTE, {"until": 1.0, "looks": 0})
    bmc.stop()
    step = fake_task.step("management.reset_bmc")
    with pytest.raises(
        errors.StepFailed, match=r"did not come back within 900 s: .* answer on UDP"
    ):
        MANAGEMENT.poll_step(machine, base.StepKind.CLEAN, step)


# -- raw commands ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["clean", "deploy", "service"])
def test_raw_bytes_are_sent_as_a_step(
    machine: BmcTask, recorded: Recorded, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level("INFO")
    step = fake_task.step("vendor.send_raw", raw_bytes="0x00 0x09 5 0 0")
    assert getattr(VENDOR, f"execute_{kind}_step")(machine, step) is None
    assert recorded() == ["raw 0x00 0x09 5 0 0"]
    assert "raw command 0x00 0x09 5 0 0 was answered with 01 05 00 00 00 00 00" in caplog.text
    (listed,) = getattr(VENDOR, f"get_{kind}_steps")(machine)
    assert (listed["step"], listed["priority"]) == ("send_raw", 0)
    assert listed["argsinfo"]["raw_bytes"]["required"] is True


@pytest.mark.parametrize(
    "given",
    [None, "", "0x00", 5, ["0x00", "0x01"], "0x00 0x100", "6 256", "0x00 -1", "a b", "6 1 " * 129],
)
def test_raw_bytes_that_are_no_bytes_are_refused(given: object) -> None:
    task = task_with({"ipmi_address": "192.0.2.7"})
    call = base.Call("POST", {"raw_bytes": given})
    with pytest.raises((errors.InvalidParameter, errors.MissingParameter)) as caught:
        VENDOR.check_passthru(task, "send_raw", call)
    assert caught.value.facts["path"] == "raw_bytes"
    with pytest.raises(errors.InvalidRequest):
        VENDOR.execute_clean_step(task, fake_task.step("vendor.send_raw", raw_bytes=given))


def test_vendor_methods_are_called(machine: BmcTask, obedient: Recorded) -> None:
    raw = base.Call("POST", {"raw_bytes": "0x06 0x01"})
    VENDOR.check_passthru(machine, "send_raw", raw)
    VENDOR.send_raw(machine, raw)
    for info in ({}, {"warm": "false"}, {"warm": True}):
        VENDOR.check_passthru(machine, "bmc_reset", base.Call("POST", info))
        VENDOR.bmc_reset(machine, base.Call("POST", info))
    resets = ["mc reset warm", "mc reset cold", "mc reset warm"]
    assert obedient() == ["raw 0x06 0x01", *resets]
    with pytest.raises(errors.InvalidParameter, match="warm: must be true or false"):
        VENDOR.check_passthru(machine, "bmc_reset", base.Call("POST", {"warm": "hot"}))


def test_raw_bytes_that_a_bmc_refuses_are_told(machine: BmcTask) -> None:
    with pytest.raises(errors.HardwareError, match=r"refused the command raw 0x01 0xff.*Invalid"):
        tool.run(machine, ("raw", "0x01", "0xff"))


# Whatever goes wrong between the driver and a real BMC: each error says what to do.


@pytest.mark.parametrize(
    ("values", "kind", "advice"),
    [
        ({"ipmi_password": "wrong"}, errors.BmcAccessDenied, "Check ipmi_username, ipmi_passw"),
        ({"ipmi_password": None}, errors.BmcAccessDenied, "Check ipmi_username, ipmi_password"),
        ({"ipmi_username": "nobody"}, errors.BmcAccessDenied, "the login of user nobody"),
        ({"ipmi_username": None}, errors.BmcAccessDenied, r"the login of user \(none\)"),
        ({"ipmi_cipher_suite": 17}, errors.HardwareError, "does not support cipher suite 17"),
        ({"ipmi_hex_kg_key": "4b6731"}, errors.BmcAccessDenied, "ipmi_hex_kg_key"),
        (
            {"ipmi_address": "bmc.invalid"},
            errors.BmcUnreachable,
            r"bmc\.invalid cannot be resolved",
        ),
        (
            {
                "ipmi_bridging": "single",
                "ipmi_target_channel": 0,
                "ipmi_target_address": "0x82",
            },
            errors.HardwareError,
            "controller behind the BMC at .* power status.* ipmi_bridging",
        ),
        (
            {
                "ipmi_protocol_version": "1.5",
                "ipmi_cipher_suite": None,
                "ipmi_password": "wrong",
            },
            errors.BmcAccessDenied,
            "Check ipmi_username",
        ),
    ],
)
def test_a_fault_says_what_to_do(
    bmc: Bmc, values: dict[str, object], kind: type[errors.Error], advice: str
) -> None:
    with pytest.raises(kind, match=advice) as caught:
        POWER.get_power_state(task_with(bmc.driver_info(**values)))
    assert type(caught.value) is kind
    assert PASSWORD not in caught.value.message


@pytest.mark.parametrize("how", ["stop", "hang"])
def test_a_silent_bmc_is_told_with_its_port(bmc: Bmc, machine: BmcTask, how: str) -> None:
    getattr(bmc, how)()
    with pytest.raises(errors.BmcUnreachable, match=f"does not answer on UDP port {bmc.port}"):
        POWER.get_power_state(machine)


@pytest.mark.parametrize(
    ("version", "carries"), [("2.0", 2), ("2.0", 4), ("2.0", 8), ("1.5", 2), ("1.5", 8)]
)
def test_a_bmc_that_falls_silent_on_the_way_is_told(bmc: Bmc, version: str, carries: int) -> None:
    suite = 3 if version == "2.0" else None
    with lossy.way(bmc.port, carries=carries) as port:
        info = bmc.driver_info(
            ipmi_port=port, ipmi_protocol_version=version, ipmi_cipher_suite=suite
        )
        with pytest.raises(errors.BmcUnreachable, match=f"UDP port {port}, and then was silent"):
            POWER.get_power_state(task_with(info))


_TAKES_17 = (
    'echo "$*" >> calls\ncase "$*" in *"-C 17 "*) '
    'exec "$REAL" $(echo "$*" | sed "s/-C 17/-C 3/; s/-p {way}/-p {port}/") ;; esac\n'
    'exec "$REAL" "$@"'
)


@pytest.mark.parametrize("status", [0x01, 0x11, 0x00], ids=["busy", "refused", "silent"])
def test_bmc_without_cipher_suite_3_is_reached_by_17(
    bmc: Bmc, program: Program, status: int
) -> None:
    with lossy.way(bmc.port, suite_3_off=status) as port:
        folder = program(_TAKES_17.format(way=port, port=bmc.port))
        task = task_with(bmc.driver_info(ipmi_port=port, ipmi_cipher_suite=None))
        assert POWER.get_power_state(task) == base.POWER_OFF
        assert POWER.get_power_state(task) == base.POWER_OFF
        assert tool.suite(tool.settings(task)) == 17
        configured = task_with(bmc.driver_info(ipmi_port=port))
        with pytest.raises(errors.HardwareError):
            tool.run(configured, ("power", "status"), seconds=1)
    calls = (folder / "calls").read_text().splitlines()
    assert [f"-C {suite}" in call for suite, call in zip((17, 17, 3), calls[1:4], strict=True)]
    assert "-C" not in calls[0]


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (0x01, errors.BmcUnreachable, "is busy, and was retried for 60 s"),
        (0x11, errors.HardwareError, "does not support cipher suite"),
        (0x00, errors.BmcUnreachable, "was silent"),
    ],
    ids=["busy", "refused", "silent"],
)
def test_bmc_that_opens_no_session_is_told_with_the_cipher_suites_that_were_tried(
    bmc: Bmc, program: Program, status: int, kind: type[errors.Error], says: str
) -> None:
    config.CONF.set_override("min_command_interval", 61, group="ipmi")  # one round of suites
    folder = program('echo "$*" >> calls\nexec "$REAL" "$@"')
    with lossy.way(bmc.port, suite_3_off=status) as port:
        task = task_with(bmc.driver_info(ipmi_port=port, ipmi_cipher_suite=None))
        with pytest.raises(kind, match=f"{says}.*suites tried: ipmitool's choice, 17, 3"):
            tool.run(task, ("power", "status"))
    calls = (folder / "calls").read_text().splitlines()
    assert sum("-C" in call for call in calls) == 2


@pytest.mark.parametrize(
    "words", [("power", "on"), ("raw", "0x00", "0x09", "5", "0", "0"), ("sdr",)], ids=" ".join
)
def test_silence_in_mid_command_is_reported_for_every_command(
    bmc: Bmc, words: tuple[str, ...]
) -> None:
    with lossy.way(bmc.port, carries=9) as port:
        task = task_with(bmc.driver_info(ipmi_port=port))
        with pytest.raises(errors.BmcUnreachable, match="then was silent"):
            tool.run(task, words)


def test_a_bmc_that_is_gone_before_it_answers_obeys(bmc: Bmc) -> None:
    warm = base.Call("POST", {"warm": True})
    with lossy.way(bmc.port, carries=9) as port:
        VENDOR.bmc_reset(task_with(bmc.driver_info(ipmi_port=port)), warm)
    with lossy.way(bmc.port, carries=2) as port:
        task = task_with(bmc.driver_info(ipmi_port=port))
        with pytest.raises(errors.BmcUnreachable, match="then was silent"):
            VENDOR.bmc_reset(task, warm)


@pytest.mark.parametrize("says", ["Command not supported in present state", "Node busy"])
def test_a_machine_on_its_way_may_refuse_to_tell_where_it_is(
    bmc: Bmc, machine: BmcTask, program: Program, says: str
) -> None:
    folder = program(
        'case "$*" in *" status") [ -e known ] || { touch known; '
        f'echo "Get Chassis Power Status failed: {says}" >&2; exit 1; }} ;; esac\n'
        'exec "$REAL" "$@"'
    )
    POWER.set_power_state(machine, base.POWER_ON)
    assert bmc.power
    assert (folder / "known").exists()


def test_power_on_that_the_bmc_accepts_and_ignores_is_sent_again(
    bmc: Bmc, machine: BmcTask, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bmc_bases, "RESEND_SECONDS", 0.2)
    program(
        'case "$*" in *" power on") [ -e sent ] || { touch sent; exit 0; } ;; esac\n'
        'exec "$REAL" "$@"'
    )
    POWER.set_power_state(machine, base.POWER_ON)
    assert bmc.power


_NO_RAKP = (
    'case "$*" in *" status") if [ -e good ]; then echo asked >> calls; '
    'if [ ! -e lost{more} ]; then touch lost; echo "> Error: no response from RAKP 1 message" >&2; '
    "exit 1; fi; fi; touch good ;; esac\n"
    'exec "$REAL" "$@"'
)


def test_login_without_an_answer_after_a_good_one_is_repeated_once(
    machine: BmcTask, program: Program
) -> None:
    folder = program(_NO_RAKP.format(more=""))
    assert POWER.get_power_state(machine) == base.POWER_OFF
    assert POWER.get_power_state(machine) == base.POWER_OFF
    assert (folder / "calls").read_text().splitlines() == ["asked"] * 2


def test_login_that_stays_without_an_answer_is_not_repeated_for_ever(
    machine: BmcTask, program: Program
) -> None:
    """The BMC may be silent to a password that has changed, and lock the user out."""
    folder = program(_NO_RAKP.format(more="-never"))
    POWER.get_power_state(machine)
    for _ in range(2):
        with pytest.raises(errors.BmcUnreachable, match="then was silent"):
            POWER.get_power_state(machine)
    assert (folder / "calls").read_text().splitlines() == ["asked"] * 3


def test_a_login_that_is_refused_meanwhile_is_not_tried_again(
    bmc: Bmc, machine: BmcTask, program: Program
) -> None:
    folder = program(
        'case "$*" in *" status") echo asked >> calls; echo "RAKP 2 HMAC is invalid" >&2; exit 1;; '
        'esac\nexec "$REAL" "$@"'
    )
    with pytest.raises(errors.BmcAccessDenied):
        POWER.set_power_state(machine, base.POWER_ON)
    assert (folder / "calls").read_text().splitlines() == ["asked"]


# Checks of the way to an IPMI BMC: program, name, login.

WAY = ("ipmitool", "bmc_address", "power")


def examined(driver_info: dict[str, Any]) -> dict[str, Finding]:
    driver = dataclasses.replace(fake_task.FAKE, hardware_type="ipmi", power=power.IpmiPower())
    row = fake_task.node(driver="ipmi", driver_info=driver_info, boot_interface="fake")
    subject: Any = work.NodeSubject(config.CONF, BmcTask(row, driver=driver))
    lines = examiner.lines("node", work.table_of(subject), subject)
    found = examiner.Examiner().examine(lines, 60)
    assert all(bool(one.do) == (one.status != "ok") for one in found)
    return {one.name: one for one in found}


def statuses(found: dict[str, Finding]) -> list[str]:
    return [str(found[name].status) for name in WAY]


def test_missing_program_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = examined({"ipmi_address": "127.0.0.1"})
    assert statuses(found) == ["failed", "unknown", "unknown"]
    assert "Install the package ipmitool" in found["ipmitool"].do


def test_unknown_name_is_a_failed_check(program: Program) -> None:
    program("exit 1")
    found = examined({"ipmi_address": "bmc.invalid"})
    assert statuses(found) == ["ok", "failed", "unknown"]
    assert "bmc.invalid" in found["bmc_address"].text


def test_wrong_password_fails_the_power_read(bmc: ipmi.Bmc) -> None:
    assert statuses(examined(bmc.driver_info())) == ["ok", "ok", "ok"]
    found = examined(bmc.driver_info(ipmi_password="wrong"))
    assert statuses(found) == ["ok", "ok", "failed"]
    assert "ipmi_password" in found["power"].text
    assert "wrong" not in found["power"].text


# Symptoms of docs/troubleshooting.rst with ipmi_sim: ``why`` answers as the page shows.


def enrolled(operator: Operator, bmc: Bmc, **changes: object) -> str:
    """Return a node whose manage has failed."""
    node = operator.enroll("enroll", driver="ipmi", driver_info=bmc.driver_info(**changes))
    operator.provision(node, "manage")
    return node


def wrong_password(operator: Operator, bmc: Bmc) -> str:
    return enrolled(operator, bmc, ipmi_password="of-another-bmc")


def wrong_suite(operator: Operator, bmc: Bmc) -> str:
    return enrolled(operator, bmc, ipmi_cipher_suite=17)


def dead(operator: Operator, bmc: Bmc) -> str:
    bmc.hang()
    return enrolled(operator, bmc)


def lost_later(operator: Operator, bmc: Bmc) -> str:
    node = operator.enroll(driver="ipmi", driver_info=bmc.driver_info())
    bmc.stop()
    for _ in range(6):
        operator.rig.sweep("power sync")
        assert operator.rig.service.power.settle(30)
    return node


SYMPTOMS: dict[str, Callable[[Operator, Bmc], str]] = {
    "Wrong user name or password": wrong_password,
    "Cipher suite that the BMC does not support": wrong_suite,
    "BMC without an answer": dead,
    "BMC lost later": lost_later,
}


@pytest.mark.feature("why")
@pytest.mark.parametrize("place", troubleshooting.IPMI, ids=str)
def test_page_shows_the_answer(
    serve: Callable[..., Operator], bmc: Bmc, place: troubleshooting.Place
) -> None:
    operator = serve()
    heading, _ = place
    node = SYMPTOMS[heading](operator, bmc)
    answer = operator.api.get(f"/v1/nodes/{node}/why")
    assert answer.status == 200
    troubleshooting.assert_shown(place, answer.json["says"])
