"""Options of [inspector] and [pci_devices]: what is made of an inventory."""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_lite.options import values, vocabulary

INSPECTOR = (
    cfg.StrOpt(
        "add_ports",
        default="pxe",
        choices=[
            ("all", "all network cards of the inventory"),
            ("active", "those with an IP address"),
            ("pxe", "the one that the machine has booted from; all if that is not known"),
            ("disabled", "none"),
        ],
        help="Which network cards that an inspection finds become ports of the node, by the hook "
        "ports.",
    ),
    cfg.Opt(
        "hooks",
        type=types.List(types.String(choices=vocabulary.HOOKS)),
        default=["ramdisk-error", "validate-interfaces", "ports", "architecture"],
        help="What the inspect interface agent makes of the inventory, in this order. One that "
        "needs another brings it along.",
    ),
    cfg.StrOpt(
        "extra_kernel_params",
        default="",
        sample_default="ipa-inspection-collectors=default,lldp,pci-devices,logs",
        help="Further kernel parameters of ramdisks that inspect, as name=value with blanks "
        "between them.",
    ),
    cfg.BoolOpt(
        "power_off",
        default=True,
        help="Switch machines off after an inspection by an agent. Without effect on machines "
        "whose power must stay on.",
    ),
)

PCI_DEVICES = (
    cfg.MultiOpt(
        "alias",
        item_type=values.PciAlias(),
        sample_default=['{"vendor_id": "10de", "product_id": "2330", "name": "h100"}'],
        help="A capability that the hook pci-devices gives nodes: how many of these devices they "
        "have. May be given several times.",
    ),
)
