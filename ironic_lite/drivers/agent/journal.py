"""The journal in the logs that a ramdisk sends; no I/O."""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
import zlib
from typing import IO

TAIL = 64 * 1024
"""Bytes of the journal's end."""
_MOST = 256 * 1024 * 1024
"""Bytes that an archive may have unpacked."""
_CHUNK = 256 * 1024
_NAMES = ("journal", "ironic-python-agent.log", "syslog", "messages", "dmesg")
"""Files that record what a ramdisk did, the best one first."""


def tail(packed: bytes) -> list[str]:
    """Return the last lines of the journal in an archive; none if it cannot be read.

    :param packed: a tar archive, compressed by gzip.
    """
    found: dict[str, bytes] = {}
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked,
            tarfile.open(fileobj=_Bounded(unpacked), mode="r|") as archive,
        ):
            for member in archive:
                name = posixpath.basename(member.name)
                if not member.isfile() or name not in _NAMES:
                    continue
                if (file := archive.extractfile(member)) is not None:
                    found[name] = _end_of(file)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error):
        pass  # the lines before the damage count
    best = next((found[name] for name in _NAMES if found.get(name)), b"")
    return best.decode("utf-8", "replace").splitlines()


def _end_of(file: IO[bytes]) -> bytes:
    """Return the last lines of a file, without half a line at the beginning."""
    end = b""
    while chunk := file.read(_CHUNK):
        end = (end + chunk)[-TAIL - 1 :]
    return end if len(end) <= TAIL else end[-TAIL:].partition(b"\n")[2]


class _Bounded(io.RawIOBase):
    """The beginning of a file, so that a small archive cannot fill the memory or take for ever."""

    def __init__(self, inner: gzip.GzipFile) -> None:
        super().__init__()
        self._inner = inner
        self._left = _MOST

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer; at the limit the file ends."""
        data = self._inner.read(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)
