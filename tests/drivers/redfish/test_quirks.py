"""What makers do in their own way."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from ironic_lite.drivers.redfish import management
from ironic_lite.drivers.redfish.bmc import quirks
from tests.emulators import bmc
from tests.support import bmc_tasks

MANAGEMENT = management.RedfishManagement()


@pytest.mark.parametrize(
    ("names", "vendor"),
    [
        (["AMI"], "AMI"),
        (["American Megatrends International LLC."], "AMI"),
        (["ASRockRack"], "ASRockRack"),
        (["Dell Inc."], "Dell"),
        (["HPE"], "HPE"),
        (["Hewlett Packard Enterprise"], "HPE"),
        (["SUPERMICRO"], "Supermicro"),
        ([None, "Supermicro"], "Supermicro"),
        (["Dell Inc.", "AMI"], "Dell"),
        (["NVIDIA", "AMI"], "AMI"),
    ],
)
def test_a_vendor_is_known_by_whole_words_of_any_case(names: list[str | None], vendor: str) -> None:
    assert quirks.vendor(*names) == vendor
    assert quirks.WHOLE_BOOT.fits(*names) is (vendor in {"AMI", "ASRockRack"})


@pytest.mark.parametrize("name", [None, "", "Miami Servers", "Dellicious", "Contoso"])
def test_other_vendors_have_no_quirks(name: str | None) -> None:
    assert not [row for row in quirks.TABLE if row.fits(name) and not row.by_answer]


def test_rows_are_whole_and_distinct() -> None:
    rows = [row for row in vars(quirks).values() if isinstance(row, quirks.Quirk)]
    assert list(quirks.TABLE) == rows
    assert len({row.name for row in rows}) == len(rows)
    assert all(row.symptom and row.cure and row.source and row.vendors for row in rows)
    assert all(row.by_answer or set(row.vendors) <= quirks.VENDORS.keys() for row in rows)
    words = [word for row in rows for word in row.words]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("firmware", "fits"),
    [
        ("6.10.30.00", False),
        ("7.00.00.171", False),
        ("5.10.00.00", True),
        ("2.1", True),
        ("60.1", True),
        ("", False),
    ],
)
def test_idracs_of_two_major_versions_start_from_the_virtual_drive(
    firmware: str, fits: bool
) -> None:
    assert quirks.CD_IS_NO_MEDIUM.fits("Dell", firmware=firmware) is fits
    assert not quirks.CD_IS_NO_MEDIUM.fits("Contoso", firmware=firmware)


def test_a_row_may_ask_for_a_model() -> None:
    row = dataclasses.replace(quirks.WHOLE_BOOT, model="^dgx")
    assert row.fits("AMI", model="DGXH100")
    assert not row.fits("AMI", model="R750")
    assert not row.fits("AMI")


def test_a_quirk_is_logged_once_for_each_machine(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), bmc.serve() as machine:
        machine.tree[machine.system]["Manufacturer"] = "AMI"
        task = bmc_tasks.task_of(machine)
        for device in ("pxe", "disk", "pxe"):
            MANAGEMENT.set_boot_device(task, device)
    assert [line for line in caplog.messages if "quirk" in line] == [
        f"BMC {machine.url}: quirk whole-boot ({quirks.WHOLE_BOOT.symptom}): "
        f"{quirks.WHOLE_BOOT.cure}"
    ]


BOOT = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Continuous"}
WHOLE = {**BOOT, "BootSourceOverrideMode": "UEFI"}


@pytest.mark.parametrize(
    ("maker", "first", "second"),
    [
        ("Contoso", BOOT, {"BootSourceOverrideTarget": "Hdd"}),
        ("Supermicro", BOOT, {**BOOT, "BootSourceOverrideTarget": "Hdd"}),
        ("AMI", WHOLE, {**WHOLE, "BootSourceOverrideTarget": "Hdd"}),
    ],
)
def test_boot_device_request_depends_on_the_manufacturer(
    maker: str, first: dict[str, str], second: dict[str, str]
) -> None:
    with bmc.serve() as machine:
        machine.tree[machine.system]["Manufacturer"] = maker
        task = bmc_tasks.task_of(machine)
        MANAGEMENT.set_boot_device(task, "pxe", persistent=True)
        MANAGEMENT.set_boot_device(task, "disk", persistent=True)
        sent = [request.body["Boot"] for request in machine.requests if request.method == "PATCH"]
    assert sent == [first, second]


def test_the_maker_of_the_bmcs_service_counts_where_the_machine_names_none() -> None:
    with bmc.serve() as machine:
        del machine.tree[machine.system]["Manufacturer"]
        machine.tree["/redfish/v1"]["Vendor"] = "AMI"
        MANAGEMENT.set_boot_mode(bmc_tasks.task_of(machine), "bios")
        (sent,) = [request.body["Boot"] for request in machine.requests if request.body]
    assert sent == {
        "BootSourceOverrideTarget": "None",
        "BootSourceOverrideEnabled": "Disabled",
        "BootSourceOverrideMode": "Legacy",
    }


@pytest.mark.parametrize("persistent", [True, False])
def test_a_boot_mode_that_goes_with_the_boot_device_comes_back(persistent: bool) -> None:
    def forgets(handler: bmc.Handler) -> None:
        reply = handler.serving.host.answer(handler.request_read)
        if "BootSourceOverrideTarget" in handler.request_read.body["Boot"]:
            machine[machine.system]["Boot"]["BootSourceOverrideMode"] = "Legacy"
        handler.say(reply.status, reply.document)

    with bmc.serve(make="supermicro") as machine:
        title = f"PATCH {machine.system}"
        machine.tricks[title] = forgets
        boot = machine[machine.system]["Boot"]
        task = bmc_tasks.task_of(machine)
        for mode in ("UEFI", "Legacy"):
            boot["BootSourceOverrideMode"] = mode
            MANAGEMENT.set_boot_device(task, "pxe", persistent=persistent)
            assert (boot["BootSourceOverrideMode"], boot["BootSourceOverrideTarget"]) == (
                mode,
                "Pxe",
            )
        assert machine.log.count(title) == 3


def test_a_cd_of_supermicro_is_on_usb() -> None:
    with bmc.serve(make="supermicro") as machine:
        allowed = "BootSourceOverrideTarget@Redfish.AllowableValues"
        machine.tree[machine.system]["Boot"][allowed].append("UsbCd")
        task = bmc_tasks.task_of(machine)
        MANAGEMENT.set_boot_device(task, "cdrom")
        assert machine.tree[machine.system]["Boot"]["BootSourceOverrideTarget"] == "UsbCd"
        assert MANAGEMENT.get_boot_device(task)["boot_device"] == "cdrom"


ALLOWED = "BootSourceOverrideTarget@Redfish.AllowableValues"


def test_an_x10_boots_from_the_cd_it_offers() -> None:
    with bmc.serve(make="supermicro") as machine:
        offered = ["None", "Pxe", "Hdd", "CD/DVD", "BiosSetup", "USBKey", "UsbCd"]
        machine.tree[machine.system]["Boot"][ALLOWED] = offered
        task = bmc_tasks.task_of(machine)
        assert MANAGEMENT.get_supported_boot_devices(task) == ["pxe", "disk", "cdrom", "bios"]
        MANAGEMENT.set_boot_device(task, "cdrom")
        assert machine.tree[machine.system]["Boot"]["BootSourceOverrideTarget"] == "UsbCd"
        machine.tree[machine.system]["Boot"]["BootSourceOverrideTarget"] = "CD/DVD"
        assert MANAGEMENT.get_boot_device(task)["boot_device"] == "cdrom"


@pytest.mark.parametrize("listed", ["null", "missing"])
def test_a_supermicro_that_lists_no_devices_boots_from_cd(listed: str) -> None:
    with bmc.serve(make="supermicro") as machine:
        boot = machine.tree[machine.system]["Boot"]
        del boot[ALLOWED]
        if listed == "null":
            boot[ALLOWED] = None
        task = bmc_tasks.task_of(machine)
        MANAGEMENT.set_boot_device(task, "cdrom")
        assert boot["BootSourceOverrideTarget"] == "Cd"
        assert MANAGEMENT.get_boot_device(task)["boot_device"] == "cdrom"


@pytest.mark.parametrize("persistent", [False, True])
def test_a_boot_device_that_waits_for_the_boot_is_shown(persistent: bool) -> None:
    with bmc.serve() as machine:
        machine.defer_boot()
        task = bmc_tasks.task_of(machine)
        MANAGEMENT.set_boot_device(task, "pxe", persistent=persistent)
        assert machine.tree[machine.system]["Boot"]["BootSourceOverrideTarget"] == "None"
        wanted = {"boot_device": "pxe", "persistent": persistent}
        assert MANAGEMENT.get_boot_device(task) == wanted
        machine.go("On", boots=True)
        assert machine.booted == ["Pxe"]
        used = {"boot_device": None, "persistent": None}
        assert MANAGEMENT.get_boot_device(task) == (wanted if persistent else used)


def test_a_device_for_all_boots_replaces_one_that_waits_for_the_next() -> None:
    with bmc.serve() as machine:
        waiting = machine.defer_boot()
        machine.tree[machine.system]["Boot"]["BootSourceOverrideEnabled"] = "Continuous"
        task = bmc_tasks.task_of(machine)
        MANAGEMENT.set_boot_device(task, "pxe")
        MANAGEMENT.set_boot_device(task, "disk", persistent=True)
        shown = waiting["BootSourceOverrideTarget"], waiting["BootSourceOverrideEnabled"]
        assert shown == ("Hdd", "Continuous")


def test_settings_that_are_not_there_are_no_error() -> None:
    with bmc.serve() as machine:
        machine.defer_boot()
        del machine.tree[f"{machine.system}/SD"]
        boot = MANAGEMENT.get_boot_device(bmc_tasks.task_of(machine))
    assert boot == {"boot_device": None, "persistent": None}


@pytest.mark.parametrize(
    ("offered", "mode"), [(["UEFI"], "UEFI"), (None, "UEFI"), (["Legacy"], "Legacy")]
)
def test_an_ami_that_shows_no_mode_gets_the_one_it_boots_with(
    offered: list[str] | None, mode: str
) -> None:
    with bmc.serve() as machine:
        machine.habits.whole_boot = True
        machine.tree["/redfish/v1"]["Vendor"] = "AMI"
        machine.tree[machine.system]["Manufacturer"] = "NVIDIA"
        boot = machine.tree[machine.system]["Boot"]
        boot["BootSourceOverrideMode"] = None
        del boot["BootSourceOverrideMode@Redfish.AllowableValues"]
        listed = {"BootSourceOverrideMode@Redfish.AllowableValues": offered} if offered else {}
        waiting = machine.defer_boot(**listed)
        task = bmc_tasks.task_of(machine)
        MANAGEMENT.set_boot_device(task, "pxe")
        assert waiting["BootSourceOverrideMode"] == mode
        assert MANAGEMENT.get_boot_device(task)["boot_device"] == "pxe"
        modes = MANAGEMENT.get_supported_boot_modes(task)
        one = {"UEFI": ["uefi"], "Legacy": ["bios"]}[mode]
        assert modes == (one if offered else ["bios", "uefi"])


@pytest.mark.parametrize("word", [word for row in quirks.BUSY for word in row.words])
def test_a_bmc_that_is_busy_in_its_makers_words_is_asked_again(word: str) -> None:
    with bmc.serve() as machine:
        refusal = {"error": {"@Message.ExtendedInfo": [{"MessageId": f"Oem.1.0.{word}"}]}}
        machine.tricks[f"PATCH {machine.system}"] = bmc.says_first(2, bmc.says(400, refusal))
        task = bmc_tasks.task_of(machine)
        MANAGEMENT.set_boot_device(task, "pxe")
        assert machine.tree[machine.system]["Boot"]["BootSourceOverrideTarget"] == "Pxe"
        assert task.pauses == [5, 10]
