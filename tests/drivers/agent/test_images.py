"""Images of every kind, written by a real agent to a real block device, a loop device.

The interface is ``direct`` itself, step by step; programs that partition, format and convert are
the machine's own. What needs rights that this agent has not (mount, chroot) are stand-ins.
"""

from __future__ import annotations

import contextlib
import io
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pycdlib
import pytest
from oslo_config import cfg

from ironic_lite.drivers import base
from ironic_lite.drivers.agent.direct import DirectDeploy
from ironic_lite.images import configdrive
from tests.drivers.agent.conftest import Known, running, until
from tests.drivers.doubles import FakeTask, node
from tests.emulators import images
from tests.emulators.agent import process
from tests.emulators.redfish import certificate

DEPLOY = base.StepKind.DEPLOY
MIB = images.MIB
DRIVE = {"meta_data": {"hostname": "web-1"}, "user_data": "#cloud-config\n", "network_data": {}}
EXT4_MAGIC = (1080, b"\x53\xef")


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Known, images.Images]]:
    """A machine whose first disk is a loop device, and its second a file; and an https server."""
    folder = tmp_path_factory.mktemp("https")
    pem, key = certificate(folder)
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(images.serve(folder, (pem, key)))
        found = stack.enter_context(running(loop=True, authority=pem))
        yield found, web


@pytest.fixture
def web(tmp_path: pathlib.Path) -> Iterator[images.Images]:
    """A server of http."""
    folder = tmp_path / "web"
    folder.mkdir()
    with images.serve(folder) as found:
        yield found


@pytest.fixture
def machine(block: tuple[Known, images.Images], conf: cfg.ConfigOpts) -> process.Agent:
    """The machine, as the last test has left it."""
    return block[0][0]


@pytest.fixture
def task(machine: process.Agent, block: tuple[Known, images.Images]) -> FakeTask:
    """A task of this machine that is being deployed in BIOS mode."""
    bios = {"capabilities": "boot_mode:bios"}
    found = FakeTask(node(provision_state="deploying", properties=bios))
    found.agent = block[0][1]
    return found


def _run(task: FakeTask, name: str) -> None:
    """Run a step of the interface to its end, as the engine would."""
    deploy = DirectDeploy()
    step = {"step": name, "interface": "deploy", "priority": 0, "args": {}}
    if deploy.execute_deploy_step(task, step) is base.WAIT:
        until(lambda: deploy.poll_step(task, DEPLOY, step) is base.DONE)


def _deploy(task: FakeTask, info: dict[str, Any], **more: Any) -> None:
    task.node.instance_info = {**info, **more}
    deploy = DirectDeploy()
    deploy.validate(task)
    _run(task, "write_image")
    _run(task, "prepare_instance_boot")


def _read(machine: process.Agent, size: int, at: int = 0) -> bytes:
    assert machine.loop is not None
    with open(machine.loop.device, "rb") as disk:
        disk.seek(at)
        return disk.read(size)


def _partitions(machine: process.Agent) -> list[dict[str, str]]:
    """Return what lies on the disk, as blkid (of root) sees it."""
    assert machine.loop is not None
    device = pathlib.Path(machine.loop.device)
    found = []
    for path in sorted(device.parent.glob(f"{device.name}p*")):
        said = subprocess.run(
            ["blkid", "-p", "-o", "export", str(path)], capture_output=True, text=True, check=True
        )
        found.append(dict(line.split("=", 1) for line in said.stdout.splitlines() if "=" in line))
    return found


def _drive(partition: dict[str, str]) -> dict[str, bytes]:
    """Return the files of a configuration drive that lies in a partition."""
    content = pathlib.Path(partition["DEVNAME"]).read_bytes()
    disc = pycdlib.PyCdlib()
    disc.open_fp(io.BytesIO(content))
    found = {}
    for name in ("meta_data.json", "user_data"):
        out = io.BytesIO()
        disc.get_file_from_iso_fp(out, joliet_path=f"/openstack/latest/{name}")
        found[name] = out.getvalue()
    disc.close()
    return found


def _qemu_img(*words: str) -> None:
    if shutil.which("qemu-img") is None:
        pytest.skip("NOT TESTED: no qemu-img; scripts/programs.sh installs it")
    subprocess.run(["qemu-img", *words], check=True, capture_output=True, timeout=60)


def _qcow2(web: images.Images, content: bytes) -> dict[str, Any]:
    """Return what is said of a qcow2 image with this content."""
    raw, packed = web.folder / "raw", web.folder / "packed"
    raw.write_bytes(content)
    _qemu_img("convert", "-c", "-f", "raw", "-O", "qcow2", str(raw), str(packed))
    return web.put("system.qcow2", packed.read_bytes()) | {"image_disk_format": "qcow2"}


def test_a_qcow2_image_is_unpacked_onto_the_disk_and_gets_its_drive(
    task: FakeTask, machine: process.Agent, web: images.Images
) -> None:
    """The drive becomes one more partition of the disk."""
    content = images.disk()
    _deploy(task, _qcow2(web, content), configdrive=DRIVE)
    assert _read(machine, MIB, MIB) == content[MIB:]
    first, second = _partitions(machine)
    assert (first["PART_ENTRY_NUMBER"], first["PART_ENTRY_OFFSET"]) == ("1", "2048")
    assert second["LABEL"] == configdrive.LABEL
    found = _drive(second)
    assert b'"hostname":"web-1"' in found["meta_data.json"]
    assert task.node.uuid.encode() in found["meta_data.json"]
    assert found["user_data"] == b"#cloud-config\n"
