"""Cost of nodes that wait for their agents: threads, memory, and CPU of an idle service.

The agents of 2 000 nodes in ``clean wait`` are each in the middle of a step and have sent one
heartbeat; then nothing happens. A service that waits in threads would hold 2 000 of them. This one
has at most ``[conductor]workers_pool_size``, which have handled the heartbeats.
"""

from __future__ import annotations

import sys
import time

from benchmarks import harness, heartbeats, soak
from benchmarks.figures import Figure, report

NODES = 2000
SECONDS = 10
_FIRST = 100


def threads(service: harness.Service) -> int:
    """Return how many threads all processes of a service have."""
    return sum(one.num_threads() for one in service.family())


def memory() -> float:
    """Return the MiB that the objects of nodes in ``clean wait`` take in all processes.

    tracemalloc counts them, because the buffers of many heartbeats at once hide them otherwise.
    """
    with harness.folder() as folder:
        opened = harness.database(folder)
        uuids = harness.fill(opened, NODES)
        requests = [heartbeats.beat(uuid) for uuid in uuids]
        heartbeats.prepare(opened, uuids, "available")
        (folder / "sitecustomize.py").write_text(soak.PROBE)
        with harness.service(folder, environment={"PYTHONPATH": str(folder)}) as service:
            soak.sample(service, 1)
            heartbeats.beats(service, requests)
            heartbeats.prepare(opened, uuids[:_FIRST], "clean wait")
            # The first ones also pay for code that nodes at rest do not use.
            heartbeats.beats(service, requests[:_FIRST])
            before = soak.sample(service, 2)
            heartbeats.prepare(opened, uuids, "clean wait")
            heartbeats.beats(service, requests)
            after = soak.sample(service, 3)
        opened.close()
    return sum(one.traced for one in after) / 2**20 - sum(one.traced for one in before) / 2**20


def quiet(service: harness.Service) -> float:
    """Return the CPU milliseconds that a second of rest costs."""
    begin = service.cpu()
    time.sleep(SECONDS)
    return (service.cpu() - begin) / SECONDS * 1000


def main() -> int:
    """Measure and print; return the exit status."""
    with harness.folder() as folder:
        opened = harness.database(folder)
        uuids = harness.fill(opened, NODES)
        requests = [heartbeats.beat(uuid) for uuid in uuids]
        heartbeats.prepare(opened, uuids, "available")
        with harness.service(folder) as service:
            heartbeats.beats(service, requests)
            rest, rest_cpu = threads(service), quiet(service)
            heartbeats.prepare(opened, uuids, "clean wait")
            heartbeats.beats(service, requests)
            wait, wait_cpu = threads(service), quiet(service)
        opened.close()
    return report(
        [
            Figure("threads of API and conductor, all nodes at rest", rest),
            Figure("... 2 000 of them in clean wait: more", max(0, wait - rest), "", 100),
            Figure("... objects of 1 900 of them", memory(), "MiB", 4),
            Figure("CPU of a second, all nodes at rest", rest_cpu, "ms"),
            Figure(
                "... 2 000 of them in clean wait: more", max(0.0, wait_cpu - rest_cpu), "ms", 20
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
