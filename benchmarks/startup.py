"""Time from start to first response of ``ironic-lite``, and its memory when idle.

Run it as ``python -m benchmarks.startup [ROUNDS]``. Every round has an empty folder, so the
database is created each time, and all drivers enabled by default are loaded. Memory is the
proportional set size, which counts shared memory once, and includes the supervisor. The rest of a
start without its CPU time is waiting, for instance for a busy machine.
"""

from __future__ import annotations

import contextlib
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from benchmarks import harness
from benchmarks.figures import Figure, report, size
from tests.support.ports import free_port
from tests.support.service import short_folder

START_BUDGET = 1.5  # seconds
MEMORY_BUDGET = 132.0  # MiB, 4 of them for the names of living fleets, causes and search
IDLE = size(5.0, smoke=0.5)
"""Seconds without a request in which the CPU is measured."""
ROUNDS = size(7, smoke=1)
_NAMES = ("supervisor", "conductor", "API")
_WARM_UP = size(50, smoke=5)


@contextlib.contextmanager
def started() -> Iterator[tuple[psutil.Process, int, float]]:
    """Start the service; gives the process, its port, and the seconds until its first 200."""
    port = free_port()
    with short_folder() as folder:
        settings = folder / "bench.conf"
        settings.write_text(
            f"[DEFAULT]\nstate_path = {folder}/state\nhost = bench\n[api]\nport = {port}\n"
        )
        script = pathlib.Path(sys.executable).parent / "ironic-lite"
        with (folder / "log").open("wb") as log:
            begin = time.perf_counter()
            process = subprocess.Popen([script, "--config-file", settings], stdout=log, stderr=log)
            try:
                harness.wait_until(lambda: answers(port), "a response")
                yield psutil.Process(process.pid), port, time.perf_counter() - begin
            finally:
                harness.stop(process)


def answers(port: int) -> bool:
    """Return whether /v1/nodes is 200."""
    return harness.fetch(port, "/v1/nodes")[0] == 200


def first_responses(rounds: int) -> tuple[list[float], float]:
    """Return the seconds of some starts, sorted, and the CPU seconds of the cheapest."""
    times, costs = [], []
    for _ in range(rounds):
        with started() as (supervisor, _, seconds):
            times.append(seconds)
            ended = supervisor.cpu_times()
            costs.append(harness.cpu(harness.family(supervisor.pid)))
            costs[-1] += ended.children_user + ended.children_system
    return sorted(times), min(costs)


def idle() -> list[Figure]:
    """Return memory and CPU of the service after some requests."""
    with started() as (supervisor, port, _):
        harness.wait_until(lambda: len(supervisor.children()) == 2, "API and conductor")
        harness.wait_until(lambda: harness.alive(port), "a conductor")
        for _ in range(_WARM_UP):
            answers(port)
        family = [supervisor, *sorted(supervisor.children(), key=lambda one: one.pid)]
        used = harness.cpu(family)
        time.sleep(IDLE)
        used = harness.cpu(family) - used
        sizes = [one.memory_full_info().pss / 2**20 for one in family]
    parts = zip(_NAMES, sizes, strict=True)
    return [
        Figure("memory when idle, all processes", sum(sizes), "MiB PSS", MEMORY_BUDGET),
        *(Figure(f"  {name}", size, "MiB PSS") for name, size in parts),
        Figure("CPU when idle, of one processor", used / IDLE * 100, "%"),
    ]


def main(rounds: int = ROUNDS) -> int:
    """Measure and print; return the exit status."""
    times, cost = first_responses(rounds)
    median = statistics.median(times)
    return report(
        [
            Figure("start to first 200, with a new database, median", median, "s", START_BUDGET),
            Figure("  best", times[0], "s"),
            Figure("  worst", times[-1], "s"),
            Figure("  CPU of all processes until then, best", cost, "s"),
            *idle(),
        ]
    )


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
