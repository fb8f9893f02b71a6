"""What stands for a part that is not there: the ``no-`` names refuse, the ``noop`` ones agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_lite.drivers import base


class Absent(base.Interface):
    """An optional interface that is not there: it has no steps, and validating it says so.

    GET /v1/nodes/X/validate shows the kind with result false and this reason, which is no fault
    of the node.
    """

    def validate(self, task: base.Task) -> None:
        """Refuse.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, self.kind)


class NoBIOS(Absent, base.BIOS):
    """Firmware settings cannot be changed."""


class NoConsole(Absent, base.Console):
    """There is no serial console."""


class NoFirmware(Absent, base.Firmware):
    """Firmware cannot be updated."""


class NoInspect(Absent, base.Inspect):
    """The operator alone fills in properties."""

    def inspect_hardware(self, task: base.Task) -> base.Outcome:
        """Refuse.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "inspect")

    def poll_inspection(self, task: base.Task) -> base.Outcome:
        """Refuse: no inspection of this interface can be under way.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "inspect")

    def abort(self, task: base.Task) -> None:
        """Refuse.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "inspect")


class NoRAID(Absent, base.RAID):
    """Volumes cannot be built."""

    def validate_raid_config(self, task: base.Task, config: Mapping[str, Any]) -> None:
        """Refuse.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "raid")


class NoRescue(Absent, base.Rescue):
    """There is no rescue ramdisk."""

    def rescue(self, task: base.Task) -> base.Outcome:
        """Refuse.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "rescue")

    def poll_rescue(self, task: base.Task) -> base.Outcome:
        """Refuse: no rescue of this interface can be under way.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "rescue")

    def unrescue(self, task: base.Task) -> None:
        """Refuse.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "unrescue")


class NoVendor(Absent, base.Vendor):
    """Nothing beyond what every vendor has."""


class NoopManagement(base.Management):
    """A machine whose boot order is set by hand: requests are taken and forgotten."""

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return the devices that a deployment may ask for."""
        return ["pxe", "disk", "cdrom"]

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Leave the machine alone; its boot order already does what is needed."""

    def get_boot_device(self, task: base.Task) -> dict[str, Any]:
        """Return that it is unknown."""
        return {"boot_device": None, "persistent": None}


class NoopNetwork(base.Network):
    """Networks that are wired once and stay."""


class NoopStorage(base.Storage):
    """No volumes outside the machine."""
