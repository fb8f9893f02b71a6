"""Virtual drives: what is in them, filling and emptying them."""

from __future__ import annotations

import http.server
import pathlib
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from ironic_lite import errors
from ironic_lite.drivers.redfish import management, virtual_media
from ironic_lite.images import published
from tests.emulators import bmc
from tests.emulators.bmc import shapes
from tests.support import bmc_tasks

MANAGEMENT = management.RedfishManagement()
ISO = "http://images.example.org/boot.iso"
INSERT = "POST *VirtualMedia.InsertMedia"
EJECT = "POST *VirtualMedia.EjectMedia"


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


@pytest.fixture
def task(machine: bmc.Machine) -> bmc_tasks.BmcTask:
    return bmc_tasks.task_of(machine)


def full(machine: bmc.Machine) -> dict[str, str | None]:
    """Return what is in each drive."""
    members = machine.tree[machine.places.media]["Members"]
    drives = [machine.tree[member["@odata.id"]] for member in members]
    return {drive["Id"]: drive["Image"] for drive in drives}


def bodies(machine: bmc.Machine, action: str) -> list[object]:
    return [request.body for request in machine.requests if request.path.endswith(action)]


# -- the emulator ---------------------------------------------------------------------------------


@pytest.fixture
def image(tmp_path: pathlib.Path) -> Iterator[str]:
    """The address of an image that the emulator can read."""
    (tmp_path / "boot.iso").write_bytes(b"\0" * 2048)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/boot.iso"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_emulators_cd_is_filled_anew_and_emptied(
    emulated: bmc_tasks.BmcTask, image: str
) -> None:
    def inserted() -> dict[str, bool]:
        found = MANAGEMENT.get_virtual_media(emulated)
        return {kind: drive["inserted"] for drive in found for kind in drive["device_types"]}

    assert inserted() == {"cdrom": False, "disk": False, "floppy": False}
    for _ in range(2):
        MANAGEMENT.attach_virtual_media(emulated, "cdrom", image)
        assert inserted() == {"cdrom": True, "disk": False, "floppy": False}
    MANAGEMENT.detach_virtual_media(emulated)
    assert inserted() == {"cdrom": False, "disk": False, "floppy": False}


@pytest.mark.parametrize("end", ["task", "operation", "gone"])
def test_tasks_of_a_bmc_that_fill_and_empty_a_drive_are_followed(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, end: str
) -> None:
    machine.habits.tasks = frozenset({"media"})
    machine.habits.task_polls = 40
    machine.habits.monitor_end, machine.habits.task_body = end, end == "task"
    for _ in range(2):
        MANAGEMENT.attach_virtual_media(task, "cdrom", "http://images.example.org/boot.iso")
        assert machine["VirtualMedia/Cd"]["Inserted"] is True
    MANAGEMENT.detach_virtual_media(task)
    assert machine["VirtualMedia/Cd"]["Inserted"] is False
    assert [one.state for one in machine.tasks] == ["Completed"] * 4


def test_reason_of_a_task_that_cannot_fill_a_drive_is_shown(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.habits.tasks = frozenset({"media"})
    machine.habits.task_fails = "No route to s3cret"
    with pytest.raises(errors.HardwareError) as caught:
        MANAGEMENT.attach_virtual_media(task, "cdrom", "http://a:s3cret@images.example.org/b.iso")
    assert "(Exception): No route to" in str(caught.value)
    assert "s3cret" not in str(caught.value)


# -- what there is --------------------------------------------------------------------------------


def test_drives_are_told_in_the_bmcs_words_and_in_ours(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine["VirtualMedia/Cd"].update(Image="cifs://ann:secret@nas/boot.iso", Inserted=True)
    cd, floppy = MANAGEMENT.get_virtual_media(task)
    assert cd["media_types"] == ["CD", "DVD"]
    assert cd["device_types"] == ["cdrom"]
    assert (cd["inserted"], cd["image"]) == (True, "cifs://ann:******@nas/boot.iso")
    assert floppy["device_types"] == ["disk", "floppy"]
    assert (floppy["inserted"], floppy["image"]) == (False, None)
    assert (floppy["id"], floppy["write_protected"]) == ("Floppy", True)


@pytest.mark.parametrize(
    ("id", "name", "types"),
    [
        ("CD1", "virtual CD1", ["cdrom"]),  # GIGABYTE H262
        ("RFS", "Virtual DVD", ["cdrom"]),
        ("USB1", "Media", ["disk"]),
        ("Floppy1", "virtual Floppy1", ["floppy"]),
        ("1", "Virtual Removable Media", []),
        ("ABCD", "Media", []),
        ("VirtualCD1", "Media", ["cdrom"]),
        ("1", "RemoteMediaCD", ["cdrom"]),
        ("VirtualUSBStick", "Media", ["disk"]),
    ],
)
def test_a_drive_without_media_types_is_known_by_its_name(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, id: str, name: str, types: list[str]
) -> None:
    drive = machine["VirtualMedia/Cd"]
    drive.update(Id=id, Name=name, Image="None", ImageName="None")
    del drive["MediaTypes"]
    shown = MANAGEMENT.get_virtual_media(task)[0]
    assert (shown["device_types"], shown["media_types"]) == (types, [])
    assert (shown["inserted"], shown["image"]) == (False, None)
    if "cdrom" in types:
        MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
        assert drive["Image"] == ISO


@pytest.mark.parametrize("image", [None, "", "None"])
def test_an_empty_drive_that_says_inserted_is_not_ejected(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, image: str | None
) -> None:
    """So do some BMCs of Supermicro, which refuse to eject what is not connected."""
    drive = machine["VirtualMedia/Cd"]
    drive.update(Inserted=True, ConnectedVia="NotConnected", Image=image)
    machine.tricks["POST *EjectMedia"] = bmc.says(405)

    def accept(handler: bmc.Handler) -> None:
        drive["Inserted"] = False
        handler.truth()

    machine.tricks["POST *InsertMedia"] = accept
    assert MANAGEMENT.get_virtual_media(task)[0]["inserted"] is False
    MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert drive["Image"] == ISO


def give_system(machine: bmc.Machine, *types: str) -> str:
    """Give the system a drive of its own, with a slash of the managers' in no place."""
    path = f"{machine.system}/VirtualMedia"
    machine.tree[machine.system]["VirtualMedia"] = shapes.link(path)
    machine.tree[path] = shapes.collection(path, "VirtualMedia", [f"{path}/1"])
    drive = {**machine["VirtualMedia/Cd"], "@odata.id": f"{path}/1", "MediaTypes": list(types)}
    words = ("InsertMedia", "EjectMedia")
    drive["Actions"] = {
        f"#VirtualMedia.{word}": {"target": f"{path}/1/Actions/VirtualMedia.{word}"}
        for word in words
    }
    machine.tree[f"{path}/1"] = drive
    return f"{path}/1"


def test_a_system_with_drives_of_its_own_is_filled_first_and_all_are_emptied(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    place = give_system(machine, "DVD")
    assert len(MANAGEMENT.get_virtual_media(task)) == 3
    machine["Managers/1/VirtualMedia/Cd"].update(Image="http://old/old.iso", Inserted=True)
    MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert machine.tree[place]["Image"] == ISO
    assert full(machine) == {"Cd": None, "Floppy": None}
    MANAGEMENT.detach_virtual_media(task, ["cdrom"])
    assert machine.tree[place]["Image"] is None


def test_a_machine_without_virtual_drives_says_so(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    del machine.tree[machine.places.manager]["VirtualMedia"]
    lacking = pytest.raises(errors.UnsupportedDriverExtension, match="has no VirtualMedia")
    with lacking:
        MANAGEMENT.get_virtual_media(task)
    with lacking:
        MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    with lacking:
        MANAGEMENT.detach_virtual_media(task)


# -- filling --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "drive"), [("cdrom", "Cd"), ("disk", "Floppy")])
def test_an_image_is_put_into_the_drive_of_its_type_in_place_of_another(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, device: str, drive: str
) -> None:
    machine[f"VirtualMedia/{drive}"].update(Image="http://old/old.iso", Inserted=True)
    MANAGEMENT.attach_virtual_media(task, device, ISO)
    assert full(machine)[drive] == ISO
    assert [title.rpartition(".")[2] for title in machine.changes()] == [
        "EjectMedia",
        "InsertMedia",
    ]


def test_user_and_password_of_an_address_go_apart(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    MANAGEMENT.attach_virtual_media(task, "cdrom", "cifs://ann:p%40ss@nas/share/boot.iso")
    (sent,) = bodies(machine, "InsertMedia")
    assert sent == {
        "Image": "cifs://nas/share/boot.iso",
        "UserName": "ann",
        "Password": "p@ss",
        "TransferProtocolType": "CIFS",
    }


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://host/boot.iso", "its scheme is 'ftp', not one of http, https, nfs, cifs, smb"),
        ("file:///etc/passwd", "its scheme is 'file'"),
        ("boot.iso", "its scheme is ''"),
        ("http:///boot.iso", "must have a host and the path of an image"),
        ("http://host", "must have a host and the path of an image"),
        ("http://[host/boot.iso", "Invalid IPv6 URL"),
    ],
)
def test_an_address_that_no_bmc_can_read_is_refused_before_one_is_asked(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, url: str, words: str
) -> None:
    with pytest.raises(errors.InvalidParameter, match=f"image_url: {words}"):
        MANAGEMENT.attach_virtual_media(task, "cdrom", url)
    assert machine.log == []


def test_a_protocol_that_the_bmc_does_not_list_is_refused_before_anything_is_ejected(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    drive = machine["VirtualMedia/Cd"]
    drive.update(Image="http://old/old.iso", Inserted=True)
    insert = drive["Actions"]["#VirtualMedia.InsertMedia"]
    insert["TransferProtocolType@Redfish.AllowableValues"] = ["HTTPS", "CIFS"]
    with pytest.raises(errors.InvalidParameter, match="by HTTP, only by CIFS, HTTPS"):
        MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    MANAGEMENT.attach_virtual_media(task, "cdrom", "smb://nas/boot.iso")
    assert full(machine)["Cd"] == "smb://nas/boot.iso"


def test_a_drive_the_machine_has_not_and_one_there_is_not_are_refused(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine["VirtualMedia/Floppy"]["MediaTypes"] = ["Floppy"]
    with pytest.raises(errors.InvalidParameter, match="no virtual disk, only cdrom, floppy"):
        MANAGEMENT.attach_virtual_media(task, "disk", ISO)
    unknown = pytest.raises(errors.InvalidParameter, match="device_type: 'tape' is not one of")
    with unknown:
        MANAGEMENT.attach_virtual_media(task, "tape", ISO)
    with unknown:
        MANAGEMENT.detach_virtual_media(task, ["tape"])
    assert machine.changes() == []


def test_a_drive_without_actions_is_filled_and_emptied_by_patch(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    drive = machine["VirtualMedia/Cd"]
    drive["Actions"] = {}

    def allow(handler: bmc.Handler) -> None:
        handler.say(200, drive, Allow="GET, PATCH")

    machine.tricks[f"GET {machine.places.media}/Cd"] = allow
    MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert (drive["Image"], drive["Inserted"]) == (ISO, True)
    MANAGEMENT.detach_virtual_media(task)
    assert (drive["Image"], drive["Inserted"]) == (None, False)


@pytest.mark.parametrize("status", [400, 405])
def test_a_drive_that_refuses_is_passed_over_for_the_next(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, status: int
) -> None:
    place = give_system(machine, "CD")
    machine.tricks[f"POST {place}/*"] = bmc.says(status)
    MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert full(machine)["Cd"] == ISO


def test_error_has_the_reason_of_each_drive_if_all_refuse(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    place = give_system(machine, "CD")
    machine.tree[place]["Actions"] = {}
    machine.tricks[INSERT] = bmc.says(400, {"error": {"message": "Not licensed."}})
    with pytest.raises(errors.HardwareError) as caught:
        MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert caught.value.message == (
        f"The BMC refused the image {ISO}: {place}: it cannot be filled over Redfish; "
        f"{machine.places.media}/Cd: HTTP 400 (Not licensed)."
    )


def test_a_bmc_still_busy_with_an_ejection_is_told_again(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.tricks[INSERT] = bmc.says_first(2, bmc.says(500))
    MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert full(machine)["Cd"] == ISO
    assert task.pauses == [virtual_media.RETRY_PAUSE] * 2


def test_a_bmc_that_stays_broken_is_told_of(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    machine.tricks[INSERT] = bmc.says(500, {"error": {"message": "No space."}})
    with pytest.raises(errors.BmcBadAnswer, match=r"internal error: HTTP 500 \(No space\)"):
        MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert len(bodies(machine, "InsertMedia")) == virtual_media.TRIES


def test_an_image_that_the_bmc_took_and_never_shows_is_told_of(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.tricks[INSERT] = bmc.says(202)
    with pytest.raises(errors.HardwareError, match=r"does not show it in .* reaches that address"):
        MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert task.pauses == [virtual_media.LOOK_PAUSE] * virtual_media.LOOKS


def test_image_in_a_drive_that_vanishes_is_told_of(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    def vanish(handler: bmc.Handler) -> None:
        machine.tricks[f"GET {machine.places.media}/Cd"] = bmc.says(404)
        handler.say(204)

    machine.tricks[INSERT] = vanish
    with pytest.raises(errors.HardwareError, match="does not show it in"):
        MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)


def test_a_bmc_that_never_tells_is_believed(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    drive = machine["VirtualMedia/Cd"]
    del drive["Inserted"]
    machine.tricks[INSERT] = bmc.says(204)
    MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert task.pauses == []


def test_a_password_that_a_bmc_repeats_is_hidden(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    said = {"error": {"message": "Cannot mount with user ann and password hush-hush."}}
    for status in (400, 500):
        machine.tricks[INSERT] = bmc.says(status, said)
        with pytest.raises(errors.HardwareError, match=r"user ann and password [*]+") as caught:
            MANAGEMENT.attach_virtual_media(task, "cdrom", "cifs://ann:hush-hush@nas/boot.iso")
        assert "hush-hush" not in str(caught.value.as_data())


@pytest.mark.parametrize(("firmware", "warned"), [("5.10.50.00", True), ("7.00.00.171", False)])
def test_a_dell_that_will_not_start_from_its_virtual_cd_is_warned_of(
    caplog: pytest.LogCaptureFixture, firmware: str, warned: bool
) -> None:
    with bmc.serve(make="dell") as machine:
        machine.tree[machine.places.manager]["FirmwareVersion"] = firmware
        MANAGEMENT.attach_virtual_media(bmc_tasks.task_of(machine), "cdrom", ISO)
    assert ("the boot device cdrom is not the virtual drive" in caplog.text) is warned


# -- emptying -------------------------------------------------------------------------------------


def test_requested_full_drives_are_emptied(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    for drive in ("Cd", "Floppy"):
        machine[f"VirtualMedia/{drive}"].update(Image=ISO, Inserted=True)
    MANAGEMENT.detach_virtual_media(task, ["cdrom"])
    assert full(machine) == {"Cd": None, "Floppy": ISO}
    MANAGEMENT.detach_virtual_media(task)
    MANAGEMENT.detach_virtual_media(task)
    assert full(machine) == {"Cd": None, "Floppy": None}
    assert len(machine.changes()) == 2


def test_a_bmc_that_cannot_read_an_empty_object_gets_none(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine["VirtualMedia/Cd"].update(Image=ISO, Inserted=True)

    def fussy(handler: bmc.Handler) -> None:
        if handler.request_read.raw:
            handler.say(415)
        else:
            handler.truth()

    machine.tricks[EJECT] = fussy
    MANAGEMENT.detach_virtual_media(task)
    assert full(machine)["Cd"] is None


@pytest.mark.parametrize(
    ("status", "words"),
    [(204, "still shows an image in it"), (500, "internal error"), (403, "does not allow this")],
)
def test_an_image_that_stays_in_is_told_of(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, status: int, words: str
) -> None:
    machine["VirtualMedia/Cd"].update(Image=ISO, Inserted=True)
    machine.tricks[EJECT] = bmc.says(status)
    with pytest.raises(errors.HardwareError, match=words):
        MANAGEMENT.detach_virtual_media(task)


def test_former_image_that_stays_in_is_not_reported_as_the_new_one(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine["VirtualMedia/Cd"].update(Image="http://old/old.iso", Inserted=True)
    machine.tricks[EJECT] = bmc.says(204)
    machine.tricks[INSERT] = bmc.says(204)
    with pytest.raises(errors.HardwareError, match="still shows an image in it"):
        MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)


def test_next_drive_is_not_filled_beside_a_former_image(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    """The machine would boot from the first of the two."""
    place = give_system(machine, "CD")
    machine.tree[place].update(Image="http://old/old.iso", Inserted=True)
    machine.tricks[EJECT] = bmc.says(204)
    machine.tricks[f"POST {place}/*InsertMedia"] = bmc.says(400)
    with pytest.raises(errors.HardwareError, match="still shows an image in it"):
        MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert full(machine)["Cd"] is None


# Virtual drives of BMCs that want more than the standard asks for, and images with secrets.


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
