"""The hardware manager that reports erasures, without an agent: commands, samples and levels."""

from __future__ import annotations

import os
import pathlib
import subprocess
import threading
from collections.abc import Sequence

import pytest

from ironic_lite_evidence import commands, devices, purge, report, samples

DISK = "/dev/sda"
SHRED = ("shred", "--force", "--zero", "--verbose", "--iterations", "1", DISK)
WELL = {"samples": 66, "changed": 66, "blank": 66, "unchanged": 0, "unreadable": 0}


@pytest.mark.parametrize(
    ("command", "level"),
    [
        (SHRED, "clear"),
        (("shred", "--force", "--verbose", "--iterations", "0", DISK), "none"),
        (("nvme", "format", DISK, "-s", "2", "-f"), "clear"),
        (("nvme", "format", DISK, "-s", "0", "-f"), "none"),
        (("nvme", "sanitize", DISK, "-a", "2"), "purge"),
        (("hdparm", "--user-master", "u", "--security-erase-enhanced", "NULL", DISK), "clear"),
        (
            ("/usr/sbin/hdparm", "--yes-i-know-what-i-am-doing", "--sanitize-block-erase", DISK),
            "purge",
        ),
        (("blkdiscard", DISK), "none"),
        (("wipefs", "--all", DISK), "none"),
    ],
)
def test_command_has_a_conservative_level(command: tuple[str, ...], level: str) -> None:
    (method,) = commands.erasing(DISK, [command])
    assert method.level == level


@pytest.mark.parametrize(
    "command",
    [
        ("hdparm", "-I", DISK),
        ("nvme", "id-ctrl", DISK, "-o", "json"),
        ("nvme", "sanitize", DISK, "-a", "1"),  # ends a failed sanitize, erases nothing
        ("shred", "--iterations", "1", "/dev/sdb"),
        ("lsblk", "--fs", DISK),
    ],
)
def test_command_that_erases_nothing_of_the_disk_is_no_method(command: tuple[str, ...]) -> None:
    assert commands.erasing(DISK, [command]) == []


def test_thread_observes_its_own_programs_only() -> None:
    def other() -> None:
        subprocess.run(["true", "other"], check=True)

    with commands.watching() as seen:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        subprocess.run(["true", "own"], check=True)
    subprocess.run(["true", "later"], check=True)
    assert seen == [("true", "own")]


def test_samples_have_both_ends_and_each_zone() -> None:
    places = samples.offsets(64 * 1024 * samples.SIZE)
    assert places[0] == 0
    assert places[-1] == (64 * 1024 - 1) * samples.SIZE
    assert {place // samples.SIZE // 1024 for place in places} == set(range(64))


@pytest.mark.parametrize("size", [0, 512, samples.SIZE, 3 * samples.SIZE + 512])
def test_samples_of_a_tiny_disk_are_within_it(size: int) -> None:
    assert all(0 <= place <= size - samples.SIZE for place in samples.offsets(size))


def test_samples_show_what_was_left(tmp_path: pathlib.Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(os.urandom(64 * samples.SIZE))
    places = samples.offsets(disk.stat().st_size)
    before = samples.read(str(disk), places)
    untouched = samples.compare(before, samples.read(str(disk), places))
    assert (untouched["unchanged"], samples.proves(untouched)) == (len(places), False)
    disk.write_bytes(bytes(63 * samples.SIZE) + before[places[-1]])  # type: ignore[operator]
    partly = samples.compare(before, samples.read(str(disk), places))
    assert (partly["unchanged"], samples.proves(partly)) == (1, False)
    disk.write_bytes(bytes(64 * samples.SIZE))
    erased = samples.compare(before, samples.read(str(disk), places))
    assert (erased["changed"], erased["blank"]) == (len(places), len(places))
    assert samples.proves(erased)


def test_disk_that_cannot_be_read_proves_nothing(tmp_path: pathlib.Path) -> None:
    counts = samples.compare({0: None}, samples.read(str(tmp_path / "absent"), [0]))
    assert counts["unreadable"] == 1
    assert not samples.proves(counts)


def disk(**more: object) -> dict[str, object]:
    return {"name": DISK, "serial": "S1", "model": "m", "size": 4096, "rotational": True, **more}


def test_disk_without_an_erasing_program_is_skipped() -> None:
    found = report.erased(disk(), [("hdparm", "-I", DISK)], WELL, None)
    assert (found["result"], found["level"]) == ("skipped", "none")
    assert found["why"]


def test_disk_whose_samples_are_unchanged_has_failed() -> None:
    found = report.erased(disk(), [SHRED], WELL | {"unchanged": 1}, None)
    assert (found["result"], found["level"]) == ("failed", "none")


def test_erased_disk_names_its_method_and_program() -> None:
    found = report.erased(disk(), [("hdparm", "-I", DISK), SHRED], WELL, None)
    assert (found["result"], found["level"], found["media"]) == ("erased", "clear", "hdd")
    assert found["method"] == "overwrite, 1 random passes and zeros"
    assert [(tool["name"], tool["exit"]) for tool in found["tools"]] == [("shred", 0)]
    assert found["tools"][0]["version"]


HPA = """#!/bin/sh
case "$1" in
    -N) echo ' max sectors   = {sectors}/{native}, HPA is enabled' ;;
    --dco-identify) echo '   Real max sectors: {real}' ;;
esac
"""


def program(place: pathlib.Path, name: str, text: str, search: pytest.MonkeyPatch) -> None:
    (place / name).write_text(text)
    (place / name).chmod(0o755)
    search.setenv("PATH", f"{place}:{os.environ['PATH']}")


def test_overwriting_a_disk_with_a_hidden_area_has_no_level(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "hdparm", HPA.format(sectors=8, native=2000, real=2000), monkeypatch)
    found = report.erased(disk(), [SHRED], WELL, None)
    assert found["hidden_areas"] == {
        "hpa": True,
        "dco": False,
        "sectors": 8,
        "native_sectors": 2000,
    }
    assert (found["result"], found["level"]) == ("erased", "none")
    assert "hidden area" in found["why"]


HUGE = 2**63


@pytest.mark.parametrize(
    ("numbers", "known"),
    [
        ((0, 1, 1), {}),
        ((7, 8, 8), {}),  # not the size of the disk
        ((8, 7, 8), {}),
        ((8, HUGE, HUGE), {}),
        ((8, 8, 7), {"hpa": False, "sectors": 8, "native_sectors": 8}),
        ((8, 8, HUGE), {"hpa": False, "sectors": 8, "native_sectors": 8}),
        ((8, 8, 9), {"hpa": False, "dco": True, "sectors": 8, "native_sectors": 8}),
    ],
)
def test_impossible_number_of_sectors_is_left_out(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    numbers: tuple[int, int, int],
    known: dict[str, object],
) -> None:
    sectors, native, real = numbers
    text = HPA.format(sectors=sectors, native=native, real=real)
    program(tmp_path, "hdparm", text, monkeypatch)
    areas = devices.hidden_areas(disk())
    assert {key: value for key, value in areas.items() if value is not None} == known


def test_sectors_of_4096_bytes_make_up_the_disk(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "hdparm", HPA.format(sectors=1, native=1, real=1), monkeypatch)
    assert devices.hidden_areas(disk(logical_sectors="4096"))["hpa"] is False


def test_disk_that_was_blank_before_says_so() -> None:
    found = report.erased(disk(), [SHRED], WELL | {"changed": 0}, None)
    assert (found["result"], found["level"]) == ("erased", "clear")
    assert found["why"] == "all samples were blank before, or could not be read"


NVME = """#!/bin/sh
echo "$*" >> {place}/calls
echo a warning >&2
case "$1" in
    id-ctrl) echo '{{"sanicap": {able}}}' ;;
    sanitize-log) printf '\\377\\377\\{state}\\001' ;;
esac
"""


def sanitized(
    place: pathlib.Path, search: pytest.MonkeyPatch, able: int, state: str
) -> Sequence[str]:
    program(place, "nvme", NVME.format(place=place, able=able, state=state), search)
    assert purge.sanitize("/dev/nvme9n1", sleep=lambda _: None) == (able != 0)
    return (place / "calls").read_text().splitlines()


@pytest.mark.parametrize(("able", "action"), [(7, "2"), (1, "4"), (4, "3"), (2, "2")])
def test_nvme_disk_is_sanitized_by_the_best_action_it_has(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, able: int, action: str
) -> None:
    calls = sanitized(tmp_path, monkeypatch, able, "001")
    assert f"sanitize /dev/nvme9n1 -a {action}" in calls


def test_nvme_disk_without_sanitize_is_left_to_the_agent(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(sanitized(tmp_path, monkeypatch, 0, "001")) == 1


def test_failed_sanitize_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(purge.Failed, match="nvme9n1 failed"):
        sanitized(tmp_path, monkeypatch, 2, "003")


def test_sanitize_without_a_readable_status_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = NVME.replace("sanitize-log)", "sanitize-log) exit 1; ")
    program(tmp_path, "nvme", mute.format(place=tmp_path, able=2, state=""), monkeypatch)
    with pytest.raises(purge.Failed, match="status cannot be read"):
        purge.sanitize("/dev/nvme9n1", sleep=lambda _: None)
    assert (tmp_path / "calls").read_text().count("sanitize-log") == purge.UNREADABLE


def test_sanitize_whose_start_does_not_end_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = NVME.replace("case", '[ "$1" != sanitize ] || exec sleep 600\ncase')
    program(tmp_path, "nvme", slow.format(place=tmp_path, able=2, state="001"), monkeypatch)
    monkeypatch.setattr(devices, "SECONDS", 5)
    with pytest.raises(purge.Failed, match="may have begun"):
        purge.sanitize("/dev/nvme9n1", sleep=lambda _: None)


def test_absent_program_has_no_version_and_does_not_fail() -> None:
    assert devices.ask("no-such-program-at-all") == (127, b"")
    assert devices.version("no-such-program-at-all") is None
