"""Drivers, the set of all interfaces of one node, and hardware types."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar

from ironic_lite import errors
from ironic_lite.domain import fields
from ironic_lite.drivers.contract.configuration import BIOS, RAID, Firmware
from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.management import Management
from ironic_lite.drivers.contract.network import Network, Storage
from ironic_lite.drivers.contract.power import Power
from ironic_lite.drivers.contract.ramdisk import Boot, Deploy, Inspect, Rescue
from ironic_lite.drivers.contract.vendor import Console, Vendor


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
