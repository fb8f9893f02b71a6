"""What is refused before anything is sent, by its path."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.drivers.redfish.raid import interface
from tests.emulators import bmc
from tests.support import fake_task
from tests.support.raid_steps import (
    DATA,
    ROOT,
    Json,
    begun,
    create,
    node_at,
    there,
)


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        ({"raid_level": "2"}, "raid_level: 2 is not possible by Redfish; possible are 0, 1, 5, 6"),
        ({"raid_level": "JBOD"}, "raid_level: JBOD is not possible by Redfish"),
        ({"size_gb": 0}, "size_gb: a volume has at least 1 GiB"),
        ({"interface_type": "scsi"}, "interface_type: Redfish disks are sata or sas"),
        (
            {"physical_disks": [{"size": 1}, {"size": 1}], "controller": "software"},
            "physical_disks: must be names; hints are for software RAID",
        ),
        ({"colour": "red"}, "colour: unknown key"),
    ],
)
def test_volume_impossible_with_redfish_is_refused_when_written(disk: Json, said: str) -> None:
    config = {"logical_disks": [ROOT, {**DATA, **disk}]}
    with pytest.raises(errors.InvalidParameter) as refusal:
        interface.RedfishRAID().validate_raid_config(fake_task.FakeTask(), config)
    assert refusal.value.message.startswith(f"logical_disks/1/{said}")


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        ({"raid_level": "6+0"}, "logical_disks/0: RAID 6+0 needs 8 free disks of one kind, there"),
        ({"size_gb": 5000}, "logical_disks/0: 5000 GiB do not fit: the free disks give 1117 GiB"),
        ({"disk_type": "ssd"}, "logical_disks/0: RAID 1 needs 2 free disks of one kind (ssd), the"),
        ({"controller": "X"}, "logical_disks/0/controller: there is no 'X'; the RAID controllers"),
        (
            {"controller": "RAID1", "physical_disks": ["0", "9"]},
            "logical_disks/0/physical_disks/1: '9' does not exist; controller RAID1 has: 0",
        ),
    ],
)
def test_volume_impossible_on_the_machine_is_refused_by_its_path(
    machine: bmc.Machine, disk: Json, said: str
) -> None:
    with pytest.raises(errors.InvalidParameter) as refusal:
        begun(machine, {**ROOT, **disk})
    assert refusal.value.message.startswith(f"target_raid_config/{said}")
    assert machine.changes() == []


def test_the_path_is_that_of_the_configuration_also_when_a_part_is_built(
    machine: bmc.Machine,
) -> None:
    with pytest.raises(errors.InvalidParameter, match=r"^target_raid_config/logical_disks/1: "):
        begun(machine, ROOT, {**DATA, "raid_level": "6+0"}, create_root_volume=False)


def test_a_level_that_the_controller_does_not_make_is_refused(machine: bmc.Machine) -> None:
    machine["Storage/RAID1"]["StorageControllers"][0]["SupportedRAIDTypes"] = ["RAID0", "RAID1"]
    with pytest.raises(errors.InvalidParameter, match="5 is not possible: controller RAID1 makes"):
        begun(machine, DATA)


def test_disks_of_volumes_that_are_there_are_only_taken_when_told_so(machine: bmc.Machine) -> None:
    create(node_at(machine, {**DATA, "number_of_physical_disks": 5}))
    with pytest.raises(errors.InvalidParameter) as refusal:
        begun(machine, ROOT)
    assert refusal.value.message == (
        "target_raid_config/logical_disks/0: RAID 1 needs 2 free disks of one kind, there are 1. "
        "Not free: "
        + "; ".join(
            f"{number}: it is in volume Virtual Disk 1 (delete_existing deletes that)"
            for number in range(1, 6)
        )
    )
    create(node_at(machine, ROOT), delete_existing=True)
    assert there(machine) == [("RAID1", ["0", "1"])]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"FailurePredicted": True}, "it is about to fail"),
        ({"Status": {"State": "Absent"}}, "its state is Absent"),
        ({"Status": {"State": "Enabled", "Health": "Critical"}}, "its health is Critical"),
        ({"HotspareType": "Global"}, r"it is a hot spare \(Global\)"),
        ({"CapacityBytes": None}, "the BMC does not report its size"),
    ],
)
def test_disks_in_trouble_are_not_used(machine: bmc.Machine, change: Json, said: str) -> None:
    machine["Drives/0"].update(change)
    create(node_at(machine, ROOT))
    assert there(machine) == [("RAID1", ["1", "2"])]
    disks = {"controller": "RAID1", "physical_disks": ["0", "3"]}
    with pytest.raises(errors.InvalidParameter, match=f"disk 0 cannot be used: {said}"):
        begun(machine, {**ROOT, **disks})


def test_a_machine_without_storage_says_so(machine: bmc.Machine) -> None:
    del machine.tree[machine.system]["Storage"]
    with pytest.raises(errors.InvalidParameter, match="the RAID controllers of the machine are: n"):
        begun(machine)


def test_arguments_must_be_booleans(machine: bmc.Machine) -> None:
    with pytest.raises(errors.InvalidParameter, match="delete_existing: 'yes' is not true or fal"):
        begun(machine, ROOT, delete_existing="yes")
