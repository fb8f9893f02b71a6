"""Files of one run through the whole service, while their server changes."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import pytest

from tests.emulators import bmc, images
from tests.support import service
from tests.support.service import Service

SETTINGS = """
[DEFAULT]
enabled_hardware_types = redfish
enabled_boot_interfaces = ipxe,redfish-virtual-media
enabled_deploy_interfaces = ramdisk
enabled_inspect_interfaces = no-inspect
enabled_raid_interfaces = no-raid
[service_catalog]
endpoint_override = http://127.0.0.1:1
[deploy]
http_url = http://127.0.0.1:1
[dhcp]
dhcp_provider = none
[conductor]
automated_clean_enable = false
"""
HOLD = {"interface": "power", "step": "hold", "args": {}, "priority": 150}
ISO = b"an ISO image\n" * 1000


@pytest.fixture
def found() -> Iterator[Service]:
    with service.service(SETTINGS) as made:
        made.start()
        made.up()
        yield made


@pytest.mark.parametrize("boot", ["ipxe", "redfish-virtual-media"])
def test_instance_starts_from_what_its_deployment_has_checked(
    found: Service, tmp_path: pathlib.Path, boot: str
) -> None:
    """The deployment is held between its check and its boot; then the image's server hangs."""
    with contextlib.ExitStack() as made:
        web = made.enter_context(images.serve(tmp_path))
        machine = made.enter_context(bmc.serve())
        told = web.put("live.iso", ISO)
        sums = f"{told['image_os_hash_value']}  live.iso\n"
        (tmp_path / "SHA512SUMS").write_text(sums)
        more = {"driver": "redfish", "driver_info": machine.driver_info, "boot_interface": boot}
        instance = {"boot_iso": told["image_source"], "image_checksum": f"{web.url}/SHA512SUMS"}
        node = found.create("machine", **more, instance_info=instance)
        card = {"node_uuid": node, "address": "52:54:00:00:00:01"}
        found.ask("POST", "/v1/ports", card).raise_for_status()
        found.provision("machine", "manage", "manageable")
        found.provision("machine", "provide", "available")
        found.provision("machine", "active", "deploy hold", deploy_steps=[HOLD])
        before = len(web.fetched)
        web.hang()
        found.provision("machine", "unhold", "active")
        assert len(web.fetched) == before
        state = found.folder / "state" / "http"
        (served,) = [file for file in state.rglob("*") if file.suffix == ".iso"]
        assert served.read_bytes() == ISO
