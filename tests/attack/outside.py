"""The processes as the kernel shows them: descriptors, threads, memory, locks, log lines."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator

import psutil

MIB = 1 << 20
_LOCKS = pathlib.Path("/proc/locks")
FORGED = "2026-01-01 00:00:00.000 1 CRITICAL "
"""The beginning of lines that attackers try to have written."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """One process at one moment.

    :ivar descriptors: without those of the SQLite database.
    :ivar memory: resident bytes.
    :ivar unlocked: files of the SQLite database that it has open without any lock.
    """

    pid: int
    descriptors: int
    threads: int
    memory: int
    unlocked: tuple[str, ...] = ()


def look(pids: Iterable[int], database: pathlib.Path | None) -> dict[int, Sight]:
    """Return what can be seen of those processes that live.

    :param database: of SQLite, if there is one.
    """
    found = {}
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            found[pid] = _sight(psutil.Process(pid), database)
    return found


def _sight(process: psutil.Process, database: pathlib.Path | None) -> Sight:
    with process.oneshot():
        return Sight(
            process.pid,
            process.num_fds() - _of_database(process, database),
            process.num_threads(),
            process.memory_info().rss,
            tuple(_unlocked(process, database)) if database is not None else (),
        )


def _of_database(process: psutil.Process, database: pathlib.Path | None) -> int:
    """Count descriptors of the database: its pool bounds them, and SQLite closes them late."""
    if database is None:
        return 0
    return sum(one.path.startswith(str(database)) for one in process.open_files())


def _unlocked(process: psutil.Process, database: pathlib.Path) -> Iterator[str]:
    """Yield files that SQLite always holds a lock on while it has them open in WAL mode.

    A process that has lost these locks loses what it writes: the next one to close the database
    takes itself for the last, and deletes the log that the first still writes to.
    """
    opened = {one.path for one in process.open_files()}
    for path in (database, database.with_name(f"{database.name}-shm")):
        if str(path) in opened and not _locked(process.pid, path):
            yield path.name


def _locked(pid: int, path: pathlib.Path) -> bool:
    found = os.stat(path)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    rows = (line.split() for line in _LOCKS.read_text().splitlines())
    return any(str(pid) in row and place in row for row in rows)


def odd_lines(text: str) -> list[str]:
    """Return lines of a log with control characters, and lines that a client has forged."""
    return [
        line
        for line in text.split("\n")
        if line.startswith(FORGED)
        or any(ord(letter) < ord(" ") and letter != "\t" for letter in line)
    ]
