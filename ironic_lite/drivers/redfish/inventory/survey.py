"""Reading of all inventory documents of a machine, within limits on number and time.

An unreadable part loses only itself: many BMCs answer 500 for one document of a hundred, and some
do not know their network cards while the machine is off. The result names the missing parts.
"""

from __future__ import annotations

import functools
import ipaddress
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Self

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import connection, quirks, resources, responses
from ironic_lite.drivers.redfish.inventory import parts

MOST = 2000
"""Document limit of one inspection; a larger number is a fault of the BMC."""

MOST_BYTES = 128 * 1024 * 1024
"""Memory limit of all documents together, which are kept until the end of the inspection. One BMC
could otherwise take all memory of the conductor."""

MOST_TOGETHER = 512 * 1024 * 1024
"""Memory limit of the documents of all inspections of this process, without `FREE_BYTES` of each,
because one owner may have the BMCs of many nodes."""

FREE_BYTES = 16 * 1024 * 1024

SECONDS = 1800.0
"""Time limit in seconds for all documents together."""

BAD = 3
"""Unreadable documents of one list, after which its other documents are skipped, because each one
costs several attempts."""


class _Together:
    """The bytes that all surveys of this process have beyond their free ones."""

    def __init__(self) -> None:
        self._taken = 0
        self._guard = threading.Lock()

    def take(self, count: int) -> bool:
        """Take bytes; return whether there were so many."""
        with self._guard:
            free = self._taken + count <= MOST_TOGETHER
            self._taken += count if free else 0
            return free

    def give_back(self, count: int) -> None:
        """Free bytes."""
        with self._guard:
            self._taken -= count


_TOGETHER = _Together()


class Survey:
    """The parts of one machine, read on demand; a context that frees their memory at its end.

    ``faults`` are sentences about parts that could not be read, ``remarks`` about other ones.

    :raises errors.HardwareError: the system itself cannot be read; see `connection.call`.
    """

    def __init__(self, task: base.Task) -> None:
        self.task = task
        self.faults: list[str] = []
        self.remarks: list[str] = []
        self.disks_told = True
        self._address = connection.settings(task).address
        self._listed: dict[str, list[Json]] = {}
        self._left = MOST
        self._room = MOST_BYTES
        self._shared = 0
        self._crowded = False
        self._until = time.monotonic() + SECONDS
        self.system = resources.system(task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _TOGETHER.give_back(self._shared)
        self._shared = 0

    def take(self) -> tuple[Json, Json, int | None]:
        """Return inventory, plug-in data, and the size in GiB of the disk for an image.

        :raises errors.HardwareError: the BMC stopped answering, or its lists have no end.
        """
        processors = self._collection_members("Processors", self.system)
        inventory: Json = {
            "cpu": parts.cpu(self.system, processors),
            "memory": self._read_memory(),
            "system_vendor": parts.maker(self.system),
            "boot": parts.boot(self.system),
            "interfaces": self.interfaces(),
        }
        told = any(resources.text(one, "InstructionSet") for one in processors)
        if "architecture" in inventory["cpu"] and not told:
            quirks.NO_INSTRUCTION_SET.log(f"Node {self.task.node.uuid}")
        local_gb = self._read_disks(inventory)
        inventory["pci_devices"] = [found for found in map(parts.pci, self._pci_devices()) if found]
        inventory |= self._bmc_addresses()
        hostname = resources.text(self.system, "HostName")
        if hostname:
            inventory["hostname"] = hostname
        heard = self._lldp_neighbours()
        return inventory, ({"parsed_lldp": heard} if heard else {}), local_gb

    # -- parts ------------------------------------------------------------------------------

    def _read_memory(self) -> Json:
        told = parts.memory(self.system, ())
        return told or parts.memory(self.system, self._collection_members("Memory", self.system))

    def interfaces(self) -> list[Json]:
        """Return the network cards with the MAC address of the first source that has one.

        The sources are EthernetInterfaces, and each adapter's functions or else its ports.
        """
        cards = self._collection_members("EthernetInterfaces", self.system)
        found, bare = parts.interfaces(cards), parts.without_address(cards)
        if found and not bare:
            return found
        own = [("", card) for card in found]
        every = parts.named_apart([*own, *self._adapter_cards(name_bare=not cards)])
        # Some BMCs report all cards as disabled while the machine is off.
        if not every and (every := parts.interfaces(cards, disabled=True)):
            quirks.CARDS_OFF.log(f"Node {self.task.node.uuid}")
        if len(every) - len(found) < len(bare):
            self._remark_bare("EthernetInterfaces", bare)
        return every

    def _adapter_cards(self, *, name_bare: bool) -> Iterator[tuple[str, Json]]:
        """Yield the adapter's name and an entry of ``interfaces``, for each card of each adapter.

        :param name_bare: remark on adapters without an address.
        """
        for adapter in self._network_adapters:
            name = resources.text(adapter, "Id") or "adapter"
            ethernet = False
            for source in ("NetworkDeviceFunctions", "Ports", "NetworkPorts"):
                members = self._adapter_members(source, adapter)
                ethernet |= any(map(parts.is_ethernet, members))
                if cards := parts.functions(members):
                    yield from ((name, card) for card in cards)
                    break
            else:
                if name_bare and ethernet:
                    self._remark_bare("NetworkAdapters", [name])

    def _adapter_members(self, source: str, adapter: Json) -> list[Json]:
        """Return a list of an adapter; it is read once for addresses and switches together."""
        path = resources.link(adapter, source)
        if path is None:
            return []
        if path not in self._listed:
            self._listed[path] = self._collection_members(source, adapter)
        return self._listed[path]

    def _remark_bare(self, place: str, names: list[str]) -> None:
        listed = ", ".join(names)
        self.remarks.append(f"{place}: the BMC reports no possible MAC address of {listed}")

    def _read_disks(self, inventory: Json) -> int | None:
        """Read disks into the inventory; return the size of the one for an image."""
        before = len(self.faults)
        controllers = [
            self._read_controller(one) for one in self._collection_members("Storage", self.system)
        ]
        simple = self._collection_members("SimpleStorage", self.system)
        listed = (resources.entries(one, "Devices") for one in simple)
        devices = _known_only(map(parts.disk, (device for some in listed for device in some)))
        drives = [disk for one in controllers for disk in one["drives"]]
        volumes = [volume for one in controllers for volume in one["volumes"]]
        inventory["disks"] = drives or devices
        inventory["storage_controllers"] = controllers
        self.disks_told = len(self.faults) == before
        return parts.local_gb(
            *([one["size"] for one in some] for some in (devices, drives, volumes))
        )

    def _read_controller(self, storage: Json) -> Json:
        drives = list(self._linked_documents("Drives", storage, "Drives"))
        volumes = self._collection_members("Volumes", storage)
        paths = {str(one.get("@odata.id")).rstrip("/"): one for one in drives}
        known = _known_only(parts.volume(one, paths) for one in volumes)
        return parts.controller(storage, _known_only(map(parts.disk, drives)), known)

    def _pci_devices(self) -> Iterator[Json]:
        for device in self._linked_documents("PCIeDevices", self.system, "PCIeDevices"):
            yield from self._collection_members("PCIeFunctions", device)

    def _lldp_neighbours(self) -> Json:
        """Return the switches that network cards see by LLDP, by port name."""
        ports = (
            port for card in self._network_adapters for port in self._adapter_members("Ports", card)
        )
        found = ((resources.text(port, "Id"), parts.neighbour(port)) for port in ports)
        return {name: heard for name, heard in found if name and heard}

    @functools.cached_property
    def _network_adapters(self) -> list[Json]:
        chassis = self._linked_documents("Chassis", self.system, "Links", "Chassis")
        listed = (self._collection_members("NetworkAdapters", one) for one in chassis)
        found = [card for some in listed for card in some]
        # A NetworkInterface has the lists of its adapter.
        return found or self._collection_members("NetworkInterfaces", self.system)

    def _bmc_addresses(self) -> Json:
        """Return the BMC's addresses from driver_info, or else from its manager."""
        host = urllib.parse.urlsplit(self._address).hostname or ""
        try:
            known = ipaddress.ip_address(host)
        except ValueError:
            return self._told_addresses()
        six = isinstance(known, ipaddress.IPv6Address)
        return {"bmc_v6address" if six else "bmc_address": str(known)}

    def _told_addresses(self) -> Json:
        for manager in self._linked_documents("ManagedBy", self.system, "Links", "ManagedBy"):
            for card in self._collection_members("EthernetInterfaces", manager):
                v4, v6 = parts.ip_address(card)
                if v4 or v6:
                    found = {"bmc_address": v4, "bmc_v6address": v6}
                    return {name: address for name, address in found.items() if address}
        return {}

    # -- reading ----------------------------------------------------------------------------

    def _collection_members(self, name: str, document: Json) -> list[Json]:
        """Return the documents of the collection that ``name`` leads to."""
        path = resources.link(document, name)
        return self._read_documents(name, functools.partial(resources.members, self.task, path))

    def _linked_documents(self, name: str, document: Json, *names: str) -> list[Json]:
        """Return the documents that the list of links at this place leads to."""
        find = functools.partial(resources.listed, self.task, document, *names)
        return self._read_documents(name, find)

    def _read_documents(self, name: str, find: Callable[..., Iterable[Json]]) -> list[Json]:
        """Return the readable documents of a list.

        :param find: yields the documents; takes ``spare``.
        :raises errors.BmcUnreachable: the BMC does not answer, or takes too long.
        """
        kept: list[Json] = []
        bad: list[errors.HardwareError] = []

        def spare(why: errors.HardwareError) -> None:
            bad.append(why)
            if len(bad) == BAD:
                raise why
            self._note_unreadable(name, why)
            self._count_document()

        try:
            for one in find(spare=spare):
                self._count_document(one)
                kept.append(one)
        except errors.HardwareError as why:
            over = self._left < 0 or self._room < 0 or self._crowded
            if over or time.monotonic() > self._until:
                raise
            self._note_unreadable(name, why)
        return kept

    def _note_unreadable(self, name: str, why: errors.HardwareError) -> None:
        """Note an unreadable part; raise if the fault is not limited to that part."""
        if not isinstance(why, errors.BmcBadAnswer):
            # A part may be silent or not ready, or need another right or licence. If the BMC itself
            # is silent or the login fails, this request raises.
            resources.system(self.task)
        sentence = f"{name}: {str(why).rstrip('.')}"
        if sentence not in self.faults:
            self.faults.append(sentence)

    def _count_document(self, document: Json | None = None) -> None:
        """Count one more document against the limits, with its memory if it is kept.

        :raises errors.Stopping: the service stops.
        """
        self.task.pause(0)
        self._left -= 1
        self._room -= 0 if document is None else responses.memory(document)
        if self._left < 0 or self._room < 0:
            reason = f"it lists more than {MOST} parts"
            if self._room < 0:
                reason = f"its parts take more than {MOST_BYTES // 1024**2} MiB of memory"
            raise errors.BmcBadAnswer(address=self._address, reason=reason)
        self._share_memory()
        if time.monotonic() > self._until:
            reason = f"reading its inventory took more than {SECONDS:g} s"
            raise errors.BmcUnreachable(address=self._address, reason=reason)

    def _share_memory(self) -> None:
        more = MOST_BYTES - self._room - FREE_BYTES - self._shared
        if more <= 0:
            return
        if not _TOGETHER.take(more):
            self._crowded = True
            reason = "its parts are large, and those of other machines take the memory for them"
            raise errors.BmcUnreachable(address=self._address, reason=f"{reason}; retry later")
        self._shared += more


def _known_only(found: Iterable[Json | None]) -> list[Json]:
    return [one for one in found if one is not None]
