"""Checks of options that contradict each other, or that leave the service open."""

from __future__ import annotations

from collections.abc import Iterator

from ironic_lite.core import config
from ironic_lite.core.configuration import Configuration
from ironic_lite.domain.examination import Verdict, passed, warning

NETWORK_BOOT = frozenset({"ipxe", "pxe"})
VIRTUAL_MEDIA = "redfish-virtual-media"
RAMDISK_BOOT = NETWORK_BOOT | {VIRTUAL_MEDIA}
"""Boot interfaces that boot ramdisks, which call the API back."""


def find_in_api(conf: Configuration) -> Iterator[Verdict]:
    """Check the options of an API process."""
    api = conf.api
    place = f"{api.host}:{api.port}"
    if config.is_loopback(api.host):
        yield passed(f"[api]auth_strategy {api.auth_strategy}, on loopback ({place}) only")
        return
    if api.auth_strategy == "noauth":
        text = f"[api]auth_strategy is noauth: every client that reaches {place} controls machines"
        do = "Set [api]auth_strategy to http_basic or keystone, or listen on loopback behind a "
        yield warning(text, f"{do}proxy that checks logins.")
    elif api.auth_strategy == "http_basic" and config.api_certificate(conf) is None:
        text = f"passwords reach {place} without encryption"
        do = "Set [api]ssl_cert_file and ssl_key_file, or put a proxy with TLS before the API."
        yield warning(text, do)
    else:
        yield passed(f"[api]auth_strategy {api.auth_strategy}, on {place}")


def find_in_conductor(conf: Configuration) -> Iterator[Verdict]:
    """Check the options of a conductor that concern ramdisks."""
    enabled = sorted(RAMDISK_BOOT & set(conf.enabled_boot_interfaces))
    if not enabled:
        yield passed("no enabled boot interface boots a ramdisk")
        return
    sound = True
    if not conf.conductor.deploy_kernel and not conf.conductor.deploy_kernel_by_arch:
        sound = False
        yield warning(
            "[conductor]deploy_kernel and deploy_ramdisk are not set: only nodes with "
            "driver_info/deploy_kernel and deploy_ramdisk, or deploy_iso, boot a ramdisk",
            "Set both options to URLs of a ramdisk with ironic-python-agent (see docs/ramdisk), or "
            "disable the boot interfaces that need it.",
        )
    if VIRTUAL_MEDIA in enabled and _lacks_bootloader(conf):
        sound = False
        yield warning(
            "[conductor]bootloader is not set: virtual media start no machine in UEFI mode",
            "Set it to the URL of the image of an EFI system partition (see docs/boot).",
        )
    if conf.agent.require_tls is False:
        sound = False
        yield warning(
            "[agent]require_tls is false: commands to agents can be read on the network",
            "Set it to true; agents make a certificate by themselves.",
        )
    if sound:
        yield passed(f"boot interfaces {', '.join(enabled)} have their options")


def _lacks_bootloader(conf: Configuration) -> bool:
    conductor = conf.conductor
    given = conductor.bootloader or conductor.bootloader_by_arch
    return not given and bool(conf.deploy.default_boot_mode == "uefi")
