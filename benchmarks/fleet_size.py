"""CPU cost of a GET, a list page and a clean with ten times as many nodes."""

from __future__ import annotations

import contextlib
import functools
import statistics
import sys
from collections.abc import Callable, Sequence

from benchmarks import clean, harness
from benchmarks.figures import Figure, report, size
from ironic_lite.db.engine.session import Database
from tests.support.service import short_folder

SMALL, LARGE = size((1_000, 10_000), smoke=(5, 50))
BUDGET = 1.2
ROUNDS = size(5, smoke=1)
GETS, PAGES, CLEANS = size((3000, 300, 250), smoke=(20, 5, 5))

Measure = Callable[[harness.Service, Database, Sequence[str]], float]


def _get(service: harness.Service, _: Database, uuids: Sequence[str]) -> float:
    requests = [harness.get(f"/v1/nodes/{uuids[7 * i % len(uuids)]}") for i in range(GETS)]
    return harness.load(service, requests)


def _page(service: harness.Service, _: Database, uuids: Sequence[str]) -> float:
    """A page of 100 with all fields in the middle of the list."""
    path = f"/v1/nodes/detail?limit=100&marker={uuids[len(uuids) // 2]}"
    return harness.load(service, [harness.get(path)] * PAGES)


def _filtered(service: harness.Service, _: Database, uuids: Sequence[str]) -> float:
    """The first 100 of one state."""
    path = "/v1/nodes?limit=100&provision_state=manageable"
    return harness.load(service, [harness.get(path)] * PAGES)


def _clean(service: harness.Service, opened: Database, uuids: Sequence[str]) -> float:
    return clean.cleans(service, opened, uuids[:: len(uuids) // CLEANS], 1)[0]


MEASURES: dict[str, Measure] = {
    "GET a node": _get,
    "page of 100 in mid-list, detail": _page,
    "page of 100 of one state": _filtered,
    "manual clean with one step": _clean,
}


def main() -> int:
    """Measure and print; return the exit status."""
    with contextlib.ExitStack() as stack:
        fleets = []
        for count in (SMALL, LARGE):
            folder = stack.enter_context(short_folder())
            opened = stack.enter_context(contextlib.closing(harness.database(folder)))
            uuids = harness.fill(opened, count)
            fleets.append((stack.enter_context(harness.service(folder)), opened, uuids))
        return report(
            figure
            for name, measure in MEASURES.items()
            for figure in _compared(name, *(functools.partial(measure, *each) for each in fleets))
        )


def _compared(name: str, small: Callable[[], float], large: Callable[[], float]) -> list[Figure]:
    small(), large()
    rounds = [(small(), large()) for _ in range(ROUNDS)]
    few, many = (statistics.median(each) for each in zip(*rounds, strict=True))
    return [
        Figure(f"{name}: CPU with {SMALL} nodes", few, "ms"),
        Figure(f"{name}: CPU with {LARGE} nodes", many, "ms"),
        Figure("ratio", statistics.median(b / a for a, b in rounds), "x", BUDGET),
    ]


if __name__ == "__main__":
    sys.exit(main())
