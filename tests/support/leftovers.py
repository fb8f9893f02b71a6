"""Find the threads, child processes and descriptors that a test leaves behind."""

from __future__ import annotations

import dataclasses
import gc
import os
import pathlib
import threading
import time

GRACE = 30.0
"""Seconds in which what was told to end may end."""
MOMENT = 0.05
"""Seconds for the threads that were told to end, before garbage is collected."""
DESCRIPTORS = 6
"""More descriptors than before that are borne: pools of connections that a whole module shares."""
_TASKS = "/proc/self/task"
_DESCRIPTORS = "/proc/self/fd"
_PROCESSES = pathlib.Path("/proc")
_SHARED = b"prefork.py"
"""In the command line of processes that all tests of a session share: see `prefork`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """This process at one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[str]
    descriptors: int


def look() -> Sight:
    """Return what there is now."""
    children: set[str] = set()
    for task in _listed(_TASKS):
        try:
            with open(f"{_TASKS}/{task}/children", encoding="ascii") as file:
                children.update(file.read().split())
        except OSError:  # the thread has just ended
            continue
    count = len(_listed(_DESCRIPTORS))
    return Sight(frozenset(threading.enumerate()), frozenset(children), count)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:  # not Linux
        return []


def since(before: Sight, grace: float = GRACE) -> list[str]:
    """Return in sentences what is here that was not before, once it has had time to end.

    :param grace: seconds.
    """
    end, pause = time.monotonic() + grace, 0.01
    _join_ending(before)
    while found := _more(before, look()):
        if time.monotonic() > end:
            return found
        gc.collect()  # what lies in a cycle is closed by it
        time.sleep(pause)
        pause = min(0.5, pause * 2)
    return []


def _join_ending(before: Sight) -> None:
    """Wait a moment for new threads, most of which end without a garbage collection."""
    end = time.monotonic() + MOMENT
    for thread in set(threading.enumerate()) - before.threads:
        if thread.is_alive():  # not one that is being started at this moment: it refuses `join`
            thread.join(max(0.0, end - time.monotonic()))


def _more(before: Sight, now: Sight) -> list[str]:
    threads = [one for one in now.threads - before.threads if one.is_alive()]
    found = [f"the thread {one.name}" for one in sorted(threads, key=lambda one: one.name)]
    children = sorted(pid for pid in now.children - before.children if not _shared(pid))
    found += [f"the child process {pid}" for pid in children]
    if now.descriptors - before.descriptors > DESCRIPTORS:
        found.append(f"{now.descriptors - before.descriptors} descriptors")
    return found


def _shared(pid: str) -> bool:
    try:
        return _SHARED in (_PROCESSES / pid / "cmdline").read_bytes()
    except OSError:  # it has just ended
        return True
