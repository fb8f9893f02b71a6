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
from benchmarks.figures import Figure, report, rivals  # noqa: E402
from benchmarks.power_sync import conductor  # noqa: E402
from ironic_lite.conductor.service import Service  # noqa: E402
from ironic_lite.core import context  # noqa: E402
from ironic_lite.db.tables import migrate, models  # noqa: E402
from ironic_lite.drivers.ipmi import command, info  # noqa: E402
from ironic_lite.records import Node  # noqa: E402
from tests.emulators import ipmi  # noqa: E402

AT_ONCE = (1, 2, 4, 8, 16)
SECONDS = 4.0
"""Duration of the measurement for each number of threads."""
CALLS = 20
BUDGET = 1.5
"""Times the CPU of the same program run by itself; the program's own is most of both."""


def node(driver_info: dict[str, Any]) -> Node:
    """Return a node behind one BMC."""
    kept = {key: value for key, value in harness.node(0).items() if "_interface" not in key}
    empty = dict.fromkeys(models.columns(models.nodes))
    return Node.of({**empty, **kept, "driver": "ipmi", "driver_info": driver_info})


def reads(service: Service, nodes: list[Node]) -> tuple[float, float]:
    """Read the power of each node again and again; return reads in a second, and CPU ms of each."""
    who, end = context.internal("bench"), time.monotonic() + SECONDS

    def again(one: Node) -> int:
        count = 0
        while time.monotonic() < end:
            task = service.tasks.view(who, one)
            if task.driver.power.get_power_state(task) != "power off":
                raise RuntimeError("not read")
            count += 1
        return count

    begin, cpu = time.monotonic(), _cpu()
    with futures.ThreadPoolExecutor(len(nodes)) as pool:
        count = sum(pool.map(again, nodes))
    return count / (time.monotonic() - begin), (_cpu() - cpu) / count * 1000


def beside(service: Service, one: Node) -> list[Figure]:
    """Return what a read costs beside the program alone, in turns."""
    who, settings = context.internal("bench"), info.parse(one.driver_info)
    line = command.line(settings, ("power", "status"), cipher=settings.cipher_suite)
    environment = command.environment(settings)

    def read() -> None:
        task = service.tasks.view(who, one)
        task.driver.power.get_power_state(task)

    def bare() -> None:
        subprocess.run(line, env=environment, capture_output=True, timeout=60, check=True)

    ours, theirs = rivals(read, bare, count=CALLS, rounds=5, clock=_cpu)
    return [
        Figure("the program alone: CPU", theirs, "ms"),
        Figure("power read beside it", ours / theirs, "x", BUDGET),
    ]


def _cpu() -> float:
    """Return the CPU seconds of this process and of the programs that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> int:
    """Measure and print; return the exit status."""
    if lacking := ipmi.missing():
        print(f"NOT MEASURED: {' and '.join(lacking)} not installed")
        return 0
    logging.disable(logging.ERROR)
    figures = []
    with harness.folder() as folder, contextlib.ExitStack() as running:
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
        figures += beside(service, nodes[0])
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
