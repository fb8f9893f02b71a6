"""Verdicts on the options and driver names of Ironic 39 that this service does not have.

Options of ours, whose names may be Ironic's, are declared elsewhere: `config.verdicts` judges them.
An option without a row, in a group with one, has the row of the group.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ironic_lite.core.options.declare import KINDS

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

# Notes, each above the options that it is for: ``group: names``, ``*`` for all others of groups.

_ALL = "*"


def _read_lines(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield for each line below a note the note, what is before the colon, and the names."""
    for note, lines in re.findall(r"((?:\S.*\n)+)((?: .*\n)+)", text):
        for line in re.split(r"\n(?=  \S)", lines):
            left, _, names = line.partition(":")
            for one in left.split(","):
                yield " ".join(note.split()), one.strip(), names.split()


_TABLES: Mapping[tuple[Callable[[str], bool], bool], str] = {
    (_one_of("oslo", "none"), True): """
use transport_url = direct://: conductors and APIs of several machines then talk over TLS without a
broker. See docs/rpc.rst
  DEFAULT: rpc_transport
""",
    (_is_off, False): """
the agent converts images; give raw ones where the memory of machines is small
  DEFAULT: force_raw_images
max_concurrent_clean and max_concurrent_deploy count all nodes
  conductor: max_concurrent_per_conductor_group
set [service_catalog]endpoint_override instead
  conductor: enable_mdns
Nova is not told of power changes
  nova: send_power_notifications
there is no graphical console: use ipmitool-socat
  vnc: enabled
""",
    (_any, False): """
nodes are spread over conductors by a hash of their UUIDs
  DEFAULT: hash_partition_exponent hash_ring_algorithm
the service makes boot scripts and media itself
  DEFAULT: isolinux_config_template grub_config_template esp_image
  pxe: dir_permission file_permission pxe_config_subdir ip_version ipxe_enabled
    enable_insecure_template_override
downloads have limits of their own, see docs/images.rst
  DEFAULT: raw_image_growth_factor parallel_image_downloads image_download_concurrency
    webserver_connection_timeout webserver_verify_timeout allow_image_access_via_auth_token
the memory of each operation has a limit, so none waits for memory
  DEFAULT: minimum_memory_warning_only minimum_required_memory minimum_memory_wait_time
    minimum_memory_wait_retries
all files are below [DEFAULT]state_path
  DEFAULT: tempdir pybasedir bindir
internal to Ironic
  DEFAULT: log_in_db_max_size ignore_project_check_for_admin_tasks debug_tracebacks_in_api
    pecan_debug use_rpc_for_database fatal_exception_format_errors rootwrap_config
    my_block_storage_ip
certificates of agents come with their heartbeats, and are the only ones trusted
  agent: certificates_path verify_ca
the service waits for events and checks by itself
  agent: memory_consumed_by_agent agent_api_version post_deploy_get_power_state_retries
    post_deploy_get_power_state_retry_interval command_wait_attempts command_wait_interval
    neutron_agent_poll_interval neutron_agent_max_attempts neutron_agent_status_retry_interval
  conductor: check_rescue_state_interval check_allocations_interval conductor_cleanup_interval
    conductor_cleanup_timeout conductor_cleanup_batch_size
logs of ramdisks are kept in [agent]deploy_logs_local_path
  agent: deploy_logs_swift_container deploy_logs_swift_days_to_expire
bodies have a limit of their own, see docs/api.rst
  api: max_json_body_depth max_json_body_size max_json_body_size_provision
    max_json_body_size_inspection
network_data has the form of Ironic's own schema
  api: network_data_schema
every change is an event: GET /v1/events
  audit: audit_map_file ignore_req_list
the service connects no ports to networks
  conductor: trait_based_networking_config_file trait_based_networking_raise_when_no_match
    trait_based_networking_enable_default_trait
runs and events are always kept, see [conductor]node_history_max_entries
  conductor: node_history record_step_flows_in_history log_step_flows_to_syslog
images are kept below [DEFAULT]state_path, see [conductor]image_cache_size
  conductor: cache_clean_up_interval clear_image_cache_on_deploy_failure
  deploy: iso_master_path iso_cache_ttl http_image_subdir
  pxe: images_path instance_master_path tftp_master_path image_cache_ttl
config drives are kept in the database
  conductor: configdrive_swift_container configdrive_swift_temp_url_duration
the checks of images and ramdisks cannot be switched off
  conductor: disable_file_checksum disable_configdrive_check disable_metadata_mtu_check
    error_on_ramdisk_config_inconsistency disable_kernel_parameter_parsing
the conductor keeps its own processes
  console: terminal_pid_dir kill_timeout
tables are made and retries are done by the service itself
  database: mysql_engine sqlite_retries sqlite_max_wait_for_retry sqlite_synchronous
all rules apply, as in Ironic itself
  auto_discovery: inspection_scope
agents report to [service_catalog]endpoint_override
  inspector: status_check_period callback_endpoint_override
ironic-inspector has ended; use inspect agent
  inspector: enabled service_url
inventories are kept in the database
  inventory: swift_data_container
passwords go to ipmitool in a file, and a hanging ipmitool is always stopped
  ipmi: kill_on_timeout debug store_cred_in_env
GET /metrics has the figures
  metrics: prepend_host prepend_host_reverse global_prefix agent_prepend_host agent_prepend_uuid
    agent_prepend_host_reverse agent_global_prefix
  metrics_statsd: *
the Redfish driver has limits of its own
  redfish: swift_container swift_object_expiry_timeout file_permission
    firmware_update_fail_interval raid_config_fail_interval post_boot_retry_attempts
    post_boot_retry_delay power_on_conflict_retry_attempts power_on_conflict_retry_interval
    enable_vmedia_insert_polling vmedia_insert_timeout vmedia_insert_poll_interval
  drac: query_raid_config_job_status_interval config_job_max_retries bios_factory_reset_timeout
agents are told [service_catalog]endpoint_override
  service_catalog: auth_plugin auth_section auth_type auth_url cafile certfile collect_timing
    connect_retries connect_retry_delay default_domain_id default_domain_name domain_id domain_name
    insecure keyfile max_version min_version password project_domain_id project_domain_name
    project_id project_name region_name retriable_status_codes service_name service_type
    split_loggers status_code_retries status_code_retry_delay system_scope tenant_id tenant_name
    timeout tls_ciphers tls_min_version trust_id user_domain_id user_domain_name user_id user_name
    username valid_interfaces version
[sensor_data]send_sensor_data switches the readings of nodes; GET /metrics has those of the
conductor
  sensor_data: enable_for_conductor enable_for_nodes
leases are not read
  dnsmasq: dhcp_leasefile
use deploy direct, with deploy templates or custom-agent
  anaconda, ansible: *
virtual media are served by http or https
  cifs, nfs: *
Ironic removed it; use redfish or ipmi
  irmc, ibmc, snmp, xclarity: *
use transport_url = direct://: conductors and APIs of several machines then talk over TLS without a
broker. See docs/rpc.rst
  json_rpc, local_rpc: *
images are URLs of http, https or file
  glance, swift: *
Ironic removed it
  errors, ironic_lib, iscsi, molds: *
boot from volume is not supported
  cinder: *
browsers of other origins are refused
  cors: *
the agent converts images
  disk_utils: *
set [service_catalog]endpoint_override instead
  mdns: *
the service connects no ports to networks: use network noop
  neutron: *
the DHCP server needs no filter
  pxe_filter: *
there is no graphical console: use ipmitool-socat
  vnc: *
""",
    (_is_on, True): """
the service boots the ramdisks itself; remove it
  agent: manage_agent_boot
""",
    (_is_unset, True): """
put a proxy in front of the API
  api: middleware
TLS ciphers cannot be chosen; server_tls_minimum_version = 1.3 leaves three
  api: server_tls_ciphers tls_ciphers
  ssl: ciphers
the API asks clients for no certificates: remove it, and set [api]auth_strategy
  ssl: ca_file
set [api]server_tls_minimum_version to 1.2 or 1.3 instead
  ssl: version
""",
    (_is_off, True): """
every change is an event: GET /v1/events, webhooks; remove it
  audit: enabled
the service connects no ports to networks; remove it
  conductor: enable_trait_based_networking
there is no object store: remove it, files are served from [deploy]http_root
  deploy: configdrive_use_object_store
  conductor: configdrive_use_swift
  pxe: ipxe_use_swift
  redfish: use_swift
the service repeats commands itself: set it to false
  ipmi: use_ipmitool_retries
""",
    (_is_unset, False): """
set [service_catalog]endpoint_override
  conductor: api_url
boot scripts are made by the service, with the CA of [agent]api_ca_file
  pxe: ipxe_config_template pxe_config_template uefi_pxe_config_template
    pxe_config_template_by_arch ipxe_boot_script initial_grub_template
browsers of other origins are refused: let the page and the API have one origin
  cors: allowed_origin
""",
    (_one_of("", "local"), True): """
instances boot from their disks; deploy_interface = ramdisk boots them over the network
  deploy: default_boot_option
""",
    (_one_of("database"), True): """
inventories are kept in the database: set it to database
  inventory: data_backend
""",
    (_one_of("", "noop", "collector"), False): """
GET /metrics has the figures
  metrics: backend agent_backend
""",
    (_one_of("http"), True): """
BMCs fetch firmware by http or https alone: set it to http
  redfish: firmware_source
""",
    (_never, False): """
Ironic removed it; use redfish or ipmi
  ilo: *
configure switch ports outside, or by a webhook
  ironic_networking, ironic_networking_json_rpc: *
Nova is not told of power changes
  nova: *
""",
}
"""By the values that lose nothing, and whether other values stop the start."""
_ROWS = {
    (group, name): OptionRow(note, harmless, stops)
    for (harmless, stops), text in _TABLES.items()
    for note, group, names in _read_lines(text)
    for name in names
}
OPTIONS: Mapping[tuple[str, str], OptionRow] = {
    key: row for key, row in _ROWS.items() if key[1] != _ALL
}
"""By group and name."""
GROUPS: Mapping[str, OptionRow] = {
    group: row for (group, name), row in _ROWS.items() if name == _ALL
}
"""Groups of Ironic, also of its earlier releases, whose other options have no effect."""

# Names of hardware types and interfaces.

HARDWARE_TYPE = "hardware type"
_NAMES = """
Ironic removed it in 2026: use redfish (iLO 5 and newer).
  hardware type, bios, console, inspect, management, power, raid, vendor: ilo ilo5
  boot: ilo-ipxe ilo-pxe ilo-uefi-https ilo-virtual-media
Ironic removed it in 2026: use redfish (iRMC S5 and newer) or ipmi.
  hardware type, bios, inspect, management, power, raid, vendor: irmc
  boot: irmc-pxe irmc-virtual-media
Ironic removed it; use redfish.
  hardware type, management, power, raid, vendor: ibmc
  hardware type, management, power: xclarity
Ironic removed it; use idrac-redfish.
  hardware type, bios, inspect, management, power, raid, vendor: idrac-wsman
Use ipmi; Speed Select profiles are not built.
  hardware type: intel-ipmi
  management: intel-ipmitool
Ironic removed it in 2026: use manual-management, or the driver for switchable sockets in
docs/drivers.rst.
  hardware type, power: snmp
Not built: use ipmitool-socat, or the BMC's own page.
  console: fake-graphical ipmitool-shellinabox redfish-graphical
Not built: use direct, with deploy templates or custom-agent for what playbooks or kickstarts did.
  deploy: anaconda ansible
bootc is not built: it runs the image as root in the ramdisk, beside the agent's token. Make a disk
image of it (bootc-image-builder), push it as oci:// and use direct.
  deploy: bootc
ironic-inspector has ended; use agent.
  inspect: inspector
Not built yet: use noop, with a DHCP server of the site or ironic-lite-netboot.
  network: flat neutron
Not built yet: configure switch ports outside, or by a webhook.
  network: ironic-networking
Not built: use noop; boot from volume is not supported.
  storage: cinder external
"""
NOT_BUILT: Mapping[str, Mapping[str, str]] = {
    kind: {
        name: sentence
        for sentence, one, names in _read_lines(_NAMES)
        if one == kind
        for name in names
    }
    for kind in (HARDWARE_TYPE, *KINDS)
}
"""Names of Ironic that are not built, by kind, each with the sentence that refuses it."""

# Names of the libraries.

LIBRARIES = frozenset(
    {
        *("keystone_authtoken", "oslo_messaging_kafka", "oslo_messaging_notifications"),
        *("oslo_messaging_rabbit", "oslo_policy"),
    }
)
"""Groups that libraries of this service read by themselves."""
LIBRARY_DEFAULTS = frozenset(
    {
        *("control_exchange", "executor_thread_pool_size", "rpc_ping_enabled"),
        *("rpc_response_timeout", "transport_url"),
    }
)
"""Options of [DEFAULT] that oslo.messaging registers when it is used."""
