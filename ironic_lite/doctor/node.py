"""The checks of one node, which its conductor makes. They only read, and take no lock."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.configuration import Configuration
from ironic_lite.doctor import options, servers
from ironic_lite.domain.examination import Check, Verdict, failed, passed, unknown, warning
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import modes, sources
from ironic_lite.images import boot_requests

SECONDS = 20.0
"""Time limit of all checks of a node together."""
REQUEST_SECONDS = 6.0
"""Time limit of one request to its BMC."""
_NEEDED = ("power", "management", "boot", "network")
_OPTIONAL = ("deploy", "inspect", "raid", "bios", "rescue", "firmware", "console", "storage")
_OPTICAL = frozenset({"CD", "DVD"})
_UEFI = "uefi"


class Subject:
    """A node of this conductor, as a read-only task, and the options."""

    def __init__(self, conf: Configuration, task: base.Task) -> None:
        self.conf = conf
        self.task = task

    @property
    def boots_ramdisk(self) -> bool:
        """True if the node's boot interface boots ramdisks."""
        return self.task.node.boot_interface in options.RAMDISK_BOOT

    @property
    def boots_from_virtual_drive(self) -> bool:
        """True if the node's boot interface inserts a medium into a virtual drive."""
        return self.task.node.boot_interface == options.VIRTUAL_MEDIA


def find_settings(subject: Subject) -> Iterator[Verdict]:
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


def find_power(subject: Subject) -> Iterator[Verdict]:
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


def find_boot_mode(subject: Subject) -> Iterator[Verdict]:
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


def find_virtual_drives(subject: Subject) -> Iterator[Verdict]:
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


def find_ports(subject: Subject) -> Iterator[Verdict]:
    """Count the node's ports, and those that boot."""
    task = subject.task
    count, booting = len(task.ports), sum(bool(port.pxe_enabled) for port in task.ports)
    do = "Add a port with the address of the machine's network card: POST /v1/ports."
    network = task.node.boot_interface in options.NETWORK_BOOT
    if network and not booting:
        yield failed(f"none of {count} ports has pxe_enabled, but the node boots by network", do)
    elif not count and subject.boots_ramdisk:
        yield warning("the node has no port: its ramdisk is found by its UUID only", do)
    else:
        yield passed(f"{count} ports, {booting} with pxe_enabled")


def find_ramdisk(subject: Subject) -> Iterator[Verdict]:
    """Fetch the start of the files that this node boots to clean and deploy."""
    node = subject.task.node
    if not subject.boots_ramdisk:
        return
    media = node.boot_interface == options.VIRTUAL_MEDIA
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


def find_agent(subject: Subject) -> Iterator[Verdict]:
    """Report when the machine last asked for boot files and looked up its node."""
    if not subject.boots_ramdisk:
        return
    task = subject.task
    addresses = [port.address for port in task.ports]
    for what in (boot_requests.FILE, boot_requests.LOOKUP):
        age = boot_requests.SEEN.seconds_since(what, task.node.uuid, addresses)
        if age is not None:
            yield passed(f"the machine last {what} {age:.0f} s ago")
    agent = task.agent
    if agent is None:
        yield passed("no agent has sent a heartbeat since the last boot; DHCP is not examined")
        return
    at = agent.heard_at.replace(tzinfo=datetime.UTC).isoformat(timespec="seconds")
    seconds = clock.lived(agent.heard_at)
    yield passed(f"the agent sent its last heartbeat at {at}, {seconds:.0f} s ago")


_TO_BMC = ("ipmitool", "bmc_address", "bmc_port", "bmc_tls", "bmc_root", "bmc_login")
_BMC_ADVICE = "Read the text: it says what to correct in driver_info or on the BMC."

_BEFORE: tuple[Check[Subject], ...] = (
    Check(
        "settings",
        "Each interface accepts the node's fields, as ``GET /v1/nodes/{node}/validate`` checks "
        "them.",
        find_settings,
        "Correct the node's fields.",
    ),
)
_AFTER: tuple[Check[Subject], ...] = (
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
        find_ramdisk,
        "Correct deploy_kernel and deploy_ramdisk in driver_info.",
    ),
    Check(
        "agent",
        "The times of the machine's last request for a boot file and of its last lookup, as far as "
        "this conductor has served them since its start, and of the agent's last heartbeat. DHCP "
        "is not examined.",
        find_agent,
        "Ask again.",
    ),
)

TABLE: tuple[Check[Subject], ...] = (*_BEFORE, *_AFTER)
"""The checks of every node; those of its driver stand after the first."""


def table_of(subject: Subject) -> tuple[Check[Subject], ...]:
    """Return the checks of a node: those of every node, and the drivers' on the way to its BMC."""
    found: dict[str, Check[Subject]] = {}
    for interface in subject.task.driver.interfaces():
        for check in interface.connection_checks:
            found.setdefault(check.name, _of_subject(check))
    return (*_BEFORE, *found.values(), *_AFTER)


def _of_subject(check: Check[base.Task]) -> Check[Subject]:
    """Return a driver's check, which takes a task, as a check of a node."""

    def find(subject: Subject) -> Iterator[Verdict]:
        yield from check.find(subject.task)

    return Check(check.name, check.about, find, check.do, check.needs)
