"""Time of a batch of 10 000 nodes until it is accepted and shown, and statements of sweeps.

API and conductor run in this process, on SQLite.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import logging  # noqa: E402  threads.native() must run before any oslo library is imported
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

from benchmarks import harness  # noqa: E402
from benchmarks.figures import Figure, report  # noqa: E402
from ironic_lite.core import clock  # noqa: E402
from ironic_lite.db.tables import models  # noqa: E402
from ironic_lite.domain.batches import MOST_NODES  # noqa: E402
from tests.support.in_process import InProcess  # noqa: E402
from tests.support.statements import count_statements  # noqa: E402
from tests.support.wsgi_client import Response  # noqa: E402

ROUNDS = 5
BODY = {
    "nodes": {"resource_class": "baremetal"},
    "expect": MOST_NODES,
    "request": {"target": "provide"},
    "waves": [1, "10%", "100%"],
}


class Timed:
    """Seconds of some requests: of a clock, and of the CPU of this process."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu: list[float] = []

    def ask(self, send: Callable[[], Response], status: int) -> Response:
        """Send a request and note its time."""
        wall, cpu = time.perf_counter(), time.process_time()
        answer = send()
        self.seconds.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        if answer.status != status:
            raise RuntimeError(answer.text)
        return answer

    def figures(self, what: str, unit: str, scale: float, budget: float) -> list[Figure]:
        """Return the medians."""
        wall, cpu = (statistics.median(found) * scale for found in (self.seconds, self.cpu))
        return [Figure(what, wall, unit, budget), Figure("... CPU", cpu, unit)]


def sweep(whole: InProcess, name: str = "batches") -> int:
    """Return the number of statements of a sweep."""
    with count_statements(whole.database) as sent:
        whole.rig.sweep(name)
    return len(sent)


def end(whole: InProcess, batch: str) -> None:
    """Remove a batch."""
    ended = models.batches.update().values(state="aborted", ended_at=clock.now())
    whole.database.write(lambda conn: conn.execute(ended))
    answer = whole.api.delete(f"/v1/batches/{batch}")
    if answer.status != 204:
        raise RuntimeError(answer.text)


def main() -> int:
    """Measure and print; return the exit status."""
    accepted, shown, listed = Timed(), Timed(), Timed()
    with harness.folder() as folder:
        opened = harness.database(folder)
        harness.fill(opened, MOST_NODES)
        whole = InProcess(opened)
        logging.disable()
        idle = [sweep(whole), sweep(whole, "old batches")]
        for _ in range(ROUNDS):
            uuid = accepted.ask(lambda: whole.api.post("/v1/batches", BODY), 201).json["uuid"]
            place = f"/v1/batches/{uuid}"
            for _ in range(ROUNDS):
                shown.ask(lambda path=place: whole.api.get(path), 200)  # type: ignore[misc]
                listed.ask(lambda path=place: whole.api.get(f"{path}/nodes"), 200)  # type: ignore[misc]
            whole.api.put(f"{place}/state", {"target": "pause"})
            paused = sweep(whole)
            end(whole, uuid)
        figures = [
            *accepted.figures(f"batch of {MOST_NODES} nodes accepted", "s", 1, 3),
            *shown.figures("shown", "ms", 1000, 50),
            *listed.figures("1000 of its nodes shown", "ms", 1000, 100),
            Figure("statements of a look without an open batch", idle[0], "", 1),
            Figure("statements of the removal without an old batch", idle[1], "", 1),
            Figure("statements of a look at a paused batch", paused, "", 6),
        ]
        whole.close()
        opened.close()
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
