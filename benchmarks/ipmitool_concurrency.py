"""Rate of power reads by ipmitool, one and many at a time.

The BMCs are ipmi_sim of OpenIPMI, one for each thread; their CPU time is not counted.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import contextlib  # noqa: E402  threads.native() must run before any oslo library is imported
import logging  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from concurrent import futures  # noqa: E402
from typing import Any  # noqa: E402

from benchmarks import harness  # noqa: E402
from benchmarks.figures import Figure, in_turns, not_measured, report, size  # noqa: E402
from benchmarks.power_sync import conductor  # noqa: E402
from ironic_lite.conductor.service import ConductorService  # noqa: E402
from ironic_lite.core import context  # noqa: E402
from ironic_lite.db.tables import migrate, models  # noqa: E402
from ironic_lite.drivers.ipmi import info, tool  # noqa: E402
from ironic_lite.records import Node  # noqa: E402
from tests.emulators import ipmi  # noqa: E402
from tests.support.service import short_folder  # noqa: E402

AT_ONCE = size((1, 2, 4, 8, 16), smoke=(2,))
SECONDS = size(4.0, smoke=0.2)
"""Duration of the measurement for each number of threads."""
CALLS = 20
BUDGET = 1.5
"""CPU of a read divided by the CPU of the program, which is most of both."""


def node(driver_info: dict[str, Any]) -> Node:
    """Return a node behind one BMC."""
    columns = {key: value for key, value in harness.node(0).items() if "_interface" not in key}
    empty = dict.fromkeys(models.columns(models.nodes))
    return Node.of({**empty, **columns, "driver": "ipmi", "driver_info": driver_info})


def reads(service: ConductorService, nodes: list[Node]) -> tuple[float, float]:
    """Read the power of each node repeatedly; return reads in a second, and CPU ms of each."""
    caller, end = context.internal("bench"), time.monotonic() + SECONDS

    def repeat(one: Node) -> int:
        count = 0
        while time.monotonic() < end:
            task = service.tasks.view(caller, one)
            if task.driver.power.get_power_state(task) != "power off":
                raise RuntimeError("the power is not off")
            count += 1
        return count

    begin, cpu = time.monotonic(), _cpu()
    with futures.ThreadPoolExecutor(len(nodes)) as pool:
        count = sum(pool.map(repeat, nodes))
    return count / (time.monotonic() - begin), (_cpu() - cpu) / count * 1000


def overhead(service: ConductorService, one: Node) -> list[Figure]:
    """Return the CPU of the program alone, and of a read divided by it."""
    caller, settings = context.internal("bench"), info.parse(one.driver_info)
    line = tool.command_line(settings, ("power", "status"), cipher=settings.cipher_suite)
    environment = tool.command_environment(settings)

    def read() -> None:
        task = service.tasks.view(caller, one)
        task.driver.power.get_power_state(task)

    def bare() -> None:
        subprocess.run(line, env=environment, capture_output=True, timeout=60, check=True)

    ours, theirs = in_turns(read, bare, count=CALLS, rounds=5, clock=_cpu)
    return [
        Figure("ipmitool alone: CPU", theirs, "ms"),
        Figure("power read: CPU", ours / theirs, "x", BUDGET),
    ]


def _cpu() -> float:
    """Return the CPU seconds of this process and of the programs that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> int:
    """Measure and print; return the exit status."""
    if lacking := ipmi.missing():
        return not_measured(f"{' and '.join(lacking)} not installed")
    logging.disable(logging.ERROR)
    figures = []
    with short_folder() as folder, contextlib.ExitStack() as running:
        opened = harness.database(folder)
        migrate.upgrade(opened)
        service = conductor(folder, opened)
        bmcs = [ipmi.Bmc(folder / f"bmc{number}") for number in range(max(AT_ONCE))]
        for one in bmcs:
            one.folder.mkdir()
            running.enter_context(one)
        nodes = [node(one.driver_info()) for one in bmcs]
        for count in AT_ONCE:
            rate, cpu = reads(service, nodes[:count])
            figures.append(Figure(f"{count} at once: power reads", rate, "1/s"))
            figures.append(Figure(f"{count} at once: CPU of each, ipmitool included", cpu, "ms"))
        figures += overhead(service, nodes[0])
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
