"""The file of the key that signs erasure records: who may read it, and what must be in it."""

from __future__ import annotations

import logging
import os
import pathlib
import stat
import subprocess

import pytest

from ironic_lite.core import config, evidence_key


def made(folder: pathlib.Path, kind: str = "ed25519", *more: str, mode: int = 0o600) -> str:
    """Make a private key with openssl as the documentation tells; return its path."""
    path = folder / "key.pem"
    command = ["openssl", "genpkey", "-algorithm", kind, *more, "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    path.chmod(mode)
    return str(path)


def refused(path: str) -> str:
    """Return the reason for which a file is refused."""
    with pytest.raises(config.ConfigError) as told:
        evidence_key.load(path)
    assert told.value.facts["option"] == "[conductor]evidence_key_file"
    assert told.value.message.startswith(f"[conductor]evidence_key_file: {path} cannot be used: ")
    return told.value.message


def test_key_without_a_file_is_none() -> None:
    assert evidence_key.load(None) is None


def test_key_of_openssl_signs_and_has_the_name_of_its_public_part(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = made(tmp_path)
    key = evidence_key.load(path)
    again = evidence_key.load(path)
    assert key is not None
    assert again is not None
    assert key.name == again.name
    assert key.pem.startswith("-----BEGIN PUBLIC KEY-----")
    assert len(bytes.fromhex(key.sign(b"a"))) == 64
    assert "private" not in repr(key).lower()
    assert caplog.records == []


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o644])
def test_file_that_everybody_may_use_is_refused(tmp_path: pathlib.Path, mode: int) -> None:
    text = refused(made(tmp_path, mode=mode))
    assert f"{mode:04o}" in text
    assert "0600" in text


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o660])
def test_file_that_the_group_may_use_is_a_warning(
    tmp_path: pathlib.Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert evidence_key.load(made(tmp_path, mode=mode)) is not None
    (line,) = caplog.messages
    assert line.startswith("[conductor]evidence_key_file: ")
    assert f"{mode:04o}" in line


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize(("mode", "warned"), [(0o640, False), (0o660, True)])
def test_file_of_another_user_is_read_through_its_group(
    tmp_path: pathlib.Path, mode: int, warned: bool
) -> None:
    path = made(tmp_path, mode=mode)
    os.chown(path, 65534, 0)
    assert (evidence_key.read(path).exposed is not None) is warned


def test_missing_file_is_named_with_advice(tmp_path: pathlib.Path) -> None:
    text = refused(str(tmp_path / "none.pem"))
    assert "no such file" in text
    assert "openssl genpkey -algorithm ed25519" in text


def test_folder_and_pipe_are_no_key(tmp_path: pathlib.Path) -> None:
    assert "no regular file" in refused(str(tmp_path))
    os.mkfifo(tmp_path / "pipe", stat.S_IRUSR | stat.S_IWUSR)
    assert "no regular file" in refused(str(tmp_path / "pipe"))


def test_broken_file_is_refused(tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(made(tmp_path))
    for content in (b"", b"hush-hush", path.read_bytes()[:60], b"\0" * 200_000):
        path.write_bytes(content)
        text = refused(str(path))
        assert "no private key in PEM" in text
        assert "hush" not in text


def test_key_of_another_kind_is_refused(tmp_path: pathlib.Path) -> None:
    path = made(tmp_path, "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    assert "not of the kind Ed25519" in refused(path)


def test_encrypted_key_is_refused(tmp_path: pathlib.Path) -> None:
    path = made(tmp_path, "ed25519", "-aes-256-cbc", "-pass", "pass:x")
    assert "encrypted with a password" in refused(path)


def test_changed_key_is_published_before_it_signs(tmp_path: pathlib.Path) -> None:
    path = made(tmp_path)
    held = evidence_key.KeyFile(path)
    first = held.current
    assert first is not None
    held.renew(lambda _: pytest.fail("nothing has changed"))
    made(tmp_path)

    def unreachable(_: evidence_key.EvidenceKey) -> None:
        raise OSError("no database")

    with pytest.raises(OSError, match="no database"):
        held.renew(unreachable)
    assert held.current is first
    published: list[str] = []

    def publish(key: evidence_key.EvidenceKey) -> None:
        assert held.current is first
        published.append(key.name)

    held.renew(publish)
    assert held.current is not None
    assert published == [held.current.name]
    assert held.current.name != first.name


def test_key_that_cannot_be_used_leaves_the_one_before(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = made(tmp_path)
    held = evidence_key.KeyFile(path)
    first = held.current
    pathlib.Path(path).write_text("no key")
    for _ in range(2):
        held.renew(lambda _: None)
    assert held.current is first
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
