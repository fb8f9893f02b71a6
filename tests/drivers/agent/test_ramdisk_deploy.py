"""The deploy interface ``ramdisk``: what it asks of the boot interface and of the power."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.ramdisk_deploy import RamdiskDeploy
from ironic_lite.drivers.boot.ipxe import IPXEBoot
from ironic_lite.drivers.redfish.boot import RedfishVirtualMediaBoot
from tests.support import fake_task
from tests.support.fake_task import FakeTask, node

DEPLOY = RamdiskDeploy()
MAC = "52:54:00:00:00:01"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A service that serves files, with a kernel and a ramdisk."""
    conf = config.CONF
    conf([], default_config_files=[], default_config_dirs=[])
    given: dict[tuple[str | None, str], Any] = {
        (None, "state_path"): str(tmp_path / "state"),
        ("conductor", "file_url_allowed_paths"): [str(tmp_path)],
        ("deploy", "http_url"): "http://192.0.2.1:8080",
        ("dhcp", "dhcp_provider"): "none",
    }
    for (group, name), value in given.items():
        conf.set_override(name, value, group=group)
    for name in ("kernel", "ramdisk"):
        (tmp_path / name).write_text(name)
    yield tmp_path
    for group, name in given:
        conf.clear_override(name, group=group)
    conf.reset()


@pytest.fixture
def task(folder: pathlib.Path) -> FakeTask:
    """A task on a machine that boots by ipxe."""
    info = {name: f"file://{folder / name}" for name in ("kernel", "ramdisk")}
    driver = dataclasses.replace(fake_task.FAKE, boot=IPXEBoot(), deploy=DEPLOY)
    port = base.Port({"address": MAC, "pxe_enabled": True})
    found = node(instance_info={**info, "ramdisk_kernel_arguments": "console=ttyS0"})
    return FakeTask(found, driver=driver, ports=[port])


def scripts(folder: pathlib.Path) -> dict[str, str]:
    found = (folder / "state").rglob("pxelinux.cfg/*")
    return {path.name: path.read_text() for path in found}


def power(task: FakeTask) -> str:
    return str(task.driver.power.get_power_state(task))


def test_an_instance_in_memory_is_started_and_boots_each_time(
    task: FakeTask, folder: pathlib.Path
) -> None:
    DEPLOY.validate(task)
    DEPLOY.prepare(task)
    step = fake_task.step("deploy.deploy")
    assert DEPLOY.execute_deploy_step(task, step) is None
    (text,) = scripts(folder).values()
    assert "console=ttyS0" in text
    assert "ipa-api-url" not in text
    assert power(task) == base.POWER_ON
    chosen = task.driver.management.get_boot_device(task)
    assert chosen == {"boot_device": "pxe", "persistent": True}


def test_a_clean_or_service_in_between_leaves_it_to_be_booted_again(
    task: FakeTask, folder: pathlib.Path
) -> None:
    """The ramdisk with the agent takes its place for that time."""
    DEPLOY.deploy(task)
    task.driver.boot.clean_up_ramdisk(task)
    assert scripts(folder) == {}
    DEPLOY.tear_down_service(task)
    assert len(scripts(folder)) == 1
    assert power(task) == base.POWER_ON


def test_tear_down_removes_power_and_files(task: FakeTask, folder: pathlib.Path) -> None:
    DEPLOY.deploy(task)
    DEPLOY.tear_down(task)
    DEPLOY.clean_up(task)
    assert scripts(folder) == {}
    assert power(task) == base.POWER_OFF


def test_a_machine_that_is_adopted_boots_it_the_next_time(
    task: FakeTask, folder: pathlib.Path
) -> None:
    DEPLOY.adopt(task)
    assert len(scripts(folder)) == 1
    assert task.node.power_state is None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"kernel": None}, "instance_info/kernel"),
        ({"kernel": "ftp://files.example.org/kernel"}, "instance_info/kernel"),
        ({"ramdisk_kernel_arguments": "a ; b"}, "instance_info/ramdisk_kernel_arguments"),
        ({"configdrive": {"meta_data": {}}}, "instance_info/configdrive"),
    ],
    ids=["no kernel", "no such scheme", "an end of the line", "a configuration drive"],
)
def test_ramdisk_that_could_not_boot_is_refused_by_its_path(
    task: FakeTask, change: dict[str, Any], path: str
) -> None:
    task.node.instance_info = {**task.node.instance_info, **change}
    for act in (DEPLOY.validate, DEPLOY.prepare):
        with pytest.raises((errors.InvalidParameter, errors.MissingParameter), match=path):
            act(task)


def test_an_image_that_is_another_than_was_said_leaves_the_machine_as_it_is(
    task: FakeTask, folder: pathlib.Path
) -> None:
    (folder / "live.iso").write_bytes(b"an ISO")
    task.node.instance_info = {
        "boot_iso": f"file://{folder}/live.iso",
        "image_checksum": "0" * 64,
    }
    task.driver.power.set_power_state(task, base.POWER_ON)
    DEPLOY.validate(task)
    with pytest.raises(errors.ImageUnusable, match="its sha256 is"):
        DEPLOY.prepare(task)
    assert (power(task), scripts(folder)) == (base.POWER_ON, {})


@pytest.mark.parametrize("shared", [True, False], ids=["link", "copy"])
def test_image_that_is_replaced_after_its_check_is_not_booted(
    task: FakeTask, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """The cache replaces a file when its server has another content for another node."""
    image = folder / "live.iso"
    image.write_bytes(b"an ISO")
    image.chmod(0o644)
    digest = hashlib.sha256(b"an ISO").hexdigest()
    task.node.instance_info = {"boot_iso": image.as_uri(), "image_checksum": digest}

    def replace() -> None:
        (folder / "other").write_bytes(b"another")
        (folder / "other").chmod(0o644 if shared else 0o600)
        (folder / "other").replace(image)

    DEPLOY.deploy(task)
    DEPLOY.tear_down(task)
    monkeypatch.setattr(task, "confirm_lock", replace)
    with pytest.raises(errors.ImageUnusable, match="its sha256 is"):
        DEPLOY.deploy(task)
    assert not [file for file in (folder / "state").rglob("*") if file.suffix == ".iso"]


def test_a_boot_interface_that_brings_a_configuration_drive_is_given_one_that_is_one(
    task: FakeTask,
) -> None:
    task.driver = dataclasses.replace(task.driver, boot=RedfishVirtualMediaBoot())
    task.node.driver_info = {
        "redfish_address": "http://192.0.2.9",
        "redfish_system_id": "/redfish/v1/Systems/1",
    }
    task.node.instance_info = {"boot_iso": "http://192.0.2.1/live.iso"}
    good: list[Any] = [{"meta_data": {}}, "http://192.0.2.1/drive.gz"]
    bad: list[Any] = [{"files": {}}, "no base64", "file:///etc/passwd"]
    for drive in good:
        task.node.instance_info["configdrive"] = drive
        DEPLOY.validate(task)
    for drive in bad:
        task.node.instance_info["configdrive"] = drive
        with pytest.raises(errors.InvalidParameter, match="instance_info/configdrive"):
            DEPLOY.validate(task)
