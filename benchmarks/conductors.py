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
from benchmarks.figures import Figure, report, size
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from tests.support.ports import free_port
from tests.support.service import short_folder

NODES = size(300, smoke=5)
STEPS = 3
FLEETS = size((1, 2, 3), smoke=(2,))
SECONDS = size(0.5, smoke=0.1)
WORKERS = 25
FEW_WORKERS = f"workers_pool_size = {WORKERS}\n"
RETRY_AFTER = 0.02
"""Seconds before refused requests are repeated, so that refusals cost the machine little."""
CONNECTIONS = 4
OPTIONS = """\
[conductor]
heartbeat_interval = 1
heartbeat_timeout = {lease}
hash_ring_reset_interval = 1
check_provision_state_interval = 1
{options}
"""


@contextlib.contextmanager
def fleet(
    folder: pathlib.Path, hosts: Sequence[str], *, lease: int = 60, options: str = ""
) -> Iterator[harness.Service]:
    """Run an API, and conductors of these names, on the database of a folder.

    :param lease: [conductor]heartbeat_timeout in seconds.
    :param options: further options of ``[conductor]``.
    """
    port = free_port()
    settings = harness.configure(folder, port, OPTIONS.format(lease=lease, options=options))
    with contextlib.ExitStack() as running:
        running.enter_context(program(folder, settings, "api"))
        for host in hosts:
            running.enter_context(program(folder, settings, "conductor", host))
        harness.wait_until(lambda: harness.alive(port) == len(hosts), "the conductors")
        yield harness.Service(folder, port, os.getpid())


def program(
    folder: pathlib.Path, settings: pathlib.Path, name: str, host: str | None = None
) -> contextlib.AbstractContextManager[psutil.Popen]:
    """Run ``ironic-lite-NAME``.

    :param host: name of a conductor, instead of the configured one.
    """
    arguments = ["--config-file", str(settings)]
    if host is not None:
        own = folder / f"{host}.conf"
        own.write_text(f"[DEFAULT]\nhost = {host}\n")
        arguments += ["--config-file", str(own)]
    return harness.program(folder, f"ironic_lite.cmd.{name}", *arguments)


def clean_rate(service: harness.Service, opened: Database, uuids: Sequence[str]) -> float:
    """Clean nodes; return the number of cleans in a second."""
    begin = time.perf_counter()
    waiting = list(uuids)
    with contextlib.ExitStack() as opened_clients:
        clients = [
            opened_clients.enter_context(harness.Client(service.port)) for _ in range(CONNECTIONS)
        ]
        while waiting:
            batch, waiting = waiting[:CONNECTIONS], waiting[CONNECTIONS:]
            for client, uuid in zip(clients, batch, strict=False):
                client.send(harness.clean(uuid, STEPS))
            responses = [client.receive() for client in clients[: len(batch)]]
            for uuid, (status, body) in zip(batch, responses, strict=True):
                if status == HTTPStatus.SERVICE_UNAVAILABLE:
                    waiting.append(uuid)
                elif status != HTTPStatus.ACCEPTED:
                    raise RuntimeError(f"status {status}: {body[:500]!r}")
            if any(status != HTTPStatus.ACCEPTED for status, _ in responses):
                time.sleep(RETRY_AFTER)
    harness.wait_until(lambda: not harness.unfinished(opened), "the end of the cleans")
    return len(uuids) / (time.perf_counter() - begin)


def measure(count: int, *, seconds: float = 0.0, options: str = "") -> float:
    """Return the number of cleans in a second on so many conductors.

    :param seconds: duration of each step.
    :param options: further options of ``[conductor]``.
    """
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        uuids = harness.fill(opened, NODES)
        slow = sa.update(models.nodes).values(driver_info={"fake_step_seconds": seconds})
        if seconds:
            opened.write(lambda conn: conn.execute(slow))
        hosts = [f"host-{number}" for number in range(count)]
        with fleet(folder, hosts, options=options) as service:
            return clean_rate(service, opened, uuids)


def main() -> int:
    """Measure and print; return the exit status."""
    plain = f"cleans of {STEPS} steps"
    slow = f"... of {SECONDS:g} s, {WORKERS} workers each"
    found = [Figure(f"{plain}, {n} conductors", measure(n), "nodes/s") for n in FLEETS]
    for n in FLEETS:
        rate = measure(n, seconds=SECONDS, options=FEW_WORKERS)
        found.append(Figure(f"{slow}, {n} conductors", rate, "nodes/s"))
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
