"""Checksums of images, as operators write them or as files list them."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os
import pathlib
import re
from collections.abc import Mapping

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.images import local_files

LENGTHS: Mapping[str, int] = {"sha512": 128, "sha256": 64, "md5": 32}
"""Hexadecimal digits of each kind, which identify a bare checksum as in the agent."""

STRONG = frozenset({"sha256", "sha512"})
"""Kinds by which a file may be recognized: nobody can make another file with the same digest."""

_KNOWN: local_files.Once[str] = local_files.Once(256)
_HEX = re.compile(r"[0-9a-fA-F]+")
_BSD = re.compile(r"(?P<kind>[\w-]+) *\((?P<name>.+)\) *= *(?P<value>[0-9a-fA-F]+)")
_GNU = re.compile(r"(?P<value>[0-9a-fA-F]+)[ \t]+[*]?(?P<name>\S.*)")


@dataclasses.dataclass(frozen=True, slots=True)
class Checksum:
    """``value``: lower-case hexadecimal digits; ``algorithm``: one of ``LENGTHS``."""

    algorithm: str
    value: str

    def matches(self, digest: str) -> bool:
        """Return whether a hexadecimal digest equals this checksum."""
        return hmac.compare_digest(self.value, digest.lower())

    def demand(self, digest: str, shown: str) -> None:
        """Refuse a file with another digest.

        :param shown: its address, for sentences.
        :raises errors.ImageUnusable: its digest differs from its owner's.
        """
        if not self.matches(digest):
            reason = f"its {self.algorithm} is {digest}, not {self.value}"
            raise errors.ImageUnusable(
                image=shown,
                reason=reason,
                algorithm=self.algorithm,
                expected=self.value,
                actual=digest,
            )


def bare(value: str, path: str, *, algorithm: str | None = None, md5: bool = False) -> Checksum:
    """Return a checksum given as digits.

    :param path: where it stands, such as ``instance_info/image_checksum``.
    :param algorithm: the given one; None takes it from the length.
    :param md5: whether the operator still allows it ([agent]allow_md5_checksum).
    :raises errors.InvalidParameter: naming ``path``.
    """
    digits = value.strip()
    said = algorithm.lower() if algorithm else _by_length(digits)
    if said not in LENGTHS or not _HEX.fullmatch(digits) or len(digits) != LENGTHS[said]:
        some = ", ".join(f"{count} of {name}" for name, count in LENGTHS.items())
        raise _wrong_checksum(
            path, f"must be hexadecimal digits: {some}; or a URL of a file with them"
        )
    if said == "md5" and not md5:
        raise _wrong_checksum(path, "is md5, which can be forged: give sha256 or sha512")
    return Checksum(said, digits.lower())


def _by_length(digits: str) -> str:
    return next((name for name, count in LENGTHS.items() if count == len(digits)), "")


def listed(text: str, name: str, algorithm: str | None = None) -> str | None:
    """Return the digits in a checksum file for the image ``name``; None without any.

    The file has one bare checksum, or lines as of sha256sum or of BSD's sha256, perhaps several for
    an image.

    :param algorithm: the wanted one; None takes the strongest of ``LENGTHS``.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) == 1 and _HEX.fullmatch(lines[0]) and _by_length(lines[0]):
        return lines[0]
    read = (_BSD.fullmatch(line) or _GNU.fullmatch(line) for line in lines)
    found = [one for one in read if one and one["name"].strip().rpartition("/")[2] == name]
    for kind in (algorithm,) if algorithm else LENGTHS:
        for one in found:
            if _line_algorithm(one) == kind:
                return one["value"]
    return found[0]["value"] if found else None  # its refusal tells which are possible


def _line_algorithm(line: re.Match[str]) -> str:
    """Return the algorithm of a line, ``""`` for one that is not in ``LENGTHS``."""
    by_length = _by_length(line["value"])
    said = line.groupdict().get("kind")
    # OpenSSL writes SHA2-256, and other programs SHA-256.
    plain = by_length if said is None else said.lower().replace("sha2-", "sha").replace("-", "")
    return by_length if plain == by_length else ""


def wanted(info: JsonView, where: str = "instance_info") -> tuple[str | None, str] | None:
    """Return ``(algorithm or None, digits or URL)`` of an instance's settings.

    None without a checksum. ``image_os_hash_algo`` with ``image_os_hash_value`` goes before
    ``image_checksum``.

    :raises errors.InvalidParameter, errors.MissingParameter: naming ``<where>/<key>``.
    """
    algorithm, value = info.get("image_os_hash_algo"), info.get("image_os_hash_value")
    if algorithm is not None or value is not None:
        for key in ("image_os_hash_algo", "image_os_hash_value"):
            if not info.get(key):
                raise errors.MissingParameter(path=f"{where}/{key}")
        _read_text(algorithm, f"{where}/image_os_hash_algo")
        if str(algorithm).lower() not in LENGTHS:
            raise _wrong_checksum(
                f"{where}/image_os_hash_algo", f"must be one of {', '.join(LENGTHS)}"
            )
        return str(algorithm).lower(), _read_text(value, f"{where}/image_os_hash_value")
    value = info.get("image_checksum")
    return None if value is None else (None, _read_text(value, f"{where}/image_checksum"))


def digest(file: pathlib.Path, algorithm: str) -> str:
    """Return the digest of a file, in lower-case hexadecimal digits.

    :raises OSError: it cannot be read.
    """
    with local_files.open_regular(file) as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def known_digest(file: pathlib.Path, algorithm: str) -> str:
    """Return the digest of a file; an unchanged file is not read again under any of its names.

    :raises OSError: it cannot be read.
    """
    return _KNOWN.get((algorithm, *content_stamp(file)), lambda: digest(file, algorithm))


def content_stamp(file: pathlib.Path) -> tuple[int, ...]:
    """Return an identity of a file's content, equal for all its names.

    :raises OSError: it is missing.
    """
    return stamp_of(file.stat())


def stamp_of(about: os.stat_result) -> tuple[int, ...]:
    """Return the same identity of an open file."""
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _read_text(value: object, path: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong_checksum(path, "must be text")
    return value.strip()


def _wrong_checksum(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)
