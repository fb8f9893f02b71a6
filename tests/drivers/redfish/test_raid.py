"""Volumes through a BMC of our own: what is sent, what is awaited, what is said of a failure."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import config, errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import management, orders, power, raid
from tests.drivers import doubles
from tests.drivers.redfish.conftest import BmcTask
from tests.emulators import bmc

Json = dict[str, Any]
GB = 1000**3

ROOT = {"raid_level": "1", "size_gb": 100, "is_root_volume": True, "volume_name": "system"}
DATA = {"raid_level": "5", "size_gb": "MAX"}


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    config.CONF.set_override("raid_config_timeout", 1000, group="redfish")
    yield
    config.CONF.clear_override("raid_config_timeout", group="redfish")


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        running.tree[running.system]["PowerState"] = "On"
        yield running


def node_at(machine: bmc.Machine, *disks: Json, **columns: Any) -> BmcTask:
    """Return a task on a node that shall have these volumes."""
    driver = dataclasses.replace(
        doubles.FAKE,
        power=power.RedfishPower(),
        raid=raid.RedfishRAID(),
        management=management.RedfishManagement(),
    )
    node = doubles.node(
        driver="redfish",
        driver_info=machine.driver_info,
        target_raid_config={"logical_disks": list(disks)} if disks else None,
        **columns,
    )
    return BmcTask(node, driver=driver)


def poll(task: BmcTask, kind: base.StepKind = base.StepKind.CLEAN) -> base.Outcome:
    return task.driver.raid.poll_step(task, kind, doubles.step("raid.create_configuration"))


def finish(task: BmcTask, outcome: base.Outcome | None, polls: int = 60) -> BmcTask:
    """Poll until the step is done, each time as if another conductor had the node; return that
    one's task."""
    while outcome is base.WAIT:
        polls -= 1
        assert polls, (task.timers, task.recall(raid.NOTE))
        task = elsewhere(task)
        outcome = poll(task)
    assert outcome is base.DONE
    return task


def elsewhere(task: BmcTask) -> BmcTask:
    other = BmcTask(base.Node(copy.deepcopy(task.node.as_dict())), driver=task.driver)
    other._notes = dict(task._notes)
    other.timers = task.timers
    return other


def create(task: BmcTask, **args: Any) -> BmcTask:
    return finish(task, doubles.clean(task, "raid.create_configuration", **args))


def delete(task: BmcTask) -> BmcTask:
    return finish(task, doubles.clean(task, "raid.delete_configuration"))


def failure(task: BmcTask, polls: int = 60) -> str:
    """Poll until the step fails; return what it says."""
    for _ in range(polls):
        try:
            assert poll(task) is base.WAIT
        except errors.StepFailed as why:
            return str(why.facts["reason"])
    raise AssertionError("it does not fail")


def begun(machine: bmc.Machine, *disks: Json, **args: Any) -> BmcTask:
    task = node_at(machine, *(disks or (ROOT,)))
    assert doubles.clean(task, "raid.create_configuration", **args) is base.WAIT
    return task


def times(machine: bmc.Machine, *values: str) -> None:
    """Say when the controller can change volumes."""
    support = machine["Volumes"]["@Redfish.OperationApplyTimeSupport"]
    support["SupportedValues"] = list(values)


def there(machine: bmc.Machine) -> list[tuple[str, list[str]]]:
    """Return the machine's volumes: RAID type and disks."""
    return sorted(
        (
            document["RAIDType"],
            [link["@odata.id"].rpartition("/")[2] for link in document["Links"]["Drives"]],
        )
        for path, document in machine.tree.items()
        if "/Volumes/" in path
    )


def changes(machine: bmc.Machine) -> list[str]:
    return [f"{title.split()[0]} {title.rpartition('/')[2]}" for title in machine.changes()]


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
    task = finish(task, doubles.run(task, kind, "raid.delete_configuration"))
    assert there(machine) == []
    assert task.node.raid_config == {}
    assert "root_device" not in task.node.properties


def test_deleting_nothing_is_done_at_once(machine: bmc.Machine) -> None:
    task = node_at(machine, raid_config={"logical_disks": [ROOT]})
    assert doubles.clean(task, "raid.delete_configuration") is base.DONE
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
    outcome = doubles.run(task, kind, "raid.apply_configuration", raid_config=config, **args)
    task = finish(task, outcome)
    assert there(machine) == [("RAID1", ["0", "1"])]
    assert task.node.raid_config is not None
    assert len(task.node.raid_config["logical_disks"]) == 1


def test_what_was_built_before_stays_shown_while_it_is_there(machine: bmc.Machine) -> None:
    task = create(node_at(machine, ROOT, DATA), create_nonroot_volumes=False)
    task = create(task, create_root_volume=False)
    config = task.node.raid_config
    assert config is not None
    assert [disk["raid_level"] for disk in config["logical_disks"]] == ["1", "5"]
    assert task.node.properties["local_gb"] == 100


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


def add_controller(machine: bmc.Machine, name: str, *, drives: int, levels: list[str]) -> str:
    """Put a further controller beside the first; return its path."""
    first = machine.places.storage
    path = f"{first.rpartition('/')[0]}/{name}"
    for place, document in list(machine.tree.items()):
        if place == first or place.startswith(f"{first}/"):
            machine.tree[place.replace(first, path)] = _moved(document, first, path)
    storage = machine.tree[path]
    storage["Id"] = name
    storage["Drives"] = storage["Drives"][:drives]
    storage["StorageControllers"][0]["SupportedRAIDTypes"] = levels
    machine.tree[first.rpartition("/")[0]]["Members"].append({"@odata.id": path})
    return path


def _moved(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _moved(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved(each, old, new) for each in value]
    return value.replace(old, new) if isinstance(value, str) else value


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


# -- what is refused before anything is sent --------------------------------------------------


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        ({"raid_level": "2"}, "raid_level: 2 is not possible by Redfish; possible are 0, 1, 5, 6"),
        ({"raid_level": "JBOD"}, "raid_level: JBOD is not possible by Redfish"),
        ({"size_gb": 0}, "size_gb: a volume has 1 GiB at least"),
        ({"interface_type": "scsi"}, "interface_type: disks known by Redfish are sata or sas"),
        (
            {"physical_disks": [{"size": 1}, {"size": 1}], "controller": "software"},
            "physical_disks: must be names; hints are for software RAID",
        ),
        ({"colour": "red"}, "colour: unknown key"),
    ],
)
def test_what_redfish_cannot_do_is_refused_when_it_is_written(disk: Json, said: str) -> None:
    config = {"logical_disks": [ROOT, {**DATA, **disk}]}
    with pytest.raises(errors.InvalidParameter) as refusal:
        raid.RedfishRAID().validate_raid_config(doubles.FakeTask(), config)
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
            "logical_disks/0/physical_disks/1: '9' is not there; controller RAID1 has: 0, 1, 2, 3",
        ),
    ],
)
def test_what_the_machine_cannot_do_is_refused_by_its_path(
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
        ({"CapacityBytes": None}, "the BMC does not say its size"),
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


# -- what fails on the way -------------------------------------------------------------------


def test_a_refusal_is_told_in_the_words_of_the_bmc(machine: bmc.Machine) -> None:
    task = begun(machine)
    machine["Storage/RAID1"]["StorageControllers"][0]["SupportedRAIDTypes"] = ["RAID0"]
    assert failure(task) == (
        f"the BMC at {machine.url} refused to create RAID 1 on disks 0, 1 of controller RAID1: "
        "HTTP 400 (The value RAID1 of RAIDType is none)"
    )


@pytest.mark.parametrize("habit", ["task", "operation"])
def test_a_task_that_fails_is_told_in_the_words_of_the_bmc(
    machine: bmc.Machine, habit: str
) -> None:
    machine.habits.task_fails = "Drive 0 has medium errors."
    machine.habits.monitor_end = habit
    machine.habits.task_body = habit == "task"
    said = failure(begun(machine))
    assert said.startswith("the BMC could not create RAID 1 on disks 0, 1 of controller RAID1: ")
    assert "ended as Exception: " in said
    assert "Drive 0 has medium errors" in said


def test_a_task_that_never_ends_fails_after_the_time_of_the_option(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.habits.task_polls = 10**9
    task = begun(machine)
    assert poll(task) is base.WAIT
    clock = time.time() + 999
    monkeypatch.setattr(time, "time", lambda: clock)
    assert poll(task) is base.WAIT
    clock += 2
    said = failure(task, polls=1)
    assert said.startswith("the BMC did not create RAID 1 on disks 0, 1 of controller RAID1 within")
    assert "within 1000 s (task /redfish/v1/TaskService/Tasks/1)" in said
    assert "raise [redfish]raid_config_timeout" in said


def test_a_volume_whose_task_was_done_and_that_is_not_there_fails(machine: bmc.Machine) -> None:
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine.tasks[0].effect = lambda: None
    assert failure(task).startswith("the BMC said that it did create RAID 1 on disks 0, 1")


def test_a_task_that_the_bmc_forgot_without_doing_it_fails(machine: bmc.Machine) -> None:
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine.tasks.clear()
    said = failure(task)
    assert "the BMC forgot its task /redfish/v1/TaskService/Tasks/1 to create RAID 1" in said


def test_a_volume_that_came_out_too_small_fails(machine: bmc.Machine) -> None:
    machine.habits.tasks = frozenset()
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine["Volumes/1"]["CapacityBytes"] = 50 * 1024**3
    assert failure(task) == "volume system has 50 GiB, not 100. Ask for less, or for more disks"


@pytest.mark.parametrize("status", [503, 0])
def test_a_bmc_that_restarts_in_mid_task_is_waited_for(machine: bmc.Machine, status: int) -> None:
    machine.habits.restart_status = status
    machine.habits.restart_requests = 20
    machine.habits.task_polls = 2
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine.restart()
    assert poll(task) is base.WAIT
    assert task.recall(raid.NOTE)["silent"] is not None
    machine.silent_for = 0
    assert poll(task) is base.WAIT
    assert task.recall(raid.NOTE)["silent"] is None
    finish(task, base.WAIT)
    assert there(machine) == [("RAID1", ["0", "1"])]
    assert changes(machine) == ["POST Volumes"]


def test_a_bmc_that_died_in_mid_task_fails_the_step_in_the_end(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine.tricks["*"] = bmc.hangs_up
    assert poll(task) is base.WAIT
    later = time.time() + orders.SILENCE_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: later)
    said = failure(task, polls=1)
    assert said.startswith("the BMC has been away for 90")
    assert "while it was to create RAID 1 on disks 0, 1 of controller RAID1: Cannot reach" in said
    assert said.endswith("look at the volumes of the machine, and run the step again")


def test_wrong_credentials_in_mid_task_fail_at_once(machine: bmc.Machine) -> None:
    machine.users["root"] = "secret"
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine.users["root"] = "changed"
    machine.sessions.clear()
    with pytest.raises(errors.BmcAccessDenied):
        poll(task)


# -- what may have been sent already ----------------------------------------------------------


def test_an_order_whose_answer_was_lost_is_not_sent_twice(machine: bmc.Machine) -> None:
    task = begun(machine)

    def loses(handler: bmc.Handler) -> None:
        handler.serving.host.answer(handler.request_read)
        bmc.hangs_up(handler)

    title = f"POST {machine.places.volumes}"
    machine.tricks[title] = loses
    assert poll(task) is base.WAIT
    del machine.tricks[title]
    assert task.recall(raid.NOTE)["orders"][0]["state"] == orders.NEW
    finish(task, base.WAIT)
    assert changes(machine) == ["POST Volumes"]
    assert len(machine.tasks) == 1


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize("slow", [True, False])
def test_another_conductor_goes_on_where_one_died_in_the_middle_of_an_order(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch, begin: bool, slow: bool
) -> None:
    if not slow:
        machine.habits.tasks = frozenset()
    task = begun(machine, ROOT, DATA)
    dead = elsewhere(task)
    if begin:
        assert poll(dead) is base.WAIT  # and dies before anything of it is saved
    monkeypatch.setattr(orders, "LIFE", "another")
    finish(task, base.WAIT)
    assert changes(machine) == ["POST Volumes", "POST Volumes"]
    assert there(machine) == [("RAID1", ["0", "1"]), ("RAID5", ["3", "4", "5"])]


def test_another_conductor_does_not_restart_a_machine_that_one_has_restarted(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    times(machine, "OnReset")
    machine.habits.task_polls = 4
    task = begun(machine)
    assert poll(task) is base.WAIT
    assert poll(elsewhere(task)) is base.WAIT  # restarts it, and dies
    assert machine.sent == ["ForceOff", "On"]
    monkeypatch.setattr(orders, "LIFE", "another")
    finish(task, base.WAIT)
    assert machine.sent == ["ForceOff", "On"]


def test_the_plan_of_a_step_that_was_called_off_is_replaced(machine: bmc.Machine) -> None:
    task = begun(machine, DATA)
    assert poll(task) is base.WAIT
    machine.finish_tasks()
    task.node.target_raid_config = {"logical_disks": [ROOT]}
    create(task, delete_existing=True)
    assert there(machine) == [("RAID1", ["0", "1"])]


def test_a_lost_plan_fails_the_step(machine: bmc.Machine) -> None:
    assert failure(node_at(machine)) == "the plan of the step is lost; run it again"


# -- makers ------------------------------------------------------------------------------------


def test_an_idrac_that_wants_no_time_for_a_deletion_is_told_without() -> None:
    with bmc.serve(make="dell") as machine:
        machine.tree[machine.system]["PowerState"] = "On"
        task = create(node_at(machine, ROOT))
        words = "IDRAC.2.1.SYS029: unable to process @Redfish.OperationApplyTime"
        answer = {"error": {"message": words, "@Message.ExtendedInfo": [{"MessageId": words}]}}
        title = f"DELETE {machine.places.volumes}/1"
        machine.tricks[title] = bmc.says_first(1, bmc.says(500, answer))
        delete(task)
        assert there(machine) == []
        sent = [request.body for request in machine.requests if request.title == title]
        assert sent == [{"@Redfish.OperationApplyTime": "Immediate"}, {}]


def test_a_server_error_at_a_deletion_is_no_quirk_elsewhere(machine: bmc.Machine) -> None:
    task = create(node_at(machine, ROOT))
    answer = {"error": {"message": "SYS029"}}
    machine.tricks[f"DELETE {machine.places.volumes}/1"] = bmc.says(500, answer)
    assert doubles.clean(task, "raid.delete_configuration") is base.WAIT
    assert poll(task) is base.WAIT
    assert task.recall(raid.NOTE)["silent"] is not None
    assert changes(machine)[-1] == "DELETE 1"


def test_controllers_in_a_collection_of_their_own_are_read(machine: bmc.Machine) -> None:
    storage = machine["Storage/RAID1"]
    card = storage.pop("StorageControllers")[0]
    path = f"{machine.places.storage}/Controllers"
    storage["Controllers"] = {"@odata.id": path}
    machine.tree[path] = {"Members": [{"@odata.id": f"{path}/1"}]}
    machine.tree[f"{path}/1"] = card
    card["SupportedRAIDTypes"] = ["RAID1"]
    with pytest.raises(errors.InvalidParameter, match="controller RAID1 makes 1"):
        begun(machine, DATA)


def test_a_plan_survives_as_json(machine: bmc.Machine) -> None:
    task = begun(machine, ROOT, DATA)
    kept = task.recall(raid.NOTE)
    assert orders.Work.of(kept).saved() == kept
