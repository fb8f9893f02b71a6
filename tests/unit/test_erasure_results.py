"""Reports of ramdisks: all evidence is kept, and what contradicts itself proves nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import erasure_results
from ironic_lite_evidence import report

Json = dict[str, Any]
INVENTORY: Json = {
    "name": "/dev/sda",
    "vendor": "ATA",
    "model": "m",
    "serial": "S1",
    "wwn": "0x5",
    "by_path": "/dev/disk/by-path/pci-0",
    "size": 4096,
    "logical_sectors": 512,
    "rotational": True,
}
COUNTS = {"samples": 66, "changed": 60, "blank": 66, "unchanged": 0, "unreadable": 0}
AREAS = {"hpa": False, "dco": True, "sectors": 7, "native_sectors": 8}
WELL: Json = {"name": "shred", "command": ["shred"], "exit": 0}
ERASED: Json = {"name": "/dev/sda", "result": "erased", "level": "clear"}


def parse(*disks: Json) -> erasure_results.Reported:
    """Parse a report with these disks as it comes from the wire."""
    told = report.of_step(disks, {"evidence": "1"}, "13.0.0")
    return erasure_results.parse(json.loads(json.dumps(told)))


def test_all_facts_of_the_ramdisk_about_a_disk_are_kept() -> None:
    shred = ("shred", "--zero", "--iterations", "1", "/dev/sda")
    found = report.erased(INVENTORY, [shred], COUNTS, None)
    found |= {
        "hidden_areas": AREAS,
        "level": "none",
        "started_at": "2026-01-01",
        "ended_at": "2026-01-02",
    }
    kept = parse(found)
    assert kept.fault is None
    (disk,) = kept.disks
    assert disk == {key: value for key, value in found.items() if value is not None}


def test_fact_that_the_ramdisk_could_not_read_is_left_out() -> None:
    unknown = dict.fromkeys(AREAS)
    (disk,) = parse({**ERASED, "hidden_areas": unknown, "by_path": None}).disks
    assert disk == {**ERASED, "hidden_areas": {}}


def test_number_as_text_of_an_old_ramdisk_is_a_number() -> None:
    (disk,) = parse({**ERASED, "logical_sectors": "512"}).disks
    assert disk["logical_sectors"] == 512


@pytest.mark.parametrize(
    ("facts", "place"),
    [
        ({"verification": {**COUNTS, "unchanged": 1}}, "disks/0"),
        ({"verification": {**COUNTS, "unreadable": 1}}, "disks/0"),
        ({"verification": {**COUNTS, "blank": 67}}, "disks/0/verification"),
        ({"verification": {"samples": 1, "changed": 1}}, "disks/0/verification"),
        ({"verification": dict.fromkeys(COUNTS, 0)}, "disks/0"),
        ({"tools": [WELL, {**WELL, "exit": 1}]}, "disks/0"),
        ({"method": "overwrite, zeros", "hidden_areas": {"hpa": True}}, "disks/0"),
        ({"method": "overwrite, zeros", "hidden_areas": {"dco": True}}, "disks/0"),
        ({"hidden_areas": {"hpa": "yes"}}, "disks/0/hidden_areas/hpa"),
        ({"hidden_areas": {"sectors": -1}}, "disks/0/hidden_areas/sectors"),
        ({"hidden_areas": []}, "disks/0/hidden_areas"),
        ({"logical_sectors": "many"}, "disks/0/logical_sectors"),
        ({"logical_sectors": "9" * 5000}, "disks/0/logical_sectors"),
    ],
)
def test_invalid_fact_is_named_and_proves_nothing(facts: Json, place: str) -> None:
    found = parse({**ERASED, **facts})
    assert found.disks == ()
    assert f"invalid: {place} " in str(found.fault)


def test_unchanged_samples_of_a_failed_disk_are_kept() -> None:
    counts = {**COUNTS, "unchanged": 3, "unreadable": 2}
    (disk,) = parse({"name": "/dev/sda", "result": "failed", "verification": counts}).disks
    assert disk["verification"] == counts


@pytest.mark.parametrize(
    "facts",
    [
        {"tools": [{**WELL, "exit": 1}, WELL]},
        {"level": "none", "tools": [{**WELL, "exit": 1}]},
        {"level": "none", "method": "overwrite, zeros", "hidden_areas": {"hpa": True}},
        {"level": "purge", "method": "nvme sanitize, overwrite", "hidden_areas": {"hpa": True}},
        {"method": "overwrite, zeros", "hidden_areas": {"hpa": False, "dco": False}},
    ],
)
def test_disk_whose_facts_agree_with_its_level_is_taken(facts: Json) -> None:
    assert parse({**ERASED, **facts}).fault is None


def nested(depth: int) -> list[object]:
    """Return lists within lists."""
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize("place", ["disks", "managers"])
def test_report_nested_too_deeply_proves_nothing(place: str) -> None:
    told = {"kind": erasure_results.KIND, "disks": [], place: nested(300)}
    assert "invalid: disks or managers" in str(erasure_results.parse(told).fault)


def test_disks_and_managers_have_one_limit_of_size() -> None:
    managers = {f"{one:0>1000}": "\u20ac" * 1000 for one in range(32)}
    disks = [{**ERASED, "name": f"d{one}", "why": "x" * 1000} for one in range(900)]
    assert erasure_results.parse(report.of_step(disks, {}, "1")).fault is None
    found = erasure_results.parse(report.of_step(disks, managers, "1"))
    assert "bytes" in str(found.fault)


def test_report_of_a_later_kind_fails_the_step_instead_of_counting_as_none() -> None:
    failed = {"name": "/dev/sda", "result": "failed"}
    told = {**report.of_step([failed], {}, "1"), "kind": "ironic_lite.erasure_result/2"}
    with pytest.raises(errors.HardwareError, match="kind is not"):
        erasure_results.refuse_failed(told)
