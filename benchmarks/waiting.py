"""Cost of nodes that wait for their agents: threads, memory, and CPU of an idle service.

The agents of 2 000 nodes in ``clean wait`` are each in the middle of a step and have sent one
heartbeat; then nothing happens. A service that waits in threads would hold 2 000 of them. This one
has at most ``[conductor]workers_pool_size``, which have handled the heartbeats.
"""

from __future__ import annotations

import contextlib
import sys
import time

from benchmarks import harness, heartbeats, soak
from benchmarks.figures import Figure, report, size
from tests.support.service import short_folder

NODES = size(2000, smoke=20)
SECONDS = size(10, smoke=1)
FIRST = size(100, smoke=5)


def threads(service: harness.Service) -> int:
    """Return the number of threads of all processes of a service."""
    return sum(int(one.num_threads()) for one in service.family())


def memory() -> float:
    """Return the MiB of objects of the nodes in ``clean wait``, in all processes.

    tracemalloc counts them, because the buffers of many heartbeats at once hide them otherwise.
    """
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        uuids = harness.fill(opened, NODES)
        requests = [heartbeats.heartbeat(uuid) for uuid in uuids]
        heartbeats.prepare(opened, uuids, "available")
        with soak.traced_service(folder) as service:
            soak.sample(service, 1)
            heartbeats.send(service, requests)
            heartbeats.prepare(opened, uuids[:FIRST], "clean wait")
            # The first ones also load code that nodes at rest do not use.
            heartbeats.send(service, requests[:FIRST])
            before = soak.sample(service, 2)
            heartbeats.prepare(opened, uuids, "clean wait")
            heartbeats.send(service, requests)
            after = soak.sample(service, 3)
    return sum(one.traced for one in after) / 2**20 - sum(one.traced for one in before) / 2**20


def idle_cpu(service: harness.Service) -> float:
    """Return the CPU milliseconds of a second without requests."""
    begin = service.cpu()
    time.sleep(SECONDS)
    return (service.cpu() - begin) / SECONDS * 1000


def main() -> int:
    """Measure and print; return the exit status."""
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        uuids = harness.fill(opened, NODES)
        requests = [heartbeats.heartbeat(uuid) for uuid in uuids]
        heartbeats.prepare(opened, uuids, "available")
        with harness.service(folder) as service:
            heartbeats.send(service, requests)
            rest, rest_cpu = threads(service), idle_cpu(service)
            heartbeats.prepare(opened, uuids, "clean wait")
            heartbeats.send(service, requests)
            wait, wait_cpu = threads(service), idle_cpu(service)
    return report(
        [
            Figure("threads of API and conductor, all nodes at rest", rest),
            Figure(f"... {NODES} nodes in clean wait: additional", max(0, wait - rest), "", 100),
            Figure(f"... objects of {NODES - FIRST} of them", memory(), "MiB", 4),
            Figure("CPU of a second, all nodes at rest", rest_cpu, "ms"),
            Figure(
                f"... {NODES} nodes in clean wait: additional",
                max(0.0, wait_cpu - rest_cpu),
                "ms",
                20,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
