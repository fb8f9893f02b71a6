"""A machine from off to cleaned: virtual media, a foreign BMC emulator, a real agent.

Nothing is faked but the machine itself: its BMC fetches the medium from the conductor's own file
server, and what runs on it is what the medium's boot loader would have started.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Iterator

import pytest

from tests.emulators import machines
from tests.support import http_nodes
from tests.support.ports import free_port
from tests.support.service import Service, service, until

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
