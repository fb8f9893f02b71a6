"""Time from start to first answer of ``ironic-lite``, and its memory when idle.

Run it as ``python -m benchmarks.startup [ROUNDS]``. Every round has an empty folder, so the
database is created each time, and all drivers enabled by default are loaded. Memory is the
proportional set size, which counts shared memory once, and includes the supervisor. The CPU time
shows how much of a start was waiting for a busy machine.
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

from benchmarks import figures, harness
from benchmarks.figures import Figure

START_BUDGET = 1.5  # seconds
MEMORY_BUDGET = 128.0  # MiB
IDLE = 5.0
"""Seconds without a request over which the use of the processor is counted."""
_NAMES = ("supervisor", "conductor", "API")
_WARM_UP = 50


@contextlib.contextmanager
def started() -> Iterator[tuple[psutil.Process, int, float]]:
    """Give the process, its port, and the seconds from its start to its first 200."""
    port = harness.free_port()
    with harness.folder() as folder:
        settings = folder / "bench.conf"
        settings.write_text(
            f"[DEFAULT]\nstate_path = {folder}/state\nhost = bench\n[api]\nport = {port}\n"
        )
        script = pathlib.Path(sys.executable).parent / "ironic-lite"
        with (folder / "log").open("wb") as log:
            begin = time.perf_counter()
            process = subprocess.Popen([script, "--config-file", settings], stdout=log, stderr=log)
            try:
                harness.wait_until(lambda: answers(port), "an answer")
                yield psutil.Process(process.pid), port, time.perf_counter() - begin
            finally:
                process.terminate()
                process.wait(harness.PATIENCE)


def answers(port: int) -> bool:
    """Say whether /v1/nodes is 200."""
    with harness.Client(port) as client:
        client.send(harness.get("/v1/nodes"))
        return client.receive()[0] == 200


def first_answer(rounds: int) -> tuple[list[float], float]:
    """Return the seconds of some starts, sorted, and the CPU seconds of the cheapest."""
    found, costs = [], []
    for _ in range(rounds):
        with started() as (supervisor, _, seconds):
            found.append(seconds)
            gone = supervisor.cpu_times()
            family = [supervisor, *supervisor.children()]
            costs.append(cpu(family) + gone.children_user + gone.children_system)
    return sorted(found), min(costs)


def at_rest() -> list[Figure]:
    """Return memory and use of the processor after some requests, with nothing to do."""
    with started() as (supervisor, port, _):
        harness.wait_until(lambda: len(supervisor.children()) == 2, "API and conductor")
        harness.wait_until(lambda: b"bench" in conductors(port), "a conductor")
        for _ in range(_WARM_UP):
            answers(port)
        family = [supervisor, *sorted(supervisor.children(), key=lambda one: one.pid)]
        used = cpu(family)
        time.sleep(IDLE)
        used = cpu(family) - used
        sizes = [one.memory_full_info().pss / 2**20 for one in family]
    parts = zip(_NAMES, sizes, strict=True)
    return [
        Figure("memory when idle, all of it", sum(sizes), "MiB PSS", MEMORY_BUDGET),
        *(Figure(f"  {name}", size, "MiB PSS") for name, size in parts),
        Figure("use of one processor when idle", used / IDLE * 100, "%"),
    ]


def conductors(port: int) -> bytes:
    """Return what the API says of conductors."""
    with harness.Client(port) as client:
        client.send(harness.get("/v1/conductors"))
        return client.receive()[1]


def cpu(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds that processes have used."""
    times = [one.cpu_times() for one in processes]
    return float(sum(each.user + each.system for each in times))


def main(rounds: int = 7) -> int:
    """Print the figures; the exit status says whether the budgets are kept."""
    times, cost = first_answer(rounds)
    median, rest = statistics.median(times), at_rest()
    return figures.report(
        [
            Figure("start to first 200, database made, median", median, "s", START_BUDGET),
            Figure("  of the budget", median / START_BUDGET, "x"),
            Figure("  best", times[0], "s"),
            Figure("  worst", times[-1], "s"),
            Figure("  CPU of all processes until then, best", cost, "s"),
            *rest[:1],
            Figure("  of the budget", rest[0].value / MEMORY_BUDGET, "x"),
            *rest[1:],
        ]
    )


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
