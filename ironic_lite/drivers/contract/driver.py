"""The thirteen kinds of interfaces, the driver of one node, and hardware types."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, raid
from ironic_lite.domain.passthru import Call
from ironic_lite.domain.steps import DONE, Outcome, StepKind
from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task

POWER_ON = "power on"
POWER_OFF = "power off"
REBOOT = "rebooting"
SOFT_REBOOT = "soft rebooting"
SOFT_POWER_OFF = "soft power off"


class Power(Interface, abc.ABC):
    """Power control of machines.

    A step that calls these methods also sets ``task.node.power_state``, because the power sync
    restores the state in the database.
    """

    kind = "power"

    @abc.abstractmethod
    def get_power_state(self, task: Task) -> str | None:
        """Read ``power on`` or ``power off`` from the hardware; never guess.

        None: the machine answered, but is between the two or does not report its state. The power
        sync then leaves node and machine unchanged. A missing answer is an error, which the power
        sync counts.

        :raises errors.HardwareError: no answer, or an unusable one.
        """

    def get_power_and_health(self, task: Task) -> tuple[str | None, str | None]:
        """Return the power state, and the machine's health if the same answer shows it.

        The power sync calls this method. The health is ``OK``, ``Warning`` or ``Critical``, None
        if unknown.

        :raises errors.HardwareError: as `get_power_state`.
        """
        return self.get_power_state(task), None

    @abc.abstractmethod
    def set_power_state(self, task: Task, target: str, timeout: float | None = None) -> None:
        """Switch the power to ``target`` (on, off, soft power off) and wait until it is reached.

        :param timeout: seconds; None takes the configured one.
        :raises errors.PowerFailure: the target was not reached in time.
        """

    @abc.abstractmethod
    def reboot(self, task: Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Power off (softly if asked) and on again; ends with the power on."""

    def get_supported_power_states(self, task: Task) -> tuple[str, ...]:
        """Return the targets this driver accepts."""
        return (POWER_ON, POWER_OFF, REBOOT)

    def supports_power_sync(self, task: Task) -> bool:
        """Return whether the power sync applies to this machine."""
        return True


class Management(Interface):
    """Boot device, boot mode, sensors, indicators and virtual media."""

    kind = "management"

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        """Return the names accepted by ``set_boot_device``."""
        raise self.unsupported(task, "get_supported_boot_devices")

    def set_boot_device(self, task: Task, device: str, *, persistent: bool = False) -> None:
        """Set the device of the next boot, or of all boots if ``persistent``."""
        raise self.unsupported(task, "set_boot_device")

    def get_boot_device(self, task: Task) -> Json:
        """Return ``{"boot_device": str | None, "persistent": bool | None}``."""
        raise self.unsupported(task, "get_boot_device")

    def get_supported_boot_modes(self, task: Task) -> list[str]:
        """Return the modes among ``bios`` and ``uefi`` that can be set."""
        raise self.unsupported(task, "get_supported_boot_modes")

    def set_boot_mode(self, task: Task, mode: str) -> None:
        """Set ``bios`` or ``uefi``."""
        raise self.unsupported(task, "set_boot_mode")

    def get_boot_mode(self, task: Task) -> str | None:
        """Return ``bios``, ``uefi`` or None when unknown."""
        raise self.unsupported(task, "get_boot_mode")

    def get_secure_boot_state(self, task: Task) -> bool | None:
        """Return whether the firmware checks signatures, None if unknown."""
        raise self.unsupported(task, "get_secure_boot_state")

    def set_secure_boot_state(self, task: Task, state: bool) -> None:
        """Switch secure boot on (True) or off, and wait until the BMC shows it.

        :raises errors.HardwareError: the BMC refused, or did not apply it in time.
        """
        raise self.unsupported(task, "set_secure_boot_state")

    def inject_nmi(self, task: Task) -> None:
        """Send the machine a non-maskable interrupt at once."""
        raise self.unsupported(task, "inject_nmi")

    def get_supported_indicators(
        self, task: Task, component: str | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return the lamps: ``{component: {indicator: {"readonly": bool, "states": [str]}}}``.

        :param component: one of ``COMPONENTS``, to list only its lamps; None for all. A missing
            component is left out.
        """
        raise self.unsupported(task, "get_supported_indicators")

    def get_indicator_state(self, task: Task, component: str, indicator: str) -> str:
        """Return one of ``INDICATOR_STATES``, or ``unknown``.

        :raises errors.InvalidParameter: there is no such ``component`` or ``indicator``.
        """
        raise self.unsupported(task, "get_indicator_state")

    def set_indicator_state(self, task: Task, component: str, indicator: str, state: str) -> None:
        """Set a lamp to one of ``INDICATOR_STATES``.

        :raises errors.InvalidParameter: no such ``component`` or ``indicator``, or the lamp does
            not have this ``state``.
        """
        raise self.unsupported(task, "set_indicator_state")

    def get_sensors_data(self, task: Task) -> dict[str, dict[str, Json]]:
        """Return the sensor values: ``{type: {sensor: {fact: JSON value}}}``.

        :raises errors.HardwareError: no answer, or an unusable one.
        """
        raise self.unsupported(task, "get_sensors_data")

    def detect_vendor(self, task: Task) -> str | None:
        """Return the vendor's name as the BMC reports it, None if it reports none."""
        raise self.unsupported(task, "detect_vendor")

    def get_identity(self, task: Task) -> Mapping[str, str]:
        """Return the values that tell this machine from others, by name."""
        raise self.unsupported(task, "get_identity")

    def get_mac_addresses(self, task: Task) -> list[str]:
        """Return the addresses of the machine's network cards, ``aa:bb:cc:dd:ee:ff``."""
        raise self.unsupported(task, "get_mac_addresses")

    def get_virtual_media(self, task: Task) -> list[Json]:
        """Return the virtual drives with all facts of the BMC.

        Each is ``{"media_types": [str], "inserted": bool, "image": str | None, ...}``, with keys in
        lower case with underscores. Image URLs come without passwords.
        """
        raise self.unsupported(task, "get_virtual_media")

    def attach_virtual_media(self, task: Task, device_type: str, image_url: str) -> None:
        """Put an image into a virtual drive, replacing its medium.

        :param device_type: one of ``VIRTUAL_MEDIA``.
        :param image_url: of ``IMAGE_SCHEMES``; the BMC reads it, not this service.
        :raises errors.InvalidParameter: the machine has no such ``device_type``, or its BMC cannot
            read this ``image_url``.
        """
        raise self.unsupported(task, "attach_virtual_media")

    def detach_virtual_media(self, task: Task, device_types: Sequence[str] | None = None) -> None:
        """Empty the virtual drives of these types, None for all; empty ones may be skipped.

        :param device_types: of ``VIRTUAL_MEDIA``.
        """
        raise self.unsupported(task, "detach_virtual_media")


RAMDISKS = ("deploy", "inspect", "rescue")
"""Uses of a ramdisk: to clean, deploy or service; to inspect; to rescue."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentReport:
    """The report of a ramdisk's agent.

    ``steps`` maps a step kind to the agent's raw lists: hardware manager -> list of steps.
    ``version`` maps its hardware managers to their versions.
    """

    steps: Mapping[StepKind, Mapping[str, Sequence[JsonView]]]
    version: Mapping[str, str]


class Deploy(Interface):
    """Deployment of instances, and the ramdisk for cleaning and servicing."""

    kind = "deploy"
    minds_agent: ClassVar[bool] = False
    """True if ``tear_down_cleaning`` itself forgets the agent, which may continue to run."""
    # True if the instance is itself a ramdisk, named in instance_info, which the machine boots each
    # time. No disk is written.
    boots_ramdisk: ClassVar[bool] = False

    def chosen(self, task: Task) -> str | None:
        """Return the name of the interface that works in place of this one; None: this one does.

        It is called at the start of a verb, and shown by the node until the work has ended.
        """
        return None

    def prepare(self, task: Task) -> None:
        """Prepare a deployment, before its first step."""

    def tear_down(self, task: Task) -> None:
        """Undo what ``prepare`` and the steps added; must be repeatable.

        Source: S5.25.
        """

    def clean_up(self, task: Task) -> None:
        """Remove files and caches of a deployment; must be repeatable."""

    def lacks_files(self, task: Task) -> bool:
        """Return whether `take_over` has work to do, checking only this conductor's files."""
        return task.driver.boot.lacks_files(task)

    def take_over(self, task: Task) -> None:
        """Rebuild this conductor's files for a node taken over from another conductor."""
        task.driver.boot.take_over(task)

    def adopt(self, task: Task) -> None:
        """Adopt a machine that already runs an instance."""
        self.take_over(task)

    def check_ramdisk(self, task: Task) -> None:
        """Check, without touching hardware, that the ramdisk for cleaning and servicing can boot.

        Called before a clean or a service is accepted, and before it begins.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """

    def prepare_cleaning(self, task: Task) -> Outcome:
        """Prepare a clean; WAIT if a ramdisk boots first."""
        return DONE

    def tear_down_cleaning(self, task: Task) -> None:
        """Undo ``prepare_cleaning``; must be repeatable."""

    def prepare_service(self, task: Task) -> Outcome:
        """Prepare a service; WAIT if a ramdisk boots first."""
        return DONE

    def prepare_restart(self, task: Task) -> None:
        """Prepare a restart; called by the code that restarts, right before.

        If the run uses a ramdisk, that ramdisk must boot next, not the disk.

        :raises errors.Error: the boot files cannot be put in place.
        """

    def tear_down_service(self, task: Task) -> None:
        """Undo ``prepare_service``; must be repeatable."""

    def handles_heartbeat(self, task: Task) -> bool:
        """Return whether `heartbeat` is to be called, judging only by the node.

        If not, a heartbeat is only recorded, without a worker slot or the node's lock.
        """
        return getattr(self.heartbeat, "__func__", None) is not Deploy.heartbeat

    def heartbeat(self, task: Task) -> bool:
        """Handle an agent's heartbeat in a wait state; True continues with the next step.

        :raises errors.AgentChanged: the agent refused the step, as in ``execute_clean_step``.
        """
        return False

    def agent_steps(self, task: Task, kind: StepKind) -> AgentReport | None:
        """Read the running agent's steps of a kind and its hardware managers' versions.

        Called when the agent may have started, and after another agent has replaced it. More kinds
        may be reported: clean steps are then shown at any time (S1.25). None: there is no agent, or
        it does not answer yet.

        :raises errors.HardwareError: its answer is unusable.
        """
        return None


class Boot(Interface):
    """Boot of a machine's ramdisk and instance."""

    kind = "boot"
    brings_configdrive: ClassVar[bool] = False
    """True if `prepare_instance` presents the configuration drive to a ramdisk instance."""
    over_network: ClassVar[bool] = False
    """True if machines boot by DHCP, which a server of the site may answer instead."""

    def prepare_ramdisk(self, task: Task, params: Mapping[str, str], mode: str = "deploy") -> None:
        """Make the next boot start the ramdisk with these kernel parameters.

        :param mode: the kind of ramdisk: one of ``RAMDISKS``.
        """

    def clean_up_ramdisk(self, task: Task, mode: str = "deploy") -> None:
        """Undo ``prepare_ramdisk``; must be repeatable."""

    def check_ramdisk(self, task: Task, mode: str) -> None:
        """Check, without touching hardware, that the ramdisk can be booted.

        :param mode: one of ``RAMDISKS``, or ``instance`` for a ramdisk that is the instance itself.
            `validate` checks ``deploy``.
        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        self.validate(task)

    def carries_parameters(self, task: Task, mode: str = "deploy") -> bool:
        """Return whether the boot medium is for this node alone, so its parameters may be
        secret."""
        return False

    def lacks_files(self, task: Task) -> bool:
        """Return whether `take_over` has work to do, checking only this conductor's files."""
        return False

    def take_over(self, task: Task) -> None:
        """Create the machine's boot files that this conductor lacks. Must be repeatable.

        The machine itself and its power stay unchanged.
        """

    def check_instance(self, task: Task) -> None:
        """Check that `prepare_instance` can boot a ramdisk instance, before the machine is touched.

        This may ask the BMC and file servers.

        :raises errors.Error: the instance cannot be booted, with the reason.
        """

    def prepare_instance(self, task: Task) -> None:
        """Let the machine boot its instance from now on."""

    def clean_up_instance(self, task: Task) -> None:
        """Undo ``prepare_instance``; must be repeatable."""


class Inspect(Interface, abc.ABC):
    """Inspection of a machine's hardware."""

    kind = "inspect"
    takes_reports: ClassVar[bool] = False
    """True if a ramdisk reports by ``POST /v1/continue_inspection``."""

    @abc.abstractmethod
    def inspect_hardware(self, task: Task) -> Outcome:
        """Update ``node.properties``; WAIT if something will report or be polled later.

        Source: S5.8.
        """

    def continue_inspection(
        self, task: Task, inventory: JsonView, plugin_data: JsonView
    ) -> Outcome:
        """Process a ramdisk's report for a waiting inspection; WAIT if more reports must come.

        Called only for an interface with ``takes_reports``.

        :param inventory: in the format of ironic-python-agent, empty if it collected none; only the
            parts that `inspection.check` checks are certain.
        :param plugin_data: all other data of the report by name, such as ``error``.
        """
        return DONE

    def poll_inspection(self, task: Task) -> Outcome:
        """Check whether a waiting inspection has ended, after the time of ``wake_after``."""
        return DONE

    def abort(self, task: Task) -> None:
        """Stop a waiting inspection."""

    def clean_up(self, task: Task) -> None:
        """Clean up after a failed inspection; must be repeatable."""


class Rescue(Interface, abc.ABC):
    """Rescue by a ramdisk that boots beside an instance."""

    kind = "rescue"

    @abc.abstractmethod
    def rescue(self, task: Task) -> Outcome:
        """Boot the rescue ramdisk; WAIT until its agent reports."""

    def poll_rescue(self, task: Task) -> Outcome:
        """Check whether a waiting rescue has ended, after the time of ``wake_after``."""
        return DONE

    @abc.abstractmethod
    def unrescue(self, task: Task) -> None:
        """Boot the instance again."""

    def clean_up(self, task: Task) -> None:
        """Clean up after a rescue; must be repeatable."""


class RAID(Interface):
    """RAID volumes, as requested by the node's ``target_raid_config``.

    The well-known steps are ``create_configuration`` (clean; ``raid.CREATE_ARGS``),
    ``apply_configuration`` (deploy, service; ``raid.APPLY_ARGS``) and ``delete_configuration`` (all
    three), of priority 0. `show_raid` writes their result.
    """

    kind = "raid"

    def validate_raid_config(self, task: Task, config: JsonView) -> None:
        """Reject an impossible ``target_raid_config`` without touching hardware.

        :raises errors.InvalidParameter: naming the path, ``logical_disks/0/raid_level``.
        :raises errors.UnsupportedDriverExtension: the interface has no RAID at all.
        """
        raid.check(config)

    def get_logical_disk_properties(self) -> dict[str, str]:
        """Return ``{key of a logical disk: description}``."""
        return raid.properties()

    def show_raid(self, task: Task, disks: Sequence[Json]) -> None:
        """Write the machine's current volumes to its node: ``raid_config``, and the ``properties``
        that depend on them (``local_gb``, ``root_device``, ``raid_level``).
        """
        before = (task.node.raid_config or {}).get("logical_disks") or []
        task.node.raid_config = raid.built(disks)
        task.node.properties = raid.described(task.node.properties, disks, before)


@dataclasses.dataclass(frozen=True, slots=True)
class BiosSetting:
    """A firmware setting of a machine, with the facts of its BMC's attribute registry.

    ``value`` is shown as text; the value of a ``Password`` is never stored. ``allowable_values``
    belong to an ``Enumeration``, the bounds to an ``Integer``, the lengths to a ``String``.
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

    ``apply_configuration`` and ``factory_reset`` become steps by the decorators of an
    implementation. After such a step, and at the end of verifying and cleaning, the conductor calls
    ``cache_bios_settings`` and stores its result. A driver writes nothing itself.
    """

    kind = "bios"

    def apply_configuration(self, task: Task, settings: list[Json]) -> Outcome | None:
        """Change these settings, ``[{"name": ..., "value": ...}]``, and leave the others.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        raise self.unsupported(task, "apply_configuration")

    def factory_reset(self, task: Task) -> Outcome | None:
        """Reset all settings to the vendor's defaults."""
        raise self.unsupported(task, "factory_reset")

    def cache_bios_settings(self, task: Task) -> Sequence[BiosSetting]:
        """Return all current settings of the machine.

        :raises errors.UnsupportedDriverExtension: the machine does not report settings.
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
    """Firmware versions and updates; the notes on steps of ``BIOS`` apply here too."""

    kind = "firmware"

    def update(self, task: Task, settings: list[Json]) -> Outcome | None:
        """Write firmware: ``[{"component": ..., "url": ..., "wait": seconds}]``, in this order.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        raise self.unsupported(task, "update")

    def cache_firmware_components(self, task: Task) -> Sequence[FirmwareComponent]:
        """Return the components with their running versions.

        :raises errors.UnsupportedDriverExtension: the machine does not report versions.
        """
        raise self.unsupported(task, "cache_firmware_components")


class Network(Interface):
    """The networks that a machine is connected to in each phase."""

    kind = "network"
    acts_on_switches = True
    """True if attaching a VIF changes more than what is stored about the node."""

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


class Vendor(Interface):
    """Vendor-specific methods, marked with ``passthru`` and ``driver_passthru``.

    A method marked with ``passthru`` is called as ``method(task, call)``, one marked with
    ``driver_passthru`` as ``method(call)``. Its result, a JSON value, is the response body.
    """

    kind = "vendor"

    def check_passthru(self, task: Task, name: str, call: Call) -> None:
        """Reject an invalid call of the method ``name`` while the client still waits.

        The default checks the node's settings with ``validate``.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the key of ``call.info``.
        """
        self.validate(task)

    def check_driver_passthru(self, name: str, call: Call) -> None:
        """Reject an invalid call of the method ``name``, which is not about one node."""


class Proxy(Protocol):
    """A program of the conductor that connects clients to one console."""

    @property
    def running(self) -> bool:
        """Return whether the program still runs."""

    @property
    def lived(self) -> float:
        """The seconds for which the program has run."""

    @property
    def said(self) -> str:
        """The program's message about its end, if it gave one."""


class Console(Interface):
    """Serial consoles, started and stopped on request.

    A started console is started again by the node's next conductor, or after a restart of this one.
    """

    kind = "console"
    by_program: ClassVar[bool] = False
    """True if a program of this conductor serves the console, which ends with the program.

    A sweep then restarts the console if its program has ended, or if the node came from another
    conductor. The driver ensures that the program never outlives the conductor.
    """

    def start_console(self, task: Task) -> None:
        """Make the console reachable; a console that already is stays so or is started again.

        Other conductors also call it for a console that should be reachable but is not.

        :raises errors.Error: with ``by_program``, a ``retryable`` error is retried later; after any
            other the console counts as stopped.
        """
        raise self.unsupported(task, self.kind)

    def stop_console(self, task: Task) -> None:
        """Stop the console; a stopped console stays so."""
        raise self.unsupported(task, self.kind)

    def get_console(self, task: Task) -> Json:
        """Return the address of a started console: ``{"type": str, "url": str}``."""
        raise self.unsupported(task, self.kind)

    def proxies(self) -> Mapping[str, Proxy]:
        """Return the programs of this conductor by node UUID.

        A program that has ended by itself stays listed until `let_go` or a new start.
        """
        return {}

    def let_go(self, node_uuid: str, proxy: Proxy | None = None) -> None:
        """End the program of a node that was deleted or moved to another conductor.

        No hardware is touched.

        :param proxy: end only this program; None: any program of the node.
        """


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
