"""Options of [agent]: how the agents in ramdisks are spoken with."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.options import rows

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
    rows.seconds(
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
