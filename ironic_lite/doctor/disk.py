"""Checks of folders: writable, with free space."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterator

from ironic_lite.domain.examination import Verdict, failed, passed, warning

_MIB = 1024 * 1024
LITTLE_MIB, LEAST_MIB = 1024, 100
"""Free MiB below which a folder is reported, and below which it is a fault."""
_LITTLE_SHARE = 0.05
_LEAST_INODES = 1000


def find_folder(option: str, folder: pathlib.Path) -> Iterator[Verdict]:
    """Write a file, and read the free space.

    :param option: the option that names the folder.
    """
    place = f"{option} {folder}"
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
            file.write(bytes(_MIB // 1024))
            file.flush()
            os.fsync(file.fileno())
        about = os.statvfs(folder)
    except OSError as why:
        reason = (why.strerror or type(why).__name__).lower()
        do = "Create the folder, free space, or give the user of this process write access."
        yield failed(f"{place}: no file can be written there: {reason}", do)
        return
    yield _check_space(place, about)


def _check_space(place: str, about: os.statvfs_result) -> Verdict:
    free, size = about.f_bavail * about.f_frsize, about.f_blocks * about.f_frsize
    share = free / size if size else 1.0
    text = f"{place}: {free / _MIB:.0f} MiB free ({share:.0%})"
    do = "Free space on that file system, or make it larger."
    if free < LEAST_MIB * _MIB:
        return failed(text, do)
    if about.f_files and about.f_favail < _LEAST_INODES:
        return warning(f"{place}: {about.f_favail} free inodes", "Remove files there.")
    if free < LITTLE_MIB * _MIB or (share < _LITTLE_SHARE and free < 10 * LITTLE_MIB * _MIB):
        return warning(text, do)
    return passed(text)
