"""Images that are what they should be, and others."""

import pathlib
import shutil
import struct
from collections.abc import Iterator

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.images import checksums, verification

MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    yield
    for name in ("permitted_image_formats", "disable_deep_image_inspection"):
        config.CONF.clear_override(name, "conductor")


def _raw(file: pathlib.Path) -> pathlib.Path:
    file.write_bytes(b"no format at all" * 65536)
    return file


def _gpt(file: pathlib.Path) -> pathlib.Path:
    """A protective master boot record (UEFI 2.10, 5.2.3)."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, 2047)
    file.write_bytes(b"\0" * 446 + entry + b"\0" * 48 + b"\x55\xaa" + b"\0" * MIB)
    return file


def _qcow2(file: pathlib.Path, backing: bytes = b"") -> pathlib.Path:
    """The header of a qcow2 image of version 3; ``backing`` names a file it is laid over."""
    at = 112 if backing else 0
    header = struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        b"QFI\xfb", 3, at, len(backing), 16, MIB, 0, 1, 0x30000, 0x10000, 1, 0, 0, 0, 0, 0, 4, 104,
    )  # fmt: skip
    file.write_bytes((header + b"\0" * 8 + backing).ljust(MIB, b"\0"))
    return file


def _check(file: pathlib.Path, said: str | None = None) -> str | None:
    checksum = checksums.Checksum("sha256", checksums.digest(file, "sha256"))
    return verification.check(file, checksum, said=said, shown="http://images.example/x")


def test_a_format_is_told_by_the_content(tmp_path: pathlib.Path) -> None:
    """A partition table makes no other format of a raw image."""
    assert _check(_raw(tmp_path / "a")) == "raw"
    assert _check(_gpt(tmp_path / "b")) == "raw"
    assert _check(_gpt(tmp_path / "b"), "raw") == "raw"
    assert _check(_qcow2(tmp_path / "c")) == "qcow2"
    assert _check(_qcow2(tmp_path / "c"), "qcow2") == "qcow2"


def test_image_with_a_wrong_format_name_is_refused(tmp_path: pathlib.Path) -> None:
    """Taken for raw, a qcow2 image would be written as it stands."""
    with pytest.raises(errors.ImageUnusable, match="it is qcow2"):
        _check(_qcow2(tmp_path / "a"), "raw")
    with pytest.raises(errors.ImageUnusable, match="it is raw"):
        _check(_raw(tmp_path / "b"), "qcow2")


def test_an_image_that_names_files_of_its_reader_is_refused(tmp_path: pathlib.Path) -> None:
    """A backing file is read by whoever converts the image."""
    with pytest.raises(errors.ImageUnusable, match="not safe"):
        _check(_qcow2(tmp_path / "a", b"/etc/shadow"))


def test_the_operator_says_which_formats_there_may_be(tmp_path: pathlib.Path) -> None:
    """And may switch looking off."""
    config.CONF.set_override("permitted_image_formats", ["raw"], "conductor")
    with pytest.raises(errors.ImageUnusable, match="permitted_image_formats"):
        _check(_qcow2(tmp_path / "a"))
    config.CONF.set_override("disable_deep_image_inspection", True, "conductor")
    assert _check(_qcow2(tmp_path / "a"), "qcow2") == "qcow2"
    assert _check(_qcow2(tmp_path / "a")) is None


def test_another_file_under_the_same_name_is_read_again(tmp_path: pathlib.Path) -> None:
    """What is remembered is of the file as it was."""
    file = _raw(tmp_path / "a")
    first = checksums.Checksum("sha256", checksums.digest(file, "sha256"))
    verification.check(file, first, said=None, shown="x")
    shutil.copy(_gpt(tmp_path / "b"), file)
    with pytest.raises(errors.ImageUnusable, match="sha256"):
        verification.check(file, first, said=None, shown="x")


def test_a_file_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    """As a fault of the conductor's machine."""
    with pytest.raises(errors.LocalFileError, match="none"):
        verification.check(
            tmp_path / "none", checksums.Checksum("sha256", "0" * 64), said=None, shown="x"
        )
