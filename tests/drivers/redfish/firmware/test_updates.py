"""Updates of firmware by Redfish: in order, through boots and restarts of BMCs and conductors."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import firmware
from ironic_lite.drivers.redfish.bmc import jobs
from tests.emulators import bmc
from tests.support import bmc_tasks, fake_task
from tests.support.firmware_updates import (
    BIOS,
    BMC,
    CARD,
    FIRMWARE,
    NIC,
    SECRET,
    UPDATE,
    URL,
    begin,
    failure,
    finish,
    image,
    orders,
    phase,
    poll,
    step,
    versions,
)

# -- it goes well -------------------------------------------------------------------------------


def test_versions_are_told(served: bmc.Machine) -> None:
    told = {"bios": "P79 v1.45", "bmc": "1.45.455b66-rev4", CARD: "7.4.10"}
    assert versions(served) == told
    [card] = [
        one
        for one in FIRMWARE.cache_firmware_components(bmc_tasks.task_of(served))
        if one.component == CARD
    ]
    assert f"nic:{card.serial_number}" == CARD
    assert card.vendor and card.model
    # As some BMCs answer while the system is off.
    served.tricks["GET */NetworkAdapters"] = bmc.says(400)
    assert set(versions(served)) == {"bios", "bmc"}


def test_version_that_cannot_be_read_loses_only_itself(served: bmc.Machine) -> None:
    served.tricks[f"GET {served.places.manager}"] = bmc.says(500)
    assert set(versions(served)) == {"bios", CARD}
    other = f"{served.places.chassis}/NetworkAdapters/NIC0"
    served.tree[f"{served.places.chassis}/NetworkAdapters"]["Members"].insert(
        0, {"@odata.id": other}
    )
    served.tricks[f"GET {other}"] = bmc.says(503)
    assert set(versions(served)) == {"bios", CARD}


def test_texts_of_a_bmc_are_cut(served: bmc.Machine) -> None:
    """A text has up to 16 MiB, and the versions of hundreds of cards are kept together."""
    card = f"{served.places.chassis}/NetworkAdapters/NIC1"
    served.tree[card]["SerialNumber"] = "9" * 1_000_000
    assert sorted(map(len, versions(served))) == [3, 4, len("nic:") + 4096]


def test_a_bmc_that_tells_no_version_says_so(served: bmc.Machine) -> None:
    del served[served.system]["BiosVersion"]
    del served[served.places.manager]["FirmwareVersion"]
    del served[served.places.chassis]["NetworkAdapters"]
    with pytest.raises(errors.UnsupportedDriverExtension, match="it reports none"):
        FIRMWARE.cache_firmware_components(bmc_tasks.task_of(served))


def test_nothing_is_sent_before_it_is_kept_that_it_will_be(served: bmc.Machine) -> None:
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    assert (served.changes(), phase(task), task.timers) == ([], "send", [0.0])
    assert poll(task, BIOS) is base.WAIT
    [body] = orders(served)
    assert body == {"ImageURI": URL.format("BIOS-2.0"), "TransferProtocol": "HTTP"}


def test_a_bios_is_updated_and_the_bmc_seen_to_settle(served: bmc.Machine) -> None:
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)
    assert sum(task.timers) > 0
    assert versions(served)["bios"] == "2.0"
    assert (len(orders(served)), served.sent) == (1, [])


def test_a_bios_that_waits_for_the_boot_gets_it_at_once(served: bmc.Machine) -> None:
    served.habits.firmware_on_reset = True
    served[served.system]["PowerState"] = "On"
    task: fake_task.FakeTask = bmc_tasks.task_of(served)
    begin(task, BIOS)
    task = finish(task, BIOS)
    assert versions(served)["bios"] == "2.0"
    assert served.sent == ["ForceOff", "On"]
    assert task.node.power_state == "power on"


@pytest.mark.parametrize("end", ["task", "operation", "gone"])
def test_a_bmc_restarts_and_is_known_by_its_new_version(served: bmc.Machine, end: str) -> None:
    served.habits.monitor_end = end
    served.habits.task_body = end == "task"
    served.habits.restart_requests = 7
    task = bmc_tasks.task_of(served)
    begin(task, BMC)
    finish(task, BMC)
    assert versions(served)["bmc"] == "2.0"
    assert (len(orders(served)), served.sent) == (1, [])


def test_a_bmc_that_breaks_connections_off_is_borne_with(served: bmc.Machine) -> None:
    served.habits.restart_status = 0
    served.habits.restart_requests = 12
    task = bmc_tasks.task_of(served)
    begin(task, BMC)
    finish(task, BMC)
    assert versions(served)["bmc"] == "2.0"


def test_sessions_that_die_with_the_bmc_are_renewed(served: bmc.Machine) -> None:
    served.users["root"] = "secret"
    task = bmc_tasks.task_of(served)
    begin(task, BMC)
    finish(task, BMC)
    assert versions(served)["bmc"] == "2.0" and served.logins > 1


def test_several_are_done_in_order_with_rests_between_them(served: bmc.Machine) -> None:
    images = (image("bmc", "BMC-2.0", wait=1000), BIOS, NIC)
    task = bmc_tasks.task_of(served)
    begin(task, *images)
    finish(task, *images)
    assert sum(task.timers) >= 1000
    names = [body["ImageURI"].rpartition("/")[2] for body in orders(served)]
    assert names == ["BMC-2.0.bin", "BIOS-2.0.bin", "NIC1-8.bin"]
    assert max(task.timers) <= firmware.LONGEST_PAUSE
    assert versions(served) == {"bios": "2.0", "bmc": "2.0", CARD: "8"}


def test_a_card_that_waits_is_given_a_while_before_the_machine_is_restarted(
    served: bmc.Machine,
) -> None:
    task = bmc_tasks.task_of(served)
    begin(task, NIC)
    poll(task, NIC)
    served.tasks[0].state = "Starting"
    assert poll(task, NIC) is base.WAIT
    assert served.sent == []
    assert 15 < task.timers[-1] < 25
    assert poll(task, NIC) is base.WAIT
    assert served.sent == ["On"]
    served.tasks[0].state = "Running"
    finish(task, NIC)
    assert served.sent == ["On"]


@pytest.mark.parametrize("new", [BIOS, NIC], ids=["bios", "nic"])
def test_machine_is_not_restarted_while_the_bmc_downloads_the_image(
    served: bmc.Machine, new: dict[str, Any]
) -> None:
    task = bmc_tasks.task_of(served)
    begin(task, new)
    poll(task, new)
    served.tasks[0].state = "New"
    for _ in range(4):
        assert poll(task, new) is base.WAIT
    assert served.sent == []
    served.tasks[0].state = "Pending"
    assert poll(task, new) is base.WAIT
    assert served.sent == ["On"]
    served.tasks[0].state = "Running"
    finish(task, new)
    assert served.sent == ["On"]


def test_a_task_that_stays_new_gets_a_restart(served: bmc.Machine) -> None:
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    poll(task, BIOS)
    served.tasks[0].state = "New"
    for _ in range(8):
        assert poll(task, BIOS) is base.WAIT
    assert served.sent == ["On"]


def test_the_same_version_once_more_is_no_failure(served: bmc.Machine) -> None:
    again = image("bmc", "BMC-1.45.455b66-rev4")
    task = bmc_tasks.task_of(served)
    begin(task, again)
    finish(task, again)
    assert sum(task.timers) >= 300


def test_an_update_done_at_once_needs_no_task(served: bmc.Machine) -> None:
    served.habits.tasks = frozenset()
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)
    assert versions(served)["bios"] == "2.0"


def test_a_bios_whose_version_is_not_told_is_believed_after_a_boot(served: bmc.Machine) -> None:
    def tell_none(handler: bmc.Handler) -> None:
        reply = handler.serving.host.answer(handler.request_read)
        del reply.document["BiosVersion"]
        handler.say(200, reply.document)

    served.tricks[f"GET {served.system}"] = tell_none
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)
    assert served.sent == ["On"]


def test_image_for_one_of_several_systems_has_a_target(served: bmc.Machine) -> None:
    other = f"{served.system.rpartition('/')[0]}/other"
    served.add(other, {**served.tree[served.system], "@odata.id": other})
    served.tricks[UPDATE] = bmc.says(202, None, Location="/redfish/v1/TaskService/Tasks/9")
    for new in (BIOS, NIC, BMC):
        task = bmc_tasks.task_of(served)
        begin(task, new)
        poll(task, new)
    targets = [body.get("Targets") for body in orders(served)]
    assert targets == [[served.system], [served.system], None]


# -- conductors die -----------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["running", "done"])
def test_an_order_that_a_dead_conductor_sent_is_not_sent_again(
    served: bmc.Machine, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    served.habits.task_polls = 3 if lost == "running" else 0
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    saved = task.elsewhere()
    saved.timers = [0.0]
    poll(task, BIOS)  # sent, and the conductor dies before it is kept
    if lost == "done":
        served.finish_tasks()
    monkeypatch.setattr(jobs, "CLAIMS", jobs.Claims())
    finish(saved, BIOS)
    assert len(orders(served)) == 1
    assert versions(served)["bios"] == "2.0"


def test_an_order_that_was_never_sent_is_sent_by_the_next_conductor(
    served: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    monkeypatch.setattr(jobs, "CLAIMS", jobs.Claims())
    finish(task, BIOS)
    assert len(orders(served)) == 1


def test_a_connection_that_breaks_while_an_order_is_sent(served: bmc.Machine) -> None:
    def swallow(handler: bmc.Handler) -> None:
        handler.serving.host.answer(handler.request_read)
        bmc.hangs_up(handler)

    served.habits.task_polls = 5
    served.tricks[UPDATE] = swallow
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    assert poll(task, BIOS) is base.WAIT
    finish(task, BIOS)
    assert len(orders(served)) == 1
    assert versions(served)["bios"] == "2.0"


# -- BMCs that say little -----------------------------------------------------------------------


def begun_without_task(served: bmc.Machine, body: dict[str, Any] | None) -> fake_task.FakeTask:
    """Begin an update by a BMC that accepts it and names no task; return the task of the node."""

    def takes_it(handler: bmc.Handler) -> None:
        handler.serving.host.answer(handler.request_read)
        handler.say(202, body)

    served.habits.task_polls = 10**9
    served.tricks[UPDATE] = takes_it
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    for _ in range(5):
        assert poll(task, BIOS) is base.WAIT
    return task


@pytest.mark.parametrize("body", [None, {"@odata.id": "/redfish/v1/UpdateService"}], ids=repr)
def test_the_task_of_an_answer_that_names_none_is_looked_for(
    served: bmc.Machine, body: dict[str, Any] | None
) -> None:
    """What was accepted is not done: a restart would meet firmware that is being written."""

    task = begun_without_task(served, body)
    assert (phase(task), served.sent) == ("follow", [])
    served.finish_tasks()
    finish(task, BIOS)
    assert versions(served)["bios"] == "2.0"
    assert len(orders(served)) == 1


@pytest.mark.parametrize("times", [1, 9])
def test_search_for_a_task_that_fails_does_not_repeat_the_request(
    served: bmc.Machine, times: int
) -> None:
    served.tricks[f"GET {served.places.tasks}"] = bmc.says_first(times, bmc.says(503))
    task = begun_without_task(served, None)
    served.finish_tasks()
    finish(task, BIOS)
    assert len(orders(served)) == 1
    assert versions(served)["bios"] == "2.0"


def test_a_task_in_an_answer_200_is_followed(served: bmc.Machine) -> None:
    def takes_it(handler: bmc.Handler) -> None:
        handler.say(200, handler.serving.host.answer(handler.request_read).document)

    served.habits.task_polls = 10**9
    served.tricks[UPDATE] = takes_it
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    for _ in range(5):
        assert poll(task, BIOS) is base.WAIT
    assert (phase(task), served.sent) == ("follow", [])
    served.finish_tasks()
    finish(task, BIOS)
    assert versions(served)["bios"] == "2.0"


def test_a_task_that_a_starting_bmc_does_not_know_for_a_while_is_followed_on(
    served: bmc.Machine,
) -> None:
    served.habits.task_polls = 10**9
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    assert poll(task, BIOS) is base.WAIT
    served.tricks["GET */TaskService/Task*"] = bmc.says(404)
    for _ in range(2):
        assert poll(task, BIOS) is base.WAIT
    served.tricks.clear()
    assert poll(task, BIOS) is base.WAIT
    assert (phase(task), served.sent) == ("follow", [])
    served.finish_tasks()
    finish(task, BIOS)


# -- updates without a task -----------------------------------------------------------------------


def started(served: bmc.Machine, shown: str, *images: dict[str, Any]) -> fake_task.FakeTask:
    """Begin an update that the BMC writes without a task, in 60 requests; the machine is on."""
    served.habits.update_shown, served.habits.task_polls = shown, 60
    served[served.system]["PowerState"] = "On"
    task = bmc_tasks.task_of(served)
    begin(task, *images)
    return task


@pytest.mark.parametrize("shown", ["service", "inventory"])
@pytest.mark.parametrize("new", [BIOS, NIC], ids=["bios", "nic"])
def test_machine_is_restarted_when_the_bmc_no_longer_writes_firmware_without_a_task(
    served: bmc.Machine, shown: str, new: dict[str, Any]
) -> None:
    finish(started(served, shown, new), new)
    assert (served.ruined, served.sent, len(orders(served))) == (False, ["ForceOff", "On"], 1)
    assert versions(served)[new["component"]] in {"2.0", "8"}


def test_update_that_ended_between_two_polls_counts(served: bmc.Machine) -> None:
    served.tree["/redfish/v1/UpdateService"]["Oem"] = {"Hpe": {"State": "Idle"}}
    task = started(served, "service", BIOS)
    served.habits.task_polls = 0
    finish(task, BIOS)
    assert (served.ruined, versions(served)["bios"]) == (False, "2.0")


def test_end_of_an_earlier_update_does_not_count(served: bmc.Machine) -> None:
    service = served.tree["/redfish/v1/UpdateService"]
    service["Oem"] = {"Hpe": {"State": "Complete"}}
    served.tricks[UPDATE] = bmc.says(200, {})
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    for word in ("Complete", "Idle", "Complete"):
        service["Oem"]["Hpe"]["State"] = word
        assert poll(task, BIOS) is base.WAIT
        assert phase(task) in {"send", "watch"}
    assert served.sent == []


def test_machine_is_left_alone_if_nothing_shows_the_end_of_an_update(
    served: bmc.Machine, option: Any
) -> None:
    option("unseen_wait", 900)
    task = started(served, "nothing", BIOS)
    said = failure(task, BIOS)
    assert "need a restart of the machine by hand" in said and "firmware_update_unseen_wait" in said
    assert sum(task.timers) > 880  # the clock runs on while the BMC is asked
    assert (served.sent, len(orders(served))) == ([], 1)


def test_option_allows_a_restart_without_a_shown_end(served: bmc.Machine, option: Any) -> None:
    option("unseen_restart", True)
    task = started(served, "nothing", BIOS)
    task = finish(task, BIOS)
    assert sum(task.timers) > 1700
    assert (served.ruined, versions(served)["bios"]) == (False, "2.0")


@pytest.mark.parametrize("shown", ["nothing", "inventory"])
def test_service_that_always_says_running_does_not_delay_an_update(
    served: bmc.Machine, option: Any, shown: str
) -> None:
    served.tree["/redfish/v1/UpdateService"]["Oem"] = {"Contoso": {"State": "Running"}}
    option("unseen_restart", True)
    option("unseen_wait", 900)
    task = finish(started(served, shown, BIOS), BIOS)
    assert sum(task.timers) < 3600
    assert (served.ruined, versions(served)["bios"]) == (False, "2.0")


@pytest.mark.parametrize("usual", ["Running", "WatchingForWork"])
def test_service_that_says_its_usual_word_again_has_ended_an_update(
    served: bmc.Machine, usual: str
) -> None:
    service = served.tree["/redfish/v1/UpdateService"]
    service["Oem"] = {"Contoso": {"State": usual}}
    served.tricks[UPDATE] = bmc.says(200, {})
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    for word in (usual, "Flashing", usual):
        assert phase(task) in {"send", "watch"}
        service["Oem"]["Contoso"]["State"] = word
        assert poll(task, BIOS) is base.WAIT
    assert phase(task) == "prove"


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "ends later"])
def test_end_of_other_work_does_not_count_while_the_service_shows_an_update(
    served: bmc.Machine, ended: bool
) -> None:
    """Some BMCs have tasks of their own, and tasks that do not name their request."""

    def takes_it(handler: bmc.Handler) -> None:
        served.work("update", "Telemetry", lambda: None)
        if ended:
            served.finish_tasks()
        handler.truth()

    served.tricks[UPDATE] = takes_it
    task = started(served, "service", BIOS)
    served.habits.task_polls = 100
    poll(task, BIOS)
    served.tasks[0].polls = 1
    finish(task, BIOS)
    assert (served.ruined, versions(served)["bios"]) == (False, "2.0")


def test_reason_of_an_update_that_failed_without_a_task_is_shown(served: bmc.Machine) -> None:
    served.habits.task_fails = "wrong signature"
    said = failure(started(served, "service", BIOS), BIOS)
    assert "(Error): iLO.2.14.UpdateFailed (wrong signature)" in said
    assert served.sent == []


def test_machine_is_not_restarted_because_a_task_has_vanished(served: bmc.Machine) -> None:
    served.habits.task_polls = 10**9
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    assert poll(task, BIOS) is base.WAIT
    served.tasks.clear()
    served.tree[served.places.tasks]["Members"] = []
    said = failure(task, BIOS)
    assert "forgot its task, and the version is still P79 v1.45" in said
    assert "by hand" in said and served.sent == []


def test_task_that_failed_before_the_first_look_is_found(served: bmc.Machine) -> None:
    def takes_it(handler: bmc.Handler) -> None:
        handler.serving.host.answer(handler.request_read)
        served.finish_tasks()
        handler.say(204)

    served.habits.task_fails = "wrong signature"
    served.tricks[UPDATE] = takes_it
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    assert "(Exception): wrong signature" in failure(task, BIOS)
    assert served.sent == []


def test_request_is_not_repeated_while_the_service_shows_an_update(
    served: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = started(served, "service", BIOS)
    saved = task.elsewhere()
    saved.timers = [0.0]
    poll(task, BIOS)  # sent, and the conductor dies before it is kept
    monkeypatch.setattr(jobs, "CLAIMS", jobs.Claims())
    finish(saved, BIOS)
    assert (len(orders(served)), served.ruined) == (1, False)


@pytest.mark.parametrize("status", [404, 410])
def test_vanished_monitor_is_not_a_failed_update(served: bmc.Machine, status: int) -> None:
    place = "/redfish/v1/TaskService/TaskMonitors/7"
    served.tricks[UPDATE] = bmc.says(202, None, Location=place)
    served.tricks[f"GET {place}"] = bmc.says(status)
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    for _ in range(6):
        assert poll(task, BIOS) is base.WAIT
    assert (phase(task), served.sent) == ("watch", [])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"TaskState": "CompletedOK"}, "ends"),
        ({"JobState": "Completed"}, "ends"),
        ({"JobState": "Running"}, "waits"),
        ({"TaskState": None}, "waits"),
        ({"TaskState": "Service"}, "waits"),
        ({"JobState": "CompletedWithErrors", "Messages": [{"Message": "bad"}]}, "bad"),
        ({"TaskState": "Killed", "Messages": [{"MessageId": "A.1.X"}]}, "A.1.X"),
        (
            {
                "TaskState": "Completed",
                "Messages": [{"Severity": "Critical", "MessageId": "A.1.X", "MessageArgs": ["y"]}],
            },
            "A.1.X (y)",
        ),
        ({"TaskState": "Completed", "TaskStatus": "Critical"}, "it gives no reason"),
        (
            {
                "error": {
                    "@Message.ExtendedInfo": [
                        {
                            "MessageSeverity": "Critical",
                            "Message": "%1 is bad",
                            "MessageArgs": ["z"],
                        }
                    ]
                }
            },
            "z is bad",
        ),
        ({"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success"}]}}, "ends"),
    ],
    ids=repr,
)
def test_end_of_a_task_is_read_from_what_the_bmc_shows(
    served: bmc.Machine, document: dict[str, Any], expected: str
) -> None:
    place = "/redfish/v1/TaskService/Tasks/7"
    served.tricks[UPDATE] = bmc.says(202, None, Location=place)
    served.tricks[f"GET {place}"] = bmc.says(200, document)
    task = bmc_tasks.task_of(served)
    begin(task, BMC)
    poll(task, BMC)
    if expected == "ends":
        poll(task, BMC)
        assert phase(task) == "prove"
    elif expected == "waits":
        assert poll(task, BMC) is base.WAIT
        assert phase(task) == "follow"
    else:
        assert expected in failure(task, BMC)


# Updates of firmware that fail: what is said, and what is not.


def test_a_task_that_fails_is_told_in_the_bmc_s_words_and_ends_the_list(
    served: bmc.Machine,
) -> None:
    served.habits.task_fails = "The signature is not valid."
    task = bmc_tasks.task_of(served)
    begin(task, BIOS, BMC)
    said = failure(task, BIOS, BMC)
    assert said.startswith(f"bios was not updated from {URL.format('BIOS-2.0')}: ")
    assert "Exception" in said and "The signature is not valid" in said
    assert len(orders(served)) == 1


def test_an_image_that_the_bmc_refuses(served: bmc.Machine) -> None:
    wrong = image("bios", "holidays")
    task = bmc_tasks.task_of(served)
    begin(task, wrong)
    said = failure(task, wrong)
    assert "refused" in said and "no image for this machine" in said


def test_a_busy_bmc_is_asked_again_for_a_while(served: bmc.Machine) -> None:
    served.tricks[UPDATE] = bmc.says_first(3, bmc.says(409))
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)
    assert versions(served)["bios"] == "2.0"
    served.tricks[UPDATE] = bmc.says(409, {"error": {"message": "An update is running."}})
    begin(task, BMC)
    assert "An update is running" in failure(task, BMC)


def test_a_bmc_that_does_not_come_back(served: bmc.Machine, option: Any) -> None:
    served.habits.restart_requests = 10_000
    option("bmc_timeout", 200)
    task = bmc_tasks.task_of(served)
    begin(task, BMC)
    assert "no usable answer for 200 s" in failure(task, BMC)
    patient = bmc_tasks.task_of(served, firmware_update_unresponsive_bmc_wait=700)
    served.silent_for = 0
    begin(patient, BMC)
    assert "no usable answer for 700 s" in failure(patient, BMC)


def test_a_bmc_that_does_not_settle(served: bmc.Machine, option: Any) -> None:
    option("resource_validation_timeout", 100)
    option("validation_interval", 30)
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    while phase(task) != "settle":
        poll(task, BIOS)
    served.tricks[f"GET {served.places.manager}"] = bmc.says(500)
    assert "does not settle within 100 s" in failure(task, BIOS)


def test_a_bmc_that_names_no_manager_settles(served: bmc.Machine) -> None:
    del served[served.system]["Links"]["ManagedBy"]
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)


def test_settling_can_be_left_out(served: bmc.Machine, option: Any) -> None:
    option("required_successes", 0)
    served.tricks[f"GET {served.places.manager}"] = bmc.says(500)
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)


def test_a_task_that_never_ends_is_bounded(served: bmc.Machine, option: Any) -> None:
    served.habits.task_polls = 10_000
    option("overall_timeout", 600)
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    said = failure(task, BIOS)
    assert "more than 600 s" in said and "firmware_update_overall_timeout" in said


def test_a_task_that_is_forgotten_without_a_new_version_is_a_failure(served: bmc.Machine) -> None:
    task = bmc_tasks.task_of(served)
    begin(task, BMC)
    poll(task, BMC)
    served.tasks.clear()
    assert "forgot its task, and the version is still 1.45" in failure(task, BMC)


def test_bad_arguments_are_refused_before_anything_is_asked(served: bmc.Machine) -> None:
    with pytest.raises(errors.InvalidParameter, match="settings/0/url"):
        FIRMWARE.execute_clean_step(
            bmc_tasks.task_of(served), step({"component": "bios", "url": "file:///a"})
        )
    assert served.log == []


def test_a_bmc_that_takes_no_updates(served: bmc.Machine) -> None:
    del served.tree["/redfish/v1/UpdateService"]["Actions"]
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    with pytest.raises(errors.UnsupportedDriverExtension, match="offers no SimpleUpdate"):
        poll(task, BIOS)


def test_update_that_a_later_release_has_begun_is_continued(served: bmc.Machine) -> None:
    task = bmc_tasks.task_of(served)
    begin(task, BIOS)
    task.keep(firmware.NOTE, {**task.recall(firmware.NOTE), "of_a_later_release": 1})
    finish(task, BIOS)
    assert len(orders(served)) == 1


def test_the_password_of_an_image_goes_to_the_bmc_and_nowhere_else(served: bmc.Machine) -> None:
    private = {"component": "bios", "url": f"https://me:{SECRET}@images.example.org/BIOS-2.0.bin"}
    served.habits.task_fails = "No."
    task = bmc_tasks.task_of(served)
    begin(task, private)
    poll(task, private)
    [body] = orders(served)
    assert (body["Username"], body["Password"]) == ("me", SECRET)
    assert body["ImageURI"] == "https://images.example.org/BIOS-2.0.bin"
    assert body["TransferProtocol"] == "HTTPS"
    assert SECRET not in str(task.recall(firmware.NOTE))
    assert SECRET not in failure(task, private)


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        (f"https://me:{SECRET}@h/BIOS-2.0.bin", SECRET),
        (f"https://h/BIOS-2.0.bin?sig={SECRET}", f"sig={SECRET}"),
    ],
    ids=["password", "signature"],
)
def test_a_bmc_that_repeats_a_secret_of_the_address_does_not_tell_it(
    served: bmc.Machine, url: str, secret: str
) -> None:
    private = {"component": "bios", "url": url}
    said = {"error": {"message": f"The value {SECRET} or sig={SECRET} is refused."}}
    served.tricks[UPDATE] = bmc.says(400, said)
    task = bmc_tasks.task_of(served)
    begin(task, private)
    text = failure(task, private)
    assert text.startswith("bios was not updated from https://h/BIOS-2.0.bin")
    assert "is refused" in text
    assert secret not in text
