"""The checks of a conductor: its machine, and the servers that machines need."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import ssl
from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.core import certificate_files, config, evidence_key
from ironic_lite.core.configuration import Configuration
from ironic_lite.db.engine.session import Transactions
from ironic_lite.db.queries import erasures, server_health
from ironic_lite.doctor import certificates, database, disk, options, programs, servers
from ironic_lite.domain.examination import WARNING_DAYS, Check, Verdict, failed, passed, warning
from ironic_lite.images import published
from ironic_lite.membership import names

SECONDS = 20.0
"""Time limit of all checks of a conductor together."""
_BUSY_SHARE = 0.9
_HANDSHAKE_SECONDS = 3.0


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The subject of a conductor's checks; ``busy`` of ``slots`` workers are at work.

    ``key`` is the name of the key that signs erasure records.
    """

    conf: Configuration
    transactions: Transactions
    busy: int
    slots: int
    key: str | None = None


def find_options(place: Place) -> Iterator[Verdict]:
    """See `options.find_in_conductor`."""
    yield from options.find_in_conductor(place.conf)


def find_workers(place: Place) -> Iterator[Verdict]:
    """Compare the workers in use with their limit."""
    text = f"{place.busy} of {place.slots} workers are in use"
    do = "Wait for running work, or raise [conductor]workers_pool_size."
    if place.busy >= place.slots:
        yield failed(text, do)
    elif place.busy >= _BUSY_SHARE * place.slots:
        yield warning(text, do)
    else:
        yield passed(text)


def find_folders(place: Place) -> Iterator[Verdict]:
    """Check every folder that this conductor writes to."""
    conf = place.conf
    yield from disk.find_folder("[DEFAULT]state_path", config.state_path(conf))
    enabled = set(conf.enabled_boot_interfaces)
    if conf.deploy.http_root:
        yield from disk.find_folder("[deploy]http_root", published.root())
    tftp_root = pathlib.Path(conf.pxe.tftp_root)
    if "pxe" in enabled and (conf.pxe.tftp_server or tftp_root.is_dir()):
        yield from disk.find_folder("[pxe]tftp_root", tftp_root)
    if enabled & options.NETWORK_BOOT and conf.dhcp.dhcp_provider == "dnsmasq":
        for name in ("dhcp_hostsdir", "dhcp_optsdir"):
            yield from disk.find_folder(f"[dnsmasq]{name}", pathlib.Path(conf.dnsmasq[name]))


def find_programs(place: Place) -> Iterator[Verdict]:
    """Check the programs that enabled drivers need."""
    nodes: dict[str, int] = {}
    for _, driver, count in place.transactions.read(server_health.node_groups):
        nodes[driver] = nodes.get(driver, 0) + count
    yield from programs.find_programs(place.conf, nodes)


def find_certificates(place: Place) -> Iterator[Verdict]:
    """Check the certificates that this conductor serves, and those that it trusts."""
    conf = place.conf
    yield from certificates.find_of_rpc(conf)
    if conf.direct.cert_file:
        host = names.machine(conf.host)
        yield from certificates.find_name("[direct]cert_file", conf.direct.cert_file, host)
    if conf.deploy.http_ssl_cert_file:
        option, path = "[deploy]http_ssl_cert_file", conf.deploy.http_ssl_cert_file
        yield from certificates.find_in_file(option, path, certificates.RENEW)
        yield from certificates.find_renewal(option, path)
        if option not in certificate_files.in_use() and conf.deploy.http_port is not None:
            # A process of its own serves the files of several conductors of a machine.
            address = conf.deploy.http_host.strip("[]"), conf.deploy.http_port
            with contextlib.suppress(OSError, ValueError):  # the subject of `find_file_server`
                pem = ssl.get_server_certificate(address, timeout=_HANDSHAKE_SECONDS)
                serial = certificate_files.serial_number(pem.encode())
                yield from certificates.find_difference(option, path, serial)
    if pathlib.Path(conf.redfish.ca_folder).is_dir():
        yield from certificates.find_authorities("[redfish]ca_folder", conf.redfish.ca_folder)
    if conf.agent.api_ca_file:
        yield from certificates.find_authorities("[agent]api_ca_file", conf.agent.api_ca_file)
    trusted = conf.webserver_verify_ca
    if trusted.lower() not in {"true", "false"}:
        yield from certificates.find_authorities("[DEFAULT]webserver_verify_ca", trusted)


def find_evidence_key(place: Place) -> Iterator[Verdict]:
    """Compare the key that signs erasure records with that in its file."""
    path = place.conf.conductor.evidence_key_file
    if path is None:
        if place.transactions.read(erasures.recorded):
            text = "Erasures are recorded without a signature: evidence_key_file is not set"
            make = "openssl genpkey -algorithm ed25519 -out FILE; chmod 0600 FILE"
            yield warning(text, f"{make}; set {evidence_key.OPTION} to it, and restart.")
        return
    try:
        found = evidence_key.read(path)
    except config.ConfigError as why:
        yield failed(why.message, "Correct the file, which the next start needs.")
        return
    if place.key not in (None, found.key.name):
        text = f"{evidence_key.OPTION} {path}: has key {found.key.name}, and {place.key} signs"
        yield failed(text, "A changed key signs after some seconds: see the log of the conductor.")
    elif found.exposed is not None:
        yield warning(found.exposed, f"chmod 0600 {path}")
    else:
        yield passed(f"{evidence_key.OPTION} {path}: key {found.key.name}")


def find_ramdisk(place: Place) -> Iterator[Verdict]:
    """Fetch the start of the configured ramdisk that cleans and deploys."""
    yield from _find_configured(place.conf, "deploy_kernel", "deploy_ramdisk")


def find_rescue(place: Place) -> Iterator[Verdict]:
    """Fetch the start of the configured rescue ramdisk."""
    yield from _find_configured(place.conf, "rescue_kernel", "rescue_ramdisk")


def find_bootloader(place: Place) -> Iterator[Verdict]:
    """Fetch the start of the configured EFI system partition."""
    if options.VIRTUAL_MEDIA in place.conf.enabled_boot_interfaces:
        yield from _find_configured(place.conf, "bootloader")


def _find_configured(conf: Configuration, *names: str) -> Iterator[Verdict]:
    if options.RAMDISK_BOOT & set(conf.enabled_boot_interfaces):
        yield from servers.find_files(conf, servers.configured_files(conf, *names))


def find_file_server(place: Place) -> Iterator[Verdict]:
    """See `servers.find_file_server`."""
    yield from servers.find_file_server(place.conf)


def find_callback(place: Place) -> Iterator[Verdict]:
    """See `servers.find_callback`."""
    yield from servers.find_callback(place.conf)


def find_tftp(place: Place) -> Iterator[Verdict]:
    """See `servers.find_tftp`."""
    yield from servers.find_tftp(place.conf)


def _read_database(place: Place) -> Iterator[Verdict]:
    try:
        version = place.transactions.read(server_health.version)
    except errors.Unavailable as why:
        yield failed(why.message, "")
    else:
        yield passed(f"{version} answers")


FILES_ADVICE = "Put the file there, or correct the option."

TABLE: tuple[Check[Place], ...] = (
    Check(
        "database",
        "The database answers this conductor.",
        _read_database,
        "Start the database, or correct [database]connection of this conductor.",
    ),
    database.CLOCK,
    Check(
        "workers",
        "Worker slots are free.",
        find_workers,
        "Wait for running work, or raise [conductor]workers_pool_size.",
    ),
    Check(
        "options",
        "The options for ramdisks belong together: ``deploy_kernel``, ``bootloader``, "
        "``require_tls``.",
        find_options,
        "Correct the option.",
    ),
    Check(
        "disk",
        "``state_path`` and the folders for HTTP, TFTP and dnsmasq are writable, with free space "
        f"(below {disk.LITTLE_MIB} MiB: warning; below {disk.LEAST_MIB} MiB: failed).",
        find_folders,
        "Create the folder, or correct the option that names it.",
    ),
    Check(
        "programs",
        "``ipmitool``, ``socat`` and isolinux are installed, if enabled drivers need them.",
        find_programs,
        "Install the program on this machine.",
    ),
    Check(
        "certificates",
        "The certificates of the file server and of ``[direct]``, and the authorities for BMCs "
        "(``[redfish]ca_folder``), agents, web servers and ``direct://``, are valid for "
        f"{WARNING_DAYS} days. The certificate of ``[direct]`` has the name of the conductor.",
        find_certificates,
        "Correct the option that names the file.",
    ),
    Check(
        "evidence_key",
        "The key in ``[conductor]evidence_key_file`` can be used, and by no other user. "
        "With erasure records there is one.",
        find_evidence_key,
        "Correct the option that names the file.",
    ),
    Check(
        "ramdisk",
        "The first KiB of ``deploy_kernel`` and ``deploy_ramdisk`` can be fetched; size and age.",
        find_ramdisk,
        FILES_ADVICE,
    ),
    Check(
        "rescue",
        "The same for ``rescue_kernel`` and ``rescue_ramdisk``, if set.",
        find_rescue,
        FILES_ADVICE,
    ),
    Check("bootloader", "The same for ``bootloader``.", find_bootloader, FILES_ADVICE),
    Check(
        "file_server",
        "A file written below ``[deploy]http_root`` can be fetched by ``[deploy]http_url``.",
        find_file_server,
        "Correct [deploy]http_root and http_url.",
    ),
    Check(
        "callback",
        "The URL by which agents call the API answers ``/v1``, and is not loopback.",
        find_callback,
        "Correct [service_catalog]endpoint_override.",
    ),
    Check(
        "tftp",
        "The TFTP server sends the first block of the boot loaders.",
        find_tftp,
        "Correct [pxe]tftp_server.",
    ),
)
"""The checks of a conductor."""
