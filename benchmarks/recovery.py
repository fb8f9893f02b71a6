"""Time until all nodes of a dead conductor are at rest again, by the fleet's size.

A conductor died while all its nodes were in the first of two clean steps, which is more than a
conductor would ever run at once. Another conductor finds them, waits until their leases have
expired (3 s), takes over one after another, and runs this step again and the next one. The clock
runs from its start. ``python -m benchmarks.recovery 200 10000`` measures other fleets than
`FLEETS`.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from benchmarks import conductors, harness
from benchmarks.figures import Figure, report, size
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from tests.support.service import short_folder

FLEETS = size((200, 2000), smoke=(10,))
LEASE = 3
DEAD = "dead"
STEPS = [
    {"interface": "management", "step": "reset_bmc", "priority": 0, "abortable": False},
    {"interface": "management", "step": "reset_bmc", "priority": 0, "abortable": False},
]
PATIENCE = 1200.0


def lose_conductor(opened: Database, uuids: Sequence[str], *, ended: bool = False) -> None:
    """Write the rows of nodes whose conductor died in their first clean step.

    :param ended: its leases have ended, so that no conductor waits for that.
    """
    begun = clock.after(-LEASE)
    runs = {node: str(uuid.uuid4()) for node in uuids}
    info = {"clean_steps": STEPS, "clean_step_index": 0, "manual_clean": {}}

    def write(conn: Connection) -> None:
        for node, run in runs.items():
            values = {
                "provision_state": "cleaning",
                "target_provision_state": "manageable",
                "driver_internal_info": info,
                "clean_step": STEPS[0],
                "run_uuid": run,
                "reservation": DEAD,
                "lock_token": str(uuid.uuid4()),
                "lock_expires": nodes.ENDED if ended else begun,
            }
            conn.execute(
                sa.update(models.nodes).where(models.nodes.c.uuid == node).values(**values)
            )
        conn.execute(sa.insert(models.runs), [_run(*pair, begun) for pair in runs.items()])
        rows = [_step(run, at, begun) for run in runs.values() for at in range(len(STEPS))]
        conn.execute(sa.insert(models.run_steps), rows)

    opened.write(write)


def _run(node: str, run: str, begun: datetime.datetime) -> dict[str, Any]:
    return {
        "uuid": run,
        "node_uuid": node,
        "verb": "clean",
        "conductor": DEAD,
        "state": "running",
        "started_at": begun,
        "request_id": f"req-{run}",
    }


def _step(run: str, ordinal: int, begun: datetime.datetime) -> dict[str, Any]:
    step = STEPS[ordinal]
    first = ordinal == 0
    return {
        "run_uuid": run,
        "ordinal": ordinal,
        "kind": "clean",
        "interface": step["interface"],
        "step": step["step"],
        "priority": 0.0,
        "abortable": False,
        "state": "running" if first else "pending",
        "attempt": 1 if first else 0,
        "started_at": begun if first else None,
    }


def recover(count: int) -> float:
    """Return the seconds until all nodes of a fleet are at rest."""
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        lose_conductor(opened, harness.fill(opened, count))
        begin = time.perf_counter()
        with conductors.fleet(folder, ["successor"], lease=LEASE):
            while harness.unfinished(opened):
                if time.perf_counter() - begin > PATIENCE:
                    raise RuntimeError(f"{harness.unfinished(opened)} nodes are not at rest")
                time.sleep(0.2)
            seconds = time.perf_counter() - begin
        query = sa.select(models.runs.c.state, sa.func.count()).group_by(models.runs.c.state)
        ends = dict(opened.read(lambda conn: [tuple(row) for row in conn.execute(query)]))
    if ends != {"done": count}:
        raise RuntimeError(f"the runs ended as {ends}")
    return seconds


def main(fleets: Sequence[int]) -> int:
    """Measure and print; return the exit status."""
    return report(
        Figure(f"{count} nodes of a dead conductor, until all are at rest", recover(count), "s")
        for count in fleets
    )


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or FLEETS))
