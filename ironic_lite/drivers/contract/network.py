"""Interfaces outside the machine: networks and storage volumes."""

from __future__ import annotations

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task


class Network(Interface):
    """The networks that a machine is connected to in each phase."""

    kind = "network"

    def configure_tenant_networks(self, task: Task) -> None:
        """Connect the machine to the networks of its instance before its start; repeatable."""

    def unconfigure_tenant_networks(self, task: Task) -> None:
        """Disconnect the machine from them after its instance has stopped; repeatable."""

    def vif_list(self, task: Task) -> list[Json]:
        """Return the attached virtual interfaces, each with its ``id``."""
        return []

    def vif_attach(self, task: Task, vif: JsonView) -> None:
        """Attach a virtual interface to a port or portgroup.

        :param vif: its ``id``, a UUID or name; ``port_uuid`` or ``portgroup_uuid`` to demand a
            certain card, and further keys of the caller.
        :raises errors.Conflict: the VIF is attached already.
        :raises errors.InvalidRequest: no card is free.
        """
        raise self.unsupported(task, "vif_attach")

    def vif_detach(self, task: Task, vif_id: str) -> None:
        """Detach a virtual interface.

        :raises errors.InvalidRequest: the VIF is not attached.
        """
        raise self.unsupported(task, "vif_detach")


class Storage(Interface):
    """Volumes outside the machine."""

    kind = "storage"
