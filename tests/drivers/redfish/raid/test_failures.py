"""Orders about volumes that fail, are refused, or would destroy data."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import raid, storage
from ironic_lite.drivers.redfish.bmc import connection, jobs
from tests.emulators import bmc
from tests.support import fake_task
from tests.support.raid_steps import (
    DATA,
    ROOT,
    Json,
    begun,
    changes,
    create,
    delete,
    elsewhere,
    failure,
    finish,
    node_at,
    poll,
    there,
    times,
)

# What is said of a failure, and what becomes of an order that may have been sent already.

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
    later = time.time() + 999
    monkeypatch.setattr(clock, "lived_since", lambda stamp: later - stamp)
    assert poll(task) is base.WAIT
    later += 2
    said = failure(task, polls=1)
    assert said.startswith("the BMC did not create RAID 1 on disks 0, 1 of controller RAID1 within")
    assert "within 1000 s (task /redfish/v1/TaskService/Tasks/1)" in said
    assert "raise [redfish]raid_config_timeout" in said


def test_a_volume_whose_task_was_done_and_that_is_not_there_fails(machine: bmc.Machine) -> None:
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine.tasks[0].effect = lambda: None
    assert failure(task).startswith("the BMC reported success of: create RAID 1 on disks 0, 1")


def test_a_volume_whose_deletion_was_done_and_that_is_there_still_fails(
    machine: bmc.Machine,
) -> None:
    """Else the node would show no volumes, and nobody would look."""
    task = create(node_at(machine, ROOT))
    assert fake_task.clean(task, "raid.delete_configuration") is base.WAIT
    assert poll(task) is base.WAIT
    machine.tasks[-1].effect = lambda: None
    said = failure(task)
    assert "to delete volume system of controller RAID1, or reports it as done, but" in said
    assert task.node.raid_config != {}


def test_a_deleted_volume_that_is_listed_for_a_while_is_no_failure(machine: bmc.Machine) -> None:
    task = create(node_at(machine, ROOT))
    assert fake_task.clean(task, "raid.delete_configuration") is base.WAIT
    assert poll(task) is base.WAIT
    before = dict(machine["Volumes"])
    title = f"GET {machine.places.volumes}"
    machine.tricks[title] = bmc.says_first(2, bmc.says(200, before))
    finish(task, base.WAIT)
    assert there(machine) == []


def test_a_task_that_waits_for_a_restart_nobody_told_of_gets_one(machine: bmc.Machine) -> None:
    """It would hang for hours: this BMC does not say when it can change volumes."""
    del machine["Volumes"]["@Redfish.OperationApplyTimeSupport"]
    machine.habits.task_polls = 10**9
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine.tasks[0].state = "Pending"
    for _ in range(raid.PATIENT_LOOKS):
        assert poll(task) is base.WAIT
        assert machine.sent == []
    assert poll(task) is base.WAIT
    assert machine.sent == ["ForceOff", "On"]
    machine.tasks[0].state = "Running"
    machine.finish_tasks()
    finish(task, base.WAIT)
    assert machine.sent == ["ForceOff", "On"]


IN_USE = {"error": {"message": "The drive is in use by another operation."}}


@pytest.mark.parametrize("change", ["create", "delete"])
def test_request_that_meets_other_work_is_sent_again(machine: bmc.Machine, change: str) -> None:
    title = f"POST {machine.places.volumes}"
    task = node_at(machine, ROOT)
    if change == "delete":
        title = "DELETE */Volumes/1"
        task = create(task)
    machine.tricks[title] = bmc.says_first(3, bmc.says(409, IN_USE))
    step = {"create": "create_configuration", "delete": "delete_configuration"}[change]
    assert fake_task.clean(task, f"raid.{step}") is base.WAIT
    for _ in range(3):
        assert poll(task) is base.WAIT
    finish(task, base.WAIT)
    assert len(there(machine)) == (1 if change == "create" else 0)


def test_request_that_meets_other_work_for_long_fails_in_the_words_of_the_bmc(
    machine: bmc.Machine,
) -> None:
    machine.tricks[f"POST {machine.places.volumes}"] = bmc.says(409, IN_USE)
    task = begun(machine)
    for _ in range(raid.CONFLICTS - 1):
        assert poll(task) is base.WAIT
    assert "refused to create" in failure(task)
    assert sum(title.startswith("POST") for title in machine.changes()) > raid.CONFLICTS


def test_a_task_that_the_bmc_forgot_without_doing_it_fails(machine: bmc.Machine) -> None:
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine.tasks.clear()
    said = failure(task)
    assert "the BMC no longer knows its task /redfish/v1/TaskService/Tasks/1 to create" in said


def test_a_volume_that_came_out_too_small_fails(machine: bmc.Machine) -> None:
    machine.habits.tasks = frozenset()
    task = begun(machine)
    assert poll(task) is base.WAIT
    machine["Volumes/1"]["CapacityBytes"] = 50 * 1024**3
    assert failure(task) == "volume system has 50 GiB, not 100. Request less, or more disks"


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
    later = time.time() + config.CONF.redfish.bmc_silence_timeout + 1
    monkeypatch.setattr(clock, "lived_since", lambda stamp: later - stamp)
    said = failure(task, polls=1)
    assert said.startswith("no usable answer of the BMC for 90")
    assert "while it was to create RAID 1 on disks 0, 1 of controller RAID1: Cannot reach" in said
    assert said.endswith("check the volumes of the machine, and run the step again")


@pytest.mark.parametrize("first", [True, False], ids=["the order", "a look"])
def test_a_bmc_that_knows_no_users_while_it_starts_is_waited_for(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    machine.users["root"] = "secret"
    task = begun(machine)
    if not first:
        assert poll(task) is base.WAIT
    machine.users["root"] = "not loaded yet"
    machine.sessions.clear()
    assert poll(task) is base.WAIT
    assert task.timers[-1] == config.CONF.redfish.raid_config_status_interval  # lest it locks us
    machine.users["root"] = "secret"
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())  # as after a while
    finish(task, base.WAIT)
    assert there(machine) == [("RAID1", ["0", "1"])]
    assert len(machine.tasks) == 1


def test_wrong_credentials_in_mid_task_fail_in_the_end(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.users["root"] = "secret"
    task = begun(machine)
    machine.users["root"] = "changed"
    machine.sessions.clear()
    assert poll(task) is base.WAIT
    later = time.time() + config.CONF.redfish.bmc_silence_timeout + 1
    monkeypatch.setattr(clock, "lived_since", lambda stamp: later - stamp)
    assert "refused the credentials of user root" in failure(task, polls=1)


@pytest.mark.parametrize("status", [200, 201, 204])
def test_change_without_a_task_ends_when_the_volumes_show_it(
    machine: bmc.Machine, status: int
) -> None:
    machine.habits.task_hidden, machine.habits.task_polls = status, 15
    create(node_at(machine, ROOT, DATA))
    assert there(machine) == [("RAID1", ["0", "1"]), ("RAID5", ["3", "4", "5"])]
    delete(node_at(machine))
    assert (there(machine), len(changes(machine))) == ([], 4)


def test_change_without_task_and_effect_fails_in_the_end(machine: bmc.Machine) -> None:
    machine.tricks[f"POST {machine.places.volumes}"] = bmc.says(204)
    task = begun(machine)
    assert "shows no task and no effect" in failure(task)
    assert len(changes(machine)) == 1 and sum(task.timers) > 600


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
    assert task.recall(raid.NOTE)["orders"][0]["state"] == raid.NEW
    finish(task, base.WAIT)
    assert changes(machine) == ["POST Volumes"]
    assert len(machine.tasks) == 1


def test_an_order_that_was_carried_out_in_spite_of_503_is_not_sent_twice(
    machine: bmc.Machine,
) -> None:
    machine.habits.task_polls = 5
    task = begun(machine)

    def takes_it(handler: bmc.Handler) -> None:
        handler.serving.host.answer(handler.request_read)
        handler.say(503, None)

    machine.tricks[f"POST {machine.places.volumes}"] = bmc.says_first(1, takes_it)
    assert poll(task) is base.WAIT
    finish(task, base.WAIT)
    assert changes(machine) == ["POST Volumes"]
    assert there(machine) == [("RAID1", ["0", "1"])]


@pytest.mark.parametrize("listed", ["pages", "newest first", "as words"])
def test_the_task_of_a_lost_answer_is_found_among_many(machine: bmc.Machine, listed: str) -> None:
    """An iDRAC keeps hundreds of jobs, and shows them in pages of 50."""
    machine.habits.tasks |= {"other"}
    for _ in range(99):
        machine.work("other", "Old", lambda: None)
    machine.finish_tasks()
    machine.habits.task_polls = 5
    task = begun(machine)

    def loses(handler: bmc.Handler) -> None:
        handler.serving.host.answer(handler.request_read)
        page = machine.tree[machine.places.tasks]
        if listed == "pages":
            more = f"{machine.places.tasks}/More"
            machine.tree[more] = {**page, "@odata.id": more, "Members": page["Members"][50:]}
            page |= {"Members": page["Members"][:50], "Members@odata.nextLink": more}
        elif listed == "newest first":
            page["Members"].reverse()
        else:
            page["Members"].sort(key=str)
        bmc.hangs_up(handler)

    title = f"POST {machine.places.volumes}"
    machine.tricks[title] = loses
    assert poll(task) is base.WAIT
    del machine.tricks[title]
    finish(task, base.WAIT)
    assert changes(machine) == ["POST Volumes"]
    assert there(machine) == [("RAID1", ["0", "1"])]


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
    monkeypatch.setattr(jobs, "CLAIMS", jobs.Claims())
    finish(task, base.WAIT)
    assert changes(machine) == ["POST Volumes", "POST Volumes"]
    assert there(machine) == [("RAID1", ["0", "1"]), ("RAID5", ["3", "4", "5"])]


@pytest.mark.parametrize("what", ["create", "delete"])
@pytest.mark.parametrize("ends", ["done", "failed"])
def test_other_work_of_the_bmc_is_not_taken_for_the_order_of_a_dead_conductor(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch, what: str, ends: str
) -> None:
    """A task that does not say what it is may be a log being collected."""
    task = create(node_at(machine, DATA)) if what == "delete" else node_at(machine, ROOT)
    step = "create_configuration" if what == "create" else "delete_configuration"
    assert fake_task.clean(task, f"raid.{step}") is base.WAIT
    machine.tasks.clear()
    machine.habits.task_polls = 10**9
    machine.habits.tasks |= {"other"}
    machine.work("other", "Collect logs", lambda: None, on_reset=False)
    monkeypatch.setattr(jobs, "CLAIMS", jobs.Claims())
    before = machine.changes()
    assert poll(task) is base.WAIT
    assert machine.changes() == before
    machine.habits.task_polls = 1
    if ends == "failed":
        machine.tasks[0].state = "Exception"
    machine.finish_tasks()
    task = finish(task, base.WAIT)
    assert len(machine.changes()) == len(before) + 1
    assert there(machine) == ([("RAID1", ["0", "1"])] if what == "create" else [])


def test_an_order_whose_sending_could_not_be_saved_is_looked_for_by_the_same_conductor(
    machine: bmc.Machine,
) -> None:
    """The database was away for a moment; the timer rings again, with the plan of before."""
    task = begun(machine)
    kept = task.recall(raid.NOTE)
    assert poll(task) is base.WAIT
    task.keep(raid.NOTE, kept)
    finish(task, base.WAIT)
    assert changes(machine) == ["POST Volumes"]
    assert len(machine.tasks) == 1


def test_another_conductor_does_not_restart_a_machine_that_one_has_restarted(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    times(machine, "OnReset")
    machine.habits.task_polls = 4
    task = begun(machine)
    assert poll(task) is base.WAIT
    assert poll(elsewhere(task)) is base.WAIT  # restarts it, and dies
    assert machine.sent == ["ForceOff", "On"]
    monkeypatch.setattr(jobs, "CLAIMS", jobs.Claims())
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
    assert fake_task.clean(task, "raid.delete_configuration") is base.WAIT
    assert poll(task) is base.WAIT
    assert task.recall(raid.NOTE)["silent"] is not None
    assert changes(machine)[-1] == "DELETE 1"


@pytest.mark.parametrize("name", ["Controllers", "StorageControllers"])
def test_controllers_in_a_collection_of_their_own_are_read(machine: bmc.Machine, name: str) -> None:
    storage = machine["Storage/RAID1"]
    card = storage.pop("StorageControllers")[0]
    path = f"{machine.places.storage}/Controllers"
    storage[name] = {"@odata.id": path}
    machine.tree[path] = {"Members": [{"@odata.id": f"{path}/1"}]}
    machine.tree[f"{path}/1"] = card
    card["SupportedRAIDTypes"] = ["RAID1"]
    with pytest.raises(errors.InvalidParameter, match="controller RAID1 makes 1"):
        begun(machine, DATA)


def test_a_plan_survives_as_json(machine: bmc.Machine) -> None:
    task = begun(machine, ROOT, DATA)
    kept = task.recall(raid.NOTE)
    assert raid.VolumeWork.of(kept).saved() == kept
    later: Any = {"of_a_later_release": 1}
    orders = [{**one, **later} for one in kept["orders"]]
    assert raid.VolumeWork.of({**kept, "orders": orders, **later}).saved() == kept


# -- which volume came of which order ----------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "found"), [(100, "b"), (30, "a"), (None, "c")], ids=["large", "small", "all"]
)
def test_of_volumes_on_the_same_disks_each_is_known_by_its_size(
    asked: int | None, found: str
) -> None:
    """They are made at one restart; their tasks do not tell which came of which."""
    paths = ("/Drives/0", "/Drives/1")
    made = [
        storage.RaidVolume(name, name, "1", size, paths, raw=False, hint=None, times=None)
        for name, size in (("a", 29), ("b", 99), ("c", 900))
    ]
    body = {"RAIDType": "RAID1", "Links": {"Drives": [{"@odata.id": path} for path in paths]}}
    size = {} if asked is None else {"CapacityBytes": asked}
    order = raid.VolumeOrder(raid.CREATE, "/Volumes", "create", {**body, **size})
    work = raid.VolumeWork(orders=[order], until=0.0, before=[], disks=[])
    volume = raid.find_volume(work, order, made)
    assert volume is not None
    assert volume.path == found


# What is refused before anything is sent, by its path.


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
        raid.RedfishRAID().validate_raid_config(fake_task.FakeTask(), config)
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


# Disks that hold somebody's data are left alone, however a BMC tells of it.


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
