"""The ``direct://`` transport: oslo.messaging over TCP and TLS, without a broker.

A conductor listens at a TCP port of its machine, and its name is its address: a client connects to
``[DEFAULT]host`` of the conductor. Both sides show a certificate of the operator's own authority.
`DirectDriver` is the class oslo.messaging loads.
"""

from __future__ import annotations

import datetime
import errno
import logging
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Never

import oslo_messaging

from ironic_lite import errors, membership
from ironic_lite.core import certificate_files, clock, config, log_lines, options
from ironic_lite.core.options import Configuration
from ironic_lite.rpc.sockets import client, driver, frames
from ironic_lite.rpc.sockets import server as socket_server


def address_of(name: str, port: int) -> tuple[str, int]:
    """Return the host name and the TCP port of a conductor.

    :param name: such as ``rack-one``, or ``rack-one:3`` for the third process of a machine.
    :param port: of the first process of each machine.
    """
    return membership.machine_name(name), port + membership.process_number(name) - 1


# TCP sockets that notice the loss of their peer's machine.

BACKLOG = 1024
_PROBES_PER_LIMIT = 3


def connect_tcp(host: str, port: int, seconds: float, silence: int) -> socket.socket:
    """Return a socket connected to a host.

    :param seconds: limit for each address of the host.
    :param silence: as of `notice_silence`.
    :raises OSError: there is no such host, it refuses, or it does not answer.
    :raises ValueError: the name cannot be the name of a host.
    """
    sock = socket.create_connection((host, port), timeout=seconds)
    try:
        notice_silence(sock, silence)
    except BaseException:
        sock.close()
        raise
    return sock


def listen_tcp(host: str, port: int, silence: int) -> socket.socket:
    """Return a socket that listens; its connections have its options.

    :param host: an address of this machine; ``::`` stands for all, of IPv4 and IPv6.
    :param silence: as of `notice_silence`.
    :raises OSError: the address is in use, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    dual = host == "::" and socket.has_dualstack_ipv6()
    server = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=dual)
    notice_silence(server, silence)
    return server


def notice_silence(sock: socket.socket, seconds: int) -> None:
    """Let the kernel end a connection whose peer acknowledges nothing for some seconds.

    Small messages are sent without delay.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    pause = max(1, seconds // _PROBES_PER_LIMIT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, pause)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, pause)
    # This limit replaces the number of probes.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)


# The certificate of this process and its authority, read again when the files change.

LOG = logging.getLogger(__name__)

GROUP = "direct"
OPTION = f"[{GROUP}]cert_file"
"""The name of the certificate in logs, checks and metrics."""


class Files(NamedTuple):
    """Paths of files in PEM."""

    cert_file: str
    key_file: str
    ca_file: str


class _Contexts(NamedTuple):
    client: ssl.SSLContext
    server: ssl.SSLContext


class Credentials:
    """The TLS contexts of a process; one object serves all threads."""

    def __init__(self, files: Files) -> None:
        """Read the files. Raises config.ConfigError if one of them cannot be used."""
        self._files = files
        self._loaded = certificate_files.state(*files), _read_contexts(files)
        certificate_files.note_use(OPTION, files.cert_file)

    def client(self) -> ssl.SSLContext:
        """Return the context for connections to conductors."""
        return self._current_contexts().client

    def server(self) -> ssl.SSLContext:
        """Return the context for connections of clients."""
        return self._current_contexts().server

    def check_own(self, host: str) -> None:
        """Check that clients will accept the certificate of this machine.

        :param host: the name or address by which clients call this machine.
        :raises config.ConfigError: the certificate is for other hosts, or is not valid now.
        """
        path = self._files.cert_file
        try:
            pem = certificate_files.read_start(path)
            known = certificate_files.subject_names(pem)
            begin, end = certificate_files.validity(pem)
        except (OSError, ValueError) as why:
            raise config.ConfigError(
                reason=f"[{GROUP}]cert_file {path}: {_certificate_problem(why)}"
            ) from None
        if not certificate_files.covers(known, host.lower()):
            names = ", ".join(sorted(known)) or "no host"
            reason = (
                f"[{GROUP}]cert_file {path}: valid for {names}, and clients call {host}; make a "
                f"certificate with the subject alternative name {host}, or correct [DEFAULT]host"
            )
            raise config.ConfigError(reason=reason)
        if not begin <= clock.now().replace(tzinfo=datetime.UTC) <= end:
            reason = (
                f"[{GROUP}]cert_file {path}: valid from {begin} to {end}, or the clock is wrong"
            )
            raise config.ConfigError(reason=reason)

    def _current_contexts(self) -> _Contexts:
        """Return the contexts of the present files, or of the last usable ones."""
        # Without a lock, which a fork could copy while it is held; two threads may read the files.
        known, contexts = self._loaded
        state = certificate_files.state(*self._files)
        if state == known:
            return contexts
        try:
            contexts = _read_contexts(self._files)
        except config.ConfigError as why:
            LOG.warning("The files used before stay in use until these change: %s", why)
        else:
            LOG.info("The changed certificates of [%s] are in use", GROUP)
            certificate_files.note_use(OPTION, self._files.cert_file)
        self._loaded = state, contexts
        return contexts


def find_files(conf: Configuration) -> Files:
    """Return the configured files. Raises config.ConfigError if an option is unset."""
    settings = conf[GROUP]
    missing = [name for name in Files._fields if not settings[name]]
    if missing:
        names = ", ".join(f"[{GROUP}]{name}" for name in missing)
        raise config.ConfigError(
            reason=f"[DEFAULT]transport_url: direct:// needs {names}: a certificate of this "
            "machine, its key, and the authority of all machines of the service"
        )
    return Files(*(settings[name] for name in Files._fields))


def _read_contexts(files: Files) -> _Contexts:
    client = _read_context(ssl.PROTOCOL_TLS_CLIENT, files)
    # The subject alternative names count alone, as for the checks of the own certificate.
    client.hostname_checks_common_name = False
    server = _read_context(ssl.PROTOCOL_TLS_SERVER, files)
    server.verify_mode = ssl.CERT_REQUIRED
    # Tickets would resume a session, but connections are kept, and carry data only.
    server.num_tickets = 0
    return _Contexts(client, server)


def _read_context(protocol: int, files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        # Without the function, the library would ask the terminal for the password of a key.
        context.load_cert_chain(files.cert_file, files.key_file, lambda: "")
    except (OSError, ValueError) as why:
        reason = (
            f"[{GROUP}]cert_file {files.cert_file} and key_file {files.key_file}: "
            f"{_certificate_problem(why)}; they must be readable, in PEM, belong together, and "
            "need no password"
        )
        raise config.ConfigError(reason=reason) from None
    try:
        context.load_verify_locations(cafile=files.ca_file)
    except (OSError, ValueError) as why:
        reason = (
            f"[{GROUP}]ca_file {files.ca_file}: {_certificate_problem(why)}; it must be readable, "
            "with certificates of authorities in PEM"
        )
        raise config.ConfigError(reason=reason) from None
    return context


def _certificate_problem(why: Exception) -> str:
    return (isinstance(why, OSError) and why.strerror) or str(why)


_GROUP = GROUP
_LARGEST_GREETING = 1024
_LEAST_SECONDS = 0.001
_HANDSHAKE_FAULTS = (
    OSError,
    ValueError,
    frames.BadFrame,
    frames.FrameTooLarge,
)


class DirectDriver(driver.SocketDriver):
    """oslo.messaging over TCP, with certificates on both sides.

    A call needs the name of its server, which is its address. There are no other servers, no
    fanout, and no notifications.
    """

    def __init__(self, conf: Configuration, url: oslo_messaging.TransportURL, **more: Any) -> None:
        """Read the certificates. Raises config.ConfigError if URL or options cannot be used."""
        super().__init__(conf, url, **more)
        if url.hosts or url.virtual_host:
            raise config.ConfigError(
                reason="[DEFAULT]transport_url: direct:// takes no host and no path, because the "
                "names of the conductors are their addresses; set the port with [direct]port"
            )
        conf.register_opts(options.GROUPS[_GROUP], group=_GROUP)
        self._settings = conf[_GROUP]
        self._complaints = log_lines.LogThrottle()
        self._credentials = Credentials(find_files(conf))
        self._pool = client.Pool(self._connect, float(self._settings.connect_timeout))

    # -- sending -----------------------------------------------------------------------------

    def _servers_of(self, target: oslo_messaging.Target) -> Sequence[str]:
        """Return the name of the server."""
        if target.fanout or not target.server:
            raise frames.NoServerNamed(
                "direct:// sends a call to one conductor, which must be named"
            )
        return [target.server]

    def _connect(self, address: str, deadline: float | None) -> client.Connection:
        """Connect to the conductor ``address``, and wait until it has accepted this client.

        A conductor that does not answer has received nothing, so another one may be called.
        """
        host, port = address_of(address, self._settings.port)
        place = f"{host}:{port}"
        try:
            sock = connect_tcp(host, port, self._limit_to_connect(deadline), self._silence)
        except socket.gaierror as why:
            raise frames.PeerAbsent(
                f"the name {host} of a conductor cannot be resolved: {why.strerror}; make it known "
                "to DNS or /etc/hosts of this machine, or give the conductor another [DEFAULT]host"
            ) from None
        except (OSError, ValueError, OverflowError) as why:
            raise frames.PeerAbsent(f"no conductor listens at {place}: {_problem(why)}") from None
        try:
            end = time.monotonic() + self._limit_to_connect(deadline)
            sock.settimeout(self._limit_to_connect(deadline))
            sock = self._credentials.client().wrap_socket(sock, server_hostname=host)
            self._check_name(_read_greeting(sock, end), address, place)
        except BaseException as why:
            sock.close()
            if isinstance(why, _HANDSHAKE_FAULTS):
                self._refuse_server(place, why)
            raise
        found = client.Connection(sock, place, self._limit)
        found.heard_at = time.monotonic()  # by its greeting
        return found

    def _check_name(self, greeting: frames.Body, name: str, place: str) -> None:
        """Check that a conductor has the name by which it was called."""
        if greeting.get("server") != name:
            text = f"the conductor at {place} is {greeting.get('server')}, not {name}"
            self._complain("Check the addresses of both names, and [DEFAULT]host there: %s", text)
            raise frames.PeerAbsent(text)

    def _refuse_server(self, place: str, why: Exception) -> Never:
        """Raise the error of a handshake, and log what an operator must correct."""
        match why:
            case ssl.SSLCertVerificationError():
                what = why.verify_message
                text = f"the certificate of the conductor at {place} is refused: {what}"
                self._complain("Check [direct]ca_file here and cert_file there: %s", text)
            case ssl.SSLError():
                text = f"no TLS with the conductor at {place}: {_problem(why)}"
                self._complain("Check [direct]cert_file here and ca_file there: %s", text)
            case TimeoutError():
                text = f"no conductor answers at {place}: it does not answer in time"
            case _:
                text = f"no conductor answers at {place}: {_problem(why)}"
        raise frames.PeerAbsent(text) from None

    def _complain(self, advice: str, text: str) -> None:
        """Log a fault of the configuration, rarely, because each call meets it."""
        if self._complaints.new(text):
            LOG.warning(advice, text)

    def _limit_to_connect(self, deadline: float | None) -> float:
        """Return the seconds for one address, or for a handshake."""
        limit = float(self._settings.connect_timeout)
        if deadline is None:
            return limit
        return max(min(limit, deadline - time.monotonic()), _LEAST_SECONDS)

    @property
    def _silence(self) -> int:
        return int(self._settings.silence_timeout)

    def send_notification(self, *_given: object, **_named: object) -> Never:
        """Refuse. Raises NotImplementedError."""
        raise NotImplementedError("direct:// carries no notifications")

    listen_for_notifications = send_notification

    # -- listening ---------------------------------------------------------------------------

    def check(self, target: oslo_messaging.Target) -> None:
        """Check the own certificate, and that [direct]bind_host is an address of this machine."""
        host, _ = address_of(target.server, self._settings.port)
        self._credentials.check_own(host)
        try:
            listen_tcp(self._settings.bind_host, 0, self._silence).close()
        except OSError as why:
            reason = f"[direct]bind_host: cannot listen at {self._settings.bind_host}"
            raise config.ConfigError(reason=f"{reason}: {_problem(why)}") from None

    def listen(
        self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None
    ) -> socket_server.Listener:
        """Listen for calls and casts to the server of ``target``.

        :raises config.ConfigError: the address is not of this machine, or clients would refuse
            its certificate.
        :raises errors.Unavailable: another process uses the port.
        """
        settings = self._settings
        host, port = address_of(target.server, settings.port)
        self._credentials.check_own(host)
        try:
            sock = listen_tcp(settings.bind_host, port, self._silence)
        except OSError as why:
            place = f"{settings.bind_host}, port {port}"
            if why.errno != errno.EADDRINUSE:
                reason = f"[direct]bind_host: cannot listen at {place}: {_problem(why)}"
                raise config.ConfigError(reason=reason) from None
            raise errors.Unavailable(
                f"[direct]port: another process listens at {place}; stop it, or give this "
                "conductor the name of another process ([DEFAULT]host = machine:2), or an address "
                "of its own ([direct]bind_host)."
            ) from None
        greeting = frames.encode({"server": target.server}, _LARGEST_GREETING)
        server = socket_server.ServerSocket(
            sock, context=self._credentials.server, greeting=greeting
        )
        return socket_server.Listener([server], self._limit, (batch_size, batch_timeout))


def _read_greeting(sock: socket.socket, end: float) -> frames.Body:
    """Return the greeting of the server until a time of the monotonic clock.

    The greeting shows that the server has accepted the client, which TLS 1.3 alone does not.

    :raises OSError: the server refuses this client, or is too slow.
    :raises frames.BadFrame: it is another kind of server.
    """
    reader = frames.Reader(_LARGEST_GREETING, "greeting")
    while True:
        sock.settimeout(max(end - time.monotonic(), _LEAST_SECONDS))
        if not (received := sock.recv(reader.wanted)):
            raise ConnectionResetError("it has closed the connection")
        for greeting in reader.feed(received):
            return greeting


def _problem(why: Exception) -> str:
    if isinstance(why, ssl.SSLError):
        return str(why.reason or why)
    return frames.system_reason(why) if isinstance(why, OSError) else str(why)
