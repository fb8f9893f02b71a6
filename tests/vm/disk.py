"""The disk of the machine as its host sees it: a sparse file."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib

SIZE = 4 * 1024**3
"""Bytes: the smallest disk that the agent takes for a root disk."""
_CHUNK = 1024 * 1024
_PLACES = (0, 1024 * 1024, SIZE // 2, SIZE - _CHUNK)
"""Where the marks lie; tables of partitions, at both ends, are not all that must go."""


def make(path: pathlib.Path) -> None:
    """Make an empty disk."""
    with path.open("wb") as file:
        file.truncate(SIZE)


def make_small(path: pathlib.Path) -> None:
    """Make a disk of 8 MiB that is full of other bytes than zeros."""
    path.write_bytes(b"LEFT" * (2 * _CHUNK))


def mark(path: pathlib.Path, word: bytes) -> None:
    """Write what a former user may have left."""
    with path.open("r+b") as file:
        for place in _PLACES:
            file.seek(place)
            file.write(word * 64)


def write(path: pathlib.Path, image: pathlib.Path) -> None:
    """Write an image of a disk, from the beginning."""
    with path.open("r+b") as file:
        file.write(image.read_bytes())


def used(path: pathlib.Path) -> int:
    """Return how many bytes, counted in whole MiB, hold anything but zeros."""
    blank, found, at = bytes(_CHUNK), 0, 0
    with path.open("rb") as file, contextlib.suppress(_NoMoreData):
        while True:
            at = _next(file.fileno(), at) // _CHUNK * _CHUNK
            file.seek(at)
            data = file.read(_CHUNK)
            found += _CHUNK * (data != blank[: len(data)])
            at += _CHUNK
    return found


def holds(path: pathlib.Path, word: bytes) -> bool:
    """Tell whether a mark is where `mark` wrote it."""
    with path.open("rb") as file:
        return any(os.pread(file.fileno(), len(word), place) == word for place in _PLACES)


class _NoMoreData(Exception):
    """The rest of the file is a hole."""


def _next(handle: int, at: int) -> int:
    try:
        return os.lseek(handle, at, os.SEEK_DATA)
    except OSError as why:
        if why.errno != errno.ENXIO:
            raise
        raise _NoMoreData from None
