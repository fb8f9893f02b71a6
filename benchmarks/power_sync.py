"""Time for a conductor on one core to compare the power of a fleet of Redfish machines.

Each BMC responds after 50 ms; together they are one process on another core. The conductor is this
process, confined to one core, without the pacing of sweeps that it has in service. A part of the
fleet is measured; ``python -m benchmarks.power_sync 10000`` measures all of it in some minutes.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import logging  # noqa: E402  threads.native() must run before any oslo library is imported
import os  # noqa: E402
import pathlib  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402

import psutil  # noqa: E402

from benchmarks import bmc, harness  # noqa: E402
from benchmarks.figures import Figure, not_measured, report, size  # noqa: E402
from ironic_lite.conductor.service import ConductorService  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.db.engine.session import Database  # noqa: E402
from ironic_lite.db.tables import migrate  # noqa: E402
from ironic_lite.drivers.registry import Registry, Settings  # noqa: E402
from tests.support.ports import free_port  # noqa: E402
from tests.support.service import short_folder  # noqa: E402

FLEET = 10_000
PART = size(2_000, smoke=45)
ROUNDS = size(3, smoke=1)


def node(number: int, address: str) -> dict[str, Any]:
    """Return the columns of a Redfish node whose power is on."""
    columns = {key: value for key, value in harness.node(number).items() if "_interface" not in key}
    login = {"redfish_username": bmc.USER, "redfish_password": bmc.PASSWORD}
    return {
        **columns,
        "driver": "redfish",
        "driver_info": {"redfish_address": address, "redfish_system_id": bmc.SYSTEM, **login},
        "driver_internal_info": {},
        "provision_state": "active",
    }


def healthy_nodes(count: int, port: int) -> list[dict[str, Any]]:
    """Return nodes with healthy BMCs."""
    return [node(number, f"http://{bmc.address(number)}:{port}") for number in range(count)]


def faulty_nodes(count: int, first: int, port: int) -> list[dict[str, Any]]:
    """Return nodes whose BMCs hang, refuse connections, or flap, a third of each."""
    ports = {bmc.HANGING: port, bmc.FLAPPING: port, bmc.REFUSING: free_port()}
    return [
        {
            **node(first + number, f"http://{bmc.faulty_address(number)}:{ports[number % 3]}"),
            "provision_state": "enroll",  # the sweeps skip this state until `activate_all`
        }
        for number in range(count)
    ]


def mixed(count: int, port: int) -> list[dict[str, Any]]:
    """Return so many healthy nodes, with a faulty one after every ninth of them."""
    healthy, faulty = healthy_nodes(count, port), faulty_nodes(count // 9, count, port)
    return [
        row
        for number in range(0, count, 9)
        for row in (*healthy[number : number + 9], *faulty[number // 9 : number // 9 + 1])
    ]


def activate_all(opened: Database) -> None:
    """Move the faulty nodes to a state that the sweeps do not skip."""
    opened.write(lambda conn: conn.exec_driver_sql("UPDATE nodes SET provision_state = 'active'"))


def conductor(folder: pathlib.Path, opened: Database) -> ConductorService:
    """Return a registered conductor without timers; callers run its sweeps."""
    options = "[DEFAULT]\nenabled_hardware_types = redfish,ipmi\n"
    settings = harness.configure(folder, free_port(), options)
    conf = config.load("bench", ["--config-file", str(settings)])
    service = ConductorService(conf, opened, Registry.load(Settings.read(conf)), None)
    service.announce()
    return service


def sweep(service: ConductorService) -> tuple[float, float]:
    """Run a sweep; return its wall-clock and CPU seconds."""
    begin, cpu = time.perf_counter(), time.process_time()
    service.power.sweep()
    return time.perf_counter() - begin, time.process_time() - cpu


def measure(folder: pathlib.Path, port: int, process: psutil.Process, count: int) -> list[Figure]:
    """Return the figures of a fleet of so many machines.

    :param port: of the BMCs, which are a process.
    """
    opened = harness.database(folder)
    migrate.upgrade(opened)
    harness.insert(opened, mixed(count, port))
    service = conductor(folder, opened)
    memory = psutil.Process().memory_info().rss
    first, _ = sweep(service)
    memory = psutil.Process().memory_info().rss - memory
    bmcs = harness.cpu([process])
    rounds = ROUNDS if count <= PART else 1
    # The best one, because other programs may use this core.
    seconds, cpu = min(sweep(service) for _ in range(rounds))
    bmcs = (harness.cpu([process]) - bmcs) / rounds
    activate_all(opened)
    new, _ = sweep(service)
    known, _ = sweep(service)
    scale = FLEET / count
    part = "" if count == FLEET else f", from {count}"
    return [
        Figure(f"power of {FLEET} machines{part}: wall", seconds * scale, "s", 30),
        Figure("CPU of the conductor for each", cpu / count * 1000, "ms", 3),
        Figure("CPU of the BMCs, on another core, for each", bmcs / count * 1000, "ms"),
        Figure("the first sweep, with a login at each BMC: wall", first * scale, "s"),
        Figure("memory for each login", memory / count / 1024, "KiB"),
        Figure("10 % additional faulty BMCs, known: wall", known / seconds, "x", 1.5),
        Figure("10 % additional faulty BMCs, not yet known: wall", new / seconds, "x"),
    ]


def main() -> int:
    """Measure and print; return the exit status."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return not_measured("needs two cores: one for the conductor, one for the BMCs")
    logging.disable(logging.ERROR)  # a line for each faulty BMC
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PART
    with short_folder() as folder, bmc.fleet(cores[-1]) as (port, process):
        os.sched_setaffinity(0, {cores[0]})
        status = report(measure(folder, port, process, count))
    sys.stdout.flush()
    os._exit(status)  # threads still wait for hanging BMCs


if __name__ == "__main__":
    sys.exit(main())
