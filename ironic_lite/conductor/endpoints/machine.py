"""Endpoints for one machine outside verbs: drivers, power, boot device, deletion."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.flows import admission, bmc_operations, deploy, power
from ironic_lite.conductor.flows.bmc_operations import Operation
from ironic_lite.conductor.steps import available
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.work.task import Task
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.domain import deletion, holds, step_planning
from ironic_lite.domain.steps import StepKind, as_offer
from ironic_lite.drivers import base

# The interfaces that /validate reports; `vendor` can only be validated for a named method.
_VALIDATED = tuple(kind for kind in base.KINDS if kind != "vendor")


class Machine:
    """Endpoints that query or change a machine without moving it through the states."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    # -- drivers -----------------------------------------------------------------------------

    def check_node(
        self, context: Context, *, driver: str, interfaces: dict[str, str | None], driver_info: Json
    ) -> dict[str, str]:
        """Return every interface name of a node, defaults filled in.

        Uses neither database nor machine.
        """
        registry = self.tasks.runtime.registry
        resolved = registry.resolve(driver, interfaces)
        registry.check(resolved, driver_info)
        return resolved

    def get_driver_properties(self, context: Context, *, driver: str) -> dict[str, str]:
        """Return the driver_info keys of a hardware type."""
        return self.tasks.runtime.registry.properties(driver)

    def validate_driver_interfaces(self, context: Context, *, node_uuid: str) -> Json:
        """Return the result of each interface's check of the node's settings."""
        task = self.tasks.look(context, node_uuid)
        return {kind: _validation_result(task, kind) for kind in _VALIDATED}

    def get_clean_steps(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return all clean steps, highest priority first.

        Requirements S1.21, S1.23 and S1.25.
        """
        task = self.tasks.look(context, node_uuid)
        overrides = self.tasks.runtime.clean_priorities
        found = step_planning.overridden(available.known(task), overrides)
        return [as_offer(step) for step in step_planning.order(found, StepKind.CLEAN)]

    # -- RAID --------------------------------------------------------------------------------

    def get_raid_logical_disk_properties(self, context: Context, *, driver: str) -> dict[str, str]:
        """Return the properties that a logical disk can have."""
        return self.tasks.runtime.registry.logical_disk_properties(driver)

    def set_target_raid_config(
        self, context: Context, *, node_uuid: str, target_raid_config: Json
    ) -> None:
        """Set the RAID volumes that the node should have."""
        with self.tasks.lock(context, node_uuid) as task:
            if target_raid_config:
                task.driver.raid.validate_raid_config(task, target_raid_config)
            order = Operation("set the volumes wanted", {"order": "target_raid_config"})
            bmc_operations.at_once(
                task, order, lambda task: _store_target_raid(task, target_raid_config)
            )

    # -- power -------------------------------------------------------------------------------

    def change_node_power_state(
        self, context: Context, *, node_uuid: str, target: str, timeout: int | None = None
    ) -> None:
        """Start a power change."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            task.driver.power.validate(task)
            if target not in task.driver.power.get_supported_power_states(task):
                reason = f"{target!r} is not supported by this node's power interface"
                raise errors.InvalidParameter(path="target", reason=reason)
            admission.raise_first(power.refusals(task, target))
            admission.raise_first(power.refusals_of_children(task, target))
            power.begin(task, target)
            task.hand_over(power.change, target, timeout)

    # -- boot device -------------------------------------------------------------------------

    def set_boot_device(
        self, context: Context, *, node_uuid: str, device: str, persistent: bool = False
    ) -> None:
        """Set the boot device."""
        with self.tasks.lock(context, node_uuid) as task:
            management = task.driver.management
            management.validate(task)
            offered = management.get_supported_boot_devices(task)
            if device not in offered:
                reason = f"{device!r} is not one of {', '.join(offered)}"
                raise errors.InvalidParameter(path="boot_device", reason=reason)
            bmc_operations.at_once(
                task,
                Operation("set the boot device", {"order": "boot_device", "target": device}),
                lambda task: management.set_boot_device(task, device, persistent=persistent),
            )

    def get_boot_device(self, context: Context, *, node_uuid: str) -> Json:
        """Return the boot device."""
        task = self.tasks.look(context, node_uuid)
        task.driver.management.validate(task)
        return task.driver.management.get_boot_device(task)

    def get_supported_boot_devices(self, context: Context, *, node_uuid: str) -> list[str]:
        """Return the boot devices that can be set."""
        task = self.tasks.look(context, node_uuid)
        return task.driver.management.get_supported_boot_devices(task)

    # -- the end -----------------------------------------------------------------------------

    def destroy_node(self, context: Context, *, node_uuid: str) -> None:
        """Delete a node that is at rest."""

        def act(task: Task) -> None:
            admission.raise_first(admission.of_holds(task, holds.REMOVAL, holds.REMOVAL))
            node = {name: getattr(task.node, name) for name in deletion.COLUMNS}
            conf = task.runtime.conf.conductor
            deletion.check(node, available=conf.allow_deleting_available_nodes)
            console = task.driver.console  # after the deletion there is no lock to confirm
            task.journal.event("node_deleted", before=str(task.state))
            task.transaction.destroy()
            console.let_go(node_uuid)

        self.tasks.start(context, node_uuid, act, worker=False)


def _store_target_raid(task: Task, volumes: Json) -> None:
    task.node.target_raid_config = volumes


def _validation_result(task: Task, kind: str) -> Json:
    try:
        task.driver.interface(kind).validate(task)
        if kind == "deploy":
            deploy.check_templates(task)
    except errors.Error as why:
        return {"result": False, "reason": task.journal.hide(why.message)}
    return {"result": True}
