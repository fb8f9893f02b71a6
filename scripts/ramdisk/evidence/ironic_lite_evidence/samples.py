"""Samples of a disk, read before and after it is erased.

The offsets are random within equal zones, with the first and the last block, so no part of the disk
is left out and no program can expect them. Reads bypass the kernel's cache where that is possible,
because a cache may still hold what a disk has erased by itself.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random

ZONES = 64
SIZE = 4096  # bytes of a sample; a multiple of each logical sector size
Samples = dict[int, bytes | None]
"""Bytes by offset; None where the disk could not be read."""


def offsets(size: int) -> list[int]:
    """Return the offsets of samples for a disk of ``size`` bytes, ascending."""
    blocks = size // SIZE
    if not blocks:
        return []
    choose = random.SystemRandom()
    chosen = {0, blocks - 1}
    for zone in range(ZONES):
        first, end = blocks * zone // ZONES, blocks * (zone + 1) // ZONES
        if end > first:
            chosen.add(choose.randrange(first, end))
    return [block * SIZE for block in sorted(chosen)]


def read(device: str, places: list[int]) -> Samples:
    """Return the samples of a device; a device that cannot be opened has only unreadable ones."""
    found: Samples = dict.fromkeys(places)
    with contextlib.suppress(OSError), mmap.mmap(-1, SIZE) as buffer:  # aligned, for O_DIRECT
        handle = _open(device)
        try:
            for place in places:
                with contextlib.suppress(OSError):
                    if os.preadv(handle, [buffer], place) == SIZE:
                        found[place] = bytes(buffer)
        finally:
            os.close(handle)
    return found


def _open(device: str) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        return os.open(device, flags | os.O_DIRECT)
    except OSError:  # such as a file on tmpfs
        handle = os.open(device, flags)
        with contextlib.suppress(OSError):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        return handle


def compare(before: Samples, after: Samples) -> dict[str, int]:
    """Return the numbers of samples by what became of them.

    :returns: ``samples``; ``changed`` (other bytes than before); ``blank`` (one byte repeated);
        ``unchanged`` (the same bytes as before, and not blank); ``unreadable`` (after).
    """
    counts = {"samples": len(after), "changed": 0, "blank": 0, "unchanged": 0, "unreadable": 0}
    for place, data in after.items():
        if data is None:
            counts["unreadable"] += 1
            continue
        blank = data == data[:1] * len(data)
        differs = before.get(place) is not None and before[place] != data
        counts["blank"] += blank
        counts["changed"] += differs
        counts["unchanged"] += not blank and not differs
    return counts


def proves(counts: dict[str, int]) -> bool:
    """Return True if each sample was read, and none still holds what it held before."""
    return bool(counts["samples"]) and not counts["unchanged"] and not counts["unreadable"]
