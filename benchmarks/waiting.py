"""Cost of nodes that wait for their agents: threads, and CPU time of an idle service.

The agents of 2 000 nodes in ``clean wait`` are each in the middle of a step and have sent one
heartbeat; then nothing happens. A service that waits in threads would hold 2 000 of them. This one
has at most ``[conductor]workers_pool_size``, which have handled the heartbeats.
"""

from __future__ import annotations

import sys
import time

from benchmarks import heartbeats, stage
from benchmarks.figures import Figure, report

NODES = 2000
SECONDS = 10


def threads(service: stage.Service) -> int:
    """Return how many threads all processes of a service have."""
    return sum(one.num_threads() for one in service.family())


def quiet(service: stage.Service) -> float:
    """Return the CPU milliseconds that a second of rest costs."""
    begin = service.cpu()
    time.sleep(SECONDS)
    return (service.cpu() - begin) / SECONDS * 1000


def main() -> int:
    """Measure and print; return the exit status."""
    with stage.folder() as folder:
        opened = stage.database(folder)
        uuids = stage.fill(opened, NODES)
        requests = [heartbeats.beat(uuid) for uuid in uuids]
        heartbeats.prepare(opened, uuids, "available")
        with stage.service(folder) as service:
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
            Figure("CPU of a second, all nodes at rest", rest_cpu, "ms"),
            Figure(
                "... 2 000 of them in clean wait: more", max(0.0, wait_cpu - rest_cpu), "ms", 20
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
