"""Updates of firmware that fail: what is said, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers.redfish.firmware import interface
from tests.emulators import bmc
from tests.support import bmc_tasks
from tests.support.firmware_updates import (
    BIOS,
    BMC,
    FIRMWARE,
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
    assert SECRET not in str(task.recall(interface.NOTE))
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
