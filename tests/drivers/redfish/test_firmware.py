"""Updates of firmware by Redfish: in order, through boots and restarts of BMCs and conductors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import config, errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import firmware, updates
from tests.drivers import doubles
from tests.drivers.redfish import conftest
from tests.emulators import bmc

FIRMWARE = firmware.RedfishFirmware()
CLEAN = base.StepKind.CLEAN
URL = "http://images.example.org/{}.bin"
UPDATE = "POST /redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"
SECRET = "geheim"


@pytest.fixture
def served() -> Iterator[bmc.Machine]:
    with bmc.serve() as machine:
        yield machine


@pytest.fixture
def option() -> Iterator[Any]:
    """A function that sets ``[redfish]firmware_update_<name>`` for one test."""
    names = []

    def set_option(name: str, value: int) -> None:
        names.append(f"firmware_update_{name}")
        config.CONF.set_override(names[-1], value, group="redfish")

    yield set_option
    for name in names:
        config.CONF.clear_override(name, group="redfish")


def image(component: str, name: str, **more: Any) -> dict[str, Any]:
    return {"component": component, "url": URL.format(name), **more}


CARD = "nic:003BFLRT00023234"
BIOS, BMC, NIC = image("bios", "BIOS-2.0"), image("bmc", "BMC-2.0"), image(CARD, "NIC1-8")


def step(*images: dict[str, Any]) -> Any:
    return doubles.step("firmware.update", settings=list(images))


def begin(task: doubles.FakeTask, *images: dict[str, Any]) -> None:
    assert FIRMWARE.execute_clean_step(task, step(*images)) is base.WAIT


def later(task: doubles.FakeTask, seconds: float) -> None:
    """Let time pass for what is kept on the node."""
    note = task.recall(firmware.NOTE)
    for name in ("began", "since", "silent"):
        note[name] = note[name] and note[name] - seconds
    task.keep(firmware.NOTE, note)


def poll(task: doubles.FakeTask, *images: dict[str, Any]) -> base.Outcome:
    """Let the timer ring: its time has passed."""
    later(task, task.timers[-1])
    return FIRMWARE.poll_step(task, CLEAN, step(*images))


def finish(task: doubles.FakeTask, *images: dict[str, Any]) -> doubles.FakeTask:
    """Poll to the end, each time as if another conductor had the node; return that one's task."""
    for _ in range(80):
        if poll(task, *images) is base.DONE:
            assert task.recall(firmware.NOTE) is None
            return task
        timers, task = task.timers, task.elsewhere()
        task.timers = timers
    raise AssertionError(task.recall(firmware.NOTE))


def failure(task: doubles.FakeTask, *images: dict[str, Any]) -> str:
    """Poll until it fails; return what it says."""
    for _ in range(80):
        try:
            assert poll(task, *images) is base.WAIT
        except errors.StepFailed as why:
            assert task.recall(firmware.NOTE) is None
            return str(why.facts["reason"])
    raise AssertionError(task.recall(firmware.NOTE))


def versions(machine: bmc.Machine) -> dict[str, str]:
    task = conftest.task_of(machine)
    return {one.component: one.version for one in FIRMWARE.cache_firmware_components(task)}


def orders(machine: bmc.Machine) -> list[Any]:
    return [one.body for one in machine.requests if one.title == UPDATE]


def phase(task: doubles.FakeTask) -> str:
    return str(task.recall(firmware.NOTE)["phase"])


# -- it goes well -------------------------------------------------------------------------------


def test_versions_are_told(served: bmc.Machine) -> None:
    told = {"bios": "P79 v1.45", "bmc": "1.45.455b66-rev4", CARD: "7.4.10"}
    assert versions(served) == told
    [card] = [
        one
        for one in FIRMWARE.cache_firmware_components(conftest.task_of(served))
        if one.component == CARD
    ]
    assert f"nic:{card.serial_number}" == CARD
    assert card.vendor and card.model
    # As some BMCs answer while the system is off.
    served.tricks["GET */NetworkAdapters"] = bmc.says(400)
    assert set(versions(served)) == {"bios", "bmc"}


def test_a_bmc_that_tells_no_version_says_so(served: bmc.Machine) -> None:
    del served[served.system]["BiosVersion"]
    del served[served.places.manager]["FirmwareVersion"]
    del served[served.places.chassis]["NetworkAdapters"]
    with pytest.raises(errors.UnsupportedDriverExtension, match="it tells none"):
        FIRMWARE.cache_firmware_components(conftest.task_of(served))


def test_nothing_is_sent_before_it_is_kept_that_it_will_be(served: bmc.Machine) -> None:
    task = conftest.task_of(served)
    begin(task, BIOS)
    assert (served.changes(), phase(task), task.timers) == ([], "send", [0.0])
    assert poll(task, BIOS) is base.WAIT
    [body] = orders(served)
    assert body == {"ImageURI": URL.format("BIOS-2.0"), "TransferProtocol": "HTTP"}


def test_a_bios_is_updated_and_the_bmc_seen_to_settle(served: bmc.Machine) -> None:
    task = conftest.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)
    assert sum(task.timers) > 0
    assert versions(served)["bios"] == "2.0"
    assert (len(orders(served)), served.sent) == (1, [])


def test_a_bios_that_waits_for_the_boot_gets_it_at_once(served: bmc.Machine) -> None:
    served.habits.firmware_on_reset = True
    served[served.system]["PowerState"] = "On"
    task: doubles.FakeTask = conftest.task_of(served)
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
    task = conftest.task_of(served)
    begin(task, BMC)
    finish(task, BMC)
    assert versions(served)["bmc"] == "2.0"
    assert (len(orders(served)), served.sent) == (1, [])


def test_a_bmc_that_breaks_connections_off_is_borne_with(served: bmc.Machine) -> None:
    served.habits.restart_status = 0
    served.habits.restart_requests = 12
    task = conftest.task_of(served)
    begin(task, BMC)
    finish(task, BMC)
    assert versions(served)["bmc"] == "2.0"


def test_sessions_that_die_with_the_bmc_are_renewed(served: bmc.Machine) -> None:
    served.users["root"] = "secret"
    task = conftest.task_of(served)
    begin(task, BMC)
    finish(task, BMC)
    assert versions(served)["bmc"] == "2.0" and served.logins > 1


def test_several_are_done_in_order_with_rests_between_them(served: bmc.Machine) -> None:
    images = (image("bmc", "BMC-2.0", wait=1000), BIOS, NIC)
    task = conftest.task_of(served)
    begin(task, *images)
    finish(task, *images)
    assert sum(task.timers) >= 1000
    names = [body["ImageURI"].rpartition("/")[2] for body in orders(served)]
    assert names == ["BMC-2.0.bin", "BIOS-2.0.bin", "NIC1-8.bin"]
    assert max(task.timers) <= updates.LONGEST_PAUSE
    assert versions(served) == {"bios": "2.0", "bmc": "2.0", CARD: "8"}


def test_a_card_that_waits_is_given_a_while_before_the_machine_is_restarted(
    served: bmc.Machine,
) -> None:
    task = conftest.task_of(served)
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


def test_the_same_version_once_more_is_no_failure(served: bmc.Machine) -> None:
    again = image("bmc", "BMC-1.45.455b66-rev4")
    task = conftest.task_of(served)
    begin(task, again)
    finish(task, again)
    assert sum(task.timers) >= 300


def test_an_update_done_at_once_needs_no_task(served: bmc.Machine) -> None:
    served.habits.tasks = frozenset()
    task = conftest.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)
    assert versions(served)["bios"] == "2.0"


def test_a_bios_whose_version_is_not_told_is_believed_after_a_boot(served: bmc.Machine) -> None:
    def tell_none(handler: bmc.Handler) -> None:
        reply = handler.serving.host.answer(handler.request_read)
        del reply.document["BiosVersion"]
        handler.say(200, reply.document)

    served.tricks[f"GET {served.system}"] = tell_none
    task = conftest.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)
    assert served.sent == ["On"]


# -- conductors die -----------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["running", "done"])
def test_an_order_that_a_dead_conductor_sent_is_not_sent_again(
    served: bmc.Machine, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    served.habits.task_polls = 3 if lost == "running" else 0
    task = conftest.task_of(served)
    begin(task, BIOS)
    saved = task.elsewhere()
    saved.timers = [0.0]
    poll(task, BIOS)  # sent, and the conductor dies before it is kept
    if lost == "done":
        served.finish_tasks()
    monkeypatch.setattr(updates, "LIFE", "another")
    finish(saved, BIOS)
    assert len(orders(served)) == 1
    assert versions(served)["bios"] == "2.0"


def test_an_order_that_was_never_sent_is_sent_by_the_next_conductor(
    served: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = conftest.task_of(served)
    begin(task, BIOS)
    monkeypatch.setattr(updates, "LIFE", "another")
    finish(task, BIOS)
    assert len(orders(served)) == 1


def test_a_connection_that_breaks_while_an_order_is_sent(served: bmc.Machine) -> None:
    def swallow(handler: bmc.Handler) -> None:
        handler.serving.host.answer(handler.request_read)
        bmc.hangs_up(handler)

    served.habits.task_polls = 5
    served.tricks[UPDATE] = swallow
    task = conftest.task_of(served)
    begin(task, BIOS)
    assert poll(task, BIOS) is base.WAIT
    finish(task, BIOS)
    assert len(orders(served)) == 1
    assert versions(served)["bios"] == "2.0"


# -- it goes wrong ------------------------------------------------------------------------------


def test_a_task_that_fails_is_told_in_the_bmc_s_words_and_ends_the_list(
    served: bmc.Machine,
) -> None:
    served.habits.task_fails = "The signature is not valid."
    task = conftest.task_of(served)
    begin(task, BIOS, BMC)
    said = failure(task, BIOS, BMC)
    assert said.startswith(f"bios was not updated from {URL.format('BIOS-2.0')}: ")
    assert "Exception" in said and "The signature is not valid" in said
    assert len(orders(served)) == 1


def test_an_image_that_the_bmc_refuses(served: bmc.Machine) -> None:
    wrong = image("bios", "holidays")
    task = conftest.task_of(served)
    begin(task, wrong)
    said = failure(task, wrong)
    assert "refused" in said and "no image for this machine" in said


def test_a_busy_bmc_is_asked_again_for_a_while(served: bmc.Machine) -> None:
    served.tricks[UPDATE] = bmc.says_first(3, bmc.says(409))
    task = conftest.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)
    assert versions(served)["bios"] == "2.0"
    served.tricks[UPDATE] = bmc.says(409, {"error": {"message": "An update is running."}})
    begin(task, BMC)
    assert "An update is running" in failure(task, BMC)


def test_a_bmc_that_does_not_come_back(served: bmc.Machine, option: Any) -> None:
    served.habits.restart_requests = 10_000
    option("bmc_timeout", 200)
    task = conftest.task_of(served)
    begin(task, BMC)
    assert "no usable answer for 200 s" in failure(task, BMC)
    patient = conftest.task_of(served, firmware_update_unresponsive_bmc_wait=700)
    served.silent_for = 0
    begin(patient, BMC)
    assert "no usable answer for 700 s" in failure(patient, BMC)


def test_a_bmc_that_does_not_settle(served: bmc.Machine, option: Any) -> None:
    option("resource_validation_timeout", 100)
    option("validation_interval", 30)
    task = conftest.task_of(served)
    begin(task, BIOS)
    while phase(task) != "settle":
        poll(task, BIOS)
    served.tricks[f"GET {served.places.manager}"] = bmc.says(500)
    assert "does not settle within 100 s" in failure(task, BIOS)


def test_settling_can_be_left_out(served: bmc.Machine, option: Any) -> None:
    option("required_successes", 0)
    served.tricks[f"GET {served.places.manager}"] = bmc.says(500)
    task = conftest.task_of(served)
    begin(task, BIOS)
    finish(task, BIOS)


def test_a_task_that_never_ends_is_bounded(served: bmc.Machine, option: Any) -> None:
    served.habits.task_polls = 10_000
    option("overall_timeout", 600)
    task = conftest.task_of(served)
    begin(task, BIOS)
    said = failure(task, BIOS)
    assert "more than 600 s" in said and "firmware_update_overall_timeout" in said


def test_a_task_that_is_forgotten_without_a_new_version_is_a_failure(served: bmc.Machine) -> None:
    task = conftest.task_of(served)
    begin(task, BMC)
    poll(task, BMC)
    served.tasks.clear()
    assert "forgot its task, and the version is still 1.45" in failure(task, BMC)


def test_bad_arguments_are_refused_before_anything_is_asked(served: bmc.Machine) -> None:
    with pytest.raises(errors.InvalidParameter, match="settings/0/url"):
        FIRMWARE.execute_clean_step(
            conftest.task_of(served), step({"component": "bios", "url": "file:///a"})
        )
    assert served.log == []


def test_a_bmc_that_takes_no_updates(served: bmc.Machine) -> None:
    del served.tree["/redfish/v1/UpdateService"]["Actions"]
    task = conftest.task_of(served)
    begin(task, BIOS)
    with pytest.raises(errors.UnsupportedDriverExtension, match="offers no SimpleUpdate"):
        poll(task, BIOS)


def test_the_password_of_an_image_goes_to_the_bmc_and_nowhere_else(served: bmc.Machine) -> None:
    private = {"component": "bios", "url": f"https://me:{SECRET}@images.example.org/BIOS-2.0.bin"}
    served.habits.task_fails = "No."
    task = conftest.task_of(served)
    begin(task, private)
    poll(task, private)
    [body] = orders(served)
    assert (body["Username"], body["Password"]) == ("me", SECRET)
    assert body["ImageURI"] == "https://images.example.org/BIOS-2.0.bin"
    assert body["TransferProtocol"] == "HTTPS"
    assert SECRET not in str(task.recall(firmware.NOTE))
    assert SECRET not in failure(task, private)
