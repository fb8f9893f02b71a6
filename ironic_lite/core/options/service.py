"""Options of the whole service: [DEFAULT], the database, messages and what monitors it."""

from __future__ import annotations

import os
import pathlib
import socket
from typing import Protocol

from oslo_config import cfg, types

from ironic_lite.core.options.declare import (
    Group,
    IPNetwork,
    ciphers,
    contacts,
    items,
    number,
    option,
    seconds,
    switch,
    text,
)


def _state_path() -> str:
    """Return the default state path: the system's for root, else in the user's home."""
    if os.geteuid() == 0:
        return "/var/lib/ironic-lite"
    base = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state"
    return str(pathlib.Path(base) / "ironic-lite")


def _enabled(kind: str, *names: str) -> list[str]:
    return items(
        list(names),
        f"The {kind} interfaces this conductor loads: values of a node's {kind}_interface field.",
    )


def _preferred(kind: str) -> str | None:
    return text(
        None,
        f"The {kind} interface of nodes that name none. Unset, the hardware type's first choice "
        "among the enabled ones.",
    )


class DefaultOptions(Group, Protocol):
    """Options of [DEFAULT]."""

    http_basic_auth_user_file: str = text(
        "/etc/ironic-lite/htpasswd",
        "Users and bcrypt hashes of their passwords, as 'htpasswd -B' writes them, for "
        "[api]auth_strategy = http_basic. Read again when it has changed.",
    )
    rbac_service_role_elevated_access: bool = switch(
        False,
        "With keystone, let the role service in the project rbac_service_project_name act like a "
        "token of system scope.",
    )
    rbac_service_project_name: str = text(
        "service", "Name of the project of services, see rbac_service_role_elevated_access."
    )
    broker_message_limit_mib: int = number(
        16,
        "Largest message that the broker behind transport_url accepts, in MiB: max_message_size of "
        "RabbitMQ, which is 16 MiB from version 4 on, and 128 before. A larger request, such as "
        "one with a config drive or the logs of a ramdisk, is refused with status 413. No effect "
        "on local://, see frame_limit_mib.",
        min=1,
        max=512,
    )
    state_path: str = text(
        _state_path(),
        "Folder of the SQLite file and the RPC sockets, unless [database]connection and "
        "transport_url say otherwise. A user other than root gets $XDG_STATE_HOME/ironic-lite or "
        "~/.local/state/ironic-lite.",
        sample_default="/var/lib/ironic-lite",
    )
    my_ip: str | None = text(
        None,
        "IPv4 address of this machine, for $my_ip in other options; also the default of "
        "[pxe]tftp_server.",
        sample_default="192.0.2.10",
    )
    my_ipv6: str | None = text(None, "IPv6 address of this machine, for $my_ipv6 in other options.")
    host: str = text(
        socket.gethostname(),
        "Name of this conductor: the holder shown in a node's reservation and in /v1/conductors. "
        "It must be unique, and stay the same over restarts. Unset, the name of this machine. A "
        "colon and a number from 2 to 99 end the names that [conductor]processes makes.",
        sample_default="conductor-1",
        max_length=255,
        regex=r"^[A-Za-z0-9][A-Za-z0-9._-]*(:([2-9]|[1-9][0-9]))?$",
    )
    pin_release_version: str | None = text(
        None,
        "During the upgrade of a service on several machines: the release that some conductors "
        "still have. The API then uses no RPC method that this release does not support. Unset, "
        "all have this release.",
        sample_default="0.1",
    )
    default_portgroup_mode: str = text(
        "active-backup", "Mode of portgroups that are created without one: a bonding mode of Linux."
    )
    default_resource_class: str | None = text(
        None,
        "Resource class of nodes that are enrolled without one. Unset, they have none.",
        max_length=80,
    )
    default_conductor_group: str = text(
        "",
        "Conductor group of nodes that are enrolled without one; a conductor of that group must be "
        "alive then.",
        max_length=255,
        regex=r"^[A-Za-z0-9_.-]*$",
    )
    enabled_hardware_types: list[str] = items(
        ["ipmi", "redfish", "fake-hardware"],
        "Hardware types this conductor drives: values of a node's driver field.",
    )
    notification_level: str | None = text(
        None,
        "Send notifications of this level and above. Unset, none are sent. "
        "[oslo_messaging_notifications]driver must be set, too.",
        choices=["debug", "info", "warning", "error", "critical"],
    )
    versioned_notifications_topics: list[str] = items(
        ["ironic_versioned_notifications"],
        "Topics the notifications are sent to; each gets all of them.",
    )
    grub_config_path: str = text(
        "EFI/BOOT/grub.cfg",
        "Where the boot loader in a bootloader image looks for its configuration, from the top of "
        "the medium. boot/grub/grub.cfg is always there, too.",
    )
    isolinux_bin: str = text(
        "/usr/lib/ISOLINUX/isolinux.bin",
        "The file isolinux.bin, with which virtual media start machines in BIOS mode.",
    )
    ldlinux_c32: str = text(
        "/usr/lib/syslinux/modules/bios/ldlinux.c32",
        "The file ldlinux.c32 of the same release as isolinux_bin.",
    )
    webserver_verify_ca: str = text(
        "True",
        "Trusted certificates of the https servers that images, kernels and ramdisks are fetched "
        "from, or that inspection rules call: True for the authorities that requests brings, a PEM "
        "file for those in it, False for all certificates. Agents fetch images directly and have "
        "their own list.",
    )
    webserver_tls_minimum_version: str = text(
        "1.2", "The oldest TLS version accepted from these servers.", choices=["1.2", "1.3"]
    )
    webserver_tls_ciphers: str | None = ciphers("these servers")

    # Two for each of `KINDS`.
    enabled_bios_interfaces: list[str] = _enabled("bios", "no-bios", "redfish", "fake")
    default_bios_interface: str | None = _preferred("bios")
    enabled_boot_interfaces: list[str] = _enabled(
        "boot", "ipxe", "pxe", "redfish-virtual-media", "fake"
    )
    default_boot_interface: str | None = _preferred("boot")
    enabled_console_interfaces: list[str] = _enabled("console", "no-console", "fake")
    default_console_interface: str | None = _preferred("console")
    enabled_deploy_interfaces: list[str] = _enabled(
        "deploy", "autodetect", "direct", "ramdisk", "custom-agent", "fake"
    )
    default_deploy_interface: str | None = _preferred("deploy")
    autodetect_deploy_interfaces: list[str] = items(
        ["ramdisk", "direct"],
        "What the deploy interface autodetect chooses from, which is ramdisk for a ramdisk "
        "instance, else the last one. Each must be enabled.",
    )
    enabled_firmware_interfaces: list[str] = _enabled("firmware", "no-firmware", "redfish", "fake")
    default_firmware_interface: str | None = _preferred("firmware")
    enabled_inspect_interfaces: list[str] = _enabled(
        "inspect", "no-inspect", "redfish", "agent", "fake"
    )
    default_inspect_interface: str | None = _preferred("inspect")
    enabled_management_interfaces: list[str] = _enabled(
        "management", "ipmitool", "redfish", "noop", "fake"
    )
    default_management_interface: str | None = _preferred("management")
    enabled_network_interfaces: list[str] = _enabled("network", "noop")
    default_network_interface: str | None = _preferred("network")
    enabled_power_interfaces: list[str] = _enabled("power", "ipmitool", "redfish", "fake")
    default_power_interface: str | None = _preferred("power")
    enabled_raid_interfaces: list[str] = _enabled("raid", "no-raid", "agent", "redfish", "fake")
    default_raid_interface: str | None = _preferred("raid")
    enabled_rescue_interfaces: list[str] = _enabled("rescue", "no-rescue", "agent", "fake")
    default_rescue_interface: str | None = _preferred("rescue")
    enabled_storage_interfaces: list[str] = _enabled("storage", "noop")
    default_storage_interface: str | None = _preferred("storage")
    enabled_vendor_interfaces: list[str] = _enabled(
        "vendor", "ipmitool", "redfish", "no-vendor", "fake"
    )
    default_vendor_interface: str | None = _preferred("vendor")


class LibraryOptions(Group, Protocol):
    """Common options of oslo.messaging and oslo.log in [DEFAULT]: only documented here."""

    transport_url: str | None = text(
        None,
        "URL of the RPC transport. local:// is unix sockets in state_path, for one machine; "
        "direct:// is TCP with TLS between several, see [direct]; "
        "rabbit://user:password@host:5672/vhost is a broker for several.",
        secret=True,
        sample_default="local://",
    )
    rpc_response_timeout: int = seconds(60, "Seconds the API waits for an answer of a conductor.")
    debug: bool = switch(False, "Log at level DEBUG instead of INFO.")
    log_file: str | None = text(None, "Log to this file instead of standard error.")
    log_dir: str | None = text(None, "Folder of log_file, or of one log file per process.")
    use_json: bool = switch(False, "Log one JSON object per line.")
    logging_context_format_string: str | None = text(
        None,
        "The form of log lines that are written for a request.",
        sample_default="%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s "
        "[%(request_id)s %(user_name)s] %(message)s",
    )


class NotificationsOptions(Group):
    """The same for oslo.messaging's group [oslo_messaging_notifications]."""

    driver: list[str] = option(
        cfg.MultiStrOpt,
        [],
        "How notifications are sent: messagingv2 to a broker or over local://, log to the log, "
        "noop nowhere. May be given several times. Unset, none are sent.",
        sample_default=["messagingv2"],
    )
    transport_url: str | None = text(
        None,
        "URL of the notifications' transport. Unset, [DEFAULT]transport_url, unless that is "
        "direct://, which carries no notifications.",
        secret=True,
    )
    retry: int = number(
        -1,
        "How many times a notification is sent to an unreachable broker before it is lost; -1 "
        "retries for ever, while further notifications wait.",
    )


class DatabaseOptions(Group):
    """Options of [database]: its URL, its connections, encryption."""

    connection: str | None = text(
        None,
        "SQLAlchemy URL: sqlite:////path/file, postgresql+psycopg://user:password@host/name or "
        "mysql+pymysql://user:password@host/name. Unset, ironic-lite.sqlite in state_path.",
        secret=True,
    )
    encryption_keys: list[str] = items(
        [],
        "Fernet keys. The first encrypts secret values in the database, and all decrypt. 'none' as "
        "the first leaves new values as they are. Before a key becomes the first, every process "
        "must have it at a later place; 'ironic-lite-dbsync reencrypt' rewrites the rest. A key is "
        "32 random bytes in URL-safe base64.",
        secret=True,
    )
    max_pool_size: int = number(10, "Connections a process keeps open.", min=1)
    max_overflow: int = number(
        50, "Connections a process opens beyond max_pool_size while it is busy.", min=0
    )
    pool_timeout: int = seconds(30, "Seconds a thread waits for a connection.", least=1)
    connection_recycle_time: int = seconds(
        3600, "Seconds after which a connection is renewed.", least=1
    )
    connect_timeout: int = seconds(10, "Seconds that connecting may take.", least=1)
    statement_timeout: int = seconds(
        30, "Seconds one statement may take on PostgreSQL and MariaDB.", least=1
    )
    sqlite_busy_timeout: int = seconds(
        10, "Seconds a writer of SQLite waits for the writer before it.", least=1
    )


class LocalOptions(Group):
    """Options of [oslo_messaging_local]."""

    frame_limit_mib: int = number(
        72,
        "Largest message between API and conductor, in MiB. A provision request may carry a config "
        "drive of 64 MiB; a request that is larger than this is refused with status 413.",
        min=1,
        max=4095,
    )


class DirectOptions(Group):
    """Options of [direct]: TLS between machines without a broker."""

    cert_file: str | None = text(
        None,
        "PEM file with the certificate of this machine for transport_url = direct://, and those of "
        "intermediate authorities. A conductor's certificate has its [DEFAULT]host as subject "
        "alternative name. A changed file is read for new connections.",
        sample_default="/etc/ironic-lite/rpc.pem",
    )
    key_file: str | None = text(
        None,
        "PEM file with the key of cert_file, without a password.",
        sample_default="/etc/ironic-lite/rpc.key",
    )
    ca_file: str | None = text(
        None,
        "PEM file with the authority that signs the certificates of all machines of the service, "
        "and nothing else: each of its certificates allows calls of all conductors.",
        sample_default="/etc/ironic-lite/rpc-ca.pem",
    )
    bind_host: str = text(
        "0.0.0.0",
        "Address on which a conductor listens; :: is all addresses of IPv6 and IPv4. Clients "
        "connect to its [DEFAULT]host.",
    )
    port: int = option(
        cfg.PortOpt,
        6386,
        "TCP port of each conductor; the same on all machines. The further processes of "
        "[conductor]processes use the following ports.",
        min=1,
        max=65535 - 99,
    )
    connect_timeout: int = seconds(
        5,
        "Seconds in which an address of a conductor must accept a connection, and the conductor "
        "must complete the handshake. After them another conductor is called.",
        least=1,
    )
    silence_timeout: int = seconds(
        10,
        "Seconds without an acknowledgement after which the machine at the other end of a "
        "connection counts as dead.",
        least=3,
    )


class SensorDataOptions(Group):
    """Options of [sensor_data]."""

    send_sensor_data: bool = switch(
        False,
        "Read the sensors of machines periodically, and send the values as notifications. "
        "[oslo_messaging_notifications]driver must be set, too.",
        deprecated_group="conductor",
    )
    interval: int = seconds(
        600,
        "Seconds between two rounds.",
        least=1,
        old=[("conductor", "send_sensor_data_interval")],
    )
    workers: int = number(4, "Machines whose sensors are read at once.", min=1, max=256)
    wait_timeout: int = seconds(
        300,
        "Seconds a round may take; the next one continues with the remaining machines. 0: no "
        "limit.",
    )
    enable_for_undeployed_nodes: bool = switch(
        False,
        "Read the sensors of machines without an instance, too.",
        old=[("conductor", "send_sensor_data_for_undeployed_nodes")],
    )
    data_types: list[str] = items(
        ["ALL"], "Types of sensors to report, such as Temperature, Fan, Power; ALL for all."
    )


class HealthcheckOptions(Group):
    """Options of [healthcheck]."""

    enabled: bool = switch(
        False,
        "Answer GET /healthcheck with 200, without a login, as other OpenStack services do. /livez "
        "and /readyz always answer.",
    )
    disable_by_file_path: str | None = text(
        None,
        "While this file exists, /healthcheck answers 503, so that a load balancer uses other "
        "servers.",
    )


class MetricsOptions(Group):
    """Options of [metrics]."""

    enabled: bool = switch(True, "Answer GET /metrics in the format of Prometheus.")
    public: bool = switch(
        False,
        "Answer /metrics to every client that reaches the API, without the login of "
        "[api]auth_strategy.",
    )


FEATURES = (
    *("batches", "webhooks", "why", "statistics", "window", "doctor", "events", "erasures"),
    *("search", "attention", "move_in"),
)
"""Folders of ``features``."""


class FeaturesOptions(Group):
    """Options of [features]."""

    enabled: list[str] = items(
        list(FEATURES),
        "Features beyond Ironic that are on. Paths of the others answer 404, and their rows stay "
        "in the database. Empty: none. docs/features.rst says what each one is.",
        item_type=types.String(choices=FEATURES),
    )


class WebhooksOptions(Group):
    """Options of [webhooks]."""

    enabled: bool = switch(True, "Deliver events to webhooks.")
    blocked_networks: list[str] = items(
        [],
        "Networks to which no webhook is delivered, besides loopback, link-local, multicast and "
        "metadata addresses. Networks of BMCs belong here.",
        item_type=IPNetwork(),
    )
    allowed_networks: list[str] = contacts("receivers of webhooks")
    allow_http: bool = switch(
        False, "Accept webhooks whose URL is http. Their events can be read on the way."
    )
