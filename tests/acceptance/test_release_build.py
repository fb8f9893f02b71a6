"""Two builds of one source are equal, whatever the folder, the umask and the time zone."""

from __future__ import annotations

import importlib
import os
import pathlib
import shutil
import tarfile
import zipfile

import pytest

pytestmark = pytest.mark.xdist_group("wheel")

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = ("ironic_lite", "alembic", "cli", "etc", "packaging", "scripts")
FILES = (
    *("setup.cfg", "pyproject.toml", "tox.ini", "MANIFEST.in", "Makefile", "LICENSE"),
    *("README.rst", "CHANGELOG.rst", "CONTRIBUTING.rst"),
)
EPOCH = 1_700_000_001


def copy(folder: pathlib.Path, umask: int) -> pathlib.Path:
    """Copy what the package is built from, with the modes that a umask leaves."""
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    before = os.umask(umask)
    try:
        for name in SOURCES:
            shutil.copytree(
                ROOT / name,
                folder / name,
                symlinks=True,
                ignore=unwanted,
                copy_function=shutil.copyfile,
            )
        for name in FILES:
            shutil.copyfile(ROOT / name, folder / name)
    finally:
        os.umask(before)
    return folder


def test_two_builds_are_equal(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    release = importlib.import_module("release")
    made = []
    for name, umask, zone in release.PLACES:
        out = tmp_path / name / "made"
        source = copy(tmp_path / name / "source", umask)
        release.build(source, out, EPOCH, umask=umask, zone=zone)
        made.append(out)
    first, second = made
    names = sorted(path.name.partition("-")[0] for path in first.iterdir())
    assert names == ["ironic_lite", "ironic_lite", "ironic_lite_cli"]
    assert {
        path.name: release.difference(path, second / path.name) for path in first.iterdir()
    } == {path.name: None for path in first.iterdir()}
    (wheel,) = first.glob("ironic_lite-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    for name in ("db/migrations/env.py", "etc/systemd/ironic-lite.service", "py.typed"):
        assert f"ironic_lite/{name}" in inside
    (sdist,) = first.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        assert any(one.name.endswith("/packaging/locks/runtime.txt") for one in tar)
