"""CPU cost of a manual clean, and the time until its request is accepted.

The client requests one clean after another, without waiting for their ends, so the conductor is
busy with a clean while the next request arrives. The CPU time is that of API and conductor
together.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Sequence

from benchmarks import harness
from benchmarks.figures import Figure, report, size
from ironic_lite.db.engine.session import Database
from tests.support.service import short_folder

NODES = size(100, smoke=4)
STEPS = 11
ROUNDS = size(5, smoke=1)


def cleans(
    service: harness.Service, opened: Database, uuids: Sequence[str], steps: int
) -> tuple[float, list[float]]:
    """Clean nodes; return the CPU milliseconds of each, and those until each was accepted."""
    times = []
    cpu = service.cpu()
    with harness.Client(service.port) as client:
        for uuid in uuids:
            begin = time.perf_counter()
            client.send(harness.clean(uuid, steps))
            client.receive(expected=202)
            times.append((time.perf_counter() - begin) * 1000)
    harness.wait_until(lambda: not harness.unfinished(opened), "the end of the cleans")
    return (service.cpu() - cpu) / len(uuids) * 1000, times


def main() -> int:
    """Measure and print; return the exit status."""
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        uuids = harness.fill(opened, NODES)
        with harness.service(folder) as service:
            cleans(service, opened, uuids, 1)
            found = []
            for _ in range(ROUNDS):
                one, times = cleans(service, opened, uuids, 1)
                many, _ = cleans(service, opened, uuids, STEPS)
                found.append((one, (many - one) / (STEPS - 1), statistics.median(times)))
    one, further, accepted = (statistics.median(each) for each in zip(*found, strict=True))
    return report(
        [
            Figure("PUT clean until 202, p50, conductor busy", accepted, "ms", 5),
            Figure("manual clean with one step: CPU", one, "ms", 8),
            Figure("each further step: CPU", further, "ms", 0.8),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
