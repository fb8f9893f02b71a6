"""What is outside of the machine: networks, and volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task


class Network(Interface):
    """Which networks a machine is plugged into during each phase."""

    kind = "network"

    def configure_tenant_networks(self, task: Task) -> None:
        """Plug the machine into the networks of its instance, before it starts; repeatable."""

    def unconfigure_tenant_networks(self, task: Task) -> None:
        """Take it out of them, once its instance has stopped; repeatable."""

    def vif_list(self, task: Task) -> list[dict[str, Any]]:
        """Return the virtual interfaces that are attached, each with its ``id``."""
        return []

    def vif_attach(self, task: Task, vif: Mapping[str, Any]) -> None:
        """Attach a virtual interface to a port or portgroup.

        :param vif: its ``id``, a UUID or name; ``port_uuid`` or ``portgroup_uuid`` if it is to be
            that one, and what else the caller says.
        :raises errors.Conflict: it is attached already.
        :raises errors.InvalidRequest: nothing is free.
        """
        raise self.unsupported(task, "vif_attach")

    def vif_detach(self, task: Task, vif_id: str) -> None:
        """Detach a virtual interface.

        :raises errors.InvalidRequest: it is not attached.
        """
        raise self.unsupported(task, "vif_detach")


class Storage(Interface):
    """Volumes outside the machine."""

    kind = "storage"
