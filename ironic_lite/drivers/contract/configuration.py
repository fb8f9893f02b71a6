"""Interfaces for RAID volumes, firmware settings and firmware updates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import raid
from ironic_lite.domain.steps import Outcome
from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task


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
