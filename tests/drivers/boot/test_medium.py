"""What a medium brings for its agent, besides kernel, ramdisk and their parameters."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Iterator

import pycdlib
import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers.boot import medium, sources
from ironic_lite.images import published
from tests.support.fake_task import FakeTask, node

BIOS = {"capabilities": "boot_mode:bios"}
CHANGED = ((None, "state_path"), (None, "isolinux_bin"), (None, "ldlinux_c32"))


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Kernel, ramdisk, loaders and an authority."""
    for name in ("kernel", "ramdisk", "isolinux.bin", "ldlinux.c32", "ca.pem"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
    conf = config.CONF
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("state_path", str(tmp_path / "state"))
    conf.set_override("isolinux_bin", str(tmp_path / "isolinux.bin"))
    conf.set_override("ldlinux_c32", str(tmp_path / "ldlinux.c32"))
    conf.set_override("file_url_allowed_paths", [str(tmp_path)], "conductor")
    yield tmp_path
    for group, name in (
        *CHANGED,
        ("conductor", "file_url_allowed_paths"),
        ("agent", "api_ca_file"),
    ):
        conf.clear_override(name, group)


def _files(folder: pathlib.Path, place: str) -> list[str]:
    """Return what the agent finds of its own on a medium."""
    task = FakeTask(node(properties=BIOS))
    kernel, ramdisk = ((folder / name).as_uri() for name in ("kernel", "ramdisk"))
    medium.make(task, sources.Parts(place, kernel=kernel, ramdisk=ramdisk), [], "media/n.iso")
    disc = pycdlib.PyCdlib()
    disc.open(str(published.root() / "media/n.iso"))
    listed = [f"{at}/{name}" for at, _, names in disc.walk(rr_path="/") for name in names]
    found = [name for name in listed if name.startswith("/etc/")]
    for name in found:
        out = io.BytesIO()
        disc.get_file_from_iso_fp(out, rr_path=name)
        expected = b"ca.pem" * 1000 if name.endswith(".pem") else b"[DEFAULT]\ncafile = "
        assert out.getvalue().startswith(expected)
    disc.close()
    return found


def test_an_agent_is_given_whom_to_believe(folder: pathlib.Path) -> None:
    """A ramdisk of a distribution knows no authority of one's own."""
    assert _files(folder, "driver_info/deploy_") == []
    config.CONF.set_override("api_ca_file", str(folder / "ca.pem"), "agent")
    assert sorted(_files(folder, "driver_info/deploy_")) == [
        "/etc/ironic-python-agent.d/authority.conf",
        "/etc/ironic-python-agent/authority.pem",
    ]
    assert _files(folder, "instance_info/") == []


def test_an_authority_that_is_not_there_is_named(folder: pathlib.Path) -> None:
    config.CONF.set_override("api_ca_file", str(folder / "none.pem"), "agent")
    with pytest.raises(errors.LocalFileError, match=r"none\.pem.*api_ca_file"):
        _files(folder, "driver_info/deploy_")
