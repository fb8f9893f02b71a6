"""A conductor that has lost a node leaves the files alone that its machine boots from."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers.agent import serving
from ironic_lite.drivers.boot import ipxe, medium
from tests.support import expiring_locks, fake_task


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    config.CONF.set_override("http_root", str(tmp_path), group="deploy")
    yield tmp_path
    config.CONF.clear_override("http_root", group="deploy")


def test_files_of_a_node_that_was_lost_stay(root: pathlib.Path) -> None:
    task = expiring_locks.LeasedTask(fake_task.node(), answers=0)
    uuid = task.node.uuid
    files = [root / uuid / "kernel", root / medium.FOLDER / f"{uuid}-x.iso", root / "image"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("another conductor's")
    task.keep(serving.NOTE, "image")
    for act in (ipxe.IPXEBoot().clean_up_ramdisk, medium.remove, serving.remove):
        with pytest.raises(errors.LockLost):
            act(task)
    assert all(file.exists() for file in files)
