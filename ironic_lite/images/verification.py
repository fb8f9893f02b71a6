"""Verification of images: their digest, and the format their content shows.

Both read the whole file, so results are remembered until the file changes, for all its names.
"""

from __future__ import annotations

import pathlib

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.images import cache, checksums, download, local_files

_KNOWN = 256  # files whose format is remembered
_PACKED = {
    b"\x1f\x8b\x08": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh91AY&SY": "bzip2",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
}
"""The first bytes of compressed files."""
_MOST_SUMS = 4 * 1024 * 1024  # bytes of a file of checksums
_FORMATS: local_files.Once[tuple[str, str | None]] = local_files.Once(_KNOWN)


def check(
    file: pathlib.Path, checksum: checksums.Checksum, *, said: str | None, shown: str
) -> str | None:
    """Return the format of a verified image.

    :param said: the format its owner gave, if any. With [conductor]disable_deep_image_inspection
        this is the result.
    :param shown: the image's address, for sentences.
    :raises errors.ImageUnusable: its digest or format differs, or the format is not permitted.
    :raises errors.LocalFileError: it cannot be read.
    """
    with local_files.explained(file):
        stamp = _prove_checksum(file, checksum, shown)
        reason = _packed_reason(file)
        if reason is not None:
            raise errors.ImageUnusable(image=shown, reason=reason)
        return _checked_format(file, stamp, said, shown)


def prove(file: pathlib.Path, checksum: checksums.Checksum, *, shown: str) -> None:
    """Refuse a file whose digest differs from its owner's, whatever its content.

    :param shown: its address, for sentences.
    :raises errors.ImageUnusable: its digest is another.
    :raises errors.LocalFileError: it cannot be read.
    """
    with local_files.explained(file):
        _prove_checksum(file, checksum, shown)


def computed(file: pathlib.Path) -> checksums.Checksum:
    """Return the checksum of a local file whose owner gave none.

    :raises errors.LocalFileError: it cannot be read.
    """
    with local_files.explained(file):
        return checksums.Checksum("sha256", checksums.known_digest(file, "sha256"))


def refuse_unwritable(file: pathlib.Path, path: str) -> None:
    """Refuse a local image that no disk can be made of, by its first bytes.

    :param path: where its address stands.
    :raises errors.InvalidParameter: it is missing, empty or compressed.
    """
    try:
        reason = _packed_reason(cache.local_file(file))
    except (errors.LocalFileError, OSError) as why:
        raise errors.InvalidParameter(path=path, reason=f"names {file}: {why}") from None
    if reason is not None:
        raise errors.InvalidParameter(path=path, reason=f"names {file}, but {reason}")


def _packed_reason(file: pathlib.Path) -> str | None:
    """Return why a file must not be written to a disk as it is, None if it may be."""
    head = local_files.read_regular(file, max(map(len, _PACKED)))
    if not head:
        return "it is empty"
    for mark, name in _PACKED.items():
        if head.startswith(mark):
            return f"it is compressed with {name}, and would be written as it is: unpack it"
    return None


def check_sums(source: download.Source, path: str) -> None:
    """Refuse the address of a file of checksums that may not be followed, without following it.

    :raises errors.InvalidParameter: naming ``path``.
    """
    if config.CONF.conductor.disable_support_for_checksum_files:
        reason = "must be digits: [conductor]disable_support_for_checksum_files is true"
        raise errors.InvalidParameter(path=path, reason=reason)
    cache.check(source, path)


def looked_up(
    source: download.Source, name: str, *, path: str, algorithm: str | None
) -> checksums.Checksum:
    """Return the checksum of an image in a file of checksums.

    :param name: of the image's file.
    :param path: where the address stands; ``algorithm`` is the one given beside it, if any.
    :raises errors.Error: the file cannot be fetched, or does not list the image.
    """
    file = cache.fetch(source.url, path)
    if file.stat().st_size > _MOST_SUMS:
        raise errors.ImageUnusable(image=source.shown, reason="it is too large for checksums")
    digits = checksums.listed(
        local_files.read_regular(file, _MOST_SUMS).decode(errors="replace"), name, algorithm
    )
    if digits is None:
        raise errors.ImageUnusable(image=source.shown, reason=f"it has no checksum of {name}")
    md5 = config.CONF.agent.allow_md5_checksum
    return checksums.bare(digits, path, algorithm=algorithm, md5=md5)


def _prove_checksum(
    file: pathlib.Path, checksum: checksums.Checksum, shown: str
) -> tuple[int, ...]:
    """Check the digest; return an identity of the file's content."""
    stamp = checksums.content_stamp(file)
    checksum.demand(checksums.known_digest(file, checksum.algorithm), shown)
    return stamp


def _checked_format(
    file: pathlib.Path, stamp: tuple[int, ...], said: str | None, shown: str
) -> str | None:
    conf = config.CONF.conductor
    if conf.disable_deep_image_inspection:
        return said
    found, unsafe = _FORMATS.get(stamp, lambda: _file_format(file))
    if unsafe is not None:
        raise errors.ImageUnusable(image=shown, reason=unsafe)
    if found not in conf.permitted_image_formats:
        some = ", ".join(conf.permitted_image_formats)
        reason = f"it is {found}; [conductor]permitted_image_formats has {some}"
        raise errors.ImageUnusable(image=shown, reason=reason)
    # A raw image may begin with a partition table.
    if said is not None and {said, found} not in ({said}, {"raw", "gpt"}):
        reason = f"it is {found}, but instance_info/image_disk_format is {said}"
        raise errors.ImageUnusable(image=shown, reason=reason)
    return said or ("raw" if found == "gpt" else found)


def _file_format(file: pathlib.Path) -> tuple[str, str | None]:
    """Return the format of a file, and the reason if it must not be read."""
    # Loading takes eight MiB, with the cryptography of LUKS, which a conductor without images does
    # not need.
    from oslo_utils.imageutils import format_inspector  # noqa: PLC0415

    try:
        inspector = format_inspector.detect_file_format(str(file))
        if inspector is None:
            return "unknown", "its content is of no known format"
        inspector.safety_check()
    except format_inspector.SafetyCheckFailed as why:
        return "unsafe", f"it is not safe to read: {', '.join(sorted(why.failures))}"
    except format_inspector.ImageFormatError as why:
        return "unknown", f"its content is of no single format: {why}"
    return str(inspector), None
