"""An instance in memory, rescued and put back: media of a foreign BMC emulator, real agents."""

from __future__ import annotations

from tests.support import machine_room
from tests.support.service import until

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
