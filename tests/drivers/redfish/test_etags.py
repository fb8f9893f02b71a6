"""Changes of documents whose BMC checks which version is changed (DSP0266, ETags)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_lite import errors
from ironic_lite.drivers.redfish import management
from tests.emulators import bmc
from tests.support import bmc_tasks

MANAGEMENT = management.RedfishManagement()
ISO = "http://192.0.2.1/images/boot.iso"


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


@pytest.fixture(params=["", "2026-11-28T12:00:00+", "a b/"], ids=repr)
def strict(machine: bmc.Machine, request: pytest.FixtureRequest) -> bmc.Machine:
    machine.habits.etag_start = request.param
    machine.habits.needs_etag = True
    return machine


@pytest.fixture(params=["strong", "weak", "in the body", "weak in the body"])
def shown(strict: bmc.Machine, request: pytest.FixtureRequest) -> bmc.Machine:
    strict.habits.weak_etags = "weak" in request.param
    strict.habits.etags_in_body = "body" in request.param
    return strict


def test_boot_device_is_set(shown: bmc.Machine) -> None:
    MANAGEMENT.set_boot_device(bmc_tasks.task_of(shown), "pxe", persistent=True)
    boot = shown[shown.system]["Boot"]
    assert boot["BootSourceOverrideTarget"] == "Pxe"
    assert boot["BootSourceOverrideEnabled"] == "Continuous"


def test_secure_boot_is_switched(shown: bmc.Machine) -> None:
    MANAGEMENT.set_secure_boot_state(bmc_tasks.task_of(shown), True)
    assert shown["SecureBoot"]["SecureBootEnable"] is True


def test_drive_without_actions_is_filled_and_emptied(shown: bmc.Machine) -> None:
    drive = shown["VirtualMedia/Cd"]
    drive["Actions"] = {}

    def allow(handler: bmc.Handler) -> None:
        reply = handler.serving.host.answer(handler.request_read)
        handler.say(200, reply.document, Allow="GET, PATCH", **reply.headers)

    shown.tricks[f"GET {shown.places.media}/Cd"] = allow
    task = bmc_tasks.task_of(shown)
    MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert drive["Image"] == ISO
    MANAGEMENT.detach_virtual_media(task)
    assert drive["Image"] is None


def test_refusal_of_every_etag_is_reported_once(machine: bmc.Machine) -> None:
    title = f"PATCH {machine.system}"
    machine.tricks[title] = bmc.says(412, {"error": {"message": "No."}})
    machine.habits.weak_etags = True
    with pytest.raises(errors.BmcBadAnswer, match="HTTP 412"):
        MANAGEMENT.set_boot_device(bmc_tasks.task_of(machine), "pxe")
    tags = [one.headers["If-Match"] for one in machine.requests if one.title == title]
    strong = machine.etag(machine.system)
    assert tags == [f"W/{strong}", strong, None]
