"""Machines that boot media: cleaned, deployed from images and files, rescued and retried."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators import images, machines
from tests.emulators.agent import process
from tests.support import http_nodes, machine_room
from tests.support.ports import free_port
from tests.support.service import Service, service, until

# A machine from off to cleaned: virtual media, a foreign BMC emulator, a real agent.
#
# Nothing is faked but the machine itself: its BMC fetches the medium from the conductor's own file
# server, and what runs on it is what the medium's boot loader would have started.

SETTINGS = """
file_url_allowed_paths = {folder}
recovery_interval = 1
sync_local_state_interval = 1
hash_ring_reset_interval = 0
heartbeat_interval = 1
heartbeat_timeout = 3
[DEFAULT]
enabled_hardware_types = redfish
enabled_boot_interfaces = redfish-virtual-media
enabled_deploy_interfaces = custom-agent
enabled_inspect_interfaces = no-inspect
enabled_raid_interfaces = no-raid
[service_catalog]
endpoint_override = {api}
[deploy]
http_port = {files}
"""
PARTS = ("deploy_kernel", "deploy_ramdisk", "bootloader")


@pytest.fixture
def rack() -> Iterator[machines.Rack]:
    with machines.serve() as found:
        yield found


@pytest.fixture
def up() -> Iterator[Service]:
    """A service with a conductor that serves files."""
    with service() as found:
        values = {"folder": found.folder, "api": found.url, "files": free_port()}
        with found.settings.open("a", encoding="utf-8") as out:
            out.write(SETTINGS.format(**values))
        for name in PARTS:
            (found.folder / name).write_bytes(hashlib.sha256(name.encode()).digest() * 1000)
        found.start()
        found.up()
        yield found


def enrol(up: Service, rack: machines.Rack) -> str:
    """Enrol the machine and bring it to manageable."""
    info = {name: f"file://{up.folder / name}" for name in PARTS}
    bmc = {"redfish_address": rack.address, "redfish_system_id": rack[0].system_id}
    node = http_nodes.enrol(up, rack[0].mac, driver="redfish", driver_info={**info, **bmc})
    valid = up.get(f"/v1/nodes/{node}/validate")
    assert valid["boot"]["result"] is True, valid
    return node


def media(up: Service) -> list[pathlib.Path]:
    folder = up.folder / "state/http/media"
    return list(folder.iterdir()) if folder.exists() else []


def test_a_machine_boots_its_medium_and_is_cleaned_by_the_agent_on_it(
    up: Service, rack: machines.Rack
) -> None:
    enrol(up, rack)
    node = up.provision("m1", "provide", "available")
    machine = rack[0]
    assert machine.faults == []
    (given,) = machine.boots
    assert given["ipa-api-url"] == up.url
    assert len(given["ipa-agent-token"]) >= 32
    assert machine.agent.ran() == ["erase_devices_metadata", "scrub", "erase_devices"]
    # Nothing is left of it: no power, no medium, no secret.
    assert node["power_state"] == "power off"
    until(lambda: not machine.agent.running, "the machine off")
    assert media(up) == []
    assert not any(drive["inserted"] for drive in up.get("/v1/nodes/m1/vmedia") or [])
    assert given["ipa-agent-token"] not in str(node)


def test_steps_behind_restarts_are_the_agents_again_and_one_that_fails_takes_its_words_from_it(
    up: Service, rack: machines.Rack
) -> None:
    """The machine boots its medium once each time that it is chosen: else it would run its disk.

    ``power.reboot`` is a restart of ours, and one behind ``renew`` is wanted by the agent.
    """
    enrol(up, rack)
    words = {"words": "disk is on fire"}
    http_nodes.cleans(up, "scrub", "power.reboot", "renew", "break_down", break_down=words)
    failed = http_nodes.reaches(up, "clean failed")
    assert "disk is on fire" in failed["last_error"]
    machine = rack[0]
    assert machine.agent.ran() == ["scrub", "renew", "break_down"]
    assert (len(machine.boots), machine.faults) == (3, [])
    assert len({boot["ipa-agent-token"] for boot in machine.boots}) == 3


def test_a_conductor_that_starts_without_its_files_makes_them_again(
    up: Service, rack: machines.Rack
) -> None:
    enrol(up, rack)
    http_nodes.cleans(up, "linger", "scrub")
    machine = rack[0]
    until(lambda: machine.agent.ran() == ["linger"], "linger")
    (before,) = media(up)
    content = before.read_bytes()
    for one in up.running():
        one.clear()
    before.unlink()
    up.start()
    up.up()
    until(lambda: media(up) == [before], "the medium")
    machine.agent.flag()
    up.settled("m1", "manageable")
    assert machine.agent.ran() == ["linger", "scrub"]
    assert (media(up), len(machine.boots)) == ([], 1)
    assert b"ipa-agent-token" in content


# An instance in memory, rescued and put back: media of a foreign BMC emulator, real agents.

MORE = """
[DEFAULT]
enabled_deploy_interfaces = ramdisk
enabled_rescue_interfaces = agent
"""


BOTH = [".img", ".iso"]
"""The kinds of what an instance is shown: its configuration drive, and what it boots from."""


def shown(one: machine_room.Room, node: str) -> list[str]:
    """Return the kinds of the media that the machine is given, each in a drive of its BMC's."""
    folder = one.up.folder / "state/http/media"
    served = sorted(path.suffix for path in folder.iterdir()) if folder.exists() else []
    drives = one.up.get(f"/v1/nodes/{node}/vmedia")
    assert len([drive for drive in drives if drive["inserted"]]) == len(served)
    return served


def test_an_instance_in_memory_is_started_rescued_started_again_and_removed() -> None:
    """Each medium is for one boot's purpose, and gone after it."""
    with machine_room.serve(more=MORE) as one:
        machine = one.rack[0]
        keeps = machine.agent.folder / "rescue"
        keeps.mkdir()
        keeps.chmod(0o777)
        node = one.enrol(0)
        url = f"file://{one.up.folder}"
        parts = {"kernel": f"{url}/deploy_ramdisk", "ramdisk": f"{url}/deploy_kernel"}
        patch = [
            {"op": "add", "path": f"/driver_info/rescue_{name}", "value": f"{url}/deploy_{name}"}
            for name in parts
        ]
        answer = one.up.ask("PATCH", f"/v1/nodes/{node}", patch)
        assert answer.status_code == 200, answer.text
        one.up.provision(node, "provide", "available")
        one.fill(node, {**parts, "ramdisk_kernel_arguments": "console=ttyS0"})
        assert one.up.get(f"/v1/nodes/{node}/validate")["rescue"]["result"] is True

        one.up.provision(node, "active", "active", configdrive={"meta_data": {"name": "web-1"}})
        # Its BMC tells of the power before the machine has read its medium.
        until(lambda: len(machine.boots) == 2, "the instance's boot")
        instance = machine.boots[-1]
        assert set(instance) - {"APPEND"} == {"console", "ir_pub_id"}
        device = one.up.get(f"/v1/nodes/{node}/management/boot_device")
        assert device == {"boot_device": "cdrom", "persistent": True}
        assert (machine.on, shown(one, node)) == (True, BOTH)

        one.ask(node, "rescue", rescue_password="open sesame")
        row = one.up.settled(node, "rescue")
        assert machine.boots[-1]["ipa-api-url"] == one.up.url
        assert (keeps / "password").read_text().startswith("$5$")
        assert (machine.on, shown(one, node), row["last_error"]) == (True, [], None)

        one.up.provision(node, "unrescue", "active")
        until(lambda: "ipa-api-url" not in machine.boots[-1], "the instance's second boot")
        assert (machine.on, shown(one, node)) == (True, BOTH)

        one.up.provision(node, "deleted", "available")
        until(lambda: not machine.on, "the machine off")
        assert shown(one, node) == []
        assert machine.faults == []


# Images of other kinds through the whole service, onto a block device: a loop device.
#
# Each kind by itself, with all that may be wrong with it, is tried with a real agent in
# ``tests/drivers/agent/test_images.py``.

IMAGE_SETTINGS = """
[agent]
enable_bios_bootloader_install = true
deploy_logs_collect = always
"""
DRIVE = {"meta_data": {"hostname": "web-1"}, "user_data": "#cloud-config\n"}


def _programs(*command: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"NOT TESTED: no {command[0]}; scripts/programs.sh installs it")
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _qcow2(one: machine_room.Room, content: bytes) -> dict[str, Any]:
    """Return what is said of a qcow2 image whose checksum stands in a file beside it."""
    raw, packed = one.up.folder / "raw", one.images.folder / "system.qcow2"
    raw.write_bytes(content)
    _programs("qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(packed))
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    sums = one.images.folder / "SHA256SUMS"
    sums.write_text(f"{'0' * 64}  other.qcow2\n{digest}  system.qcow2\n")
    url = one.images.url
    return {"image_source": f"{url}/system.qcow2", "image_checksum": f"{url}/SHA256SUMS"}


def _partition(one: machine_room.Room) -> dict[str, Any]:
    """Return what is said of a file of this machine with a file system in it."""
    root, path = one.up.folder / "root", one.up.folder / "root.raw"
    (root / "etc/default").mkdir(parents=True)
    (root / "etc/default/grub").touch()
    path.write_bytes(bytes(8 * images.MIB))
    _programs("mkfs.ext4", "-q", "-F", "-L", "cloudimg", "-d", str(root), str(path))
    digest = hashlib.sha512(path.read_bytes()).hexdigest()
    sizes = {"image_type": "partition", "root_gb": 1, "swap_mb": 16}
    return {"image_source": path.as_uri(), "image_checksum": digest, **sizes}


def _logs(one: machine_room.Room) -> list[pathlib.Path]:
    folder = one.up.folder / "logs"
    return sorted(folder.iterdir()) if folder.exists() else []


def test_an_instance_of_qcow2_becomes_one_of_a_partition_image() -> None:
    """In between is one that fails; each run leaves the logs of its ramdisk, once.

    The server of the images is believed for an authority that is told on the medium.
    """
    with machine_room.serve(more=IMAGE_SETTINGS, loop=True, secure=True) as one:
        loop = one.rack[0].agent.loop
        assert loop is not None
        node = one.enrol(0, automated_clean=False)
        one.up.provision(node, "provide", "available")
        content = images.disk()
        good = _qcow2(one, content)
        one.fill(node, good)
        one.up.provision(node, "active", "active", configdrive=DRIVE)
        with open(loop.device, "rb") as disk:
            assert disk.read(len(content))[images.MIB :] == content[images.MIB :]
        found = images.drive(loop.partitions()[1]["DEVNAME"])
        assert (b"web-1" in found["meta_data.json"], found["user_data"]) == (
            True,
            b"#cloud-config\n",
        )
        assert len(_logs(one)) == 1

        one.fill(node, {**good, "image_checksum": "0" * 64})
        one.ask(node, "rebuild")
        failed = one.reaches(node, "deploy failed")
        assert "deploy.write_image" in failed["last_error"]
        assert "checksum" in failed["last_error"]
        assert len(_logs(one)) == 2

        one.fill(node, _partition(one))
        shown = one.up.provision(node, "rebuild", "active")
        swap, root = loop.partitions()
        assert (swap["TYPE"], root["LABEL"]) == ("swap", "cloudimg")
        assert shown["driver_internal_info"].get("served_image_secret") is None
        assert len(_logs(one)) == 3


# Retries of deployments with real agents that write real disks.

Json = dict[str, Any]
BREAKS_DOWN = {
    "deploy": [
        {
            "step": "break_down",
            "interface": "deploy",
            "priority": 70,
            "reboot_requested": False,
            "abortable": True,
        }
    ]
}
"""A step after write_image that fails until the file ``repaired`` exists."""


@pytest.fixture
def one() -> Iterator[machine_room.Room]:
    process.available()
    with machine_room.serve() as found:
        yield found


def available(one: machine_room.Room) -> str:
    node = one.enrol(0, automated_clean=False)
    one.up.provision(node, "provide", "available")
    return node


def lies_on(image: bytes, machine: machines.Machine) -> bool:
    """Return whether the disk starts with the image, byte for byte."""
    return pathlib.Path(machine.agent.disks[0]["name"]).read_bytes().startswith(image)


def latest_runs(one: machine_room.Room, node: str) -> tuple[Json, Json]:
    """Return the retry and the failed run before it, with their steps."""
    listed = one.up.get(f"/v1/nodes/{node}/runs")["runs"][:2]
    retried, failed = (one.up.get(f"/v1/nodes/{node}/runs/{run['uuid']}") for run in listed)
    return retried, failed


def states_of(run: Json) -> dict[str, Json]:
    return {f"{step['interface']}.{step['step']}": step for step in run["steps"]}


@pytest.mark.parametrize("fault", ["absent", "cut"])
def test_retry_writes_an_image_that_could_not_be_fetched(
    one: machine_room.Room, fault: str
) -> None:
    machine, node = one.rack[0], available(one)
    image = images.disk()
    good = one.images.put("system.raw", image)
    one.fill(node, {**good, "image_source": f"{one.images.url}/{fault}/system.raw"})
    one.ask(node, "active")
    assert "write_image" in one.reaches(node, "deploy failed")["last_error"]
    assert not lies_on(image, machine)

    one.fill(node, good)
    shown = one.up.provision(node, "retry", "active")
    assert lies_on(image, machine)
    assert (shown["maintenance"], shown["last_error"]) == (False, None)
    retried, failed = latest_runs(one, node)
    assert (retried["state"], retried["retry_of"]) == ("done", failed["uuid"])
    assert one.images.fetched[-1] == "system.raw"


def test_retry_after_a_later_step_keeps_a_written_whole_disk_image(
    one: machine_room.Room,
) -> None:
    machine = one.rack[0]
    machine.agent.steps = BREAKS_DOWN
    node = available(one)
    image = images.disk()
    one.fill(node, one.images.put("system.raw", image))
    one.ask(node, "active")
    assert "break_down" in one.reaches(node, "deploy failed")["last_error"]
    assert lies_on(image, machine)

    machine.agent.flag("repaired")
    one.up.provision(node, "retry", "active")
    assert lies_on(image, machine)
    assert one.images.fetched == ["system.raw"]
    assert machine.agent.ran() == ["break_down", "break_down"]
    retried, failed = latest_runs(one, node)
    steps = states_of(retried)
    assert steps["deploy.write_image"]["done_in"] == failed["uuid"]
    assert steps["deploy.break_down"]["done_in"] is None
    assert steps["deploy.break_down"]["attempt"] == 2
    assert steps["deploy.deploy"]["done_in"] is None  # the ramdisk boots again
