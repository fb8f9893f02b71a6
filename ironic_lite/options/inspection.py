"""Options of [inspector], [inspection_rules] and [pci_devices]: what is made of an inventory."""

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

INSPECTION_RULES = (
    cfg.StrOpt(
        "built_in_rules",
        help="YAML file with a list of inspection rules that are there besides those made by "
        "requests, and not shown among them. Read again when it has changed.",
    ),
    cfg.StrOpt(
        "mask_secrets",
        default="sensitive",
        choices=[
            ("always", "no rule sees secrets"),
            ("sensitive", "rules that are sensitive see them"),
            ("never", "all rules see them"),
        ],
        help="Which inspection rules see passwords and the like of node and inventory as ******.",
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
