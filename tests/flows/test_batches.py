"""Batches when their conductor dies, and with several conductors: each node runs once."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import batches
from ironic_lite.db.tables import models
from ironic_lite.domain import batches as core
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, wait_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
Build = Callable[..., ConductorFixture]
SHORT: dict[str, Any] = {"conductor__heartbeat_timeout": 2, "conductor__heartbeat_interval": 1}
BATCH = "b0000000-0000-4000-8000-000000000000"
OPTIONS = {"on_failures": "pause", "between_waves": "go on"}


def begin(rig: ConductorFixture, nodes: list[str], waves: list[int], concurrency: int) -> None:
    """Add a batch that manages these nodes, as the API does."""
    places = [wave for wave, size in enumerate(waves) for _ in range(size)]
    row = {
        **dict.fromkeys(batches.COLUMNS[1:]),
        "uuid": BATCH,
        "state": "running",
        "request": {"target": "manage"},
        "options": {**OPTIONS, "waves": waves, "concurrency": concurrency},
        "wave": 0,
        "max_failures": 0,
        "forgiven": 0,
        "abort_runs": False,
        "context": rig.who.as_dict(),
        "created_at": clock.now(),
    }
    members = [
        {
            **dict.fromkeys(batches.NODE_COLUMNS[1:]),
            "batch_uuid": BATCH,
            "place": place,
            "node_uuid": node,
            "open_uuid": node,
            "wave": wave,
            "state": "pending",
            "was": "enroll",
            "tries": 0,
        }
        for place, (node, wave) in enumerate(zip(nodes, places, strict=True))
    ]
    rig.database.write(lambda conn: batches.add(conn, row, members))


def counts(database: Database) -> dict[str, int]:
    found = database.read(lambda conn: batches.counts(conn, BATCH))
    return {name: number for name, number in core.by_state(found).items() if number}


def ended(database: Database) -> bool:
    row = database.read(lambda conn: batches.get(conn, BATCH))
    return row["ended_at"] is not None


def finish(rig: ConductorFixture, count: int) -> None:
    """Sweep until the batch has ended; all nodes are done."""

    def swept() -> bool:
        early = models.batch_nodes.update().values(not_before=None)  # no pause between tries
        rig.database.write(lambda conn: conn.execute(early))
        for name in ("orphans", "batches"):
            rig.sweep(name)
        return ended(rig.database)

    wait_for(swept, lambda: counts(rig.database))
    assert counts(rig.database) == {"done": count}


@pytest.mark.parametrize("elsewhere", [True, False], ids=["another goes on", "itself goes on"])
@pytest.mark.parametrize("commits", range(1, 11))
def test_death_after_each_save(
    build: Build, sqlite_database: Database, commits: int, elsewhere: bool
) -> None:
    life = crashes.Life()
    rig = build(crashes.database(sqlite_database, life), DEFAULT__host="mortal", **SHORT)
    rig.database = sqlite_database
    nodes = [rig.node("enroll") for _ in range(3)]
    begin(rig, nodes, [1, 2], 2)
    life.arm(commit=commits)
    with contextlib.suppress(crashes.Died):
        for _ in range(20):
            rig.sweep("batches")
            rig.service.runtime.workers.wait_idle(5)
    assert life.dead, "the batch has fewer saves"
    rig.bury()
    heir = build(sqlite_database, DEFAULT__host="heir" if elsewhere else "mortal", **SHORT)
    if elsewhere:
        gone = models.conductors.update().where(models.conductors.c.hostname == "mortal")
        sqlite_database.write(lambda conn: conn.execute(gone, {"online": False}))
    finish(heir, 3)
    for node in nodes:
        assert heir.get(node)["provision_state"] == "manageable"
        assert len(heir.runs(node)) == 1


@pytest.mark.parametrize("conductors", [2, 3])
def test_several_conductors_share_a_batch(
    build: Build, sqlite_database: Database, conductors: int
) -> None:
    """The last conductor joins in the middle of a wave, and takes over some of the nodes."""
    rigs = [build(DEFAULT__host=f"c{number}") for number in range(conductors - 1)]
    nodes = [rigs[0].node("enroll", fake_step_seconds=0) for _ in range(24)]
    begin(rigs[0], nodes, [4, 20], 3)
    most: list[int] = []
    over = threading.Event()

    def sweep(rig: ConductorFixture) -> None:
        while not over.is_set():
            rig.sweep("batches")
            found = counts(sqlite_database)
            most.append(found.get("starting", 0) + found.get("running", 0))

    threads = [threading.Thread(target=functools.partial(sweep, rig)) for rig in rigs]
    for one in threads:
        one.start()
    try:
        wait_for(lambda: counts(sqlite_database).get("done", 0) >= 5, "five nodes are done")
        last = build(DEFAULT__host="last")
        threads.append(threading.Thread(target=functools.partial(sweep, last)))
        threads[-1].start()
        wait_for(lambda: ended(sqlite_database), lambda: counts(sqlite_database))
    finally:
        over.set()
        for one in threads:
            one.join(20)
    assert counts(sqlite_database) == {"done": 24}
    assert max(most) <= 3
    found: Any = [rigs[0].runs(node) for node in nodes]
    assert [len(runs) for runs in found] == [1] * 24
    first = max(runs[0]["ended_at"] for runs in found[:4])
    assert all(runs[0]["started_at"] >= first for runs in found[4:]), "a wave waits for the other"
