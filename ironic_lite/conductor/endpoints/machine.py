"""Endpoints for one machine outside verbs: drivers, power, BMC, console, VIFs, vendor calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from ironic_lite import errors
from ironic_lite.conductor.engine import lists
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import admission, deploy, operations
from ironic_lite.conductor.flows.operations import BmcOperation
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.core import masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.domain import holds, passthru, states, step_lists, verbs
from ironic_lite.domain.passthru import Call, PassthruRoute
from ironic_lite.domain.steps import StepKind, as_offer
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import medium

LOG = logging.getLogger(__name__)

# The interfaces that /validate reports; `vendor` can only be validated for a named method.
_VALIDATED = tuple(kind for kind in base.KINDS if kind != "vendor")


class MachineEndpoints:
    """Endpoints that query or change a machine without moving it through the states."""

    tasks: TaskRunner

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

    def get_driver_property_details(self, context: Context, *, driver: str) -> Json:
        """Return the facts for forms about the driver_info keys of a hardware type."""
        return self.tasks.runtime.registry.property_details(driver)

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
        found = step_lists.overridden(lists.known_clean_steps(task), overrides)
        return [as_offer(step) for step in step_lists.order(found, StepKind.CLEAN)]

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
            facts = {"order": "target_raid_config"}
            order = BmcOperation("set the volumes wanted", facts, machine=False)
            operations.at_once(
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
            admission.raise_first(operations.power_refusals(task, target))
            admission.raise_first(operations.power_refusals_of_children(task, target))
            operations.begin_power_change(task, target)
            task.hand_over(operations.change_power, target, timeout)

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
            operations.at_once(
                task,
                BmcOperation("set the boot device", {"order": "boot_device", "target": device}),
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
            admission.raise_first(admission.of_holds(task, holds.REMOVAL, holds.REMOVAL))
            node = {name: getattr(task.node, name) for name in verbs.DELETION_COLUMNS}
            conf = task.runtime.conf.conductor
            verbs.check_deletion(node, available=conf.allow_deleting_available_nodes)
            console = task.driver.console  # after the deletion there is no lock to confirm
            task.journal.event("node_deleted", before=str(task.state))
            task.transaction.destroy()
            console.let_go(node_uuid)


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


class ManagementEndpoints:
    """Changes hold the node's lock; queries run without the lock, also during a step."""

    tasks: TaskRunner

    # -- boot mode and secure boot -----------------------------------------------------------

    def change_node_boot_mode(self, context: Context, *, node_uuid: str, mode: str) -> None:
        """Start a change of the boot mode."""
        order = BmcOperation(f"set the boot mode to {mode}", {"order": "boot_mode", "target": mode})
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            states.check_at_rest(task.state, "its boot mode", node=node_uuid)
            _start_operation(
                task, order, "set_boot_mode", lambda task: operations.change_boot_mode(task, mode)
            )

    def change_node_secure_boot(self, context: Context, *, node_uuid: str, state: bool) -> None:
        """Start switching secure boot."""
        goal = f"switch secure boot {'on' if state else 'off'}"
        order = BmcOperation(goal, {"order": "secure_boot", "target": state})
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            states.check_at_rest(task.state, "its secure boot", node=node_uuid)
            _start_operation(
                task,
                order,
                "set_secure_boot_state",
                lambda task: operations.change_secure_boot(task, state),
            )

    # -- NMI ---------------------------------------------------------------------------------

    def inject_nmi(self, context: Context, *, node_uuid: str) -> None:
        """Give the machine a non-maskable interrupt."""
        with self.tasks.lock(context, node_uuid) as task:
            management = _management_of(task)
            operations.at_once(
                task, BmcOperation("inject an NMI", {"order": "nmi"}), management.inject_nmi
            )

    # -- lamps -------------------------------------------------------------------------------

    def get_supported_indicators(
        self, context: Context, *, node_uuid: str, component: str | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return the indicators."""
        task = self.tasks.look(context, node_uuid)
        return _management_of(task).get_supported_indicators(task, component)

    def get_indicator_state(
        self, context: Context, *, node_uuid: str, component: str, indicator: str
    ) -> str:
        """Return an indicator's state."""
        task = self.tasks.look(context, node_uuid)
        return _management_of(task).get_indicator_state(task, component, indicator)

    def set_indicator_state(
        self, context: Context, *, node_uuid: str, component: str, indicator: str, state: str
    ) -> None:
        """Set an indicator's state."""
        facts = {"order": "indicator", "component": component, "indicator": indicator}
        order = BmcOperation(f"switch the lamp {indicator} {state}", {**facts, "target": state})
        with self.tasks.lock(context, node_uuid) as task:
            management = _management_of(task)
            operations.at_once(
                task,
                order,
                lambda task: management.set_indicator_state(task, component, indicator, state),
            )

    # -- virtual media -----------------------------------------------------------------------

    def get_virtual_media(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the virtual drives; secrets are removed from image addresses."""
        task = self.tasks.look(context, node_uuid)
        found: list[Json] = masking.mask(_management_of(task).get_virtual_media(task))
        return [
            {**drive, "image": masking.address(image)}
            if isinstance(image := drive.get("image"), str)
            else drive
            for drive in found
        ]

    def attach_virtual_media(
        self,
        context: Context,
        *,
        node_uuid: str,
        device_type: str,
        image_url: str,
        image_download_source: str = "http",
    ) -> None:
        """Start inserting an image into a virtual drive."""
        local = image_download_source == "local"
        image = masking.address(image_url)
        facts = {"order": "attach_virtual_media", "device": device_type, "image": image}
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            states.check_at_rest(task.state, "its virtual media", node=node_uuid)
            if local:
                medium.check_attached(task.node, image_url)
            _start_operation(
                task,
                BmcOperation(f"put an image into the virtual {device_type}", facts),
                "attach_virtual_media",
                lambda task: medium.attach(task, device_type, image_url, local=local),
            )

    def detach_virtual_media(
        self, context: Context, *, node_uuid: str, device_types: list[str] | None = None
    ) -> None:
        """Start ejecting virtual drives."""
        which = ", ".join(device_types) if device_types else "drives"
        facts = {"order": "detach_virtual_media", "devices": device_types}
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            states.check_at_rest(task.state, "its virtual media", node=node_uuid)
            _start_operation(
                task,
                BmcOperation(f"empty the virtual {which}", facts),
                "detach_virtual_media",
                lambda task: medium.detach(task, device_types),
            )

    # -- consoles ----------------------------------------------------------------------------

    def set_console_mode(self, context: Context, *, node_uuid: str, enabled: bool) -> None:
        """Start or stop the console."""
        goal = f"{'start' if enabled else 'stop'} the console"
        order = BmcOperation(goal, {"order": "console", "target": enabled})
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            console = task.driver.console
            if enabled:
                console.validate(task)
            if type(console).start_console is base.Console.start_console:
                raise console.unsupported(task, "console")
            operations.begin_operation(task, order)
            task.hand_over(
                operations.carry_out, order, lambda task: operations.change_console(task, enabled)
            )

    def get_console_information(self, context: Context, *, node_uuid: str) -> Json:
        """Return the address of a started console, {} while it waits for the next instance."""
        task = self.tasks.look(context, node_uuid)
        task.driver.console.validate(task)
        return {} if task.notes.console_paused else task.driver.console.get_console(task)


def _management_of(task: Task) -> base.Management:
    """Return the node's management interface, its settings checked."""
    task.driver.management.validate(task)
    return task.driver.management


def _start_operation(
    task: Task, order: BmcOperation, call: str, act: Callable[[Task], object]
) -> None:
    """Refuse an impossible operation at once; otherwise a worker carries it out.

    :param call: the driver's method that carries out the operation.
    """
    management = _management_of(task)
    if getattr(type(management), call) is getattr(base.Management, call):
        raise management.unsupported(task, call)
    operations.begin_operation(task, order)
    task.hand_over(operations.carry_out, order, act)


class NetworkEndpoints:
    """Changes hold the node's lock; the list is read without the lock."""

    tasks: TaskRunner

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
            order = BmcOperation(
                f"attach the VIF {vif_info['id']}", facts, network.acts_on_switches
            )
            operations.at_once(task, order, lambda task: network.vif_attach(task, vif_info))

    def vif_detach(self, context: Context, *, node_uuid: str, vif_id: str) -> None:
        """Detach a VIF."""
        facts = {"order": "detach_vif", "vif": vif_id}
        with self.tasks.lock(context, node_uuid) as task:
            network = task.driver.network
            network.validate(task)
            order = BmcOperation(f"detach the VIF {vif_id}", facts, network.acts_on_switches)
            operations.at_once(task, order, lambda task: network.vif_detach(task, vif_id))


# Vendor passthru: calls of vendor-specific methods of a node or a hardware type.


class VendorEndpoints:
    """Endpoints that find a marked method and call it."""

    tasks: TaskRunner

    # -- of one node -------------------------------------------------------------------------

    def get_node_vendor_passthru_methods(self, context: Context, *, node_uuid: str) -> Json:
        """Return the methods of a node's vendor interface."""
        vendor = self.tasks.look(context, node_uuid).driver.vendor
        return _shown_vendor_routes(passthru.collect(vendor, passthru.NODE))

    def vendor_passthru(
        self,
        context: Context,
        *,
        node_uuid: str,
        vendor_method: str,
        http_method: str,
        info: Json,
    ) -> Json:
        """Call a node's method, at once or by a worker, with or without the lock.

        The method's mark decides.
        """
        call = Call(http_method, info)
        looking = self.tasks.look(context, node_uuid)
        route = passthru.pick(looking.driver.vendor, passthru.NODE, vendor_method, http_method)
        if not route.lock:
            operations.refuse_held(looking, _vendor_order(vendor_method, call))
            looking.driver.vendor.check_passthru(looking, vendor_method, call)
            return _vendor_answer(
                route, getattr(looking.driver.vendor, vendor_method)(looking, call)
            )
        with self.tasks.lock(context, node_uuid, worker=route.async_call) as task:
            return _call_vendor_locked(task, vendor_method, call)

    # -- of a hardware type ------------------------------------------------------------------

    def get_driver_vendor_passthru_methods(self, context: Context, *, driver: str) -> Json:
        """Return the methods of a hardware type's default vendor interface."""
        return _shown_vendor_routes(passthru.collect(self._default_vendor(driver), passthru.DRIVER))

    def driver_vendor_passthru(
        self, context: Context, *, driver: str, vendor_method: str, http_method: str, info: Json
    ) -> Json:
        """Call a hardware type's method; an asynchronous failure is only logged."""
        call, vendor = Call(http_method, info), self._default_vendor(driver)
        route = passthru.pick(vendor, passthru.DRIVER, vendor_method, http_method)
        vendor.check_driver_passthru(vendor_method, call)
        method = getattr(vendor, vendor_method)
        if not route.async_call:
            return _vendor_answer(route, method(call))
        self.tasks.runtime.workers.claim(reserved=True)
        self.tasks.runtime.workers.run(
            lambda: _call_vendor_of_driver(driver, vendor_method, method, call)
        )
        return _vendor_answer(route, None)

    def _default_vendor(self, driver: str) -> base.Vendor:
        vendor = self.tasks.runtime.registry.default(driver, "vendor")
        assert isinstance(vendor, base.Vendor)
        return vendor


def _call_vendor_locked(task: Task, name: str, call: Call) -> Json:
    """Call a method under the lock; the interface may have changed meanwhile."""
    vendor = task.driver.vendor
    route = passthru.pick(vendor, passthru.NODE, name, call.verb)
    vendor.check_passthru(task, name, call)
    method = getattr(vendor, name)
    order = _vendor_order(name, call)
    if not route.async_call:
        return _vendor_answer(
            route, operations.at_once(task, order, lambda task: method(task, call))
        )
    operations.begin_operation(task, order)
    task.hand_over(operations.carry_out, order, lambda task: method(task, call))
    return _vendor_answer(route, None)


def _vendor_order(name: str, call: Call) -> BmcOperation:
    facts = {"order": "vendor_passthru", "method": name, "verb": call.verb}
    return BmcOperation(f"call the vendor method {name}", facts, call.verb != "GET")


def _call_vendor_of_driver(driver: str, name: str, method: Any, call: Call) -> None:
    try:
        method(call)
    except Exception as why:  # drivers may raise anything
        LOG.error("The vendor method %s of %s failed", name, driver, exc_info=why)


def _vendor_answer(route: PassthruRoute, result: object) -> Json:
    shown = None if route.async_call else result
    return {"return": shown, "async": route.async_call, "attach": route.attach}


def _shown_vendor_routes(routes: dict[str, PassthruRoute]) -> Json:
    return {
        name: {
            "http_methods": list(route.verbs),
            "async": route.async_call,
            "description": route.description,
            "attach": route.attach,
            "require_exclusive_lock": route.lock,
        }
        for name, route in routes.items()
    }


# Endpoints for the doctor, a feature.


class ConductorChecks(Protocol):
    """The checks of a conductor and of its nodes."""

    def examine(self, context: Context) -> list[Json]:
        """Return the findings about this conductor."""

    def examine_node(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the findings about a node and the way to its BMC."""


class ExaminationEndpoints:
    """Endpoints that ask the doctor, which adds itself where its feature is on."""

    tasks: TaskRunner
    doctor: ConductorChecks | None = None

    def examine(self, context: Context) -> list[Json]:
        """Return the findings about this conductor."""
        return self._present().examine(context)

    def examine_node(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the findings about a node and the way to its BMC."""
        return self._present().examine_node(context, node_uuid=node_uuid)

    def _present(self) -> ConductorChecks:
        if self.doctor is None:
            host = self.tasks.runtime.host
            text = (
                f"The feature doctor is off on conductor {host}; set [features]enabled as for APIs."
            )
            raise errors.UnknownMethod(text, host=host)
        return self.doctor
