"""Disks that hold somebody's data are left alone, however a BMC tells of it."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from tests.emulators import bmc
from tests.support.raid_steps import (
    ROOT,
    Json,
    begun,
    create,
    delete,
    node_at,
    there,
)


def named(*disks: str, **more: Any) -> Json:
    return {**ROOT, "controller": "RAID1", "physical_disks": list(disks), **more}


def refusal(machine: bmc.Machine, disk: Json, **args: Any) -> str:
    with pytest.raises(errors.InvalidParameter) as refused:
        begun(machine, disk, **args)
    assert machine.changes() == []
    return refused.value.message


def add_volume(machine: bmc.Machine, name: str, **properties: Any) -> str:
    """Put a volume there that only tells these properties; return its path."""
    path = f"{machine.places.volumes}/{name}"
    about = {"@odata.id": path, "Id": name, "Name": f"Volume {name}", "CapacityBytes": 10**12}
    machine.add(path, {**about, **properties})
    return path


def drives(machine: bmc.Machine, *numbers: int) -> Json:
    found = machine["Storage/RAID1"]["Drives"]
    return {"Drives": [found[number] for number in numbers]}


LOCKED = "it is encrypted and locked"
FOREIGN = {"Oem": {"Dell": {"DellPhysicalDisk": {"RaidStatus": "Foreign"}}}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"EncryptionStatus": "Foreign"}, f"{LOCKED} (Foreign)"),
        ({"EncryptionStatus": "Locked"}, f"{LOCKED} (Locked)"),
        (FOREIGN, "it is foreign: it holds volumes of another controller"),
        ({"HotspareType": "Global"}, "it is a hot spare (Global)"),
        ({"StatusIndicator": "Hotspare"}, "it is a hot spare (Hotspare)"),
    ],
    ids=["foreign key", "locked", "foreign volumes", "global spare", "lamp of a spare"],
)
def test_a_disk_that_deleting_volumes_does_not_free_is_never_used(
    machine: bmc.Machine, change: Json, said: str
) -> None:
    machine["Drives/0"].update(change)
    text = refusal(machine, named("0", "3"), delete_existing=True)
    assert text.endswith(f"disk 0 cannot be used: {said}")
    create(node_at(machine, ROOT), delete_existing=True)
    assert there(machine) == [("RAID1", ["1", "2"])]


@pytest.mark.parametrize("status", [500, 503, 200])
def test_disk_that_cannot_be_read_loses_only_itself(machine: bmc.Machine, status: int) -> None:
    machine.tricks["GET */Drives/0"] = bmc.says(status, b"null")
    assert "disk 0 cannot be used: it cannot be read" in refusal(machine, named("0", "3"))
    create(node_at(machine, ROOT))
    assert there(machine) == [("RAID1", ["1", "2"])]


@pytest.mark.parametrize("change", [{}, {"EncryptionStatus": "Unlocked"}, {"Oem": {"Dell": None}}])
def test_a_disk_with_nothing_of_that_is_used(machine: bmc.Machine, change: Json) -> None:
    machine["Drives/0"].update(change)
    create(node_at(machine, ROOT))
    assert there(machine) == [("RAID1", ["0", "1"])]


def test_the_spare_of_volumes_is_free_once_they_have_gone(machine: bmc.Machine) -> None:
    machine["Drives/0"]["HotspareType"] = "Dedicated"
    assert "it is a hot spare (Dedicated)" in refusal(machine, named("0", "3"))
    create(node_at(machine, named("0", "3")), delete_existing=True)


@pytest.mark.parametrize("kind", [{"VolumeType": "RawDevice"}, {"RAIDType": "None"}])
def test_a_disk_passed_through_may_hold_a_system_and_is_only_taken_when_told_so(
    machine: bmc.Machine, kind: Json
) -> None:
    add_volume(machine, "raw", Links=drives(machine, 0), **kind)
    said = "disk 0 cannot be used: it is passed through as Volume raw (delete_existing takes it)"
    assert refusal(machine, named("0", "3")).endswith(said)
    create(node_at(machine, ROOT))
    assert there(machine) == [("RAID1", ["1", "2"])]


def test_a_namespace_of_an_nvme_drive_is_not_deleted(machine: bmc.Machine) -> None:
    """It says no RAIDType (DSP0268, Volume.NVMeNamespaceProperties); the drive needs it."""
    path = add_volume(machine, "ns1", NVMeNamespaceProperties={"NamespaceId": "0x1"})
    create(node_at(machine, ROOT), delete_existing=True)
    delete(node_at(machine))
    assert path in machine.tree
    assert not [title for title in machine.changes() if title.endswith("/ns1")]


def test_a_volume_that_tells_none_of_its_disks_may_be_on_any(machine: bmc.Machine) -> None:
    add_volume(machine, "7", RAIDType="RAID5")
    text = refusal(machine, ROOT)
    assert "RAID 1 needs 2 free disks of one kind, there are 0. Not free: 0: it may be in " in text
    assert "volume Volume 7, which lists no disk" in text
    create(node_at(machine, ROOT), delete_existing=True)
    assert there(machine) == [("RAID1", ["0", "1"])]


def test_a_volume_whose_disks_have_other_paths_may_be_on_any(machine: bmc.Machine) -> None:
    elsewhere = {"Drives": [{"@odata.id": "/redfish/v1/Chassis/1/Drives/0"}]}
    add_volume(machine, "7", RAIDType="RAID0", Links=elsewhere)
    assert "0: it may be in volume Volume 7, which lists no disk" in refusal(machine, ROOT)


def test_a_disk_in_a_volume_that_is_not_listed_is_left_alone(machine: bmc.Machine) -> None:
    hidden = {"@odata.id": f"{machine.places.volumes}/9"}
    machine["Drives/0"]["Links"]["Volumes"] = [hidden]
    said = "disk 0 cannot be used: it is in volume 9, which is not listed"
    for emptied in (False, True):
        assert refusal(machine, named("0", "3"), delete_existing=emptied).endswith(said)


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_volume_known_to_its_disks_by_another_path_is_the_same(
    machine: bmc.Machine, slash: str
) -> None:
    add_volume(machine, "7", RAIDType="RAID1")
    for number in (0, 1):
        link = {"@odata.id": f"/redfish/v1/Storage/RAID1/Volumes/7{slash}"}
        machine[f"Drives/{number}"]["Links"]["Volumes"] = [link]
    assert "it is in volume Volume 7 (delete_existing" in refusal(machine, named("0", "3"))
    create(node_at(machine, ROOT), delete_existing=True)
    assert there(machine) == [("RAID1", ["0", "1"])]


def test_volumes_on_a_further_page_are_seen(machine: bmc.Machine) -> None:
    add_volume(machine, "7", RAIDType="RAID1", Links=drives(machine, 0, 1))
    whole = machine["Volumes"]
    more = f"{machine.places.volumes}?$skip=50"
    machine.tricks[f"GET {machine.places.volumes}"] = bmc.says(
        200, {**whole, "Members": [], "Members@odata.nextLink": more}
    )
    machine.tricks[f"GET {more}"] = bmc.says(200, whole)
    assert "it is in volume Volume 7" in refusal(machine, named("0", "3"))


def test_pages_without_end_are_no_answer(machine: bmc.Machine) -> None:
    add_volume(machine, "7", RAIDType="RAID1")
    document = {**machine["Volumes"], "Members@odata.nextLink": machine.places.volumes}
    machine.tricks[f"GET {machine.places.volumes}"] = bmc.says(200, document)
    with pytest.raises(errors.BmcBadAnswer, match="has no end"):
        begun(machine, ROOT)
