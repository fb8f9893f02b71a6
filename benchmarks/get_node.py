"""CPU cost of GET of one node, against the bare application under the same server."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

from benchmarks import stage
from benchmarks.figures import Figure, report

NODES = 1000
REQUESTS = 2000
ROUNDS = 5


def main() -> int:
    """Measure and print; return the exit status."""
    with stage.folder() as folder:
        opened = stage.database(folder)
        uuids = stage.fill(opened, NODES)
        opened.close()
        asked = [stage.get(f"/v1/nodes/{uuids[i % NODES]}") for i in range(REQUESTS)]
        with stage.service(folder) as ours, stage.bare(folder) as bare:
            for one in (ours, bare):
                stage.load(one, asked)
            found = [(stage.load(ours, asked), stage.load(bare, asked)) for _ in range(ROUNDS)]
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
