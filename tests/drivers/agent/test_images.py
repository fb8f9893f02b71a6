"""Images of every kind, written by a real agent to a real block device, a loop device.

The interface is ``direct`` itself, step by step; programs that partition, format and convert are
the machine's own. What needs rights that this agent has not (mount, chroot) are stand-ins.
"""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.direct import DirectDeploy
from ironic_lite.images import configdrive
from tests.emulators import images
from tests.emulators.agent import block as block_device
from tests.emulators.agent import process
from tests.emulators.redfish import certificate
from tests.support.fake_task import FakeTask, node
from tests.support.real_agent import Known, running, until

DEPLOY = base.StepKind.DEPLOY
MIB = images.MIB
DRIVE = {"meta_data": {"hostname": "web-1"}, "user_data": "#cloud-config\n", "network_data": {}}


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
def task(
    machine: process.Agent, block: tuple[Known, images.Images], conf: cfg.ConfigOpts
) -> FakeTask:
    """A task of this machine that is being deployed in BIOS mode."""
    conf.set_override("enable_bios_bootloader_install", True, "agent")
    bios = {"capabilities": "boot_mode:bios"}
    found = FakeTask(node(provision_state="deploying", properties=bios))
    found.agent = block[0][1]
    return found


def _run(task: FakeTask, name: str) -> None:
    """Run a step of the interface to its end, as the engine would."""
    deploy = DirectDeploy()
    step: base.StoredStep = {"step": name, "interface": "deploy", "priority": 0, "args": {}}
    if deploy.execute_deploy_step(task, step) is base.WAIT:
        until(lambda: deploy.poll_step(task, DEPLOY, step) is base.DONE)


def _deploy(task: FakeTask, info: dict[str, Any], **more: Any) -> None:
    task.node.instance_info = {**info, **more}
    deploy = DirectDeploy()
    deploy.validate(task)
    _run(task, "write_image")
    _run(task, "prepare_instance_boot")


def _loop(machine: process.Agent) -> block_device.Loop:
    assert machine.loop is not None
    return machine.loop


def _read(machine: process.Agent, size: int, at: int = 0) -> bytes:
    with open(_loop(machine).device, "rb") as disk:
        disk.seek(at)
        return disk.read(size)


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
    first, second = _loop(machine).partitions()
    assert (first["PART_ENTRY_NUMBER"], first["PART_ENTRY_OFFSET"]) == ("1", "2048")
    assert second["LABEL"] == configdrive.LABEL
    found = images.drive(second["DEVNAME"])
    assert b'"hostname":"web-1"' in found["meta_data.json"]
    assert task.node.uuid.encode() in found["meta_data.json"]
    assert found["user_data"] == b"#cloud-config\n"


def test_a_gpt_image_of_https_gets_its_drive_from_an_address(
    task: FakeTask, machine: process.Agent, block: tuple[Known, images.Images]
) -> None:
    """The agent trusts the authority of that server; the table grows to the end of the disk."""
    web = block[1]
    path = web.folder / "gpt.raw"
    path.write_bytes(bytes(4 * MIB))
    words = ["sgdisk", "--new", "1:2048:4095", "--change-name", "1:system", str(path)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    built = configdrive.build(DRIVE, uuid=task.node.uuid)
    web.put("drive.gz", built.encode())
    url = f"{web.url}/drive.gz"
    _deploy(task, web.put("gpt.raw", path.read_bytes()), configdrive=url)
    first, second = _loop(machine).partitions()
    assert (first["PART_ENTRY_NAME"], first["PART_ENTRY_SCHEME"]) == ("system", "gpt")
    assert second["LABEL"] == configdrive.LABEL
    assert int(second["PART_ENTRY_OFFSET"]) * 512 > process.LARGE_BYTES - 70 * MIB
    assert images.drive(second["DEVNAME"])["user_data"] == b"#cloud-config\n"


def test_a_partition_image_gets_its_neighbours_and_a_boot_loader(
    task: FakeTask, machine: process.Agent, web: images.Images
) -> None:
    """Up to mounting, which takes rights: its programs are not run, but asked for."""
    (web.folder / "root/etc/default").mkdir(parents=True)
    (web.folder / "root/etc/default/grub").write_text("GRUB_TIMEOUT=1\n")
    path = web.folder / "root.raw"
    with path.open("wb") as made:
        made.truncate(8 * MIB)
    words = ["mkfs.ext4", "-q", "-F", "-L", "cloudimg", "-d", str(web.folder / "root"), str(path)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    sizes = {"root_gb": 1, "swap_mb": 16, "ephemeral_gb": 1}
    drive = configdrive.build(DRIVE, uuid=task.node.uuid)
    info = web.put("root.raw", path.read_bytes()) | {"image_type": "partition"}
    _deploy(task, info, configdrive=drive, **sizes)
    ephemeral, swap, config, root = _loop(machine).partitions()
    assert (ephemeral["TYPE"], ephemeral["LABEL"]) == ("ext4", "ephemeral0")
    assert (swap["TYPE"], swap["LABEL"]) == ("swap", "swap1")
    assert config["LABEL"] == configdrive.LABEL
    assert (root["TYPE"], root["LABEL"]) == ("ext4", "cloudimg")
    found = [int(one["PART_ENTRY_SIZE"]) * 512 // MIB for one in (ephemeral, swap, root)]
    assert found == [1024, 16, 1024]
    assert images.drive(config["DEVNAME"])["user_data"] == b"#cloud-config\n"
    calls = machine.calls()
    (mounted,) = [call for call in calls if call.startswith(f"mount {root['DEVNAME']} ")]
    place = mounted.split()[-1]
    asked = [call for call in calls if call.startswith(f"chroot {place} ")]
    assert f"chroot {place} /bin/sh -c grub-install {_loop(machine).device}" in asked


def test_hints_choose_the_disk(task: FakeTask, machine: process.Agent, web: images.Images) -> None:
    """Of two; the image's server sends the agent on to another address."""
    before = _read(machine, MIB)
    content = images.disk(b"on the second\n")
    info = web.put("second.raw", content)
    info["image_source"] = f"{web.url}/moved/second.raw"
    _deploy(task, info, root_device={"serial": "F2"})
    assert (machine.folder / "F2.img").read_bytes().startswith(content)
    assert _read(machine, MIB) == before
    assert web.fetched == ["moved/second.raw", "second.raw"]


def _sums(web: images.Images, *lines: str) -> str:
    (web.folder / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines))
    return f"{web.url}/SHA256SUMS"


@pytest.mark.parametrize(
    "form", ["{sum}  a.raw", "{sum} *a.raw", "SHA256 (a.raw) = {sum}", "{sum}"]
)
def test_the_checksum_may_be_in_a_file_of_its_own(
    task: FakeTask, machine: process.Agent, web: images.Images, form: str
) -> None:
    """In the forms in which distributions write it; of several images the one that is meant."""
    content = images.disk(form.encode())
    lines = [form.format(sum=hashlib.sha256(content).hexdigest())]
    if "a.raw" in form:
        lines = ["# of today", f"{'0' * 64}  b.raw", *lines]
    info = web.put("a.raw", content)
    named = {key: info[key] for key in ("image_source", "image_disk_format")}
    _deploy(task, named, image_checksum=_sums(web, *lines), root_device={"serial": "F2"})
    assert (machine.folder / "F2.img").read_bytes().startswith(content)


def _missing(web: images.Images) -> dict[str, Any]:
    return web.put("a.raw", images.disk()) | {"image_source": f"{web.url}/b.raw"}


def _cut(web: images.Images) -> dict[str, Any]:
    return web.put("a.raw", images.disk()) | {"image_source": f"{web.url}/cut/a.raw"}


def _not_listed(web: images.Images) -> dict[str, Any]:
    info = web.put("a.raw", images.disk())
    return {
        "image_source": info["image_source"],
        "image_checksum": _sums(web, f"{'0' * 64}  b.raw"),
    }


def _another(web: images.Images) -> dict[str, Any]:
    info = web.put("a.raw", images.disk())
    return {
        "image_source": info["image_source"],
        "image_checksum": _sums(web, f"{'0' * 64}  a.raw"),
    }


def _laid_over(web: images.Images) -> dict[str, Any]:
    path = web.folder / "made"
    _qemu_img("create", "-f", "qcow2", "-b", "/etc/passwd", "-F", "raw", str(path), "1M")
    return web.put("a.qcow2", path.read_bytes()) | {"image_disk_format": "qcow2"}


def _no_qcow2(web: images.Images) -> dict[str, Any]:
    return web.put("a.qcow2", images.disk()) | {"image_disk_format": "qcow2"}


def _too_large(web: images.Images) -> dict[str, Any]:
    path = web.folder / "made"
    _qemu_img("create", "-f", "qcow2", str(path), "2G")
    info = web.put("a.qcow2", path.read_bytes()) | {"image_disk_format": "qcow2"}
    return info | {"image_type": "partition", "root_gb": 1}


def _no_disk(web: images.Images) -> dict[str, Any]:
    return web.put("a.raw", images.disk()) | {"root_device": {"serial": "F9"}}


def _no_drive(web: images.Images) -> dict[str, Any]:
    return web.put("a.raw", images.disk()) | {"configdrive": f"{web.url}/none.gz"}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (_missing, r"404.*b\.raw"),
        (_cut, r"cut/a\.raw|IncompleteRead|Connection broken"),
        (_not_listed, r"does not contain name a\.raw"),
        (_another, "checksum"),
        (_laid_over, "safety check"),
        (_no_qcow2, "Expected format was qcow2, but image was actually"),
        (_too_large, "Root partition is too small"),
        (_no_disk, "F9"),
        (_no_drive, r"none\.gz.*404"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_image_that_cannot_be_written_fails_with_advice(
    task: FakeTask, web: images.Images, broken: Any, said: str
) -> None:
    """All of it found by the agent; no checksum, format or disk is taken on trust."""
    with pytest.raises(errors.AgentCommandFailed, match=f"(?s){said}"):
        _deploy(task, broken(web))


def test_a_server_whose_authority_is_not_known_gets_no_request(
    task: FakeTask, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with images.serve(folder, certificate(folder)) as web:
        info = web.put("a.raw", images.disk())
        with pytest.raises(errors.AgentCommandFailed, match="CERTIFICATE_VERIFY_FAILED"):
            _deploy(task, info)
        assert web.fetched == []
