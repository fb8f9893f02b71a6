"""Interfaces without hardware: ``no-*`` refuses all calls, ``noop`` accepts them."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base, vif_attachment


class Absent(base.Interface):
    """An optional interface that is absent: it has no steps, and its validation fails.

    GET /v1/nodes/X/validate shows the kind with result false and this reason, which is not a fault
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
    """Only the operator sets properties."""

    def inspect_hardware(self, task: base.Task) -> base.Outcome:
        """Refuse.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "inspect")

    def poll_inspection(self, task: base.Task) -> base.Outcome:
        """Refuse, because this interface starts no inspection.

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

    def validate_raid_config(self, task: base.Task, config: JsonView) -> None:
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
        """Refuse, because this interface starts no rescue.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "rescue")

    def unrescue(self, task: base.Task) -> None:
        """Refuse.

        :raises errors.UnsupportedDriverExtension: always.
        """
        raise self.unsupported(task, "unrescue")


class NoVendor(Absent, base.Vendor):
    """No vendor-specific methods."""


class NoopManagement(base.Management):
    """A machine whose boot order is set by hand: requests are accepted and ignored."""

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return the devices that a deployment may ask for."""
        return ["pxe", "disk", "cdrom"]

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Leave the machine alone; its boot order already does what is needed."""

    def get_boot_device(self, task: base.Task) -> Json:
        """Return that the device is unknown."""
        return {"boot_device": None, "persistent": None}


_LOOSE = "tenant_vif_port_ids"


class NoopNetwork(base.Network):
    """Networks with fixed wiring.

    Attached VIFs are only recorded: on a free port or portgroup, or on the node if no port is free.
    As in Ironic, nothing is refused: attaching a VIF twice or detaching an unattached one changes
    nothing.
    """

    def vif_list(self, task: base.Task) -> list[Json]:
        """Return the attached VIFs, those of ports first."""
        found = [vif_attachment.held(card) for card in _vif_cards(task)]
        return [{"id": vif} for vif in (*found, *task.recall(_LOOSE, ())) if vif]

    def vif_attach(self, task: base.Task, vif: JsonView) -> None:
        """Record a VIF."""
        loose = task.recall(_LOOSE) or []
        if vif["id"] in loose or vif_attachment.find(_vif_cards(task), vif["id"]) is not None:
            return
        try:
            chosen = vif_attachment.choose(vif, task.ports, task.node_ports.groups())
        except errors.InvalidRequest:
            task.keep(_LOOSE, [*loose, vif["id"]])
            return
        task.node_ports.note(chosen, vif_attachment.VIF, vif["id"])

    def vif_detach(self, task: base.Task, vif_id: str) -> None:
        """Remove a VIF."""
        known, loose = vif_attachment.find(_vif_cards(task), vif_id), task.recall(_LOOSE) or []
        if known is not None:
            task.node_ports.note(known, vif_attachment.VIF, None)
        elif vif_id in loose:
            task.keep(_LOOSE, [vif for vif in loose if vif != vif_id] or None)


def _vif_cards(task: base.Task) -> list[vif_attachment.Card]:
    return [*task.ports, *task.node_ports.groups()]


class NoopStorage(base.Storage):
    """No volumes outside the machine."""
