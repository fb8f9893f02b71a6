"""Checks of a machine: options, folders, programs and certificates."""

from __future__ import annotations

import datetime
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from ironic_lite.core import certificate_files, clock, config
from ironic_lite.core.options import Configuration
from ironic_lite.domain.examination import WARNING_DAYS, Verdict, failed, passed, warning

# Checks of options that contradict each other, or that leave the service open.

TFTP_BOOT = frozenset({"ipxe", "pxe"})
NETWORK_BOOT = TFTP_BOOT | {"http-ipxe", "http"}
VIRTUAL_MEDIA = frozenset({"redfish-virtual-media", "idrac-redfish-virtual-media"})
MEDIA = VIRTUAL_MEDIA | {"redfish-https"}
RAMDISK_BOOT = NETWORK_BOOT | MEDIA
"""Boot interfaces that boot ramdisks, which call the API back."""


def find_api_options(conf: Configuration) -> Iterator[Verdict]:
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


def find_conductor_options(conf: Configuration) -> Iterator[Verdict]:
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
    if MEDIA.intersection(enabled) and _lacks_bootloader(conf):
        sound = False
        yield warning(
            "[conductor]bootloader is not set: boot media start no machine in UEFI mode",
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


# Checks of folders: writable, with free space.

_MIB = 1024 * 1024
LITTLE_MIB, LEAST_MIB = 1024, 100
"""Free MiB below which a folder is reported, and below which it is a fault."""
_LITTLE_SHARE = 0.05
_LEAST_INODES = 1000


def find_folder(option: str, folder: pathlib.Path) -> Iterator[Verdict]:
    """Write a file, and read the free space.

    :param option: the option that names the folder.
    """
    place = f"{option} {folder}"
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
            file.write(bytes(_MIB // 1024))
            file.flush()
            os.fsync(file.fileno())
        about = os.statvfs(folder)
    except OSError as why:
        reason = (why.strerror or type(why).__name__).lower()
        do = "Create the folder, free space, or give the user of this process write access."
        yield failed(f"{place}: no file can be written there: {reason}", do)
        return
    yield _check_space(place, about)


def _check_space(place: str, about: os.statvfs_result) -> Verdict:
    free, size = about.f_bavail * about.f_frsize, about.f_blocks * about.f_frsize
    share = free / size if size else 1.0
    text = f"{place}: {free / _MIB:.0f} MiB free ({share:.0%})"
    do = "Free space on that file system, or make it larger."
    if free < LEAST_MIB * _MIB:
        return failed(text, do)
    if about.f_files and about.f_favail < _LEAST_INODES:
        return warning(f"{place}: {about.f_favail} free inodes", "Remove files there.")
    if free < LITTLE_MIB * _MIB or (share < _LITTLE_SHARE and free < 10 * LITTLE_MIB * _MIB):
        return warning(text, do)
    return passed(text)


# Checks of the programs and files of other packages that the enabled drivers need.

_OF_IPMI = frozenset({"ipmi"})


def find_programs(conf: Configuration, nodes: dict[str, int] | None = None) -> Iterator[Verdict]:
    """Check ipmitool, socat and isolinux, if enabled drivers need them.

    :param nodes: numbers of nodes by hardware type. A missing program is a fault if nodes need it.
        None: unknown.
    """
    if _OF_IPMI & set(conf.enabled_hardware_types):
        count = sum((nodes or {}).get(name, 0) for name in _OF_IPMI)
        yield _check_program("ipmitool", f"{count} nodes of the hardware type ipmi", bool(count))
        if "ipmitool-socat" in conf.enabled_console_interfaces:
            yield _check_program("socat", "consoles of the interface ipmitool-socat", True)
    if VIRTUAL_MEDIA.intersection(conf.enabled_boot_interfaces):
        yield from _find_isolinux(conf)


def _check_program(name: str, users: str, needed: bool) -> Verdict:
    place = shutil.which(name)
    if place is not None:
        return passed(f"{name} is {place}")
    do = f"Install the package with {name} on this machine, or disable the drivers that use it."
    text = f"{name} is not installed; needed by {users}"
    return failed(text, do) if needed else warning(text, do)


def _find_isolinux(conf: Configuration) -> Iterator[Verdict]:
    given = {"isolinux_bin": conf.isolinux_bin, "ldlinux_c32": conf.ldlinux_c32}
    missing = [
        f"[DEFAULT]{option} {path}"
        for option, path in given.items()
        if not pathlib.Path(path).is_file()
    ]
    if not missing:
        yield passed("isolinux is installed, for virtual media in BIOS mode")
        return
    text = f"missing: {', '.join(missing)}; needed by virtual media in BIOS mode"
    do = "Install the packages isolinux and syslinux-common, or correct the options."
    if conf.deploy.default_boot_mode == "bios":
        yield failed(text, do)
    else:
        yield passed(f"{text}, which is not [deploy]default_boot_mode")


# Checks of certificates: when they expire, and files that hold none.

RENEW_ADVICE = "Replace the certificate and its key; new connections use them without a restart."
_DAY = 86400
PEM = b"-----BEGIN CERTIFICATE-----"


def days_to_expiry(pem_or_der: bytes) -> list[tuple[str, float]]:
    """Return the subject of each certificate, and the days until it expires.

    :raises ValueError: there is no certificate, or it is malformed.
    """
    # Few requests need the library, which is large.
    from cryptography import x509  # noqa: PLC0415

    if PEM in pem_or_der:
        found = x509.load_pem_x509_certificates(pem_or_der)
    else:
        found = [x509.load_der_x509_certificate(pem_or_der)]
    now = clock.now().replace(tzinfo=datetime.UTC)
    return [
        (one.subject.rfc4514_string(), (one.not_valid_after_utc - now).total_seconds() / _DAY)
        for one in found
    ]


def check_expiry(what: str, days: float, do: str) -> Verdict:
    """Return the verdict about a certificate that expires in some days.

    :param what: a noun phrase that names the certificate.
    """
    if days < 0:
        return failed(f"{what} has expired {-days:.0f} days ago", do)
    if days < WARNING_DAYS:
        return warning(f"{what} expires in {days:.0f} days", do)
    return passed(f"{what} is valid for {days:.0f} more days")


def find_certificate(option: str, path: str, do: str) -> Iterator[Verdict]:
    """Check the certificate in a file that expires first.

    :param option: the option that names the file.
    """
    try:
        ends = days_to_expiry(certificate_files.read_start(path))
    except OSError as why:
        reason = (why.strerror or type(why).__name__).lower()
        yield failed(f"{option} {path}: {reason}", "Correct the option, or the file's rights.")
        return
    except ValueError:
        yield failed(f"{option} {path}: has no certificate", "Put certificates in PEM there.")
        return
    subject, days = min(ends, key=lambda end: end[1])
    yield check_expiry(f"{option} {path} ({subject})", days, do)
