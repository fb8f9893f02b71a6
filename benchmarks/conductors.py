"""Rate of cleans on one, two and three conductors of one machine.

Each node is cleaned by three steps that do nothing, requested as fast as the API accepts them over
four connections; a request refused for lack of a worker is repeated. The clock runs until the last
node is manageable again. All processes share one machine and one database, so more conductors are
faster only where a conductor is the bottleneck. A second measurement therefore uses steps that wait
half a second, as for a BMC, and few workers.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus

import psutil
import sqlalchemy as sa

from benchmarks import harness
from benchmarks.figures import Figure, report
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models

NODES = 300
STEPS = 3
FLEETS = (1, 2, 3)
SECONDS = 0.5
WORKERS = 25
FEW_WORKERS = f"workers_pool_size = {WORKERS}\n"
AGAIN = 0.02
"""Seconds before a refused request is repeated, so that refusals cost the machine little."""
CONNECTIONS = 4
SETTINGS = """\
[DEFAULT]
state_path = {folder}
enabled_hardware_types = fake-hardware
[api]
port = {port}
[conductor]
sync_power_state_interval = 0
heartbeat_interval = 1
heartbeat_timeout = {lease}
hash_ring_reset_interval = 1
check_provision_state_interval = 1
max_concurrent_clean = 10000
{more}
"""


@contextlib.contextmanager
def fleet(
    folder: pathlib.Path, hosts: Sequence[str], *, lease: int = 60, more: str = ""
) -> Iterator[harness.Service]:
    """Run an API, and conductors of these names, on the database of a folder.

    :param lease: [conductor]heartbeat_timeout in seconds.
    :param more: further options of ``[conductor]``.
    """
    port = harness.free_port()
    settings = folder / "fleet.conf"
    settings.write_text(SETTINGS.format(folder=folder, port=port, lease=lease, more=more))
    with contextlib.ExitStack() as running:
        running.enter_context(program(folder, "api"))
        for host in hosts:
            running.enter_context(program(folder, "conductor", host))
        harness.wait_until(lambda: alive(port) == len(hosts), "the conductors")
        yield harness.Service(folder, port, os.getpid())


@contextlib.contextmanager
def program(folder: pathlib.Path, name: str, host: str | None = None) -> Iterator[psutil.Popen]:
    """Run ``ironic-lite-NAME`` on the configuration that `fleet` has written."""
    command = [sys.executable, "-m", f"ironic_lite.cmd.{name}"]
    command += ["--config-file", str(folder / "fleet.conf")]
    if host is not None:
        own = folder / f"{host}.conf"
        own.write_text(f"[DEFAULT]\nhost = {host}\n")
        command += ["--config-file", str(own)]
    with (folder / "log").open("ab") as log:
        process = psutil.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(harness.PATIENCE)


def alive(port: int) -> int:
    """Return how many conductors are alive, for an API."""
    with harness.Client(port) as client:
        client.send(harness.get("/v1/conductors"))
        status, body = client.receive()
        return body.count(b'"alive":true') if status == HTTPStatus.OK else 0


def left(opened: Database) -> int:
    """Return how many nodes are not manageable, or locked."""
    nodes = models.nodes.c
    busy = sa.or_(nodes.reservation.is_not(None), nodes.provision_state != "manageable")
    asked = sa.select(sa.func.count()).where(busy)
    return int(opened.read(lambda conn: conn.execute(asked).scalar_one()))


def rate(service: harness.Service, opened: Database, uuids: Sequence[str]) -> float:
    """Clean nodes; return how many went through in a second."""
    steps = [{"interface": "management", "step": "reset_bmc"}] * STEPS
    body = {"target": "clean", "clean_steps": steps}
    begin = time.perf_counter()
    with contextlib.ExitStack() as opened_clients:
        clients = [
            opened_clients.enter_context(harness.Client(service.port)) for _ in range(CONNECTIONS)
        ]
        waiting = list(uuids)
        while waiting:
            some, waiting = waiting[:CONNECTIONS], waiting[CONNECTIONS:]
            for client, uuid in zip(clients, some, strict=False):
                client.send(harness.put(f"/v1/nodes/{uuid}/states/provision", body))
            refused = len(waiting)
            for client, uuid in zip(clients, some, strict=False):
                status, said = client.receive()
                if status == HTTPStatus.SERVICE_UNAVAILABLE:
                    waiting.append(uuid)
                elif status != HTTPStatus.ACCEPTED:
                    raise RuntimeError(f"status {status}: {said[:500]!r}")
            if len(waiting) > refused:
                time.sleep(AGAIN)
    harness.wait_until(lambda: not left(opened), "the end of the cleans")
    return len(uuids) / (time.perf_counter() - begin)


def measured(count: int, *, seconds: float = 0.0, more: str = "") -> float:
    """Return how many nodes a second go through a clean on so many conductors.

    :param seconds: that each step waits.
    :param more: further options of ``[conductor]``.
    """
    with harness.folder() as folder:
        opened = harness.database(folder)
        uuids = harness.fill(opened, NODES)
        told = sa.update(models.nodes).values(driver_info={"fake_step_seconds": seconds})
        if seconds:
            opened.write(lambda conn: conn.execute(told))
        hosts = [f"host-{number}" for number in range(count)]
        with fleet(folder, hosts, more=more) as service:
            found = rate(service, opened, uuids)
        opened.close()
    return found


def main() -> int:
    """Measure and print; return the exit status."""
    about = f"nodes through a clean of {STEPS} steps"
    waits = f"... of {SECONDS:g} s, {WORKERS} workers each"
    found = [Figure(f"{about}, {n} conductors", measured(n), "nodes/s") for n in FLEETS]
    found += [
        Figure(
            f"{waits}, {n} conductors", measured(n, seconds=SECONDS, more=FEW_WORKERS), "nodes/s"
        )
        for n in FLEETS
    ]
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
