"""Images of other kinds through the whole service, onto a block device: a loop device.

Each kind by itself, with all that may be wrong with it, is tried with a real agent in
``tests/drivers/agent/test_images.py``.
"""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import subprocess
from typing import Any

import pytest

from tests.emulators import images
from tests.support import machine_room

SETTINGS = """
[agent]
enable_bios_bootloader_install = true
deploy_logs_collect = always
"""
DRIVE = {"meta_data": {"hostname": "web-1"}, "user_data": "#cloud-config\n"}


def _programs(*command: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"NOT TESTED: no {command[0]}; scripts/programs.sh installs it")
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _qcow2(one: machine_room.Room, content: bytes) -> dict[str, Any]:
    """Return what is said of a qcow2 image whose checksum stands in a file beside it."""
    raw, packed = one.up.folder / "raw", one.images.folder / "system.qcow2"
    raw.write_bytes(content)
    _programs("qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(packed))
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    sums = one.images.folder / "SHA256SUMS"
    sums.write_text(f"{'0' * 64}  other.qcow2\n{digest}  system.qcow2\n")
    url = one.images.url
    return {"image_source": f"{url}/system.qcow2", "image_checksum": f"{url}/SHA256SUMS"}


def _partition(one: machine_room.Room) -> dict[str, Any]:
    """Return what is said of a file of this machine with a file system in it."""
    root, path = one.up.folder / "root", one.up.folder / "root.raw"
    (root / "etc/default").mkdir(parents=True)
    (root / "etc/default/grub").touch()
    path.write_bytes(bytes(8 * images.MIB))
    _programs("mkfs.ext4", "-q", "-F", "-L", "cloudimg", "-d", str(root), str(path))
    digest = hashlib.sha512(path.read_bytes()).hexdigest()
    sizes = {"image_type": "partition", "root_gb": 1, "swap_mb": 16}
    return {"image_source": path.as_uri(), "image_checksum": digest, **sizes}


def _logs(one: machine_room.Room) -> list[pathlib.Path]:
    folder = one.up.folder / "logs"
    return sorted(folder.iterdir()) if folder.exists() else []


def test_an_instance_of_qcow2_becomes_one_of_a_partition_image() -> None:
    """In between is one that fails; each run leaves the logs of its ramdisk, once.

    The server of the images is believed for an authority that is told on the medium.
    """
    with machine_room.serve(more=SETTINGS, loop=True, secure=True) as one:
        loop = one.rack[0].agent.loop
        assert loop is not None
        node = one.enrol(0, automated_clean=False)
        one.up.provision(node, "provide", "available")
        content = images.disk()
        good = _qcow2(one, content)
        one.fill(node, good)
        one.up.provision(node, "active", "active", configdrive=DRIVE)
        with open(loop.device, "rb") as disk:
            assert disk.read(len(content))[images.MIB :] == content[images.MIB :]
        found = images.drive(loop.partitions()[1]["DEVNAME"])
        assert (b"web-1" in found["meta_data.json"], found["user_data"]) == (
            True,
            b"#cloud-config\n",
        )
        assert len(_logs(one)) == 1

        one.fill(node, {**good, "image_checksum": "0" * 64})
        one.ask(node, "rebuild")
        failed = one.reaches(node, "deploy failed")
        assert "deploy.write_image" in failed["last_error"]
        assert "checksum" in failed["last_error"]
        assert len(_logs(one)) == 2

        one.fill(node, _partition(one))
        shown = one.up.provision(node, "rebuild", "active")
        swap, root = loop.partitions()
        assert (swap["TYPE"], root["LABEL"]) == ("swap", "cloudimg")
        assert shown["driver_internal_info"].get("served_image_secret") is None
        assert len(_logs(one)) == 3
