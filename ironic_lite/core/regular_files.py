"""Opening files that another user may replace meanwhile, by a pipe or a device."""

from __future__ import annotations

import errno
import io
import os
import pathlib
import stat

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK opens a pipe without waiting for a writer."""


def opened(path: pathlib.Path, *, follow: bool = True) -> io.BufferedReader:
    """Return an open regular file; the caller closes it.

    :param follow: follow a symbolic link.
    :raises OSError: it is missing, unreadable or special, or a link that is not followed.
    """
    file = open(os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW)), "rb")  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read(path: pathlib.Path, most: int = -1) -> bytes:
    """Return the content of a regular file, or its first ``most`` bytes. Raises as `opened`."""
    with opened(path) as file:
        return file.read(most)
