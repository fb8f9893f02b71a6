"""Checks of the way to a Redfish BMC, one for each layer: name, port, TLS, root, login."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import urllib.parse
from collections.abc import Iterator

from ironic_lite.core import bounded_http, clock, config
from ironic_lite.domain.examination import WARNING_DAYS, Check, Verdict, failed, passed, warning
from ironic_lite.drivers import allowed_networks, base, deadline
from ironic_lite.drivers.redfish.bmc import connection, faults, info, transport

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
def _connected(node: info.Info, tls: ssl.SSLContext | None) -> Iterator[socket.socket]:
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


def _host_and_port(node: info.Info) -> tuple[str, int]:
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
