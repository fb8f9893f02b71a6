"""Power control by ComputerSystem.Reset, and checks of the way to a BMC.

`SwitchingPower` polls for the result of a request.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import logging
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

from ironic_lite import errors
from ironic_lite.core import bounded_http, clock, config
from ironic_lite.domain import vocabulary
from ironic_lite.domain.examination import WARNING_DAYS, Check, Verdict, failed, passed, warning
from ironic_lite.drivers import allowed_networks, base, bmc_bases, deadline
from ironic_lite.drivers.bmc_bases import PowerChange, PowerCheck
from ironic_lite.drivers.redfish import boot, hardware
from ironic_lite.drivers.redfish.bmc import connection, faults, info, jobs, transport
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

# Checks of the way to a Redfish BMC, one for each layer: name, port, TLS, root, login.

_SECONDS = 4.0
_PORTS = {"http": 80, "https": 443}
_ROOT_BYTES = 1024 * 1024
_DAY = 86400


def find_address(task: base.Task) -> Iterator[Verdict]:
    """Resolve the host of redfish_address, and compare its addresses with those allowed."""
    host, port = _host_and_port(connection.settings(task))
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as why:
        reason = (getattr(why, "strerror", None) or type(why).__name__).lower()
        do = "Correct redfish_address, or the name server of the conductor's machine."
        yield failed(f"{host} cannot be resolved: {reason}", do)
        return
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    judge = allowed_networks.judge("redfish")
    for address in addresses:
        with contextlib.suppress(bounded_http.AddressRefused):
            judge(address)
            yield passed(f"{host} is {', '.join(addresses)}")
            return
    text = f"{host} ({', '.join(addresses)}) {allowed_networks.reason('redfish')}"
    yield failed(text, "Correct redfish_address, or [redfish]allowed_networks.")


def find_port(task: base.Task) -> Iterator[Verdict]:
    """Connect to the port of redfish_address."""
    node = connection.settings(task)
    with _connected(node, None):
        yield passed(f"port {_host_and_port(node)[1]} of {node.address} is open")


def find_tls(task: base.Task) -> Iterator[Verdict]:
    """Make a TLS connection; report a certificate that is not verified or expires soon."""
    node = connection.settings(task)
    if node.address.startswith("http:"):
        do = "Use https in redfish_address; over http everybody on the way reads the password."
        yield warning(f"{node.address} uses no TLS", do)
        return
    with _connected(node, transport.tls_context(node)) as sock:
        if not isinstance(sock, ssl.SSLSocket):
            return
        version, facts = sock.version(), sock.getpeercert() or {}
    if not node.verify:
        do = "Set redfish_verify_ca to the file of the BMC's authority, in [redfish]ca_folder."
        yield warning(f"{version}, but the certificate is not verified", do)
        return
    yield _judge_certificate(str(version), str(facts.get("notAfter", "")))


def _judge_certificate(version: str, until: str) -> Verdict:
    end = datetime.datetime.fromtimestamp(ssl.cert_time_to_seconds(until), datetime.UTC)
    days = (end.replace(tzinfo=None) - clock.now()).total_seconds() / _DAY
    text = f"{version}, certificate verified, valid for {days:.0f} more days"
    if days < WARNING_DAYS:
        return warning(text, "Install a new certificate on the BMC.")
    return passed(text)


def find_root(task: base.Task) -> Iterator[Verdict]:
    """Read the service root, which needs no login (DSP0266)."""
    node = connection.settings(task)
    seconds = deadline.within(_SECONDS)
    # Some BMCs fail if they are sent two requests at the same time.
    with connection.LINKS.held(node, task.confirm_lock):
        wire = transport.Wire(node, connect_timeout=seconds, read_timeout=seconds)
        try:
            with wire.unkept():
                root = wire.document(node.root_prefix)
        except faults.expected() as why:
            raise faults.explain(why, node, connect=seconds, read=seconds).error from None
    version = root.get("RedfishVersion")
    if not isinstance(version, str):
        text = f"{node.address}{node.root_prefix} is not the root of a Redfish service"
        yield failed(text, "Correct redfish_address: host, port, and path of the service root.")
        return
    about = [root.get("Vendor"), root.get("Product")]
    words = " ".join(str(word)[:64] for word in about if isinstance(word, str))
    yield passed(faults.scrub(f"Redfish {version} {words}", node))


def find_login(task: base.Task) -> Iterator[Verdict]:
    """Log in, or use the present login, and read the system."""
    document = connection.call(task, connection.Link.system_document)
    node = connection.settings(task)
    words = (document.get("Manufacturer"), document.get("Model"), document.get("BiosVersion"))
    about = " ".join(str(word)[:64] for word in words if isinstance(word, str) and word)
    user = f"user {node.username}" if node.username else "no user"
    yield passed(faults.scrub(f"{user} reads the system ({about or 'it has no model'})", node))


@contextlib.contextmanager
def _connected(node: info.RedfishInfo, tls: ssl.SSLContext | None) -> Iterator[socket.socket]:
    """Give a connection to the BMC.

    :raises errors.Error: the fault, as the driver reports it.
    """
    host, port = _host_and_port(node)
    seconds = deadline.within(min(_SECONDS, config.CONF.redfish.connect_timeout))
    limits = bounded_http.Limits(connect=seconds, whole=seconds, size=_ROOT_BYTES)
    judge = allowed_networks.judge("redfish")
    made = bounded_http.Connection(host, port, limits=limits, judge=judge, tls=tls)
    with contextlib.closing(made):
        try:
            made.connect()
        except faults.expected() as why:
            raise faults.explain(why, node, connect=seconds, read=seconds).error from None
        yield made.sock


def _host_and_port(node: info.RedfishInfo) -> tuple[str, int]:
    parts = urllib.parse.urlsplit(node.address)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


TABLE: tuple[Check[base.Task], ...] = (
    Check(
        "bmc_address",
        "The name in ``redfish_address`` is resolved, to an address that is allowed.",
        find_address,
        "Correct redfish_address in driver_info.",
    ),
    Check(
        "bmc_port",
        "The BMC's port is open.",
        find_port,
        "Correct redfish_address, or open the port in firewalls; if the BMC hangs, reset it.",
        needs=("bmc_address",),
    ),
    Check(
        "bmc_tls",
        "TLS works, the certificate is verified, and is valid for "
        f"{WARNING_DAYS} days; plain HTTP is a warning.",
        find_tls,
        "Correct redfish_verify_ca in driver_info, or the BMC's certificate.",
        needs=("bmc_port",),
    ),
    Check(
        "bmc_root",
        "The Redfish root is read without a login: version, vendor, product.",
        find_root,
        "Correct redfish_address; if it is right, reset the BMC.",
        needs=("bmc_port", "bmc_tls"),
    ),
    Check(
        "bmc_login",
        "User and password are accepted, and the system is found: model, BIOS version.",
        find_login,
        "Correct redfish_username, redfish_password and redfish_system_id in driver_info.",
        needs=("bmc_root",),
    ),
)
"""The checks, in the order of the way; each needs those before it."""


T = TypeVar("T")

ON, OFF = "On", "Off"
STATES: Mapping[str, str] = {ON: base.POWER_ON, OFF: base.POWER_OFF}
BETWEEN = frozenset({"PoweringOn", "PoweringOff", "Paused"})
"""The other values of Resource.PowerState (DSP0268), for machines in transition."""

CONFLICT_TRIES = 6
CONFLICT_SECONDS = 5.0
"""Retries and pause for a BMC that refuses a change with 409, because another one is running."""

FIRST_SECONDS = 1.0
"""Pause in seconds before the first poll: a machine takes seconds, and a poll reads its System."""

SILENCE_SECONDS = 2.0
"""Pause in seconds before a power request is sent again to a silent BMC."""

# The orders list the reset types for each target, best first.
TURN_ON = PowerChange(base.POWER_ON, ("On", "ForceOn"), ON)
TURN_OFF = PowerChange(base.POWER_OFF, ("ForceOff",), OFF)
SHUT_DOWN = PowerChange(base.SOFT_POWER_OFF, ("GracefulShutdown",), OFF, soft=True)
RESTART = PowerChange(base.REBOOT, ("ForceRestart", "PowerCycle"), ON)
SOFT_RESTART = PowerChange(base.SOFT_REBOOT, ("GracefulRestart",), ON, soft=True)
Resets = tuple[str, ...]


class RedfishPower(hardware.RedfishInterface, bmc_bases.SwitchingPower):
    """The power interface ``redfish``."""

    ways: ClassVar[Mapping[str, PowerChange[Any]]] = {
        way.target: way for way in (TURN_ON, TURN_OFF, SHUT_DOWN)
    }
    first_pause = 1.5
    settle_seconds = 15.0
    connection_checks = TABLE

    def get_power_state(self, task: base.Task) -> str | None:
        """Return the power state with one GET on a warm session; None between on and off.

        :raises errors.HardwareError: see `connection.call`; or the state is not one of Redfish.
        """
        return self.get_power_and_health(task)[0]

    def get_power_and_health(self, task: base.Task) -> tuple[str | None, str | None]:
        """Return both from the same GET; the health is the worse one of the system's two."""
        return connection.call(task, _power_and_health)

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Power off, softly if asked, and on again; a machine that is off is only powered on.

        With ``disable_power_off``, or a BMC that cannot power off, the BMC restarts it in one
        request.

        :param timeout: seconds for each half; of a soft reboot, for the first half.
        :raises errors.PowerFailure: the BMC refused, or the state was not reached in time; or it
            cannot restart a machine with ``disable_power_off`` in one request.
        """
        deadline = time.monotonic() + RESTART.seconds(timeout)
        word, known = _await_answer(task, lambda: connection.call(task, _read_power), deadline)
        down, restart = (SHUT_DOWN, SOFT_RESTART) if soft else (TURN_OFF, RESTART)
        at_once = bool(known.intersection(restart.order))
        if word == OFF:
            self.off_and_on(task, timeout, soft=soft)
        elif task.node.disable_power_off or (at_once and not known.intersection(down.order)):
            self.restart(task, restart, timeout)
        else:
            self.off_and_on(task, timeout, soft=soft)

    def restore_boot_device(self, task: base.Task) -> None:
        """See `boot.restore_override`."""
        boot.restore_override(task)

    def tell(self, task: base.Task, way: PowerChange[Resets], deadline: float) -> PowerCheck | None:
        """Send the reset type; retry while the BMC is busy with another change.

        :raises errors.PowerFailure: the BMC refuses, or does not have such a reset type.
        """
        for left in reversed(range(CONFLICT_TRIES)):
            uris: list[str] = []
            refusal = _insist_on_reset(task, way, deadline, uris)
            if refusal is _ALREADY:
                return None
            if refusal is None:
                task.pause(FIRST_SECONDS)
                return functools.partial(_check_request, task, way, uris)
            later = time.monotonic() + CONFLICT_SECONDS < deadline
            if not (refusal.retry and left and later):
                failed = errors.PowerFailure(target=way.target, reason=refusal.reason)
                raise failed from refusal.cause
            LOG.info("Node %s: %s; trying again.", task.node.uuid, refusal.reason)
            task.pause(CONFLICT_SECONDS)
        raise errors.PowerFailure(target=way.target, reason="the BMC stays busy")

    def look(self, task: base.Task, seconds: float) -> str | None:
        """Read the power state, within the time limit of any request."""
        return connection.call(task, connection.Link.power_word)


def _read_power(link: connection.Link) -> tuple[str | None, set[str]]:
    """Return the power state in Redfish's word and the reset types of the system."""
    system = link.system()
    return system.json.get("PowerState"), _reset_types(system)


def _reset_types(system: Any) -> set[str]:
    return {reset.value for reset in system.get_allowed_reset_system_values()}


def _check_request(task: base.Task, way: PowerChange[Resets], uris: list[str]) -> None:
    """Raise PowerFailure if the BMC's task for a request has failed; forget a task that has ended.

    :param uris: the addresses of the task, empty without one.
    """
    try:
        if uris and jobs.check(task, uris, "carry out the request") in jobs.ENDED:
            uris.clear()
    except errors.BmcUnreachable:
        raise
    except errors.HardwareError as failed:
        if not isinstance(failed.__cause__, errors.BmcTaskFailed):
            raise
        raise errors.PowerFailure(target=way.target, reason=str(failed)) from failed.__cause__


def _insist_on_reset(
    task: base.Task, way: PowerChange[Resets], deadline: float, uris: list[str]
) -> _Refusal | None:
    """Send the reset; wait for a restarting BMC if the request may be sent twice.

    :raises errors.BmcUnreachable: the BMC does not answer by the deadline.
    """
    send = functools.partial(_send_reset, way=way, uris=uris)
    tell = functools.partial(connection.call, task, send, read=False)
    return _await_answer(task, tell, deadline) if way.repeatable else tell()


def _await_answer(task: base.Task, ask: Callable[[], T], deadline: float) -> T:
    """Retry a request while the BMC is silent, because it may be restarting.

    :raises errors.BmcUnreachable: the BMC does not answer by the deadline.
    """
    while True:
        try:
            return ask()
        except errors.BmcUnreachable as why:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            LOG.info("Node %s: %s Trying again.", task.node.uuid, why)
            task.pause(min(SILENCE_SECONDS, left))


@dataclasses.dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    retry: bool
    cause: errors.BmcBadAnswer | None = None


_ALREADY = _Refusal("the machine is already in that state", retry=False)


def _send_reset(
    link: connection.Link, way: PowerChange[Resets], uris: list[str]
) -> _Refusal | None:
    """Send the best reset type; a refusal counts as success if the state is already reached.

    :param uris: gets the addresses of the BMC's task.
    """
    system = link.system()
    already = not way.restarts and system.json.get("PowerState") == way.reached
    if already:
        return _ALREADY
    known = _reset_types(system)
    best = next((reset for reset in way.order if reset in known), None)
    if best is None:
        words = ", ".join(sorted(known))
        wanted = " or ".join(way.order)
        return _Refusal(f"the BMC at {link.node.address} has {words}, not {wanted}", retry=False)
    try:
        uris[:] = jobs.begun(link, lambda: system.reset_system(sushy.ResetType(best)))
    except sushy.exceptions.HTTPError as error:
        if not faults.is_refusal(error):
            raise
        if link.power_word() == way.reached and not way.restarts:
            return _ALREADY
        said = faults.detail(error, link.node)
        reason = f"the BMC at {link.node.address} refused {best}: {said}"
        cause = faults.refused(error, link.node)
        return _Refusal(reason, retry=error.status_code == HTTPStatus.CONFLICT, cause=cause)
    return None


def _power_and_health(link: connection.Link) -> tuple[str | None, str | None]:
    """Return the power state in our words, and the health."""
    system = link.system_document()
    boot.note_system(link.node, system)
    word, status = link.power_word(system), system.get("Status")
    told = (status.get("Health"), status.get("HealthRollup")) if isinstance(status, dict) else ()
    found = next((word for word in reversed(vocabulary.HEALTH) if word in told), None)
    if word is None or word in BETWEEN:
        return None, found
    if word not in STATES:
        reason = f"the PowerState {word[:64]!r} is not one of Redfish"
        raise errors.BmcBadAnswer(address=link.node.address, reason=reason)
    return STATES[word], found
