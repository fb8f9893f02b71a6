"""The driver of ``direct://`` (entry point group ``oslo.messaging.drivers``)."""

from __future__ import annotations

import errno
import functools
import logging
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Never

import oslo_messaging

from ironic_lite import errors
from ironic_lite.core import config, log_lines, options
from ironic_lite.core.configuration import Configuration
from ironic_lite.rpc.direct import addresses, credentials, tcp, tls
from ironic_lite.rpc.sockets import driver, frames, kernel, listener, sender, transport_errors

LOG = logging.getLogger(__name__)

_GROUP = credentials.GROUP
_LARGEST_GREETING = 1024
_LEAST_SECONDS = 0.001
_HANDSHAKE_FAULTS = (
    OSError,
    ValueError,
    transport_errors.BadFrame,
    transport_errors.FrameTooLarge,
)
_NO_NOTIFICATIONS = "direct:// carries no notifications"


class DirectDriver(driver.SocketDriver):
    """oslo.messaging over TCP, with certificates on both sides.

    A call needs the name of its server, which is its address. There are no other servers, no
    fanout, and no notifications.
    """

    def __init__(
        self,
        conf: Configuration,
        url: oslo_messaging.TransportURL,
        default_exchange: str | None = None,
        allowed_remote_exmods: Sequence[str] | None = None,
    ) -> None:
        """Read the certificates. Raises config.ConfigError if URL or options cannot be used."""
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        if url.hosts or url.virtual_host:
            raise config.ConfigError(
                reason="[DEFAULT]transport_url: direct:// takes no host and no path, because the "
                "names of the conductors are their addresses; set the port with [direct]port"
            )
        conf.register_opts(options.GROUPS[_GROUP], group=_GROUP)
        self._settings = conf[_GROUP]
        self._complaints = log_lines.LogThrottle()
        self._credentials = credentials.Credentials(credentials.find_files(conf))
        self._pool = sender.Pool(self._connect, float(self._settings.connect_timeout))

    # -- sending -----------------------------------------------------------------------------

    def _servers_of(self, target: oslo_messaging.Target) -> Sequence[str]:
        """Return the name of the server."""
        if target.fanout or not target.server:
            raise transport_errors.NoServerNamed(
                "direct:// sends a call to one conductor, which must be named"
            )
        return [target.server]

    def _connect(self, address: str, deadline: float | None) -> sender.Connection:
        """Connect to the conductor ``address``, and wait until it has accepted this client.

        A conductor that does not answer has received nothing, so another one may be called.
        """
        host, port = addresses.address_of(address, self._settings.port)
        place = f"{host}:{port}"
        try:
            sock = tcp.connect(host, port, self._limit_to_connect(deadline), self._silence)
        except socket.gaierror as why:
            raise _absent(
                f"the name {host} of a conductor cannot be resolved: {why.strerror}; make it known "
                "to DNS or /etc/hosts of this machine, or give the conductor another [DEFAULT]host"
            ) from None
        except (OSError, ValueError, OverflowError) as why:
            raise _absent(f"no conductor listens at {place}: {_problem(why)}") from None
        try:
            cipher = tls.TlsCipher(self._credentials.client(), server=host)
            end = time.monotonic() + self._limit_to_connect(deadline)
            greeting = _shake_hands(sock, cipher, end)
            self._check_name(greeting, address, place)
            kernel.bound_receiving(sock, 0)
        except BaseException as why:
            sock.close()
            if isinstance(why, _HANDSHAKE_FAULTS):
                self._refuse_server(place, why)
            raise
        found = sender.Connection(sock, place, self._limit, cipher)
        found.heard_at = time.monotonic()  # by its greeting
        return found

    def _check_name(self, greeting: frames.Body, name: str, place: str) -> None:
        """Check that a conductor has the name by which it was called."""
        if greeting.get("server") != name:
            text = f"the conductor at {place} is {greeting.get('server')}, not {name}"
            self._complain("Check the addresses of both names, and [DEFAULT]host there: %s", text)
            raise _absent(text)

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
            case _:
                text = f"no conductor answers at {place}: {_problem(why)}"
        raise _absent(text) from None

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

    def send_notification(
        self,
        target: oslo_messaging.Target,
        ctxt: frames.Body,
        message: frames.Body,
        version: float,
        retry: int | None = None,
    ) -> None:
        """Refuse. Raises NotImplementedError."""
        raise NotImplementedError(_NO_NOTIFICATIONS)

    # -- listening ---------------------------------------------------------------------------

    def check(self, target: oslo_messaging.Target) -> None:
        """Check the own certificate, and that [direct]bind_host is an address of this machine."""
        host, _ = addresses.address_of(target.server, self._settings.port)
        self._credentials.check_own(host)
        try:
            tcp.listen(self._settings.bind_host, 0, self._silence).close()
        except OSError as why:
            reason = f"[direct]bind_host: cannot listen at {self._settings.bind_host}"
            raise config.ConfigError(reason=f"{reason}: {_problem(why)}") from None

    def listen(
        self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None
    ) -> listener.Listener:
        """Listen for calls and casts to the server of ``target``.

        :raises config.ConfigError: the address is not of this machine, or clients would refuse
            its certificate.
        :raises errors.Unavailable: another process uses the port.
        """
        settings = self._settings
        host, port = addresses.address_of(target.server, settings.port)
        self._credentials.check_own(host)
        try:
            sock = tcp.listen(settings.bind_host, port, self._silence)
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
        server = listener.ServerSocket(
            sock, cipher=functools.partial(self._server_cipher, greeting)
        )
        return listener.Listener([server], self._limit, (batch_size, batch_timeout))

    def _server_cipher(self, greeting: bytes) -> tls.TlsCipher:
        return tls.TlsCipher(self._credentials.server(), greeting=greeting)

    def listen_for_notifications(
        self,
        targets_and_priorities: Sequence[tuple[oslo_messaging.Target, str]],
        pool: str | None,
        batch_size: int,
        batch_timeout: float | None,
    ) -> Never:
        """Refuse. Raises NotImplementedError."""
        raise NotImplementedError(_NO_NOTIFICATIONS)


def _shake_hands(sock: socket.socket, cipher: tls.TlsCipher, end: float) -> frames.Body:
    """Authenticate both sides; return the greeting of the server.

    The greeting shows that the server has accepted the client, which TLS 1.3 alone does not.

    :raises OSError: the server is refused, refuses this client, or is too slow.
    :raises transport_errors.BadFrame: it is another kind of server.
    """
    reader = frames.Reader(_LARGEST_GREETING, "greeting")
    received = b""
    while True:
        try:
            data = cipher.decrypt(received)
        finally:
            if reply := cipher.take_reply():
                sock.sendall(reply)
        for greeting in reader.feed(data):
            return greeting
        kernel.bound_receiving(sock, max(end - time.monotonic(), _LEAST_SECONDS))
        try:
            received = sock.recv(reader.wanted)
        except BlockingIOError:
            raise TimeoutError("it does not answer in time") from None
        if not received:
            raise ConnectionResetError("it has closed the connection")


def _absent(text: str) -> transport_errors.PeerAbsent:
    return transport_errors.PeerAbsent(text)


def _problem(why: Exception) -> str:
    if isinstance(why, ssl.SSLError):
        return str(why.reason or why)
    return transport_errors.reason(why) if isinstance(why, OSError) else str(why)
