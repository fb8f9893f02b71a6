"""Every option this service reads, as tables of defaults, bounds and help; `config` loads them."""

from __future__ import annotations

import json
import os
import pathlib
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg, types

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
"""What can be made of an inventory; `inspection.HOOKS` does it."""


class StepPriorities(types.ConfigType):
    """Priorities by step: ``interface.step:priority``, several separated by commas.

    Gives a dict ``{"interface.step": int | float}``; raises ValueError that shows the right form.
    """

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__(type_name="step priorities")
        self._number: type[int] | type[float] = int if whole else float

    def __call__(self, value: str | Mapping[str, float]) -> dict[str, float]:
        """Parse one line of a file; a dict, as a default or an override gives it, passes."""
        if isinstance(value, Mapping):
            return dict(value)
        return dict(self._pair(item.strip()) for item in value.split(",") if item.strip())

    def _pair(self, item: str) -> tuple[str, float]:
        step, colon, number = item.rpartition(":")
        interface, dot, name = step.strip().partition(".")
        if not (colon and dot and interface in KINDS and name):
            raise ValueError(f"{item!r} is not of the form interface.step:priority")
        try:
            priority = self._number(number)
        except ValueError:
            priority = -1
        if not 0 <= priority < float("inf"):
            raise ValueError(f"the priority in {item!r} must be a number of 0 or more")
        whole = int(priority)
        return step.strip(), whole if whole == priority else priority

    def __repr__(self) -> str:
        return "StepPriorities"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepPriorities) and other._number is self._number

    def __hash__(self) -> int:
        return hash(self._number)

    def format_defaults(self, default: Any, sample_default: Any = None) -> list[str]:
        """Show the sample: a repeatable option has no default but an empty one."""
        return list(sample_default or [""])

    def _formatter(self, value: Mapping[str, float]) -> str:
        return ",".join(f"{step}:{priority:g}" for step, priority in value.items())


class PciAlias(types.ConfigType):
    """A name for a kind of PCI device: JSON with ``vendor_id``, ``product_id`` and ``name``.

    Gives ``((vendor, product), name)``, the ids in lower case.
    """

    def __init__(self) -> None:
        super().__init__(type_name="PCI alias")

    def __call__(self, value: object) -> tuple[tuple[str, str], str]:
        """Parse one line of a file; what has been parsed passes."""
        if isinstance(value, tuple):
            return value
        try:
            given = json.loads(str(value))
            vendor, product, name = (given[key] for key in ("vendor_id", "product_id", "name"))
        except (ValueError, TypeError, KeyError) as why:
            form = '{"vendor_id": "1234", "product_id": "5678", "name": "gpu"}'
            raise ValueError(f"{value!r} is not of the form {form}") from why
        return (str(vendor).lower(), str(product).lower()), str(name)

    def __repr__(self) -> str:
        return "PciAlias"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PciAlias)

    def __hash__(self) -> int:
        return hash(PciAlias)

    def _formatter(self, value: object) -> str:
        return str(value)


class PortRange(types.ConfigType):
    """TCP ports ``first:last``, both of them included.

    Gives a ``range``; raises ValueError that shows the right form.
    """

    def __init__(self) -> None:
        super().__init__(type_name="port range")

    def __call__(self, value: object) -> range:
        """Parse one line of a file; what has been parsed passes."""
        if isinstance(value, range):
            return value
        first, colon, last = str(value).partition(":")
        right = bool(colon) and first.strip().isdecimal() and last.strip().isdecimal()
        if not right or not 1 <= int(first) <= int(last) <= types.Port.PORT_MAX:
            raise ValueError(f"{value!r} is not of the form 10000:19999, from 1 to 65535")
        return range(int(first), int(last) + 1)

    def __repr__(self) -> str:
        return "PortRange"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PortRange)

    def __hash__(self) -> int:
        return hash(PortRange)

    def format_defaults(self, default: Any, sample_default: Any = None) -> list[str]:
        """Show the sample: a repeatable option has no default but an empty one."""
        return list(sample_default or [""])

    def _formatter(self, value: object) -> str:
        return str(value)


def _state_path() -> str:
    """Root keeps state where services do; anybody else in their own home."""
    if os.geteuid() == 0:
        return "/var/lib/ironic-lite"
    base = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state"
    return str(pathlib.Path(base) / "ironic-lite")


def _seconds(name: str, default: int, help: str, *, least: int = 0, **more: Any) -> cfg.Opt:
    return cfg.IntOpt(name, default=default, min=least, help=help, **more)


def _sweep(name: str, default: int, help: str) -> cfg.Opt:
    return _seconds(name, default, f"{help} Seconds; 0 turns it off.")


def _by_arch(name: str, what: str) -> tuple[cfg.Opt, cfg.Opt]:
    """One option for all machines, and one by the ``cpu_arch`` in a node's properties."""
    return (
        cfg.StrOpt(name, help=f"URL of {what}, for nodes whose driver_info names none."),
        cfg.DictOpt(
            f"{name}_by_arch",
            default={},
            sample_default={"x86_64": f"file:///srv/boot/x86_64.{name.rpartition('_')[2]}"},
            help=f"The same by properties/cpu_arch, as arch:URL; it comes before {name}.",
        ),
    )


def _limit(name: str, what: str) -> cfg.Opt:
    return _seconds(
        name,
        1800,
        f"A node that waits longer than this many seconds for {what} fails. 0 waits for ever.",
    )


# -- [DEFAULT] -------------------------------------------------------------------------------

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
        help="With keystone, let the role service in the project rbac_service_project_name do what "
        "it may do with a token for the whole system.",
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
        help="Largest message that the broker behind transport_url takes, in MiB: max_message_size "
        "of RabbitMQ, which is 16 MiB from version 4 on, and 128 before. A request that would be a "
        "larger one, with a config drive or the logs of a ramdisk in it, is refused with status "
        "413. Nothing for local://, see frame_limit_mib.",
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
        "host",
        default=socket.gethostname(),
        sample_default="conductor-1",
        max_length=255,
        regex=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        help="Name of this conductor: the holder shown in a node's reservation and in "
        "/v1/conductors. It must be unique, and stay the same over restarts. Unset, the name of "
        "this machine.",
    ),
    cfg.StrOpt(
        "pin_release_version",
        sample_default="0.1",
        help="While a service on several machines is upgraded: the release that some conductors "
        "are still of. The API then asks nothing of conductors that this release does not know. "
        "Unset, all are of this release.",
    ),
    cfg.StrOpt(
        "default_portgroup_mode",
        default="active-backup",
        help="Mode of portgroups that are created without one: a bonding mode of Linux.",
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
        help="Whose certificates are believed of the https servers that images, kernels and "
        "ramdisks are fetched from: True for the authorities that requests brings, a PEM file for "
        "those in it, False for everybody's. Agents fetch by themselves and have their own list.",
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
    "vendor": ("ipmitool", "no-vendor", "fake"),
}

INTERFACES = tuple(
    opt
    for kind in KINDS
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

# -- [api] -----------------------------------------------------------------------------------

API = (
    cfg.HostAddressOpt(
        "host",
        default="127.0.0.1",
        deprecated_opts=[cfg.DeprecatedOpt("host_ip", group="api")],
        help="Address the API listens on.",
    ),
    cfg.PortOpt("port", default=6385, help="TCP port the API listens on."),
    cfg.IntOpt("workers", default=1, min=1, max=256, help="Number of API worker processes."),
    cfg.IntOpt(
        "max_connections",
        default=1024,
        min=16,
        max=16384,
        help="Connections that a process of the API serves at once. More are not accepted before "
        "one is closed; the system keeps them waiting.",
    ),
    cfg.IntOpt(
        "max_reads",
        default=64,
        min=1,
        help="GETs that a process of the API works on at once. Who finds no place within a second, "
        "here and in the next three, gets 503.",
    ),
    cfg.IntOpt(
        "max_changes",
        default=128,
        min=1,
        help="Requests that change something and are in hand at once, their bodies received.",
    ),
    cfg.IntOpt(
        "max_agent_requests",
        default=128,
        min=1,
        help="Requests of ramdisk agents in hand at once: lookups, heartbeats, inspections.",
    ),
    cfg.IntOpt(
        "max_questions",
        default=32,
        min=1,
        help="GETs that wait for a conductor at once, beside max_reads for the others.",
    ),
    cfg.IntOpt(
        "max_body_memory_mib",
        default=256,
        min=80,
        help="MiB that the bodies of all requests in hand may take in a process of the API; the "
        "first 16 KiB of each are not counted. A request that would go beyond gets 503.",
    ),
    cfg.IntOpt(
        "body_timeout",
        default=60,
        min=1,
        help="Seconds in which the body of a request must have come, and one more for each 64 KiB "
        "of it. After that its client gets 408, and its connection is closed.",
    ),
    cfg.StrOpt(
        "ssl_cert_file", help="PEM file with the certificate chain; with ssl_key_file turns TLS on."
    ),
    cfg.StrOpt("ssl_key_file", help="PEM file with the private key of ssl_cert_file."),
    cfg.URIOpt(
        "public_endpoint",
        schemes=["http", "https"],
        help="Start of the links in answers, such as https://metal.example.org. Unset, it "
        "follows the request.",
    ),
    cfg.BoolOpt(
        "enable_proxy_headers_parsing",
        default=False,
        help="Believe the X-Forwarded-* headers of a reverse proxy when links are made. Only for "
        "an API that nothing but the proxy can reach.",
    ),
    cfg.IntOpt(
        "max_limit",
        default=1000,
        min=1,
        help="Rows of a list page: the default, and the most a client can ask for.",
    ),
    cfg.StrOpt(
        "default_version",
        default="latest",
        regex=r"^(latest|1\.([1-9]\d?|10\d|11[0-5]))$",
        help="Microversion of requests that name none: 'latest', or a number such as 1.1, "
        "which is what clients of Ironic without a version header expect.",
    ),
    cfg.StrOpt(
        "auth_strategy",
        default="noauth",
        choices=[
            ("noauth", "everybody who reaches the API may do everything"),
            ("http_basic", "users of http_basic_auth_user_file may do everything"),
            ("keystone", "tokens of OpenStack Identity, and what the policy lets their roles do"),
        ],
        deprecated_group="DEFAULT",
        help="Who may use the API. keystone needs the extra of that name, and is set up in "
        "[keystone_authtoken] and [oslo_policy].",
    ),
    cfg.BoolOpt(
        "project_admin_can_manage_own_nodes",
        default=True,
        help="With keystone, let administrators of a project enroll nodes, which their project "
        "then owns, and forget such nodes.",
    ),
    cfg.BoolOpt(
        "allow_unauthenticated_bind",
        default=False,
        help="Let noauth listen on an address other than loopback. Everybody who reaches it "
        "controls the machines.",
    ),
    cfg.BoolOpt(
        "enable_ramdisk_endpoints",
        default=True,
        help="Serve /v1/lookup, /v1/heartbeat and /v1/continue_inspection, which ramdisk agents "
        "call without authentication.",
    ),
    cfg.BoolOpt(
        "restrict_lookup",
        default=True,
        help="Answer /v1/lookup only for nodes in a state in which an agent may run.",
    ),
    cfg.IntOpt(
        "ramdisk_refusals_per_minute",
        default=300,
        min=0,
        help="How many of the requests of ramdisk agents one address may have refused "
        "within a minute; then all of its are, with 503, until the minute is over. 0: any number.",
    ),
    _seconds(
        "ramdisk_heartbeat_timeout",
        300,
        "Within which time an agent is told to send a heartbeat; it does so about twice as often.",
        least=1,
    ),
    *(
        cfg.ListOpt(
            f"disallow_{kind}_steps",
            default=["vendor.send_raw"],
            help=f"{kind.capitalize()} steps nobody may ask for, as interface.step.",
        )
        for kind in ("clean", "deploy", "service")
    ),
)

# -- [database] ------------------------------------------------------------------------------

DATABASE = (
    cfg.StrOpt(
        "connection",
        secret=True,
        help="SQLAlchemy URL: sqlite:////path/file, postgresql+psycopg://user:password@host/name "
        "or mysql+pymysql://user:password@host/name. Unset, ironic-lite.sqlite in state_path.",
    ),
    cfg.ListOpt(
        "encryption_keys",
        default=[],
        secret=True,
        help="Fernet keys, of which the first encrypts what is secret in the database, and all "
        "decrypt. 'none' as the first leaves new values as they are. Before a key becomes the "
        "first, every process must have it at a later place; 'ironic-lite-dbsync reencrypt' "
        "rewrites the rest. A key is 32 random bytes in URL-safe base64.",
    ),
    cfg.IntOpt("max_pool_size", default=10, min=1, help="Connections a process keeps open."),
    cfg.IntOpt(
        "max_overflow",
        default=50,
        min=0,
        help="Connections a process opens beyond max_pool_size while it is busy.",
    ),
    _seconds("pool_timeout", 30, "How long a thread waits for a connection.", least=1),
    _seconds("connection_recycle_time", 3600, "A connection older than this is renewed.", least=1),
    _seconds("connect_timeout", 10, "How long making a connection may take.", least=1),
    _seconds(
        "statement_timeout",
        30,
        "How long one statement may take on PostgreSQL and MariaDB.",
        least=1,
    ),
    _seconds(
        "sqlite_busy_timeout",
        10,
        "How long a writer of SQLite waits for the one before it.",
        least=1,
    ),
)

# -- [conductor] -----------------------------------------------------------------------------

_MEMBERSHIP = (
    cfg.StrOpt(
        "conductor_group",
        default="",
        max_length=255,
        regex=r"^[A-Za-z0-9._-]*$",
        help="This conductor drives only nodes whose conductor_group field says the same; upper "
        "and lower case are one.",
    ),
    _seconds("heartbeat_interval", 10, "Seconds between two signs of life.", least=1),
    _seconds(
        "heartbeat_timeout",
        60,
        "Seconds after its last sign of life at which a conductor counts as dead: others take "
        "its nodes over and its locks run out.",
        least=2,
    ),
    _seconds(
        "hash_ring_reset_interval",
        15,
        "Seconds after which the share of nodes among conductors is read anew.",
    ),
    _seconds(
        "graceful_shutdown_timeout",
        60,
        "Seconds a stopping conductor waits for its running work. 0 waits for ever.",
    ),
    _seconds(
        "drain_shutdown_timeout",
        1800,
        "The same where SIGUSR2 asks for the stop, as before the maintenance of a machine.",
    ),
)

_WORK = (
    cfg.IntOpt(
        "workers_pool_size",
        default=100,
        min=4,
        help="Threads that work on nodes. Beyond that, requests get 503.",
    ),
    cfg.IntOpt(
        "reserved_workers_pool_percentage",
        default=5,
        min=0,
        max=50,
        help="Share of workers_pool_size kept for requests of the API, so that sweeps and agents "
        "cannot starve them.",
    ),
    cfg.IntOpt(
        "periodic_max_workers",
        default=8,
        min=1,
        help="Threads one periodic sweep may use at once.",
    ),
    cfg.IntOpt(
        "max_concurrent_deploy",
        default=250,
        min=1,
        help="Nodes deploying at once, in all conductors together. Beyond that, requests get 503.",
    ),
    cfg.IntOpt(
        "max_concurrent_clean",
        default=50,
        min=1,
        help="Nodes cleaning or being deleted at once, in all conductors together. Beyond that, "
        "requests get 503.",
    ),
    cfg.IntOpt(
        "node_locked_retry_attempts",
        default=3,
        min=0,
        help="How often a locked node is tried again before a request gets 409.",
    ),
    _seconds("node_locked_retry_interval", 1, "Seconds between two such tries."),
)

_LIFE = (
    cfg.BoolOpt(
        "automated_clean_enable",
        default=True,
        deprecated_opts=[
            cfg.DeprecatedOpt("automated_clean", group="conductor"),
            cfg.DeprecatedOpt("clean_nodes", group="conductor"),
        ],
        help="Clean nodes by themselves before they become available. A node's automated_clean "
        "field, if set, decides for that node.",
    ),
    cfg.MultiOpt(
        "clean_step_priority_override",
        item_type=StepPriorities(),
        default={},
        sample_default=["deploy.erase_devices:0"],
        help="Priority of a clean step in automated cleaning, as interface.step:priority; 0 leaves "
        "the step out. May be given several times.",
    ),
    cfg.MultiOpt(
        "verify_step_priority_override",
        item_type=StepPriorities(whole=True),
        default={},
        sample_default=["management.detect_vendor:0"],
        help="Priority of a verify step, as interface.step:priority; 0 leaves the step out. May be "
        "given several times.",
    ),
    cfg.BoolOpt(
        "allow_provisioning_in_maintenance",
        default=True,
        help="Let nodes in maintenance be provided and cleaned, and go on with what they were "
        "doing. False refuses that, and a clean, deployment, service or rescue whose node enters "
        "maintenance fails at the next heartbeat or poll; a step that must not be cut short ends "
        "first.",
    ),
    cfg.BoolOpt(
        "allow_deleting_available_nodes",
        default=True,
        help="Let a node be removed while it is available.",
    ),
    cfg.BoolOpt(
        "power_off_after_verify",
        default=False,
        help="Power a node off when its credentials are verified.",
    ),
    cfg.BoolOpt(
        "poweroff_in_cleanfail",
        default=False,
        help="Power a machine off when its clean has failed, whatever it was in the middle of: one "
        "that was writing firmware may not start again. Aborted cleans leave it on.",
    ),
    cfg.BoolOpt(
        "poweroff_in_servicefail",
        default=False,
        help="The same for service, whose machines hold instances.",
    ),
    cfg.StrOpt(
        "rescue_password_hash_algorithm",
        default="sha256",
        choices=("sha256", "sha512"),
        help="How a rescue password is hashed before the rescue ramdisk gets it.",
    ),
    cfg.BoolOpt(
        "require_rescue_password_hashed",
        default=True,
        help="Keep only the hash of a rescue password. False keeps the password too, until the "
        "rescue ends, for ramdisks that cannot take a hash.",
    ),
    _seconds(
        "poll_timeout",
        7 * 24 * 3600,
        "A step, an inspection or a rescue fails when its driver has answered for this many "
        "seconds that it goes on. Each such answer counts as a sign of life for the other "
        "time-outs, so this is what ends a wait on a machine that says so for ever. 0 waits on.",
    ),
    _seconds(
        "max_conductor_wait_step_seconds",
        30,
        "The longest sleep, in seconds, that a reserved step named wait may ask for.",
    ),
    cfg.BoolOpt(
        "permit_child_node_step_async_result",
        default=False,
        help="Take a step that goes on by itself on a child node for done. Nobody then looks "
        "whether it ends well.",
    ),
)

_WATCH = (
    _limit("clean_callback_timeout", "a clean step to end"),
    _limit("deploy_callback_timeout", "a deploy step to end"),
    _limit("service_callback_timeout", "a service step to end"),
    _limit("rescue_callback_timeout", "a rescue to end"),
    _limit("inspect_wait_timeout", "an inspection to end"),
    _sweep(
        "check_provision_state_interval",
        60,
        "How often waiting nodes are checked against their limits, and nodes of dead conductors "
        "are taken over.",
    ),
    _sweep("sync_power_state_interval", 120, "How often the power state of nodes is read."),
    cfg.IntOpt(
        "sync_power_state_workers",
        default=64,
        min=1,
        help="Machines whose power state is read at the same time. Half as many more may be those "
        "that were silent or slow lately, and as many again those that are lost.",
    ),
    _sweep(
        "power_failure_recovery_interval",
        300,
        "How often nodes lost to a power failure are tried again.",
    ),
    cfg.IntOpt(
        "power_state_sync_max_retries",
        default=3,
        min=0,
        help="Failed power reads in a row after which a node goes into maintenance with the fault "
        "'power failure'.",
    ),
    cfg.BoolOpt(
        "force_power_state_during_sync",
        default=True,
        help="Set the power of a machine back to what the database says. If false, the database "
        "follows the machine.",
    ),
    _seconds(
        "power_state_change_timeout",
        60,
        "Seconds a machine may take to be powered on or off.",
        least=2,
    ),
    _seconds(
        "soft_power_off_timeout",
        600,
        "Seconds a machine may take to shut its system down.",
        least=1,
    ),
)

_HISTORY = (
    cfg.IntOpt(
        "node_history_max_entries",
        default=300,
        min=0,
        help="Entries of history kept of each node, with all events since the oldest of them; as "
        "many runs, and twenty times as many other events. 0 keeps everything.",
    ),
    _seconds(
        "node_history_minimum_days",
        0,
        "Days for which nothing of a node's history is removed, however much it is.",
    ),
    _seconds(
        "removed_node_history_days",
        90,
        "Days for which the events of a node are kept after it has been removed. 0 keeps them.",
    ),
    _sweep("node_history_cleanup_interval", 86400, "How often old history is removed."),
    _seconds(
        "node_history_cleanup_batch_count",
        1000,
        "Events removed in one transaction. A clean-up goes on, with pauses in which others write, "
        "until all that is too old is gone. 0 turns it off.",
    ),
)

_IMAGES = (
    cfg.ListOpt(
        "file_url_allowed_paths",
        default=["/var/lib/ironic-lite/images", "/srv/ironic-lite", "/var/lib/ironic"],
        help="Folders of this machine whose files the fields of a node may name by file:// URLs. "
        "Options may name any file.",
    ),
    cfg.ListOpt(
        "image_blocked_networks",
        default=["169.254.0.0/16", "fe80::/10"],
        help="Networks, as 192.0.2.0/24, from which this service fetches nothing, whatever a node "
        "says: those of your clouds' metadata services, and of what else trusts this machine.",
    ),
    cfg.IntOpt(
        "image_cache_size",
        default=20480,
        min=1,
        help="MiB that fetched kernels, ramdisks and images may take; also the largest one that is "
        "fetched. What was used longest ago goes first.",
    ),
    cfg.ListOpt(
        "permitted_image_formats",
        default=["raw", "gpt", "qcow2"],
        help="What an image may be, as its content says.",
    ),
    cfg.BoolOpt(
        "disable_deep_image_inspection",
        default=False,
        help="Believe what is said of images, and do not look into them. An image is written by "
        "whoever deploys it: qcow2 can name files of the machine that reads it.",
    ),
)

_RAMDISKS = (
    *_by_arch("deploy_kernel", "the kernel of the ramdisk that cleans and deploys"),
    *_by_arch("deploy_ramdisk", "the ramdisk that cleans and deploys"),
    *_by_arch("rescue_kernel", "the kernel of the ramdisk that rescues"),
    *_by_arch("rescue_ramdisk", "the ramdisk that rescues"),
    *_by_arch(
        "bootloader",
        "the image of an EFI system partition that virtual media start kernels from",
    ),
    _sweep(
        "sync_local_state_interval",
        180,
        "How often nodes that came from another conductor are looked for, whose boot files are to "
        "be made here; and old files of nodes that are no more, or do not mean them any more.",
    ),
)

CONDUCTOR = (*_MEMBERSHIP, *_WORK, *_LIFE, *_WATCH, *_HISTORY, *_IMAGES, *_RAMDISKS)

# -- [deploy], [agent], [fake], [ipmi], [redfish], [oslo_messaging_local] --------------------

DEPLOY = (
    cfg.BoolOpt(
        "fast_track",
        default=False,
        help="Let ramdisks run on between two verbs, and use one that runs instead of a reboot to "
        "clean, deploy and inspect. A node's driver_info/fast_track decides for that node.",
    ),
    _seconds(
        "fast_track_timeout",
        300,
        "For how many seconds after its last heartbeat an agent counts as running.",
        least=1,
    ),
    cfg.BoolOpt(
        "power_off_after_deploy_failure",
        default=True,
        help="Power a machine off when its deployment has failed or was aborted, once the logs of "
        "its ramdisk are kept. A node's disable_power_off goes before this.",
    ),
    *(
        cfg.IntOpt(
            f"{name}_priority",
            min=0,
            help=f"Priority of the clean step {step} in automated cleaning; 0 leaves it out. "
            "Unset, the driver decides.",
        )
        for name, step in (
            ("erase_devices", "deploy.erase_devices"),
            ("erase_devices_metadata", "deploy.erase_devices_metadata"),
            ("create_configuration", "raid.create_configuration"),
            ("delete_configuration", "raid.delete_configuration"),
        )
    ),
    cfg.IntOpt(
        "shred_random_overwrite_iterations",
        default=1,
        min=0,
        help="How often a disk that cannot erase itself is overwritten with random data.",
    ),
    cfg.BoolOpt(
        "shred_final_overwrite_with_zeros",
        default=True,
        help="Overwrite such a disk with zeros at the end.",
    ),
    cfg.BoolOpt(
        "continue_if_disk_secure_erase_fails",
        default=False,
        help="Overwrite a disk whose own erasure has failed, instead of failing the step.",
    ),
    cfg.BoolOpt(
        "enable_ata_secure_erase",
        default=True,
        help="Let ATA disks erase themselves.",
    ),
    cfg.BoolOpt(
        "enable_nvme_secure_erase",
        default=True,
        help="Let NVMe disks erase themselves.",
    ),
    cfg.IntOpt(
        "disk_erasure_concurrency",
        default=4,
        min=1,
        help="How many disks of a machine are erased at once.",
    ),
    cfg.BoolOpt(
        "erase_skip_read_only",
        default=False,
        help="Leave disks out that can only be read, instead of failing the step.",
    ),
    cfg.StrOpt(
        "default_boot_mode",
        default="uefi",
        choices=["bios", "uefi"],
        help="How machines boot whose capabilities do not say so in boot_mode.",
    ),
    cfg.StrOpt(
        "http_root",
        sample_default="/var/lib/ironic-lite/http",
        help="Folder of the files that machines and BMCs fetch by HTTP. Unset, http in state_path. "
        "A web server other than the conductor's own must be able to read it.",
    ),
    cfg.URIOpt(
        "http_url",
        schemes=["http", "https"],
        sample_default="http://192.0.2.10:8080",
        help="Where machines and BMCs find http_root. Unset, http_host and http_port.",
    ),
    cfg.URIOpt(
        "external_http_url",
        schemes=["http", "https"],
        help="Where BMCs find http_root, if not under http_url. A node's "
        "driver_info/external_http_url decides for that node.",
    ),
    cfg.PortOpt(
        "http_port",
        help="Port on which the conductor serves http_root itself. Unset, it does not, and another "
        "web server is to.",
    ),
    cfg.HostAddressOpt(
        "http_host",
        default="127.0.0.1",
        help="Address for that. Media hold the secrets of the ramdisks booted from them: it should "
        "be one of the network of BMCs and machines, which nobody else reaches.",
    ),
    cfg.StrOpt(
        "http_ssl_cert_file",
        help="PEM file with the certificate chain for that; with http_ssl_key_file the files are "
        "served by https only. BMCs and agents must trust it.",
    ),
    cfg.StrOpt("http_ssl_key_file", help="PEM file with the private key of http_ssl_cert_file."),
    cfg.IntOpt(
        "http_connections",
        default=64,
        min=1,
        help="Files that are served at once; further requests wait.",
    ),
    cfg.IntOpt(
        "iso_cache_size",
        default=20480,
        min=0,
        help="MiB that boot media may take from which those of nodes are made; one is kept for "
        "each kernel, ramdisk and bootloader. What was used longest ago goes first.",
    ),
)

SERVICE_CATALOG = (
    cfg.URIOpt(
        "endpoint_override",
        schemes=["http", "https"],
        sample_default="http://192.0.2.10:6385",
        help="Where the agents in ramdisks find the API. Unset, [api]public_endpoint.",
    ),
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
        help="Address of the TFTP server. Unset, the host of [deploy]http_url.",
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
)

DHCP = (
    cfg.StrOpt(
        "dhcp_provider",
        default="none",
        choices=[
            ("none", "a DHCP server that leads every machine to the same loader"),
            ("dnsmasq", "files for dnsmasq, one per card: it answers no machines but ours"),
        ],
        help="Who tells machines what to boot.",
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

AGENT = (
    cfg.BoolOpt(
        "require_tls",
        default=True,
        help="Refuse heartbeats of agents whose callback URL is not https.",
    ),
    cfg.StrOpt(
        "tls_minimum_version",
        default="1.3",
        choices=["1.2", "1.3"],
        help="The oldest version of TLS that is spoken with agents.",
    ),
    _seconds(
        "command_timeout",
        60,
        "Seconds within which an agent must have answered a request.",
        least=1,
    ),
    cfg.IntOpt(
        "max_command_attempts",
        default=3,
        min=1,
        max=100,
        help="How often an agent that does not answer is asked.",
    ),
    cfg.StrOpt(
        "image_download_source",
        default="http",
        choices=["http", "local"],
        help="Who fetches the images of instances: their machines (http), or the conductor, which "
        "serves them from [deploy]http_root (local). instance_info/image_download_source decides "
        "for a node; images of file:// are always served.",
    ),
    cfg.BoolOpt(
        "stream_raw_images",
        default=True,
        help="Have agents write raw images while they arrive, instead of keeping them in memory.",
    ),
    cfg.BoolOpt(
        "allow_md5_checksum",
        default=False,
        help="Take md5 checksums of images, which can be forged.",
    ),
    cfg.StrOpt(
        "api_ca_file",
        help="A PEM file of authorities: agents that boot from virtual media believe them, and no "
        "others, when they speak https with the API and with the servers of images.",
    ),
    cfg.BoolOpt(
        "enable_bios_bootloader_install",
        default=False,
        help="Take partition images, and have agents make them boot. An agent runs the image's own "
        "grub-install for that, unless it finds an EFI boot loader in it: whoever made the image "
        "may run programs in the ramdisk (CVE-2026-43003). Whole-disk images need none of this.",
    ),
    cfg.StrOpt(
        "deploy_logs_collect",
        default="on_failure",
        choices=["always", "on_failure", "never"],
        help="When the logs of a ramdisk are fetched and kept: at the end of each cleaning, "
        "deployment and servicing, or if it fails, or never.",
    ),
    cfg.StrOpt(
        "deploy_logs_storage_backend",
        default="local",
        choices=["local"],
        help="Where they are kept: local is deploy_logs_local_path of the conductor.",
    ),
    cfg.StrOpt(
        "deploy_logs_local_path",
        help="The folder for them; unset, agent-logs in state_path. They are removed by you: see "
        "docs/agent.",
    ),
)

FAKE = (
    cfg.FloatOpt(
        "step_seconds",
        default=0,
        min=0,
        help="How long a step takes on fake-hardware. A node's driver_info/fake_step_seconds "
        "decides for that node.",
    ),
)

IPMI = (
    _seconds(
        "command_retry_timeout",
        60,
        "Seconds a command to a BMC may take, with all its repetitions; then ipmitool is killed.",
        least=5,
    ),
    _seconds(
        "min_command_interval",
        5,
        "Seconds for which a BMC is left alone after it said that it is busy. Commands that went "
        "well follow each other at once.",
        least=1,
    ),
    cfg.IntOpt(
        "max_processes",
        default=64,
        min=1,
        help="Processes of ipmitool a conductor runs at once. A BMC that does not answer keeps one "
        "busy for 12 seconds.",
    ),
    cfg.BoolOpt(
        "disable_boot_timeout",
        default=True,
        help="Tell BMCs to keep a boot device for longer than the minute that IPMI gives it. A "
        "node's driver_info/ipmi_disable_boot_timeout decides for that node.",
    ),
    cfg.ListOpt(
        "cipher_suite_versions",
        default=[],
        item_type=types.Integer(min=0, max=17),
        sample_default=["3", "17"],
        help="Cipher suites to try on nodes without driver_info/ipmi_cipher_suite, the last one "
        "first. Unset, ipmitool asks the BMC for its best.",
    ),
    cfg.ListOpt(
        "additional_retryable_ipmi_errors",
        default=[],
        help="Further words of ipmitool's errors after which a command is sent again.",
    ),
)

CONSOLE = (
    cfg.IPOpt(
        "socat_address",
        default="127.0.0.1",
        help="IP address of this conductor's machine at which consoles are reached by TCP. Nobody "
        "who reaches it is asked for a password: leave it on loopback, or on a network of those "
        "alone who may see every console.",
    ),
    cfg.MultiOpt(
        "port_range",
        item_type=PortRange(),
        sample_default=["10000:19999"],
        help="TCP ports, the first and the last, for consoles of nodes without "
        "driver_info/ipmi_terminal_port. May be given several times. Unset, those have none.",
    ),
    _seconds(
        "terminal_timeout",
        600,
        "Seconds without a byte in either direction after which a console's connection is ended; 0 "
        "leaves it.",
    ),
    _seconds(
        "subprocess_timeout",
        10,
        "Seconds a console's program has to begin to listen; then it is killed.",
        least=1,
    ),
    _seconds(
        "subprocess_checking_interval",
        1,
        "Seconds between two looks whether the programs of consoles still run, and whether "
        "conductors came or went.",
        least=1,
    ),
)

REDFISH = (
    cfg.StrOpt(
        "kernel_append_params",
        default="nofb vga=normal",
        help="Further kernel parameters of ramdisks that are booted from virtual media. A node's "
        "driver_info/kernel_append_params decides for that node.",
    ),
    cfg.StrOpt(
        "auth_type",
        default="auto",
        choices=[
            ("auto", "session, and basic if the BMC knows no sessions"),
            ("session", "a session of the Redfish session service"),
            ("basic", "user and password with each request"),
        ],
        help="How to log in to BMCs. A node's driver_info/redfish_auth_type decides for that node.",
    ),
    cfg.IntOpt(
        "connection_attempts",
        default=3,
        min=1,
        help="How often a connection to a BMC is tried before it counts as unreachable.",
    ),
    _seconds("connection_retry_interval", 2, "Seconds between two such tries."),
    _seconds("connect_timeout", 10, "Seconds connecting to a BMC may take.", least=1),
    _seconds("read_timeout", 60, "Seconds a BMC may take to answer a request.", least=1),
    cfg.IntOpt(
        "connection_cache_size",
        default=10000,
        min=0,
        help="Sessions with BMCs kept open, 13 KiB each; 0 opens one for each task. With fewer "
        "than there are BMCs, some readings of the power state are logins.",
    ),
    _seconds(
        "raid_config_status_interval",
        60,
        "Longest pause in seconds between two looks at a task that creates or deletes a volume.",
    ),
    _seconds(
        "raid_config_timeout",
        14400,
        "Seconds a step may take to create or delete all its volumes, a restart of the machine "
        "included.",
        least=1,
    ),
    _seconds(
        "bmc_silence_timeout",
        900,
        "Seconds a BMC that creates or deletes volumes may give no usable answer: a BMC that "
        "starts anew takes one to five minutes, and may refuse logins on the way.",
        least=1,
    ),
    _seconds(
        "bios_config_timeout",
        1800,
        "Seconds a machine that was restarted for BIOS settings may take until it is up and shows "
        "them: it may test all its memory, and boot two or three times.",
        least=1,
    ),
    _seconds(
        "bios_config_status_interval",
        15,
        "Seconds between two looks at a machine that was restarted for BIOS settings.",
        least=1,
    ),
    _seconds(
        "boot_mode_config_timeout",
        900,
        "Seconds a machine that was restarted for a new boot mode or secure boot may take until "
        "its BMC shows it; 0 does not wait.",
    ),
    _seconds(
        "firmware_update_status_interval",
        60,
        "Seconds between two looks at an update of firmware.",
        least=1,
    ),
    _seconds(
        "firmware_update_overall_timeout",
        7200,
        "Seconds all updates of one step may take together; 0 does not bound them.",
    ),
    _seconds(
        "firmware_update_bmc_timeout",
        300,
        "Seconds a BMC may be silent during an update of firmware, and after its own may show the "
        "version it had before.",
    ),
    _seconds(
        "firmware_update_wait_unresponsive_bmc",
        0,
        "Seconds a BMC may be silent during an update of firmware, if that is more than "
        "firmware_update_bmc_timeout. A node's driver_info/firmware_update_unresponsive_bmc_wait "
        "decides for that node.",
    ),
    _seconds(
        "firmware_update_bmc_version_check_interval",
        30,
        "Seconds between two looks whether a BMC shows its new version.",
        least=1,
    ),
    _seconds(
        "firmware_update_reboot_delay",
        300,
        "Seconds a machine that was restarted for new firmware may show the version it had before.",
    ),
    _seconds(
        "firmware_update_nic_starting_wait",
        30,
        "Seconds the update of a network card may take to start by itself; then the machine is "
        "restarted for it.",
    ),
    cfg.IntOpt(
        "firmware_update_required_successes",
        default=3,
        min=0,
        help="How often in a row a BMC must answer after an update of firmware; 0 does not ask.",
    ),
    _seconds(
        "firmware_update_validation_interval", 30, "Seconds between two such questions.", least=1
    ),
    _seconds(
        "firmware_update_resource_validation_timeout",
        480,
        "Seconds within which a BMC must have answered so often; 0 does not ask.",
    ),
    cfg.Opt(
        "inspection_hooks",
        type=types.List(types.String(choices=HOOKS)),
        default=["validate-interfaces", "ports", "architecture"],
        help="What the inspect interface redfish makes of the inventory, in this order. One that "
        "needs another brings it along.",
    ),
)

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
        type=types.List(types.String(choices=HOOKS)),
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
        item_type=PciAlias(),
        sample_default=['{"vendor_id": "10de", "product_id": "2330", "name": "h100"}'],
        help="A capability that the hook pci-devices gives nodes: how many of these devices they "
        "have. May be given several times.",
    ),
)

LOCAL = (
    cfg.IntOpt(
        "frame_limit_mib",
        default=72,
        min=1,
        max=4095,
        help="Largest message between API and conductor, in MiB. A provision request may carry a "
        "config drive of 64 MiB; a request that is larger than this is refused with status 413.",
    ),
)

# -- put together ----------------------------------------------------------------------------

# -- [sensor_data] ---------------------------------------------------------------------------

SENSOR_DATA = (
    cfg.BoolOpt(
        "send_sensor_data",
        default=False,
        help="Read the sensors of machines from time to time, and send what they say as "
        "notifications. [oslo_messaging_notifications]driver must be set, too.",
    ),
    _seconds("interval", 600, "Seconds between two rounds.", least=1),
    cfg.IntOpt(
        "workers", default=4, min=1, max=256, help="Machines whose sensors are read at once."
    ),
    _seconds(
        "wait_timeout",
        300,
        "Seconds a round may take; the next one goes on with the machines that are left. 0: no "
        "limit.",
    ),
    cfg.BoolOpt(
        "enable_for_undeployed_nodes",
        default=False,
        help="Read the sensors of machines without an instance, too.",
    ),
    cfg.ListOpt(
        "data_types",
        default=["ALL"],
        help="Which types of sensors are told of, such as Temperature, Fan, Power; ALL for all.",
    ),
)

# -- [healthcheck], [metrics] ----------------------------------------------------------------

HEALTHCHECK = (
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Answer GET /healthcheck with 200, before any login, as other OpenStack services do. "
        "/livez and /readyz answer always.",
    ),
    cfg.StrOpt(
        "disable_by_file_path",
        help="While this file is there, /healthcheck answers 503: a load balancer then sends its "
        "clients elsewhere.",
    ),
)
METRICS = (
    cfg.BoolOpt(
        "enabled",
        default=True,
        help="Answer GET /metrics with what Prometheus reads.",
    ),
    cfg.BoolOpt(
        "public",
        default=False,
        help="Answer /metrics to anybody who reaches the API, instead of those only whom "
        "[api]auth_strategy lets in.",
    ),
)

GROUPS: Mapping[str, Sequence[cfg.Opt]] = {
    "DEFAULT": (*DEFAULT, *INTERFACES),
    "api": API,
    "database": DATABASE,
    "conductor": CONDUCTOR,
    "deploy": DEPLOY,
    "service_catalog": SERVICE_CATALOG,
    "pxe": PXE,
    "dhcp": DHCP,
    "dnsmasq": DNSMASQ,
    "agent": AGENT,
    "fake": FAKE,
    "ipmi": IPMI,
    "console": CONSOLE,
    "redfish": REDFISH,
    "inspector": INSPECTOR,
    "pci_devices": PCI_DEVICES,
    "sensor_data": SENSOR_DATA,
    "oslo_messaging_local": LOCAL,
    "healthcheck": HEALTHCHECK,
    "metrics": METRICS,
}
"""What `config.register` registers: options by group."""

LIBRARY: Sequence[cfg.Opt] = (
    cfg.StrOpt(
        "transport_url",
        secret=True,
        sample_default="local://",
        help="Where the processes meet. local:// is unix sockets in state_path, for one machine; "
        "rabbit://user:password@host:5672/vhost is for several.",
    ),
    _seconds("rpc_response_timeout", 60, "Seconds the API waits for an answer of a conductor."),
    cfg.BoolOpt("debug", default=False, help="Log at level DEBUG instead of INFO."),
    cfg.StrOpt("log_file", help="Log to this file instead of standard error."),
    cfg.StrOpt("log_dir", help="Folder of log_file, or of one log file per process."),
    cfg.BoolOpt("use_json", default=False, help="Log one JSON object per line."),
    cfg.StrOpt(
        "logging_context_format_string",
        sample_default="%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s "
        "[%(request_id)s] %(message)s",
        help="The form of log lines that are written for a request.",
    ),
)
"""Options of oslo.messaging and oslo.log most operators meet: documented here, registered there."""

LIBRARY_NOTIFICATIONS: Sequence[cfg.Opt] = (
    cfg.MultiStrOpt(
        "driver",
        default=[],
        sample_default=["messagingv2"],
        help="How notifications are sent: messagingv2 to a broker or over local://, log to the "
        "log, noop nowhere. May be given several times. Unset, none are sent.",
    ),
    cfg.StrOpt(
        "transport_url",
        secret=True,
        help="Where notifications are sent to. Unset, [DEFAULT]transport_url.",
    ),
    cfg.IntOpt(
        "retry",
        default=-1,
        help="How often a broker that is away is tried again before a notification is lost; -1 "
        "tries for ever, while further ones wait.",
    ),
)
"""The same, of oslo.messaging's group [oslo_messaging_notifications]."""
