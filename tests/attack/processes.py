"""Attacks on the processes and what they stand on: signals, pauses, a file that is taken away."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus

import psutil
import requests

from tests.chaos import faults
from tests.chaos.faults import World
from tests.chaos.fleet import LEASE, Process
from tests.chaos.records import EVERYBODY, Fault
from tests.support.service import family, until

NUMBERS = tuple(
    one
    for one in signal.valid_signals()
    if one not in (signal.SIGSTOP, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
)
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2)
"""These ask a process to stop in order."""
STOP_SECONDS = 60.0
SHORT = (signal.SIGHUP, signal.SIGUSR1, signal.SIGKILL)
CHAOS = ("stop-conductor", "stop-api", "kill-conductor", "kill-api", "disk-full")
"""Faults that are attacks, too: by their names in `faults.TABLE`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Strike:
    """Something done to the processes.

    :ivar run: does it, and yields what it has struck.
    """

    name: str
    run: Callable[[World, random.Random], Iterator[Fault]]
    short: bool = False


def pids(world: World) -> list[int]:
    """Return all processes of the service."""
    return [
        one.pid
        for process in world.fleet.processes.values()
        if process.alive
        for one in family(process.pid)
    ]


def ready(world: World) -> bool:
    """Return whether every API takes requests that need a conductor."""
    return all(
        requests.get(f"{world.ports.url(number)}/readyz", timeout=10).status_code == HTTPStatus.OK
        for number in range(len(world.ports.numbers))
    )


def signals(numbers: tuple[int, ...], world: World, dice: random.Random) -> Iterator[Fault]:
    """Send signals to every process: each that ends is started again, and none turns deaf."""
    for number in numbers:
        for name, process in world.fleet.processes.items():
            for victim in family(process.pid):
                yield _signal(world, process, victim, number)
                _usable(world, name)


def _signal(world: World, process: Process, victim: psutil.Process, number: int) -> Fault:
    begun = time.monotonic()
    with world.fleet.steady():
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(number)
        time.sleep(0.3)
        if not process.alive or (victim.pid == process.pid and _ends(process, number)):
            process.start()
    return Fault("signal", begun, time.monotonic() + LEASE, (victim.pid, process.pid))


def _ends(process: Process, number: int) -> bool:
    """Wait until a process ends that is about to, if it is: a stop lets calls and work end."""
    end = time.monotonic() + (STOP_SECONDS if number in STOPS else 1.0)
    while process.alive and time.monotonic() < end:
        time.sleep(0.05)
    return not process.alive


def _usable(world: World, name: str) -> None:
    process = world.fleet.processes[name]
    until(lambda: process.alive, f"{name} lives")
    until(lambda: ready(world), f"the service is ready, after a signal to {name}")


def removed_database(world: World, dice: random.Random) -> Iterator[Fault]:
    """The files of the database are moved away, and back."""
    begun = time.monotonic()
    path = pathlib.Path(str(world.watch.database.url.database))
    names = [path.with_name(f"{path.name}{end}") for end in ("", "-wal", "-shm")]
    away = path.with_name("away")
    away.mkdir()
    with world.fleet.steady():
        for one in names:
            os.rename(one, away / one.name)
        time.sleep(3)
        for one in reversed(names):  # the log first: with the file, processes go on
            os.replace(away / one.name, one)
    away.rmdir()
    yield Fault("database-removed", begun, time.monotonic() + LEASE, EVERYBODY)


def _chaos(name: str) -> Strike:
    kind = next(one for one in faults.TABLE if one.name == name)

    def run(world: World, dice: random.Random) -> Iterator[Fault]:
        if not faults.able(kind, world.has):
            return
        begun = time.monotonic()
        with kind.inject(world, dice, kind.lasts[1]) as struck:
            pass
        if struck != faults.NOTHING:
            yield Fault(kind.name, begun, time.monotonic(), struck)

    return Strike(name, run, short=name == "stop-conductor")


TABLE: tuple[Strike, ...] = (
    Strike("signals", functools.partial(signals, NUMBERS)),
    Strike("some-signals", functools.partial(signals, SHORT), short=True),
    *map(_chaos, CHAOS),
    Strike("database-removed", removed_database, short=True),
)
