"""BMCs that accept connections and never answer, and rows of nodes with real BMCs."""

from __future__ import annotations

import contextlib
import socket
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from ironic_lite.domain import fields
from tests.support.ports import HOST

SETTINGS = """\
[DEFAULT]
enabled_hardware_types = fake-hardware,redfish
enabled_power_interfaces = fake,redfish
enabled_management_interfaces = fake,redfish
"""
"""Lets a service have the nodes of `row`."""


@contextlib.contextmanager
def silent_bmcs(count: int) -> Iterator[list[dict[str, Any]]]:
    """Give the driver_info of so many BMCs, each at an address of its own.

    The kernel accepts their connections, and nothing ever reads from them.
    """
    with contextlib.ExitStack() as stack:
        made = [
            stack.enter_context(socket.create_server((HOST, 0), backlog=64)) for _ in range(count)
        ]
        yield [_info(one.getsockname()[1]) for one in made]


def _info(port: int) -> dict[str, Any]:
    address = f"http://{HOST}:{port}"
    return {"redfish_address": address, "redfish_system_id": "/redfish/v1/Systems/1"}


def row(driver_info: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the columns of an active node whose power and management are behind a BMC."""
    fake = {f"{kind}_interface": "fake" for kind in fields.INTERFACE_KINDS}
    return {
        **fake,
        **dict.fromkeys(("network_interface", "storage_interface"), "noop"),
        **dict.fromkeys(("power_interface", "management_interface"), "redfish"),
        "uuid": str(uuid.uuid4()),
        "driver": "redfish",
        "provision_state": "active",
        "power_state": "power off",
        "driver_info": dict(driver_info),
        "driver_internal_info": {},
        "properties": {},
        "extra": {},
        "instance_info": {},
        **more,
    }
