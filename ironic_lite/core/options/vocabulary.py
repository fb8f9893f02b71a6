"""Words shared by several options and the code that reads them."""

KINDS = (
    "bios",
    "boot",
    "console",
    "deploy",
    "firmware",
    "inspect",
    "management",
    "network",
    "power",
    "raid",
    "rescue",
    "storage",
    "vendor",
)
"""The thirteen interface kinds, each with one entry-point group and two options."""

HOOKS = (
    "ramdisk-error",
    "validate-interfaces",
    "ports",
    "architecture",
    "memory",
    "cpus",
    "boot-mode",
    "root-device",
    "raid-device",
    "pci-devices",
    "parse-lldp",
)
"""Names of the inspection hooks; `inspection.HOOKS` runs them."""
