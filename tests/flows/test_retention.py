"""History does not grow for ever: which of it goes, when, and by whom."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.conductor.watch import retention
from ironic_lite.conductor.watch.sweep_threads import Sweep, Sweeps
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models
from ironic_lite.domain import history
from tests.support.conductor_fixture import ConductorFixture
from tests.support.database_rows import insert_run
from tests.support.statements import count_statements

DAY = 24 * 3600
Build = Callable[..., ConductorFixture]


def sweep(rig: ConductorFixture) -> None:
    """Run the sweep once."""
    rig.sweep("old history")


def cleaned(rig: ConductorFixture, times: int, **more: Any) -> str:
    """Return a node that has been cleaned so many times: two entries each."""
    node = rig.node(**more)
    for _ in range(times):
        rig.clean(node, "bios.factory_reset")
    return node


def kept(rig: ConductorFixture, node: str) -> list[str]:
    """Return the kinds of the events that a node has left."""
    return [row["kind"] for row in rig.events(node)]


def age(rig: ConductorFixture, node: str, days: float) -> None:
    """Let everything that happened to a node be so much older."""
    past = clock.after(-days * DAY)

    def write(conn: Connection) -> None:
        for table, name in ((models.events, "at"), (models.runs, "ended_at")):
            conn.execute(table.update().where(table.c.node_uuid == node), {name: past})

    rig.database.write(write)


def test_newest_entries_are_kept_up_to_the_limit(build: Build) -> None:
    rig = build(conductor__node_history_max_entries=3)
    node, little = cleaned(rig, 4), cleaned(rig, 1)
    before, other = kept(rig, node), kept(rig, little)
    sweep(rig)
    left = kept(rig, node)
    assert left[0] == "flow_ended"
    assert [kind for kind in left if kind.startswith("flow")] == [
        "flow_ended",
        "flow_started",
        "flow_ended",
    ]
    assert left == before[-len(left) :]
    assert kept(rig, little) == other
    assert [len(rig.runs(each)) for each in (node, little)] == [3, 1]
    assert len(rig.run(node)["steps"]) == 1


def test_other_events_are_bounded_too(build: Build) -> None:
    rig = build(conductor__node_history_max_entries=2)
    node = cleaned(rig, 1)
    row = {"at": clock.now(), "node_uuid": node, "kind": "node_updated"}
    rig.database.write(lambda conn: events.add(conn, [row] * 100))
    sweep(rig)
    left = kept(rig, node)
    assert [kind for kind in left if kind != "node_updated"] == ["flow_started", "flow_ended"]
    assert left.count("node_updated") == 2 * retention.EVENTS_PER_ENTRY


def test_events_of_a_resource_without_a_node_are_bounded(build: Build) -> None:
    rig = build(conductor__node_history_max_entries=2)
    row = history.resource_event_row(rig.who, "chassis_updated", {"uuid": str(uuid.uuid4())})
    rig.database.write(lambda conn: events.add(conn, [row] * 100))
    sweep(rig)
    assert len(kept(rig, row["node_uuid"])) == 2 * retention.EVENTS_PER_ENTRY


def test_portions_are_small_and_the_sweep_goes_on_until_all_is_gone(build: Build) -> None:
    rig = build(
        conductor__node_history_max_entries=1, conductor__node_history_cleanup_batch_count=4
    )
    node = cleaned(rig, 5)
    with count_statements(rig.database) as sent:
        sweep(rig)
    assert kept(rig, node) == ["flow_ended", "provision"]
    assert len(rig.runs(node)) == 1
    assert len([one for one in sent if one.startswith("DELETE FROM events")]) > 5


def test_young_entries_are_kept_whatever_their_number(build: Build) -> None:
    rig = build(conductor__node_history_max_entries=1, conductor__node_history_minimum_days=7)
    young, old = cleaned(rig, 3), cleaned(rig, 3)
    age(rig, old, 8)
    before = kept(rig, young)
    sweep(rig)
    assert (kept(rig, young), len(rig.runs(young))) == (before, 3)
    assert (kept(rig, old), len(rig.runs(old))) == (["flow_ended", "provision"], 1)


@pytest.mark.parametrize("option", ["node_history_max_entries", "node_history_cleanup_batch_count"])
def test_nought_keeps_everything(build: Build, option: str) -> None:
    limits = {"conductor__node_history_max_entries": 1, f"conductor__{option}": 0}
    rig = build(**limits)
    node = cleaned(rig, 3)
    before = kept(rig, node)
    sweep(rig)
    assert (kept(rig, node), len(rig.runs(node))) == (before, 3)


def test_each_conductor_trims_its_own_nodes(build: Build) -> None:
    rig = build(conductor__node_history_max_entries=1)
    node = cleaned(rig, 2)
    rig.edit(node, conductor_group="elsewhere")
    before = kept(rig, node)
    sweep(rig)
    assert kept(rig, node) == before


def test_a_run_under_way_stays(build: Build) -> None:
    rig = build(conductor__node_history_max_entries=1)
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, "bios.factory_reset")
    times = {"started_at": clock.now(), "ended_at": clock.now()}
    later = {"uuid": str(uuid.uuid4()), "node_uuid": node, "verb": "clean", "state": "done"}
    rig.database.write(lambda conn: insert_run(conn, {**later, **times}))
    sweep(rig)
    assert [run["state"] for run in rig.runs(node)] == ["waiting", "done"]


# -- nodes that are no more ------------------------------------------------------------------


def removed(rig: ConductorFixture, days: float) -> str:
    """Return a node that was removed so many days ago."""
    node = cleaned(rig, 1)
    rig.ask("destroy_node", node)
    age(rig, node, days)
    return node


def test_events_of_a_removed_node_are_kept_for_a_while(build: Build) -> None:
    rig = build(conductor__removed_node_history_days=30)
    long_ago, lately, living = removed(rig, 31), removed(rig, 29), cleaned(rig, 1)
    age(rig, living, 31)
    sweep(rig)
    assert kept(rig, long_ago) == []
    assert kept(rig, lately)[-1] == "node_deleted"
    assert len(kept(rig, living)) > 1


def test_nought_keeps_removed_nodes_for_ever(build: Build) -> None:
    rig = build(conductor__removed_node_history_days=0)
    node = removed(rig, 10_000)
    sweep(rig)
    assert kept(rig, node)[-1] == "node_deleted"


def test_one_conductor_forgets_removed_nodes(build: Build) -> None:
    first, second = build(DEFAULT__host="a"), build(DEFAULT__host="b")
    node = removed(first, 91)
    sweep(second)
    assert kept(first, node) != []
    sweep(first)
    assert kept(first, node) == []


def test_a_service_that_stops_leaves_the_rest_for_the_next_time(build: Build) -> None:
    rig = build(conductor__node_history_max_entries=1)
    node = cleaned(rig, 2)
    before = kept(rig, node)
    rig.service.runtime.draining.set()
    sweep(rig)
    assert kept(rig, node) == before


def test_daily_sweep_first_runs_within_the_hour() -> None:
    pauses: list[float] = []
    asked = threading.Event()

    class Halted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0)
            asked.set()
            return True

    Sweeps(Halted(), [Sweep("old history", DAY, pauses.clear)]).start()
    assert asked.wait(60)
    [pause] = pauses
    assert 0 < pause <= DAY / 24
