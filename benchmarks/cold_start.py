"""Time from the start of this service and of OpenStack Ironic to their first answers, in one run.

``python -m benchmarks.cold_start VENV [ROUNDS]``: VENV is a virtual environment with Ironic in it,
as ``make bench-ironic-start`` makes one. Both services run on SQLite, with fake hardware, as one
command. They start in turns: first in an empty folder, where the time includes the creation of the
database (for Ironic by ``ironic-dbsync create_schema``), then again with that database.
"""

from __future__ import annotations

import contextlib
import pathlib
import statistics
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import harness
from benchmarks.against_ironic import Contender, Place

ROUNDS = 5
AIM = 3.0
"""How many times faster than Ironic the first answers are to come."""


class Start(NamedTuple):
    """Seconds from a start to its first answers, and of CPU of the processes that stay."""

    get: float
    post: float
    cpu: float


_ROWS = {
    "get": "first 200 of GET /v1/nodes",
    "post": "first 201 of POST /v1/nodes",
    "cpu": "CPU until then, of the processes that stay",
}


class Starts(NamedTuple):
    """A start in an empty folder, and one with a database."""

    first: Start
    again: Start


def starts(name: str, scripts: pathlib.Path) -> Starts:
    """Start a service in an empty folder, and again; end it after its first answers."""
    reference = name == "ironic"
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(harness.folder())
        one = Contender(name, folder, scripts, Place())
        stack.callback(one.stop)
        begin = time.perf_counter()
        commands = one.prepare(reference)
        first = _start(one, commands, begin)
        one.end_processes()
        return Starts(first, _start(one, commands, time.perf_counter()))


def _start(one: Contender, commands: Sequence[Sequence[str]], begin: float) -> Start:
    one.launch(commands)
    harness.wait_until(lambda: one.accepted("GET", "/v1/nodes"), f"an answer of {one.name}")
    got = time.perf_counter() - begin
    node = {"driver": "fake-hardware"}
    harness.wait_until(lambda: one.accepted("POST", "/v1/nodes", node), f"a node of {one.name}")
    return Start(got, time.perf_counter() - begin, one.cpu())


def main(venv: str, rounds: int = ROUNDS) -> int:
    """Measure and print a table; return 0 if all first answers reach the aim."""
    places = {
        "ours": pathlib.Path(sys.executable).parent,
        "ironic": pathlib.Path(venv) / "bin",
    }
    found: dict[str, list[Starts]] = {name: [] for name in places}
    for _ in range(rounds):
        for name, scripts in places.items():
            found[name].append(starts(name, scripts))
    print(f"{'seconds, median':<54}{'ours':>9}{'Ironic':>9}{'ratio':>8}")
    reached = True
    for which, about in (("first", "empty folder"), ("again", "database exists")):
        for row, title in _ROWS.items():
            mine, theirs = (
                statistics.median(getattr(getattr(one, which), row) for one in found[name])
                for name in places
            )
            reached = reached and (row == "cpu" or theirs / mine >= AIM)
            name = f"{about}: {title}"
            print(f"{name:<54}{mine:>9.2f}{theirs:>9.2f}{theirs / mine:>8.1f}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
