"""Outputs of ipmitool by BMCs of many vendors, parsed and compared with what they say."""

from __future__ import annotations

import pathlib
import re

import pytest

from ironic_lite.drivers.ipmi import faults, flags, info, power, sensors, vendors

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
    assert (vendors.parse(recording.outputs["mc info"]) or "none") == recording.vendor


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
    assert flags.read(raw) == {"boot_device": chosen, "persistent": persistent}


def test_each_sensor_is_found_with_its_states(recording: Recording) -> None:
    text = recording.outputs["-v sdr"]
    found = {name: facts for kind in sensors.parse(text).values() for name, facts in kind.items()}
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
    fault = faults.explain(info.Info("bmc"), said, "power status", suite=3, seconds=1)
    assert str(fault.error).endswith(
        "ipmitool says: Error: Unable to establish IPMI v2 / RMCP+ session"
    )


def test_an_ipmitool_that_cannot_run_is_not_blamed_on_the_bmc() -> None:
    said = "Failed to initialize the OEM info dictionary\n"
    fault = faults.explain(info.Info("bmc"), said, "power status", suite=3, seconds=1)
    assert "The program ipmitool cannot run on the conductor's machine" in str(fault.error)
    assert "enterprise-numbers" in str(fault.error)
    assert fault.again is faults.Again.NEVER
