"""Options of [inspector], [inspection_rules] and [pci_devices]."""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_lite.core.options import values, vocabulary

INSPECTOR = (
    cfg.StrOpt(
        "add_ports",
        default="pxe",
        choices=[
            ("all", "all network cards of the inventory"),
            ("active", "those with an IP address"),
            ("pxe", "the card that the machine has booted from; all if it is unknown"),
            ("disabled", "none"),
        ],
        help="Network cards of an inspection that become ports of the node, by the hook ports.",
    ),
    cfg.StrOpt(
        # A text, because $default_hooks of a list would have brackets and quotes.
        "default_hooks",
        default="ramdisk-error,validate-interfaces,ports,architecture",
        help="The value of $default_hooks in hooks.",
    ),
    cfg.Opt(
        "hooks",
        type=types.List(types.String(choices=vocabulary.HOOKS)),
        default="$default_hooks",
        help="Hooks that the inspect interface agent runs on the inventory, in this order. Hooks "
        "that they require are added.",
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
        help="Power machines off after an inspection by an agent. No effect on machines whose "
        "power must stay on.",
    ),
)

INSPECTION_RULES = (
    cfg.StrOpt(
        "built_in_rules",
        help="YAML file with a list of inspection rules in addition to those made by requests; "
        "the API does not show them. Read again when it has changed.",
    ),
    cfg.StrOpt(
        "mask_secrets",
        default="sensitive",
        choices=[
            ("always", "no rule sees secrets"),
            ("sensitive", "rules that are sensitive see them"),
            ("never", "all rules see them"),
        ],
        help="Inspection rules that see passwords and other secrets of node and inventory; the "
        "others see ******.",
    ),
)

PCI_DEVICES = (
    cfg.MultiOpt(
        "alias",
        item_type=values.PciAlias(),
        sample_default=['{"vendor_id": "10de", "product_id": "2330", "name": "h100"}'],
        help="A capability that the hook pci-devices gives nodes: the number of these devices. "
        "May be given several times.",
    ),
)
