"""Defaults of Ironic's options that are others here."""

from __future__ import annotations

from collections.abc import Mapping

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
