"""An instance in memory, rescued and put back: media of a foreign BMC emulator, real agents."""

from __future__ import annotations

from tests.acceptance import room
from tests.acceptance.service import until

MORE = """
[DEFAULT]
enabled_deploy_interfaces = ramdisk
enabled_rescue_interfaces = agent
"""


def served(one: room.Room) -> list[str]:
    """Return the media that machines are given."""
    media = one.up.folder / "state/http/media"
    return [path.name for path in media.iterdir()] if media.exists() else []


def test_an_instance_in_memory_is_started_rescued_started_again_and_removed() -> None:
    """Each medium is for one boot's purpose, and gone after it."""
    with room.serve(more=MORE) as one:
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

        one.up.provision(node, "active", "active")
        instance = machine.boots[-1]
        assert set(instance) - {"APPEND"} == {"console", "ir_pub_id"}
        device = one.up.get(f"/v1/nodes/{node}/management/boot_device")
        assert device == {"boot_device": "cdrom", "persistent": True}
        assert (machine.on, len(served(one))) == (True, 1)

        one.ask(node, "rescue", rescue_password="open sesame")
        row = one.up.settled(node, "rescue")
        assert machine.boots[-1]["ipa-api-url"] == one.up.url
        assert (keeps / "password").read_text().startswith("$5$")
        assert (machine.on, served(one), row["last_error"]) == (True, [], None)
        assert not any(drive["inserted"] for drive in one.up.get(f"/v1/nodes/{node}/vmedia"))

        one.up.provision(node, "unrescue", "active")
        assert "ipa-api-url" not in machine.boots[-1]
        assert (machine.on, len(served(one))) == (True, 1)

        one.up.provision(node, "deleted", "available")
        until(lambda: not machine.on, "the machine off")
        assert served(one) == []
        assert machine.faults == []
