"""The hosts and the dates of certificates in files."""

from __future__ import annotations

import datetime
import os

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
