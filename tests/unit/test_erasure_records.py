"""Disks of an inspection beside those of an erasure record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ironic_lite.domain import erasure_records, root_device
from ironic_lite.features.erasures import rules as erasure_rules

pytestmark = pytest.mark.feature("erasures")

Json = dict[str, Any]
PROOF = {
    "disks": [{"serial": "S-1", "wwn": "0x5A"}, {"serial": "S2"}, {"name": "/dev/sda"}],
    "not_erased": [],
}


@pytest.mark.parametrize(
    ("disks", "found"),
    [
        ([], []),
        ([{"serial": "S-1"}, {"serial": "S2"}], []),
        ([{"serial": "S-1", "wwn": "0x99"}], []),
        ([{"serial": "other", "wwn": "0x5a"}], []),
        ([{"serial": " s1 "}], []),
        ([{"name": "/dev/sda", "serial": "", "wwn": None}, "text", None], []),
        ([{"name": "/dev/sdb"}, {"serial": 7, "name": "x"}], ["/dev/sdb", "x"]),
        ([{"serial": "S-1"}, {"serial": "S3"}], ["S3"]),
        ([{"serial": "S3", "wwn": "0x99"}], ["S3"]),
        ({"serial": "S3"}, []),
        (None, []),
    ],
)
def test_stranger_is_a_disk_that_the_record_does_not_name(disks: Any, found: list[str]) -> None:
    inventory: Json = {"disks": disks}
    assert erasure_rules.unrecorded_disks(inventory, json.dumps(PROOF)) == found


GIB = 1024**3
LUN: Json = {"name": "/dev/sda", "serial": "LUN0", "wwn": "0x600508b1001c0001", "size": 400 * GIB}
"""A volume as a ramdisk reports it, whose serial number no BMC knows."""


def drive(number: int) -> Json:
    """Return a drive of an out-of-band inspection."""
    return {"name": f"Bay {number}", "serial": f"D{number}", "size": 480 * GIB}


def volume(*members: int, **facts: Any) -> Json:
    """Return a volume of an out-of-band inspection."""
    return {"name": "V", "members": [{"serial": f"D{one}"} for one in members], **facts}


WWN, SIZE = {"wwn": "0x600508b1001c0001deadbeefdeadbeef"}, {"size": 400 * GIB}


@pytest.mark.parametrize(
    ("drives", "volumes", "reported", "missing"),
    [
        ([1, 2], [volume(1, 2, **WWN)], [LUN], []),
        ([1, 2], [volume(1, 2, **SIZE)], [LUN], []),
        ([1, 2, 3], [volume(1, 2, **WWN)], [LUN], ["D3"]),  # a spare, or an unassigned drive
        ([1, 2, 3], [volume(1, 2, **WWN)], [LUN, drive(3)], []),  # passed through
        ([1, 2], [volume(1, 2, wwn="0x600508b1001c9999")], [LUN], ["D1", "D2"]),
        ([1, 2], [volume(1, 2, size=1)], [LUN], ["D1", "D2"]),
        # Two volumes share the drives, and one of them is not reported.
        ([1, 2], [volume(1, 2, **SIZE), volume(1, 2, **SIZE)], [LUN], ["D1", "D2"]),
        ([1, 2], [volume(1, 2, **SIZE), volume(1, 2, **SIZE)], [LUN, {**LUN, "name": "b"}], []),
        ([1, 1], [], [drive(1)], []),  # a controller with two paths lists it twice
        ([1, 2], [], [], ["D1", "D2"]),
    ],
)
def test_drive_counts_by_its_volumes_if_all_of_them_are_reported(
    drives: list[int], volumes: list[Json], reported: list[Any], missing: list[str]
) -> None:
    inventory = {
        "disks": [drive(one) for one in drives],
        "storage_controllers": [{"drives": [], "volumes": volumes}],
    }
    assert [one["name"] for one in erasure_records.missing_disks(inventory, reported)] == missing


NAMESPACE = {"serial": "N1", "wwn": "eui.01"}
SDA, SDB = {"name": "/dev/sda", "serial": "0"}, {"name": "/dev/sdb", "serial": "0"}
VDA, VDB = {"name": "/dev/vda", "size": 5}, {"name": "/dev/vdb", "size": 6}


@pytest.mark.parametrize(
    ("disks", "reported", "missing"),
    [
        # Namespaces of one drive have its serial number.
        ([NAMESPACE, {**NAMESPACE, "wwn": "eui.02"}], [NAMESPACE], ["N1"]),
        ([NAMESPACE], [{"serial": "N1", "wwn": "0x01"}], []),
        # Bridges may give each disk the same serial number.
        ([SDA, SDB], [SDA], ["/dev/sdb"]),
        # Without any number: by name or size, each disk of the report once.
        ([VDA, VDB], [VDA], ["/dev/vdb"]),
        ([{"name": "Disk 1", "size": 5}, {"name": "Disk 2", "size": 5}], [VDA], ["Disk 2"]),
    ],
)
def test_each_disk_of_a_report_stands_for_one_of_the_inventory(
    disks: list[Json], reported: list[Any], missing: list[str]
) -> None:
    found = erasure_records.missing_disks({"disks": disks}, reported)
    assert [one["name"] for one in found] == missing


PLACEHOLDERS = (
    *("", "   ", "-", "Unknown", "UNKNOWN", "N/A", "n/a", "None", "null", "Not Available"),
    *("Not Specified", "To be filled by O.E.M.", "To Be Filled By O.E.M.", "Default string"),
    *("0", "0000", "00000000000000000000", "0x0000000000000000", "FFFFFFFF", "xxxxxxxx"),
)


@pytest.mark.parametrize("number", PLACEHOLDERS)
@pytest.mark.parametrize("name", ["serial", "wwn"])
def test_placeholder_identifies_no_disk(number: str, name: str) -> None:
    kept, gone = (
        {"name": f"/dev/sd{letter}", name: number, "size": size}
        for letter, size in (("a", 5), ("b", 6))
    )
    other = {"name": "/dev/sdc", name: number, "size": 7}
    found = erasure_records.missing_disks({"disks": [kept, gone]}, [kept, other])  # type: ignore[list-item]
    assert [one["name"] for one in found] == ["/dev/sdb"]
    # A member of a volume that all drives would be.
    volumes = [{"members": [{name: number}], **WWN}]
    inventory = {"disks": [gone], "storage_controllers": [{"volumes": volumes}]}
    [missing] = erasure_records.missing_disks(inventory, [LUN])  # type: ignore[list-item]
    assert missing["name"] == "/dev/sdb"


@pytest.mark.parametrize(
    ("disks", "reported"),
    [
        # Names and sizes that were not reported are not equal.
        ([{"size": 5}], [{"size": 6}]),
        ([{"name": "", "size": 5}], [{"name": "", "size": 6}]),
        ([{"name": "a", "size": 0}], [{"name": "b", "size": 0}]),
        ([{"name": "a", "size": False}], [{"name": "b", "size": 0}]),
        ([{"name": "Unknown", "size": 5}], [{"name": "Unknown", "size": 6}]),
        # Two drives without a number are no drive that is listed twice.
        ([{"name": "Disk", "size": 5}] * 2, [{"name": "Disk", "size": 5}]),
        ([{"serial": "N/A", "size": 5}] * 2, [{"serial": "N/A", "size": 5}]),
    ],
)
def test_value_that_was_not_reported_finds_no_disk(disks: list[Json], reported: list[Any]) -> None:
    assert len(erasure_records.missing_disks({"disks": disks}, reported)) == 1


@pytest.mark.parametrize("number", ["1", "D1", "S-0000", "0123456789", "WD-WCC4N0000000"])
def test_short_and_plain_serial_numbers_identify_a_disk(number: str) -> None:
    disk, other = {"name": "a", "serial": number}, {"name": "b", "serial": f" {number.lower()} "}
    assert erasure_records.missing_disks({"disks": [disk]}, [other]) == []  # type: ignore[list-item]


@pytest.mark.parametrize("number", PLACEHOLDERS)
def test_placeholder_of_a_new_disk_is_no_root_device(number: str) -> None:
    assert root_device.serials([{"serial": "S1"}, {"serial": number}]) == ["S1"]
