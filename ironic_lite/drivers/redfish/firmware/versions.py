"""Firmware versions of a machine's BIOS, BMC and network cards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.redfish.bmc import resources


def components(task: base.Task) -> list[base.FirmwareComponent]:
    """Return the reported versions, without cards that the BMC does not list while power is off.

    :raises errors.HardwareError: see `connection.call`.
    """
    system = resources.system(task)
    found = []
    bios = resources.text(system, "BiosVersion")
    if bios is not None:
        found.append(base.FirmwareComponent(arguments.BIOS, bios))
    manager: Json = {}
    with contextlib.suppress(errors.BmcBadAnswer):
        manager = _read_manager(task, system)
    bmc = resources.text(manager, "FirmwareVersion")
    if bmc is not None:
        model = resources.text(manager, "Model")
        found.append(base.FirmwareComponent(arguments.BMC, bmc, model=model))
    # Some BMCs refuse to list cards until the system has booted.
    with contextlib.suppress(errors.BmcBadAnswer):
        found += _network_cards(task, system)
    return found


def version(task: base.Task, component: str) -> str | None:
    """Return the version of one component, None if it is not reported.

    :raises errors.HardwareError: see `connection.call`.
    """
    if component == arguments.BIOS:
        return resources.text(resources.system(task), "BiosVersion")
    if component == arguments.BMC:
        return resources.text(_read_manager(task, resources.system(task)), "FirmwareVersion")
    return next((one.version for one in components(task) if one.component == component), None)


def probe(task: base.Task) -> None:
    """Read the system and the manager that it names, which a settled BMC must have.

    :raises errors.HardwareError: one of them is missing.
    """
    system = resources.system(task)
    if resources.entries(system, "Links", "ManagedBy") and not _read_manager(task, system):
        address = task.node.driver_info.get("redfish_address")
        raise errors.BmcBadAnswer(address=address, reason="it shows no manager")


def _read_manager(task: base.Task, system: Json) -> Json:
    managers = resources.listed(task, system, "Links", "ManagedBy")
    return next(managers, None) or {}


def _network_cards(task: base.Task, system: Json) -> Iterator[base.FirmwareComponent]:
    spare = resources.note_unreadable(task, "the network cards")
    for chassis in resources.listed(task, system, "Links", "Chassis", spare=spare):
        place = resources.link(chassis, "NetworkAdapters")
        for card in resources.members(task, place, spare=spare):
            which = resources.text(card, "SerialNumber") or resources.text(card, "Id")
            for controller in resources.entries(card, "Controllers"):
                found = resources.text(controller, "FirmwarePackageVersion")
                if which and found:
                    yield _card_version(card, f"{arguments.NIC}{which}", found)
                    break


def _card_version(card: Json, name: str, found: str) -> base.FirmwareComponent:
    return base.FirmwareComponent(
        name,
        found,
        vendor=resources.text(card, "Manufacturer"),
        model=resources.text(card, "Model"),
        serial_number=resources.text(card, "SerialNumber"),
    )
