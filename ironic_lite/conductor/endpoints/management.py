"""Endpoints for one BMC: boot mode, NMI, indicators, virtual media, console."""

from __future__ import annotations

from collections.abc import Callable

from ironic_lite.conductor.flows import bmc_operations
from ironic_lite.conductor.flows.bmc_operations import Operation
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.domain import states
from ironic_lite.drivers import base


class Management:
    """Changes hold the node's lock; queries run without the lock, also during a step."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    # -- boot mode and secure boot -----------------------------------------------------------

    def change_node_boot_mode(self, context: Context, *, node_uuid: str, mode: str) -> None:
        """Start a change of the boot mode."""
        order = Operation(f"set the boot mode to {mode}", {"order": "boot_mode", "target": mode})
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            states.check_at_rest(task.state, "its boot mode", node=node_uuid)
            _start_operation(
                task, order, "set_boot_mode", lambda task: bmc_operations.boot_mode(task, mode)
            )

    def change_node_secure_boot(self, context: Context, *, node_uuid: str, state: bool) -> None:
        """Start switching secure boot."""
        goal = f"switch secure boot {'on' if state else 'off'}"
        order = Operation(goal, {"order": "secure_boot", "target": state})
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            states.check_at_rest(task.state, "its secure boot", node=node_uuid)
            _start_operation(
                task,
                order,
                "set_secure_boot_state",
                lambda task: bmc_operations.secure_boot(task, state),
            )

    # -- NMI ---------------------------------------------------------------------------------

    def inject_nmi(self, context: Context, *, node_uuid: str) -> None:
        """Give the machine a non-maskable interrupt."""
        with self.tasks.lock(context, node_uuid) as task:
            management = _management_of(task)
            bmc_operations.at_once(
                task, Operation("inject an NMI", {"order": "nmi"}), management.inject_nmi
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
        order = Operation(f"switch the lamp {indicator} {state}", {**facts, "target": state})
        with self.tasks.lock(context, node_uuid) as task:
            management = _management_of(task)
            bmc_operations.at_once(
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
        self, context: Context, *, node_uuid: str, device_type: str, image_url: str
    ) -> None:
        """Start inserting an image into a virtual drive."""
        image = masking.address(image_url)
        facts = {"order": "attach_virtual_media", "device": device_type, "image": image}
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            states.check_at_rest(task.state, "its virtual media", node=node_uuid)
            _start_operation(
                task,
                Operation(f"put an image into the virtual {device_type}", facts),
                "attach_virtual_media",
                lambda task: task.driver.management.attach_virtual_media(
                    task, device_type, image_url
                ),
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
                Operation(f"empty the virtual {which}", facts),
                "detach_virtual_media",
                lambda task: task.driver.management.detach_virtual_media(task, device_types),
            )

    # -- consoles ----------------------------------------------------------------------------

    def set_console_mode(self, context: Context, *, node_uuid: str, enabled: bool) -> None:
        """Start or stop the console."""
        goal = f"{'start' if enabled else 'stop'} the console"
        order = Operation(goal, {"order": "console", "target": enabled})
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            console = task.driver.console
            if enabled:
                console.validate(task)
            if type(console).start_console is base.Console.start_console:
                raise console.unsupported(task, "console")
            bmc_operations.begin(task, order)
            task.hand_over(
                bmc_operations.carry_out, order, lambda task: bmc_operations.console(task, enabled)
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
    task: Task, order: Operation, call: str, act: Callable[[Task], object]
) -> None:
    """Refuse an impossible operation at once; otherwise a worker carries it out.

    :param call: the driver's method that carries out the operation.
    """
    management = _management_of(task)
    if getattr(type(management), call) is getattr(base.Management, call):
        raise management.unsupported(task, call)
    bmc_operations.begin(task, order)
    task.hand_over(bmc_operations.carry_out, order, act)
