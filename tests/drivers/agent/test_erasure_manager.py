"""The hardware manager that reports erasures, before managers of vendors with odd manners."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.emulators.agent import process
from tests.support import real_agent

Json = dict[str, Any]
REFUSES = """#!/bin/sh
case "$1" in
    -I) echo '   *    BLOCK_ERASE_EXT command' ;;
    --yes*) exit 1 ;;
esac
"""
"""hdparm for a disk that can be sanitized, and refuses it."""


def disks(scenario: str, *serials: str) -> dict[str, Json]:
    """Return the facts of each disk by serial number; there are the disk `disk` and these."""
    (report,) = reports(scenario, *serials)
    return report


def reports(scenario: str, *serials: str, hdparm: str = "#!/bin/sh\n") -> list[dict[str, Json]]:
    """Return the facts of the disks for each step."""
    with process.agent([real_agent.MAC]) as machine:
        for path in (machine.folder / "disk.img", *map(machine.add_disk, serials)):
            path.write_bytes(os.urandom(process.DISK_BYTES))
        machine.add_evidence()
        (machine.folder / "bin" / "hdparm").write_text(hdparm)
        printed = machine.run("-m", "erasing", scenario, str(machine.folder))
        steps = [json.loads(line)["disks"] for line in printed.splitlines()]
        return [{one["serial"]: one for one in found} for found in steps]


def test_disk_that_appears_and_is_erased_is_reported() -> None:
    found = disks("early")
    assert {serial: disk["level"] for serial, disk in found.items()} == {
        "NEW": "clear",
        "disk": "clear",
    }


def test_disk_that_appears_and_is_not_erased_is_reported() -> None:
    found = disks("late")
    assert found["disk"]["result"] == "erased"
    assert (found["NEW"]["result"], found["NEW"]["level"]) == ("skipped", "none")
    assert found["NEW"]["why"] == "appeared during the step"


def test_disk_that_is_formatted_by_the_express_step_is_sampled() -> None:
    found = disks("express", "LIAR", "META")
    for name, kept in (("disk", "erased"), ("LIAR", "failed"), ("META", "erased")):
        assert found[name]["result"] == kept
    formatted = found["disk"]
    assert (formatted["level"], formatted["method"]) == ("clear", "nvme format, user data")
    assert formatted["verification"]["samples"] == formatted["verification"]["blank"] > 60
    assert formatted["tools"][0]["name"] == "nvme"
    assert formatted["started_at"] <= formatted["ended_at"]
    assert (found["LIAR"]["level"], found["META"]["level"]) == ("none", "none")
    assert found["LIAR"]["verification"]["unchanged"] > 60
    assert "verification" not in found["META"]


def test_disk_without_samples_has_no_level() -> None:
    assert disks("alone")["disk"]["level"] == "none"


def test_disk_that_is_still_being_erased_has_failed() -> None:
    first, _ = reports("leaving")
    assert (first["disk"]["result"], first["disk"]["level"]) == ("failed", "none")
    assert "still being erased" in first["disk"]["why"]
    assert "/dev/sdz" in first["disk"]["why"]


def test_thread_of_an_earlier_step_is_no_part_of_the_report() -> None:
    _, second = reports("leaving")
    assert (second["disk"]["result"], second["disk"]["level"]) == ("skipped", "none")


def test_sanitize_that_the_disk_refused_has_not_erased_it() -> None:
    (found,) = reports("unseen", hdparm=REFUSES)
    assert (found["disk"]["result"], found["disk"]["level"]) == ("skipped", "none")
