"""Keys that sign erasure records."""

from __future__ import annotations

import pathlib

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def make_key(folder: pathlib.Path, name: str = "key.pem") -> str:
    """Write a new private key; return its path."""
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = folder / name
    pem = serialization.Encoding.PEM
    path.write_bytes(Ed25519PrivateKey.generate().private_bytes(pem, form, plain))
    path.chmod(0o600)
    return str(path)
