"""Time of a batch of 10 000 nodes until it is accepted and shown, and statements of sweeps.

API and conductor run in this process, on SQLite.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import contextlib  # noqa: E402  threads.native() must run before any oslo library is imported
import logging  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

from benchmarks import harness  # noqa: E402
from benchmarks.figures import Figure, report, size  # noqa: E402
from ironic_lite.core import clock  # noqa: E402
from ironic_lite.db.tables import models  # noqa: E402
from ironic_lite.features.batches.rules import MOST_NODES  # noqa: E402
from tests.support.in_process import InProcess  # noqa: E402
from tests.support.service import short_folder  # noqa: E402
from tests.support.statements import count_statements  # noqa: E402
from tests.support.wsgi_client import Response  # noqa: E402

NODES = size(MOST_NODES, smoke=50)
ROUNDS = size(5, smoke=1)
BODY = {
    "nodes": {"resource_class": "baremetal"},
    "expect": NODES,
    "request": {"target": "provide"},
    "waves": [1, "10%", "100%"],
}


class Timer:
    """Wall-clock and CPU seconds of some requests to this process."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def measure(self, send: Callable[[], Response], status: int) -> Response:
        """Send a request and record its time.

        :raises RuntimeError: the response has another status.
        """
        wall, cpu = time.perf_counter(), time.process_time()
        response = send()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        if response.status != status:
            raise RuntimeError(response.text)
        return response

    def figures(self, name: str, unit: str, scale: float, budget: float) -> list[Figure]:
        """Return the medians."""
        wall, cpu = (statistics.median(times) * scale for times in (self.wall, self.cpu))
        return [Figure(name, wall, unit, budget), Figure("... CPU", cpu, unit)]


def sweep(service: InProcess, name: str = "batches") -> int:
    """Return the number of statements of a sweep."""
    with count_statements(service.database) as sent:
        service.rig.sweep(name)
    return len(sent)


def remove(service: InProcess, batch: str) -> None:
    """Remove a batch."""
    aborted = models.batches.update().values(state="aborted", ended_at=clock.now())
    service.database.write(lambda conn: conn.execute(aborted))
    response = service.api.delete(f"/v1/batches/{batch}")
    if response.status != 204:
        raise RuntimeError(response.text)


def measure(service: InProcess) -> list[Figure]:
    """Return all figures."""
    accepted, shown, listed = Timer(), Timer(), Timer()
    idle = [sweep(service), sweep(service, "old batches")]
    for _ in range(ROUNDS):
        uuid = accepted.measure(lambda: service.api.post("/v1/batches", BODY), 201).json["uuid"]
        path = f"/v1/batches/{uuid}"
        for _ in range(ROUNDS):
            shown.measure(lambda path=path: service.api.get(path), 200)  # type: ignore[misc]
            listed.measure(lambda path=path: service.api.get(f"{path}/nodes"), 200)  # type: ignore[misc]
        service.api.put(f"{path}/state", {"target": "pause"})
        paused = sweep(service)
        remove(service, uuid)
    return [
        *accepted.figures(f"batch of {NODES} nodes accepted", "s", 1, 3),
        *shown.figures("GET of the batch", "ms", 1000, 50),
        *listed.figures("GET of 1000 of its nodes", "ms", 1000, 100),
        Figure("statements of a sweep without an open batch", idle[0], "", 1),
        Figure("statements of the removal without an old batch", idle[1], "", 1),
        Figure("statements of a sweep of a paused batch", paused, "", 6),
    ]


def main() -> int:
    """Measure and print; return the exit status."""
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        harness.fill(opened, NODES)
        with contextlib.closing(InProcess(opened)) as service:
            logging.disable()
            found = measure(service)
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
