"""CPU cost of GET of one node, against the bare application under the same server."""

from __future__ import annotations

import contextlib
import statistics
import sys

from benchmarks import harness
from benchmarks.figures import Figure, report, size
from tests.support.service import short_folder

NODES = size(1000, smoke=10)
REQUESTS = size(2000, smoke=20)
ROUNDS = size(5, smoke=1)


def main() -> int:
    """Measure and print; return the exit status."""
    with short_folder() as folder:
        with contextlib.closing(harness.database(folder)) as opened:
            uuids = harness.fill(opened, NODES)
        requests = [harness.get(f"/v1/nodes/{uuids[i % NODES]}") for i in range(REQUESTS)]
        with harness.service(folder) as service, harness.bare(folder) as bare:
            for each in (service, bare):
                harness.load(each, requests)
            rounds = [
                (harness.load(service, requests), harness.load(bare, requests))
                for _ in range(ROUNDS)
            ]
    ours, theirs = (statistics.median(each) for each in zip(*rounds, strict=True))
    ratio = statistics.median(a / b for a, b in rounds)
    return report(
        [
            Figure("GET a node: CPU of the API", ours, "ms", 0.6),
            Figure("bare application: one Core select, orjson", theirs, "ms"),
            Figure("ratio", ratio, "x", 3),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
