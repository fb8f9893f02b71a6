"""What is outside of the machine: networks, and volumes."""

from __future__ import annotations

from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task


class Network(Interface):
    """Which networks a machine is plugged into during each phase."""

    kind = "network"

    def configure_tenant_networks(self, task: Task) -> None:
        """Plug the machine into the networks of its instance, before it starts; repeatable."""

    def unconfigure_tenant_networks(self, task: Task) -> None:
        """Take it out of them, once its instance has stopped; repeatable."""


class Storage(Interface):
    """Volumes outside the machine."""

    kind = "storage"
