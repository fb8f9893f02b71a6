"""Cost of GET, a list page and a clean with ten times as many nodes."""

from __future__ import annotations

import functools
import statistics
import sys
from collections.abc import Callable, Sequence

from benchmarks import clean, harness
from benchmarks.figures import Figure, report
from ironic_lite.db.engine.session import Database

SMALL, LARGE = 1_000, 10_000
BUDGET = 1.2
ROUNDS = 5
GETS, PAGES, CLEANS = 3000, 300, 250

Measure = Callable[[harness.Service, Database, Sequence[str]], float]


def _get(service: harness.Service, _: Database, uuids: Sequence[str]) -> float:
    asked = [harness.get(f"/v1/nodes/{uuids[7 * i % len(uuids)]}") for i in range(GETS)]
    return harness.load(service, asked)


def _page(service: harness.Service, _: Database, uuids: Sequence[str]) -> float:
    """A page of 100 with all fields in the middle of the list."""
    path = f"/v1/nodes/detail?limit=100&marker={uuids[len(uuids) // 2]}"
    return harness.load(service, [harness.get(path)] * PAGES)


def _filtered(service: harness.Service, _: Database, uuids: Sequence[str]) -> float:
    """The first 100 of one state."""
    path = "/v1/nodes?limit=100&provision_state=manageable"
    return harness.load(service, [harness.get(path)] * PAGES)


def _clean(service: harness.Service, opened: Database, uuids: Sequence[str]) -> float:
    every = len(uuids) // CLEANS
    return clean.cleans(service, opened, uuids[::every], 1)[0]


MEASURES: dict[str, Measure] = {
    "GET a node": _get,
    "page of 100 in mid-list, detail": _page,
    "page of 100 of one state": _filtered,
    "manual clean with one step": _clean,
}


def main() -> int:
    """Measure and print; return the exit status."""
    with harness.folder() as here, harness.folder() as there:
        small, large = harness.database(here), harness.database(there)
        few, many = harness.fill(small, SMALL), harness.fill(large, LARGE)
        with harness.service(here) as one, harness.service(there) as ten:
            figures = [
                figure
                for what, measure in MEASURES.items()
                for figure in _compared(
                    what,
                    functools.partial(measure, one, small, few),
                    functools.partial(measure, ten, large, many),
                )
            ]
        small.close()
        large.close()
    return report(figures)


def _compared(
    what: str, with_few: Callable[[], float], with_many: Callable[[], float]
) -> list[Figure]:
    with_few(), with_many()
    found = [(with_few(), with_many()) for _ in range(ROUNDS)]
    few, many = (statistics.median(each) for each in zip(*found, strict=True))
    return [
        Figure(f"{what}: CPU with {SMALL} nodes", few, "ms"),
        Figure(f"{what}: CPU with {LARGE} nodes", many, "ms"),
        Figure("ratio", statistics.median(b / a for a, b in found), "x", BUDGET),
    ]


if __name__ == "__main__":
    sys.exit(main())
