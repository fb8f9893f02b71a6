"""Inspection by Redfish, from the BMC's documents; the machine may be off."""

from __future__ import annotations

import logging

from ironic_lite import errors
from ironic_lite.core import config, log_lines
from ironic_lite.core.json_types import Json
from ironic_lite.domain import capabilities, inspection
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import interface
from ironic_lite.drivers.redfish.inventory import survey

LOG = logging.getLogger(__name__)

ESSENTIAL = ("memory_mb", "local_gb", "cpu_arch")
"""Properties that every successful inspection must find."""


class RedfishInspect(interface.RedfishInterface, base.Inspect):
    """The inspect interface ``redfish``."""

    def inspect_hardware(self, task: base.Task) -> base.Outcome:
        """Write properties, ports and inventory, or nothing unless all essential facts are found.

        A property that the BMC does not report keeps the operator's value.

        :raises errors.HardwareError: a property of ``ESSENTIAL`` is unknown, or a hook failed.
        """
        with survey.Survey(task) as found:
            inventory, plugin_data, local_gb = found.take()
        properties = dict(task.node.properties or {})
        _write_properties(properties, inventory, local_gb)
        _without_disks(task, properties, disks_told=found.disks_told)
        _refuse_incomplete(properties, found.faults)
        options = config.CONF.inspector
        case = inspection.Case(
            inventory,
            plugin_data,
            properties,
            options.add_ports,
            extra=dict(task.node.extra or {}),
            aliases=dict(config.CONF.pci_devices.alias or ()),
            remarks=list(found.remarks),
        )
        inspection.run(config.CONF.redfish.inspection_hooks, case)
        for remark in log_lines.some([*case.remarks, *found.faults]):
            LOG.warning("Node %s: %s", task.node.uuid, remark)
        if found.faults:
            case.plugin_data["faults"] = found.faults
        task.add_ports(case.ports, case.client_ids)
        task.node.properties, task.node.extra = case.properties, case.extra
        task.keep_inventory(inventory, case.plugin_data)
        return base.DONE


def _write_properties(properties: Json, inventory: Json, local_gb: int | None) -> None:
    """Write the BMC's facts; the boot mode only if the node has none."""
    told = {
        "memory_mb": inventory["memory"].get("physical_mb"),
        "local_gb": local_gb,
        "cpu_arch": inventory["cpu"].get("architecture"),
        "cpus": inventory["cpu"].get("count"),
        "vendor": inventory["system_vendor"].get("manufacturer"),
    }
    properties.update({name: value for name, value in told.items() if value is not None})
    mode, known = inventory["boot"]["current_boot_mode"], properties.get("capabilities")
    if mode is not None and capabilities.get(known, "boot_mode") is None:
        properties["capabilities"] = capabilities.put(known, "boot_mode", mode)


def _without_disks(task: base.Task, properties: Json, *, disks_told: bool) -> None:
    """Set local_gb to 0 if the BMC lists its disks and has none."""
    if disks_told and inspection.lacking(properties, ["local_gb"]):
        LOG.warning("Node %s: its BMC shows no disk; local_gb is set to 0.", task.node.uuid)
        properties["local_gb"] = 0


def _refuse_incomplete(properties: Json, faults: list[str]) -> None:
    missing = inspection.lacking(properties, ESSENTIAL)
    if missing:
        why = f" It could not be read: {'; '.join(faults)}." if faults else ""
        raise errors.HardwareError(
            reason=f"The BMC does not report {', '.join(missing)}.{why} Switch the machine on "
            "once, or write them into the node's properties, and inspect it again."
        )
