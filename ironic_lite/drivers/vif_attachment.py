"""Choice of the port or portgroup for a virtual interface (VIF) by Ironic's rules. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ironic_lite import errors, records
from ironic_lite.core.json_types import JsonView
from ironic_lite.records import Port, Portgroup

Card = Port | Portgroup

VIF = records.VIF
"""The key of ``internal_info`` that holds the VIF of a port or portgroup."""


def held(card: Card) -> str | None:
    """Return the VIF of a port or portgroup, None if it is free."""
    found: str | None = card.internal_info.get(VIF)
    return found


def find(cards: Sequence[Card], vif_id: str) -> Card | None:
    """Return the port or portgroup that a VIF is attached to, None if it is not attached."""
    return next((card for card in cards if held(card) == vif_id), None)


def choose(
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
    split = {port.portgroup_uuid for port in ports if held(port)}
    whole = {group.uuid for group in groups if group.uuid not in split}
    filled = {port.portgroup_uuid for port in ports}
    taken = {group.uuid for group in groups if held(group)}
    alone = [
        port
        for port in ports
        if not held(port) and port.portgroup_uuid not in whole and port.portgroup_uuid not in taken
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
