"""Endpoints for virtual interfaces (VIFs), by the node's network interface."""

from __future__ import annotations

from ironic_lite.conductor.flows import bmc_operations
from ironic_lite.conductor.flows.bmc_operations import Operation
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json


class Network:
    """Changes hold the node's lock; the list is read without the lock."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    def vif_list(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the attached VIFs."""
        task = self.tasks.look(context, node_uuid)
        return task.driver.network.vif_list(task)

    def vif_attach(self, context: Context, *, node_uuid: str, vif_info: Json) -> None:
        """Attach a VIF."""
        facts = {"order": "attach_vif", "vif": vif_info["id"]}
        with self.tasks.lock(context, node_uuid) as task:
            network = task.driver.network
            network.validate(task)
            order = Operation(f"attach the VIF {vif_info['id']}", facts)
            bmc_operations.at_once(task, order, lambda task: network.vif_attach(task, vif_info))

    def vif_detach(self, context: Context, *, node_uuid: str, vif_id: str) -> None:
        """Detach a VIF."""
        facts = {"order": "detach_vif", "vif": vif_id}
        with self.tasks.lock(context, node_uuid) as task:
            network = task.driver.network
            network.validate(task)
            order = Operation(f"detach the VIF {vif_id}", facts)
            bmc_operations.at_once(task, order, lambda task: network.vif_detach(task, vif_id))
