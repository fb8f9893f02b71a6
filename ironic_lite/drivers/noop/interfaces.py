"""What stands for a part that is not there: the ``no-`` names refuse, the ``noop`` ones agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base, plugging


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


_LOOSE = "tenant_vif_port_ids"


class NoopNetwork(base.Network):
    """Networks that are wired once and stay.

    Which VIF a client has attached where is only written down: on a port or portgroup, or on the
    node, if that has neither.
    """

    def vif_list(self, task: base.Task) -> list[dict[str, Any]]:
        """Return what has been attached, those of ports first."""
        found = [plugging.held(card) for card in _cards(task)]
        return [{"id": vif} for vif in (*found, *task.recall(_LOOSE, ())) if vif]

    def vif_attach(self, task: base.Task, vif: Mapping[str, Any]) -> None:
        """Write a VIF down.

        :raises errors.Conflict: it is attached already.
        :raises errors.InvalidRequest: there are ports, but none is free.
        """
        cards, loose = _cards(task), task.recall(_LOOSE) or []
        known = plugging.find(cards, vif["id"])
        if known is not None or vif["id"] in loose:
            place = f"port {known.uuid}" if known else "the node"
            reason = f"VIF {vif['id']} is attached to {place} already"
            raise errors.Conflict(node=task.node.uuid, reason=reason)
        if not cards and not {"port_uuid", "portgroup_uuid"} & vif.keys():
            task.keep(_LOOSE, [*loose, vif["id"]])
            return
        chosen = plugging.choose(vif, task.ports, task.cards.groups())
        task.cards.note(chosen, plugging.VIF, vif["id"])

    def vif_detach(self, task: base.Task, vif_id: str) -> None:
        """Forget a VIF.

        :raises errors.InvalidRequest: it is not attached.
        """
        known, loose = plugging.find(_cards(task), vif_id), task.recall(_LOOSE) or []
        if known is not None:
            task.cards.note(known, plugging.VIF, None)
        elif vif_id in loose:
            task.keep(_LOOSE, [vif for vif in loose if vif != vif_id] or None)
        else:
            raise errors.InvalidRequest(
                f"Unable to detach VIF {vif_id} from node {task.node.uuid} because it is not "
                "attached to it."
            )


def _cards(task: base.Task) -> list[plugging.Card]:
    return [*task.ports, *task.cards.groups()]


class NoopStorage(base.Storage):
    """No volumes outside the machine."""
