"""Booting from virtual media: the drive, the medium, the device, and what is left afterwards."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import io
import json
import os
import pathlib
import shlex
from collections.abc import Iterator
from typing import Any

import pycdlib
import pytest
import requests

from ironic_lite import errors
from ironic_lite.conductor import fileserver
from ironic_lite.core import config, masking
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import deploy, inspect
from ironic_lite.drivers.boot import medium, sources
from ironic_lite.drivers.fake import hardware
from ironic_lite.drivers.redfish import boot
from ironic_lite.images import cache, configdrive
from tests.emulators import bmc, machines
from tests.emulators import images as image_server
from tests.emulators.agent import service
from tests.support import bmc_tasks, fake_task
from tests.support.conductor_fixture import wait_for

BOOT = boot.RedfishVirtualMediaBoot()
API = "http://192.0.2.1:6385"
TOKEN = {"ipa-agent-token": "t0ken-of-43-characters"}
MAC = "52:54:00:AA:00:01"


@pytest.fixture
def parts(tmp_path: pathlib.Path) -> dict[str, str]:
    """The URLs of a ramdisk in folders that nodes may name."""
    folder = tmp_path / "parts"
    folder.mkdir()
    found = {}
    for name in ("deploy_kernel", "deploy_ramdisk", "bootloader"):
        (folder / name).write_bytes(name.encode() * 1000)
        found[name] = f"file://{folder}/{name}"
    return found


@pytest.fixture(autouse=True)
def conf(tmp_path: pathlib.Path) -> Iterator[Any]:
    """A conductor that serves files; restored afterwards."""
    conf = config.CONF
    given: dict[tuple[str | None, str], Any] = {
        (None, "state_path"): str(tmp_path / "state"),
        ("service_catalog", "endpoint_override"): API,
        ("conductor", "file_url_allowed_paths"): [str(tmp_path)],
        ("deploy", "http_url"): "http://192.0.2.1:8080",
    }
    for (group, name), value in given.items():
        conf.set_override(name, value, group=group)
    yield conf
    for group, name in (*given, (None, "isolinux_bin"), (None, "ldlinux_c32")):
        conf.clear_override(name, group=group)


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


@pytest.fixture
def task(machine: bmc.Machine, parts: dict[str, str]) -> bmc_tasks.BmcTask:
    return node_of(machine, **parts)


def node_of(machine: bmc.Machine, **info: Any) -> bmc_tasks.BmcTask:
    """Return a task on the machine's node, with one port."""
    driver = dataclasses.replace(bmc_tasks.REDFISH, boot=BOOT)
    node = fake_task.node(driver="redfish", driver_info={**machine.driver_info, **info})
    port = base.Port({"address": MAC.lower(), "pxe_enabled": True})
    return bmc_tasks.BmcTask(node, driver=driver, ports=[port])


def inserted(machine: bmc.Machine) -> str | None:
    image: str | None = machine["VirtualMedia/Cd"]["Image"]
    return image


def device(machine: bmc.Machine) -> tuple[str, str]:
    chosen = machine[machine.system]["Boot"]
    return chosen["BootSourceOverrideTarget"], chosen["BootSourceOverrideEnabled"]


def media() -> list[pathlib.Path]:
    folder = pathlib.Path(config.CONF.state_path) / "http/media"
    return sorted(folder.iterdir()) if folder.exists() else []


def words(path: pathlib.Path, name: str = "/boot/grub/grub.cfg", first: str = "linux") -> list[str]:
    """Return the command line that a medium's loader reads."""
    disc, out = pycdlib.PyCdlib(), io.BytesIO()
    disc.open(str(path))
    disc.get_file_from_iso_fp(out, rr_path=name)
    disc.close()
    (line,) = (one for one in out.getvalue().decode().splitlines() if one.strip().startswith(first))
    return shlex.split(line)


# -- a medium of our own --------------------------------------------------------------------------


def test_the_machine_boots_once_from_a_medium_of_its_own(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    BOOT.prepare_ramdisk(task, TOKEN)
    (made,) = media()
    assert inserted(machine) == f"http://192.0.2.1:8080/media/{made.name}"
    assert device(machine) == ("Cd", "Once")
    line = words(made)
    assert line[:2] == ["linux", "/vmlinuz"]
    told = dict(word.split("=", 1) for word in line[2:] if "=" in word)
    publisher = made.read_bytes()[16 * 2048 + 318 :][:128].decode().rstrip()
    assert told == {
        "ipa-api-url": API,
        **TOKEN,
        "boot_method": "vmedia",
        "ir_pub_id": publisher,
        "BOOTIF": "01-52-54-00-aa-00-01",
        "vga": "normal",
    }
    assert len(publisher) == 36


@pytest.mark.parametrize(("forced", "word"), [("Always", "Continuous"), ("Never", "Once")])
def test_node_decides_whether_the_medium_boots_each_time(
    machine: bmc.Machine, parts: dict[str, str], forced: str, word: str
) -> None:
    task = node_of(machine, **parts, force_persistent_boot_device=forced)
    BOOT.prepare_ramdisk(task, TOKEN)
    assert device(machine) == ("Cd", word)
    BOOT.prepare_instance(task)
    assert device(machine) == ("Hdd", word)


NETWORKS: dict[str, Any] = {"links": [], "networks": [], "services": []}
NETWORK_DATA = "/openstack/latest/network_data.json"


@pytest.mark.parametrize(
    ("mode", "forced", "there"),
    [("deploy", True, True), ("inspect", False, True), ("inspect", True, False)],
)
def test_networks_of_the_node_are_on_its_medium(
    conf: Any, task: bmc_tasks.BmcTask, mode: str, forced: bool, there: bool
) -> None:
    task.node.network_data = NETWORKS
    conf.set_override("force_dhcp", forced, group="inspector")
    try:
        BOOT.check_ramdisk(task, mode)
        BOOT.prepare_ramdisk(task, TOKEN, mode)
    finally:
        conf.clear_override("force_dhcp", group="inspector")
    (made,) = media()
    assert (b"NETWORK_DATA.JSON" in made.read_bytes()) is there
    if there:
        assert json.loads(parts_of(made, NETWORK_DATA)[0]) == NETWORKS


def test_next_medium_of_a_run_follows_the_networks_of_its_node(task: bmc_tasks.BmcTask) -> None:
    task.node.run_uuid = "a run"
    BOOT.prepare_ramdisk(task, TOKEN)
    assert b"NETWORK_DATA.JSON" not in media()[0].read_bytes()
    for networks in (NETWORKS, {**NETWORKS, "services": [{"type": "dns", "address": "::1"}]}):
        task.node.network_data = networks
        BOOT.prepare_ramdisk(task, TOKEN)
        assert json.loads(parts_of(media()[0], NETWORK_DATA)[0]) == networks
    task.node.network_data = {}
    BOOT.prepare_ramdisk(task, TOKEN)
    assert b"NETWORK_DATA.JSON" not in media()[0].read_bytes()


def test_networks_stored_before_the_limit_are_refused_before_the_boot(
    task: bmc_tasks.BmcTask,
) -> None:
    task.node.network_data = {**NETWORKS, "more": "x" * 64 * 1024}
    with pytest.raises(errors.InvalidParameter, match="network_data: has"):
        BOOT.validate(task)


def test_agent_on_a_medium_calls_the_external_url(
    conf: Any, task: bmc_tasks.BmcTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf.set_override("external_callback_url", "https://metal.example:6385/v1", group="deploy")
    conf.clear_override("endpoint_override", group="service_catalog")
    try:
        BOOT.check_ramdisk(task, "inspect")
        inspect.AgentInspect().validate(task)
        inspect.AgentInspect().inspect_hardware(task)
    finally:
        conf.clear_override("external_callback_url", group="deploy")
    (made,) = media()
    told = dict(word.split("=", 1) for word in words(made) if "=" in word)
    assert told["ipa-api-url"] == "https://metal.example:6385"
    report = f"https://metal.example:6385/v1/continue_inspection?node_uuid={task.node.uuid}"
    assert told["ipa-inspection-callback-url"] == report


def test_other_persistence_of_a_node_with_media_is_refused() -> None:
    with pytest.raises(errors.InvalidParameter, match="force_persistent_boot_device: must be one"):
        BOOT.check_driver_info({"force_persistent_boot_device": "sometimes"})


MANNERS: dict[str, dict[str, Any]] = {
    "tasks": {"tasks": frozenset({"media"}), "task_polls": 20},
    "tasks that vanish": {"tasks": frozenset({"media"}), "tasks_vanish": True},
    "redirections": {"redirects": 301},
    "503 with Retry-After": {"early": 3},
    "429 with Retry-After": {"early": 3, "early_status": 429},
}


@pytest.mark.parametrize("manner", MANNERS)
def test_machine_boots_from_its_medium_however_the_bmc_answers(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, manner: str
) -> None:
    for name, value in MANNERS[manner].items():
        setattr(machine.habits, name, value)
    BOOT.prepare_ramdisk(task, TOKEN)
    assert inserted(machine)
    assert device(machine) == ("Cd", "Once")
    task.driver.power.set_power_state(task, base.POWER_ON)
    assert machine.booted == ["Cd"]
    BOOT.clean_up_ramdisk(task)
    assert inserted(machine) is None


def test_drive_is_emptied_before_it_is_filled(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine["VirtualMedia/Cd"].update(Image="http://192.0.2.9/old.iso", Inserted=True)
    BOOT.prepare_ramdisk(task, TOKEN)
    orders = [request.path.rpartition(".")[2] for request in machine.requests]
    assert [one for one in orders if one in {"EjectMedia", "InsertMedia"}] == [
        "EjectMedia",
        "InsertMedia",
    ]


def test_the_next_boot_has_a_medium_of_another_name_and_the_last_is_gone(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    BOOT.prepare_ramdisk(task, TOKEN)
    (first,) = media()
    BOOT.prepare_ramdisk(task, {"ipa-agent-token": "another"})
    (second,) = media()
    assert second.name != first.name
    assert inserted(machine) == f"http://192.0.2.1:8080/media/{second.name}"
    assert task.node.uuid in second.name
    assert "ipa-agent-token=another" in words(second)


def test_cleaning_up_ejects_and_removes_and_can_be_repeated(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    BOOT.prepare_ramdisk(task, TOKEN)
    for _ in range(2):
        BOOT.clean_up_ramdisk(task)
        assert (inserted(machine), media()) == (None, [])
    assert task.recall(boot.MEDIUM_NOTE) is None


def test_the_instance_boots_from_disk_for_good(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    BOOT.prepare_ramdisk(task, TOKEN)
    BOOT.prepare_instance(task)
    assert (inserted(machine), media()) == (None, [])
    assert device(machine) == ("Hdd", "Continuous")


def test_a_maker_whose_firmware_boots_what_was_installed_is_left_to_it(
    parts: dict[str, str],
) -> None:
    with bmc.serve() as machine:
        machine[machine.system]["Manufacturer"] = "Lenovo"
        task = node_of(machine, **parts)
        BOOT.prepare_ramdisk(task, TOKEN)
        BOOT.prepare_instance(task)
        assert device(machine) == ("Cd", "Once")
        task.node.properties = {"capabilities": "boot_mode:bios"}
        BOOT.prepare_instance(task)
        assert device(machine) == ("Hdd", "Continuous")


def test_in_bios_mode_isolinux_starts_it(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, conf: Any, tmp_path: pathlib.Path
) -> None:
    for name in ("isolinux_bin", "ldlinux_c32"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
        conf.set_override(name, str(tmp_path / name))
    task.node.properties = {"capabilities": "boot_mode:bios"}
    BOOT.prepare_ramdisk(task, TOKEN)
    (made,) = media()
    assert machine[machine.system]["Boot"]["BootSourceOverrideMode"] == "Legacy"
    line = words(made, "/isolinux/isolinux.cfg", "APPEND")
    assert "ipa-agent-token=t0ken-of-43-characters" in line


def test_a_bmc_with_sticks_only_boots_from_usb(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine["VirtualMedia/Cd"]["MediaTypes"] = ["USBStick"]
    machine[machine.system]["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"] = [
        "Usb",
        "Hdd",
    ]
    BOOT.prepare_ramdisk(task, TOKEN)
    (made,) = media()
    assert inserted(machine) == f"http://192.0.2.1:8080/media/{made.name}"
    assert device(machine) == ("Usb", "Once")
    assert made.read_bytes()[450] == 0xEF  # firmware finds the system partition on a stick
    BOOT.clean_up_ramdisk(task)
    assert (inserted(machine), media()) == (None, [])


# -- another's medium -----------------------------------------------------------------------------


def test_a_whole_image_is_given_by_its_own_address(machine: bmc.Machine) -> None:
    task = node_of(machine, deploy_iso="https://files.example.org/agent.iso")
    BOOT.prepare_ramdisk(task, {})
    assert inserted(machine) == "https://files.example.org/agent.iso"
    assert (media(), device(machine)) == ([], ("Cd", "Once"))
    assert not BOOT.carries_parameters(task)
    BOOT.clean_up_ramdisk(task)
    assert inserted(machine) is None


@pytest.mark.parametrize("form", ["deploy_iso", "boot_iso", "boot_iso of the node"])
def test_conductor_fetches_a_whole_image_if_asked(
    conf: Any, machine: bmc.Machine, web: image_server.Images, form: str
) -> None:
    url = f"{web.url}/live.iso"
    task = node_of(machine, **({"deploy_iso": url} if form == "deploy_iso" else {}))
    source = {} if form != "boot_iso of the node" else {"ramdisk_image_download_source": "local"}
    if not source:
        conf.set_override("ramdisk_image_download_source", "local", group="deploy")
    try:
        if form == "deploy_iso":
            BOOT.prepare_ramdisk(task, {})
        else:
            ramdisk_instance(task, boot_iso=url, **source)
            BOOT.check_ramdisk(task, "instance")
            BOOT.check_instance(task)
            BOOT.prepare_instance(task)
    finally:
        conf.clear_override("ramdisk_image_download_source", group="deploy")
    (made,) = media()
    assert (made.read_bytes(), made.suffix) == (b"an ISO", ".iso")
    assert inserted(machine) == f"http://192.0.2.1:8080/media/{made.name}"
    BOOT.clean_up_ramdisk(task)
    assert media() == []


@pytest.mark.parametrize("source", ["swift", "", 7, ["local"]])
def test_other_sources_of_a_whole_image_are_refused(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, source: object
) -> None:
    ramdisk_instance(task, boot_iso=LIVE, ramdisk_image_download_source=source)
    if source == "":
        BOOT.check_ramdisk(task, "instance")
        return
    with pytest.raises(
        errors.InvalidParameter,
        match=r"instance_info/ramdisk_image_download_source: .* is not one of http, local",
    ):
        BOOT.check_ramdisk(task, "instance")


def test_a_local_whole_image_is_published(machine: bmc.Machine, tmp_path: pathlib.Path) -> None:
    (tmp_path / "agent.iso").write_bytes(b"ISO" * 1000)
    task = node_of(machine, deploy_iso=f"file://{tmp_path}/agent.iso")
    BOOT.prepare_ramdisk(task, {})
    (made,) = media()
    assert inserted(machine) == f"http://192.0.2.1:8080/media/{made.name}"
    assert made.read_bytes() == b"ISO" * 1000
    BOOT.clean_up_ramdisk(task)
    assert (media(), (tmp_path / "agent.iso").exists()) == ([], True)


def test_only_a_medium_made_for_the_node_carries_secrets(
    machine: bmc.Machine, parts: dict[str, str]
) -> None:
    rescue = {"rescue_iso": "http://files.example.org/rescue.iso"}
    task = node_of(machine, **parts, **rescue)
    assert BOOT.carries_parameters(task)
    assert not BOOT.carries_parameters(task, "rescue")


# -- another conductor ----------------------------------------------------------------------------


def elsewhere(task: bmc_tasks.BmcTask, tmp_path: pathlib.Path, url: str) -> bmc_tasks.BmcTask:
    """Return the node's task on another conductor, which has no files yet."""
    config.CONF.set_override("state_path", str(tmp_path / "other"))
    config.CONF.set_override("http_url", url, group="deploy")
    saved = task.elsewhere()
    other = bmc_tasks.BmcTask(saved.node, driver=task.driver, ports=task.ports)
    other.notes = saved.notes
    return other


def test_another_conductor_makes_the_same_medium_where_the_bmc_looks_for_it(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, tmp_path: pathlib.Path
) -> None:
    BOOT.take_over(task)
    assert (media(), machine.requests) == ([], [])  # it boots nothing yet
    BOOT.prepare_ramdisk(task, TOKEN)
    (first,) = media()
    before = list(machine.requests)
    other = elsewhere(task, tmp_path, "http://192.0.2.1:8080")
    BOOT.take_over(other)
    (second,) = media()
    assert (second.name, second.parent) == (first.name, tmp_path / "other/http/media")
    assert "ipa-agent-token=t0ken-of-43-characters" in words(second)
    assert machine.requests == before
    BOOT.take_over(other)
    assert media() == [second]


def test_a_bmc_is_told_the_url_of_a_medium_whose_file_is_here_already(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    """A conductor died before it told the BMC, or has had the node before."""
    BOOT.prepare_ramdisk(task, TOKEN)
    (made,) = media()
    before = made.stat()
    config.CONF.set_override("http_url", "http://192.0.2.2:8080", group="deploy")
    assert BOOT.lacks_files(task)
    BOOT.take_over(task)
    assert inserted(machine) == f"http://192.0.2.2:8080/media/{made.name}"
    assert (made.stat(), BOOT.lacks_files(task)) == (before, False)
    asked = len(machine.log)
    BOOT.take_over(task)
    assert len(machine.log) == asked


def test_a_bmc_is_told_where_its_medium_is_now(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, tmp_path: pathlib.Path
) -> None:
    BOOT.prepare_ramdisk(task, TOKEN)
    other = elsewhere(task, tmp_path, "http://192.0.2.2:8080")
    machine.tricks["POST *InsertMedia"] = bmc.says(500)
    with pytest.raises(errors.HardwareError):
        BOOT.take_over(other)
    assert BOOT.lacks_files(other)
    del machine.tricks["POST *InsertMedia"]
    BOOT.take_over(other)
    (made,) = media()
    assert inserted(machine) == f"http://192.0.2.2:8080/media/{made.name}"


# -- checks ---------------------------------------------------------------------------------------


def test_all_that_is_missing_is_named(machine: bmc.Machine, parts: dict[str, str]) -> None:
    with pytest.raises(errors.MissingParameter) as why:
        BOOT.validate(node_of(machine))
    for name in ("deploy_kernel", "deploy_ramdisk", "deploy_iso"):
        assert f"driver_info/{name}" in why.value.message
    rest = {key: url for key, url in parts.items() if key != "bootloader"}
    with pytest.raises(errors.MissingParameter, match=r"driver_info/bootloader"):
        BOOT.validate(node_of(machine, **rest))
    for fields in ({**rest, "deploy_iso": "http://files.example.org/a.iso"}, parts):
        BOOT.validate(node_of(machine, **fields))
    with pytest.raises(errors.MissingParameter, match=r"driver_info/rescue_kernel"):
        BOOT.check_ramdisk(node_of(machine, **parts), "rescue")


@pytest.mark.parametrize(
    ("group", "name"), [("service_catalog", "endpoint_override"), ("deploy", "http_url")]
)
def test_an_option_that_is_missing_is_named(
    task: bmc_tasks.BmcTask, conf: Any, group: str, name: str
) -> None:
    conf.clear_override(name, group=group)
    with pytest.raises(errors.MissingParameter, match=rf"\[{group}\]{name}"):
        BOOT.validate(task)


def test_a_node_cannot_name_any_file_of_the_conductor(
    machine: bmc.Machine, parts: dict[str, str]
) -> None:
    task = node_of(machine, **{**parts, "deploy_kernel": "file:///etc/passwd"})
    with pytest.raises(errors.InvalidParameter, match=r"^driver_info/deploy_kernel: is in none"):
        BOOT.prepare_ramdisk(task, TOKEN)
    assert media() == []


def test_notes_of_the_medium_are_shown_to_nobody(task: bmc_tasks.BmcTask) -> None:
    BOOT.prepare_ramdisk(task, TOKEN)
    shown = masking.mask({"driver_notes": {boot.MEDIUM_NOTE: task.recall(boot.MEDIUM_NOTE)}})
    assert shown == {"driver_notes": {boot.MEDIUM_NOTE: masking.MASK}}


# -- the emulator that others wrote ---------------------------------------------------------------


def test_the_emulators_bmc_fetches_the_medium_from_our_own_server(
    emulated: bmc_tasks.BmcTask, parts: dict[str, str], conf: Any
) -> None:
    (pathlib.Path(conf.state_path) / "http").mkdir(parents=True)
    server = fileserver.FileServer("127.0.0.1", 0, 8)
    server.start()
    try:
        conf.set_override("http_url", f"http://127.0.0.1:{server.port}", group="deploy")
        emulated.node.driver_info = {**emulated.node.driver_info, **parts}
        emulated.driver = dataclasses.replace(bmc_tasks.REDFISH, boot=BOOT)
        BOOT.prepare_ramdisk(emulated, TOKEN)
        (made,) = media()
        drives = emulated.driver.management.get_virtual_media(emulated)
        (full,) = (drive for drive in drives if drive["inserted"])
        assert full["device_types"] == ["cdrom"]
        chosen = emulated.driver.management.get_boot_device(emulated)
        assert chosen["boot_device"] == "cdrom"
        answer = requests.get(f"http://127.0.0.1:{server.port}/media/{made.name}", timeout=10)
        assert answer.content == made.read_bytes()
        BOOT.prepare_instance(emulated)
        assert emulated.driver.management.get_boot_device(emulated)["boot_device"] == "disk"
    finally:
        server.stop()


# -- an instance that is a ramdisk ----------------------------------------------------------------


class Netbooting(hardware.FakeDeploy):
    boots_ramdisk = True


def ramdisk_instance(task: bmc_tasks.BmcTask, **told: Any) -> None:
    task.driver = dataclasses.replace(task.driver, deploy=Netbooting())
    task.node.instance_info = told


def test_an_instance_that_is_a_ramdisk_boots_its_medium_each_time(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    parts = {"kernel": "deploy_kernel", "ramdisk": "deploy_ramdisk"}
    urls = {name: task.node.driver_info[source] for name, source in parts.items()}
    ramdisk_instance(task, **urls, ramdisk_kernel_arguments="root=/dev/ram0 quiet")
    BOOT.prepare_ramdisk(task, TOKEN)
    BOOT.prepare_instance(task)
    (made,) = media()
    line = words(made)
    assert line[2:4] == ["root=/dev/ram0", "quiet"]
    assert [word.partition("=")[0] for word in line[4:]] == ["ir_pub_id"]
    assert (device(machine), inserted(machine) is not None) == (("Cd", "Continuous"), True)
    BOOT.clean_up_instance(task)
    assert (media(), inserted(machine)) == ([], None)


def test_ramdisk_instance_needs_an_image_or_a_kernel(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    ramdisk_instance(task, boot_iso="http://files.example.org/live.iso")
    BOOT.check_ramdisk(task, "instance")
    BOOT.prepare_instance(task)
    assert inserted(machine) == "http://files.example.org/live.iso"
    assert device(machine) == ("Cd", "Continuous")
    ramdisk_instance(task)
    with pytest.raises(errors.MissingParameter, match=r"instance_info/kernel, instance_info/ram"):
        BOOT.check_ramdisk(task, "instance")


# -- its configuration drive ----------------------------------------------------------------------

LIVE = "http://files.example.org/live.iso"
DRIVE = {"meta_data": {"name": "web-1"}, "user_data": "#cloud-config\n"}
PACKED = base64.b64encode(gzip.compress(b"a file system" * 100, mtime=0)).decode()


def stick(machine: bmc.Machine) -> str | None:
    image: str | None = machine["VirtualMedia/Floppy"]["Image"]
    return image


def shown(machine: bmc.Machine) -> bytes:
    """Return the file that the stick is."""
    url = stick(machine)
    assert url is not None
    assert url.startswith("http://192.0.2.1:8080/media/")
    (file,) = (path for path in media() if path.name == url.rpartition("/")[2])
    return file.read_bytes()


def fetches(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> list[str]:
    """Let a URL lead to a drive as others keep it; return what was asked for."""
    asked: list[str] = []

    def fetch(url: str, path: str = "url") -> pathlib.Path:
        asked.append(url)
        (tmp_path / "drive").write_text(PACKED)
        return tmp_path / "drive"

    monkeypatch.setattr(cache, "fetch", fetch)
    return asked


@pytest.mark.parametrize("form", ["object", "packed", "url"])
def test_configuration_drive_is_a_usb_stick_beside_the_boot_medium(
    machine: bmc.Machine,
    task: bmc_tasks.BmcTask,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
) -> None:
    asked = fetches(monkeypatch, tmp_path)
    url = "http://files.example.org/drive.gz"
    forms: dict[str, Any] = {"object": DRIVE, "packed": PACKED, "url": url}
    ramdisk_instance(task, boot_iso=LIVE, configdrive=forms[form])
    BOOT.check_ramdisk(task, "instance")
    BOOT.check_instance(task)
    assert machine.changes() == []
    BOOT.prepare_instance(task)
    assert (inserted(machine), device(machine)) == (LIVE, ("Cd", "Continuous"))
    if form == "object":
        disc = pycdlib.PyCdlib()
        disc.open_fp(io.BytesIO(shown(machine)))
        assert disc.pvd.volume_identifier.decode().rstrip() == configdrive.LABEL
    else:
        assert shown(machine) == b"a file system" * 100
    assert set(asked) == ({url} if form == "url" else set())
    for _ in range(2):
        BOOT.clean_up_instance(task)
        assert (media(), inserted(machine), stick(machine)) == ([], None, None)
    assert task.recall(boot.MEDIUM_NOTE) is None


def test_a_ramdisk_that_takes_its_place_does_not_see_the_drive(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    """And the instance has a drive again afterwards, under another name."""
    ramdisk_instance(task, boot_iso=LIVE, configdrive=DRIVE)
    BOOT.prepare_instance(task)
    before = stick(machine)
    BOOT.prepare_ramdisk(task, TOKEN)
    assert (stick(machine), len(media())) == (None, 1)
    BOOT.clean_up_ramdisk(task)
    BOOT.prepare_instance(task)
    assert stick(machine) not in (None, before)
    assert (len(media()), inserted(machine)) == (1, LIVE)


@pytest.mark.parametrize(
    "drives",
    [
        {"Cd": ["CD", "DVD"], "Floppy": ["Floppy"]},
        {"Cd": ["CD", "DVD", "USBStick"], "Floppy": ["Floppy"]},
        {"Cd": ["USBStick"], "Floppy": ["USBStick"]},
    ],
    ids=["no stick", "one drive for either", "no disc"],
)
def test_a_bmc_without_a_place_for_both_is_refused_before_the_machine_is_touched(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, drives: dict[str, list[str]]
) -> None:
    for name, types in drives.items():
        machine[f"VirtualMedia/{name}"]["MediaTypes"] = types
    ramdisk_instance(task, boot_iso=LIVE, configdrive=DRIVE)
    with pytest.raises(errors.InvalidParameter, match="needs a virtual USB stick beside") as why:
        BOOT.check_instance(task)
    assert why.value.facts["path"] == "instance_info/configdrive"
    assert "Cd (" in str(why.value)
    assert machine.changes() == []
    ramdisk_instance(task, boot_iso=LIVE)
    BOOT.check_instance(task)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["CD", "DVD", "USBStick"], ["CD", "DVD", "USBStick"]),
        (["CD", "USBStick"], ["CD"]),
        (["CD"], ["CD", "USBStick"]),
    ],
    ids=["both either", "the first either", "the second either"],
)
def test_drives_that_may_be_either_hold_one_medium_each(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, one: list[str], other: list[str]
) -> None:
    machine["VirtualMedia/Cd"]["MediaTypes"] = one
    machine["VirtualMedia/Floppy"].update(MediaTypes=other, Image="http://b/old", Inserted=True)
    ramdisk_instance(task, boot_iso=LIVE, configdrive=PACKED)
    for _ in range(2):
        BOOT.prepare_instance(task)
        held = {inserted(machine), stick(machine)}
        (drive,) = held - {LIVE}
        assert drive is not None
        assert drive.endswith(".img")
        assert len(media()) == 1
    BOOT.clean_up_instance(task)
    assert (inserted(machine), stick(machine)) == (None, None)


def test_another_conductor_makes_the_drive_where_the_bmc_looks_for_it(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, conf: Any
) -> None:
    ramdisk_instance(task, boot_iso=LIVE, configdrive=PACKED)
    BOOT.prepare_instance(task)
    (made,) = media()
    made.unlink()
    assert BOOT.lacks_files(task)
    before = machine.changes()
    BOOT.take_over(task)
    assert not BOOT.lacks_files(task)
    assert (media(), machine.changes()) == ([made], before)
    made.unlink()
    conf.set_override("http_url", "http://192.0.2.2:8080", group="deploy")
    BOOT.take_over(task)
    assert stick(machine) == f"http://192.0.2.2:8080/media/{made.name}"
    assert inserted(machine) == LIVE


def test_invalid_drive_is_refused_before_the_machine_is_touched(
    machine: bmc.Machine,
    task: bmc_tasks.BmcTask,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    conf: Any,
) -> None:
    fetches(monkeypatch, tmp_path)
    monkeypatch.setitem(globals(), "PACKED", "<html>not found</html>")
    ramdisk_instance(task, boot_iso=LIVE, configdrive="http://files.example.org/drive.gz")
    with pytest.raises(errors.InvalidParameter, match="no file system as gzip in base64"):
        BOOT.check_instance(task)
    assert machine.log == []
    conf.clear_override("http_url", group="deploy")
    with pytest.raises(errors.MissingParameter, match=r"\[deploy\]http_url"):
        BOOT.check_ramdisk(task, "instance")
    ramdisk_instance(task, boot_iso=LIVE)
    BOOT.check_ramdisk(task, "instance")


def test_a_whole_image_with_a_checksum_is_looked_at_and_served_here(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "live.iso").write_bytes(b"an ISO")
    digest = hashlib.sha256(b"an ISO").hexdigest()
    iso = f"file://{tmp_path}/live.iso"
    ramdisk_instance(task, boot_iso=iso, image_checksum=digest)
    BOOT.check_instance(task)
    BOOT.prepare_instance(task)
    (made,) = media()
    assert (made.read_bytes(), made.suffix) == (b"an ISO", ".iso")
    assert inserted(machine) == f"http://192.0.2.1:8080/media/{made.name}"
    (tmp_path / "live.iso").write_bytes(b"another ISO")
    with pytest.raises(errors.ImageUnusable, match="its sha256 is"):
        BOOT.check_instance(task)
    ramdisk_instance(task, boot_iso=LIVE, image_checksum=digest)
    assert not sources.is_handed_on(task.node.instance_info)


# -- a server that changes during a run -----------------------------------------------------------

_WEB = {"deploy_kernel": b"k" * 9000, "deploy_ramdisk": b"r" * 9000, "bootloader": b"b" * 9000}


@pytest.fixture
def web(tmp_path: pathlib.Path) -> Iterator[image_server.Images]:
    folder = tmp_path / "web"
    folder.mkdir()
    for name, content in {**_WEB, "live.iso": b"an ISO", "drive": PACKED.encode()}.items():
        (folder / name).write_bytes(content)
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(b'an ISO').hexdigest()} *live.iso\n")
    with image_server.serve(folder) as found:
        yield found


def lose(web: image_server.Images, fate: str) -> None:
    """Change all files of a server, or let it answer no more."""
    for path in web.folder.iterdir():
        path.write_bytes(b"another " + path.read_bytes())
        os.utime(path, (path.stat().st_mtime + 60,) * 2)  # Last-Modified has whole seconds
    if fate == "hangs":
        web.hang()


def parts_of(path: pathlib.Path, *names: str) -> list[bytes]:
    disc, found = pycdlib.PyCdlib(), []
    disc.open(str(path))
    for name in names:
        out = io.BytesIO()
        disc.get_file_from_iso_fp(out, rr_path=name)
        found.append(out.getvalue())
    disc.close()
    return found


FATES = pytest.mark.parametrize("fate", ["changed", "hangs"])


def test_boot_ends_the_service_of_the_image_in_its_drive(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, web: image_server.Images
) -> None:
    """The drive of the boot is emptied, and the image in the other one stays."""
    for drive in ("cdrom", "disk"):
        medium.attach(task, drive, f"{web.url}/deploy_kernel", local=True)
    cd, usb = inserted(machine), stick(machine)
    assert None not in {cd, usb}
    BOOT.prepare_ramdisk(task, TOKEN)
    assert [*task.recall(medium.ATTACHED_NOTE)] == ["disk"]
    BOOT.clean_up_ramdisk(task)
    assert [file.name for file in media()] == [str(usb).rpartition("/")[2]]
    medium.detach(task, None)
    assert (media(), task.recall(medium.ATTACHED_NOTE)) == ([], None)


def test_image_that_was_ejected_for_a_refused_one_is_served_no_longer(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, web: image_server.Images
) -> None:
    for where in (f"{web.url}/deploy_ramdisk", "http://192.0.2.8/a.iso"):
        medium.attach(task, "cdrom", f"{web.url}/deploy_kernel", local=True)
        machine.tricks[f"POST {machine.places.media}/Cd/Actions/VirtualMedia.InsertMedia"] = (
            bmc.says(400)
        )
        with pytest.raises(errors.HardwareError):
            medium.attach(task, "cdrom", where, local=web.url in where)
        assert (inserted(machine), task.recall(medium.ATTACHED_NOTE)) == (None, None)
        machine.tricks.clear()


@FATES
@pytest.mark.parametrize("mode", ["uefi", "bios"])
def test_next_medium_of_a_run_has_the_parts_of_the_last(
    machine: bmc.Machine, web: image_server.Images, tmp_path: pathlib.Path, mode: str, fate: str
) -> None:
    for name in ("isolinux_bin", "ldlinux_c32"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
        config.CONF.set_override(name, str(tmp_path / name))
    task = node_of(machine, **{name: f"{web.url}/{name}" for name in _WEB})
    task.node.run_uuid = "a run"
    task.node.properties = {"capabilities": f"boot_mode:{mode}"}
    BOOT.prepare_ramdisk(task, TOKEN)
    (first,), before = media(), len(web.fetched)
    lose(web, fate)
    for base_medium in (pathlib.Path(config.CONF.state_path) / "media-bases").iterdir():
        base_medium.unlink()  # other nodes needed its room
    BOOT.prepare_ramdisk(task, {"ipa-agent-token": "another"})
    (second,) = media()
    assert second.name != first.name
    assert inserted(machine) == f"http://192.0.2.1:8080/media/{second.name}"
    kernel, ramdisk = parts_of(second, "/vmlinuz", "/initrd")
    assert [kernel, ramdisk] == [_WEB["deploy_kernel"], _WEB["deploy_ramdisk"]]
    if mode == "uefi":
        assert "ipa-agent-token=another" in words(second)
    else:
        line = words(second, "/isolinux/isolinux.cfg", "APPEND")
        assert "ipa-agent-token=another" in line
    assert TOKEN["ipa-agent-token"].encode() not in second.read_bytes()
    assert len(web.fetched) == before


@FATES
@pytest.mark.parametrize("form", ["parts", "iso"])
def test_instance_boots_from_the_medium_and_the_drive_of_its_check(
    machine: bmc.Machine, web: image_server.Images, form: str, fate: str
) -> None:
    task = node_of(machine, bootloader=f"{web.url}/bootloader")
    task.node.run_uuid = "a run"
    forms = {
        "parts": {name: f"{web.url}/deploy_{name}" for name in ("kernel", "ramdisk")},
        "iso": {"boot_iso": f"{web.url}/live.iso", "image_checksum": f"{web.url}/SHA256SUMS"},
    }
    ramdisk_instance(task, **forms[form], configdrive=f"{web.url}/drive")
    BOOT.check_instance(task)
    before = len(web.fetched)
    assert machine.changes() == []
    lose(web, fate)
    BOOT.check_instance(task)
    BOOT.prepare_instance(task)
    made, drive = sorted(media(), key=lambda file: file.suffix, reverse=True)
    assert inserted(machine) == f"http://192.0.2.1:8080/media/{made.name}"
    assert stick(machine) == f"http://192.0.2.1:8080/media/{drive.name}"
    assert drive.read_bytes() == b"a file system" * 100
    if form == "iso":
        assert made.read_bytes() == b"an ISO"
    else:
        assert parts_of(made, "/vmlinuz") == [_WEB["deploy_kernel"]]
    BOOT.prepare_instance(task)  # a repeated step
    assert len(web.fetched) == before
    drive.unlink()
    web_drive = web.folder / "drive"
    if fate == "changed":  # only the missing file is fetched
        web_drive.write_text(PACKED)
        BOOT.take_over(task)
        assert web.fetched[before:] == ["drive"]
        assert drive.exists()
    BOOT.clean_up_instance(task)
    assert (media(), task.recall(boot.PREPARED_NOTE)) == ([], None)


def test_whole_image_needs_no_file_of_authorities(machine: bmc.Machine, tmp_path: Any) -> None:
    config.CONF.set_override("api_ca_file", str(tmp_path / "missing.pem"), "agent")
    try:
        BOOT.prepare_ramdisk(node_of(machine, deploy_iso="http://192.0.2.9/ipa.iso"), {})
    finally:
        config.CONF.clear_override("api_ca_file", "agent")
    assert inserted(machine) == "http://192.0.2.9/ipa.iso"


def test_another_run_asks_the_server_for_the_parts(
    machine: bmc.Machine, web: image_server.Images
) -> None:
    task = node_of(machine, **{name: f"{web.url}/{name}" for name in _WEB})
    task.node.run_uuid = "a run"
    BOOT.prepare_ramdisk(task, TOKEN)
    lose(web, "changed")
    task.node.run_uuid = "another run"
    BOOT.prepare_ramdisk(task, TOKEN)
    (made,) = media()
    assert parts_of(made, "/vmlinuz") == [b"another " + _WEB["deploy_kernel"]]


# A BMC that is lost keeps no secret of its machine where others can read it.


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """The media of a conductor."""
    given = {
        (None, "state_path"): str(tmp_path),
        ("service_catalog", "endpoint_override"): "http://192.0.2.1:6385",
        ("conductor", "file_url_allowed_paths"): [str(tmp_path)],
        ("deploy", "http_url"): "http://192.0.2.1:8080",
    }
    for (group, name), value in given.items():
        config.CONF.set_override(name, value, group=group)
    yield tmp_path / "http/media"
    for group, name in given:
        config.CONF.clear_override(name, group=group)


def test_the_medium_goes_also_if_it_cannot_be_ejected(
    folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    info = {}
    for name in ("deploy_kernel", "deploy_ramdisk", "bootloader"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
        info[name] = f"file://{tmp_path}/{name}"
    with bmc.serve() as machine:
        node = fake_task.node(driver="redfish", driver_info={**machine.driver_info, **info})
        task = bmc_tasks.BmcTask(node, driver=dataclasses.replace(bmc_tasks.REDFISH, boot=BOOT))
        BOOT.prepare_ramdisk(task, {"ipa-agent-token": "t0ken"})
        assert len(list(folder.iterdir())) == 1
        machine.tricks["POST *VirtualMedia.EjectMedia"] = bmc.says(400, {"error": {}})
        with pytest.raises(errors.HardwareError):
            BOOT.clean_up_ramdisk(task)
        assert list(folder.iterdir()) == []
        del machine.tricks["POST *VirtualMedia.EjectMedia"]
        BOOT.clean_up_ramdisk(task)
        assert machine["VirtualMedia/Cd"]["Image"] is None


# A machine behind a BMC that others wrote boots our medium; its real agent tells what it is.

AGENT_TOKEN = "made-before-the-boot-0123456789-0123456789a"


@pytest.fixture
def rack() -> Iterator[machines.Rack]:
    with machines.serve() as found:
        yield found


@pytest.fixture
def api() -> Iterator[service.Service]:
    with service.serve("00000000-1111-4222-8333-444444444444") as found:
        yield found


@pytest.fixture
def conductor(tmp_path: pathlib.Path, api: service.Service) -> Iterator[None]:
    """The file server and the options of a conductor."""
    conf = config.CONF
    conf.set_override("state_path", str(tmp_path / "state"))
    conf.set_override("endpoint_override", api.url, group="service_catalog")
    conf.set_override("file_url_allowed_paths", [str(tmp_path)], group="conductor")
    server = fileserver.FileServer("127.0.0.1", 0, 8)
    server.start()
    conf.set_override("http_url", f"http://127.0.0.1:{server.port}", group="deploy")
    yield
    server.stop()
    conf.clear_override("state_path")
    conf.clear_override("endpoint_override", group="service_catalog")
    conf.clear_override("file_url_allowed_paths", group="conductor")
    conf.clear_override("http_url", group="deploy")


def task_of(machine: machines.Machine, address: str, folder: pathlib.Path) -> bmc_tasks.BmcTask:
    info: dict[str, Any] = {"redfish_address": address, "redfish_system_id": machine.system_id}
    for name in ("deploy_kernel", "deploy_ramdisk", "bootloader"):
        (folder / name).write_bytes(name.encode() * 100)
        info[name] = f"file://{folder}/{name}"
    driver = dataclasses.replace(bmc_tasks.REDFISH, boot=BOOT)
    port = base.Port({"address": machine.mac, "pxe_enabled": True})
    node = fake_task.node(driver="redfish", driver_info=info)
    return bmc_tasks.BmcTask(node, driver=driver, ports=[port])


@pytest.mark.usefixtures("conductor")
def test_a_real_agent_comes_up_from_the_medium_with_the_token_on_it(
    rack: machines.Rack, api: service.Service, tmp_path: pathlib.Path
) -> None:
    machine = rack[0]
    task = task_of(machine, rack.address, tmp_path)
    BOOT.prepare_ramdisk(task, {"ipa-agent-token": AGENT_TOKEN})
    assert not machine.agent.running
    task.driver.power.set_power_state(task, base.POWER_ON)
    beat = api.beat()
    assert beat["callback_url"] == machine.agent.url
    (given,) = machine.boots
    assert (given["ipa-agent-token"], given["boot_method"]) == (AGENT_TOKEN, "vmedia")
    assert given["BOOTIF"] == f"01-{machine.mac.replace(':', '-')}"
    task.driver.power.set_power_state(task, base.POWER_OFF)
    wait_for(lambda: not machine.agent.running)
    BOOT.prepare_instance(task)
    task.driver.power.set_power_state(task, base.POWER_ON)
    wait_for(lambda: machine.on)
    assert (machine.agent.running, len(machine.boots), machine.faults) == (False, 1, [])


# -- a medium that firmware reads by HTTP ---------------------------------------------------------

HTTPS = boot.RedfishHttpsBoot()
NO_URL = "this BMC takes no HttpBootUri: use redfish-virtual-media or http-ipxe"
Boot = dict[str, Any]


def boots(machine: bmc.Machine, place: str = "") -> Boot:
    found: Boot = machine[f"{machine.system}{place}"]["Boot"]
    return found


@pytest.fixture
def far(machine: bmc.Machine, parts: dict[str, str]) -> bmc_tasks.BmcTask:
    """A node whose BMC takes a URL for its firmware."""
    boots(machine)["HttpBootUri"] = None
    task = node_of(machine, **parts)
    task.driver = dataclasses.replace(task.driver, boot=HTTPS)
    return task


def patches(machine: bmc.Machine) -> list[Boot]:
    """Return what changes of the Boot object were sent."""
    return [one.body["Boot"] for one in machine.requests if one.method == "PATCH"]


def test_firmware_boots_once_from_the_url_of_a_medium(
    machine: bmc.Machine, far: bmc_tasks.BmcTask
) -> None:
    HTTPS.validate(far)
    HTTPS.prepare_ramdisk(far, TOKEN)
    (made,) = media()
    url = f"http://192.0.2.1:8080/media/{made.name}"
    assert patches(machine) == [
        {
            "BootSourceOverrideTarget": "UefiHttp",
            "HttpBootUri": url,
            "BootSourceOverrideEnabled": "Once",
        }
    ]
    assert {"boot_method=vmedia", "ipa-agent-token=t0ken-of-43-characters"} <= set(words(made))
    assert HTTPS.carries_parameters(far)
    assert (inserted(machine), far.node.driver_internal_info) == (None, {})
    far.driver.power.set_power_state(far, base.POWER_ON)
    assert machine.booted == ["UefiHttp"]
    HTTPS.prepare_instance(far)
    assert (device(machine), media()) == (("Hdd", "Continuous"), [])
    assert boots(machine)["HttpBootUri"] is None


def test_medium_read_by_firmware_has_no_networks(
    far: bmc_tasks.BmcTask, caplog: pytest.LogCaptureFixture
) -> None:
    far.node.network_data = NETWORKS
    HTTPS.prepare_ramdisk(far, TOKEN)
    assert b"NETWORK_DATA.JSON" not in media()[0].read_bytes()
    assert "its ramdisk gets no network_data" in caplog.text


@pytest.mark.parametrize(("forced", "word"), [("Always", "Continuous"), ("Never", "Once")])
def test_node_decides_how_often_firmware_boots_the_url(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, forced: str, word: str
) -> None:
    far.node.driver_info = {**far.node.driver_info, "force_persistent_boot_device": forced}
    HTTPS.prepare_ramdisk(far, TOKEN)
    assert device(machine) == ("UefiHttp", word)


def test_repeated_order_sends_a_new_medium_and_leaves_no_other(
    machine: bmc.Machine, far: bmc_tasks.BmcTask
) -> None:
    """A conductor dies before the order, or after it; the next owner repeats all of it."""
    machine.tricks["PATCH *"] = bmc.hangs_up
    with pytest.raises(errors.HardwareError):
        HTTPS.prepare_ramdisk(far, TOKEN)
    del machine.tricks["PATCH *"]
    sent = []
    for _ in range(2):
        HTTPS.prepare_ramdisk(far, TOKEN)
        (made,) = media()
        sent.append(boots(machine)["HttpBootUri"])
        assert sent[-1] == f"http://192.0.2.1:8080/media/{made.name}"
    assert sent[0] != sent[1]
    machine.tricks["PATCH *"] = bmc.hangs_up
    HTTPS.clean_up_ramdisk(far)
    assert (media(), far.recall(boot.MEDIUM_NOTE)) == ([], None)


@pytest.mark.parametrize("place", ["external_http_url", "[deploy]external_http_url"])
def test_bmc_is_told_the_url_for_bmcs(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, conf: Any, place: str
) -> None:
    url = "https://bmcs.example.org"
    if place.startswith("["):
        conf.set_override("external_http_url", url, group="deploy")
    else:
        far.node.driver_info = {**far.node.driver_info, place: url}
    try:
        HTTPS.prepare_ramdisk(far, TOKEN)
    finally:
        conf.clear_override("external_http_url", group="deploy")
    assert boots(machine)["HttpBootUri"].startswith(f"{url}/media/")


def test_clean_up_removes_the_medium_and_can_be_repeated(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    HTTPS.clean_up_ramdisk(far)
    assert machine.log == []  # it has booted nothing
    HTTPS.prepare_ramdisk(far, TOKEN)
    removed: list[base.Task] = []
    remove = medium.remove

    def count(task: base.Task) -> None:
        removed.append(task)
        remove(task)

    monkeypatch.setattr(medium, "remove", count)
    HTTPS.clean_up_ramdisk(far)
    assert (media(), device(machine)[1], far.recall(boot.MEDIUM_NOTE)) == ([], "Disabled", None)
    assert len(removed) == 1
    sent = len(patches(machine))
    HTTPS.clean_up_ramdisk(far)
    assert len(patches(machine)) == sent


def test_device_that_the_operator_has_chosen_meanwhile_stays(
    machine: bmc.Machine, far: bmc_tasks.BmcTask
) -> None:
    HTTPS.prepare_ramdisk(far, TOKEN)
    far.driver.management.set_boot_device(far, "bios", persistent=False)
    HTTPS.clean_up_ramdisk(far)
    assert device(machine) == ("BiosSetup", "Once")


def test_bmc_that_refuses_to_drop_the_device_is_a_warning(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, caplog: pytest.LogCaptureFixture
) -> None:
    HTTPS.prepare_ramdisk(far, TOKEN)
    (made,) = media()
    url = boots(machine)["HttpBootUri"]
    error = {"error": {"@Message.ExtendedInfo": [{"Message": f"{url} is in use."}]}}
    machine.tricks["PATCH *"] = bmc.says(400, error)
    HTTPS.clean_up_ramdisk(far)
    assert (media(), far.recall(boot.MEDIUM_NOTE)) == ([], None)
    assert "it may look for its medium again" in caplog.text
    assert made.stem.removeprefix(far.node.uuid) not in caplog.text


def test_bmc_that_repeats_the_url_does_not_show_it(
    machine: bmc.Machine, far: bmc_tasks.BmcTask
) -> None:
    def refuse(handler: bmc.Handler) -> None:
        url = handler.request_read.body["Boot"]["HttpBootUri"]
        handler.say(400, {"error": {"@Message.ExtendedInfo": [{"Message": f"No {url}."}]}})

    machine.tricks["PATCH *"] = refuse
    with pytest.raises(errors.HardwareError, match=r"refused.*/media/.*\*{6}") as why:
        HTTPS.prepare_ramdisk(far, TOKEN)
    (made,) = media()
    assert made.stem.removeprefix(f"{far.node.uuid}-") not in str(why.value.facts) + str(why.value)


def test_bmc_that_repeats_the_url_before_another_boot_does_not_show_it(
    machine: bmc.Machine, far: bmc_tasks.BmcTask
) -> None:
    """Its error becomes the node's last_error, and is logged and in an event."""
    machine.habits.keeps_boot = False
    ramdisk_instance(far, **{name: far.node.driver_info[one] for name, one in LIVE_PARTS.items()})
    HTTPS.prepare_instance(far)
    (made,) = media()
    far.driver.power.reboot(far)
    error = {"error": {"@Message.ExtendedInfo": [{"Message": f"No {made.name}."}]}}
    machine.tricks["PATCH *"] = bmc.says(400, error)
    with pytest.raises(errors.HardwareError, match=r"refused.*\*{6}") as why:
        boot.restore_override(far)
    assert made.stem.removeprefix(f"{far.node.uuid}-") not in str(why.value.facts) + str(why.value)


@pytest.mark.parametrize("lack", ["HttpBootUri", "UefiHttp"])
@pytest.mark.parametrize("place", ["system", "settings"])
def test_bmc_without_the_url_is_refused(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, lack: str, place: str
) -> None:
    shown = [boots(machine)]
    if place == "settings":
        shown.append(machine.defer_boot())
        del shown[0]["HttpBootUri"]
        HTTPS.validate(far)
    for one in shown:
        one.pop("HttpBootUri" if lack == "HttpBootUri" else "-", None)
        if lack == "UefiHttp":
            one["BootSourceOverrideTarget@Redfish.AllowableValues"].remove("UefiHttp")
            break  # both have the same list
    with pytest.raises(errors.InvalidParameter) as why:
        HTTPS.prepare_ramdisk(far, TOKEN)
    assert why.value.message == f"boot_interface: {NO_URL}"
    with pytest.raises(errors.InvalidParameter, match=NO_URL):
        HTTPS.validate(far)
    with pytest.raises(errors.InvalidParameter, match=NO_URL):
        HTTPS.check_ramdisk(far, "deploy")
    assert machine.changes() == []


@pytest.mark.parametrize("lack", ["HttpBootUri", "UefiHttp"])
def test_checks_of_verbs_ask_no_bmc_but_know_what_the_power_sweep_has_read(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, monkeypatch: pytest.MonkeyPatch, lack: str
) -> None:
    if lack == "UefiHttp":
        offered = boots(machine)["BootSourceOverrideTarget@Redfish.AllowableValues"]
        offered.remove("UefiHttp")
    else:
        del boots(machine)["HttpBootUri"]
    checks = (deploy.AgentDeploy().validate, deploy.AgentDeploy().check_ramdisk)
    for check in checks:
        check(far)
    assert machine.log == []
    far.driver.power.get_power_and_health(far)
    asked = len(machine.log)
    for check in checks:
        with pytest.raises(errors.InvalidParameter, match=NO_URL):
            check(far)
    assert len(machine.log) == asked
    monkeypatch.setattr(boot, "_FRESH_SECONDS", 0.0)
    checks[0](far)
    monkeypatch.undo()
    if lack == "UefiHttp":
        offered.append("UefiHttp")
    boots(machine)["HttpBootUri"] = None  # with newer firmware
    far.driver.power.get_power_and_health(far)
    for check in checks:
        check(far)


def test_refusal_of_a_url_is_that_of_the_system_behind_the_bmc(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, parts: dict[str, str]
) -> None:
    del boots(machine)["HttpBootUri"]
    far.driver.power.get_power_and_health(far)
    same = node_of(machine, **parts)
    with pytest.raises(errors.InvalidParameter, match=NO_URL):
        HTTPS.check_ramdisk(same, "deploy")
    changes = {"redfish_address": "http://192.0.2.77"}, {"redfish_system_id": "/redfish/v1/S/9"}
    for change in changes:
        far.node.driver_info = {**same.node.driver_info, **change}
        HTTPS.check_ramdisk(far, "deploy")


def test_bmc_with_a_settings_resource_gets_the_url_there(
    machine: bmc.Machine, far: bmc_tasks.BmcTask
) -> None:
    waiting = machine.defer_boot()
    HTTPS.prepare_ramdisk(far, TOKEN)
    assert waiting["HttpBootUri"].startswith("http://192.0.2.1:8080/media/")
    far.driver.power.set_power_state(far, base.POWER_ON)
    assert machine.booted == ["UefiHttp"]


def test_silent_bmc_is_not_judged(machine: bmc.Machine, far: bmc_tasks.BmcTask) -> None:
    machine.tricks["GET *"] = bmc.says(503, {"error": {}})
    HTTPS.validate(far)


@pytest.mark.parametrize("mode", ["deploy", "instance"])
def test_login_of_an_image_is_not_given_to_the_bmc(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, mode: str
) -> None:
    url = "https://user:hush@files.example.org/live.iso"
    path = {"deploy": "driver_info/deploy_iso", "instance": "instance_info/boot_iso"}[mode]
    far.node.driver_info = {**far.node.driver_info, "deploy_iso": url}
    ramdisk_instance(far, boot_iso=url)
    with pytest.raises(errors.InvalidParameter, match=rf"^{path}: has a login, ") as why:
        HTTPS.check_ramdisk(far, mode)
    assert "hush" not in why.value.message
    with pytest.raises(errors.InvalidParameter, match="has a login"):
        HTTPS.prepare_instance(far)  # of an adopted node, which is not checked
    assert patches(machine) == []


def test_machine_in_bios_mode_does_not_boot_by_http(far: bmc_tasks.BmcTask) -> None:
    far.node.properties = {"capabilities": "boot_mode:bios"}
    far.node.boot_interface = "redfish-https"
    with pytest.raises(errors.InvalidParameter) as why:
        HTTPS.check_ramdisk(far, "deploy")
    assert why.value.message == (
        "properties/capabilities: redfish-https boots in UEFI mode only: set boot_mode:uefi in "
        "properties/capabilities, or boot_interface redfish-virtual-media"
    )


def test_bmc_that_wants_the_whole_boot_object_gets_the_url_with_it(
    machine: bmc.Machine, far: bmc_tasks.BmcTask
) -> None:
    machine[machine.system]["Manufacturer"] = "ASRockRack"
    HTTPS.prepare_ramdisk(far, TOKEN)
    (sent,) = patches(machine)
    assert sent.keys() == {
        "BootSourceOverrideTarget",
        "BootSourceOverrideEnabled",
        "BootSourceOverrideMode",
        "HttpBootUri",
    }
    HTTPS.clean_up_ramdisk(far)
    assert patches(machine)[1]["BootSourceOverrideEnabled"] == "Disabled"


LIVE_PARTS = {"kernel": "deploy_kernel", "ramdisk": "deploy_ramdisk"}


@pytest.mark.parametrize("form", ["parts", "iso"])
def test_ramdisk_instance_boots_from_its_url_each_time(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, form: str
) -> None:
    urls = {name: far.node.driver_info[source] for name, source in LIVE_PARTS.items()}
    ramdisk_instance(far, **({"boot_iso": LIVE} if form == "iso" else urls))
    HTTPS.check_instance(far)
    HTTPS.prepare_instance(far)
    assert device(machine) == ("UefiHttp", "Continuous")
    names = [path.name for path in media()]
    url = LIVE if form == "iso" else f"http://192.0.2.1:8080/media/{names[0]}"
    assert boots(machine)["HttpBootUri"] == url
    HTTPS.clean_up_instance(far)
    assert (device(machine)[1], media()) == ("Disabled", [])


def test_bmc_that_persists_no_device_gets_the_url_before_each_boot(
    machine: bmc.Machine, far: bmc_tasks.BmcTask
) -> None:
    machine.habits.keeps_boot = False
    ramdisk_instance(far, boot_iso=LIVE)
    HTTPS.prepare_instance(far)
    for _ in range(2):
        assert (device(machine), boots(machine)["HttpBootUri"]) == (("UefiHttp", "Once"), LIVE)
        far.driver.power.reboot(far)
        boots(machine)["HttpBootUri"] = None  # some BMCs forget it with the device
        boot.restore_override(far)
    assert set(machine.booted) == {"UefiHttp"}
    HTTPS.clean_up_instance(far)
    boot.restore_override(far)
    assert device(machine)[1] == "Disabled"


def test_configuration_drive_of_an_adopted_instance_is_not_published(
    machine: bmc.Machine, far: bmc_tasks.BmcTask
) -> None:
    """Nothing would show it to the machine."""
    ramdisk_instance(far, boot_iso=LIVE, configdrive=DRIVE)
    HTTPS.prepare_instance(far)
    assert (media(), boots(machine)["HttpBootUri"]) == ([], LIVE)


def test_another_conductor_makes_the_medium_again_and_sends_a_changed_url(
    machine: bmc.Machine, far: bmc_tasks.BmcTask, tmp_path: pathlib.Path
) -> None:
    HTTPS.prepare_ramdisk(far, TOKEN)
    (first,) = media()
    sent = patches(machine)
    same = elsewhere(far, tmp_path, "http://192.0.2.1:8080")
    HTTPS.take_over(same)
    assert ([one.name for one in media()], patches(machine)) == ([first.name], sent)
    media()[0].unlink()
    moved = elsewhere(same, tmp_path, "http://192.0.2.2:8080")
    HTTPS.take_over(moved)
    assert boots(machine)["HttpBootUri"] == f"http://192.0.2.2:8080/media/{first.name}"
    assert device(machine) == ("UefiHttp", "Once")
