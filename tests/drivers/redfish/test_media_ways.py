"""Virtual drives of BMCs that want more than the standard asks for, and images with secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_lite import errors
from ironic_lite.drivers.redfish import management
from ironic_lite.images import published
from tests.emulators import bmc
from tests.support import bmc_tasks

MANAGEMENT = management.RedfishManagement()
ISO = "http://images.example.org/boot.iso"
INSERT = "POST *VirtualMedia.InsertMedia"


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


@pytest.fixture
def task(machine: bmc.Machine) -> bmc_tasks.BmcTask:
    return bmc_tasks.task_of(machine)


def needs(name: str) -> bmc.Trick:
    """Refuse to insert unless something is said that the standard leaves open."""

    def play(handler: bmc.Handler) -> None:
        if name in handler.request_read.body:
            handler.truth()
            return
        info = {
            "MessageId": "Base.1.8.ActionParameterMissing",
            "Message": f"The action requires the parameter {name} to be present.",
            "MessageArgs": ["InsertMedia", name],
            "RelatedProperties": [f"#/{name}"],
        }
        error = {"code": "Base.1.8.ActionParameterMissing", "message": f"{name} is missing."}
        handler.say(400, {"error": {**error, "@Message.ExtendedInfo": [info]}})

    return play


def test_a_bmc_that_wants_the_protocol_named_gets_it(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.tricks[INSERT] = needs("TransferProtocolType")
    MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    sent = [request.body for request in machine.requests if request.path.endswith("InsertMedia")]
    assert sent[-1] == {"Image": ISO, "TransferProtocolType": "HTTP"}


@pytest.mark.parametrize("url", ["nfs://nas/boot.iso", "smb://nas/boot.iso"])
def test_a_protocol_that_is_not_http_is_named_at_once(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, url: str
) -> None:
    machine.tricks[INSERT] = needs("TransferProtocolType")
    MANAGEMENT.attach_virtual_media(task, "cdrom", url)
    assert machine["VirtualMedia/Cd"]["Image"] == url


def test_a_drive_that_wants_to_know_which_version_is_changed_is_emptied(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    drive = machine["VirtualMedia/Cd"]
    drive.update(Actions={}, Image=ISO, Inserted=True)

    def careful(handler: bmc.Handler) -> None:
        if handler.request_read.headers.get("If-Match"):
            handler.truth()
        else:
            handler.say(428, {"error": {"message": "If-Match is missing."}})

    machine.tricks[f"PATCH {machine.places.media}/Cd"] = careful
    MANAGEMENT.detach_virtual_media(task)
    assert (drive["Image"], drive["Inserted"]) == (None, False)


def test_the_key_of_a_signed_address_reaches_the_bmc_and_nobody_else(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    signed = f"{ISO}?expires=9&signature=hush-hush"
    MANAGEMENT.attach_virtual_media(task, "cdrom", signed)
    assert machine["VirtualMedia/Cd"]["Image"] == signed
    assert MANAGEMENT.get_virtual_media(task)[0]["image"] == f"{ISO}?******"
    machine.tricks[INSERT] = bmc.says(400, {"error": {"message": f"Cannot read {signed}."}})
    with pytest.raises(errors.HardwareError, match="Cannot read") as caught:
        MANAGEMENT.attach_virtual_media(task, "cdrom", signed)
    assert "hush-hush" not in str(caught.value.as_data())


def test_secret_part_of_a_mediums_name_is_not_shown(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    name = published.secret_name(task.node.uuid, ".iso")
    secret = name.removeprefix(f"{task.node.uuid}-").removesuffix(".iso")
    MANAGEMENT.attach_virtual_media(task, "cdrom", f"http://192.0.2.1/media/{name}")
    shown = [drive for drive in MANAGEMENT.get_virtual_media(task) if drive["inserted"]]
    assert shown[0]["image"] == f"http://192.0.2.1/media/{task.node.uuid}-******.iso"
    assert secret not in str(shown)
    machine.tricks[INSERT] = bmc.says(400, {"error": {"message": f"Cannot read {name}."}})
    with pytest.raises(errors.HardwareError, match=r"Cannot read \S+-\*{6}\.iso") as why:
        MANAGEMENT.attach_virtual_media(task, "cdrom", f"http://192.0.2.1/media/{name}")
    assert secret not in str(why.value.as_data())
