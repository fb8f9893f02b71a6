"""The private key that signs erasure records; it never leaves this module."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import pathlib
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ironic_lite.core import certificate_files, config

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LOG = logging.getLogger(__name__)

OPTION = "[conductor]evidence_key_file"
_LARGEST = 64 * 1024
"""Bytes of a key file; a key has about 120."""
_MAKE = "Make a new key with 'openssl genpkey -algorithm ed25519 -out FILE'."


@dataclasses.dataclass(frozen=True, slots=True)
class EvidenceKey:
    """An Ed25519 key: ``name`` is made of its public part, ``pem`` is the public key."""

    name: str
    pem: str
    _private: Ed25519PrivateKey = dataclasses.field(repr=False)

    def sign(self, data: bytes) -> str:
        """Return the signature of exactly these bytes, in hexadecimal."""
        return self._private.sign(data).hex()


class FoundKey(NamedTuple):
    """A usable key; ``exposed`` explains who else may use its file, and what to do; or None."""

    key: EvidenceKey
    exposed: str | None


class KeyFile:
    """The key in use, and its file, which may get another key.

    :param path: of the file; None: records are not signed.
    :raises config.ConfigError: as `read`.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._seen = _file_state(path)
        self.current = load(path)
        """The key that signs; None without a file."""

    def renew(self, publish: Callable[[EvidenceKey], None]) -> None:
        """Use the key of a changed file, if it can be used.

        :param publish: stores its public part, before the first record refers to it. If it fails,
            the next call tries again.
        """
        now = _file_state(self._path)
        if now == self._seen:
            return
        try:
            key = load(self._path)
        except config.ConfigError as why:
            LOG.warning("The key used before signs until the file changes again: %s", why)
            self._seen = now
            return
        if key is not None and self.current is not None and key.name != self.current.name:
            publish(key)
            self.current = key
            LOG.info("%s: key %s is in use", OPTION, key.name)
        self._seen = now


def _file_state(path: str | None) -> certificate_files.State:
    return () if path is None else certificate_files.state(path)


def load(path: str | None) -> EvidenceKey | None:
    """Return the key of a PEM file, None without a file; log a warning if its group may read it.

    :raises config.ConfigError: as `read`.
    """
    if path is None:
        return None
    found = read(path)
    if found.exposed is not None:
        LOG.warning("%s", found.exposed)
    return found.key


def read(path: str) -> FoundKey:
    """Read the key of a PEM file, and judge who may read the file.

    :raises config.ConfigError: the file cannot be read, has no Ed25519 key, or everybody may use
        it.
    """
    content, about = _content(path)
    if about.st_mode & stat.S_IRWXO:
        raise _refusal(
            path,
            f"every user of this machine may use it (mode {_mode(about)}), so its signatures prove "
            f"nothing. {_MAKE} Give it mode 0600.",
        )
    key = _key(path, content)
    exposed = None
    # A file of root is read through its group: mode 0640.
    needed = stat.S_IRGRP if about.st_uid != os.geteuid() else 0
    if about.st_mode & stat.S_IRWXG & ~needed:
        exposed = (
            f"{OPTION}: the group of {path} may use it (mode {_mode(about)}), and sign erasure "
            "records. Give it mode 0600 and the user of the conductor as its owner."
        )
    return FoundKey(key, exposed)


def _content(path: str) -> tuple[bytes, os.stat_result]:
    try:
        if not pathlib.Path(path).is_file():  # opening a pipe would wait
            os.stat(path)
            raise _refusal(path, "it is no regular file")
        with pathlib.Path(path).open("rb") as file:
            return file.read(_LARGEST), os.fstat(file.fileno())
    except OSError as why:
        reason = (why.strerror or type(why).__name__).lower()
        raise _refusal(path, f"{reason}. {_MAKE}") from None


def _key(path: str, content: bytes) -> EvidenceKey:
    # Takes 8 MiB, and few conductors have a key.
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    try:
        private = serialization.load_pem_private_key(content, None)
    except TypeError:
        raise _refusal(path, f"its key is encrypted with a password. {_MAKE}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise _refusal(path, f"it has no private key in PEM. {_MAKE}") from None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise _refusal(path, f"its key is not of the kind Ed25519. {_MAKE}")
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = private.public_key()
    known = hashlib.sha256(public.public_bytes(serialization.Encoding.DER, form)).hexdigest()
    pem = public.public_bytes(serialization.Encoding.PEM, form).decode("ascii")
    return EvidenceKey(f"k-{known[:16]}", pem, private)


def _mode(about: os.stat_result) -> str:
    return f"{stat.S_IMODE(about.st_mode):04o}"


def _refusal(path: str, reason: str) -> config.ConfigError:
    return config.ConfigError(reason=f"{OPTION}: {path} cannot be used: {reason}", option=OPTION)
