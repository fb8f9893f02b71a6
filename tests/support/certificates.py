"""Certificates for tests, which are valid for a chosen number of days."""

from __future__ import annotations

import datetime
import ipaddress
import pathlib
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write(
    folder: pathlib.Path, days: float, name: str = "served", since: float = -400
) -> tuple[pathlib.Path, ...]:
    """Write a certificate for 127.0.0.1, its own authority; return its file and its key's.

    :param days: until it expires; negative if it has expired.
    :param since: days until it is valid; negative if it is.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=since))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def served_serial(port: int) -> str:
    """Return the serial number that a server on 127.0.0.1 shows to a new connection."""
    pem = ssl.get_server_certificate(("127.0.0.1", port), timeout=30)
    return f"{x509.load_pem_x509_certificate(pem.encode()).serial_number:x}"


class Authority:
    """An authority that signs certificates, in a folder."""

    def __init__(self, folder: pathlib.Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._now = datetime.datetime.now(datetime.UTC)
        extension = x509.BasicConstraints(ca=True, path_length=None)
        made = self._builder(self._subject, self._key, days=20).add_extension(extension, True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._signed(made))

    def issue(self, name: str, *hosts: str, days: float = 30) -> tuple[pathlib.Path, pathlib.Path]:
        """Write a certificate for hosts; return its file and its key's.

        :param days: until it expires; negative if it has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts or (name,)])
        made = self._builder(subject, key, days).add_extension(names, critical=False)
        files = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        files[0].write_bytes(self._signed(made))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: float
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - datetime.timedelta(days=400))
            .not_valid_after(self._now + datetime.timedelta(days=days))
        )

    def _signed(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
