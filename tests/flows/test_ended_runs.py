"""Runs of a restored database are ended before a conductor can continue them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.cmd import end_runs
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import activities
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from ironic_lite.features.batches import rows
from tests.flows import test_power as power
from tests.flows.test_batches import BATCH, begin, counts
from tests.flows.test_death import CASES
from tests.flows.test_reserved_steps import steps
from tests.flows.test_stop import Slow
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, configure, listed, wait_for
from tests.support.crashes import Stage, rests
from tests.support.statements import count_statements

Build = Callable[..., ConductorFixture]


def end(database: Database) -> None:
    """End what was left; features that are off have left something, too."""
    assert end_runs.run(configure(features__enabled=[]), database, True) == 0


def failed_state(before: str) -> str:
    """Return the state in which a node must be after its run was ended."""
    state = State(before)
    if states.kind(state) in (Kind.BUSY, Kind.WAIT):
        return str(states.follow(state, "fail"))
    return before


def check_ended(rig: ConductorFixture, node: str, before: str) -> None:
    row = rig.get(node)
    assert row["provision_state"] == failed_state(before)
    assert [row[name] for name in ("lock_token", "reservation", "run_uuid", "wake_at")] == [
        None
    ] * 4
    assert row["target_power_state"] is None
    if row["provision_state"] == before:
        return
    assert "The database was restored from a backup" in row["last_error"]
    assert row["data_state"] != "clean"
    run = rig.run(node)
    assert (run["state"], run["code"]) == ("failed", "DatabaseRestored")
    assert {step["state"] for step in run["steps"]} <= {"done", "failed", "skipped"}
    assert rig.path(node)[-1] == row["provision_state"]


@pytest.mark.parametrize("name", CASES)
def test_no_conductor_continues_an_ended_run(stage: Stage, name: str) -> None:
    case, seen = CASES[name], set()
    for moment in stage.moments("commit"):
        node = moment.die(case.begin, case.ask)
        if not moment.died:
            continue
        rig = moment.rig
        crashes.forget(rig.database)
        before = rig.get(node)["provision_state"]
        seen.add(before)
        end(rig.database)
        check_ended(rig, node, before)
        after, begun = rig.get(node), rig.started(node)
        again = moment.heir()
        again.sweep("orphans")
        assert rests(again, node)["generation"] == after["generation"]
        assert again.started(node) == begun
    assert any(failed_state(state) != state for state in seen)


def held(rig: ConductorFixture, kind: str) -> str:
    """Return a node that a step holds."""
    start, method, _, state = HELD[kind]
    node = rig.node(start)
    assert rig.call(method, node, **steps(kind, "hold"))["provision_state"] == state
    return node


HELD = {
    "clean": ("manageable", "clean", "clean failed", "clean hold"),
    "deploy": ("available", "deploy", "deploy failed", "deploy hold"),
    "service": ("active", "service", "service failed", "service hold"),
}


@pytest.mark.parametrize("kind", HELD)
def test_a_held_run_is_ended(rig: ConductorFixture, kind: str) -> None:
    node = held(rig, kind)
    rig.bury()
    crashes.forget(rig.database)
    end(rig.database)
    assert rig.get(node)["provision_state"] == HELD[kind][2]
    assert rig.run(node)["code"] == "DatabaseRestored"
    assert "The database was restored" in rig.get(node)["last_error"]


@pytest.mark.usefixtures("stages")
@pytest.mark.parametrize("n", range(1, 6))
def test_command_that_dies_is_repeated(rig: ConductorFixture, n: int) -> None:
    node = held(rig, "clean")
    begin(rig, [rig.node("enroll")], [1], 1)
    rig.bury()
    crashes.forget(rig.database)
    life = crashes.Life()
    life.arm(commit=n)
    with contextlib.suppress(crashes.Died):
        end(crashes.database(rig.database, life))
    assert life.dead
    end(rig.database)
    row = rig.get(node)
    assert (row["provision_state"], row["reservation"]) == ("clean failed", None)
    assert batch_state(rig.database) == ("paused", "restore of the database")
    assert rig.path(node)[-2:] == ["clean wait", "clean failed"]  # once
    assert len(rig.runs(node)) == 1


def batch_state(database: Database) -> tuple[str, str]:
    row = database.read(lambda conn: rows.get(conn, BATCH))
    return row["state"], row["paused_by"]


@pytest.mark.feature("batches")
def test_batch_counts_ended_runs_as_failed_and_starts_no_other(
    build: Build, rig: ConductorFixture
) -> None:
    working = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    claimed, waiting = rig.node(), rig.node()
    request = {"target": "clean", "clean_steps": listed("raid.delete_configuration")}
    begin(rig, [working, claimed, waiting], [3], 1, request=request, was="manageable")
    rig.sweep("batches")
    rig.reaches(working, "clean wait")
    claim = models.batch_nodes.update().where(models.batch_nodes.c.node_uuid == claimed)
    rig.database.write(
        lambda conn: conn.execute(claim.values(state="starting", host="here", request_id="req-1"))
    )
    rig.bury()
    crashes.forget(rig.database)
    end(rig.database)
    told = rig.events(BATCH, "batch_paused")
    assert [one["data"]["by"] for one in told] == ["restore of the database"]
    again = build()
    for _ in range(2):
        again.sweep("batches")
    assert counts(again.database) == {"failed": 1, "pending": 2}
    assert again.runs(claimed) + again.runs(waiting) == []


def test_locks_power_changes_and_retries_end(rig: ConductorFixture) -> None:
    free, retried = rig.node(), rig.node("clean failed", wake_at=clock.after(60))
    changing = rig.node("active", power_state="power on", target_power_state="power off")
    untidied = rig.node("clean failed", driver_internal_info={"untidied": True})
    for node in (changing, untidied):
        lock(rig.database, node)
    rig.bury()
    crashes.forget(rig.database)
    before = rig.get(free)
    end(rig.database)
    for node in (retried, changing, untidied):
        check_ended(rig, node, rig.get(node)["provision_state"])
    assert "power change was interrupted" in rig.get(changing)["last_error"]
    assert not rig.get(untidied)["driver_internal_info"].get("untidied")
    assert rig.get(free) == before


def test_abort_of_a_failed_service_ends(build: Build) -> None:
    slow = Slow("tear_down_service")
    rig = build(registry=slow.drivers())
    node = rig.node("service failed")
    rig.ask("abort", node)
    wait_for(lambda: slow.calls)
    rig.bury()
    crashes.forget(rig.database)
    end(rig.database)
    check_ended(rig, node, "service failed")
    assert "untidied" not in rig.get(node)["driver_internal_info"]
    assert rig.run(node)["state"] == "failed"


def test_machine_in_use_is_not_switched_off(build: Build, rig: ConductorFixture) -> None:
    node = power.machine(rig, power.OFF, power.ON)  # off at the time of the backup
    rig.bury()
    crashes.forget(rig.database)
    end(rig.database)
    again = build()
    power.act(again)
    assert (again.get(node)["power_state"], power.real(again, node)) == (power.ON, power.ON)


def lock(database: Database, node: str) -> None:
    """Leave the lock of a conductor that is gone."""
    expires = clock.after(60)
    assert database.write(
        lambda conn: nodes.lock(conn, node, host="there", token=f"{node}", expires=expires)
    )


def test_a_living_conductor_is_named_and_nothing_changes(rig: ConductorFixture) -> None:
    node = held(rig, "clean")
    before = rig.get(node)
    with pytest.raises(errors.Conflict, match=r"Conductors are alive: here\."):
        end(rig.database)
    assert rig.get(node) == before


def test_node_that_cannot_be_changed_is_named_and_the_others_end(
    rig: ConductorFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    locked_out, other = held(rig, "clean"), held(rig, "clean")
    rig.bury()
    crashes.forget(rig.database)
    give_up = activities.give_up_unseen

    def without_its_key(task: Task, *about: Any) -> None:
        if task.node.uuid == locked_out:
            raise errors.KeyMissing(key="0a1b2c3d")
        give_up(task, *about)

    monkeypatch.setattr(activities, "give_up_unseen", without_its_key)
    assert end_runs.run(configure(), rig.database, True) == 1
    said = capsys.readouterr()
    assert f"node {locked_out}: its run has not ended: " in said.err
    assert "Done" not in said.out
    check_ended(rig, other, "clean wait")


def test_command_without_yes_only_lists(
    rig: ConductorFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    node = held(rig, "clean")
    begin(rig, [rig.node("enroll")], [1], 1)
    rig.bury()
    crashes.forget(rig.database)
    before = rig.get(node)
    with count_statements(rig.database) as sent:
        assert end_runs.run(configure(features__enabled=[]), rig.database, False) == 0
    assert [one for one in sent if not one.startswith("SELECT")] == []
    assert rig.get(node) == before
    assert batch_state(rig.database)[0] == "running"
    said = capsys.readouterr().out
    assert f"node {node}: clean hold: becomes clean failed" in said
    assert f"batch {BATCH}: running: becomes paused" in said
    assert "--yes" in said
