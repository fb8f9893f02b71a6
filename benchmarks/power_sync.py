"""Time for a conductor on one core to compare the power of a fleet of Redfish machines.

Each BMC answers after 50 ms; together they are one process on another core. The conductor is this
process, confined to one core, without the pacing of sweeps that it has in service. A part of the
fleet is measured; ``python -m benchmarks.power_sync 10000`` takes all of it, and some minutes.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import logging  # noqa: E402  threads.native() must run before any oslo library is imported
import os  # noqa: E402
import pathlib  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

import psutil  # noqa: E402

from benchmarks import bmc, harness  # noqa: E402
from benchmarks.figures import Figure, report  # noqa: E402
from ironic_lite.conductor.service import Service  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.db.engine.session import Connection, Database  # noqa: E402
from ironic_lite.db.queries import nodes  # noqa: E402
from ironic_lite.db.tables import migrate  # noqa: E402
from ironic_lite.drivers.registry import Registry, Settings  # noqa: E402

FLEET = 10_000
PART = 2_000
ROUNDS = 3


def node(number: int, address: str) -> dict[str, Any]:
    """Return the columns of a Redfish node whose power is on."""
    kept = {key: value for key, value in harness.node(number).items() if "_interface" not in key}
    login = {"redfish_username": bmc.USER, "redfish_password": bmc.PASSWORD}
    return {
        **kept,
        "driver": "redfish",
        "driver_info": {"redfish_address": address, "redfish_system_id": bmc.SYSTEM, **login},
        "driver_internal_info": {},
        "provision_state": "active",
    }


def add(opened: Database, rows: Sequence[dict[str, Any]]) -> None:
    """Add nodes to the database."""

    def write(conn: Connection) -> None:
        for row in rows:
            nodes.insert(conn, row)

    opened.write(write)


def well(count: int, port: int) -> list[dict[str, Any]]:
    """Return nodes whose BMCs are well."""
    return [node(number, f"http://{bmc.address(number)}:{port}") for number in range(count)]


def sick(count: int, first: int, port: int) -> list[dict[str, Any]]:
    """Return nodes whose BMCs hang, refuse connections, or flap, a third of each."""
    ports = {bmc.HANGING: port, bmc.FLAPPING: port, bmc.REFUSING: harness.free_port()}
    return [
        {
            **node(first + number, f"http://{bmc.sick_address(number)}:{ports[number % 3]}"),
            "provision_state": "enroll",  # the sweeps skip this state until `watch_all`
        }
        for number in range(count)
    ]


def mixed(count: int, port: int) -> list[dict[str, Any]]:
    """Return so many nodes that are well, with a sick one after every ninth of them."""
    good, bad = well(count, port), sick(count // 9, count, port)
    return [
        row
        for number in range(0, count, 9)
        for row in (*good[number : number + 9], *bad[number // 9 : number // 9 + 1])
    ]


def watch_all(opened: Database) -> None:
    """Let the sweeps ask the sick ones, too."""
    opened.write(lambda conn: conn.exec_driver_sql("UPDATE nodes SET provision_state = 'active'"))


def conductor(folder: pathlib.Path, opened: Database) -> Service:
    """Return a conductor that is registered, and sweeps only when it is told to."""
    settings = folder / "bench.conf"
    settings.write_text(
        f"[DEFAULT]\nstate_path = {folder}\nhost = bench\nenabled_hardware_types = redfish,ipmi\n"
        "[conductor]\nsync_power_state_interval = 0\n"
        "[redfish]\nallowed_networks = 127.0.0.0/8\n[ipmi]\nallowed_networks = 127.0.0.0/8\n"
    )
    conf = config.load("bench", ["--config-file", str(settings)])
    service = Service(conf, opened, Registry.load(Settings.read(conf)), None)
    service.announce()
    return service


def timed(service: Service) -> tuple[float, float]:
    """Run one sweep; return the seconds it took, and those of the CPU."""
    begin, cpu = time.perf_counter(), time.process_time()
    service.power.sweep()
    return time.perf_counter() - begin, time.process_time() - cpu


def best(service: Service, rounds: int) -> tuple[float, float]:
    """Return the same of the best of some sweeps: others may use this core as well."""
    return min(timed(service) for _ in range(rounds))


def measure(folder: pathlib.Path, port: int, stub: psutil.Process, count: int) -> list[Figure]:
    """Return the figures of a fleet of so many machines."""
    opened = harness.database(folder)
    migrate.upgrade(opened)
    add(opened, mixed(count, port))
    service = conductor(folder, opened)
    memory = psutil.Process().memory_info().rss
    first, _ = timed(service)
    memory = psutil.Process().memory_info().rss - memory
    work = sum(stub.cpu_times()[:2])
    rounds = ROUNDS if count <= PART else 1
    seconds, cpu = best(service, rounds)
    work = (sum(stub.cpu_times()[:2]) - work) / rounds
    watch_all(opened)
    met, _ = timed(service)
    known, _ = timed(service)
    scale = FLEET / count
    told = "" if count == FLEET else f", from {count}"
    return [
        Figure(f"power of {FLEET} machines{told}: wall", seconds * scale, "s", 30),
        Figure("CPU of the conductor for each", cpu / count * 1000, "ms", 3),
        Figure("CPU of the BMCs, on another core, for each", work / count * 1000, "ms"),
        Figure("the first sweep, with a login at each BMC: wall", first * scale, "s"),
        Figure("memory for each login", memory / count / 1024, "KiB"),
        Figure(
            "10 % more that are sick, and known to be: wall beside none", known / seconds, "x", 1.5
        ),
        Figure("10 % more that are sick, met for the first time", met / seconds, "x"),
    ]


def main() -> int:
    """Measure and print; return the exit status."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("needs two cores: one for the conductor, one for the BMCs")
        return 1
    logging.disable(logging.ERROR)  # of each sick machine there would be a line
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PART
    with harness.folder() as folder, bmc.fleet(cores[-1]) as (port, stub):
        os.sched_setaffinity(0, {cores[0]})
        status = report(measure(folder, port, stub, count))
    sys.stdout.flush()
    os._exit(status)  # threads still wait for BMCs that hang


if __name__ == "__main__":
    sys.exit(main())
