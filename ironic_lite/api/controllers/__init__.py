"""One module a resource; ``ALL`` lists the controllers that `app.build` serves."""

from __future__ import annotations

from ironic_lite.api import expose
from ironic_lite.api.controllers import (
    bios,
    bmc,
    chassis,
    conductors,
    deploy_templates,
    drivers,
    firmware,
    heartbeat,
    history,
    inspection,
    inventory,
    lookup,
    maintenance,
    management,
    nodes,
    ports,
    root,
    runs,
    states,
    traits,
    vendor,
)

ALL: tuple[type[expose.Controller], ...] = (
    root.Root,
    nodes.Nodes,
    states.States,
    maintenance.Maintenance,
    management.Management,
    bmc.Bmc,
    vendor.NodeVendor,
    traits.Traits,
    ports.Ports,
    runs.Runs,
    history.History,
    bios.Bios,
    firmware.Firmware,
    inventory.Inventory,
    chassis.Chassis,
    chassis.Members,
    deploy_templates.DeployTemplates,
    drivers.Drivers,
    vendor.DriverVendor,
    conductors.Conductors,
    lookup.Lookup,
    heartbeat.Heartbeat,
    inspection.ContinueInspection,
)
