"""Fake inspect interface, without hardware."""

from __future__ import annotations

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage

FOUND: JsonView = {"cpu_arch": "x86_64", "cpus": 8, "memory_mb": 16384, "local_gb": 100}
"""Properties of every fake machine."""


class FakeInspect(stage.Staged, base.Inspect):
    """Finds a plain server; the operator's values stay."""

    def inspect_hardware(self, task: base.Task) -> base.Outcome:
        """Fill in the properties now, or at the end of a wait.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``inspect``.

        Source: S5.8.
        """
        if stage.waits(task, "inspect"):
            return base.WAIT
        return self.poll_inspection(task)

    def poll_inspection(self, task: base.Task) -> base.Outcome:
        """Fill in properties, inventory and a port for each card of ``fake_ports``: the wait ends.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``inspect``.
        """
        stage.fail_verb(task, "inspect")
        known = {key: value for key, value in task.node.properties.items() if value is not None}
        task.node.properties = {**task.node.properties, **FOUND, **known}
        told = stage.told(task)
        cards = sorted(told.ports)
        task.add_ports(cards)
        task.keep_inventory(_fake_inventory(cards, told.erasures or []), {})
        return base.DONE


_OF_DISK = ("name", "serial", "wwn", "model", "vendor")


def _fake_inventory(cards: list[str], erasures: list[Json]) -> Json:
    """Return the inventory in the format of ironic-python-agent.

    :param erasures: the disks that the erasing step reports; without one the machine has one disk.
    """
    names = ((f"eth{number}", address) for number, address in enumerate(cards))
    size, memory = FOUND["local_gb"] * 1024**3, FOUND["memory_mb"]
    return {
        "interfaces": [{"name": name, "mac_address": address} for name, address in names],
        "cpu": {"count": FOUND["cpus"], "architecture": FOUND["cpu_arch"]},
        "memory": {"physical_mb": memory, "total": memory * 1024**2},
        "disks": [
            {name: one[name] for name in _OF_DISK if name in one} | {"size": one.get("size", size)}
            for one in erasures or [{"name": "/dev/fake"}]
        ],
    }
