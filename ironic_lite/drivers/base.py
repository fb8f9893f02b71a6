"""Public names for driver authors: interfaces, task, and decorators.

A driver sees a ``Task`` (node, ports, saved notes, timers) and nothing of the conductor or the
database. Every method that uses hardware must limit its own time. It raises
``errors.HardwareError`` or a subclass of it. It never changes the node's state, but returns
``DONE`` or ``WAIT``. See ``docs/drivers.rst``.

The definitions are in ``contract``; this module re-exports its public names.
"""

from __future__ import annotations

from ironic_lite.domain.examination import Check, Verdict, failed, passed, warning
from ironic_lite.domain.inspection import Case, InspectedPort, InspectionHook
from ironic_lite.domain.passthru import Call, driver_passthru, passthru
from ironic_lite.domain.steps import (
    DONE,
    WAIT,
    Arg,
    Effects,
    Outcome,
    Step,
    StepKind,
    clean_step,
    deploy_step,
    service_step,
    verify_step,
)
from ironic_lite.domain.vocabulary import (
    BOOT_MODES,
    COMPONENTS,
    IMAGE_SCHEMES,
    INDICATOR_STATES,
    VIRTUAL_MEDIA,
)
from ironic_lite.drivers.contract.driver import (
    BASES,
    BIOS,
    KINDS,
    OPTIONAL_KINDS,
    POWER_OFF,
    POWER_ON,
    RAID,
    RAMDISKS,
    REBOOT,
    SOFT_POWER_OFF,
    SOFT_REBOOT,
    AgentReport,
    BiosSetting,
    Boot,
    Console,
    Deploy,
    Driver,
    Firmware,
    FirmwareComponent,
    HardwareType,
    Inspect,
    Management,
    Network,
    Power,
    Proxy,
    Rescue,
    Storage,
    Vendor,
)
from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Agent, Cards, Task
from ironic_lite.drivers.settings import DriverField
from ironic_lite.records import Node, Port, Portgroup, StoredStep

CONTRACT = "1.0"
"""Version of these names: a minor one adds names, and methods that have a default body."""

__all__ = [
    "BASES",
    "BIOS",
    "BOOT_MODES",
    "COMPONENTS",
    "CONTRACT",
    "DONE",
    "IMAGE_SCHEMES",
    "INDICATOR_STATES",
    "KINDS",
    "OPTIONAL_KINDS",
    "POWER_OFF",
    "POWER_ON",
    "RAID",
    "RAMDISKS",
    "REBOOT",
    "SOFT_POWER_OFF",
    "SOFT_REBOOT",
    "VIRTUAL_MEDIA",
    "WAIT",
    "Agent",
    "AgentReport",
    "Arg",
    "BiosSetting",
    "Boot",
    "Call",
    "Cards",
    "Case",
    "Check",
    "Console",
    "Deploy",
    "Driver",
    "DriverField",
    "Effects",
    "Firmware",
    "FirmwareComponent",
    "HardwareType",
    "Inspect",
    "InspectedPort",
    "InspectionHook",
    "Interface",
    "Management",
    "Network",
    "Node",
    "Outcome",
    "Port",
    "Portgroup",
    "Power",
    "Proxy",
    "Rescue",
    "Step",
    "StepKind",
    "Storage",
    "StoredStep",
    "Task",
    "Vendor",
    "Verdict",
    "clean_step",
    "deploy_step",
    "driver_passthru",
    "failed",
    "passed",
    "passthru",
    "service_step",
    "verify_step",
    "warning",
]
