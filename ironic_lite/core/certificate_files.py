"""Certificates in files: hosts, dates, changes, and those that this process has in use."""

from __future__ import annotations

import datetime
import logging
import os
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from ironic_lite.core.json_types import Json

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Seconds between two looks at the files of certificates and keys."""
State = tuple[tuple[int, ...], ...]
"""Values that differ after a change of files."""
_MOST_BYTES = 4 * 1024 * 1024


def read_start(path: str) -> bytes:
    """Return the first bytes of a file. Raises OSError."""
    # O_NONBLOCK opens a pipe without waiting for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(_MOST_BYTES) or b""


def subject_names(pem: bytes) -> set[str]:
    """Return the hosts of the first certificate, in lower case. Raises ValueError."""
    # Few processes need the library, which is large.
    from cryptography import x509  # noqa: PLC0415

    extensions = x509.load_pem_x509_certificates(pem)[0].extensions
    try:
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    names = found.get_values_for_type(x509.DNSName)
    return {*(name.lower() for name in names), *map(str, found.get_values_for_type(x509.IPAddress))}


def validity(pem: bytes) -> tuple[datetime.datetime, datetime.datetime]:
    """Return the first and the last time of the first certificate. Raises ValueError."""
    from cryptography import x509  # noqa: PLC0415  as above

    found = x509.load_pem_x509_certificates(pem)[0]
    return found.not_valid_before_utc, found.not_valid_after_utc


def covers(names: set[str], host: str) -> bool:
    """Return whether one of the names, perhaps with a wildcard, is a host in lower case."""
    return host in names or f"*.{host.partition('.')[2]}" in names


def state(*paths: str) -> State:
    """Return values that differ after a change of a file."""
    found: list[tuple[int, ...]] = []
    for path in paths:
        try:
            about = os.stat(path)
            found.append((about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns))
        except OSError:
            found.append(())
    return tuple(found)


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate chain and its key, both in PEM.

    :raises ValueError: they cannot be read, do not belong together, or the key has a password.
    """
    try:
        # Without the last argument, OpenSSL would ask for a password on the terminal.
        context.load_cert_chain(certificate, key, lambda: "")
    except (OSError, ValueError) as why:
        raise ValueError(
            f"{certificate} and {key} are not a PEM certificate and its unencrypted key: "
            f"{getattr(why, 'reason', None) or why}"
        ) from None


class Pair:
    """The files of a certificate and its key; one thread looks at them.

    :param option: that names the certificate, for the log.
    """

    def __init__(self, option: str, certificate: str, key: str) -> None:
        self.option, self.certificate, self.key = option, certificate, key
        self.files = certificate, key
        self._seen = state(certificate, key)

    def renewed(self) -> bool:
        """Return whether the files have changed since the last look, and can be used.

        Files that cannot be used are logged once.
        """
        now = state(self.certificate, self.key)
        if now == self._seen:
            return False
        self._seen = now
        try:
            load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.certificate, self.key)
        except ValueError as why:
            LOG.warning(
                "%s: the certificate used before stays in use until the files change again: %s",
                self.option,
                why,
            )
            return False
        return True


class InUse(NamedTuple):
    """A certificate in use: its serial number in hexadecimal, and its end."""

    serial: str
    end: datetime.datetime


_IN_USE: dict[str, InUse] = {}


def note_use(option: str, path: str) -> None:
    """Record that this process uses the first certificate of a file from now on, and log it."""
    try:
        found = _first(read_start(path))
    except (OSError, ValueError):  # replaced in this moment; the next look finds it
        return
    _IN_USE[option] = found
    LOG.info("%s: serial number %s is in use, valid until %s", option, found.serial, found.end)


def in_use() -> Mapping[str, InUse]:
    """Return the certificates that this process uses, by option."""
    return _IN_USE


def gauges() -> Json:
    """Return the ends of the certificates in use, as in ``metrics.GAUGES``."""
    ends = [{"option": name, "value": one.end.timestamp()} for name, one in _IN_USE.items()]
    return {"certificate_not_after_seconds": ends}


def serial_number(pem: bytes) -> str:
    """Return the serial number of the first certificate. Raises ValueError."""
    return _first(pem).serial


def _first(pem: bytes) -> InUse:
    from cryptography import x509  # noqa: PLC0415  as above

    found = x509.load_pem_x509_certificates(pem)[0]
    return InUse(f"{found.serial_number:x}", found.not_valid_after_utc)
