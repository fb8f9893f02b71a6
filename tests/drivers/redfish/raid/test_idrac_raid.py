"""RAID of Dell machines: readiness, disks in non-RAID mode, foreign configurations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import idrac
from ironic_lite.drivers.redfish.bmc import jobs
from tests.emulators import bmc
from tests.emulators.bmc import shapes
from tests.support import bmc_tasks, fake_task

Json = dict[str, Any]

RAID = idrac.IdracRAID()
DRIVER = dataclasses.replace(
    bmc_tasks.REDFISH, hardware_type="idrac", management=idrac.IdracManagement(), raid=RAID
)
MIRROR: Json = {"logical_disks": [{"raid_level": "1", "size_gb": 100}]}
CREATE, DELETE = "create_configuration", "delete_configuration"


@pytest.fixture
def server() -> Iterator[bmc.Machine]:
    with bmc.serve(make="dell") as running:
        running.tree[running.system]["PowerState"] = "On"
        yield running


def task_of(server: bmc.Machine, wanted: Json | None = None) -> bmc_tasks.BmcTask:
    node = fake_task.node(
        driver="idrac", driver_info=server.driver_info, target_raid_config=wanted or MIRROR
    )
    return bmc_tasks.BmcTask(node, driver=DRIVER)


def start(task: bmc_tasks.BmcTask, name: str, **args: Any) -> base.Outcome | None:
    return RAID.execute_clean_step(task, fake_task.step(f"raid.{name}", **args))


def poll(task: bmc_tasks.BmcTask, name: str = CREATE, *, times: int = 100) -> int:
    """Poll a step to its end; return how often."""
    step = fake_task.step(f"raid.{name}")
    for number in range(1, times + 1):
        if RAID.poll_step(task, base.StepKind.CLEAN, step) is base.DONE:
            assert task.recall(idrac.RAID_NOTE) is None
            return number
    raise AssertionError(f"not done after {times} polls")


def elsewhere(task: bmc_tasks.BmcTask) -> bmc_tasks.BmcTask:
    """Return the task of another process, which has made no claims."""
    jobs.CLAIMS = jobs.Claims()
    other = bmc_tasks.BmcTask(task.node, driver=DRIVER)
    other.notes = dict(task.notes)
    return other


def levels(server: bmc.Machine) -> list[str]:
    paths = [entry["@odata.id"] for entry in server["Volumes"]["Members"]]
    return sorted(str(server.tree[path].get("RAIDType")) for path in paths)


def pass_through(server: bmc.Machine, *numbers: int) -> None:
    """Let these drives be in non-RAID mode: each is a raw volume."""
    for number in numbers:
        drive = shapes.link(f"{server.places.storage}/Drives/{number}")
        path = server.put_volume("RAID0", 1200 * shapes.GB, [drive])
        server.tree[path].update(RAIDType="None", VolumeType="RawDevice")


# -- readiness ------------------------------------------------------------------------------------


def test_a_change_waits_until_the_idrac_is_ready(server: bmc.Machine) -> None:
    server.idrac.rt_status = ["NotReady", "NotReady", "Ready"]
    task = task_of(server)
    assert start(task, CREATE) is base.WAIT
    step = fake_task.step(f"raid.{CREATE}")
    for _ in range(2):
        assert RAID.poll_step(task, base.StepKind.CLEAN, step) is base.WAIT
        assert task.timers[-1] == idrac.READY_PAUSE
    assert not any("Volumes" in title for title in server.changes())
    poll(task)
    assert (levels(server), server.sent) == (["RAID1"], [])
    built = (task.node.raid_config or {})["logical_disks"]
    assert built[0]["raid_level"] == "1"


def test_an_idrac_that_is_never_ready_is_tried_anyway(server: bmc.Machine) -> None:
    server.idrac.rt_status = ["NotReady"]
    task = task_of(server)
    start(task, CREATE)
    assert poll(task) > idrac.READY_LOOKS
    waits = task.timers[2 : idrac.READY_LOOKS + 1]
    assert waits == [idrac.READY_PAUSE] * (idrac.READY_LOOKS - 1)
    assert levels(server) == ["RAID1"]


def test_a_machine_that_is_off_is_switched_on_to_get_ready(server: bmc.Machine) -> None:
    server.tree[server.system]["PowerState"] = "Off"
    server.idrac.rt_status = ["NotReady", "Ready"]
    task = task_of(server)
    start(task, CREATE)
    poll(task)
    assert server.sent == ["On"]


@pytest.mark.parametrize("missing", [True, False])
def test_an_idrac_that_shows_no_readiness_is_tried(server: bmc.Machine, missing: bool) -> None:
    if missing:
        del server.tree[server.places.manager]["Links"]["Oem"]
    else:
        server.tricks["POST *GetRemoteServicesAPIStatus"] = bmc.says(500)
    task = task_of(server)
    start(task, CREATE)
    poll(task)
    assert levels(server) == ["RAID1"]


# -- disks in non-RAID mode -----------------------------------------------------------------------


def test_disks_in_non_raid_mode_are_converted_first(server: bmc.Machine) -> None:
    pass_through(server, *range(6))
    task = task_of(server)
    assert start(task, CREATE, delete_existing=True) is base.WAIT
    poll(task)
    assert len(server.idrac.converted) == 2
    assert levels(server) == ["None"] * 4 + ["RAID1"]


def test_sizes_are_computed_again_after_a_conversion(server: bmc.Machine) -> None:
    pass_through(server, *range(6))
    task = task_of(server, {"logical_disks": [{"raid_level": "1", "size_gb": "MAX"}]})
    start(task, CREATE, delete_existing=True)
    for number in range(6):
        server.tree[f"{server.places.storage}/Drives/{number}"]["CapacityBytes"] = 1100 * shapes.GB
    poll(task)
    volume = next(one for one in server.tree.values() if one.get("RAIDType") == "RAID1")
    assert volume["CapacityBytes"] <= 1100 * shapes.GB


def test_disks_that_may_hold_a_system_are_not_converted_unasked(server: bmc.Machine) -> None:
    pass_through(server, *range(6))
    with pytest.raises(errors.InvalidParameter, match="passed through"):
        start(task_of(server), CREATE)
    assert server.idrac.converted == []


def say_non_raid(server: bmc.Machine, *numbers: int) -> None:
    for number in numbers:
        drive = server.tree[f"{server.places.storage}/Drives/{number}"]
        drive["Oem"] = {"Dell": {"DellPhysicalDisk": {"RaidStatus": "NonRAID"}}}


def test_volumes_beside_disks_in_non_raid_mode_are_not_deleted_unasked(
    server: bmc.Machine,
) -> None:
    say_non_raid(server, 2, 3, 4, 5)
    server.put_volume("RAID1", 100 * shapes.GB, server.tree[server.places.storage]["Drives"][:2])
    with pytest.raises(errors.InvalidParameter, match=r"non-RAID mode \(delete_existing converts"):
        start(task_of(server), CREATE)
    assert (server.idrac.converted, server.changes(), levels(server)) == ([], [], ["RAID1"])


def test_a_disk_that_says_non_raid_is_converted(server: bmc.Machine) -> None:
    say_non_raid(server, *range(6))
    task = task_of(server)
    start(task, CREATE, delete_existing=True)
    for _ in range(3):
        RAID.poll_step(task, base.StepKind.CLEAN, fake_task.step(f"raid.{CREATE}"))
    for path, drive in server.tree.items():
        if "/Drives/" in path:
            drive.pop("Oem", None)
    poll(task)
    assert len(server.idrac.converted) == 2


@pytest.mark.parametrize("running", [True, False])
def test_a_conversion_is_sent_once_by_two_conductors(server: bmc.Machine, running: bool) -> None:
    pass_through(server, *range(6))
    server.idrac.job_seconds = 0.5 if running else 0.0
    task = task_of(server)
    start(task, CREATE, delete_existing=True)
    step = fake_task.step(f"raid.{CREATE}")
    while not any("ConvertToRAID" in title for title in server.changes()):
        saved = dict(task.notes)
        RAID.poll_step(task, base.StepKind.CLEAN, step)
    task.notes = saved  # the conductor died before it saved the job
    poll(elsewhere(task), times=10_000)
    assert sum("ConvertToRAID" in title for title in server.changes()) == 1
    assert levels(server) == ["None"] * 4 + ["RAID1"]


def test_a_conversion_that_fails_fails_the_step(server: bmc.Machine) -> None:
    pass_through(server, *range(6))
    server.idrac.job_fails = "A disk is too slow."
    task = task_of(server)
    start(task, CREATE, delete_existing=True)
    with pytest.raises(errors.HardwareError, match=r"convert the disks 0, 1 .*A disk is too slow"):
        poll(task)
    assert task.recall(idrac.RAID_NOTE) is None


def test_a_conversion_without_end_fails_the_step(server: bmc.Machine) -> None:
    pass_through(server, *range(6))
    server.idrac.job_seconds = 3600
    task = task_of(server)
    start(task, CREATE, delete_existing=True)
    step = fake_task.step(f"raid.{CREATE}")
    for _ in range(5):
        RAID.poll_step(task, base.StepKind.CLEAN, step)
    note = task.recall(idrac.RAID_NOTE)
    note["jobs"][0]["until"] = clock.stamp() - 2 * config.CONF.drac.raid_job_timeout
    note["of_a_later_release"] = note["jobs"][0]["of_a_later_release"] = 1
    task.keep(idrac.RAID_NOTE, note)
    with pytest.raises(errors.StepFailed, match=r"within 300 s \(Running\).*raid_job_timeout"):
        poll(task)


def test_an_idrac_without_that_service_is_named(server: bmc.Machine) -> None:
    pass_through(server, *range(6))
    del server.tree[server.system]["Links"]["Oem"]
    task = task_of(server)
    start(task, CREATE, delete_existing=True)
    with pytest.raises(errors.StepFailed, match="offers no Oem/Dell/DellRaidService"):
        poll(task)


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_a_controller_in_hba_mode_is_refused_by_name(
    server: bmc.Machine, named: bool, beside: bool
) -> None:
    storage = server.places.storage
    card = {"DellStorageController": {"ControllerMode": "HBA"}}
    path = f"{storage}/Controllers"
    server.tree[path] = shapes.collection(path, "StorageController", [f"{path}/1"])
    server.tree[f"{path}/1"] = shapes.document(
        f"{path}/1", "StorageController.v1_0_0", "PERC H730", Oem={"Dell": card}
    )
    server.tree[storage]["Controllers"] = shapes.link(path)
    if beside:  # such as an AHCI controller without a mode
        server.tree[path]["Members"].append(shapes.link(f"{path}/2"))
        server.tree[f"{path}/2"] = shapes.document(
            f"{path}/2", "StorageController.v1_0_0", "AHCI", Oem={}
        )
    disk = {
        **MIRROR["logical_disks"][0],
        **({"controller": "RAID.Integrated.1-1"} if named else {}),
    }
    with pytest.raises(errors.InvalidParameter, match=r"RAID\.Integrated\.1-1 is in HBA mode: set"):
        start(task_of(server, {"logical_disks": [disk]}), CREATE)


# -- deletions ------------------------------------------------------------------------------------


def test_a_deletion_clears_foreign_configurations(server: bmc.Machine) -> None:
    drive = server.tree[f"{server.places.storage}/Drives/5"]
    drive["Oem"] = {"Dell": {"DellPhysicalDisk": {"RaidStatus": "Foreign"}}}
    drives = server.tree[server.places.storage]["Drives"]
    server.put_volume("RAID1", 100 * shapes.GB, drives[:2])
    task = task_of(server)
    assert start(task, DELETE) is base.WAIT
    poll(task, DELETE)
    assert levels(server) == []
    assert server.idrac.foreign_cleared == ["RAID.Integrated.1-1"]


@pytest.mark.parametrize("volumes", [0, 1])
def test_nothing_foreign_is_no_failure(server: bmc.Machine, volumes: int) -> None:
    for _ in range(volumes):
        server.put_volume(
            "RAID1", 100 * shapes.GB, server.tree[server.places.storage]["Drives"][:2]
        )
    task = task_of(server)
    start(task, DELETE)
    poll(task, DELETE)
    assert (levels(server), server.idrac.foreign_cleared) == ([], [])
    assert sum("ClearForeignConfig" in title for title in server.changes()) == 1


def test_a_boss_controller_has_nothing_foreign(server: bmc.Machine) -> None:
    server.tree[server.places.storage]["StorageControllers"][0]["Name"] = "BOSS-S2"
    assert start(task_of(server), DELETE) is base.DONE
    assert server.changes() == []


def test_a_creation_clears_nothing_foreign(server: bmc.Machine) -> None:
    task = task_of(server)
    start(task, CREATE)
    poll(task)
    assert not any("ClearForeignConfig" in title for title in server.changes())


def test_a_refusal_to_clear_fails_the_step(server: bmc.Machine) -> None:
    server.tricks["POST *ClearForeignConfig"] = bmc.says(400, {"error": {"message": "Not now."}})
    task = task_of(server)
    start(task, DELETE)
    with pytest.raises(errors.StepFailed, match=r"refused to clear the foreign .*Not now"):
        poll(task, DELETE)


def test_a_lost_plan_is_named() -> None:
    with bmc.serve(make="dell") as machine, pytest.raises(errors.StepFailed, match=r"plan .* lost"):
        poll(task_of(machine))
