"""Volumes through a BMC of our own: what is sent, what is awaited, what is shown."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import raid
from tests.emulators import bmc
from tests.support import fake_task
from tests.support.raid_steps import (
    DATA,
    GB,
    ROOT,
    add_controller,
    begun,
    changes,
    create,
    delete,
    finish,
    node_at,
    poll,
    there,
    times,
)

# -- creating and deleting -------------------------------------------------------------------


def test_planning_changes_nothing_and_the_first_poll_comes_at_once(machine: bmc.Machine) -> None:
    task = begun(machine)
    assert machine.changes() == []
    assert task.timers == [0]
    assert task.node.raid_config is None


def test_volumes_are_created_immediately_one_after_the_other(machine: bmc.Machine) -> None:
    task = create(node_at(machine, DATA, ROOT, properties={"capabilities": "boot_mode:uefi"}))
    assert changes(machine) == ["POST Volumes", "POST Volumes"]
    assert machine.sent == []
    assert there(machine) == [("RAID1", ["0", "1"]), ("RAID5", ["3", "4", "5"])]
    bodies = [request.body for request in machine.requests if request.method == "POST"]
    assert [body["@Redfish.OperationApplyTime"] for body in bodies] == ["Immediate"] * 2
    assert "CapacityBytes" not in bodies[0]
    assert (bodies[1]["CapacityBytes"], bodies[1]["Name"]) == (100 * 1024**3, "system")
    config = task.node.raid_config
    assert config is not None
    assert config["last_updated"]
    data, root = config["logical_disks"]
    assert data == {
        "raid_level": "5",
        "size_gb": 2 * 1200 * GB // 1024**3,
        "id": "1",
        "controller": "RAID1",
        "volume_name": "Virtual Disk 1",
        "physical_disks": ["3", "4", "5"],
        "root_device_hint": {"wwn_with_extension": f"0x6003ff000000000000{1:014x}"},
    }
    assert (root["is_root_volume"], root["physical_disks"]) == (True, ["0", "1"])
    assert task.node.properties == {
        "capabilities": "boot_mode:uefi,raid_level:1",
        "local_gb": 100,
        "root_device": root["root_device_hint"],
    }
    assert task.recall(raid.NOTE) is None


@pytest.mark.parametrize("habit", ["task", "operation", "gone"])
@pytest.mark.parametrize("body", [True, False])
def test_any_way_a_task_may_end_is_understood(machine: bmc.Machine, habit: str, body: bool) -> None:
    machine.habits.monitor_end = habit
    machine.habits.task_body = body
    machine.habits.task_polls = 3
    create(node_at(machine, ROOT))
    assert there(machine) == [("RAID1", ["0", "1"])]


def test_a_bmc_without_tasks_is_done_at_once(machine: bmc.Machine) -> None:
    machine.habits.tasks = frozenset()
    task = create(node_at(machine, ROOT, DATA))
    assert len(there(machine)) == 2
    assert set(task.timers) == {0}


def test_pauses_between_looks_grow_to_the_option(machine: bmc.Machine) -> None:
    machine.habits.task_polls = 6
    task = create(node_at(machine, ROOT))
    assert task.timers == [0, 5, 10, 20, 40, 60, 60, 60, 0]


@pytest.mark.parametrize("state", ["On", "Off"])
def test_volumes_are_created_at_one_restart_if_it_must_be(machine: bmc.Machine, state: str) -> None:
    times(machine, "OnReset")
    machine.tree[machine.system]["PowerState"] = state
    task = create(node_at(machine, ROOT, DATA))
    assert machine.sent == (["ForceOff", "On"] if state == "On" else ["On"])
    assert changes(machine)[:2] == ["POST Volumes", "POST Volumes"]
    assert len(there(machine)) == 2
    assert task.node.power_state == "power on"


def test_volume_with_the_rest_of_shared_disks_is_built_last(machine: bmc.Machine) -> None:
    """The controller would give it all."""
    rest = {"raid_level": "1", "size_gb": "MAX", "share_physical_disks": True}
    task = create(node_at(machine, rest, {**ROOT, "share_physical_disks": True}))
    assert there(machine) == [("RAID1", ["0", "1"])] * 2
    config = task.node.raid_config
    assert config is not None
    shown = [(disk["volume_name"], disk["size_gb"]) for disk in config["logical_disks"]]
    assert shown == [("system", 100), ("Virtual Disk 2", 1200 * GB // 1024**3 - 100)]


def test_an_order_for_the_restart_that_has_no_task_is_looked_for(machine: bmc.Machine) -> None:
    times(machine, "OnReset")

    def takes_it(handler: bmc.Handler) -> None:
        handler.serving.host.answer(handler.request_read)
        handler.say(204)

    machine.tricks[f"POST {machine.places.volumes}"] = takes_it
    machine.habits.task_polls = 0
    task = begun(machine)
    assert poll(task) is base.WAIT
    assert machine.sent == []
    assert poll(task) is base.WAIT
    assert machine.sent == ["ForceOff", "On"]
    assert poll(task) is base.WAIT
    machine.finish_tasks()
    finish(task, base.WAIT)
    assert machine.sent == ["ForceOff", "On"]


def test_an_answer_that_names_something_else_than_a_task_leads_to_its_monitor(
    machine: bmc.Machine,
) -> None:
    def points_elsewhere(handler: bmc.Handler) -> None:
        reply = handler.serving.host.answer(handler.request_read)
        handler.say(202, {"@odata.id": machine.places.volumes}, **reply.headers)

    machine.tricks[f"POST {machine.places.volumes}"] = points_elsewhere
    machine.habits.task_polls = 3
    create(node_at(machine, ROOT))
    assert there(machine) == [("RAID1", ["0", "1"])]


def test_a_task_in_an_answer_200_is_followed(machine: bmc.Machine) -> None:
    def takes_it(handler: bmc.Handler) -> None:
        handler.say(200, handler.serving.host.answer(handler.request_read).document)

    machine.tricks[f"POST {machine.places.volumes}"] = takes_it
    machine.habits.task_polls = 3
    create(node_at(machine, ROOT))
    assert there(machine) == [("RAID1", ["0", "1"])]


def test_a_configuration_from_another_interface_shows_in_the_validation(
    machine: bmc.Machine,
) -> None:
    task = node_at(machine, ROOT, {**DATA, "raid_level": "JBOD"})
    with pytest.raises(errors.InvalidParameter) as refusal:
        task.driver.raid.validate(task)
    assert refusal.value.facts["path"] == "target_raid_config/logical_disks/1/raid_level"
    task.node.target_raid_config = None
    task.driver.raid.validate(task)


def test_deleting_and_creating_are_two_restarts(machine: bmc.Machine) -> None:
    create(node_at(machine, ROOT, DATA))
    machine.server.log.clear()
    times(machine, "OnReset")
    create(node_at(machine, {**ROOT, "raid_level": "6"}), delete_existing=True)
    kinds = ["DELETE 1", "DELETE 2", "POST ComputerSystem.Reset", "POST ComputerSystem.Reset"]
    assert changes(machine) == [
        *kinds,
        *("POST Volumes", "POST ComputerSystem.Reset", "POST ComputerSystem.Reset"),
    ]
    assert there(machine) == [("RAID6", ["0", "1", "2", "3"])]


def test_a_controller_that_does_not_say_when_is_not_told(machine: bmc.Machine) -> None:
    del machine["Volumes"]["@Redfish.OperationApplyTimeSupport"]
    create(node_at(machine, ROOT))
    body = next(request.body for request in machine.requests if request.method == "POST")
    assert "@Redfish.OperationApplyTime" not in body


@pytest.mark.parametrize("kind", [base.StepKind.CLEAN, base.StepKind.DEPLOY, base.StepKind.SERVICE])
def test_all_volumes_are_deleted(machine: bmc.Machine, kind: base.StepKind) -> None:
    task = create(node_at(machine, ROOT, DATA))
    task = finish(task, fake_task.run(task, kind, "raid.delete_configuration"))
    assert there(machine) == []
    assert task.node.raid_config == {}
    assert "root_device" not in task.node.properties


def _tell_creation(machine: bmc.Machine, **annotations: bool) -> None:
    """Let the controller show which properties a new volume may have."""
    path = f"{machine.places.volumes}/Capabilities"
    told = {name.replace("_", "@Redfish."): value for name, value in annotations.items()}
    machine.tree[path] = {"@odata.id": path, "Id": "Capabilities", "Name": "New volumes", **told}
    case = {"UseCase": "VolumeCreation", "CapabilitiesObject": {"@odata.id": path}}
    machine["Volumes"]["@Redfish.CollectionCapabilities"] = {"Capabilities": [case]}


def _sent_names(machine: bmc.Machine) -> list[dict[str, str]]:
    bodies = [one.body for one in machine.requests if one.title.endswith("/Volumes")]
    sent = [body for body in bodies if body]
    return [{key: body[key] for key in body if key.endswith("Name")} for body in sent]


@pytest.mark.parametrize("lenovo", [True, False])
def test_volume_gets_a_name_if_it_needs_one(machine: bmc.Machine, lenovo: bool) -> None:
    if lenovo:
        machine[machine.system]["Manufacturer"] = "Lenovo"
    else:
        _tell_creation(machine, Name_RequiredOnCreate=True, DisplayName_OptionalOnCreate=True)
    small = {"raid_level": "0", "size_gb": 1}
    create(node_at(machine, {**ROOT, "volume_name": "volume2"}))
    create(node_at(machine, small, {**small, "volume_name": "volume4"}, small))
    names = [each["Name"] for each in _sent_names(machine)]
    assert names == ["volume2", "volume1", "volume4", "volume3"]


def test_volume_gets_a_display_name_if_the_controller_takes_only_that(
    machine: bmc.Machine,
) -> None:
    _tell_creation(machine, DisplayName_OptionalOnCreate=True, RAIDType_RequiredOnCreate=True)

    def shows(handler: bmc.Handler) -> None:
        volume = handler.serving.host.answer(handler.request_read).document
        handler.say(200, {**volume, "DisplayName": "system"})

    machine.habits.tasks = frozenset()
    machine.tricks[f"GET {machine.places.volumes}/1"] = shows
    task = create(node_at(machine, ROOT))
    assert _sent_names(machine) == [{"DisplayName": "system"}]
    assert task.node.raid_config is not None
    assert task.node.raid_config["logical_disks"][0]["volume_name"] == "system"


NGUID = "0050430000000001-0000000000000042"
BY_NGUID = {"wwn": "eui.00504300000000010000000000000042"}


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ({"NAA": "naa.5000C500A1B2C3D4"}, {"wwn": "0x5000c500a1b2c3d4"}),
        ({"EUI": "0025385B71B04D25"}, {"wwn": "eui.0025385b71b04d25"}),
        ({"EUI": "eui.0025385B71B04D25"}, {"wwn": "eui.0025385b71b04d25"}),
        ({"NGUID": NGUID}, BY_NGUID),
        ({"EUI": "0025385B71B04D25", "NGUID": NGUID}, BY_NGUID),
        ({"NGUID": "0" * 32, "EUI": "0025385B71B04D25"}, {"wwn": "eui.0025385b71b04d25"}),
    ],
)
def test_root_device_is_found_by_the_name_that_linux_gives_it(
    machine: bmc.Machine, names: dict[str, str], hint: dict[str, str]
) -> None:
    def named(handler: bmc.Handler) -> None:
        volume = handler.serving.host.answer(handler.request_read).document
        identifiers = [
            {"DurableNameFormat": form, "DurableName": name} for form, name in names.items()
        ]
        handler.say(200, {**volume, "Identifiers": identifiers})

    machine.habits.tasks = frozenset()
    machine.tricks[f"GET {machine.places.volumes}/1"] = named
    task = create(node_at(machine, ROOT))
    assert task.node.properties["root_device"] == hint


def test_links_may_end_with_a_slash(machine: bmc.Machine) -> None:
    machine.habits.slashes = True
    task = create(node_at(machine, ROOT, DATA))
    config = task.node.raid_config
    assert config is not None
    disks = [disk["physical_disks"] for disk in config["logical_disks"]]
    assert disks == [["0", "1"], ["3", "4", "5"]]
    task = create(node_at(machine, {**ROOT, "raid_level": "6"}), delete_existing=True)
    assert there(machine) == [("RAID6", ["0", "1", "2", "3"])]
    task = delete(task)
    assert there(machine) == []
    assert task.node.raid_config == {}


def test_deleting_nothing_is_done_at_once(machine: bmc.Machine) -> None:
    task = node_at(machine, raid_config={"logical_disks": [ROOT]})
    assert fake_task.clean(task, "raid.delete_configuration") is base.DONE
    assert task.node.raid_config == {}
    assert machine.changes() == []


def test_a_disk_passed_through_is_neither_deleted_nor_taken_for_a_volume(
    machine: bmc.Machine,
) -> None:
    path = f"{machine.places.volumes}/raw"
    drive = {"@odata.id": machine["Storage/RAID1"]["Drives"][0]["@odata.id"]}
    raw = {"@odata.id": path, "Id": "raw", "Name": "SSD 0", "VolumeType": "RawDevice"}
    machine.add(path, {**raw, "CapacityBytes": 5, "Links": {"Drives": [drive]}})
    create(node_at(machine, ROOT), delete_existing=True)
    assert machine.changes() == [f"POST {machine.places.volumes}"]


@pytest.mark.parametrize("kind", [base.StepKind.DEPLOY, base.StepKind.SERVICE])
def test_a_configuration_of_its_own_is_applied(machine: bmc.Machine, kind: base.StepKind) -> None:
    task = create(node_at(machine, DATA))
    config = {"logical_disks": [ROOT, DATA]}
    args = {"create_nonroot_volumes": False, "delete_existing": True}
    outcome = fake_task.run(task, kind, "raid.apply_configuration", raid_config=config, **args)
    task = finish(task, outcome)
    assert there(machine) == [("RAID1", ["0", "1"])]
    assert task.node.raid_config is not None
    assert len(task.node.raid_config["logical_disks"]) == 1


def test_existing_volumes_stay_in_raid_config(machine: bmc.Machine) -> None:
    task = create(node_at(machine, ROOT, DATA), create_nonroot_volumes=False)
    task = create(task, create_root_volume=False)
    config = task.node.raid_config
    assert config is not None
    assert [disk["raid_level"] for disk in config["logical_disks"]] == ["1", "5"]
    assert task.node.properties["local_gb"] == 100


def test_the_root_volume_is_the_one_built_last(machine: bmc.Machine) -> None:
    """Else the instance would be written to the old one."""
    task = create(node_at(machine, ROOT))
    task.node.target_raid_config = {"logical_disks": [{**ROOT, "size_gb": 200}]}
    task = create(task)
    config = task.node.raid_config
    assert config is not None
    first, second = config["logical_disks"]
    assert (first["is_root_volume"], second["is_root_volume"]) == (False, True)
    assert task.node.properties["root_device"] == second["root_device_hint"]
    assert task.node.properties["local_gb"] == 200


def test_a_root_volume_that_goes_takes_its_hint_along(machine: bmc.Machine) -> None:
    task = create(node_at(machine, ROOT))
    assert "root_device" in task.node.properties
    task.node.target_raid_config = {"logical_disks": [ROOT, DATA]}
    task = create(task, create_root_volume=False, delete_existing=True)
    assert there(machine) == [("RAID5", ["3", "4", "5"])]
    assert "root_device" not in task.node.properties


def test_a_volume_that_was_there_is_not_taken_for_a_new_one(machine: bmc.Machine) -> None:
    path = f"{machine.places.volumes}/0"
    # This BMC tells of disks and volumes at the disks alone.
    machine.add(path, {"@odata.id": path, "Id": "0", "RAIDType": "RAID1", "CapacityBytes": 10**12})
    for number in (0, 1):
        machine[f"Drives/{number}"]["Links"]["Volumes"].append({"@odata.id": path})
    task = create(node_at(machine, ROOT))
    config = task.node.raid_config
    assert config is not None
    assert [(disk["id"], disk["physical_disks"]) for disk in config["logical_disks"]] == [
        ("1", ["2", "3"])
    ]


# -- two controllers -------------------------------------------------------------------------


def test_volumes_go_to_the_controller_that_can_build_them(machine: bmc.Machine) -> None:
    other = add_controller(machine, "RAID0", drives=3, levels=["RAID0", "RAID1"])
    task = create(node_at(machine, ROOT, DATA))
    assert machine.changes() == [f"POST {other}/Volumes", f"POST {machine.places.volumes}"]
    config = task.node.raid_config
    assert config is not None
    assert [disk["controller"] for disk in config["logical_disks"]] == ["RAID0", "RAID1"]
    # Both volumes are the first of their controller: only together the two names tell which.
    assert [disk["id"] for disk in config["logical_disks"]] == ["1", "1"]
    delete(task)
    assert there(machine) == []


def test_a_storage_that_makes_no_raid_is_left_alone(machine: bmc.Machine) -> None:
    other = add_controller(machine, "AHCI", drives=3, levels=[])
    create(node_at(machine, {**ROOT, "controller": "RAID1"}), delete_existing=True)
    assert not any(title.startswith(f"GET {other}/Drives") for title in machine.log)
    with pytest.raises(errors.InvalidParameter, match="controller: there is no 'AHCI'"):
        begun(machine, {**ROOT, "controller": "AHCI"})
