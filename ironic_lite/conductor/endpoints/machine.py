"""Everything else about one node: its drivers' word, its power, its boot device, its end."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors, plans, states
from ironic_lite.conductor.flows import deploy, offers, orders, power
from ironic_lite.conductor.flows.orders import Order
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.context import Context
from ironic_lite.drivers import base
from ironic_lite.steps import StepKind, as_offer

Json = dict[str, Any]

# What /validate speaks of; `vendor` needs a method's name to be validated at all.
_VALIDATED = tuple(kind for kind in base.KINDS if kind != "vendor")


class Machine:
    """Endpoints that ask or change one machine without moving it through the states."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    # -- drivers -----------------------------------------------------------------------------

    def check_node(
        self, context: Context, *, driver: str, interfaces: dict[str, str | None], driver_info: Json
    ) -> dict[str, str]:
        """Return every interface name of a node, defaults filled in; no database, no machine."""
        registry = self.tasks.desk.registry
        resolved = registry.resolve(driver, interfaces)
        registry.check(resolved, driver_info)
        return resolved

    def get_driver_properties(self, context: Context, *, driver: str) -> dict[str, str]:
        """Return the driver_info keys of a hardware type."""
        return self.tasks.desk.registry.properties(driver)

    def validate_driver_interfaces(self, context: Context, *, node_uuid: str) -> Json:
        """Return what each interface thinks of the node's settings."""
        task = self.tasks.look(context, node_uuid)
        return {kind: _opinion(task, kind) for kind in _VALIDATED}

    def get_clean_steps(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return all clean steps, highest priority first (S1.21, S1.23, S1.25)."""
        task = self.tasks.look(context, node_uuid)
        overrides = self.tasks.desk.clean_priorities
        found = plans.overridden(offers.known(task), overrides)
        return [as_offer(step) for step in plans.order(found, StepKind.CLEAN)]

    # -- RAID --------------------------------------------------------------------------------

    def get_raid_logical_disk_properties(self, context: Context, *, driver: str) -> dict[str, str]:
        """Return what can be said about a logical disk."""
        return self.tasks.desk.registry.logical_disk_properties(driver)

    def set_target_raid_config(
        self, context: Context, *, node_uuid: str, target_raid_config: Json
    ) -> None:
        """Set which volumes the node shall have."""
        with self.tasks.lock(context, node_uuid) as task:
            if target_raid_config:
                task.driver.raid.validate_raid_config(task, target_raid_config)
            order = Order("set the volumes wanted", {"order": "target_raid_config"})
            orders.at_once(task, order, lambda task: _want(task, target_raid_config))

    # -- power -------------------------------------------------------------------------------

    def change_node_power_state(
        self, context: Context, *, node_uuid: str, target: str, timeout: int | None = None
    ) -> None:
        """Start a power change."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            if task.state in (states.State.CLEANING, states.State.CLEANWAIT):
                raise errors.InvalidState(verb=target, node=node_uuid, state=str(task.state))
            task.driver.power.validate(task)
            if target not in task.driver.power.get_supported_power_states(task):
                reason = f"{target!r} is not supported by this node's power interface"
                raise errors.InvalidParameter(path="target", reason=reason)
            if task.node.disable_power_off and target in (base.POWER_OFF, base.SOFT_POWER_OFF):
                reason = "its disable_power_off is set"
                raise errors.Conflict(node=node_uuid, reason=reason)
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
            orders.at_once(
                task,
                Order("set the boot device", {"order": "boot_device", "target": device}),
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
        with self.tasks.lock(context, node_uuid) as task:
            _check_deletable(task)
            task.journal.event("node_deleted", before=str(task.state))
            task.destroy()
            task.driver.console.let_go(node_uuid)


def _want(task: Task, volumes: Json) -> None:
    task.node.target_raid_config = volumes


def _opinion(task: Task, kind: str) -> Json:
    try:
        task.driver.interface(kind).validate(task)
        if kind == "deploy":
            deploy.check_templates(task)
    except errors.Error as why:
        return {"result": False, "reason": why.message}
    return {"result": True}


def _check_deletable(task: Task) -> None:
    node, conf = task.node, task.desk.conf.conductor
    if node.protected:
        raise errors.NodeProtected(node=node.uuid)
    if node.maintenance:
        return
    if node.instance_uuid is not None:
        reason = f"it is associated with instance {node.instance_uuid}"
        raise errors.Conflict(node=node.uuid, reason=reason)
    spared = () if conf.allow_deleting_available_nodes else (states.State.AVAILABLE,)
    if task.state not in states.DELETABLE.difference(spared):
        wanted = ", ".join(sorted(states.DELETABLE.difference(spared)))
        reason = f'it is in state "{task.state}"; only in {wanted} or maintenance can it be deleted'
        raise errors.Conflict(node=node.uuid, reason=reason)
