"""Running ipmitool, played by programs that hang, talk nonsense, or come in crowds."""

from __future__ import annotations

import functools
import logging
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base, deadline
from ironic_lite.drivers.ipmi import faults, hardware, info, management, power, tool
from tests.support.bmc_tasks import BmcTask, Program, task_with
from tests.support.conductor_fixture import wait_for

SECRET = "s3cret-of-the-bmc"
STATUS = ("power", "status")


def at(port: int = 623, **values: Any) -> BmcTask:
    return task_with({"ipmi_address": "127.0.0.1", "ipmi_port": port, **values})


def told(folder: pathlib.Path, name: str = "calls") -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def dead(pid: int) -> bool:
    try:
        return ") Z" in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def option(name: str, value: object) -> None:
    config.CONF.set_override(name, value, group="ipmi")


# -- programs that do not end ------------------------------------------------------------------


def test_ipmitool_that_hangs_is_killed_with_its_children(program: Program) -> None:
    folder = program("sleep 600 &\necho $$ $! > pids\nwait")
    with pytest.raises(errors.BmcUnreachable, match=r"power status .* within 1 s, and was killed"):
        tool.run(at(), STATUS, seconds=1)
    for pid in map(int, told(folder, "pids")[0].split()):
        wait_for(functools.partial(dead, pid))


def test_ipmitool_with_closed_outputs_is_killed_too(program: Program) -> None:
    folder = program("exec > /dev/null 2>&1\necho $$ > pids\nexec sleep 600")
    with pytest.raises(errors.BmcUnreachable, match="was killed"):
        tool.run(at(), STATUS, seconds=1)
    assert dead(int(told(folder, "pids")[0]))


@pytest.mark.parametrize("stream", ["1", "2"])
def test_ipmitool_that_prints_without_end_is_killed(program: Program, stream: str) -> None:
    folder = program(f"echo $$ > pids\nexec yes nonsense >&{stream}")
    with pytest.raises(errors.BmcUnreachable, match="more than 1048576 bytes, and was killed"):
        tool.run(at(), STATUS, seconds=5)
    assert dead(int(told(folder, "pids")[0]))


ORPHANED = """\
from ironic_lite.drivers.ipmi import tool
tool.run_program(["sh", "-c", "echo $$ > pid; exec sleep 600"], {b"PATH": b"/usr/bin:/bin"}, 600)
"""


def test_ipmitool_does_not_outlive_a_killed_service(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pid"
    script = ORPHANED.replace("> pid", f"> {path}")
    with subprocess.Popen([sys.executable, "-c", script]) as service:
        wait_for(lambda: told(tmp_path, "pid"))
        service.kill()
    wait_for(functools.partial(dead, int(told(tmp_path, "pid")[0])))


@pytest.mark.parametrize(
    "setpriv", ["", "echo unrecognized option >&2; exit 1"], ids=["none", "another"]
)
def test_ipmitool_runs_without_a_usable_setpriv(
    program: Program, monkeypatch: pytest.MonkeyPatch, setpriv: str
) -> None:
    folder = program("echo done")
    if setpriv:
        (folder / "setpriv").write_text(f"#!/bin/sh\n{setpriv}\n")
        (folder / "setpriv").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(tool, "_leash", functools.cache(tool._leash.__wrapped__))
    assert tool.run(at(), STATUS) == "done\n"


def test_ipmitool_that_waits_for_input_gets_none(program: Program) -> None:
    program("cat\n[ ! -t 0 ] && ! (: < /dev/tty) 2> /dev/null && echo none")
    assert tool.run(at(), STATUS) == "none\n"


# -- programs that talk nonsense ---------------------------------------------------------------


@pytest.mark.parametrize("word", ["", "Chassis Power is broken", "Chassis Power is one", r"\0377"])
def test_output_without_a_power_state_is_an_error(program: Program, word: str) -> None:
    program(f"printf '{word}\\n'")
    with pytest.raises(errors.BmcBadAnswer, match="its answer to the power state request is"):
        power.IpmiPower().get_power_state(at())


def test_output_without_boot_flags_is_an_error(program: Program) -> None:
    program("echo hello")
    with pytest.raises(errors.BmcBadAnswer, match="'hello' is not a list of hexadecimal bytes"):
        management.IpmiManagement().get_boot_device(at())


def test_an_error_that_is_no_text_is_told(program: Program) -> None:
    program("printf '\\377\\376\\0\\033[2J' >&2; exit 139")
    with pytest.raises(errors.HardwareError) as caught:
        tool.run(at(), STATUS)
    assert caught.value.message.isprintable()


def test_ipmitool_that_is_slow_is_waited_for(program: Program) -> None:
    program("sleep 1; echo Chassis Power is on")
    assert power.IpmiPower().get_power_state(at()) == "power on"


# -- no program --------------------------------------------------------------------------------


def test_a_program_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(errors.HardwareError, match="install the package ipmitool"):
        tool.run(at(), STATUS)
    power.IpmiPower()  # loaded although no hardware type of IPMI is enabled
    assert caplog.records == []
    hardware.IpmiHardware()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "install the package ipmitool" in caplog.text


def test_a_program_that_is_there_is_no_news(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    program("exit 0")
    hardware.IpmiHardware()
    assert caplog.text == ""


def test_a_program_that_cannot_be_run_is_named(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = program("")
    (folder / "ipmitool").write_text("\x7fELF neither this nor that")
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(errors.HardwareError, match=r"cannot be run: .*(not found|format error)"):
        tool.run(at(), STATUS)


# -- secrets -----------------------------------------------------------------------------------


def test_the_password_is_seen_by_nobody_else(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    folder = program(
        "cat /proc/*/cmdline 2> /dev/null | tr '\\0' '\\n' > lines\n"
        "tr '\\0' '\\n' < /proc/$$/environ > environment\n"
        'echo "no session with $IPMI_PASSWORD" >&2\n'
        "exit 1"
    )
    with pytest.raises(errors.HardwareError) as caught:
        tool.run(at(ipmi_username="root", ipmi_password=SECRET, ipmi_hex_kg_key="4b6731"), STATUS)
    assert "root" in told(folder, "lines")
    assert SECRET not in (folder / "lines").read_text()
    assert "4b6731" not in (folder / "lines").read_text()
    assert {f"IPMI_PASSWORD={SECRET}", "IPMI_KGKEY=Kg1"} <= set(told(folder, "environment"))
    assert "ipmitool" in caplog.text
    for text in (caplog.text, str(caught.value), str(caught.value.as_data())):
        assert SECRET not in text


# -- once more ---------------------------------------------------------------------------------

FAILS_TWICE = """\
echo "$*" >> calls
[ $(wc -l < calls) -gt 2 ] && exec echo done
echo "Get Chassis Power Status failed: {reason}" >&2
exit 1
"""


def test_a_busy_bmc_is_asked_again_after_a_pause(program: Program) -> None:
    folder = program(FAILS_TWICE.format(reason="Node busy"))
    task = at()
    assert tool.run(task, STATUS, once=True) == "done\n"
    assert len(told(folder)) == 3
    assert task.pauses.count(1) == 2


def test_busy_bmc_is_paused_for_other_commands(program: Program) -> None:
    folder = program(FAILS_TWICE.format(reason="Node busy"))
    with pytest.raises(errors.HardwareError, match="is busy, and was retried"):
        tool.run(at(), STATUS, seconds=0.5)
    with pytest.raises(errors.BmcUnreachable, match="is paused for another 1 s"):
        tool.run(at(ipmi_username="another"), STATUS, seconds=0.5)
    assert len(told(folder)) == 1
    patient = at(ipmi_username="patient")
    assert tool.run(patient, STATUS) == "done\n"
    assert patient.pauses[0] < 1


def test_commands_that_go_well_follow_at_once(program: Program) -> None:
    program("exit 0")
    task = at()
    for _ in range(3):
        tool.run(task, STATUS)
    assert task.pauses == []


@pytest.mark.parametrize(("once", "calls"), [(True, 1), (False, 3)])
def test_command_with_an_unknown_result_is_repeated_only_if_harmless(
    program: Program, once: bool, calls: int
) -> None:
    folder = program(FAILS_TWICE.format(reason="Timeout"))
    if once:
        with pytest.raises(errors.HardwareError, match="Timeout"):
            tool.run(at(), STATUS, once=True)
    else:
        tool.run(at(), STATUS)
    assert len(told(folder)) == calls


@pytest.mark.parametrize("reason", ["Invalid data field in request", "Unknown (0xD9)"])
def test_a_refusal_is_not_repeated(program: Program, reason: str) -> None:
    folder = program(FAILS_TWICE.format(reason=reason))
    with pytest.raises(errors.HardwareError, match="refused the command power status"):
        tool.run(at(), STATUS)
    assert len(told(folder)) == 1


def test_an_operator_may_name_further_errors(program: Program) -> None:
    option("additional_retryable_ipmi_errors", ["Unknown (0xD9)"])
    program(FAILS_TWICE.format(reason="Unknown (0xD9)"))
    assert tool.run(at(), STATUS) == "done\n"


# -- cipher suites -----------------------------------------------------------------------------

TAKES_3 = """\
echo "$*" >> calls
case "$*" in *"-C 3 "*) exit 0 ;; esac
echo "Error in open session response message : invalid authentication algorithm" >&2
exit 1
"""


def suites(folder: pathlib.Path) -> list[str]:
    words = [call.split() for call in told(folder)]
    return [call[call.index("-C") + 1] if "-C" in call else "none" for call in words]


def test_suites_are_tried_from_the_last_and_the_good_one_is_remembered(program: Program) -> None:
    option("cipher_suite_versions", [2, 3, 17])
    folder = program(TAKES_3)
    tool.run(at(), STATUS)
    tool.run(at(), STATUS)
    assert suites(folder) == ["17", "3", "3"]


def test_a_suite_that_was_good_may_be_so_no_more(program: Program) -> None:
    option("cipher_suite_versions", [3, 17])
    program(TAKES_3)
    tool.run(at(), STATUS)
    folder = program(TAKES_3.replace("-C 3", "-C 17"))
    (folder / "calls").unlink()
    tool.run(at(), STATUS)
    tool.run(at(), STATUS)
    assert suites(folder) == ["3", "17", "17"]


def test_error_names_the_last_cipher_suite_if_a_bmc_refuses_all(program: Program) -> None:
    option("cipher_suite_versions", [2, 17])
    folder = program(TAKES_3)
    with pytest.raises(errors.HardwareError, match=r"support cipher suite 2\. Set"):
        tool.run(at(), STATUS)
    assert suites(folder) == ["17", "2"]


def test_a_role_that_is_invalid_for_one_suite_may_be_valid_for_another(program: Program) -> None:
    option("cipher_suite_versions", [3, 17])
    refused = "Error in open session response message : invalid role"
    folder = program(TAKES_3.partition('echo "Error')[0] + f"echo '{refused}' >&2\nexit 1")
    tool.run(at(), STATUS)
    assert suites(folder) == ["17", "3"]
    with pytest.raises(errors.BmcAccessDenied, match="does not give user"):
        tool.run(at(ipmi_cipher_suite=17), STATUS)


@pytest.mark.parametrize(
    ("values", "used"),
    [
        ({"ipmi_cipher_suite": 3}, "3"),
        ({"ipmi_protocol_version": "1.5"}, "none"),
    ],
)
def test_a_node_may_decide(program: Program, values: dict[str, Any], used: str) -> None:
    option("cipher_suite_versions", [17])
    folder = program('echo "$*" >> calls')
    tool.run(at(**values), STATUS)
    assert suites(folder) == [used]


# -- BMCs that restart ---------------------------------------------------------------------------

SILENT = """\
echo "$*" >> calls
case "$*" in *" status") echo "Chassis Power is on"; exit 0 ;; esac
[ $(wc -l < calls) -lt 3 ] || exit 0
echo "Get Auth Capabilities error" >&2
exit 1
"""
"""The BMC does not answer the first two commands."""


@pytest.mark.parametrize(
    "change",
    [
        lambda task: power.IpmiPower().set_power_state(task, base.POWER_ON),
        lambda task: management.IpmiManagement().set_boot_device(task, "pxe"),
    ],
    ids=["power", "boot device"],
)
def test_change_waits_for_a_silent_bmc(program: Program, change: Callable[[BmcTask], None]) -> None:
    option("disable_boot_timeout", False)
    folder = program(SILENT)
    task = at()
    change(task)
    calls = [call for call in told(folder) if not call.endswith(" status")]
    assert len(calls) == 3
    assert len(set(calls)) == 1
    assert task.pauses[:2] == [1, 1]


def test_silent_bmc_is_noted_until_its_next_answer(program: Program) -> None:
    task = at()
    program('echo "Get Auth Capabilities error" >&2; exit 1')
    with pytest.raises(errors.BmcUnreachable):
        tool.run(task, STATUS, seconds=5)
    assert task.node.uuid in deadline.SILENT
    program("echo done")
    tool.run(task, STATUS)
    assert task.node.uuid not in deadline.SILENT


def test_silent_bmc_is_not_awaited_in_haste(program: Program) -> None:
    option("disable_boot_timeout", False)
    folder = program(SILENT.replace(" status", " unknown").replace("-lt 3", "-lt 9"))
    with pytest.raises(errors.BmcUnreachable, match="does not answer"):
        tool.run(at(), STATUS)
    for hurry in (deadline.limit(5), deadline.until(50)):
        with hurry, pytest.raises(errors.BmcUnreachable, match="does not answer"):
            management.IpmiManagement().set_boot_device(at(), "pxe")
    with pytest.raises(errors.BmcUnreachable, match="does not answer"):
        tool.run(at(), ("power", "on"), patient=True, seconds=10)
    assert len(told(folder)) == 4


# -- many at once ------------------------------------------------------------------------------

HELD = """\
case "$*" in *" 7777 "*) exec echo free ;; esac
echo begun >> calls
while [ ! -e go ]; do sleep 0.02; done
"""


class Crowd:
    """Threads with a command each, which run until they are let go."""

    def __init__(self, program: Program) -> None:
        self.folder = program(HELD)
        self._threads: list[threading.Thread] = []

    def join(self, task: BmcTask) -> None:
        """Start one more, and return when its program runs."""
        before = len(told(self.folder))
        self._threads.append(threading.Thread(target=tool.run, args=(task, STATUS)))
        self._threads[-1].start()
        wait_for(lambda: len(told(self.folder)) > before)

    def leave(self) -> None:
        """Let them go."""
        (self.folder / "go").touch()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def crowd(program: Program) -> Iterator[Crowd]:
    found = Crowd(program)
    yield found
    found.leave()


def test_no_more_programs_run_than_are_allowed(crowd: Crowd) -> None:
    option("max_processes", 2)
    crowd.join(at(1001))
    crowd.join(at(1002))
    full = r"was not asked.*raise \[ipmi\]max_processes"
    with pytest.raises(errors.BmcUnreachable, match=full) as caught:
        tool.run(at(1003), STATUS, seconds=0.3)
    assert caught.value.facts["asked"] is False
    crowd.leave()
    tool.run(at(1003), STATUS)
    assert len(told(crowd.folder)) == 3


def test_bmc_gets_one_command_at_a_time(crowd: Crowd) -> None:
    crowd.join(at(1001, ipmi_username="one"))
    with pytest.raises(errors.BmcUnreachable, match="is busy: other commands"):
        tool.run(at(1001, ipmi_username="another"), STATUS, seconds=0.3)
    # Not even another BMC at that address waits for it.
    assert tool.run(at(7777), STATUS) == "free\n"
    crowd.leave()
    tool.run(at(1001), STATUS)
    assert len(told(crowd.folder)) == 2


def test_a_busy_bmc_takes_no_program_from_the_others(crowd: Crowd) -> None:
    option("max_processes", 2)
    crowd.join(at(1001))
    waiting = threading.Thread(target=tool.run, args=(at(1001), STATUS))
    waiting.start()
    assert tool.run(at(7777), STATUS) == "free\n"
    crowd.leave()
    waiting.join()


def test_bmcs_not_spoken_to_for_long_are_forgotten(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "REMEMBERED", 3)
    monkeypatch.setattr(tool, "BMCS", tool.Bmcs())
    program("exit 0")
    for port in range(1, 10):
        tool.run(at(port), STATUS)
    assert sorted(port for _, port in tool.BMCS._all) == [7, 8, 9]


def test_slots_come_back_after_a_failure(program: Program) -> None:
    option("max_processes", 1)
    program("exit 1")
    for _ in range(3):
        with pytest.raises(errors.HardwareError, match="refused the command"):
            tool.run(at(), STATUS, seconds=5)
    assert tool.program_slots(1).held == 0


# Outputs of ipmitool by BMCs of many vendors, parsed and compared with what they say.

FOLDER = pathlib.Path(__file__).parents[2] / "recorded" / "ipmi"
FILES = sorted(FOLDER.glob("*.txt"))
WORDS = {
    "Force PXE": "pxe",
    "Force Boot from default Hard-Drive": "disk",
    "Force Boot from CD/DVD": "cdrom",
    "Force Boot into BIOS Setup": "bios",
    "Force Boot from Remotely connected Hard-Drive": "disk",
}
"""Devices by ipmitool's own words for the boot flags; all other words are none that is offered."""


class Recording:
    """The outputs in a file by command."""

    def __init__(self, file: pathlib.Path) -> None:
        head, *parts = file.read_text().split("$ ipmitool ")
        self.vendor = head.removeprefix("vendor:").strip()
        self.outputs = dict(part.split("\n", 1) for part in parts)


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def test_there_are_recordings_of_several_vendors() -> None:
    found = {Recording(file).vendor for file in FILES}
    assert len(found) == len(FILES) >= 8
    page = (FOLDER / "README.rst").read_text()
    assert [file.stem for file in FILES if file.stem not in page] == []


def test_the_vendor_is_known(recording: Recording) -> None:
    assert (management.parse_vendor(recording.outputs["mc info"]) or "none") == recording.vendor


def test_the_power_state_is_read(recording: Recording) -> None:
    answer = recording.outputs["power status"]
    assert power.parse(answer) == f"power {answer.split()[-1]}"


def test_boot_flags_are_read_as_ipmitool_reads_them(recording: Recording) -> None:
    text = recording.outputs["chassis bootparam get 5"]
    [data] = re.findall(r"^Boot parameter data: (\w+)$", text, re.MULTILINE)
    [device] = re.findall(r"Boot Device Selector : (.+)$", text, re.MULTILINE)
    chosen = WORDS.get(device)
    persistent = "apply to all future boots" in text if chosen else None
    raw = f" 01 05 {' '.join(re.findall('..', data))}\n"
    assert management.read_flags(raw) == {"boot_device": chosen, "persistent": persistent}


def test_each_sensor_is_found_with_its_states(recording: Recording) -> None:
    text = recording.outputs["-v sdr"]
    found = {
        name: facts
        for kind in management.parse_sensors(text).values()
        for name, facts in kind.items()
    }
    blocks = re.split(r"^Sensor ID +: ", text, flags=re.MULTILINE)[1:]
    assert list(map(len, (found, blocks))) == [len(blocks)] * 2 != [0, 0]
    for block in blocks:
        facts = found[block.partition("\n")[0]]
        # The states stand in brackets after the kind of the states, up to the next name.
        states = re.search(r"^ States Asserted .*\n((?: {3,}\[.*\]\n)+)", block, re.MULTILINE)
        wanted = re.findall(r"\[(.*)\]", states[1]) if states else None
        told = facts.get("States Asserted")
        assert (told.split(", ") if told else None) == wanted
        reading = re.search(r"^ Sensor Reading +: (.*)$", block, re.MULTILINE)
        assert facts.get("Sensor Reading") == (reading[1] if reading else None)


def test_lines_about_a_missing_list_of_vendors_are_no_reason() -> None:
    said = (
        "IANA PEN registry open failed: No such file or directory\n"
        "Failed to load entries from IANA PEN Registry\n"
        "Error response 0xc1 from Get PICMG Properities\n"
        "Error: Unable to establish IPMI v2 / RMCP+ session\n"
    )
    fault = faults.explain(info.IpmiInfo("bmc"), said, "power status", suite=3, seconds=1)
    assert str(fault.error).endswith(
        "ipmitool says: Error: Unable to establish IPMI v2 / RMCP+ session"
    )


def test_an_ipmitool_that_cannot_run_is_not_blamed_on_the_bmc() -> None:
    said = "Failed to initialize the OEM info dictionary\n"
    fault = faults.explain(info.IpmiInfo("bmc"), said, "power status", suite=3, seconds=1)
    assert "The program ipmitool cannot run on the conductor's machine" in str(fault.error)
    assert "enterprise-numbers" in str(fault.error)
    assert fault.again is faults.IpmiRetry.NEVER
