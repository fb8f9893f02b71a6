"""The private key that signs erasure records; it never leaves this module."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ironic_lite.core import config


@dataclasses.dataclass(frozen=True, slots=True)
class EvidenceKey:
    """An Ed25519 key: ``name`` is made of its public part, ``pem`` is the public key."""

    name: str
    pem: str
    _private: Ed25519PrivateKey = dataclasses.field(repr=False)

    def sign(self, data: bytes) -> str:
        """Return the signature of exactly these bytes, in hexadecimal."""
        return self._private.sign(data).hex()


def load(path: str | None) -> EvidenceKey | None:
    """Return the key of a PEM file, None without a file.

    :raises config.ConfigError: the file cannot be read, or has no Ed25519 key.
    """
    if path is None:
        return None
    try:
        private = serialization.load_pem_private_key(pathlib.Path(path).read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as why:
        text = f"[conductor]evidence_key_file: {path} cannot be used: {type(why).__name__}"
        raise config.ConfigError(text) from None
    if not isinstance(private, Ed25519PrivateKey):
        raise config.ConfigError(
            f"[conductor]evidence_key_file: {path} has no Ed25519 key; make one with "
            "'openssl genpkey -algorithm ed25519'"
        )
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = private.public_key()
    known = hashlib.sha256(public.public_bytes(serialization.Encoding.DER, form)).hexdigest()
    pem = public.public_bytes(serialization.Encoding.PEM, form).decode("ascii")
    return EvidenceKey(f"k-{known[:16]}", pem, private)
