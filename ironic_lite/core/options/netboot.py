"""Options of [pxe], [dhcp] and [dnsmasq]: booting over the network."""

from __future__ import annotations

from oslo_config import cfg

_BY_ARCH = (
    "The same by properties/cpu_arch, or by that and the boot mode (aarch64, x86_64-bios); "
    "the name with the boot mode comes first, and both before "
)

PXE = (
    cfg.StrOpt(
        "kernel_append_params",
        default="nofb vga=normal",
        help="Further kernel parameters of ramdisks that are booted over the network. A node's "
        "driver_info/kernel_append_params decides for that node.",
    ),
    cfg.StrOpt(
        "tftp_root",
        default="/tftpboot",
        help="Folder of the files that machines fetch by TFTP.",
    ),
    cfg.HostAddressOpt(
        "tftp_server",
        sample_default="192.0.2.10",
        help="Address of the TFTP server. Unset, [DEFAULT]my_ip, or the host of [deploy]http_url.",
    ),
    cfg.StrOpt(
        "ipxe_bootfile_name",
        default="undionly.kpxe",
        help="iPXE for machines in BIOS mode, a file in tftp_root.",
    ),
    cfg.StrOpt(
        "uefi_ipxe_bootfile_name",
        default="snponly.efi",
        help="iPXE for machines in UEFI mode, a file in tftp_root.",
    ),
    cfg.DictOpt(
        "ipxe_bootfile_name_by_arch",
        default={},
        sample_default={"aarch64": "ipxe-arm64.efi"},
        help=f"{_BY_ARCH}ipxe_bootfile_name and uefi_ipxe_bootfile_name.",
    ),
    cfg.StrOpt(
        "pxe_bootfile_name",
        default="pxelinux.0",
        help="Loader for machines in BIOS mode without iPXE, a file in tftp_root.",
    ),
    cfg.StrOpt(
        "uefi_pxe_bootfile_name",
        default="bootx64.efi",
        help="Loader for machines in UEFI mode without iPXE, a file in tftp_root.",
    ),
    cfg.DictOpt(
        "pxe_bootfile_name_by_arch",
        default={},
        sample_default={"aarch64": "grubaa64.efi"},
        help=f"{_BY_ARCH}pxe_bootfile_name and uefi_pxe_bootfile_name.",
    ),
)

DHCP = (
    cfg.StrOpt(
        "dhcp_provider",
        default="none",
        choices=[
            ("none", "a DHCP server that gives every machine the same loader"),
            (
                "dnsmasq",
                "files for dnsmasq, one per card: it answers only machines of this service",
            ),
        ],
        help="The DHCP server that tells machines what to boot.",
    ),
)

DNSMASQ = (
    cfg.StrOpt(
        "dhcp_hostsdir",
        default="/etc/dnsmasq.d/hostsdir.d",
        help="The folder of dnsmasq's option dhcp-hostsdir.",
    ),
    cfg.StrOpt(
        "dhcp_optsdir",
        default="/etc/dnsmasq.d/optsdir.d",
        help="The folder of dnsmasq's option dhcp-optsdir.",
    ),
)
