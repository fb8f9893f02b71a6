"""Options of [deploy] and [service_catalog]: ramdisks, and URLs of this service."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.core.options import rows

DEPLOY = (
    cfg.BoolOpt(
        "fast_track",
        default=False,
        help="Let ramdisks keep running between two verbs, and use a running one instead of a "
        "reboot to clean, deploy and inspect. A node's driver_info/fast_track decides for "
        "that node.",
    ),
    rows.seconds(
        "fast_track_timeout",
        300,
        "Seconds after its last heartbeat for which an agent counts as running.",
        least=1,
    ),
    cfg.BoolOpt(
        "power_off_after_deploy_failure",
        default=True,
        help="Power a machine off when its deployment has failed or was aborted, after the logs "
        "of its ramdisk were kept. A node's disable_power_off takes precedence, and a machine "
        "stays on if a step of its firmware interface has failed, because its BMC may still write.",
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
        help="How many times a disk without an erase command is overwritten with random data.",
    ),
    cfg.BoolOpt(
        "shred_final_overwrite_with_zeros",
        default=True,
        help="Overwrite such a disk with zeros at the end.",
    ),
    cfg.BoolOpt(
        "continue_if_disk_secure_erase_fails",
        default=False,
        help="Overwrite a disk whose erase command has failed, instead of failing the step.",
    ),
    cfg.BoolOpt(
        "enable_ata_secure_erase",
        default=True,
        help="Use the erase command of ATA disks.",
    ),
    cfg.BoolOpt(
        "enable_nvme_secure_erase",
        default=True,
        help="Use the erase command of NVMe disks.",
    ),
    cfg.StrOpt(
        "erase_method",
        default="clear",
        choices=["clear", "purge"],
        help="Preferred level of erasure. With purge, a ramdisk with the hardware manager "
        "ironic-lite-evidence uses the sanitize command of disks that have one. Other ramdisks "
        "ignore this option.",
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
        help="Skip read-only disks, instead of failing the step.",
    ),
    cfg.StrOpt(
        "default_boot_mode",
        default="uefi",
        choices=["bios", "uefi"],
        help="Boot mode of machines without boot_mode in their capabilities.",
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
        help="URL of http_root for machines and BMCs. Unset, http_host and http_port.",
    ),
    cfg.URIOpt(
        "external_http_url",
        schemes=["http", "https"],
        help="URL of http_root for BMCs, if it is not http_url. A node's "
        "driver_info/external_http_url decides for that node.",
    ),
    cfg.PortOpt(
        "http_port",
        help="Port on which the conductor serves http_root. Unset, another web server must serve "
        "it.",
    ),
    cfg.HostAddressOpt(
        "http_host",
        default="127.0.0.1",
        help="Address of this server. Boot media hold the secrets of the ramdisks booted from "
        "them: use an address in the network of BMCs and machines, which no other client "
        "can reach.",
    ),
    cfg.StrOpt(
        "http_ssl_cert_file",
        help="PEM file with the certificate chain of this server; with http_ssl_key_file the "
        "files are served by https only. BMCs and agents must trust it.",
    ),
    cfg.StrOpt("http_ssl_key_file", help="PEM file with the private key of http_ssl_cert_file."),
    cfg.IntOpt(
        "http_connections",
        default=400,
        min=1,
        help="Connections that are served at once, with two open files each. A further "
        "connection replaces one without a request; without such a connection, it is closed.",
    ),
    cfg.IntOpt(
        "iso_cache_size",
        default=20480,
        min=0,
        help="MiB of the boot media that nodes' media are made from; one is kept for each "
        "kernel, ramdisk and bootloader. The least recently used go first.",
    ),
)

SERVICE_CATALOG = (
    cfg.URIOpt(
        "endpoint_override",
        schemes=["http", "https"],
        sample_default="http://192.0.2.10:6385",
        help="URL of the API for the agents in ramdisks. Unset, [api]public_endpoint.",
    ),
)
