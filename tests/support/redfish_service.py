"""API, conductor and Redfish driver in this process, with nodes behind emulated BMCs."""

from __future__ import annotations

import functools
from typing import Any

from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.registry import Registry, Settings
from tests.emulators import bmc
from tests.support.conductor_fixture import configure
from tests.support.operator import Operator

OPTIONS: dict[str, Any] = {
    "DEFAULT__enabled_hardware_types": ["redfish"],
    "DEFAULT__default_boot_interface": "fake",  # BMCs are real, no ramdisk is booted
    "DEFAULT__default_deploy_interface": "fake",
}


@functools.cache
def drivers() -> Registry:
    """Return the drivers of such a service: they hold no state, so all may share."""
    found = Registry.load(Settings.read(configure(**OPTIONS)))
    assert found.failures == {}
    return found


class RedfishOperator(Operator):
    """An operator of machines with Redfish."""

    def __init__(self, database: Database, **options: Any) -> None:
        super().__init__(database, registry=drivers(), **OPTIONS, **options)

    def at(self, machine: bmc.Machine, state: str = "manageable", **changes: Any) -> str:
        """Enroll the node of a machine; ``changes`` go over what driver_info should have."""
        info = {**machine.driver_info, **changes}
        told = {key: value for key, value in info.items() if value is not None}
        return self.enroll(state, driver="redfish", driver_info=told)

    def powers(self, node: str, target: str, **body: Any) -> dict[str, Any]:
        """Ask for a power state, wait until nobody works on the node, and return it."""
        body = {"target": target, **body}
        answer = self.api.put(f"/v1/nodes/{node}/states/power", body)
        assert answer.status == 202, answer.text
        self.rig.settled(node)
        return self.shows(node)

    def sweeps(self, name: str) -> None:
        """Do once what the conductor does again and again; it remembers what it has seen.

        Machines that are silent or slow are asked apart: they are waited for, too.
        """
        self.rig.sweep(name)
        assert self.rig.service.power.settle(30)
