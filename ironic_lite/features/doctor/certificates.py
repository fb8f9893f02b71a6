"""Checks of certificates: those in use, their hosts, and the authorities that are trusted."""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Iterator

from ironic_lite.checks import machine
from ironic_lite.core import certificate_files
from ironic_lite.core.options import Configuration
from ironic_lite.domain.examination import Verdict, failed, passed

_MOST_FILES = 200


def find_renewal(option: str, path: str) -> Iterator[Verdict]:
    """Compare the certificate that this process uses with that in its file.

    :param option: as in ``certificate_files.in_use``.
    """
    used = certificate_files.in_use().get(option)
    if used is not None:
        yield from find_serial_difference(option, path, used.serial)


def find_serial_difference(option: str, path: str, serial: str) -> Iterator[Verdict]:
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


def find_rpc_certificates(conf: Configuration) -> Iterator[Verdict]:
    """Check the certificate and the authority of ``direct://``, if set."""
    files = conf.direct
    if files.cert_file:
        yield from machine.find_certificate(
            "[direct]cert_file", files.cert_file, machine.RENEW_ADVICE
        )
        yield from find_renewal("[direct]cert_file", files.cert_file)
    if files.ca_file:
        yield from find_authorities("[direct]ca_file", files.ca_file)


def find_host_name(option: str, path: str, host: str) -> Iterator[Verdict]:
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
        for verdict in machine.find_certificate(option, file, do):
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
        return machine.PEM in certificate_files.read_start(path)
    except OSError:
        return True
