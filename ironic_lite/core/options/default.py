"""Options of [DEFAULT]: the whole service, and the interfaces a conductor loads."""

from __future__ import annotations

import os
import pathlib
import socket
from collections.abc import Sequence

from oslo_config import cfg

from ironic_lite.core.options import vocabulary


def _state_path() -> str:
    """Return the default state path: the system's for root, else in the user's home."""
    if os.geteuid() == 0:
        return "/var/lib/ironic-lite"
    base = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state"
    return str(pathlib.Path(base) / "ironic-lite")


DEFAULT = (
    cfg.StrOpt(
        "http_basic_auth_user_file",
        default="/etc/ironic-lite/htpasswd",
        help="Users and bcrypt hashes of their passwords, as 'htpasswd -B' writes them, for "
        "[api]auth_strategy = http_basic. Read again when it has changed.",
    ),
    cfg.BoolOpt(
        "rbac_service_role_elevated_access",
        default=False,
        help="With keystone, let the role service in the project rbac_service_project_name act "
        "like a token of system scope.",
    ),
    cfg.StrOpt(
        "rbac_service_project_name",
        default="service",
        help="Name of the project of services, see rbac_service_role_elevated_access.",
    ),
    cfg.IntOpt(
        "broker_message_limit_mib",
        default=16,
        min=1,
        max=512,
        help="Largest message that the broker behind transport_url accepts, in MiB: "
        "max_message_size of RabbitMQ, which is 16 MiB from version 4 on, and 128 before. A "
        "larger request, such as one with a config drive or the logs of a ramdisk, is "
        "refused with status 413. No effect on local://, see frame_limit_mib.",
    ),
    cfg.StrOpt(
        "state_path",
        default=_state_path(),
        sample_default="/var/lib/ironic-lite",
        help="Folder of the SQLite file and the RPC sockets, unless [database]connection and "
        "transport_url say otherwise. A user other than root gets "
        "$XDG_STATE_HOME/ironic-lite or ~/.local/state/ironic-lite.",
    ),
    cfg.StrOpt(
        "my_ip",
        sample_default="192.0.2.10",
        help="IPv4 address of this machine, for $my_ip in other options; also the default of "
        "[pxe]tftp_server.",
    ),
    cfg.StrOpt("my_ipv6", help="IPv6 address of this machine, for $my_ipv6 in other options."),
    cfg.StrOpt(
        "host",
        default=socket.gethostname(),
        sample_default="conductor-1",
        max_length=255,
        regex=r"^[A-Za-z0-9][A-Za-z0-9._-]*(:([2-9]|[1-9][0-9]))?$",
        help="Name of this conductor: the holder shown in a node's reservation and in "
        "/v1/conductors. It must be unique, and stay the same over restarts. Unset, the name of "
        "this machine. A colon and a number from 2 to 99 end the names that [conductor]processes "
        "makes.",
    ),
    cfg.StrOpt(
        "pin_release_version",
        sample_default="0.1",
        help="During the upgrade of a service on several machines: the release that some "
        "conductors still have. The API then uses no RPC method that this release does not "
        "support. Unset, all have this release.",
    ),
    cfg.StrOpt(
        "default_portgroup_mode",
        default="active-backup",
        help="Mode of portgroups that are created without one: a bonding mode of Linux.",
    ),
    cfg.StrOpt(
        "default_resource_class",
        max_length=80,
        help="Resource class of nodes that are enrolled without one. Unset, they have none.",
    ),
    cfg.StrOpt(
        "default_conductor_group",
        default="",
        max_length=255,
        regex=r"^[A-Za-z0-9_.-]*$",
        help="Conductor group of nodes that are enrolled without one; a conductor of that group "
        "must be alive then.",
    ),
    cfg.ListOpt(
        "enabled_hardware_types",
        default=["ipmi", "redfish", "fake-hardware"],
        help="Hardware types this conductor drives: values of a node's driver field.",
    ),
    cfg.StrOpt(
        "notification_level",
        choices=["debug", "info", "warning", "error", "critical"],
        help="Send notifications of this level and above. Unset, none are sent. "
        "[oslo_messaging_notifications]driver must be set, too.",
    ),
    cfg.ListOpt(
        "versioned_notifications_topics",
        default=["ironic_versioned_notifications"],
        help="Topics the notifications are sent to; each gets all of them.",
    ),
    cfg.StrOpt(
        "grub_config_path",
        default="EFI/BOOT/grub.cfg",
        help="Where the boot loader in a bootloader image looks for its configuration, from the "
        "top of the medium. boot/grub/grub.cfg is always there, too.",
    ),
    cfg.StrOpt(
        "isolinux_bin",
        default="/usr/lib/ISOLINUX/isolinux.bin",
        help="The file isolinux.bin, with which virtual media start machines in BIOS mode.",
    ),
    cfg.StrOpt(
        "ldlinux_c32",
        default="/usr/lib/syslinux/modules/bios/ldlinux.c32",
        help="The file ldlinux.c32 of the same release as isolinux_bin.",
    ),
    cfg.StrOpt(
        "webserver_verify_ca",
        default="True",
        help="Trusted certificates of the https servers that images, kernels and ramdisks are "
        "fetched from, or that inspection rules call: True for the authorities that "
        "requests brings, a PEM file for those in it, False for all certificates. Agents "
        "fetch images directly and have their own list.",
    ),
)

_ENABLED: dict[str, Sequence[str]] = {
    "bios": ("no-bios", "redfish", "fake"),
    "boot": ("ipxe", "pxe", "redfish-virtual-media", "fake"),
    "console": ("no-console", "fake"),
    "deploy": ("direct", "ramdisk", "custom-agent", "fake"),
    "firmware": ("no-firmware", "redfish", "fake"),
    "inspect": ("no-inspect", "redfish", "agent", "fake"),
    "management": ("ipmitool", "redfish", "noop", "fake"),
    "network": ("noop",),
    "power": ("ipmitool", "redfish", "fake"),
    "raid": ("no-raid", "agent", "redfish", "fake"),
    "rescue": ("no-rescue", "agent", "fake"),
    "storage": ("noop",),
    "vendor": ("ipmitool", "redfish", "no-vendor", "fake"),
}

INTERFACES = tuple(
    opt
    for kind in vocabulary.KINDS
    for opt in (
        cfg.ListOpt(
            f"enabled_{kind}_interfaces",
            default=list(_ENABLED[kind]),
            help=f"The {kind} interfaces this conductor loads: values of a node's "
            f"{kind}_interface field.",
        ),
        cfg.StrOpt(
            f"default_{kind}_interface",
            help=f"The {kind} interface of nodes that name none. Unset, the hardware type's "
            "first choice among the enabled ones.",
        ),
    )
)
