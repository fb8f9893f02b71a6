"""Checksums as operators write them."""

import hashlib
import pathlib
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.images import checksums

SHA256 = hashlib.sha256(b"image").hexdigest()
SHA512 = hashlib.sha512(b"image").hexdigest()
MD5 = hashlib.md5(b"image", usedforsecurity=False).hexdigest()
PATH = "instance_info/image_checksum"


@pytest.mark.parametrize(("digits", "algorithm"), [(SHA256, "sha256"), (SHA512, "sha512")])
def test_the_kind_of_a_checksum_is_told_by_its_length(digits: str, algorithm: str) -> None:
    """Case and surrounding space do not matter."""
    found = checksums.bare(f" {digits.upper()}\n", PATH)
    assert found == checksums.Checksum(algorithm, digits)
    assert found.matches(digits.upper())
    assert not found.matches(digits[:-1] + ("0" if digits[-1] != "0" else "1"))


@pytest.mark.parametrize("digits", ["", "abc", "g" * 64, SHA256[:-2], SHA256 + "00"])
def test_invalid_checksum_is_refused(digits: str) -> None:
    """By its place."""
    with pytest.raises(errors.InvalidParameter) as caught:
        checksums.bare(digits, PATH)
    assert caught.value.facts["path"] == PATH


def test_the_algorithm_said_must_fit_the_digits() -> None:
    """A sha512 has no 64 digits."""
    assert checksums.bare(SHA256, PATH, algorithm="SHA256").algorithm == "sha256"
    with pytest.raises(errors.InvalidParameter):
        checksums.bare(SHA256, PATH, algorithm="sha512")


def test_md5_needs_the_operators_word() -> None:
    """It can be forged."""
    with pytest.raises(errors.InvalidParameter, match="forge"):
        checksums.bare(MD5, PATH)
    assert checksums.bare(MD5, PATH, md5=True).algorithm == "md5"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SHA256, SHA256),
        (f"\n{SHA256}\n\n", SHA256),
        (f"{SHA512}  other.img\n{SHA256}  jammy.img\n", SHA256),
        (f"{SHA256} *jammy.img\r\n", SHA256),
        (f"{SHA256}  ./sub/jammy.img\n", SHA256),
        (f"# comment\nSHA256 (jammy.img) = {SHA256}\n", SHA256),
        (f"SHA512(jammy.img)= {SHA512}\n", SHA512),
        (f"{SHA256}  jammy.img.asc\n", None),
        ("", None),
        ("<html>not found</html>", None),
    ],
    ids=["bare", "space", "gnu", "binary", "folder", "bsd", "openssl", "other", "none", "page"],
)
def test_a_checksum_file_is_read_by_the_name_of_the_image(text: str, found: Any) -> None:
    """A bare one is for whatever is asked."""
    assert checksums.listed(text, "jammy.img") == found


@pytest.mark.parametrize(
    ("text", "algorithm", "found"),
    [
        ("MD5 (jammy.img) = {md5}\nSHA256 (jammy.img) = {sha256}", None, SHA256),
        ("MD5 (jammy.img) = {md5}\nSHA256 (jammy.img) = {sha256}", "md5", MD5),
        ("{sha256}  jammy.img\n{sha512}  jammy.img", "sha256", SHA256),
        ("{sha256}  jammy.img\n{sha512}  jammy.img", "sha512", SHA512),
        ("{sha256}  jammy.img\n{sha512}  jammy.img", None, SHA512),
        ("SHA1(jammy.img)= {sha1}\nSHA2-256(jammy.img)= {sha256}", None, SHA256),
        ("BLAKE2b (jammy.img) = {blake}\nSHA512 (jammy.img) = {sha512}", "sha512", SHA512),
        ("SHA3-512 (jammy.img) = {blake}\nSHA-256 (jammy.img) = {sha256}", None, SHA256),
        ("SHA1 (jammy.img) = {sha1}", None, MD5 + "0" * 8),
    ],
)
def test_one_of_several_checksums_of_an_image_is_chosen(
    text: str, algorithm: str | None, found: str
) -> None:
    digits = {"md5": MD5, "sha1": MD5 + "0" * 8, "sha256": SHA256, "sha512": SHA512}
    filled = text.format(**digits, blake=hashlib.blake2b(b"image").hexdigest())
    assert checksums.listed(filled, "jammy.img", algorithm) == found


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({}, None),
        ({"image_checksum": SHA256}, (None, SHA256)),
        (
            {"image_os_hash_algo": "SHA512", "image_os_hash_value": SHA512, "image_checksum": MD5},
            ("sha512", SHA512),
        ),
    ],
    ids=["none", "checksum", "hash first"],
)
def test_an_instance_says_its_checksum_in_one_of_two_ways(info: dict[str, Any], found: Any) -> None:
    """The newer way goes first."""
    assert checksums.wanted(info) == found


@pytest.mark.parametrize(
    ("info", "path"),
    [
        ({"image_os_hash_algo": "sha256"}, "instance_info/image_os_hash_value"),
        ({"image_os_hash_value": SHA256}, "instance_info/image_os_hash_algo"),
        (
            {"image_os_hash_algo": "crc32", "image_os_hash_value": "0"},
            "instance_info/image_os_hash_algo",
        ),
        ({"image_checksum": 7}, "instance_info/image_checksum"),
        ({"image_checksum": " "}, "instance_info/image_checksum"),
    ],
    ids=["no value", "no algorithm", "crc32", "number", "blank"],
)
def test_half_a_checksum_is_refused(info: dict[str, Any], path: str) -> None:
    """The missing or wrong key is named."""
    with pytest.raises(errors.InvalidRequest) as caught:
        checksums.wanted(info)
    assert caught.value.facts["path"] == path


def test_the_digest_of_a_file(tmp_path: pathlib.Path) -> None:
    """Is that of its bytes."""
    file = tmp_path / "x"
    file.write_bytes(b"image")
    assert checksums.digest(file, "sha256") == SHA256
