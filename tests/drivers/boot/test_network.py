"""Booting over the network: each machine finds its files, and dnsmasq is told of it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import requests

from ironic_lite import errors
from ironic_lite.core import config, masking
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import network, servers
from ironic_lite.drivers.fake import hardware
from ironic_lite.images import iso, published
from tests.emulators import images as image_server
from tests.support import fake_task, prefork, service
from tests.support.ports import HOST, free_port
from tests.support.service import until

IPXE, PXE = network.IPXEBoot(), network.PXEBoot()
HTTP_IPXE, HTTP = network.HTTPIPXEBoot(), network.HTTPBoot()
BY_HTTP = {"http-ipxe": HTTP_IPXE, "http": HTTP}
EACH = pytest.mark.parametrize(
    "boot", [IPXE, PXE, *BY_HTTP.values()], ids=["ipxe", "pxe", *BY_HTTP]
)
MACS = ("52:54:00:aa:00:01", "52:54:00:AA:00:02")
API = "http://192.0.2.1:6385"

_SET = {
    "deploy": {"http_url": "http://192.0.2.1:8080"},
    "service_catalog": {"endpoint_override": API},
    "dhcp": {"dhcp_provider": "dnsmasq"},
}


@pytest.fixture(autouse=True)
def folders(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A conductor whose folders are all in one; restored afterwards."""
    own = {
        "deploy": {"http_root": "http"},
        "pxe": {"tftp_root": "tftp"},
        "dnsmasq": {"dhcp_hostsdir": "hosts", "dhcp_optsdir": "opts"},
    }
    given: list[tuple[str, str, str]] = [
        *(
            (group, name, str(tmp_path / at))
            for group, held in own.items()
            for name, at in held.items()
        ),
        *((group, name, text) for group, held in _SET.items() for name, text in held.items()),
    ]
    for group, name, value in given:
        config.CONF.set_override(name, value, group=group)
    config.CONF.set_override("file_url_allowed_paths", [str(tmp_path)], group="conductor")
    config.CONF.set_override("state_path", str(tmp_path / "state"))
    yield tmp_path
    config.CONF.clear_override("state_path")
    for group, name, _ in given:
        config.CONF.clear_override(name, group=group)
    config.CONF.clear_override("file_url_allowed_paths", group="conductor")
    for name in (
        "tftp_server",
        "ipxe_bootfile_name_by_arch",
        "pxe_bootfile_name_by_arch",
        "ipxe_fallback_script",
        "enable_netboot_fallback",
        "ipxe_timeout",
        "loader_file_paths",
    ):
        config.CONF.clear_override(name, group="pxe")


@pytest.fixture
def task(tmp_path: pathlib.Path) -> fake_task.FakeTask:
    """A node with two cards that may boot, and one that may not."""
    info = {}
    for name in ("deploy_kernel", "deploy_ramdisk"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o644)
        info[name] = f"file://{tmp_path}/{name}"
    ports = [base.Port({"address": mac, "pxe_enabled": True}) for mac in MACS]
    ports.append(base.Port({"address": "52:54:00:aa:00:99", "pxe_enabled": False}))
    return fake_task.FakeTask(fake_task.node(driver_info=info), ports=ports)


def tree(folder: pathlib.Path) -> dict[str, str]:
    """Return all files below a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def bios(task: fake_task.FakeTask) -> fake_task.FakeTask:
    task.node.properties = {"capabilities": "boot_mode:bios"}
    return task


# -- files ----------------------------------------------------------------------------------------


def test_ipxe_finds_a_script_for_each_card(task: fake_task.FakeTask, folders: pathlib.Path) -> None:
    IPXE.prepare_ramdisk(task, {"ipa-x": "1"})
    uuid = task.node.uuid
    found = tree(folders / "http")
    scripts = ["pxelinux.cfg/52-54-00-aa-00-01", "pxelinux.cfg/52-54-00-aa-00-02"]
    assert sorted(found) == sorted(["boot.ipxe", *scripts, f"{uuid}/kernel", f"{uuid}/ramdisk"])
    assert found[f"{uuid}/kernel"] == "deploy_kernel"
    assert found[f"{uuid}/ramdisk"] == "deploy_ramdisk"
    for card, name in zip(("01", "02"), scripts, strict=True):
        assert f" ipa-api-url={API} ipa-x=1 nofb vga=normal " in found[name]
        assert f" BOOTIF=01-52-54-00-aa-00-{card} " in found[name]
        assert f"kernel --name vmlinuz http://192.0.2.1:8080/{uuid}/kernel " in found[name]
        assert f"initrd --name initrd http://192.0.2.1:8080/{uuid}/ramdisk " in found[name]


def test_the_machine_boots_from_the_network_once(task: fake_task.FakeTask) -> None:
    IPXE.prepare_ramdisk(task, {})
    chosen = task.driver.management.get_boot_device(task)
    assert chosen == {"boot_device": "pxe", "persistent": False}
    IPXE.prepare_instance(task)
    chosen = task.driver.management.get_boot_device(task)
    assert chosen == {"boot_device": "disk", "persistent": True}


@pytest.mark.parametrize(
    ("forced", "ramdisk", "instance"),
    [
        ("Always", True, True),
        ("Never", False, False),
        ("Default", False, True),
        (True, True, True),
        ("true", True, True),
        (False, False, True),
        (None, False, True),
    ],
)
def test_node_decides_whether_boot_devices_are_set_for_all_boots(
    task: fake_task.FakeTask, forced: object, ramdisk: bool, instance: bool
) -> None:
    task.node.driver_info = {**task.node.driver_info, "force_persistent_boot_device": forced}
    IPXE.prepare_ramdisk(task, {})
    assert task.driver.management.get_boot_device(task)["persistent"] is ramdisk
    IPXE.prepare_instance(task)
    assert task.driver.management.get_boot_device(task)["persistent"] is instance


@pytest.mark.parametrize("value", ["always", "Sometimes", 2, ["Always"], {"Always": True}])
def test_other_persistence_is_refused_by_name(value: object) -> None:
    with pytest.raises(
        errors.InvalidParameter,
        match="driver_info/force_persistent_boot_device: must be one of Always, Never, Default",
    ):
        IPXE.check_driver_info({"force_persistent_boot_device": value})


@pytest.mark.parametrize("boot", [IPXE, PXE])
@pytest.mark.parametrize(("maker", "mode"), [("Lenovo", "uefi"), ("lenovo", "bios"), (7, "uefi")])
def test_firmware_that_must_keep_its_own_order_gets_no_boot_device(
    task: fake_task.FakeTask, boot: network.NetworkBoot, maker: object, mode: str
) -> None:
    """On Lenovo, a persistent device hides the entry of the installed system in UEFI mode."""
    task.node.properties = {"capabilities": f"boot_mode:{mode}", "vendor": maker}
    boot.prepare_ramdisk(task, {})
    boot.prepare_instance(task)
    kept = (maker, mode) == ("Lenovo", "uefi")
    assert task.driver.management.get_boot_device(task)["persistent"] is not kept


def test_pxe_in_uefi_mode_is_grub_by_card(task: fake_task.FakeTask, folders: pathlib.Path) -> None:
    PXE.prepare_ramdisk(task, {})
    uuid = task.node.uuid
    found = tree(folders / "tftp")
    cards = ["52:54:00:aa:00:01.conf", "52:54:00:aa:00:02.conf"]
    assert sorted(found) == sorted(["grub/grub.cfg", *cards, f"{uuid}/kernel", f"{uuid}/ramdisk"])
    assert f"linux /{uuid}/kernel ipa-api-url={API} " in found[cards[0]]
    assert "configfile /$net_default_mac.conf" in found["grub/grub.cfg"]


def test_pxe_in_bios_mode_is_pxelinux_by_card(
    task: fake_task.FakeTask, folders: pathlib.Path
) -> None:
    PXE.prepare_ramdisk(task, {})
    PXE.prepare_ramdisk(bios(task), {})
    uuid = task.node.uuid
    found = tree(folders / "tftp")
    cards = ["pxelinux.cfg/01-52-54-00-aa-00-01", "pxelinux.cfg/01-52-54-00-aa-00-02"]
    # The files of the other mode are gone; grub.cfg is everybody's.
    assert sorted(found) == sorted(["grub/grub.cfg", *cards, f"{uuid}/kernel", f"{uuid}/ramdisk"])
    assert f"KERNEL /{uuid}/kernel\n" in found[cards[0]]
    assert f"APPEND ipa-api-url={API} " in found[cards[0]]


@EACH
def test_cleaning_up_leaves_what_is_everybodys_and_can_be_repeated(
    task: fake_task.FakeTask, folders: pathlib.Path, boot: network.NetworkBoot
) -> None:
    boot.prepare_ramdisk(task, {})
    for _ in range(2):
        boot.clean_up_ramdisk(task)
        left = {**tree(folders / "http"), **tree(folders / "tftp")}
        assert set(left) <= {"boot.ipxe", "grub/grub.cfg"}
    assert task.recall(network.NOTE) is None


@EACH
def test_another_conductor_writes_the_same_files(
    task: fake_task.FakeTask, folders: pathlib.Path, boot: network.NetworkBoot
) -> None:
    boot.prepare_ramdisk(task, {"ipa-x": "1"})
    before = tree(folders)
    for name in ("http", "tftp", "hosts", "opts"):
        shutil.rmtree(folders / name, ignore_errors=True)
    saved = task.elsewhere()
    other = fake_task.FakeTask(saved.node, ports=task.ports)
    other.notes = saved.notes
    boot.take_over(other)
    assert tree(folders) == before
    boot.clean_up_ramdisk(other)
    boot.take_over(other)
    assert not (folders / "http" / task.node.uuid).exists()


@EACH
def test_a_conductor_that_gets_a_node_back_does_not_boot_it_as_before(
    task: fake_task.FakeTask, folders: pathlib.Path, boot: network.NetworkBoot
) -> None:
    boot.prepare_ramdisk(task, {"ipa-x": "1"})
    assert not boot.lacks_files(task)
    task.keep(network.NOTE, {"params": {"ipa-x": "2"}, "mode": "deploy"})
    assert boot.lacks_files(task)
    boot.take_over(task)
    assert not boot.lacks_files(task)
    text = str(tree(boot.root()))
    assert " ipa-x=2 " in text
    assert " ipa-x=1 " not in text


# -- checks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("boot", [IPXE, PXE], ids=["ipxe", "pxe"])
def test_missing_boot_parameters_are_named(
    task: fake_task.FakeTask, boot: network.NetworkBoot
) -> None:
    boot.validate(task)
    with pytest.raises(errors.MissingParameter, match=r"driver_info/rescue_kernel"):
        boot.check_ramdisk(task, "rescue")
    with pytest.raises(errors.MissingParameter, match=r"no port with pxe_enabled"):
        boot.validate(fake_task.FakeTask(task.node))
    config.CONF.clear_override("http_url", group="deploy")
    with pytest.raises(errors.MissingParameter, match=r"\[deploy\]http_url"):
        boot.validate(task)
    config.CONF.clear_override("endpoint_override", group="service_catalog")
    with pytest.raises(errors.MissingParameter, match=r"endpoint_override"):
        boot.validate(task)
    assert not boot.carries_parameters(task)


def test_pxe_needs_no_web_server_if_it_is_told_of_the_other(task: fake_task.FakeTask) -> None:
    config.CONF.clear_override("http_url", group="deploy")
    config.CONF.set_override("tftp_server", "192.0.2.5", group="pxe")
    PXE.validate(task)


# -- dnsmasq --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boot", "mode", "names"),
    [
        (IPXE, "uefi", ["tag:!ipxe,67,snponly.efi", "tag:ipxe,67,http://192.0.2.1:8080/boot.ipxe"]),
        (
            IPXE,
            "bios",
            ["tag:!ipxe,67,undionly.kpxe", "tag:ipxe,67,http://192.0.2.1:8080/boot.ipxe"],
        ),
        (PXE, "uefi", ["67,bootx64.efi"]),
        (PXE, "bios", ["67,pxelinux.0"]),
    ],
    ids=["ipxe-uefi", "ipxe-bios", "pxe-uefi", "pxe-bios"],
)
def test_dnsmasq_leads_each_card_to_its_loader(
    task: fake_task.FakeTask,
    folders: pathlib.Path,
    boot: network.NetworkBoot,
    mode: str,
    names: list[str],
) -> None:
    task.node.properties = {"capabilities": f"boot_mode:{mode}"}
    boot.prepare_ramdisk(task, {})
    uuid = task.node.uuid
    assert tree(folders / "hosts") == {
        "ironic-52:54:00:aa:00:01.conf": f"52:54:00:aa:00:01,set:{uuid},set:ironic\n",
        "ironic-52:54:00:aa:00:02.conf": f"52:54:00:aa:00:02,set:{uuid},set:ironic\n",
    }
    server = [f"{option},192.0.2.1" for option in (66, 150, 255)]
    lines = "".join(f"tag:{uuid},{line}\n" for line in [*names, *server])
    assert tree(folders / "opts") == {f"ironic-{uuid}.conf": lines}


@pytest.mark.parametrize(
    ("boot", "arch", "mode", "name"),
    [
        (IPXE, "aarch64", "uefi", "ipxe-arm64.efi"),
        (IPXE, "x86_64", "bios", "ipxe.pxe"),
        (IPXE, "x86_64", "uefi", "snponly.efi"),
        (PXE, "aarch64", "uefi", "grubaa64.efi"),
        (PXE, "x86_64", "uefi", "bootx64.efi"),
    ],
)
def test_loader_depends_on_the_architecture(
    task: fake_task.FakeTask, boot: network.NetworkBoot, arch: str, mode: str, name: str
) -> None:
    task.node.properties = {"cpu_arch": arch, "capabilities": f"boot_mode:{mode}"}
    other = {"aarch64": "ipxe-arm64.efi", "x86_64-bios": "ipxe.pxe"}
    config.CONF.set_override("ipxe_bootfile_name_by_arch", other, group="pxe")
    config.CONF.set_override("pxe_bootfile_name_by_arch", {"aarch64": "grubaa64.efi"}, group="pxe")
    assert name in boot.boot_files(task.node).values()


def test_cards_of_machines_that_boot_nothing_are_not_answered(
    task: fake_task.FakeTask, folders: pathlib.Path
) -> None:
    IPXE.prepare_ramdisk(task, {})
    IPXE.clean_up_ramdisk(task)
    found = tree(folders / "hosts")
    assert found["ironic-52:54:00:aa:00:01.conf"] == "52:54:00:aa:00:01,ignore\n"
    assert len(found) == 3
    assert tree(folders / "opts") == {}


def test_folders_that_others_write_to_and_dnsmasq_watches_stay(
    task: fake_task.FakeTask, folders: pathlib.Path
) -> None:
    """A watch ends with its folder, and a new one of that name has none."""
    IPXE.prepare_ramdisk(task, {})
    kept = [folders / name for name in ("opts", "hosts", "http/pxelinux.cfg")]
    before = [folder.stat().st_ino for folder in kept]
    IPXE.clean_up_ramdisk(task)
    assert [folder.stat().st_ino for folder in kept] == before
    assert not (folders / "http" / task.node.uuid).exists()


def test_another_dhcp_server_is_told_nothing(
    task: fake_task.FakeTask, folders: pathlib.Path
) -> None:
    config.CONF.set_override("dhcp_provider", "none", group="dhcp")
    IPXE.prepare_ramdisk(task, {})
    IPXE.clean_up_ramdisk(task)
    assert not (folders / "hosts").exists()
    assert not (folders / "opts").exists()


def test_dnsmasq_itself_takes_the_lines(task: fake_task.FakeTask, folders: pathlib.Path) -> None:
    program = shutil.which("dnsmasq") or shutil.which("/usr/sbin/dnsmasq")
    if program is None:
        pytest.skip("NOT TESTED: dnsmasq is not installed; apt-get install dnsmasq-base")
    config.CONF.set_override("tftp_server", "192.0.2.5", group="pxe")
    IPXE.prepare_ramdisk(task, {})
    hosts = [*tree(folders / "hosts").values(), network.ignored_line(MACS[0])]
    options = tree(folders / "opts").values()
    lines = [f"dhcp-host={line}" for text in hosts for line in text.splitlines()]
    lines += [f"dhcp-option={line}" for text in options for line in text.splitlines()]
    file = folders / "dnsmasq.conf"
    file.write_text("".join(f"{line}\n" for line in lines))
    command = [program, "--test", f"--conf-file={file}"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (found.returncode, len(lines)) == (0, 8), found.stderr


# -- firmware that boots by HTTP ------------------------------------------------------------------

URL = "http://192.0.2.1:8080"


def with_loaders(folders: pathlib.Path) -> None:
    (folders / "http").mkdir()
    for name in ("snponly.efi", "bootx64.efi"):
        (folders / "http" / name).write_text("a loader")


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (
            "http-ipxe",
            [f"tag:!ipxe,67,{URL}/snponly.efi", f"tag:ipxe,67,{URL}/boot.ipxe"],
        ),
        ("http", [f"67,{URL}/bootx64.efi"]),
    ],
)
def test_dnsmasq_leads_firmware_to_a_loader_by_http(
    task: fake_task.FakeTask, folders: pathlib.Path, name: str, files: list[str]
) -> None:
    BY_HTTP[name].prepare_ramdisk(task, {})
    uuid = task.node.uuid
    lines = "".join(f"tag:{uuid},{line}\n" for line in [*files, "60,HTTPClient"])
    assert tree(folders / "opts") == {f"ironic-{uuid}.conf": lines}
    chosen = task.driver.management.get_boot_device(task)
    assert chosen == {"boot_device": "uefihttp", "persistent": False}


def test_grub_finds_its_files_by_http(task: fake_task.FakeTask, folders: pathlib.Path) -> None:
    HTTP.prepare_ramdisk(task, {})
    uuid = task.node.uuid
    found = tree(folders / "http")
    cards = ["52:54:00:aa:00:01.conf", "52:54:00:aa:00:02.conf"]
    assert sorted(found) == sorted(["grub/grub.cfg", *cards, f"{uuid}/kernel", f"{uuid}/ramdisk"])
    assert f"linux /{uuid}/kernel ipa-api-url={API} " in found[cards[0]]
    assert not (folders / "tftp").exists()


class OnlyPxe(hardware.FakeManagement):
    """A BMC that knows no boot by HTTP, as one of IPMI."""

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        if device == "uefihttp":
            raise errors.InvalidParameter(path="boot_device", reason="'uefihttp' is not known")
        super().set_boot_device(task, device, persistent=persistent)


@pytest.mark.parametrize("name", BY_HTTP)
def test_bmc_that_cannot_choose_http_is_told_pxe_with_one_warning(
    task: fake_task.FakeTask, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    task.driver = dataclasses.replace(task.driver, management=OnlyPxe())
    BY_HTTP[name].prepare_ramdisk(task, {})
    chosen = task.driver.management.get_boot_device(task)
    assert chosen == {"boot_device": "pxe", "persistent": False}
    (told,) = (one.message for one in caplog.records if one.levelname == "WARNING")
    assert "it is told to boot by PXE" in told


@pytest.mark.parametrize(("name", "other"), [("http-ipxe", "ipxe"), ("http", "pxe")])
def test_machine_in_bios_mode_cannot_boot_by_http(
    task: fake_task.FakeTask, folders: pathlib.Path, name: str, other: str
) -> None:
    with_loaders(folders)
    BY_HTTP[name].validate(task)
    task.node.boot_interface = name
    with pytest.raises(errors.InvalidParameter) as why:
        BY_HTTP[name].validate(bios(task))
    assert why.value.message == (
        f"properties/capabilities: {name} boots in UEFI mode only: set boot_mode:uefi in "
        f"properties/capabilities, or boot_interface {other}"
    )


@pytest.mark.parametrize(
    ("name", "option", "loader"),
    [
        ("http-ipxe", "uefi_ipxe_bootfile_name", "snponly.efi"),
        ("http", "uefi_pxe_bootfile_name", "bootx64.efi"),
        ("http", "pxe_bootfile_name_by_arch", "grubaa64.efi"),
    ],
)
def test_missing_loader_is_named_with_its_option(
    task: fake_task.FakeTask, folders: pathlib.Path, name: str, option: str, loader: str
) -> None:
    if option.endswith("by_arch"):
        task.node.properties = {"cpu_arch": "aarch64"}
        config.CONF.set_override(option, {"aarch64": loader}, group="pxe")
    with pytest.raises(errors.InvalidParameter) as why:
        BY_HTTP[name].validate(task)
    assert why.value.message.startswith(f"[pxe]{option}: {folders}/http/{loader} does not exist")


def test_network_boot_by_http_needs_no_tftp_server(
    task: fake_task.FakeTask, folders: pathlib.Path
) -> None:
    with_loaders(folders)
    config.CONF.set_override("http_url", "http://files.example.org", group="deploy")
    for boot in BY_HTTP.values():
        boot.validate(task)
    config.CONF.clear_override("http_url", group="deploy")
    for boot in BY_HTTP.values():
        with pytest.raises(errors.MissingParameter, match=r"\[deploy\]http_url"):
            boot.validate(task)


@pytest.mark.parametrize("url", ["https://192.0.2.1", "http://192.0.2.1/boot"])
def test_grub_takes_only_plain_http_without_a_path(
    task: fake_task.FakeTask, folders: pathlib.Path, url: str
) -> None:
    with_loaders(folders)
    config.CONF.set_override("http_url", url, group="deploy")
    HTTP_IPXE.validate(task)
    with pytest.raises(errors.InvalidParameter, match=r"\[deploy\]http_url: GRUB reads no files"):
        HTTP.validate(task)


# -- machines that boot over the network though they have an instance ------------------------------

FALLBACKS = pytest.mark.parametrize(
    ("option", "value"), [("ipxe_fallback_script", "other.ipxe"), ("enable_netboot_fallback", True)]
)


def keeps(boot: network.NetworkBoot, task: fake_task.FakeTask) -> dict[str, str]:
    """Return the files of the node's cards."""
    files = tree(boot.root()) if boot.root().exists() else {}
    return {name: files[name] for name in boot.names(task.node, MACS) if name in files}


@EACH
@FALLBACKS
def test_deployed_machine_keeps_files_that_boot_its_disk(
    task: fake_task.FakeTask, boot: network.NetworkBoot, option: str, value: object
) -> None:
    config.CONF.set_override(option, value, group="pxe")
    boot.prepare_ramdisk(task, {})
    boot.prepare_instance(task)
    found = keeps(boot, task)
    assert {name.rpartition("/")[2].removesuffix(".conf")[-1] for name in found} == {"1", "2"}
    for text in found.values():
        assert not {"kernel", "linux", "initrd"} & set(text.lower().split())
    named = {left.file.name for left in published.of_nodes(float("inf"))}
    assert {pathlib.Path(name).name for name in found} <= named  # and go with the node
    boot.clean_up_instance(task)
    assert keeps(boot, task) == {}


@EACH
def test_deployed_machine_has_no_files_without_the_options(
    task: fake_task.FakeTask, boot: network.NetworkBoot
) -> None:
    boot.prepare_ramdisk(task, {})
    boot.prepare_instance(task)
    task.node.provision_state = "active"
    assert (keeps(boot, task), boot.lacks_files(task)) == ({}, False)


@EACH
@pytest.mark.parametrize("state", ["active", "adopting"])
def test_machine_deployed_elsewhere_gets_files_that_boot_its_disk(
    task: fake_task.FakeTask, boot: network.NetworkBoot, state: str
) -> None:
    """By another conductor, before the option was set, or by another tool."""
    config.CONF.set_override("enable_netboot_fallback", True, group="pxe")
    assert not boot.lacks_files(task)
    task.node.provision_state = state
    assert boot.lacks_files(task)
    boot.take_over(task)
    assert not boot.lacks_files(task)
    assert len(keeps(boot, task)) >= 2
    task.driver = dataclasses.replace(task.driver, deploy=Netbooting())
    for name in keeps(boot, task):
        (boot.root() / name).unlink()
    assert not boot.lacks_files(task)


def test_ramdisk_at_work_comes_before_the_disk(task: fake_task.FakeTask) -> None:
    config.CONF.set_override("enable_netboot_fallback", True, group="pxe")
    task.node.provision_state = "active"
    IPXE.prepare_ramdisk(task, {"ipa-x": "1"})
    assert not IPXE.lacks_files(task)
    assert all(" ipa-x=1 " in text for text in keeps(IPXE, task).values())


def test_machine_without_a_script_gets_the_fallback(
    task: fake_task.FakeTask, folders: pathlib.Path
) -> None:
    config.CONF.set_override("ipxe_fallback_script", "other.ipxe", group="pxe")
    network.place_common_files()
    assert "chain --autofree other.ipxe && goto disk ||\n" in tree(folders / "http")["boot.ipxe"]
    IPXE.prepare_ramdisk(task, {})
    assert "chain --autofree other.ipxe " in tree(folders / "http")["boot.ipxe"]
    assert "other.ipxe" in servers.setup(dataclasses.replace(IPXE_SERVERS, fallback="other.ipxe"))


def test_ipxe_waits_as_long_as_the_option_says(task: fake_task.FakeTask) -> None:
    config.CONF.set_override("ipxe_timeout", 90, group="pxe")
    IPXE.prepare_ramdisk(task, {})
    for text in keeps(IPXE, task).values():
        assert "\nkernel --timeout 90000 --name vmlinuz " in text
        assert "\ninitrd --timeout 90000 --name initrd " in text


@EACH
@pytest.mark.parametrize("kind", ["disk", "ramdisk"])
def test_files_of_a_card_go_with_its_port(
    task: fake_task.FakeTask, boot: network.NetworkBoot, kind: str
) -> None:
    config.CONF.set_override("enable_netboot_fallback", True, group="pxe")
    boot.prepare_ramdisk(task, {})
    if kind == "disk":
        boot.prepare_instance(task)
    task.node.provision_state = "active"
    assert not boot.lacks_files(task)
    after = fake_task.FakeTask(task.node, driver=task.driver, ports=task.ports[1:])
    after.notes = task.notes
    gone = [boot.root() / name for name in boot.names(task.node, MACS[:1])]
    gone = [file for file in gone if file.exists()]
    assert gone
    assert boot.lacks_files(after)
    boot.take_over(after)
    assert not any(file.exists() for file in gone)
    assert not boot.lacks_files(after)
    boot.clean_up_ramdisk(after)
    assert (keeps(boot, task), after.recall(network.CARDS)) == ({}, None)


@EACH
def test_files_of_a_card_stay_if_another_node_has_written_them(
    task: fake_task.FakeTask, boot: network.NetworkBoot
) -> None:
    boot.prepare_ramdisk(task, {})
    other = fake_task.FakeTask(
        fake_task.node(driver_info=task.node.driver_info), ports=task.ports[:1]
    )
    boot.prepare_ramdisk(other, {})
    theirs = {name: keeps(boot, task)[name] for name in keeps(boot, other)}
    after = fake_task.FakeTask(task.node, driver=task.driver, ports=task.ports[1:])
    after.notes = task.notes
    boot.take_over(after)
    boot.clean_up_ramdisk(after)
    first = {*boot.names(task.node, MACS[:1])}
    assert keeps(boot, other) == {name: theirs[name] for name in theirs if name in first}
    assert not boot.lacks_files(other)


# -- authorities of agents -------------------------------------------------------------------------


@pytest.fixture
def authority(folders: pathlib.Path) -> Iterator[pathlib.Path]:
    """The file of [agent]api_ca_file."""
    file = folders / "ca.pem"
    file.write_text("an authority\n")
    config.CONF.set_override("api_ca_file", str(file), group="agent")
    yield file
    config.CONF.clear_override("api_ca_file", group="agent")


@EACH
@pytest.mark.parametrize("mode", ["uefi", "bios"])
def test_agent_gets_its_authorities_by_a_second_ramdisk(
    task: fake_task.FakeTask, authority: pathlib.Path, boot: network.NetworkBoot, mode: str
) -> None:
    task.node.properties = {"capabilities": f"boot_mode:{mode}"}
    boot.prepare_ramdisk(task, {})
    made = boot.root() / task.node.uuid / "authority.cpio"
    assert b"an authority" in made.read_bytes()
    place = f"/{task.node.uuid}/authority.cpio"
    for text in keeps(boot, task).values():
        first = text.index(place)
        assert first < text.index(f"/{task.node.uuid}/ramdisk")
        assert ("initrd=authority initrd=initrd" in text) is text.startswith("#!ipxe")
    authority.write_text("another one\n")
    assert boot.lacks_files(task)
    boot.take_over(task)
    assert b"another one" in made.read_bytes()
    boot.clean_up_ramdisk(task)
    assert not made.parent.exists()


def test_second_ramdisk_goes_with_the_option_and_is_for_no_instance(
    task: fake_task.FakeTask, authority: pathlib.Path
) -> None:
    IPXE.prepare_ramdisk(task, {})
    made = IPXE.root() / task.node.uuid / "authority.cpio"
    config.CONF.clear_override("api_ca_file", group="agent")
    IPXE.prepare_ramdisk(task, {})
    assert not made.exists()
    config.CONF.set_override("api_ca_file", str(authority), group="agent")
    task.driver = dataclasses.replace(task.driver, deploy=Netbooting())
    info = task.node.driver_info
    task.node.instance_info = {
        "kernel": info["deploy_kernel"],
        "ramdisk": info["deploy_ramdisk"],
    }
    IPXE.prepare_instance(task)
    assert not made.exists()
    assert not any("authority" in text for text in keeps(IPXE, task).values())


@pytest.mark.parametrize("fault", ["missing", "a folder"])
def test_missing_authorities_are_named(
    task: fake_task.FakeTask, authority: pathlib.Path, fault: str
) -> None:
    authority.unlink()
    if fault == "a folder":
        authority.mkdir()
    with pytest.raises(errors.LocalFileError, match=r"ca\.pem.*\[agent\]api_ca_file"):
        IPXE.prepare_ramdisk(task, {})


@EACH
@pytest.mark.parametrize("had", [True, False])
def test_authorities_that_are_missing_for_a_moment_have_not_changed(
    task: fake_task.FakeTask, authority: pathlib.Path, boot: network.NetworkBoot, had: bool
) -> None:
    if not had:
        config.CONF.clear_override("api_ca_file", group="agent")
    boot.prepare_ramdisk(task, {})
    config.CONF.set_override("api_ca_file", str(authority), group="agent")
    authority.unlink()
    assert not boot.lacks_files(task)
    authority.write_text("another one\n")
    assert boot.lacks_files(task)


def test_archive_of_the_same_authorities_is_made_once(
    task: fake_task.FakeTask, authority: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    IPXE.prepare_ramdisk(task, {})
    monkeypatch.delattr(iso, "authority_archive")
    assert not IPXE.lacks_files(task)


# -- loaders that are copied at the start ----------------------------------------------------------


@pytest.mark.parametrize(
    ("enabled", "roots"),
    [(["ipxe"], ["http", "tftp"]), (["http-ipxe", "fake"], ["http"])],
)
def test_loaders_are_copied_where_firmware_finds_them(
    folders: pathlib.Path, enabled: list[str], roots: list[str]
) -> None:
    (folders / "source").write_text("a loader")
    config.CONF.set_override("enabled_boot_interfaces", enabled)
    config.CONF.set_override("loader_file_paths", {"x.efi": f"{folders}/source"}, group="pxe")
    try:
        for content in ("a loader", "a newer one"):
            (folders / "source").write_text(content)
            network.place_common_files()
            found = tree(folders)
            assert found.pop("source") == content
            assert found == {f"{root}/x.efi": content for root in roots}
    finally:
        config.CONF.clear_override("enabled_boot_interfaces")


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("x.efi", "{folder}/none", "cannot read {folder}/none: No such file or directory"),
        ("x.efi", "{folder}", "cannot read {folder}: "),
        ("x.efi", "/dev/zero", "cannot read /dev/zero: it is not a regular file"),
        ("../x.efi", "{folder}/source", "'../x.efi' is no file name"),
        (".x.efi", "{folder}/source", "'.x.efi' is no file name"),
    ],
)
def test_loader_that_cannot_be_copied_stops_the_start(
    folders: pathlib.Path, name: str, source: str, said: str
) -> None:
    (folders / "source").write_text("a loader")
    conf = folders / "test.conf"
    conf.write_text(
        f"[DEFAULT]\nstate_path = {folders}/state\nenabled_hardware_types = fake-hardware\n"
        f"[pxe]\nloader_file_paths = {name}:{source.format(folder=folders)}\n"
    )
    command = [str(service.SCRIPTS / "ironic-lite-conductor"), "--config-file", str(conf)]
    done = prefork.run(command, env=service.environment(), timeout=60)
    wanted = f"[pxe]loader_file_paths: {said.format(folder=folders)}"
    assert (done.returncode, wanted in done.stderr) == (2, True), done.stderr


# -- an instance that is a ramdisk ----------------------------------------------------------------


class Netbooting(hardware.FakeDeploy):
    boots_ramdisk = True


@pytest.mark.parametrize("boot", [IPXE, PXE], ids=["ipxe", "pxe"])
def test_an_instance_that_is_a_ramdisk_boots_over_the_network_each_time(
    task: fake_task.FakeTask, folders: pathlib.Path, boot: network.NetworkBoot
) -> None:
    task.driver = dataclasses.replace(task.driver, deploy=Netbooting())
    info = task.node.driver_info
    task.node.instance_info = {
        "kernel": info["deploy_ramdisk"],
        "ramdisk": info["deploy_kernel"],
        "kernel_append_params": "%default% quiet",
    }
    boot.check_ramdisk(task, "instance")
    boot.prepare_ramdisk(task, {"ipa-x": "1"})
    boot.prepare_instance(task)
    chosen = task.driver.management.get_boot_device(task)
    assert chosen == {"boot_device": "pxe", "persistent": True}
    assert (boot.root() / task.node.uuid / "kernel").read_text() == "deploy_ramdisk"
    files = tree(boot.root())
    texts = {name: files[name] for name in boot.names(task.node, MACS) if name in files}
    assert len(texts) >= 2
    for name, text in texts.items():
        assert " quiet " in text, name
        assert "ipa-" not in text, name
    boot.clean_up_instance(task)
    assert not (boot.root() / task.node.uuid).exists()


ISO = b"an ISO \xff\x00" * 10_000


@pytest.fixture
def live(task: fake_task.FakeTask, folders: pathlib.Path) -> fake_task.FakeTask:
    """A node whose instance is a whole image."""
    task.driver = dataclasses.replace(task.driver, deploy=Netbooting())
    (folders / "live.iso").write_bytes(ISO)
    task.node.instance_info = {"boot_iso": f"file://{folders}/live.iso"}
    return task


def served(task: fake_task.FakeTask) -> list[str]:
    """Return the names of the node's files."""
    folder = IPXE.root() / task.node.uuid
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


def test_ipxe_boots_an_instance_that_is_a_whole_image_as_a_disk(
    live: fake_task.FakeTask, folders: pathlib.Path
) -> None:
    IPXE.check_ramdisk(live, "instance")
    IPXE.prepare_ramdisk(live, {})
    IPXE.prepare_instance(live)
    chosen = live.driver.management.get_boot_device(live)
    assert chosen == {"boot_device": "pxe", "persistent": True}
    url = f"http://192.0.2.1:8080/{live.node.uuid}/boot.iso"
    for name in IPXE.names(live.node, MACS):
        text = (IPXE.root() / name).read_text()
        assert f"\nsanboot {url} || goto failed\n" in text
        assert "kernel " not in text
    assert served(live) == ["boot.iso"]
    assert (IPXE.root() / live.node.uuid / "boot.iso").read_bytes() == ISO
    IPXE.prepare_ramdisk(live, {}, "deploy")
    assert served(live) == ["kernel", "ramdisk"]
    IPXE.prepare_instance(live)
    IPXE.clean_up_instance(live)
    assert served(live) == []


def test_another_conductor_serves_the_same_image(
    live: fake_task.FakeTask, folders: pathlib.Path
) -> None:
    IPXE.prepare_instance(live)
    before = {file: file.read_bytes() for file in folders.rglob("http/**/*") if file.is_file()}
    shutil.rmtree(folders / "http")
    assert IPXE.lacks_files(live)
    IPXE.take_over(live)
    assert not IPXE.lacks_files(live)
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize("form", ["digits", "kind and digits", "a file of checksums"])
def test_a_whole_image_is_what_its_owner_says_before_the_machine_is_touched(
    live: fake_task.FakeTask, folders: pathlib.Path, form: str
) -> None:
    def says(content: bytes) -> dict[str, str]:
        digest = hashlib.sha256(content).hexdigest()
        (folders / "SHA256SUMS").write_text(f"{digest} *live.iso\n{digest[::-1]} *other.iso\n")
        forms = {
            "digits": {"image_checksum": digest},
            "kind and digits": {"image_os_hash_algo": "sha256", "image_os_hash_value": digest},
            "a file of checksums": {"image_checksum": f"file://{folders}/SHA256SUMS"},
        }
        return {**live.node.instance_info, **forms[form]}

    live.node.instance_info = says(ISO)
    IPXE.check_ramdisk(live, "instance")
    IPXE.check_instance(live)
    live.node.instance_info = says(b"what was promised")
    with pytest.raises(errors.ImageUnusable, match="its sha256 is"):
        IPXE.check_instance(live)
    with pytest.raises(errors.ImageUnusable):
        IPXE.prepare_instance(live)
    assert served(live) == []


def test_invalid_checksum_or_forbidden_url_is_refused_by_its_path(
    live: fake_task.FakeTask,
) -> None:
    iso = live.node.instance_info["boot_iso"]
    for info, path in (
        ({"boot_iso": iso, "image_checksum": "abc"}, "instance_info/image_checksum"),
        ({"boot_iso": iso, "image_checksum": "file:///etc/passwd"}, "instance_info/image_checksum"),
        ({"boot_iso": "file:///etc/passwd"}, "instance_info/boot_iso"),
    ):
        live.node.instance_info = info
        with pytest.raises(errors.InvalidParameter) as why:
            IPXE.check_ramdisk(live, "instance")
        assert why.value.facts["path"] == path


def test_pxe_boots_no_whole_image(live: fake_task.FakeTask) -> None:
    with pytest.raises(errors.InvalidParameter, match="redfish-virtual-media or ipxe") as why:
        PXE.check_ramdisk(live, "instance")
    assert why.value.facts["path"] == "instance_info/boot_iso"


def test_ipxe_boots_no_whole_image_for_a_ramdisk_of_ours(task: fake_task.FakeTask) -> None:
    task.node.driver_info = {"deploy_iso": "http://files.example.org/agent.iso"}
    with pytest.raises(errors.MissingParameter, match="driver_info/deploy_kernel"):
        IPXE.check_ramdisk(task, "deploy")


# -- a server that changes during a run -----------------------------------------------------------


@pytest.fixture
def web(tmp_path: pathlib.Path, folders: pathlib.Path) -> Iterator[image_server.Images]:
    """A server with kernel, ramdisk, an image and its checksum."""
    folder = tmp_path / "web"
    folder.mkdir()
    with image_server.serve(folder) as found:
        for name in network.PARTS:
            (folder / name).write_bytes(name.encode())
        (folder / "live.iso").write_bytes(ISO)
        sums = f"{hashlib.sha256(ISO).hexdigest()} *live.iso\n"
        (folder / "SHA256SUMS").write_text(sums)
        yield found


def lose(web: image_server.Images, fate: str) -> None:
    """Change all files of a server, or let it answer no more."""
    for path in web.folder.iterdir():
        path.write_bytes(b"another " + path.read_bytes())
        os.utime(path, (path.stat().st_mtime + 60,) * 2)  # Last-Modified has whole seconds
    if fate == "hangs":
        web.hang()


FATES = pytest.mark.parametrize("fate", ["changed", "hangs"])


@FATES
@EACH
def test_next_boot_of_a_run_needs_no_server(
    task: fake_task.FakeTask, web: image_server.Images, boot: network.NetworkBoot, fate: str
) -> None:
    urls = {f"deploy_{name}": f"{web.url}/{name}" for name in network.PARTS}
    task.node.driver_info = {**task.node.driver_info, **urls}
    task.node.run_uuid = "a run"
    boot.prepare_ramdisk(task, {"ipa-x": "1"})
    before = len(web.fetched)
    lose(web, fate)
    boot.prepare_ramdisk(task, {"ipa-x": "2"})
    folder = boot.root() / task.node.uuid
    assert [(folder / name).read_text() for name in network.PARTS] == [*network.PARTS]
    assert any(" ipa-x=2 " in text for text in tree(boot.root()).values())
    assert len(web.fetched) == before


@FATES
@pytest.mark.parametrize("form", ["parts", "iso"])
def test_instance_boots_from_the_files_of_its_check(
    live: fake_task.FakeTask, web: image_server.Images, form: str, fate: str
) -> None:
    forms = {
        "parts": {name: f"{web.url}/{name}" for name in network.PARTS},
        "iso": {"boot_iso": f"{web.url}/live.iso", "image_checksum": f"{web.url}/SHA256SUMS"},
    }
    live.node.instance_info, live.node.run_uuid = forms[form], "a run"
    IPXE.check_instance(live)
    before = len(web.fetched)
    lose(web, fate)
    IPXE.check_instance(live)
    IPXE.prepare_instance(live)
    folder = IPXE.root() / live.node.uuid
    names = {"parts": [*network.PARTS], "iso": ["boot.iso"]}[form]
    contents = {"boot.iso": ISO, **{name: name.encode() for name in network.PARTS}}
    assert served(live) == names
    assert all((folder / name).read_bytes() == contents[name] for name in names)
    assert len(web.fetched) == before


@pytest.mark.parametrize("gone", ["kernel", "the run", "the request", "another file"])
def test_files_that_are_gone_or_of_another_run_are_fetched(
    task: fake_task.FakeTask, web: image_server.Images, gone: str
) -> None:
    """Together, as a kernel does not boot with another release's ramdisk."""
    urls = {f"deploy_{name}": f"{web.url}/{name}" for name in network.PARTS}
    task.node.driver_info = {**task.node.driver_info, **urls}
    task.node.run_uuid = "a run"
    IPXE.prepare_ramdisk(task, {})
    kernel = IPXE.root() / task.node.uuid / "kernel"
    lose(web, "changed")
    if gone == "kernel":
        kernel.unlink()
    elif gone == "the run":
        task.node.run_uuid = "another run"
    elif gone == "the request":
        moved = f"{web.url}/moved/kernel"
        task.node.driver_info = {**task.node.driver_info, "deploy_kernel": moved}
    else:  # left by an earlier boot, on a conductor that gets the node back
        kernel.unlink()
        kernel.write_text("an older one")
    assert IPXE.lacks_files(task) is (gone == "kernel")
    IPXE.prepare_ramdisk(task, {})
    found = [(kernel.parent / name).read_text() for name in network.PARTS]
    assert found == [f"another {name}" for name in network.PARTS]


def test_marks_of_addresses_with_logins_are_hidden_from_readers(live: fake_task.FakeTask) -> None:
    """A digest would let readers of the node try passwords."""
    live.node.run_uuid = "a run"
    IPXE.check_instance(live)
    prepared = live.recall(network.PREPARED)
    IPXE.prepare_instance(live)
    for note in (prepared, live.recall(network.NOTE)):
        digests = re.compile(r"\b[0-9a-f]{64}\b")
        assert digests.search(json.dumps(note))
        assert not digests.search(json.dumps(masking.field("driver_internal_info", note)))


# The set-up of DHCP, TFTP and web server that follows from the configuration.

_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
NETWORK = servers.MachineNetwork("eth1", "192.0.2.100", "192.0.2.200", router="192.0.2.1")
IPXE_SERVERS = servers.NetbootPlan(
    state=pathlib.Path("/var/lib/ironic-lite"),
    http_url="http://192.0.2.1:8080",
    http_root=pathlib.Path("/httpboot"),
    web_server=True,
    tftp_root=pathlib.Path("/tftpboot"),
    loaders={"bios": "undionly.kpxe", "uefi": "snponly.efi"},
    plain=[],
    by_http={},
    script="http://192.0.2.1:8080/boot.ipxe",
    fallback=None,
    told=False,
    hosts=pathlib.Path("/etc/dnsmasq.d/hosts"),
    options=pathlib.Path("/etc/dnsmasq.d/opts"),
)
PXE_SERVERS = dataclasses.replace(
    IPXE_SERVERS,
    loaders={"bios": "pxelinux.0", "uefi": "bootx64.efi"},
    plain=["pxelinux.0", "bootx64.efi"],
    script=None,
    web_server=False,
)
HTTP_LOADERS = {"http-ipxe": "snponly.efi", "http": "bootx64.efi"}
PLANS = {
    "ipxe": IPXE_SERVERS,
    "ipxe-by-node": dataclasses.replace(IPXE_SERVERS, told=True),
    "both-by-node": dataclasses.replace(
        IPXE_SERVERS, told=True, plain=["pxelinux.0", "bootx64.efi"]
    ),
    "pxe": PXE_SERVERS,
    "pxe-by-node": dataclasses.replace(PXE_SERVERS, told=True),
    "http-ipxe": dataclasses.replace(IPXE_SERVERS, loaders={}, by_http=HTTP_LOADERS),
    "http": dataclasses.replace(PXE_SERVERS, loaders={}, plain=[], by_http={"http": "bootx64.efi"}),
    "all": dataclasses.replace(IPXE_SERVERS, plain=["pxelinux.0"], by_http=HTTP_LOADERS),
}


@pytest.fixture(params=list(PLANS))
def plan(request: pytest.FixtureRequest) -> servers.NetbootPlan:
    return PLANS[request.param]


def test_loaders_are_led_to_ipxe_and_ipxe_to_its_script() -> None:
    lines = servers.dnsmasq_conf(IPXE_SERVERS, NETWORK).splitlines()
    assert "dhcp-boot=tag:!ipxe,tag:bios,undionly.kpxe" in lines
    assert "dhcp-boot=tag:!ipxe,tag:uefi,snponly.efi" in lines
    assert "dhcp-boot=tag:ipxe,http://192.0.2.1:8080/boot.ipxe" in lines
    assert "dhcp-range=192.0.2.100,192.0.2.200,10m" in lines


def test_http_clients_are_led_to_a_loader_by_its_url_and_others_keep_their_lines() -> None:
    lines = servers.dnsmasq_conf(PLANS["all"], NETWORK).splitlines()
    assert set(servers.dnsmasq_conf(PLANS["ipxe"], NETWORK).splitlines()) <= set(lines)
    assert "dhcp-vendorclass=set:http,HTTPClient" in lines
    assert "dhcp-option-force=tag:http,60,HTTPClient" in lines
    assert "dhcp-boot=tag:!ipxe,tag:http,http://192.0.2.1:8080/snponly.efi" in lines
    alone = servers.dnsmasq_conf(PLANS["http"], NETWORK).splitlines()
    assert "dhcp-boot=tag:http,http://192.0.2.1:8080/bootx64.efi" in alone
    assert not [line for line in alone if "tftp" in line]


def test_set_up_makes_a_grub_that_reads_http(tmp_path: pathlib.Path) -> None:
    """Debian's signed one has no module for it."""
    _program("grub-mkimage", "grub-common")
    if not pathlib.Path("/usr/lib/grub/x86_64-efi/http.mod").exists():
        pytest.skip("NOT TESTED: apt-get install grub-efi-amd64-bin")
    root = tmp_path / "http root"
    (root / "grub").mkdir(parents=True)
    plan = dataclasses.replace(PLANS["http"], http_root=root)
    script = servers.setup(plan)
    assert " grub-common grub-efi-amd64-bin\n" in script
    lines = script[script.index("echo 'configfile") :].partition("chown")[0]
    subprocess.run(["sh", "-eu"], input=lines, cwd=tmp_path, check=True, text=True, timeout=60)
    made = (root / "bootx64.efi").read_bytes()
    assert made.startswith(b"MZ")
    assert b"configfile $prefix/grub.cfg" in made
    assert "by address" in (root / "grub/grub.cfg").read_text()


def test_told_of_each_node_dnsmasq_answers_no_others() -> None:
    lines = servers.dnsmasq_conf(PLANS["ipxe-by-node"], NETWORK).splitlines()
    assert "dhcp-ignore=tag:!ironic" in lines
    assert "dhcp-hostsdir=/etc/dnsmasq.d/hosts" in lines
    assert not [line for line in lines if line.startswith("dhcp-boot")]


def test_a_web_server_is_set_up_only_where_the_conductor_does_not_serve() -> None:
    assert set(servers.files(IPXE_SERVERS, NETWORK)) == {"dnsmasq.conf", "nginx.conf", "setup.sh"}
    assert set(servers.files(PXE_SERVERS, NETWORK)) == {"dnsmasq.conf", "setup.sh"}
    assert "listen 192.0.2.1:8080;" in servers.nginx_conf(IPXE_SERVERS)
    assert 'root "/httpboot";' in servers.nginx_conf(IPXE_SERVERS)
    assert "access_log off;" in servers.nginx_conf(IPXE_SERVERS)
    below = servers.nginx_conf(
        dataclasses.replace(IPXE_SERVERS, http_url="http://files.example/boot")
    )
    assert "listen files.example:80;" in below
    assert 'location /boot/ {\n        alias "/httpboot/";' in below


def test_dnsmasq_itself_takes_the_configuration(
    plan: servers.NetbootPlan, tmp_path: pathlib.Path
) -> None:
    program = _program("dnsmasq", "dnsmasq-base")
    for name in ("hosts", "options", "tftp"):
        (tmp_path / name).mkdir()
    here = dataclasses.replace(
        plan, hosts=tmp_path / "hosts", options=tmp_path / "options", tftp_root=tmp_path / "tftp"
    )
    file = tmp_path / "dnsmasq.conf"
    for subnet in (NETWORK, dataclasses.replace(NETWORK, router=None)):
        file.write_text(servers.dnsmasq_conf(here, subnet))
        command = [program, "--test", f"--conf-file={file}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("prefix", ["", "/boot"])
def test_nginx_itself_serves_what_is_published_and_no_links(
    prefix: str, tmp_path: pathlib.Path
) -> None:
    program = _program("nginx", "nginx-light")
    (tmp_path / "real").mkdir()
    (tmp_path / "a link").symlink_to(tmp_path / "real")
    root = tmp_path / "a link" / "http"
    (root / "pxelinux.cfg").mkdir(parents=True)
    (root / "pxelinux.cfg" / "52-54").write_text("a script")
    (root / ".new-1").write_text("half a file")
    (tmp_path / "secret").write_text("a secret")
    (root / "out").symlink_to(tmp_path / "secret")
    url = f"http://{HOST}:{free_port()}{prefix}"
    with _nginx(program, dataclasses.replace(IPXE_SERVERS, http_root=root, http_url=url), tmp_path):
        found = requests.get(f"{url}/pxelinux.cfg/52-54", headers={"Range": "bytes=2-"}, timeout=20)
        assert (found.status_code, found.text) == (206, "script")
        for name in ("out", ".new-1", "", "pxelinux.cfg/"):
            assert requests.get(f"{url}/{name}", timeout=20).status_code == 403, name
        assert requests.get(f"{url}/none", timeout=20).status_code == 404


@contextlib.contextmanager
def _nginx(program: str, plan: servers.NetbootPlan, folder: pathlib.Path) -> Iterator[None]:
    """Run nginx with a plan's server and nothing of this machine's own."""
    (folder / "server.conf").write_text(servers.nginx_conf(plan))
    main = folder / "nginx.conf"
    temporary = "".join(f"{kind}_temp_path {folder}/temp;\n" for kind in _TEMPORARY)
    user = "user root;\n" if os.geteuid() == 0 else ""  # who may read the folders of pytest
    main.write_text(
        f"daemon off;\n{user}pid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\n{temporary}include {folder}/server.conf;\n}}\n"
    )
    command = [program, "-e", "stderr", "-p", str(folder), "-c", str(main)]
    done = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    with (folder / "nginx.log").open("wb") as log, subprocess.Popen(command, stderr=log) as running:
        try:
            until(lambda: requests.get(plan.http_url, timeout=20).status_code, "nginx")
            yield
        finally:
            running.terminate()


def _program(name: str, package: str) -> str:
    found = shutil.which(name) or shutil.which(f"/usr/sbin/{name}")
    if found is None:
        pytest.skip(f"NOT TESTED: {name} is not installed; apt-get install {package}")
    return found


def test_the_script_is_one_for_sh(plan: servers.NetbootPlan) -> None:
    script = servers.setup(plan)
    done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in (*plan.loaders.values(), *plan.plain):
        assert f"/tftpboot/{name}\n" in script
    for name in plan.by_http.values():
        assert f" /httpboot/{name}" in script
    assert ("/tftpboot/ldlinux.c32\n" in script) == ("/tftpboot/pxelinux.0\n" in script)


def test_the_script_takes_folders_with_any_name() -> None:
    root = pathlib.Path("/srv/the machines'; x")
    script = servers.setup(
        dataclasses.replace(IPXE_SERVERS, http_root=root, tftp_root=root, told=True)
    )
    split = subprocess.run(
        ["sh", "-c", f"set -n\n{script}"], capture_output=True, text=True, check=False
    )
    assert (split.returncode, split.stderr) == (0, "")
    made = next(line for line in script.splitlines() if line.startswith("install -d"))
    assert shlex.split(made)[-1] == str(root)


def test_the_command_writes_what_the_configuration_says(tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "test.conf"
    conf.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}/state\n"
        f"[deploy]\nhttp_url = http://192.0.2.7:8080\nhttp_root = {tmp_path}/http\n"
        "[dhcp]\ndhcp_provider = dnsmasq\n"
    )
    ask = ["--interface", "eth1", "--range", "192.0.2.100,192.0.2.200"]
    done = _netboot(conf, "write", "--folder", str(tmp_path / "out"), *ask)
    assert (done.returncode, done.stderr) == (0, "")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["dnsmasq.conf", "nginx.conf", "setup.sh"]
    done = _netboot(conf, "show", *ask)
    assert "dhcp-ignore=tag:!ironic\n" in done.stdout
    # Both interfaces are enabled, and each node is led to the loader of its own.
    assert " ipxe pxelinux grub-efi-amd64-signed syslinux-common\n" in done.stdout
    assert "listen 192.0.2.7:8080;" in done.stdout
    wrong = ["--interface", "eth1", "--range", "192.0.2.9,192.0.2.3"]
    done = _netboot(conf, "show", *wrong)
    assert done.returncode == 2
    assert "is not of the form first,last" in done.stderr


def _show(tmp_path: pathlib.Path, text: str) -> subprocess.CompletedProcess[str]:
    """Have the command print what it makes of a configuration."""
    conf = tmp_path / "test.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n[deploy]\n{text}\n")
    ask = ["show", "--interface", "eth1", "--range", "192.0.2.100,192.0.2.200"]
    return _netboot(conf, *ask)


def _netboot(conf: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = str(service.SCRIPTS / "ironic-lite-netboot")
    command = [program, "--config-file", str(conf), *words]
    return prefork.run(command, env=service.environment(), timeout=60)


@pytest.mark.parametrize(
    ("interface", "loader"), [("http-ipxe", "snponly.efi"), ("http", "bootx64.efi")]
)
def test_command_writes_the_servers_of_boot_by_http(
    tmp_path: pathlib.Path, interface: str, loader: str
) -> None:
    text = f"http_url = http://192.0.2.7:8080\nhttp_root = {tmp_path}/http\n"
    done = _show(tmp_path, f"{text}[DEFAULT]\nenabled_boot_interfaces = fake,{interface}\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "dhcp-vendorclass=set:http,HTTPClient\n" in done.stdout
    assert f"tag:http,http://192.0.2.7:8080/{loader}\n" in done.stdout
    assert "enable-tftp" not in done.stdout
    done = _show(tmp_path, f"{text}[DEFAULT]\nenabled_boot_interfaces = fake\n")
    assert done.returncode == 2
    assert "has none of http, http-ipxe, ipxe, pxe" in done.stderr


@pytest.mark.parametrize(
    ("enabled", "written"),
    [("pxe", True), ("pxe,http-ipxe", True), ("pxe,http", True), ("ipxe", False), ("http", False)],
)
def test_grub_that_is_loaded_by_tftp_finds_its_first_file_there(
    tmp_path: pathlib.Path, enabled: str, written: bool
) -> None:
    text = f"http_url = http://192.0.2.7:8080\nhttp_root = {tmp_path}/http\n"
    text += f"[pxe]\ntftp_root = {tmp_path}/tftp\n[DEFAULT]\nenabled_boot_interfaces = {enabled}\n"
    done = _show(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert (f"cat > {tmp_path}/tftp/grub/grub.cfg <<" in done.stdout) is written


def test_a_folder_that_another_web_server_cannot_enter_is_refused(tmp_path: pathlib.Path) -> None:
    done = _show(tmp_path, "http_url = http://x:80")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"[deploy]http_root: {tmp_path}/state/http is in {tmp_path}/state" in done.stderr


def test_a_web_server_with_a_certificate_is_somebody_elses(tmp_path: pathlib.Path) -> None:
    """Without one, nginx would speak plain http where machines are told https."""
    done = _show(tmp_path, f"http_url = https://x\nhttp_root = {tmp_path}/http")
    assert (done.returncode, "dnsmasq.conf" in done.stdout) == (0, True)
    assert "nginx" not in done.stdout
