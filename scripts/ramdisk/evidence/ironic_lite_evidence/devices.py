"""Facts about a disk that the agent's inventory does not have, by the tools of the ramdisk."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
from collections.abc import Mapping
from typing import Any

SECONDS = 60.0  # for one question to a disk
ABSENT, TOO_SLOW = 127, 124
_SECTOR = 512  # bytes, where the inventory does not tell
_LARGEST = 2**48  # sectors that an ATA disk can address
_VERSION = {"shred": "--version", "nvme": "version", "hdparm": "-V", "blkdiscard": "--version"}
_VERSION |= {"wipefs": "--version", "sgdisk": "--version", "dd": "--version"}
_VIRTUAL_MEDIA = pathlib.Path("/dev/disk/by-label/ir-vfd-dev")


def ask(*command: str) -> tuple[int, bytes]:
    """Run a program; return its exit status and its standard output.

    :returns: as exit status ``ABSENT`` or ``TOO_SLOW`` for a program that did not end by itself.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a warning would spoil a binary page, or JSON
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TOO_SLOW, b""
    except OSError:
        return ABSENT, b""
    return done.returncode, done.stdout


def text(*command: str) -> str:
    """Return the output of a program that succeeds, else ""."""
    status, output = ask(*command)
    return output.decode("utf-8", "replace") if status == 0 else ""


def version(program: str) -> str | None:
    """Return the version of a program, None if it does not tell."""
    option = _VERSION.get(os.path.basename(program))
    found = re.search(r"v?(\d+(?:\.\d+)+)", text(program, option)) if option else None
    return found[1] if found else None


def why_untouched(name: str) -> str | None:
    """Return the reason for which the generic hardware manager leaves a disk alone, if any."""
    if read_only(name):
        return "read-only"
    if os.path.realpath(_VIRTUAL_MEDIA) == os.path.realpath(name) and _VIRTUAL_MEDIA.exists():
        return "virtual media"
    status, output = ask("lsblk", "--fs", "--noheadings", name)
    if status != 0:
        return "lsblk cannot read it"
    return "RAID member" if b"linux_raid_member" in output else None


def read_only(name: str) -> bool:
    """Return the kernel's read-only flag of a block device."""
    try:
        flag = pathlib.Path("/sys/class/block", os.path.basename(name), "ro").read_text()
    except OSError:
        return False
    return flag.strip() == "1"


def media(disk: dict[str, Any]) -> str:
    """Return ``nvme``, ``ssd`` or ``hdd`` for a disk of the agent's inventory."""
    if disk.get("tran") == "nvme" or str(disk.get("name")).startswith("/dev/nvme"):
        return "nvme"
    return "hdd" if disk.get("rotational") else "ssd"


def hidden_areas(disk: Mapping[str, Any]) -> dict[str, Any]:
    """Return host protected area and device configuration overlay of an ATA disk.

    Behind some USB bridges and controllers, ``hdparm`` prints numbers that are not of this disk, so
    the addressable sectors must make up its size, and the others be as many or more.

    :param disk: of the agent's inventory.
    :returns: ``hpa`` and ``dco`` True or False, None where the tool does not tell; ``sectors``
        (addressable) and ``native_sectors`` (with the host protected area), or None.
    """
    found: dict[str, Any] = {"hpa": None, "dco": None, "sectors": None, "native_sectors": None}
    name = str(disk["name"])
    if os.path.basename(name).startswith("nvme"):
        return found  # NVMe has neither
    maximum = re.search(r"max sectors\s*=\s*(\d+)/(\d+)", text("hdparm", "-N", name))
    if maximum is None:
        return found
    sectors, native = int(maximum[1]), int(maximum[2])
    one = int(disk.get("logical_sectors") or _SECTOR)
    if not sectors or sectors * one != int(disk["size"] or 0) or not sectors <= native <= _LARGEST:
        return found
    found |= {"sectors": sectors, "native_sectors": native, "hpa": sectors != native}
    overlay = re.search(r"Real max sectors:\s*(\d+)", text("hdparm", "--dco-identify", name))
    if overlay is not None and native <= int(overlay[1]) <= _LARGEST:
        found["dco"] = int(overlay[1]) > native
    return found
