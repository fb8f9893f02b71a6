"""Checks of certificates: when they expire, and files that hold none."""

from __future__ import annotations

import datetime
import itertools
import os
import pathlib
from collections.abc import Iterator

from ironic_lite.core import certificate_files, clock
from ironic_lite.core.configuration import Configuration
from ironic_lite.domain.examination import WARNING_DAYS, Verdict, failed, passed, warning

RENEW = "Replace the certificate and its key; new connections use them without a restart."
_MOST_FILES = 200
_DAY = 86400
_PEM = b"-----BEGIN CERTIFICATE-----"


def ends_in_days(pem_or_der: bytes) -> list[tuple[str, float]]:
    """Return the subject of each certificate, and the days until it expires.

    :raises ValueError: there is no certificate, or it is malformed.
    """
    # Few requests need the library, which is large.
    from cryptography import x509  # noqa: PLC0415

    if _PEM in pem_or_der:
        found = x509.load_pem_x509_certificates(pem_or_der)
    else:
        found = [x509.load_der_x509_certificate(pem_or_der)]
    now = clock.now().replace(tzinfo=datetime.UTC)
    return [
        (one.subject.rfc4514_string(), (one.not_valid_after_utc - now).total_seconds() / _DAY)
        for one in found
    ]


def check_end(what: str, days: float, do: str) -> Verdict:
    """Return the verdict about a certificate that expires in some days.

    :param what: a noun phrase that names the certificate.
    """
    if days < 0:
        return failed(f"{what} has expired {-days:.0f} days ago", do)
    if days < WARNING_DAYS:
        return warning(f"{what} expires in {days:.0f} days", do)
    return passed(f"{what} is valid for {days:.0f} more days")


def find_in_file(option: str, path: str, do: str) -> Iterator[Verdict]:
    """Check the certificate in a file that expires first.

    :param option: the option that names the file.
    """
    try:
        ends = ends_in_days(certificate_files.read_start(path))
    except OSError as why:
        reason = (why.strerror or type(why).__name__).lower()
        yield failed(f"{option} {path}: {reason}", "Correct the option, or the file's rights.")
        return
    except ValueError:
        yield failed(f"{option} {path}: has no certificate", "Put certificates in PEM there.")
        return
    subject, days = min(ends, key=lambda end: end[1])
    yield check_end(f"{option} {path} ({subject})", days, do)


def find_renewal(option: str, path: str) -> Iterator[Verdict]:
    """Compare the certificate that this process uses with that in its file.

    :param option: as in ``certificate_files.in_use``.
    """
    used = certificate_files.in_use().get(option)
    if used is not None:
        yield from find_difference(option, path, used.serial)


def find_difference(option: str, path: str, serial: str) -> Iterator[Verdict]:
    """Compare a file's certificate with a serial number in use, in hexadecimal."""
    try:
        stored = certificate_files.serial_number(certificate_files.read_start(path))
    except (OSError, ValueError):
        return  # the subject of `find_in_file`
    if stored != serial:
        yield failed(
            f"{option} {path}: has the serial number {stored}, and {serial} is in use",
            "A changed certificate is used after some seconds, if its key fits: see the log, and "
            "replace both files.",
        )


def find_of_rpc(conf: Configuration) -> Iterator[Verdict]:
    """Check the certificate and the authority of ``direct://``, if set."""
    files = conf.direct
    if files.cert_file:
        yield from find_in_file("[direct]cert_file", files.cert_file, RENEW)
        yield from find_renewal("[direct]cert_file", files.cert_file)
    if files.ca_file:
        yield from find_authorities("[direct]ca_file", files.ca_file)


def find_name(option: str, path: str, host: str) -> Iterator[Verdict]:
    """Check that the first certificate of a file is valid for a host.

    A file without a certificate is the subject of `find_in_file`.

    :param option: the option that names the file.
    :param host: a name or an IP address.
    """
    try:
        known = certificate_files.subject_names(certificate_files.read_start(path))
    except (OSError, ValueError):
        return
    if certificate_files.covers(known, host.lower()):
        yield passed(f"{option} {path}: valid for {host}")
    else:
        do = f"Make a certificate with the subject alternative name {host}."
        names = ", ".join(sorted(known)) or "no host"
        yield failed(f"{option} {path}: valid for {names}, and clients call {host}", do)


def find_authorities(option: str, path: str) -> Iterator[Verdict]:
    """Check the authorities in a file, or in the files of a folder.

    Report those that have expired or soon will; one verdict if all are valid.
    """
    place = pathlib.Path(path)
    files = sorted(_certificate_files(place)) if place.is_dir() else [path]
    do = "Add the authority's new certificate, and remove the old one."
    well = 0
    for file in files:
        for verdict in find_in_file(option, file, do):
            if verdict.do:
                yield verdict
            else:
                well += 1
    if well:
        yield passed(f"{option} {path}: the certificates of {well} files are valid")


def _certificate_files(folder: pathlib.Path) -> Iterator[str]:
    """Yield the files of a folder with certificates in PEM, and unreadable ones."""
    with os.scandir(folder) as found:
        for one in itertools.islice(found, _MOST_FILES):
            if one.is_file() and _may_be_certificate(one.path):
                yield one.path


def _may_be_certificate(path: str) -> bool:
    try:
        return _PEM in certificate_files.read_start(path)
    except OSError:
        return True
