"""CPU cost of a manual clean, and the time until its request is accepted.

The client requests one clean after another, without waiting for their ends, so the conductor is
busy with a clean while the next request arrives. The CPU time is that of API and conductor
together.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence

import sqlalchemy as sa

from benchmarks import harness
from benchmarks.figures import Figure, report
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models

NODES = 100
STEPS = 11
ROUNDS = 5


def cleans(
    service: harness.Service, opened: Database, uuids: Sequence[str], steps: int
) -> tuple[float, list[float]]:
    """Clean nodes; return the CPU milliseconds of each, and those that each took to be accepted."""
    listed = [{"interface": "management", "step": "reset_bmc"}] * steps
    waited = []
    begin = service.cpu()
    with harness.Client(service.port) as client:
        for uuid in uuids:
            path = f"/v1/nodes/{uuid}/states/provision"
            request = harness.put(path, {"target": "clean", "clean_steps": listed})
            asked = time.perf_counter()
            client.send(request)
            status, body = client.receive()
            waited.append((time.perf_counter() - asked) * 1000)
            if status != 202:
                raise RuntimeError(f"status {status}: {body[:500]!r}")
    harness.wait_until(lambda: not _unfinished(opened), "the end of the cleans")
    return (service.cpu() - begin) / len(uuids) * 1000, waited


def _unfinished(opened: Database) -> int:
    nodes = models.nodes.c
    busy = sa.or_(nodes.reservation.is_not(None), nodes.provision_state != "manageable")
    asked = sa.select(sa.func.count()).where(busy)
    return int(opened.read(lambda conn: conn.execute(asked).scalar_one()))


def main() -> int:
    """Measure and print; return the exit status."""
    with harness.folder() as folder:
        opened = harness.database(folder)
        uuids = harness.fill(opened, NODES)
        with harness.service(folder) as service:
            cleans(service, opened, uuids, 1)
            found = []
            for _ in range(ROUNDS):
                one, waited = cleans(service, opened, uuids, 1)
                many, _ = cleans(service, opened, uuids, STEPS)
                found.append((one, (many - one) / (STEPS - 1), statistics.median(waited)))
        opened.close()
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
