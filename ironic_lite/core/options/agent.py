"""Options of [agent]: communication with the agents in ramdisks."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.core.options import rows

AGENT = (
    rows.allowed_networks("the agents of ramdisks"),
    cfg.BoolOpt(
        "require_tls",
        default=True,
        help="Refuse heartbeats of agents whose callback URL is not https.",
    ),
    cfg.StrOpt(
        "tls_minimum_version",
        default="1.3",
        choices=["1.2", "1.3"],
        help="The oldest TLS version accepted from agents.",
    ),
    rows.seconds(
        "command_timeout",
        60,
        "Seconds an agent may take to answer a request.",
        least=1,
    ),
    cfg.IntOpt(
        "max_command_attempts",
        default=3,
        min=1,
        max=100,
        help="How many times a request to a silent agent is sent.",
    ),
    cfg.StrOpt(
        "image_download_source",
        default="http",
        choices=["http", "local"],
        help="Which side fetches the images of instances: http for the machine's agent, local "
        "for the conductor, which serves them from [deploy]http_root. image_download_source "
        "of instance_info or driver_info decides for a node; images of file:// are always "
        "served.",
    ),
    cfg.BoolOpt(
        "stream_raw_images",
        default=True,
        help="Let agents write raw images to disk while they download them, instead of keeping "
        "them in memory.",
    ),
    cfg.BoolOpt(
        "allow_md5_checksum",
        default=False,
        help="Accept md5 checksums of images, which can be forged.",
    ),
    cfg.StrOpt(
        "api_ca_file",
        help="PEM file of authorities. Agents that boot from virtual media trust only these for "
        "https to the API and to image servers.",
    ),
    cfg.BoolOpt(
        "enable_bios_bootloader_install",
        default=False,
        help="Accept partition images, and let agents make them bootable. An agent runs the "
        "image's own grub-install for that, unless it finds an EFI boot loader in it: the "
        "author of the image may run programs in the ramdisk (CVE-2026-43003). Whole-disk "
        "images need none of this.",
    ),
    cfg.StrOpt(
        "deploy_logs_collect",
        default="on_failure",
        choices=["always", "on_failure", "never"],
        help="When the logs of a ramdisk are fetched and kept: at the end of each cleaning, "
        "deployment and servicing (always), if it fails (on_failure), or never.",
    ),
    cfg.StrOpt(
        "deploy_logs_storage_backend",
        default="local",
        choices=["local"],
        help="Where the logs are kept: local is deploy_logs_local_path of the conductor.",
    ),
    cfg.StrOpt(
        "deploy_logs_local_path",
        help="The folder for the logs; unset, agent-logs in state_path. The operator removes old "
        "ones: see docs/agent.",
    ),
)
