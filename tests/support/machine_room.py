"""The service, foreign BMCs, real agents on boot media, and an image server.

with room.serve(count=2) as found:
    node = found.enrol(0)            # manageable
    found.up.provision(node, "provide", "available")
    found.rack[0].agent.ran()
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

from tests.emulators import images, machines
from tests.emulators.redfish import certificate
from tests.support import http_nodes
from tests.support.ports import free_port
from tests.support.service import Service, service

Json = dict[str, Any]
SETTINGS = """
file_url_allowed_paths = {folder}
check_provision_state_interval = 1
clean_callback_timeout = {patience}
deploy_callback_timeout = {patience}
node_locked_retry_interval = 1
[DEFAULT]
enabled_hardware_types = redfish
enabled_boot_interfaces = redfish-virtual-media
enabled_deploy_interfaces = direct
enabled_inspect_interfaces = no-inspect
enabled_network_interfaces = noop
enabled_raid_interfaces = no-raid
isolinux_bin = {folder}/isolinux.bin
ldlinux_c32 = {folder}/ldlinux.c32
[agent]
deploy_logs_local_path = {folder}/logs
[service_catalog]
endpoint_override = {api}
[deploy]
http_port = {files}
"""
PARTS = ("deploy_kernel", "deploy_ramdisk")
LOADERS = ("isolinux.bin", "ldlinux.c32")
PATIENCE = 1800


@dataclasses.dataclass(frozen=True)
class Room:
    """Everything of it."""

    up: Service
    rack: machines.Rack
    images: images.Images

    def enrol(self, number: int, **fields: Any) -> str:
        """Enrol a machine as ``m0``, ``m1`` and so on; return the name when it is manageable."""
        name = f"m{number}"
        machine = self.rack[number]
        info = {part: f"file://{self.up.folder / part}" for part in PARTS}
        bmc = {"redfish_address": self.rack.address, "redfish_system_id": machine.system_id}
        bios = {"capabilities": "boot_mode:bios"}
        given = {"driver_info": {**info, **bmc}, "properties": bios, **fields}
        http_nodes.enrol(self.up, machine.mac, node=name, driver="redfish", **given)
        return name

    def fill(self, node: str, info: Json) -> None:
        """Say what the instance is to be made of."""
        patch = [{"op": "add", "path": "/instance_info", "value": info}]
        answer = self.up.ask("PATCH", f"/v1/nodes/{node}", patch)
        assert answer.status_code == 200, answer.text

    def ask(self, node: str, target: str, **body: Any) -> None:
        """Ask for a verb, which is taken."""
        http_nodes.asks(self.up, target, node=node, **body)

    def cleans(self, node: str, *names: str, **args: Any) -> None:
        """Ask for these steps of the agent."""
        http_nodes.cleans(self.up, *names, node=node, **args)

    def reaches(self, node: str, state: str) -> Json:
        """Return the node when it rests in a state, a failure or not."""
        return http_nodes.reaches(self.up, state, node=node)


@contextlib.contextmanager
def serve(
    count: int = 1,
    patience: int = PATIENCE,
    more: str = "",
    *,
    loop: bool = False,
    secure: bool = False,
) -> Iterator[Room]:
    """Give a room with its service running; nothing of it is left afterwards.

    :param patience: seconds that an agent is waited for.
    :param more: further options, of the group ``deploy`` at first.
    :param loop: whether the machines' disks are loop devices.
    :param secure: whether images are served by https, whose authority agents are told of.
    """
    with contextlib.ExitStack() as stack:
        rack = stack.enter_context(machines.serve(count, loop=loop))
        up = stack.enter_context(service())
        folder = up.folder
        values = {"folder": folder, "api": up.url, "files": free_port(), "patience": patience}
        own = certificate(folder) if secure else None
        trusting = f"[agent]\napi_ca_file = {own[0]}\n" if own else ""
        with up.settings.open("a", encoding="utf-8") as out:
            out.write(SETTINGS.format(**values) + more + trusting)
        for name in (*PARTS, *LOADERS):
            (folder / name).write_bytes(hashlib.sha256(name.encode()).digest() * 1000)
        pictures = folder / "images"
        pictures.mkdir()
        found = stack.enter_context(images.serve(pictures, own))
        up.start()
        up.up()
        yield Room(up, rack, found)
