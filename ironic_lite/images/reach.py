"""Sessions of HTTP that connect to no blocked network, whatever a name or redirection leads to,
and that end in time, whatever servers do.

The address that is judged is the one of the connection itself, so a name that answers once so and
once otherwise gains nothing. Proxies of the environment are not used: they would connect for us.
"""

from __future__ import annotations

import pathlib
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any

import requests
import requests.adapters
import urllib3.connection
import urllib3.connectionpool
import urllib3.exceptions

from ironic_lite import answers, errors
from ironic_lite.images import sources

MOST_REDIRECTS = 5
_OUTER = (
    *(requests.RequestException, urllib3.exceptions.ProtocolError),
    urllib3.exceptions.SSLError,
)
_HEADERS = 1024 * 1024
"""Bytes that an answer may have beside its body: http.client allows a hundred lines of 64 KiB."""


class Closed(OSError):
    """A connection led into a blocked network; nothing was sent."""

    def __init__(self, address: str, net: sources.Network) -> None:
        super().__init__(f"{address} is in {net}, closed by [conductor]image_blocked_networks")


class _Http(urllib3.connection.HTTPConnection):
    blocked: Sequence[sources.Network] = ()

    def _new_conn(self) -> socket.socket:
        return _judged(super()._new_conn(), self.blocked)


class _Https(urllib3.connection.HTTPSConnection):
    blocked: Sequence[sources.Network] = ()

    def _new_conn(self) -> socket.socket:
        return _judged(super()._new_conn(), self.blocked)


def _judged(sock: socket.socket, blocked: Sequence[sources.Network]) -> socket.socket:
    address = str(sock.getpeername()[0])
    net = sources.closed(address, blocked)
    if net is None:
        return sock
    sock.close()
    raise Closed(address, net)


class _Adapter(requests.adapters.HTTPAdapter):
    def __init__(self, blocked: Sequence[sources.Network], seconds: float, size: int) -> None:
        self._blocked = tuple(blocked)
        end, most = time.monotonic() + seconds, size + _HEADERS

        def bounds(timeout: float | None) -> answers.Bounds:
            left = max(0.0, end - time.monotonic())
            return answers.Bounds(most, left if timeout is None else min(left, timeout), left)

        self._answer = answers.bounded(bounds)
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {
            "http": self._pool(urllib3.connectionpool.HTTPConnectionPool, _Http),
            "https": self._pool(urllib3.connectionpool.HTTPSConnectionPool, _Https),
        }

    def _pool(self, kind: type[Any], connection: type[Any]) -> type[Any]:
        facts = {"blocked": self._blocked, "response_class": self._answer}
        bound = type(connection.__name__, (connection,), facts)
        return type(kind.__name__, (kind,), {"ConnectionCls": bound})


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return where an answer leads to; what it has besides is not read, it may be any size."""
        target = super().get_redirect_target(resp)
        if target is not None:
            resp.close()  # before it counts as read: then its connection would be used again
            resp._content = b""
            resp._content_consumed = True
        return target


def session(blocked: Sequence[sources.Network], *, seconds: float, size: int) -> requests.Session:
    """Return a session for the addresses of images; the caller closes it and sets time-outs.

    A connection into one of ``blocked`` raises ``requests.ConnectionError`` with ``Closed`` in it.

    :param seconds: for all that it does, from now on. The time-out for a read is also that for the
        headers of an answer as a whole.
    :param size: bytes that an answer may have.
    """
    made = _Session()
    made.trust_env = False
    made.max_redirects = MOST_REDIRECTS
    adapter = _Adapter(blocked, seconds, size)
    made.mount("http://", adapter)
    made.mount("https://", adapter)
    return made


def believed(said: str) -> bool | str:
    """Return whose certificates are believed, as requests takes it.

    :param said: ``[DEFAULT]webserver_verify_ca``.
    :raises errors.LocalFileError: the file of authorities is not there.
    """
    if said.lower() in ("true", "false"):
        return said.lower() == "true"
    if not pathlib.Path(said).exists():
        raise errors.LocalFileError(path=said, reason="[DEFAULT]webserver_verify_ca is not there")
    return said


def reason(why: BaseException) -> str:
    """Return the innermost cause of a fault: the outer ones only say which library was between."""
    while isinstance(why, _OUTER) and why.args:
        last = why.args[-1 if isinstance(why, urllib3.exceptions.ProtocolError) else 0]
        # The reason of an error of OpenSSL is a word, not an error.
        inner = last if isinstance(last, ssl.SSLError) else getattr(last, "reason", last)
        if not isinstance(inner, BaseException):
            break
        why = inner
    if isinstance(why, ssl.SSLCertVerificationError):
        hint = "[DEFAULT]webserver_verify_ca says whose certificates are believed"
        return f"{why.verify_message}; {hint}"
    # Whole sentences of urllib3 have the address in them, and that may have a password.
    return str(why) if isinstance(why, Closed) else type(why).__name__
