"""The tables of installed releases, compared with the table of columns of the import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ironic_lite.features.move_in import rules, tables
from tests.move_in import ironics

_OBJECTS: Mapping[str, str] = {
    # A table whose rows carry the version of an object: the object.
    "allocations": "Allocation",
    "bios_settings": "BIOSSetting",
    "chassis": "Chassis",
    "deploy_templates": "DeployTemplate",
    "firmware_information": "FirmwareComponent",
    "inspection_rules": "InspectionRule",
    "node_history": "NodeHistory",
    "node_inventory": "NodeInventory",
    "node_traits": "Trait",
    "nodes": "Node",
    "portgroups": "Portgroup",
    "ports": "Port",
    "runbook_traits": "RunbookTrait",
    "runbooks": "Runbook",
    "volume_connectors": "VolumeConnector",
    "volume_targets": "VolumeTarget",
}


def faults(version: str) -> Iterator[str]:
    """Yield what the rules of the import do not say as a release does."""
    release = ironics.facts(version)
    if release.head not in rules.HEADS:
        yield f"Ironic {version}: the head {release.head} is unknown"
        return
    for name, table in tables.TABLES.items():
        known = {column.name for column in table.of_head(release.head)}
        there = set(release.tables.get(name, ()))
        for column in sorted(known ^ there):
            side = "the release alone" if column in there else "the rules alone"
            yield f"Ironic {version}: {side} have {name}.{column}"
        kind = _OBJECTS.get(name, "")
        found, wanted = table.version(release.head), release.objects.get(kind)
        if there and kind and found != wanted:
            yield f"Ironic {version}: {kind} has version {wanted}, and {found} in the rules"
    for name in sorted(set(release.tables) - set(tables.TABLES)):
        yield f"Ironic {version}: the rules do not have the table {name}"
