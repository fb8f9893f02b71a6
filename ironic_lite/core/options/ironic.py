"""Verdicts on the options and driver names of Ironic 39 that this service does not have.

Options of ours, whose names may be Ironic's, are declared elsewhere: `config.verdicts` judges them.
The rows of one note stand together. An option without a row, in a group with one, has the row of
the group.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

# Verdicts.


class OptionVerdict(enum.StrEnum):
    """The result of an option in a configuration file of Ironic."""

    KEPT = "kept"
    """It has this name here."""
    RENAMED = "renamed"
    """It has another name here, and takes effect."""
    FIXED = "fixed"
    """Its value is what this service does anyway."""
    IGNORED = "ignored"
    """It has no effect."""
    REFUSED = "refused"
    """It stops the start, because its loss would be a danger, or its value is wrong."""


class OptionRow(NamedTuple):
    """The rule for an option that this service does not have.

    :ivar note: what does its job here, or what to do.
    :ivar harmless: returns whether a value, in lower case, loses nothing.
    :ivar stops: True if other values stop the start; False if they are a loss for the operator.
    """

    note: str
    harmless: Callable[[str], bool]
    stops: bool = False

    def judge(self, value: str) -> tuple[OptionVerdict, bool]:
        """Return the verdict on a value, and whether the operator loses something."""
        harmless = self.harmless(value.strip().lower())
        if self.stops:
            return (OptionVerdict.FIXED, False) if harmless else (OptionVerdict.REFUSED, True)
        return OptionVerdict.IGNORED, not harmless


def row_of(group: str, name: str) -> OptionRow | None:
    """Return the row of an option of Ironic; None for one of ours, or unknown."""
    return OPTIONS.get((group, name)) or GROUPS.get(group)


# Values.

_OFF = frozenset({"", "false", "no", "off", "0", "[]"})
_ON = frozenset({"true", "yes", "on", "1"})


def _one_of(*values: str) -> Callable[[str], bool]:
    return frozenset(values).__contains__


def _any(_value: str) -> bool:
    return True


def _never(_value: str) -> bool:
    return False


_is_off = _OFF.__contains__
_is_on = _ON.__contains__
_is_unset = _one_of("", "[]")

# Options, by group.


def _rows(
    group: str,
    names: str,
    note: str,
    harmless: Callable[[str], bool] = _any,
    *,
    stops: bool = False,
) -> Iterator[tuple[tuple[str, str], OptionRow]]:
    row = OptionRow(note, harmless, stops)
    return (((group, name), row) for name in names.split())


_LOGIN = (
    "auth_plugin auth_section auth_type auth_url cafile certfile collect_timing connect_retries "
    "connect_retry_delay default_domain_id default_domain_name domain_id domain_name insecure "
    "keyfile max_version min_version password project_domain_id project_domain_name project_id "
    "project_name region_name retriable_status_codes service_name service_type split_loggers "
    "status_code_retries status_code_retry_delay system_scope tenant_id tenant_name timeout "
    "tls_ciphers tls_min_version trust_id user_domain_id user_domain_name user_id user_name "
    "username valid_interfaces version"
)
_CIPHERS = "TLS ciphers cannot be chosen; server_tls_minimum_version = 1.3 leaves three"
_NO_SWIFT = "there is no object store: remove it, files are served from [deploy]http_root"
_BY_SERVICE = "the service makes boot scripts and media itself"
_CACHE = "images are kept below [DEFAULT]state_path, see [conductor]image_cache_size"
_LIMITS = "[conductor] and [deploy] have limits of their own"
_HISTORY = "runs and events are always kept, see [conductor]node_history_max_entries"
_POLLED = "the service waits for events and checks by itself"
_METRICS = "GET /metrics has the figures"
_JSON_RPC = (
    "use transport_url = direct://: conductors and APIs of several machines then talk over TLS "
    "without a broker. See docs/rpc.rst"
)
_REQUESTS = "bodies have a limit of their own, see docs/api.rst"
_DOWNLOADS = "downloads have limits of their own, see docs/images.rst"
_NOVA = "Nova is not told of power changes"
_BMC = "the Redfish driver has limits of its own"
_NO_NETWORKS = "the service connects no ports to networks; remove it"

_ROWS = (
    # [DEFAULT]
    _rows("DEFAULT", "rpc_transport", _JSON_RPC, _one_of("oslo", "none"), stops=True),
    _rows(
        "DEFAULT",
        "force_raw_images",
        "the agent converts images; give raw ones where the memory of machines is small",
        _is_off,
    ),
    _rows(
        "DEFAULT",
        "hash_partition_exponent hash_ring_algorithm",
        "nodes are spread over conductors by a hash of their UUIDs",
    ),
    _rows("DEFAULT", "isolinux_config_template grub_config_template esp_image", _BY_SERVICE),
    _rows(
        "DEFAULT",
        "raw_image_growth_factor parallel_image_downloads image_download_concurrency "
        "webserver_connection_timeout webserver_verify_timeout allow_image_access_via_auth_token",
        _DOWNLOADS,
    ),
    _rows(
        "DEFAULT",
        "minimum_memory_warning_only minimum_required_memory minimum_memory_wait_time "
        "minimum_memory_wait_retries",
        "the memory of each operation has a limit, so none waits for memory",
    ),
    _rows("DEFAULT", "tempdir pybasedir bindir", "all files are below [DEFAULT]state_path"),
    _rows(
        "DEFAULT",
        "log_in_db_max_size ignore_project_check_for_admin_tasks debug_tracebacks_in_api "
        "pecan_debug use_rpc_for_database fatal_exception_format_errors rootwrap_config "
        "my_block_storage_ip",
        "internal to Ironic",
    ),
    # [agent]
    _rows(
        "agent",
        "manage_agent_boot",
        "the service boots the ramdisks itself; remove it",
        _is_on,
        stops=True,
    ),
    _rows(
        "agent",
        "certificates_path verify_ca",
        "certificates of agents come with their heartbeats, and are the only ones trusted",
    ),
    _rows(
        "agent",
        "memory_consumed_by_agent agent_api_version post_deploy_get_power_state_retries "
        "post_deploy_get_power_state_retry_interval command_wait_attempts command_wait_interval "
        "neutron_agent_poll_interval neutron_agent_max_attempts "
        "neutron_agent_status_retry_interval",
        _POLLED,
    ),
    _rows(
        "agent",
        "deploy_logs_swift_container deploy_logs_swift_days_to_expire",
        "logs of ramdisks are kept in [agent]deploy_logs_local_path",
    ),
    # [api]
    _rows("api", "middleware", "put a proxy in front of the API", _is_unset, stops=True),
    _rows("api", "server_tls_ciphers tls_ciphers", _CIPHERS, _is_unset, stops=True),
    _rows(
        "api",
        "max_json_body_depth max_json_body_size max_json_body_size_provision "
        "max_json_body_size_inspection",
        _REQUESTS,
    ),
    _rows("api", "network_data_schema", "network_data has the form of Ironic's own schema"),
    # [audit]
    _rows(
        "audit",
        "enabled",
        "every change is an event: GET /v1/events, webhooks; remove it",
        _is_off,
        stops=True,
    ),
    _rows("audit", "audit_map_file ignore_req_list", "every change is an event: GET /v1/events"),
    # [conductor]
    _rows("conductor", "enable_trait_based_networking", _NO_NETWORKS, _is_off, stops=True),
    _rows(
        "conductor",
        "trait_based_networking_config_file trait_based_networking_raise_when_no_match "
        "trait_based_networking_enable_default_trait",
        "the service connects no ports to networks",
    ),
    _rows(
        "conductor",
        "max_concurrent_per_conductor_group",
        "max_concurrent_clean and max_concurrent_deploy count all nodes",
        _is_off,
    ),
    _rows(
        "conductor",
        "node_history record_step_flows_in_history log_step_flows_to_syslog",
        _HISTORY,
    ),
    _rows(
        "conductor",
        "cache_clean_up_interval clear_image_cache_on_deploy_failure",
        _CACHE,
    ),
    _rows(
        "conductor",
        "check_rescue_state_interval check_allocations_interval conductor_cleanup_interval "
        "conductor_cleanup_timeout conductor_cleanup_batch_size",
        _POLLED,
    ),
    _rows(
        "conductor",
        "configdrive_swift_container configdrive_swift_temp_url_duration",
        "config drives are kept in the database",
    ),
    _rows("conductor", "enable_mdns", "set [service_catalog]endpoint_override instead", _is_off),
    _rows(
        "conductor",
        "disable_file_checksum disable_configdrive_check disable_metadata_mtu_check "
        "error_on_ramdisk_config_inconsistency disable_kernel_parameter_parsing",
        "the checks of images and ramdisks cannot be switched off",
    ),
    _rows("conductor", "api_url", "set [service_catalog]endpoint_override", _is_unset),
    # [console], [database], [deploy]
    _rows("console", "terminal_pid_dir kill_timeout", "the conductor keeps its own processes"),
    _rows(
        "database",
        "mysql_engine sqlite_retries sqlite_max_wait_for_retry sqlite_synchronous",
        "tables are made and retries are done by the service itself",
    ),
    _rows("deploy", "configdrive_use_object_store", _NO_SWIFT, _is_off, stops=True),
    _rows("conductor", "configdrive_use_swift", _NO_SWIFT, _is_off, stops=True),
    _rows(
        "deploy",
        "default_boot_option",
        "instances boot from their disks; deploy_interface = ramdisk boots them over the network",
        _one_of("", "local"),
        stops=True,
    ),
    _rows("deploy", "iso_master_path iso_cache_ttl http_image_subdir", _CACHE),
    # [inspector], [auto_discovery], [inventory]
    _rows("auto_discovery", "inspection_scope", "all rules apply, as in Ironic itself"),
    _rows(
        "inspector",
        "status_check_period callback_endpoint_override",
        "agents report to [service_catalog]endpoint_override",
    ),
    _rows("inspector", "enabled service_url", "ironic-inspector has ended; use inspect agent"),
    _rows(
        "inventory",
        "data_backend",
        "inventories are kept in the database: set it to database",
        _one_of("database"),
        stops=True,
    ),
    _rows("inventory", "swift_data_container", "inventories are kept in the database"),
    # [ipmi], [metrics]
    _rows(
        "ipmi",
        "use_ipmitool_retries",
        "the service repeats commands itself: set it to false",
        _is_off,
        stops=True,
    ),
    _rows(
        "ipmi",
        "kill_on_timeout debug store_cred_in_env",
        "passwords go to ipmitool in a file, and a hanging ipmitool is always stopped",
    ),
    _rows(
        "metrics",
        "backend agent_backend",
        _METRICS,
        _one_of("", "noop", "collector"),
    ),
    _rows(
        "metrics",
        "prepend_host prepend_host_reverse global_prefix agent_prepend_host agent_prepend_uuid "
        "agent_prepend_host_reverse agent_global_prefix",
        _METRICS,
    ),
    # [pxe]
    _rows("pxe", "ipxe_use_swift", _NO_SWIFT, _is_off, stops=True),
    _rows(
        "pxe",
        "ipxe_config_template pxe_config_template uefi_pxe_config_template "
        "pxe_config_template_by_arch ipxe_boot_script initial_grub_template",
        "boot scripts are made by the service, with the CA of [agent]api_ca_file",
        _is_unset,
    ),
    _rows(
        "pxe",
        "images_path instance_master_path tftp_master_path image_cache_ttl",
        _CACHE,
    ),
    _rows(
        "pxe",
        "dir_permission file_permission pxe_config_subdir ip_version ipxe_enabled "
        "enable_insecure_template_override",
        _BY_SERVICE,
    ),
    # [redfish], [drac]
    _rows(
        "redfish",
        "firmware_source",
        "BMCs fetch firmware by http or https alone: set it to http",
        _one_of("http"),
        stops=True,
    ),
    _rows("redfish", "use_swift", _NO_SWIFT, _is_off, stops=True),
    _rows(
        "redfish",
        "swift_container swift_object_expiry_timeout file_permission firmware_update_fail_interval "
        "raid_config_fail_interval post_boot_retry_attempts post_boot_retry_delay "
        "power_on_conflict_retry_attempts power_on_conflict_retry_interval "
        "enable_vmedia_insert_polling vmedia_insert_timeout vmedia_insert_poll_interval",
        _BMC,
    ),
    _rows(
        "drac",
        "query_raid_config_job_status_interval config_job_max_retries bios_factory_reset_timeout",
        _BMC,
    ),
    # [sensor_data], [service_catalog], [ssl]
    _rows("service_catalog", _LOGIN, "agents are told [service_catalog]endpoint_override"),
    _rows(
        "sensor_data",
        "enable_for_conductor enable_for_nodes",
        "[sensor_data]send_sensor_data switches the readings of nodes; GET /metrics has those of "
        "the conductor",
    ),
    _rows(
        "ssl",
        "ca_file",
        "the API asks clients for no certificates: remove it, and set [api]auth_strategy",
        _is_unset,
        stops=True,
    ),
    _rows("ssl", "ciphers", _CIPHERS, _is_unset, stops=True),
    _rows(
        "ssl",
        "version",
        "set [api]server_tls_minimum_version to 1.2 or 1.3 instead",
        _is_unset,
        stops=True,
    ),
    _rows("nova", "send_power_notifications", _NOVA, _is_off),
    _rows("vnc", "enabled", "there is no graphical console: use ipmitool-socat", _is_off),
    _rows(
        "cors",
        "allowed_origin",
        "browsers of other origins are refused: let the page and the API have one origin",
        _is_unset,
    ),
    _rows("dnsmasq", "dhcp_leasefile", "leases are not read"),
)
OPTIONS: Mapping[tuple[str, str], OptionRow] = dict(itertools.chain(*_ROWS))
"""By group and name."""

_NO_GLANCE = "images are URLs of http, https or file"
_NO_DEPLOY = "use deploy direct, with deploy templates or custom-agent"
_REMOVED = "Ironic removed it; use redfish or ipmi"
_GONE = "Ironic removed it"
_NO_SWITCHES = "configure switch ports outside, or by a webhook"
_NO_MEDIA_SHARES = "virtual media are served by http or https"

GROUPS: Mapping[str, OptionRow] = {
    **dict.fromkeys(("anaconda", "ansible"), OptionRow(_NO_DEPLOY, _any)),
    **dict.fromkeys(("cifs", "nfs"), OptionRow(_NO_MEDIA_SHARES, _any)),
    **dict.fromkeys(("irmc", "ibmc", "snmp", "xclarity"), OptionRow(_REMOVED, _any)),
    "ilo": OptionRow(_REMOVED, _never),
    **dict.fromkeys(
        ("ironic_networking", "ironic_networking_json_rpc"), OptionRow(_NO_SWITCHES, _never)
    ),
    **dict.fromkeys(("json_rpc", "local_rpc"), OptionRow(_JSON_RPC, _any)),
    **dict.fromkeys(("glance", "swift"), OptionRow(_NO_GLANCE, _any)),
    **dict.fromkeys(("errors", "ironic_lib", "iscsi", "molds"), OptionRow(_GONE, _any)),
    "cinder": OptionRow("boot from volume is not supported", _any),
    "cors": OptionRow("browsers of other origins are refused", _any),
    "disk_utils": OptionRow("the agent converts images", _any),
    "mdns": OptionRow("set [service_catalog]endpoint_override instead", _any),
    "metrics_statsd": OptionRow(_METRICS, _any),
    "neutron": OptionRow("the service connects no ports to networks: use network noop", _any),
    "nova": OptionRow(_NOVA, _never),
    "pxe_filter": OptionRow("the DHCP server needs no filter", _any),
    "vnc": OptionRow("there is no graphical console: use ipmitool-socat", _any),
}
"""Groups of Ironic, also of its earlier releases, whose other options have no effect."""

# Names of hardware types and interfaces.

_ILO = "Ironic removed it in 2026: use redfish (iLO 5 and newer)."
_IRMC = "Ironic removed it in 2026: use redfish (iRMC S5 and newer) or ipmi."
_SNMP = (
    "Ironic removed it in 2026: use manual-management, or the driver for switchable sockets in "
    "docs/drivers.rst."
)
_WSMAN = "Ironic removed it; use idrac-redfish."
_USE_REDFISH = "Ironic removed it; use redfish."
_INTEL = "Use ipmi; Speed Select profiles are not built."
_PLAYBOOKS = (
    "Not built: use direct, with deploy templates or custom-agent for what playbooks or "
    "kickstarts did."
)
BOOTC = (
    "bootc is not built: it runs the image as root in the ramdisk, beside the agent's token. Make "
    "a disk image of it (bootc-image-builder), push it as oci:// and use direct."
)
_NEUTRON = "Not built yet: use noop, with a DHCP server of the site or ironic-lite-netboot."
_VOLUMES = "Not built: use noop; boot from volume is not supported."
_CONSOLES = "Not built: use ipmitool-socat, or the BMC's own page."

_ILO_NAMES = dict.fromkeys(("ilo", "ilo5"), _ILO)
_IRMC_NAME = {"irmc": _IRMC}
_WSMAN_NAME = {"idrac-wsman": _WSMAN}
_OLD_NAMES = dict.fromkeys(("ibmc", "xclarity"), _USE_REDFISH)
_ILO_BOOT = ("ilo-ipxe", "ilo-pxe", "ilo-uefi-https", "ilo-virtual-media")
_IRMC_BOOT = ("irmc-pxe", "irmc-virtual-media")
HARDWARE_TYPE = "hardware type"
NOT_BUILT: Mapping[str, Mapping[str, str]] = {
    HARDWARE_TYPE: {
        **_ILO_NAMES,
        **_IRMC_NAME,
        **_OLD_NAMES,
        "idrac-wsman": _WSMAN,
        "intel-ipmi": _INTEL,
        "snmp": _SNMP,
    },
    "bios": {**_ILO_NAMES, **_IRMC_NAME, **_WSMAN_NAME},
    "boot": {**dict.fromkeys(_ILO_BOOT, _ILO), **dict.fromkeys(_IRMC_BOOT, _IRMC)},
    "console": {
        **_ILO_NAMES,
        **dict.fromkeys(("fake-graphical", "ipmitool-shellinabox", "redfish-graphical"), _CONSOLES),
    },
    "deploy": {**dict.fromkeys(("anaconda", "ansible"), _PLAYBOOKS), "bootc": BOOTC},
    "firmware": {},
    "inspect": {
        **_ILO_NAMES,
        **_IRMC_NAME,
        **_WSMAN_NAME,
        "inspector": "ironic-inspector has ended; use agent.",
    },
    "management": {
        **_ILO_NAMES,
        **_IRMC_NAME,
        **_OLD_NAMES,
        **_WSMAN_NAME,
        "intel-ipmitool": _INTEL,
    },
    "network": {
        **dict.fromkeys(("flat", "neutron"), _NEUTRON),
        "ironic-networking": "Not built yet: configure switch ports outside, or by a webhook.",
    },
    "power": {**_ILO_NAMES, **_IRMC_NAME, **_OLD_NAMES, **_WSMAN_NAME, "snmp": _SNMP},
    "raid": {**_ILO_NAMES, **_IRMC_NAME, "ibmc": _USE_REDFISH, **_WSMAN_NAME},
    "rescue": {},
    "storage": dict.fromkeys(("cinder", "external"), _VOLUMES),
    "vendor": {**_ILO_NAMES, **_IRMC_NAME, "ibmc": _USE_REDFISH, **_WSMAN_NAME},
}
"""Names of Ironic that are not built, by kind, each with the sentence that refuses it."""

# Names of the libraries.

LIBRARIES = frozenset(
    {
        "keystone_authtoken",
        "oslo_messaging_kafka",
        "oslo_messaging_notifications",
        "oslo_messaging_rabbit",
        "oslo_policy",
    }
)
"""Groups that libraries of this service read by themselves."""
LIBRARY_DEFAULTS = frozenset(
    {
        "control_exchange",
        "executor_thread_pool_size",
        "rpc_ping_enabled",
        "rpc_response_timeout",
        "transport_url",
    }
)
"""Options of [DEFAULT] that oslo.messaging registers when it is used."""

# Ironic's defaults.

DEFAULTS: Mapping[tuple[str, str], str] = {
    ("DEFAULT", "auth_strategy"): "keystone",
    ("DEFAULT", "http_basic_auth_user_file"): "/etc/ironic/htpasswd",
    ("DEFAULT", "enabled_hardware_types"): "ipmi,redfish",
    ("DEFAULT", "enabled_bios_interfaces"): "no-bios,redfish",
    ("DEFAULT", "enabled_boot_interfaces"): "ipxe,pxe,redfish-virtual-media",
    ("DEFAULT", "enabled_console_interfaces"): "no-console",
    ("DEFAULT", "enabled_deploy_interfaces"): "autodetect,direct,ramdisk,bootc",
    ("DEFAULT", "enabled_firmware_interfaces"): "no-firmware",
    ("DEFAULT", "enabled_inspect_interfaces"): "no-inspect,redfish",
    ("DEFAULT", "enabled_network_interfaces"): "flat,noop",
    ("DEFAULT", "enabled_raid_interfaces"): "agent,no-raid,redfish",
    ("DEFAULT", "enabled_rescue_interfaces"): "no-rescue",
    ("DEFAULT", "enabled_storage_interfaces"): "cinder,noop",
    ("DEFAULT", "enabled_vendor_interfaces"): "ipmitool,redfish,no-vendor",
    ("DEFAULT", "autodetect_deploy_interfaces"): "ramdisk,bootc,direct",
    ("DEFAULT", "isolinux_bin"): "/usr/lib/syslinux/isolinux.bin",
    ("DEFAULT", "my_ip"): "the address of the machine",
    ("DEFAULT", "state_path"): "the folder of its code",
    ("DEFAULT", "webserver_tls_minimum_version"): "1.3",
    ("agent", "deploy_logs_local_path"): "/var/log/ironic/deploy",
    ("agent", "allow_md5_checksum"): "true",
    ("api", "host_ip"): "0.0.0.0",
    ("api", "api_workers"): "as many as processors",
    ("api", "unix_socket_mode"): "by the umask",
    ("api", "server_tls_minimum_version"): "1.3",
    ("conductor", "workers_pool_size"): "300",
    ("conductor", "sync_power_state_workers"): "8",
    ("conductor", "permitted_image_formats"): "raw,gpt,qcow2,iso",
    ("conductor", "file_url_allowed_paths"): "/var/lib/ironic",
    ("console", "socat_address"): "$my_ip",
    ("deploy", "image_server_auth_permit_unknown_hosts"): "True",
    ("deploy", "http_root"): "/httpboot",
    ("deploy", "ramdisk_image_download_source"): "local",
    ("dhcp", "dhcp_provider"): "neutron",
    ("inspection_rules", "mask_secrets"): "always",
    ("pxe", "tftp_server"): "$my_ip",
    ("redfish", "connection_attempts"): "5",
    ("redfish", "connection_retry_interval"): "4",
    ("redfish", "connect_timeout"): "30",
    ("redfish", "connection_cache_size"): "1000",
}
"""Defaults of Ironic, by group and its name, where the default is another one here."""
