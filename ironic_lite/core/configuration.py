"""The types of all options, one protocol for each group.

Generated from ``core/options`` by ``make sample``; do not edit. oslo.config has no types, so these
say what ``conf.group.option`` is. Functions that need more of oslo.config take
``cfg.ConfigOpts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Group(Protocol):
    """Options of one group, or of [DEFAULT]."""

    def __getitem__(self, key: str) -> Any:
        """Return the value of an option whose name is put together."""

    def __contains__(self, key: str) -> bool:
        """Return whether there is an option, or a group, of this name."""


class ApiOptions(Group, Protocol):
    """Options of [api]."""

    host: str
    port: int
    workers: int
    max_connections: int
    max_requests_per_address: int
    head_timeout: int
    max_reads: int
    max_changes: int
    max_agent_requests: int
    max_questions: int
    max_watchers: int
    max_wait: int
    stream_seconds: int
    max_password_checks: int
    max_body_memory_mib: int
    max_answer_memory_mib: int
    body_timeout: int
    ssl_cert_file: str | None
    ssl_key_file: str | None
    enable_ssl_api: bool | None
    cert_file: str | None
    key_file: str | None
    server_tls_minimum_version: str
    public_endpoint: str | None
    enable_proxy_headers_parsing: bool
    max_limit: int
    default_version: str
    auth_strategy: str
    project_admin_can_manage_own_nodes: bool
    allow_unauthenticated_bind: bool
    allowed_hosts: list[str]
    enable_window: bool
    idempotency_hours: int
    idempotency_max_rows: int
    idempotency_max_mib: int
    project_max_nodes: int
    project_max_allocations: int
    project_max_runbooks: int
    project_max_node_parts: int
    project_max_mib: int
    enable_ramdisk_endpoints: bool
    restrict_lookup: bool
    ramdisk_refusals_per_minute: int
    ramdisk_heartbeat_timeout: int
    disallow_clean_steps: list[str]
    disallow_deploy_steps: list[str]
    disallow_service_steps: list[str]


class DatabaseOptions(Group, Protocol):
    """Options of [database]."""

    connection: str | None
    encryption_keys: list[str]
    max_pool_size: int
    max_overflow: int
    pool_timeout: int
    connection_recycle_time: int
    connect_timeout: int
    statement_timeout: int
    sqlite_busy_timeout: int


class ConductorOptions(Group, Protocol):
    """Options of [conductor]."""

    conductor_group: str
    heartbeat_interval: int
    heartbeat_timeout: int
    hash_ring_reset_interval: int
    graceful_shutdown_timeout: int
    drain_shutdown_timeout: int
    processes: int
    workers_pool_size: int
    reserved_workers_pool_percentage: int
    workers_project_percentage: int
    periodic_max_workers: int
    work_timeout: int
    busy_timeout: int
    max_concurrent_deploy: int
    max_concurrent_clean: int
    automatic_lessee_source: str
    node_locked_retry_attempts: int
    node_locked_retry_interval: int
    automated_clean_enable: bool
    automated_cleaning_step_source: str
    automated_cleaning_runbook: str | None
    automated_cleaning_runbook_by_resource_class: dict[str, str]
    automated_cleaning_runbook_from_node: bool
    automated_cleaning_runbook_validate_traits: bool
    clean_step_priority_override: list[dict[str, float]]
    verify_step_priority_override: list[dict[str, float]]
    allow_provisioning_in_maintenance: bool
    allow_deleting_available_nodes: bool
    power_off_after_verify: bool
    poweroff_in_cleanfail: bool
    poweroff_in_servicefail: bool
    rescue_password_hash_algorithm: str
    require_rescue_password_hashed: bool
    poll_timeout: int
    step_deadline: list[dict[str, float]]
    automatic_retries: int
    max_conductor_wait_step_seconds: int
    permit_child_node_step_async_result: bool
    clean_callback_timeout: int
    deploy_callback_timeout: int
    service_callback_timeout: int
    rescue_callback_timeout: int
    inspect_wait_timeout: int
    check_provision_state_interval: int
    sync_power_state_interval: int
    sync_power_state_workers: int
    power_failure_recovery_interval: int
    power_state_sync_max_retries: int
    force_power_state_during_sync: bool
    power_state_change_timeout: int
    soft_power_off_timeout: int
    node_history_max_entries: int
    node_history_minimum_days: int
    removed_node_history_days: int
    node_history_cleanup_interval: int
    node_history_cleanup_batch_count: int
    file_url_allowed_paths: list[str]
    image_blocked_networks: list[str]
    image_cache_size: int
    use_cached_images_offline: bool
    permitted_image_formats: list[str]
    disable_deep_image_inspection: bool
    deploy_kernel: str | None
    deploy_kernel_by_arch: dict[str, str]
    deploy_ramdisk: str | None
    deploy_ramdisk_by_arch: dict[str, str]
    rescue_kernel: str | None
    rescue_kernel_by_arch: dict[str, str]
    rescue_ramdisk: str | None
    rescue_ramdisk_by_arch: dict[str, str]
    bootloader: str | None
    bootloader_by_arch: dict[str, str]
    batch_interval: int
    sync_local_state_interval: int
    clean_level: str
    require_clean_data: bool
    evidence_key_file: str | None


class DeployOptions(Group, Protocol):
    """Options of [deploy]."""

    fast_track: bool
    fast_track_timeout: int
    power_off_after_deploy_failure: bool
    erase_devices_priority: int | None
    erase_devices_metadata_priority: int | None
    create_configuration_priority: int | None
    delete_configuration_priority: int | None
    shred_random_overwrite_iterations: int
    shred_final_overwrite_with_zeros: bool
    continue_if_disk_secure_erase_fails: bool
    enable_ata_secure_erase: bool
    enable_nvme_secure_erase: bool
    erase_method: str
    disk_erasure_concurrency: int
    erase_skip_read_only: bool
    default_boot_mode: str
    http_root: str | None
    http_url: str | None
    external_http_url: str | None
    http_port: int | None
    http_host: str
    http_ssl_cert_file: str | None
    http_ssl_key_file: str | None
    http_connections: int
    iso_cache_size: int


class ServiceCatalogOptions(Group, Protocol):
    """Options of [service_catalog]."""

    endpoint_override: str | None


class PxeOptions(Group, Protocol):
    """Options of [pxe]."""

    kernel_append_params: str
    tftp_root: str
    tftp_server: str | None
    ipxe_bootfile_name: str
    uefi_ipxe_bootfile_name: str
    ipxe_bootfile_name_by_arch: dict[str, str]
    pxe_bootfile_name: str
    uefi_pxe_bootfile_name: str
    pxe_bootfile_name_by_arch: dict[str, str]


class DhcpOptions(Group, Protocol):
    """Options of [dhcp]."""

    dhcp_provider: str


class DnsmasqOptions(Group, Protocol):
    """Options of [dnsmasq]."""

    dhcp_hostsdir: str
    dhcp_optsdir: str


class AgentOptions(Group, Protocol):
    """Options of [agent]."""

    allowed_networks: list[str]
    require_tls: bool
    tls_minimum_version: str
    command_timeout: int
    max_command_attempts: int
    image_download_source: str
    stream_raw_images: bool
    allow_md5_checksum: bool
    api_ca_file: str | None
    enable_bios_bootloader_install: bool
    deploy_logs_collect: str
    deploy_logs_storage_backend: str
    deploy_logs_local_path: str | None


class FakeOptions(Group, Protocol):
    """Options of [fake]."""

    step_seconds: float


class IpmiOptions(Group, Protocol):
    """Options of [ipmi]."""

    allowed_networks: list[str]
    command_retry_timeout: int
    min_command_interval: int
    max_processes: int
    disable_boot_timeout: bool
    cipher_suite_versions: list[int]
    additional_retryable_ipmi_errors: list[str]


class ConsoleOptions(Group, Protocol):
    """Options of [console]."""

    socat_address: str
    port_range: list[range] | None
    terminal_timeout: int
    subprocess_timeout: int
    subprocess_checking_interval: int


class RedfishOptions(Group, Protocol):
    """Options of [redfish]."""

    allowed_networks: list[str]
    ca_folder: str
    kernel_append_params: str
    auth_type: str
    connection_attempts: int
    connection_retry_interval: int
    connect_timeout: int
    read_timeout: int
    connection_cache_size: int
    raid_config_status_interval: int
    raid_config_timeout: int
    bmc_silence_timeout: int
    bios_config_timeout: int
    bios_config_status_interval: int
    boot_mode_config_timeout: int
    firmware_update_status_interval: int
    firmware_update_overall_timeout: int
    firmware_update_bmc_timeout: int
    firmware_update_wait_unresponsive_bmc: int
    firmware_update_bmc_version_check_interval: int
    firmware_update_reboot_delay: int
    firmware_update_unseen_wait: int
    firmware_update_unseen_restart: bool
    firmware_update_nic_starting_wait: int
    firmware_update_required_successes: int
    firmware_update_validation_interval: int
    firmware_update_resource_validation_timeout: int
    default_inspection_hooks: str
    inspection_hooks: list[str]


class InspectorOptions(Group, Protocol):
    """Options of [inspector]."""

    add_ports: str
    default_hooks: str
    hooks: list[str]
    extra_kernel_params: str
    power_off: bool


class InspectionRulesOptions(Group, Protocol):
    """Options of [inspection_rules]."""

    built_in_rules: str | None
    mask_secrets: str


class PciDevicesOptions(Group, Protocol):
    """Options of [pci_devices]."""

    alias: list[tuple[tuple[str, str], str]] | None


class SensorDataOptions(Group, Protocol):
    """Options of [sensor_data]."""

    send_sensor_data: bool
    interval: int
    workers: int
    wait_timeout: int
    enable_for_undeployed_nodes: bool
    data_types: list[str]


class OsloMessagingLocalOptions(Group, Protocol):
    """Options of [oslo_messaging_local]."""

    frame_limit_mib: int


class DirectOptions(Group, Protocol):
    """Options of [direct]."""

    cert_file: str | None
    key_file: str | None
    ca_file: str | None
    bind_host: str
    port: int
    connect_timeout: int
    silence_timeout: int


class HealthcheckOptions(Group, Protocol):
    """Options of [healthcheck]."""

    enabled: bool
    disable_by_file_path: str | None


class MetricsOptions(Group, Protocol):
    """Options of [metrics]."""

    enabled: bool
    public: bool


class WebhooksOptions(Group, Protocol):
    """Options of [webhooks]."""

    enabled: bool
    blocked_networks: list[str]
    allowed_networks: list[str]
    allow_http: bool


class OsloMessagingNotificationsOptions(Group, Protocol):
    """Options of [oslo_messaging_notifications]."""

    driver: list[str]
    transport_url: str | None
    retry: int


class Configuration(Group, Protocol):
    """The loaded options: the groups, and those of [DEFAULT].

    The methods are those of ``oslo_config.cfg.ConfigOpts`` that this service uses.
    """

    def __call__(self, *args: Any, **how: Any) -> Any:
        """Read command line and files."""

    def clear(self) -> None:
        """Forget values and overrides."""

    def reset(self) -> None:
        """Forget values that were read."""

    def get_location(self, name: str, group: str | None = None) -> Any:
        """Return where the value of an option comes from."""

    def find_file(self, name: str) -> str | None:
        """Return the path of a file beside the configuration files."""

    def register_opts(self, opts: Sequence[Any], group: str | None = None) -> None:
        """Add options."""

    def set_default(self, name: str, default: Any, group: str | None = None) -> None:
        """Set another default."""

    def set_override(self, name: str, override: Any, group: str | None = None) -> None:
        """Set a value above all files."""

    def clear_override(self, name: str, group: str | None = None) -> None:
        """End `set_override`."""

    api: ApiOptions
    database: DatabaseOptions
    conductor: ConductorOptions
    deploy: DeployOptions
    service_catalog: ServiceCatalogOptions
    pxe: PxeOptions
    dhcp: DhcpOptions
    dnsmasq: DnsmasqOptions
    agent: AgentOptions
    fake: FakeOptions
    ipmi: IpmiOptions
    console: ConsoleOptions
    redfish: RedfishOptions
    inspector: InspectorOptions
    inspection_rules: InspectionRulesOptions
    pci_devices: PciDevicesOptions
    sensor_data: SensorDataOptions
    oslo_messaging_local: OsloMessagingLocalOptions
    direct: DirectOptions
    healthcheck: HealthcheckOptions
    metrics: MetricsOptions
    webhooks: WebhooksOptions
    oslo_messaging_notifications: OsloMessagingNotificationsOptions
    http_basic_auth_user_file: str
    rbac_service_role_elevated_access: bool
    rbac_service_project_name: str
    broker_message_limit_mib: int
    state_path: str
    my_ip: str | None
    my_ipv6: str | None
    host: str
    pin_release_version: str | None
    default_portgroup_mode: str
    default_resource_class: str | None
    default_conductor_group: str
    enabled_hardware_types: list[str]
    notification_level: str | None
    versioned_notifications_topics: list[str]
    grub_config_path: str
    isolinux_bin: str
    ldlinux_c32: str
    webserver_verify_ca: str
    enabled_bios_interfaces: list[str]
    default_bios_interface: str | None
    enabled_boot_interfaces: list[str]
    default_boot_interface: str | None
    enabled_console_interfaces: list[str]
    default_console_interface: str | None
    enabled_deploy_interfaces: list[str]
    default_deploy_interface: str | None
    enabled_firmware_interfaces: list[str]
    default_firmware_interface: str | None
    enabled_inspect_interfaces: list[str]
    default_inspect_interface: str | None
    enabled_management_interfaces: list[str]
    default_management_interface: str | None
    enabled_network_interfaces: list[str]
    default_network_interface: str | None
    enabled_power_interfaces: list[str]
    default_power_interface: str | None
    enabled_raid_interfaces: list[str]
    default_raid_interface: str | None
    enabled_rescue_interfaces: list[str]
    default_rescue_interface: str | None
    enabled_storage_interfaces: list[str]
    default_storage_interface: str | None
    enabled_vendor_interfaces: list[str]
    default_vendor_interface: str | None
    transport_url: str | None
    rpc_response_timeout: int
    debug: bool
    log_file: str | None
    log_dir: str | None
    use_json: bool
    logging_context_format_string: str | None
