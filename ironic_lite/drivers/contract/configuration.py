"""How a machine is set up: volumes, firmware settings and firmware."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ironic_lite import raid
from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task
from ironic_lite.steps import Outcome


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
        before = (task.node.raid_config or {}).get("logical_disks") or []
        task.node.raid_config = raid.built(disks)
        task.node.properties = raid.described(task.node.properties, disks, before)


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
