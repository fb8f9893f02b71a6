"""Which firmware a machine has: its BIOS, its BMC, its network cards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.redfish import documents

Json = dict[str, Any]


def components(task: base.Task) -> list[base.FirmwareComponent]:
    """Return what the BMC tells; a card that it does not know while the machine is off is left out.

    :raises errors.HardwareError: see `connection.call`.
    """
    system = documents.system(task)
    found = []
    bios = documents.text(system, "BiosVersion")
    if bios is not None:
        found.append(base.FirmwareComponent(arguments.BIOS, bios))
    manager = _manager(task, system)
    bmc = documents.text(manager, "FirmwareVersion")
    if bmc is not None:
        model = documents.text(manager, "Model")
        found.append(base.FirmwareComponent(arguments.BMC, bmc, model=model))
    # Some BMCs refuse to list cards until the system has booted.
    with contextlib.suppress(errors.BmcBadAnswer):
        found += _cards(task, system)
    return found


def version(task: base.Task, component: str) -> str | None:
    """Return the version of one component, None if it is not told.

    :raises errors.HardwareError: see `connection.call`.
    """
    if component == arguments.BIOS:
        return documents.text(documents.system(task), "BiosVersion")
    if component == arguments.BMC:
        return documents.text(_manager(task, documents.system(task)), "FirmwareVersion")
    return next((one.version for one in components(task) if one.component == component), None)


def probe(task: base.Task) -> None:
    """Read what must be there once a BMC has settled: the system, and its manager.

    :raises errors.HardwareError: it is not.
    """
    if not _manager(task, documents.system(task)):
        address = task.node.driver_info.get("redfish_address")
        raise errors.BmcBadAnswer(address=address, reason="it shows no manager")


def _manager(task: base.Task, system: Json) -> Json:
    managers = documents.listed(task, system, "Links", "ManagedBy")
    return next(managers, None) or {}


def _cards(task: base.Task, system: Json) -> Iterator[base.FirmwareComponent]:
    for chassis in documents.listed(task, system, "Links", "Chassis"):
        for card in documents.members(task, documents.link(chassis, "NetworkAdapters")):
            which = documents.text(card, "SerialNumber") or documents.text(card, "Id")
            for controller in documents.entries(card, "Controllers"):
                found = documents.text(controller, "FirmwarePackageVersion")
                if which and found:
                    yield _card(card, f"{arguments.NIC}{which}", found)
                    break


def _card(card: Json, name: str, found: str) -> base.FirmwareComponent:
    return base.FirmwareComponent(
        name,
        found,
        vendor=documents.text(card, "Manufacturer"),
        model=documents.text(card, "Model"),
        serial_number=documents.text(card, "SerialNumber"),
    )
