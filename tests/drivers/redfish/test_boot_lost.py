"""A BMC that is lost keeps no secret of its machine where others can read it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers.redfish import boot
from tests.emulators import bmc
from tests.support import bmc_tasks, fake_task

BOOT = boot.RedfishVirtualMediaBoot()


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """The media of a conductor."""
    given = {
        (None, "state_path"): str(tmp_path),
        ("service_catalog", "endpoint_override"): "http://192.0.2.1:6385",
        ("conductor", "file_url_allowed_paths"): [str(tmp_path)],
        ("deploy", "http_url"): "http://192.0.2.1:8080",
    }
    for (group, name), value in given.items():
        config.CONF.set_override(name, value, group=group)
    yield tmp_path / "http/media"
    for group, name in given:
        config.CONF.clear_override(name, group=group)


def test_the_medium_goes_also_if_it_cannot_be_ejected(
    folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    info = {}
    for name in ("deploy_kernel", "deploy_ramdisk", "bootloader"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
        info[name] = f"file://{tmp_path}/{name}"
    with bmc.serve() as machine:
        node = fake_task.node(driver="redfish", driver_info={**machine.driver_info, **info})
        task = bmc_tasks.BmcTask(node, driver=dataclasses.replace(bmc_tasks.REDFISH, boot=BOOT))
        BOOT.prepare_ramdisk(task, {"ipa-agent-token": "t0ken"})
        assert len(list(folder.iterdir())) == 1
        machine.tricks["POST *VirtualMedia.EjectMedia"] = bmc.says(400, {"error": {}})
        with pytest.raises(errors.HardwareError):
            BOOT.clean_up_ramdisk(task)
        assert list(folder.iterdir()) == []
        del machine.tricks["POST *VirtualMedia.EjectMedia"]
        BOOT.clean_up_ramdisk(task)
        assert machine["VirtualMedia/Cd"]["Image"] is None
