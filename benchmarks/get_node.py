"""CPU cost of GET of one node, against the bare application under the same server."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

from benchmarks import harness
from benchmarks.figures import Figure, report

NODES = 1000
REQUESTS = 2000
ROUNDS = 5


def main() -> int:
    """Measure and print; return the exit status."""
    with harness.folder() as folder:
        opened = harness.database(folder)
        uuids = harness.fill(opened, NODES)
        opened.close()
        asked = [harness.get(f"/v1/nodes/{uuids[i % NODES]}") for i in range(REQUESTS)]
        with harness.service(folder) as ours, harness.bare(folder) as bare:
            for one in (ours, bare):
                harness.load(one, asked)
            found = [(harness.load(ours, asked), harness.load(bare, asked)) for _ in range(ROUNDS)]
    middle: Callable[[list[float]], float] = statistics.median
    return report(
        [
            Figure("GET a node: CPU of the API", middle([a for a, _ in found]), "ms", 0.6),
            Figure(
                "bare application: one Core select, orjson", middle([b for _, b in found]), "ms"
            ),
            Figure("ratio", middle([a / b for a, b in found]), "x", 3),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
