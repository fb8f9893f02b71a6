"""Options of [deploy] and [service_catalog]: what ramdisks do, and how machines find us."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.options import rows

DEPLOY = (
    cfg.BoolOpt(
        "fast_track",
        default=False,
        help="Let ramdisks run on between two verbs, and use one that runs instead of a reboot to "
        "clean, deploy and inspect. A node's driver_info/fast_track decides for that node.",
    ),
    rows.seconds(
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
