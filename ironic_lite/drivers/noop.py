"""Interfaces without hardware: ``no-*`` refuses all calls, ``noop`` accepts them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ironic_lite import errors, records
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base
from ironic_lite.records import Port, Portgroup

# Choice of the port or portgroup for a virtual interface (VIF) by Ironic's rules. Pure.

Card = Port | Portgroup

VIF = records.VIF
"""The key of ``internal_info`` that holds the VIF of a port or portgroup."""


def vif_of(card: Card) -> str | None:
    """Return the VIF of a port or portgroup, None if it is free."""
    found: str | None = card.internal_info.get(VIF)
    return found


def find_card(cards: Sequence[Card], vif_id: str) -> Card | None:
    """Return the port or portgroup that a VIF is attached to, None if it is not attached."""
    return next((card for card in cards if vif_of(card) == vif_id), None)


def choose_card(
    vif: JsonView,
    ports: Sequence[Port],
    groups: Sequence[Portgroup],
    networks: Collection[str] = (),
) -> Card:
    """Return the port or portgroup to attach a VIF to.

    A portgroup is preferred to a port, and a port with PXE to one without. A card whose physical
    network is in ``networks`` is preferred to both. A member port of a portgroup is chosen alone
    only if another member already has a VIF; a portgroup without ports is never chosen.

    :param vif: ``id``, and ``port_uuid`` or ``portgroup_uuid`` to demand a certain card.
    :param networks: the physical networks of the VIF, empty if unknown, which allows any port. A
        port without a physical network is always allowed.
    :raises errors.InvalidRequest: no card is free.
    """
    found = [
        card
        for card in _free_cards(ports, groups)
        if _is_requested(card, vif) and (not networks or card.physical_network in {None, *networks})
    ]
    if not found:
        raise errors.InvalidRequest(
            f"Unable to attach VIF {vif['id']}, not enough free physical ports. Detach another "
            "VIF, or add a port to the node."
        )
    return max(found, key=lambda card: _card_rank(card, networks))


def _free_cards(ports: Sequence[Port], groups: Sequence[Portgroup]) -> list[Card]:
    """Return the cards that have no VIF, and share no cable with one that has a VIF."""
    split = {port.portgroup_uuid for port in ports if vif_of(port)}
    whole = {group.uuid for group in groups if group.uuid not in split}
    filled = {port.portgroup_uuid for port in ports}
    taken = {group.uuid for group in groups if vif_of(group)}
    alone = [
        port
        for port in ports
        if not vif_of(port)
        and port.portgroup_uuid not in whole
        and port.portgroup_uuid not in taken
    ]
    together = [
        group for group in groups if group.uuid in whole & filled and group.uuid not in taken
    ]
    return [*alone, *together]


def _is_requested(card: Card, vif: JsonView) -> bool:
    wanted = vif.get("port_uuid") or vif.get("portgroup_uuid")
    return wanted is None or card.uuid == wanted


def _card_rank(card: Card, networks: Collection[str]) -> tuple[bool, bool, bool]:
    near = card.physical_network in networks
    return (near, True, True) if isinstance(card, Portgroup) else (near, False, card.pxe_enabled)


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


class NoopDeploy(base.Deploy):
    """Machines whose disks this service does not write, such as network devices: nothing is done.

    Their automated cleaning has no ramdisk.
    """

    @base.deploy_step(priority=100, rerunnable=True, destroys=(), restarts=0)
    def deploy(self, task: base.Task) -> None:
        """Do nothing; the instance is there."""


_LOOSE = "tenant_vif_port_ids"


class NoopNetwork(base.Network):
    """Networks with fixed wiring.

    Attached VIFs are only recorded: on a free port or portgroup, or on the node if no port is free.
    As in Ironic, nothing is refused: attaching a VIF twice or detaching an unattached one changes
    nothing.
    """

    acts_on_switches = False

    def vif_list(self, task: base.Task) -> list[Json]:
        """Return the attached VIFs, those of ports first."""
        found = [vif_of(card) for card in _vif_cards(task)]
        return [{"id": vif} for vif in (*found, *task.recall(_LOOSE, ())) if vif]

    def vif_attach(self, task: base.Task, vif: JsonView) -> None:
        """Record a VIF."""
        loose = task.recall(_LOOSE) or []
        if vif["id"] in loose or find_card(_vif_cards(task), vif["id"]) is not None:
            return
        try:
            chosen = choose_card(vif, task.ports, task.node_ports.groups())
        except errors.InvalidRequest:
            task.keep(_LOOSE, [*loose, vif["id"]])
            return
        task.node_ports.note(chosen, VIF, vif["id"])

    def vif_detach(self, task: base.Task, vif_id: str) -> None:
        """Remove a VIF."""
        known, loose = find_card(_vif_cards(task), vif_id), task.recall(_LOOSE) or []
        if known is not None:
            task.node_ports.note(known, VIF, None)
        elif vif_id in loose:
            task.keep(_LOOSE, [vif for vif in loose if vif != vif_id] or None)


def _vif_cards(task: base.Task) -> list[Card]:
    return [*task.ports, *task.node_ports.groups()]


class NoopStorage(base.Storage):
    """No volumes outside the machine."""
