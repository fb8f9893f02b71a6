"""Controllers, one module for each subject; `app.build` serves ``ALL`` and those of features."""

from __future__ import annotations

from collections.abc import Iterable

from ironic_lite.api.controllers import (
    agent,
    allocations,
    bmc,
    drivers,
    inspection,
    node_holds,
    nodes,
    plans,
    ports,
    provisioning,
    root,
    runbooks,
    runs,
    traits,
    volumes,
)
from ironic_lite.api.http import expose
from ironic_lite.api.service import Extension

ALL: tuple[type[expose.Controller], ...] = (
    root.Root,
    root.Description,
    nodes.Nodes,
    provisioning.States,
    nodes.Maintenance,
    bmc.Management,
    bmc.Bmc,
    drivers.NodeVendor,
    traits.Traits,
    nodes.Children,
    ports.Ports,
    ports.Portgroups,
    ports.Vifs,
    ports.NetworkEvents,
    volumes.Volume,
    volumes.Connectors,
    volumes.Targets,
    plans.Plans,
    runs.Runs,
    runs.RunStops,
    runs.FleetRuns,
    runs.History,
    node_holds.Holds,
    node_holds.DataStates,
    bmc.Bios,
    bmc.Firmware,
    inspection.Inventory,
    nodes.Chassis,
    nodes.Members,
    root.Shards,
    runbooks.DeployTemplates,
    inspection.InspectionRules,
    runbooks.Runbooks,
    runbooks.Traits,
    allocations.Allocations,
    allocations.NodeAllocation,
    drivers.Drivers,
    drivers.DriverVendor,
    drivers.Conductors,
    root.Whoami,
    agent.Lookup,
    agent.Heartbeat,
    inspection.ContinueInspection,
)


def of(extensions: Iterable[Extension]) -> tuple[type[expose.Controller], ...]:
    """Return all controllers of an API with these extensions."""
    return (*ALL, *(each for one in extensions for each in one.controllers))
