"""What a driver author needs: the interfaces to implement, the task they are handed, the
decorators.

A driver sees a ``Task`` (node, ports, saved notes, timers) and nothing of the conductor or the
database. Every method that speaks to hardware must bound its own time, raises
``errors.HardwareError`` or one of its children, and never moves a node: it returns ``DONE`` or
``WAIT``. See ``docs/drivers.rst``.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from ironic_lite import errors, fields, raid, steps
from ironic_lite.hardware import (
    BOOT_MODES,
    COMPONENTS,
    IMAGE_SCHEMES,
    INDICATOR_STATES,
    VIRTUAL_MEDIA,
)
from ironic_lite.passthru import Call, driver_passthru, passthru
from ironic_lite.records import Node, Port
from ironic_lite.steps import (
    DONE,
    WAIT,
    Arg,
    Outcome,
    Step,
    StepKind,
    clean_step,
    deploy_step,
    service_step,
    verify_step,
)

__all__ = [
    "BOOT_MODES",
    "COMPONENTS",
    "DONE",
    "IMAGE_SCHEMES",
    "INDICATOR_STATES",
    "KINDS",
    "VIRTUAL_MEDIA",
    "WAIT",
    "AgentReport",
    "Arg",
    "BiosSetting",
    "Call",
    "Driver",
    "FirmwareComponent",
    "HardwareType",
    "Interface",
    "Node",
    "Outcome",
    "Port",
    "Step",
    "StepKind",
    "Task",
    "clean_step",
    "deploy_step",
    "driver_passthru",
    "passthru",
    "service_step",
    "verify_step",
]

POWER_ON = "power on"
POWER_OFF = "power off"
REBOOT = "rebooting"
SOFT_REBOOT = "soft rebooting"
SOFT_POWER_OFF = "soft power off"


class Task(Protocol):
    """One piece of work on one node, as a driver sees it."""

    node: Node

    @property
    def driver(self) -> Driver:
        """The interfaces of this node, to call a neighbour (a deploy step turning the power on)."""

    @property
    def ports(self) -> Sequence[Port]:
        """The node's ports, loaded at first use."""

    def add_ports(self, addresses: Iterable[str]) -> None:
        """Add a port for each MAC address of an inspected machine that no node has yet (S5.8).

        Written at once. What is no MAC address is left out, with a line in the log.
        """

    def recall(self, key: str, default: Any = None) -> Any:
        """Return what a driver kept on this node under ``key``."""

    def keep(self, key: str, value: Any) -> None:
        """Keep a JSON value on this node, across steps, restarts and conductors; None forgets it.

        It is written with the engine's next save, and shown in driver_internal_info.
        """

    def wake_after(self, seconds: float) -> None:
        """Ask that a step about to return WAIT is polled (``poll_step``) after ``seconds``.

        The timer is durable: it survives this conductor.
        """

    @property
    def manager_version(self) -> Mapping[str, str] | None:
        """The versions of the agent's hardware managers when it listed its steps, None before."""

    @property
    def step_id(self) -> str:
        """The name of the step under way, for whoever will tell the conductor that it has ended:
        the argument of ``continue_node_*``. What ends late or twice then ends no other step.
        """

    def pause(self, seconds: float) -> None:
        """Sleep inside a worker, at most to the service's stop.

        :raises errors.Unavailable: the service is stopping; the step is redone after its restart.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class AgentReport:
    """What a ramdisk's agent tells of itself.

    ``steps`` are its steps of each kind it was asked for: hardware manager -> list of steps, as the
    agent gives them; ``version`` maps its hardware managers to their versions.
    """

    steps: Mapping[StepKind, Mapping[str, Sequence[Mapping[str, Any]]]]
    version: Mapping[str, str]


class Interface:
    """The part common to all interface kinds: properties, validation and steps (S2.6, S2.8,
    S3.16).
    """

    kind: ClassVar[str] = ""
    # True if a ramdisk's agent has steps for this interface, and its heartbeats end them.
    in_band: ClassVar[bool] = False

    def uses_agent(self, task: Task) -> bool:
        """Tell whether an agent adds steps to this interface's own on this node.

        They join the list once ``Deploy.agent_steps`` has told them; ``execute_<kind>_step`` is
        then called with them, too. A step of the interface's own hides one of the same name.
        """
        return self.in_band

    def get_properties(self) -> dict[str, str]:
        """Return ``{driver_info key: description}``; "Required." ends a description if it is."""
        return {}

    def validate(self, task: Task) -> None:
        """Check the node's settings without touching hardware.

        :raises errors.InvalidParameter, errors.MissingParameter: naming ``driver_info/<key>``.
        """

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        """Refuse nonsense at the moment it is written (node create and PATCH), missing keys
        allowed.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """

    # -- steps -------------------------------------------------------------------------------

    def get_clean_steps(self, task: Task) -> list[dict[str, Any]]:
        """Return all clean steps as wire dictionaries, highest priority first (S2.6, S2.7).

        :raises errors.StepsUnavailable: the list comes from an agent that has not run yet (S1.26).
        """
        return self._steps(StepKind.CLEAN)

    def get_deploy_steps(self, task: Task) -> list[dict[str, Any]]:
        """Return all deploy steps as wire dictionaries, highest priority first (S3.16)."""
        return self._steps(StepKind.DEPLOY)

    def get_service_steps(self, task: Task) -> list[dict[str, Any]]:
        """Return all service steps as wire dictionaries, highest priority first."""
        return self._steps(StepKind.SERVICE)

    def get_verify_steps(self, task: Task) -> list[dict[str, Any]]:
        """Return all verify steps as wire dictionaries, highest priority first."""
        return self._steps(StepKind.VERIFY)

    def execute_clean_step(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        """Run the named clean step; ``step`` is a wire dictionary, its args become keywords
        (S1.19).

        :raises errors.CleanStepFailed: or any other error of ours: the clean fails with it (S2.8).
        :raises errors.AgentChanged: the agent has other hardware managers than
            ``task.manager_version``, and has not begun the step. It is asked for its steps anew;
            then an automated clean begins again, anything else runs this step again (S2.29).
        """
        return self._execute(task, step)

    def execute_deploy_step(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        """Run the named deploy step (S3.17).

        :raises errors.DeployStepFailed: or any other error of ours: the deploy fails with it.
        """
        return self._execute(task, step)

    def execute_service_step(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        """Run the named service step."""
        return self._execute(task, step)

    def execute_verify_step(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        """Run the named verify step."""
        return self._execute(task, step)

    def poll_step(self, task: Task, kind: StepKind, step: Mapping[str, Any]) -> Outcome:
        """Say whether a waiting step has ended; called when the time given to ``wake_after`` is
        over.

        Return WAIT after another ``wake_after`` to be asked again; raise to fail the step;
        ``errors.AgentChanged`` is as in ``execute_clean_step``.
        """
        return DONE

    def _steps(self, kind: StepKind) -> list[dict[str, Any]]:
        found = steps.collect(self.kind, self, kind)
        found.sort(key=lambda step: -step.priority)
        return [steps.as_driver_dict(step, kind) for step in found]

    def _execute(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        method = getattr(self, step["step"])
        outcome: Outcome | None = method(task, **(step.get("args") or {}))
        return outcome

    def unsupported(self, task: Task, extension: str) -> errors.UnsupportedDriverExtension:
        """Return the error for something this driver cannot do."""
        return errors.UnsupportedDriverExtension(driver=task.node.driver, extension=extension)


class Power(Interface, abc.ABC):
    """Switching machines on and off.

    A step that calls these also sets ``task.node.power_state``: what the database says is what the
    power sync brings the machine back to.
    """

    kind = "power"

    @abc.abstractmethod
    def get_power_state(self, task: Task) -> str | None:
        """Ask the hardware: ``power on`` or ``power off``; never guess.

        None: the machine answered, and is between the two or does not say which. The power sync
        then leaves node and machine as they are; silence is an error, which it counts.

        :raises errors.HardwareError: no answer, or not a usable one.
        """

    @abc.abstractmethod
    def set_power_state(self, task: Task, target: str, timeout: float | None = None) -> None:
        """Bring the power to ``target`` (on, off, soft power off) and return when it is there.

        :param timeout: seconds; None takes the configured one.
        :raises errors.PowerFailure: it did not get there in time.
        """

    @abc.abstractmethod
    def reboot(self, task: Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Power off (softly if asked) and on again; ends with the power on."""

    def get_supported_power_states(self, task: Task) -> tuple[str, ...]:
        """Return the targets this driver accepts."""
        return (POWER_ON, POWER_OFF, REBOOT)

    def supports_power_sync(self, task: Task) -> bool:
        """Tell whether the periodic power comparison makes sense."""
        return True


class Management(Interface):
    """Boot device, boot mode and the rest of a BMC's housekeeping."""

    kind = "management"

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        """Return the names accepted by ``set_boot_device``."""
        raise self.unsupported(task, "get_supported_boot_devices")

    def set_boot_device(self, task: Task, device: str, *, persistent: bool = False) -> None:
        """Choose what the next boot (or each, if ``persistent``) starts from."""
        raise self.unsupported(task, "set_boot_device")

    def get_boot_device(self, task: Task) -> dict[str, Any]:
        """Return ``{"boot_device": str | None, "persistent": bool | None}``."""
        raise self.unsupported(task, "get_boot_device")

    def get_supported_boot_modes(self, task: Task) -> list[str]:
        """Return which of ``bios`` and ``uefi`` can be set."""
        raise self.unsupported(task, "get_supported_boot_modes")

    def set_boot_mode(self, task: Task, mode: str) -> None:
        """Set ``bios`` or ``uefi``."""
        raise self.unsupported(task, "set_boot_mode")

    def get_boot_mode(self, task: Task) -> str | None:
        """Return ``bios``, ``uefi`` or None when unknown."""
        raise self.unsupported(task, "get_boot_mode")

    def get_secure_boot_state(self, task: Task) -> bool | None:
        """Tell whether the firmware checks signatures, None when unknown."""
        raise self.unsupported(task, "get_secure_boot_state")

    def set_secure_boot_state(self, task: Task, state: bool) -> None:
        """Switch secure boot on (True) or off; returns when the BMC says that it is so.

        :raises errors.HardwareError: the BMC refused, or did not get there in time.
        """
        raise self.unsupported(task, "set_secure_boot_state")

    def inject_nmi(self, task: Task) -> None:
        """Give the machine a non-maskable interrupt at once."""
        raise self.unsupported(task, "inject_nmi")

    def get_supported_indicators(
        self, task: Task, component: str | None = None
    ) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the lamps: ``{component: {indicator: {"readonly": bool, "states": [str]}}}``.

        :param component: one of ``COMPONENTS``, to see only its lamps; None for all. A component
            that the machine has not is left out.
        """
        raise self.unsupported(task, "get_supported_indicators")

    def get_indicator_state(self, task: Task, component: str, indicator: str) -> str:
        """Return one of ``INDICATOR_STATES``, or ``unknown``.

        :raises errors.InvalidParameter: there is no such ``component`` or ``indicator``.
        """
        raise self.unsupported(task, "get_indicator_state")

    def set_indicator_state(self, task: Task, component: str, indicator: str, state: str) -> None:
        """Bring a lamp to one of ``INDICATOR_STATES``.

        :raises errors.InvalidParameter: no such ``component`` or ``indicator``, or it does not know
            this ``state``.
        """
        raise self.unsupported(task, "set_indicator_state")

    def get_sensors_data(self, task: Task) -> dict[str, dict[str, dict[str, Any]]]:
        """Return what the sensors say: ``{type: {sensor: {fact: JSON value}}}``.

        :raises errors.HardwareError: no answer, or not a usable one.
        """
        raise self.unsupported(task, "get_sensors_data")

    def detect_vendor(self, task: Task) -> str | None:
        """Return the maker's name as the BMC gives it, None if it gives none."""
        raise self.unsupported(task, "detect_vendor")

    def get_mac_addresses(self, task: Task) -> list[str]:
        """Return the addresses of the machine's network cards, ``aa:bb:cc:dd:ee:ff``."""
        raise self.unsupported(task, "get_mac_addresses")

    def get_virtual_media(self, task: Task) -> list[dict[str, Any]]:
        """Return the virtual drives, each ``{"media_types": [str], "inserted": bool, "image": str |
        None}`` and what else the BMC says of it, keys in lower case with underscores.

        Addresses of images come without passwords.
        """
        raise self.unsupported(task, "get_virtual_media")

    def attach_virtual_media(self, task: Task, device_type: str, image_url: str) -> None:
        """Put an image into a virtual drive, in place of what it holds.

        :param device_type: one of ``VIRTUAL_MEDIA``.
        :param image_url: of ``IMAGE_SCHEMES``; the BMC reads it, not this service.
        :raises errors.InvalidParameter: the machine has no such ``device_type``, or its BMC cannot
            read this ``image_url``.
        """
        raise self.unsupported(task, "attach_virtual_media")

    def detach_virtual_media(self, task: Task, device_types: Sequence[str] | None = None) -> None:
        """Empty the virtual drives of these types, None for all; empty ones may stay as they are.

        :param device_types: of ``VIRTUAL_MEDIA``.
        """
        raise self.unsupported(task, "detach_virtual_media")


class Deploy(Interface):
    """Putting an instance on a machine, and the ramdisk around cleaning and servicing."""

    kind = "deploy"

    def prepare(self, task: Task) -> None:
        """Get ready for a deployment, before its first step."""

    def tear_down(self, task: Task) -> None:
        """Undo what ``prepare`` and the steps added (S5.25); must be repeatable."""

    def clean_up(self, task: Task) -> None:
        """Remove files and caches of a deployment; must be repeatable."""

    def take_over(self, task: Task) -> None:
        """Rebuild what this conductor needs for a node that another one drove before."""

    def adopt(self, task: Task) -> None:
        """Take in a machine that already runs an instance."""
        self.take_over(task)

    def prepare_cleaning(self, task: Task) -> Outcome:
        """Get ready to clean; WAIT if a ramdisk boots first."""
        return DONE

    def tear_down_cleaning(self, task: Task) -> None:
        """Undo ``prepare_cleaning``; must be repeatable."""

    def prepare_service(self, task: Task) -> Outcome:
        """Get ready to service; WAIT if a ramdisk boots first."""
        return DONE

    def tear_down_service(self, task: Task) -> None:
        """Undo ``prepare_service``; must be repeatable."""

    def heartbeat(self, task: Task) -> bool:
        """Act on an agent's heartbeat in a wait state; True lets the engine go on to the next
        step.

        :raises errors.AgentChanged: the agent refused the step, as in ``execute_clean_step``.
        """
        return False

    def agent_steps(self, task: Task, kind: StepKind) -> AgentReport | None:
        """Ask the running agent for its steps of a kind, and its hardware managers' versions.

        Asked when the agent may have begun to speak, and when another agent has taken its place.
        Further kinds may be reported: clean steps are shown at any time from then on (S1.25).
        None: there is no agent, or it does not speak yet.

        :raises errors.HardwareError: it does not answer as it should.
        """
        return None


class Boot(Interface):
    """How a machine gets its ramdisk and its instance to boot."""

    kind = "boot"

    def prepare_ramdisk(self, task: Task, params: Mapping[str, str]) -> None:
        """Make the next boot start the ramdisk with these kernel parameters."""

    def clean_up_ramdisk(self, task: Task) -> None:
        """Undo ``prepare_ramdisk``; must be repeatable."""

    def prepare_instance(self, task: Task) -> None:
        """Make the next boots start the instance."""

    def clean_up_instance(self, task: Task) -> None:
        """Undo ``prepare_instance``; must be repeatable."""


class RAID(Interface):
    """Volumes; ``target_raid_config`` of the node says which are wanted.

    The steps that clients know are ``create_configuration`` (clean; ``raid.CREATE_ARGS``),
    ``apply_configuration`` (deploy, service; ``raid.APPLY_ARGS``) and ``delete_configuration``
    (all three), of priority 0. `show_raid` writes what they have built.
    """

    kind = "raid"

    def validate_raid_config(self, task: Task, config: Mapping[str, Any]) -> None:
        """Refuse a ``target_raid_config`` that cannot be built here; speaks to no hardware.

        :raises errors.InvalidParameter: naming the path, ``logical_disks/0/raid_level``.
        :raises errors.UnsupportedDriverExtension: there is no RAID at all.
        """
        raid.check(config)

    def get_logical_disk_properties(self) -> dict[str, str]:
        """Return ``{key of a logical disk: description}``."""
        return raid.properties()

    def show_raid(self, task: Task, disks: Sequence[dict[str, Any]]) -> None:
        """Write the volumes that a machine has now into its node: ``raid_config``, and what of
        ``properties`` follows from them (``local_gb``, ``root_device``, ``raid_level``).
        """
        task.node.raid_config = raid.built(disks)
        task.node.properties = raid.described(task.node.properties, disks)


@dataclasses.dataclass(frozen=True, slots=True)
class BiosSetting:
    """A setting of a machine's firmware, and what its BMC's attribute registry says of it.

    ``value`` is shown as text; the one of a ``Password`` is never kept. ``allowable_values`` are
    those of an ``Enumeration``, the bounds those of an ``Integer``, the lengths those of a
    ``String``.
    """

    name: str
    value: str | int | float | bool | None = None
    attribute_type: str | None = None
    allowable_values: Sequence[str] | None = None
    lower_bound: int | None = None
    upper_bound: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    read_only: bool | None = None
    reset_required: bool | None = None
    unique: bool | None = None


class BIOS(Interface):
    """Firmware settings.

    ``apply_configuration`` and ``factory_reset`` become steps by the marks of an implementation.
    Once such a step has ended, and at the end of verifying and cleaning, ``cache_bios_settings`` is
    asked and what it returns is kept: a driver writes nothing itself.
    """

    kind = "bios"

    def apply_configuration(self, task: Task, settings: list[dict[str, Any]]) -> Outcome | None:
        """Change these settings, ``[{"name": ..., "value": ...}]``, and leave the others.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        raise self.unsupported(task, "apply_configuration")

    def factory_reset(self, task: Task) -> Outcome | None:
        """Bring all settings back to what the maker has chosen."""
        raise self.unsupported(task, "factory_reset")

    def cache_bios_settings(self, task: Task) -> Sequence[BiosSetting]:
        """Return all settings as the machine has them now.

        :raises errors.UnsupportedDriverExtension: the machine tells none.
        """
        raise self.unsupported(task, "cache_bios_settings")


@dataclasses.dataclass(frozen=True, slots=True)
class FirmwareComponent:
    """A part of a machine with firmware of its own: ``bios``, ``bmc`` or ``nic:<which>``."""

    component: str
    version: str
    vendor: str | None = None
    model: str | None = None
    serial_number: str | None = None


class Firmware(Interface):
    """Firmware versions; what is said of ``BIOS`` is true here, too."""

    kind = "firmware"

    def update(self, task: Task, settings: list[dict[str, Any]]) -> Outcome | None:
        """Write firmware: ``[{"component": ..., "url": ..., "wait": seconds}]``, in this order.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        raise self.unsupported(task, "update")

    def cache_firmware_components(self, task: Task) -> Sequence[FirmwareComponent]:
        """Return the components with the versions that run now.

        :raises errors.UnsupportedDriverExtension: the machine tells none.
        """
        raise self.unsupported(task, "cache_firmware_components")


class Inspect(Interface, abc.ABC):
    """Finding out what a machine is made of."""

    kind = "inspect"

    @abc.abstractmethod
    def inspect_hardware(self, task: Task) -> Outcome:
        """Update ``node.properties`` (S5.8); WAIT if something will report or be polled later."""

    def poll_inspection(self, task: Task) -> Outcome:
        """Say whether a waiting inspection has ended; asked when ``wake_after`` is over."""
        return DONE

    def abort(self, task: Task) -> None:
        """Stop a waiting inspection."""


class Rescue(Interface, abc.ABC):
    """Booting a rescue ramdisk beside an instance."""

    kind = "rescue"

    @abc.abstractmethod
    def rescue(self, task: Task) -> Outcome:
        """Boot the rescue ramdisk; WAIT until its agent reports."""

    def poll_rescue(self, task: Task) -> Outcome:
        """Say whether a waiting rescue has ended; asked when ``wake_after`` is over."""
        return DONE

    @abc.abstractmethod
    def unrescue(self, task: Task) -> None:
        """Boot the instance again."""

    def clean_up(self, task: Task) -> None:
        """Remove what a rescue left; must be repeatable."""


class Console(Interface):
    """Serial consoles."""

    kind = "console"


class Vendor(Interface):
    """What only one vendor has: methods marked with ``passthru`` and ``driver_passthru``.

    A method marked with ``passthru`` is called as ``method(task, call)``, one with
    ``driver_passthru`` as ``method(call)``; what it returns, a JSON value, is the answer's body.
    """

    kind = "vendor"

    def check_passthru(self, task: Task, name: str, call: Call) -> None:
        """Refuse a bad call of the method ``name``, before anything is done and while the caller
        still listens. As it stands it checks the node's settings, by ``validate``.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the key of ``call.info``.
        """
        self.validate(task)

    def check_driver_passthru(self, name: str, call: Call) -> None:
        """Refuse a bad call of the method ``name`` that is not about one node."""


class Network(Interface):
    """Which networks a machine is plugged into during each phase."""

    kind = "network"


class Storage(Interface):
    """Volumes outside the machine."""

    kind = "storage"


@dataclasses.dataclass(frozen=True, slots=True)
class Driver:
    """The thirteen interface implementations serving one node, and its hardware type's name."""

    hardware_type: str
    bios: BIOS
    boot: Boot
    console: Console
    deploy: Deploy
    firmware: Firmware
    inspect: Inspect
    management: Management
    network: Network
    power: Power
    raid: RAID
    rescue: Rescue
    storage: Storage
    vendor: Vendor

    def interface(self, kind: str) -> Interface:
        """Return the implementation of ``kind``.

        :raises errors.InvalidParameter: there is no such kind.
        """
        if kind not in KINDS:
            raise errors.InvalidParameter(path="interface", reason=f"{kind!r} is not in {KINDS}")
        found: Interface = getattr(self, kind)
        return found

    def interfaces(self) -> Iterator[Interface]:
        """Iterate over all of them, by kind."""
        return (self.interface(kind) for kind in KINDS)


BASES: dict[str, type[Interface]] = {
    base.kind: base
    for base in (
        BIOS,
        Boot,
        Console,
        Deploy,
        Firmware,
        Inspect,
        Management,
        Network,
        Power,
        RAID,
        Rescue,
        Storage,
        Vendor,
    )
}
KINDS: tuple[str, ...] = fields.INTERFACE_KINDS
OPTIONAL_KINDS = frozenset({"raid", "bios", "inspect", "rescue", "firmware", "console", "vendor"})


class HardwareType:
    """A family of machines: for each interface kind the implementation names it works with.

    ``supported`` lists entry-point names in order of preference; the first enabled one is a node's
    default. Optional kinds, network and storage may be left out: they are ``no-<kind>`` and
    ``noop`` then. ``any_interface`` True (fake-hardware) skips the compatibility check.
    """

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    any_interface: ClassVar[bool] = False
