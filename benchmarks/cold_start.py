"""Time from the start of this service and of OpenStack Ironic to their first responses.

``python -m benchmarks.cold_start VENV [ROUNDS]``: VENV is a virtual environment with Ironic, as
``make bench-ironic-start`` creates one; without it, only this service is measured. Both services
run on SQLite, with fake hardware, as one command. They start in turns: first in an empty folder,
where the time includes the creation of the database (for Ironic by ``ironic-dbsync
create_schema``), then again with that database.
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
from benchmarks.figures import size
from tests.support.service import short_folder

ROUNDS = size(5, smoke=1)
AIM = 3.0
"""Least ratio of Ironic's time to ours, for each first response."""


class Start(NamedTuple):
    """Seconds from a start to its first responses, and of CPU of the processes that stay."""

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
    """Start a service in an empty folder, and again; end it after its first responses."""
    reference = name == "ironic"
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        one = Contender(name, folder, scripts, Place())
        stack.callback(one.stop)
        begin = time.perf_counter()
        commands = one.prepare(reference)
        first = _start(one, commands, begin)
        one.end_processes()
        return Starts(first, _start(one, commands, time.perf_counter()))


def _start(one: Contender, commands: Sequence[Sequence[str]], begin: float) -> Start:
    one.launch(commands)
    harness.wait_until(lambda: one.accepted("GET", "/v1/nodes"), f"a response of {one.name}")
    get = time.perf_counter() - begin
    node = {"driver": "fake-hardware"}
    harness.wait_until(lambda: one.accepted("POST", "/v1/nodes", node), f"a node of {one.name}")
    return Start(get, time.perf_counter() - begin, one.cpu())


def main(venv: str = "", rounds: str = str(ROUNDS)) -> int:
    """Measure and print a table; return 0 if all first responses reach the aim."""
    services = {"ours": pathlib.Path(sys.executable).parent}
    if venv:
        services["ironic"] = pathlib.Path(venv) / "bin"
    found: dict[str, list[Starts]] = {name: [] for name in services}
    for _ in range(int(rounds)):
        for name, scripts in services.items():
            found[name].append(starts(name, scripts))
    print(f"{'seconds, median':<54}{'ours':>9}{'Ironic':>9}{'ratio':>8}")
    reached = True
    for which, about in (("first", "empty folder"), ("again", "database exists")):
        for row, title in _ROWS.items():
            ours, *ironic = (
                statistics.median(getattr(getattr(one, which), row) for one in found[name])
                for name in services
            )
            reached = reached and (row == "cpu" or all(each / ours >= AIM for each in ironic))
            columns = "".join(f"{each:>9.2f}{each / ours:>8.1f}" for each in ironic)
            print(f"{f'{about}: {title}':<54}{ours:>9.2f}{columns}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
