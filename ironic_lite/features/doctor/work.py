"""The checks of a conductor, and of a node by its conductor: they change nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import pathlib
import ssl
from collections.abc import Iterator, Sequence

from ironic_lite import errors, membership
from ironic_lite.checks import database, examiner, machine
from ironic_lite.conductor.service import ConductorService, FeatureWork
from ironic_lite.core import certificate_files, clock, config, evidence_key, masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Transactions
from ironic_lite.db.queries import server_health
from ironic_lite.domain import waiting
from ironic_lite.domain.examination import (
    WARNING_DAYS,
    Check,
    Verdict,
    failed,
    passed,
    unknown,
    warning,
)
from ironic_lite.drivers import base, deadline
from ironic_lite.drivers.agent import images
from ironic_lite.drivers.boot import modes, sources
from ironic_lite.features.doctor import certificates, servers
from ironic_lite.images import boot_requests, published, registry

# The checks of a conductor: its machine, and the servers that machines need.

SECONDS = 20.0
"""Time limit of all checks of a conductor together."""
_BUSY_SHARE = 0.9
_HANDSHAKE_SECONDS = 3.0


@dataclasses.dataclass(frozen=True, slots=True)
class ConductorSubject:
    """The subject of a conductor's checks; ``busy`` of ``slots`` workers are at work.

    ``key`` is the name of the key that signs erasure records.
    """

    conf: Configuration
    database: Transactions
    busy: int
    slots: int
    key: str | None = None


def find_workers(subject: ConductorSubject) -> Iterator[Verdict]:
    """Compare the workers in use with their limit."""
    text = f"{subject.busy} of {subject.slots} workers are in use"
    do = "Wait for running work, or raise [conductor]workers_pool_size."
    if subject.busy >= subject.slots:
        yield failed(text, do)
    elif subject.busy >= _BUSY_SHARE * subject.slots:
        yield warning(text, do)
    else:
        yield passed(text)


def find_folders(subject: ConductorSubject) -> Iterator[Verdict]:
    """Check every folder that this conductor writes to."""
    conf = subject.conf
    yield from machine.find_folder("[DEFAULT]state_path", config.state_path(conf))
    enabled = set(conf.enabled_boot_interfaces)
    if conf.deploy.http_root:
        yield from machine.find_folder("[deploy]http_root", published.root())
    tftp_root = pathlib.Path(conf.pxe.tftp_root)
    if "pxe" in enabled and (conf.pxe.tftp_server or tftp_root.is_dir()):
        yield from machine.find_folder("[pxe]tftp_root", tftp_root)
    if enabled & machine.NETWORK_BOOT and conf.dhcp.dhcp_provider == "dnsmasq":
        for name in ("dhcp_hostsdir", "dhcp_optsdir"):
            yield from machine.find_folder(f"[dnsmasq]{name}", pathlib.Path(conf.dnsmasq[name]))


def find_programs(subject: ConductorSubject) -> Iterator[Verdict]:
    """Check the programs that enabled drivers need."""
    nodes: dict[str, int] = {}
    for _, driver, count in subject.database.read(server_health.node_groups):
        nodes[driver] = nodes.get(driver, 0) + count
    yield from machine.find_programs(subject.conf, nodes)


def find_certificates(subject: ConductorSubject) -> Iterator[Verdict]:
    """Check the certificates that this conductor serves, and those that it trusts."""
    conf = subject.conf
    yield from certificates.find_rpc_certificates(conf)
    if conf.direct.cert_file:
        host = membership.machine_name(conf.host)
        yield from certificates.find_host_name("[direct]cert_file", conf.direct.cert_file, host)
    if conf.deploy.http_ssl_cert_file:
        option, path = "[deploy]http_ssl_cert_file", conf.deploy.http_ssl_cert_file
        yield from machine.find_certificate(option, path, machine.RENEW_ADVICE)
        yield from certificates.find_renewal(option, path)
        if option not in certificate_files.in_use() and conf.deploy.http_port is not None:
            # A process of its own serves the files of several conductors of a machine.
            address = conf.deploy.http_host.strip("[]"), conf.deploy.http_port
            with contextlib.suppress(OSError, ValueError):  # the subject of `find_file_server`
                pem = ssl.get_server_certificate(address, timeout=_HANDSHAKE_SECONDS)
                serial = certificate_files.serial_number(pem.encode())
                yield from certificates.find_serial_difference(option, path, serial)
    if pathlib.Path(conf.redfish.ca_folder).is_dir():
        yield from certificates.find_authorities("[redfish]ca_folder", conf.redfish.ca_folder)
    named = conf.redfish.verify_ca
    if named and named.lower() not in {"true", "false"}:
        yield from certificates.find_authorities("[redfish]verify_ca", named)
    if conf.agent.api_ca_file:
        yield from certificates.find_authorities("[agent]api_ca_file", conf.agent.api_ca_file)
    trusted = conf.webserver_verify_ca
    if trusted.lower() not in {"true", "false"}:
        yield from certificates.find_authorities("[DEFAULT]webserver_verify_ca", trusted)


def find_evidence_key(subject: ConductorSubject) -> Iterator[Verdict]:
    """Compare the key that signs erasure records with that in its file."""
    path = subject.conf.conductor.evidence_key_file
    if path is None:
        if subject.database.read(server_health.has_erasures):
            text = "Erasures are recorded without a signature: evidence_key_file is not set"
            make = "openssl genpkey -algorithm ed25519 -out FILE; chmod 0600 FILE"
            yield warning(text, f"{make}; set {evidence_key.OPTION} to it, and restart.")
        return
    try:
        found = evidence_key.read(path)
    except config.ConfigError as why:
        yield failed(why.message, "Correct the file, which the next start needs.")
        return
    if subject.key not in (None, found.key.name):
        text = f"{evidence_key.OPTION} {path}: has key {found.key.name}, and {subject.key} signs"
        yield failed(text, "A changed key signs after some seconds: see the log of the conductor.")
    elif found.exposed is not None:
        yield warning(found.exposed, f"chmod 0600 {path}")
    else:
        yield passed(f"{evidence_key.OPTION} {path}: key {found.key.name}")


def find_ramdisk(subject: ConductorSubject) -> Iterator[Verdict]:
    """Fetch the start of the configured ramdisk that cleans and deploys."""
    yield from _find_configured(subject.conf, "deploy_kernel", "deploy_ramdisk")


def find_rescue(subject: ConductorSubject) -> Iterator[Verdict]:
    """Fetch the start of the configured rescue ramdisk."""
    yield from _find_configured(subject.conf, "rescue_kernel", "rescue_ramdisk")


def find_bootloader(subject: ConductorSubject) -> Iterator[Verdict]:
    """Fetch the start of the configured EFI system partition."""
    if machine.MEDIA.intersection(subject.conf.enabled_boot_interfaces):
        yield from _find_configured(subject.conf, "bootloader")


def _find_configured(conf: Configuration, *names: str) -> Iterator[Verdict]:
    if machine.RAMDISK_BOOT & set(conf.enabled_boot_interfaces):
        yield from servers.find_files(conf, servers.configured_files(conf, *names))


def find_database(subject: ConductorSubject) -> Iterator[Verdict]:
    """Read one value."""
    yield passed(f"{subject.database.read(server_health.version)} answers")


FILES_ADVICE = "Put the file there, or correct the option."

TABLE: tuple[Check[ConductorSubject], ...] = (
    Check(
        "database",
        "The database answers this conductor.",
        find_database,
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
        lambda subject: machine.find_conductor_options(subject.conf),
        "Correct the option.",
    ),
    Check(
        "disk",
        "``state_path`` and the folders for HTTP, TFTP and dnsmasq are writable, with free space "
        f"(below {machine.LITTLE_MIB} MiB: warning; below {machine.LEAST_MIB} MiB: failed).",
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
        lambda subject: servers.find_file_server(subject.conf),
        "Correct [deploy]http_root and http_url.",
    ),
    Check(
        "callback",
        "The URL by which agents call the API answers ``/v1``, and is not loopback.",
        lambda subject: servers.find_callback(subject.conf),
        "Correct [service_catalog]endpoint_override.",
    ),
    Check(
        "tftp",
        "The TFTP server sends the first block of the boot loaders.",
        lambda subject: servers.find_tftp(subject.conf),
        "Correct [pxe]tftp_server.",
    ),
)
"""The checks of a conductor."""


# The checks of one node, which its conductor makes. They only read, and take no lock.

NODE_SECONDS = 20.0
"""Time limit of all checks of a node together."""
REQUEST_SECONDS = 6.0
"""Time limit of one request to its BMC."""
_NEEDED = ("power", "management", "boot", "network")
_OPTIONAL = ("deploy", "inspect", "raid", "bios", "rescue", "firmware", "console", "storage")
_OPTICAL = frozenset({"CD", "DVD"})
_UEFI = "uefi"
_MIB = 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSubject:
    """A node of this conductor, as a read-only task, and the options."""

    conf: Configuration
    task: base.Task

    @property
    def boots_ramdisk(self) -> bool:
        """True if the node's boot interface boots ramdisks."""
        return self.task.node.boot_interface in machine.RAMDISK_BOOT

    @property
    def boots_from_virtual_drive(self) -> bool:
        """True if the node's boot interface inserts a medium into a virtual drive."""
        return self.task.node.boot_interface in machine.VIRTUAL_MEDIA


def find_settings(subject: NodeSubject) -> Iterator[Verdict]:
    """Validate each interface, as GET /v1/nodes/{node}/validate does."""
    task, sound = subject.task, []
    for kind in (*_NEEDED, *_OPTIONAL):
        if kind == "deploy" and not task.node.instance_info:
            continue  # a node without an instance needs no image
        try:
            task.driver.interface(kind).validate(task)
        except errors.UnsupportedDriverExtension:
            continue
        except errors.Error as why:
            do = f"Correct what the text names, or choose another {kind}_interface."
            judge = failed if kind in _NEEDED else warning
            yield judge(f"{kind} interface: {why.message}", do)
        else:
            sound.append(kind)
    if sound:
        yield passed(f"the settings of {', '.join(sound)} are valid")


def find_power(subject: NodeSubject) -> Iterator[Verdict]:
    """Read the power state."""
    task = subject.task
    state = task.driver.power.get_power_state(task)
    known = task.node.power_state
    if state is None:
        yield unknown("the machine reports no power state, or is between on and off", "Ask again.")
    elif known and state != known:
        do = "The next power sync settles it; see [conductor]force_power_state_during_sync."
        yield warning(f"the machine is in {state}, the database has {known}", do)
    else:
        yield passed(f"the machine is in {state}")


def find_boot_mode(subject: NodeSubject) -> Iterator[Verdict]:
    """Compare the machine's boot mode with the node's."""
    task = subject.task
    wanted = modes.wanted(task.node)
    try:
        present = task.driver.management.get_boot_mode(task)
    except errors.UnsupportedDriverExtension:
        return
    if present is None and not subject.boots_ramdisk:
        return
    if present is None:
        do = f"Make sure by hand that the machine boots in {wanted} mode."
        yield unknown(f"the machine does not report its boot mode; the node has {wanted}", do)
    elif present != wanted:
        do = "The next boot of a ramdisk changes it. If the machine cannot, set the capability "
        yield warning(
            f"the machine is in {present} mode, the node in {wanted}", f"{do}boot_mode:{present}."
        )
    else:
        yield passed(f"{present}, as the node has it")


def find_virtual_drives(subject: NodeSubject) -> Iterator[Verdict]:
    """List the virtual drives, if the node boots from one."""
    task = subject.task
    if not subject.boots_from_virtual_drive:
        return
    drives = task.driver.management.get_virtual_media(task)
    optical = [drive for drive in drives if _OPTICAL.intersection(drive.get("media_types") or ())]
    if not optical:
        do = "License or enable virtual media on the BMC, or use the boot interface ipxe."
        yield failed(f"{len(drives)} virtual drives, none of them for a CD or DVD", do)
        return
    used = sum(bool(drive.get("inserted")) for drive in optical)
    yield passed(f"{len(optical)} virtual drives for a CD or DVD, {used} of them with a medium")


def find_ports(subject: NodeSubject) -> Iterator[Verdict]:
    """Count the node's ports, and those that boot."""
    task = subject.task
    count, booting = len(task.ports), sum(bool(port.pxe_enabled) for port in task.ports)
    do = "Add a port with the address of the machine's network card: POST /v1/ports."
    network = task.node.boot_interface in machine.NETWORK_BOOT
    if network and not booting:
        yield failed(f"none of {count} ports has pxe_enabled, but the node boots by network", do)
    elif not count and subject.boots_ramdisk:
        yield warning("the node has no port: its ramdisk is found by its UUID only", do)
    else:
        yield passed(f"{count} ports, {booting} with pxe_enabled")


def find_ramdisk_of_node(subject: NodeSubject) -> Iterator[Verdict]:
    """Fetch the start of the files that this node boots to clean and deploy."""
    node = subject.task.node
    if not subject.boots_ramdisk:
        return
    media = node.boot_interface in machine.MEDIA
    try:
        parts = sources.parts(node, "deploy", whole=media)
        loader = sources.bootloader(node) if media and _starts_loader(node, parts) else None
    except errors.InvalidRequest:
        return  # the check of the settings reports it
    files = {"iso": parts.iso, "kernel": parts.kernel, "ramdisk": parts.ramdisk}
    given = {f"{parts.place}{name}": url for name, url in files.items() if url}
    yield from servers.find_files(subject.conf, given | ({"bootloader": loader} if loader else {}))


def _starts_loader(node: base.Node, parts: sources.Parts) -> bool:
    return parts.iso is None and modes.wanted(node) == _UEFI


def find_image(subject: NodeSubject) -> Iterator[Verdict]:
    """Read the manifest of an image in a registry."""
    info = subject.task.node.instance_info or {}
    if not registry.is_reference(info.get("image_source")):
        return
    image = images.read_image(info, md5=True)
    if image.reference is not None:
        layer = images.find_layer(subject.task, image, image.reference, seconds=REQUEST_SECONDS)
        about = f"{layer.format or 'an image'} of {layer.size / _MIB:.1f} MiB, {layer.digest}"
        yield passed(f"{image.source.shown}: {about}")


def find_agent(subject: NodeSubject) -> Iterator[Verdict]:
    """Report when the machine last asked for boot files and looked up its node."""
    if not subject.boots_ramdisk:
        return
    task = subject.task
    if "agent_verify_ca" in (task.node.driver_info or {}):
        text = "driver_info/agent_verify_ca has no effect: the certificate of the agent's heartbeat"
        yield warning(f"{text} is the only one that is trusted", "Remove agent_verify_ca.")
    addresses = [port.address for port in task.ports]
    age = boot_requests.SEEN.seconds_since(task.node.uuid, addresses)
    if age is not None:
        yield passed(f"the machine last fetched a boot file {age:.0f} s ago")
    looked_up = waiting.looked_up_at(task.node.as_dict())
    if looked_up is not None:
        yield passed(f"the machine last looked up its node {clock.lived(looked_up):.0f} s ago")
    agent = task.agent
    if agent is None:
        yield passed("no agent has sent a heartbeat since the last boot; DHCP is not examined")
        return
    at = agent.heard_at.replace(tzinfo=datetime.UTC).isoformat(timespec="seconds")
    seconds = clock.lived(agent.heard_at)
    yield passed(f"the agent sent its last heartbeat at {at}, {seconds:.0f} s ago")


_TO_BMC = ("ipmitool", "bmc_address", "bmc_port", "bmc_tls", "bmc_root", "bmc_login")
_BMC_ADVICE = "Read the text: it says what to correct in driver_info or on the BMC."

_BEFORE: tuple[Check[NodeSubject], ...] = (
    Check(
        "settings",
        "Each interface accepts the node's fields, as ``GET /v1/nodes/{node}/validate`` checks "
        "them.",
        find_settings,
        "Correct the node's fields.",
    ),
)
_AFTER: tuple[Check[NodeSubject], ...] = (
    Check("power", "The power state is read.", find_power, _BMC_ADVICE, needs=_TO_BMC),
    Check(
        "boot_mode",
        "The machine's boot mode is the node's.",
        find_boot_mode,
        _BMC_ADVICE,
        needs=(*_TO_BMC, "power"),
        applies=lambda subject: subject.boots_ramdisk,
    ),
    Check(
        "virtual_media",
        "The machine has a virtual CD drive, if the node boots from one.",
        find_virtual_drives,
        _BMC_ADVICE,
        needs=(*_TO_BMC, "power"),
        applies=lambda subject: subject.boots_from_virtual_drive,
    ),
    Check("ports", "The node has ports for its boot interface.", find_ports, "Add ports."),
    Check(
        "ramdisk",
        "The first KiB of the node's kernel and ramdisk, or ISO image, can be fetched.",
        find_ramdisk_of_node,
        "Correct deploy_kernel and deploy_ramdisk in driver_info.",
    ),
    Check(
        "image",
        "The registry of an ``oci://`` image answers, and has an image for the node.",
        find_image,
        "Correct image_source, image_pull_secret or properties/cpu_arch of the node.",
    ),
    Check(
        "agent",
        "The times of the machine's last request for a boot file, as far as this conductor has "
        "served it since its start, of the lookup that got the token, and of the last heartbeat; "
        "``driver_info/agent_verify_ca``, which has no effect. DHCP is not examined.",
        find_agent,
        "Ask again.",
    ),
)

NODE_TABLE: tuple[Check[NodeSubject], ...] = (*_BEFORE, *_AFTER)
"""The checks of every node; those of its driver stand after the first."""


def table_of(subject: NodeSubject) -> tuple[Check[NodeSubject], ...]:
    """Return the checks of a node: those of every node, and the drivers' on the way to its BMC."""
    found: dict[str, Check[NodeSubject]] = {}
    for interface in subject.task.driver.interfaces():
        for check in interface.connection_checks:
            found.setdefault(check.name, _of_subject(check))
    return (*_BEFORE, *found.values(), *_AFTER)


def _of_subject(check: Check[base.Task]) -> Check[NodeSubject]:
    """Return a driver's check, which takes a task, as a check of a node."""
    return Check(
        check.name, check.about, lambda subject: check.find(subject.task), check.do, check.needs
    )


# The calls of conductors.

_REPLY_SECONDS = 1.0
"""Time that is kept for the reply, if the caller waits shorter than usual."""


class DoctorWork(FeatureWork):
    """Runs the checks on threads of their own, so that an answer comes in time if one hangs."""

    def __init__(self, service: ConductorService) -> None:
        self._runtime, self._tasks = service.runtime, service.tasks
        self._examiner = examiner.Examiner()
        service.endpoints.doctor = self

    def examine(self, context: Context) -> list[Json]:
        """Return the findings about this conductor."""
        runtime = self._runtime
        workers, key = runtime.workers, runtime.evidence_key.current
        subject = ConductorSubject(
            runtime.conf,
            runtime.database,
            workers.busy,
            workers.size,
            None if key is None else key.name,
        )
        where = f"conductor {runtime.host}"
        return self._examined(examiner.lines(where, TABLE, subject), SECONDS)

    def examine_node(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the findings about a node and the way to its BMC."""
        task = self._tasks.look(context, node_uuid)
        subject = NodeSubject(self._runtime.conf, task)
        where = f"node {task.node.name or node_uuid}"
        hide = masking.mask_of_node(task.node, prose=True)
        lines = examiner.lines(where, table_of(subject), subject, hide)
        with deadline.until(NODE_SECONDS), deadline.limit(REQUEST_SECONDS):
            return self._examined(lines, NODE_SECONDS)

    def _examined(self, lines: Sequence[examiner.Line], seconds: float) -> list[Json]:
        limit = max(_REPLY_SECONDS, min(seconds, deadline.seconds_left() - _REPLY_SECONDS))
        return [{**found.as_json()} for found in self._examiner.examine(lines, limit)]


extend = DoctorWork
