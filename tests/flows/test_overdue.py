"""Steps that take too long: each attempt is reported once, and a waiting step has its deadline."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.conductor.watch.overdue import OverdueSteps
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes, runs
from ironic_lite.db.tables import models
from ironic_lite.drivers.agent import direct
from tests.support import crashes, scripted_agent
from tests.support.cleaning_fixture import Gate
from tests.support.conductor_fixture import ConductorFixture, wait_for
from tests.support.statements import count_statements

HOUR = 3600.0
FACTORY_RESET = {"interface": "bios", "step": "factory_reset"}
DEADLINE = {"conductor__step_deadline": [{"bios.factory_reset": 1800}]}
Build = Callable[..., ConductorFixture]


def add_past_steps(rig: ConductorFixture, *seconds: float) -> None:
    """Add runs of another node in which the step has ended well."""
    node = rig.node()
    for one in seconds:
        run, now = str(uuid.uuid4()), clock.now()
        row = {"uuid": run, "node_uuid": node, "verb": "clean", "state": "done", "started_at": now}
        step = {
            **FACTORY_RESET,
            "run_uuid": run,
            "kind": "clean",
            "ordinal": 0,
            "state": "done",
            "started_at": now - datetime.timedelta(seconds=one),
            "ended_at": now,
        }
        rig.database.write(lambda conn, row=row: runs.insert(conn, row))  # type: ignore[misc]
        rig.database.write(lambda conn, step=step: runs.insert_steps(conn, [step]))  # type: ignore[misc]


def age_steps(database: Database, node: str, seconds: float) -> None:
    """Let the steps under way of a node have begun so long ago."""
    step, run = models.run_steps.c, models.runs.c
    mine = sa.select(run.uuid).where(run.node_uuid == node)
    change = (
        models.run_steps.update()
        .where(step.run_uuid.in_(mine), step.state.in_(("running", "waiting")))
        .values(started_at=clock.after(-seconds))
    )
    database.write(lambda conn: conn.execute(change))


def waiting(rig: ConductorFixture, seconds: float, **values: Any) -> str:
    """Return a node whose step has waited for so long, with a driver that polls it."""
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=9 * HOUR, **values)
    rig.clean(node, "bios.factory_reset", "power.cycle")
    age_steps(rig.database, node, seconds)
    return node


def sweep(rig: ConductorFixture) -> None:
    rig.sweep("overdue steps")
    assert rig.service.runtime.workers.wait_idle(10)


# -- overdue steps ---------------------------------------------------------------------------


def test_overdue_step_is_reported_once_and_not_ended(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    node = waiting(rig, 2 * HOUR)
    sweep(rig)
    sweep(rig)
    [event] = rig.events(node, "overdue")
    assert (event["run_uuid"], event["event"]) == (rig.run(node)["uuid"], "clean")
    assert (event["conductor"], event["requester"]) == ("here", "conductor:overdue steps")
    since = datetime.datetime.fromisoformat(event["data"].pop("since"))
    expected = rig.run(node)["steps"][0]["started_at"] + datetime.timedelta(seconds=1800)
    assert since.replace(tzinfo=None) == expected
    assert event["data"] == {
        "step": "bios.factory_reset",
        "ordinal": 0,
        "attempt": 1,
        "usual_p90": 600,
        "deadline": None,
    }
    assert rig.get(node)["provision_state"] == "clean wait"
    assert rig.service.overdue.count == 1


@pytest.mark.parametrize(
    ("past", "seconds"),
    [
        ([], 9 * HOUR),
        ([600] * 4, 9 * HOUR),
        ([600] * 5, 1700),
        ([1] * 5, 880),
    ],
    ids=["no samples", "four samples", "three times not over", "a quarter of an hour not over"],
)
def test_other_steps_are_not_overdue(
    rig: ConductorFixture, past: list[float], seconds: float
) -> None:
    add_past_steps(rig, *past)
    node = waiting(rig, seconds)
    sweep(rig)
    assert rig.events(node, "overdue") == []
    assert rig.service.overdue.count == 0


def test_each_attempt_is_reported(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    node = waiting(rig, 2 * HOUR)
    sweep(rig)
    # The first report was an hour ago; the second attempt began after it.
    step = models.run_steps.c
    run = rig.run(node)["uuid"]
    change = models.run_steps.update().where(step.run_uuid == run, step.ordinal == 0)
    changed = change.values(attempt=2, overdue_at=clock.after(-3 * HOUR))
    rig.database.write(lambda conn: conn.execute(changed))
    sweep(rig)
    sweep(rig)
    assert [event["data"]["attempt"] for event in rig.events(node, "overdue")] == [1, 2]


def test_conductors_report_their_own_nodes(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    node = waiting(rig, 2 * HOUR)
    rig.edit(node, conductor_group="elsewhere")
    sweep(rig)
    assert rig.events(node, "overdue") == []
    assert rig.service.overdue.count == 0


def test_two_sweeps_at_once_report_a_step_once(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    node = waiting(rig, 2 * HOUR)
    sweeps = [OverdueSteps(rig.tasks, rig.service.ownership) for _ in range(4)]
    threads = [threading.Thread(target=one.sweep) for one in sweeps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(rig.events(node, "overdue")) == 1


def test_sweep_costs_one_statement_if_no_step_is_under_way_for_long(
    rig: ConductorFixture,
) -> None:
    add_past_steps(rig, *([600] * 5))
    waiting(rig, 60)
    with count_statements(rig.database) as sent:
        rig.sweep("overdue steps")
    assert len(sent) == 1, sent


def test_count_is_a_metric_of_the_conductor(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    waiting(rig, 2 * HOUR)
    sweep(rig)
    rig.service.keepalive.beat()
    query = sa.select(models.conductors.c.counters)
    told = rig.database.read(lambda conn: conn.execute(query).scalar_one())
    assert told["overdue_runs"] == [{"value": 1}]


# -- deadlines -------------------------------------------------------------------------------


def test_waiting_step_fails_at_its_deadline(build: Build) -> None:
    rig = build(**DEADLINE)
    node = waiting(rig, HOUR)
    sweep(rig)
    row = rig.get(node)
    assert (row["provision_state"], row["fault"]) == ("clean failed", "clean failure")
    assert rig.step_states(node) == ["failed", "skipped"]
    error = rig.run(node)["error"]
    assert error == rig.run(node)["steps"][0]["error"]
    assert (error["code"], error["step"]) == ("DeadlinePassed", "bios.factory_reset")
    assert error["retryable"] is True
    assert "bios.factory_reset" in row["last_error"]
    assert "1800 s ([conductor]step_deadline)" in row["last_error"]


@pytest.mark.parametrize("ahead", [2 * 8760 * HOUR, 900])
def test_step_that_began_by_a_clock_ahead_fails_at_its_deadline(
    build: Build, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    passed = [0.0]
    slow = clock.Clock(
        lambda: (
            datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
            + datetime.timedelta(seconds=passed[0])
        ),
        lambda: clock.steady() + passed[0],
    )
    monkeypatch.setattr(clock, "_CLOCK", slow)
    rig = build(**DEADLINE)
    node = waiting(rig, -ahead)
    for seconds in (0, 1000, 700, 150):
        assert rig.get(node)["provision_state"] == "clean wait"
        passed[0] += seconds
        rig.service.keepalive.beat()
        sweep(rig)
    assert rig.reaches(node, "clean failed")["fault"] == "clean failure"


def test_poll_does_not_prolong_a_deadline(build: Build) -> None:
    rig = build(**DEADLINE)
    node = waiting(rig, HOUR)
    rig.edit(node, provision_updated_at=clock.now(), wake_at=clock.after(60))  # as a poll does
    sweep(rig)
    assert rig.get(node)["provision_state"] == "clean failed"
    assert rig.run(node)["error"]["code"] == "DeadlinePassed"


class Stuck(scripted_agent.Machine):
    """A machine whose agent sends heartbeats, and never ends a command."""

    def _settle(self) -> None:
        """Leave all commands under way."""


def test_heartbeats_of_an_agent_do_not_prolong_a_deadline(build: Build) -> None:
    step = {"step": "erase", "interface": "deploy", "priority": 10}
    with scripted_agent.running(Stuck(clean=[step])) as machine:
        rig = build(
            registry=scripted_agent.registry(machine, direct.DirectDeploy(), crashes.Life()),
            agent__require_tls=False,
            conductor__step_deadline=[{"deploy.erase": 1800}],
        )
        machine.service = rig.service
        machine.node = node = rig.node()
        rig.ask("do_provisioning_action", node, action="provide")
        wait_for(lambda: machine.ran == ["get_clean_steps", "erase"], lambda: rig.about(node))
        rig.reaches(node, "clean wait")
        age_steps(rig.database, node, HOUR)
        heard = last_heartbeat(rig, node)
        wait_for(lambda: last_heartbeat(rig, node) != heard)
        # A heartbeat may hold the lock during a sweep.
        wait_for(lambda: state_after_sweep(rig, node) == "clean failed")
        assert rig.run(node)["error"]["code"] == "DeadlinePassed"


def state_after_sweep(rig: ConductorFixture, node: str) -> str:
    sweep(rig)
    return str(rig.get(node)["provision_state"])


def last_heartbeat(rig: ConductorFixture, node: str) -> Any:
    return rig.get(node)["driver_internal_info"].get("agent_last_heartbeat")


@pytest.mark.parametrize(
    "spared",
    [{"seconds": 1700}, {"maintenance": True}, {"conductor_group": "elsewhere"}],
    ids=lambda values: next(iter(values)),
)
def test_step_within_its_deadline_or_watched_by_an_operator_goes_on(
    build: Build, spared: dict[str, Any]
) -> None:
    rig = build(**DEADLINE)
    node = waiting(rig, spared.pop("seconds", HOUR))
    if spared:
        rig.edit(node, **spared)
    sweep(rig)
    assert rig.get(node)["provision_state"] == "clean wait"


def test_deadline_of_another_step_ends_nothing(build: Build) -> None:
    rig = build(conductor__step_deadline=[{"deploy.erase_devices": 60}])
    node = waiting(rig, HOUR)
    sweep(rig)
    assert rig.get(node)["provision_state"] == "clean wait"


def test_locked_node_has_its_deadline_in_a_later_sweep(build: Build) -> None:
    rig = build(**DEADLINE)
    node = waiting(rig, HOUR)
    with rig.tasks.lock(rig.who, node):
        rig.sweep("overdue steps")
    assert rig.get(node)["provision_state"] == "clean wait"
    sweep(rig)
    assert rig.get(node)["provision_state"] == "clean failed"


def test_next_owner_keeps_the_deadline_of_a_dead_conductor(build: Build) -> None:
    rig = build(**DEADLINE)
    node = waiting(rig, HOUR)
    rig.bury()
    other = build(**DEADLINE)
    sweep(other)
    assert other.get(node)["provision_state"] == "clean failed"
    assert other.run(node)["error"]["code"] == "DeadlinePassed"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_deadline_is_kept_wherever_a_conductor_dies(
    build: Build, sqlite_database: Database
) -> None:
    """The next owner of the node finds it waiting, or failed."""
    deaths = 0
    for commits in itertools.count(1):
        life = crashes.Life()
        sqlite_database.write(forget_conductors)
        rig = build(crashes.database(sqlite_database, life), **DEADLINE)
        rig.database = sqlite_database
        node = waiting(rig, HOUR)
        life.arm(commit=commits)
        with contextlib.suppress(crashes.Died):
            rig.sweep("overdue steps")
        assert rig.service.runtime.workers.wait_idle(10)
        rig.bury()
        sqlite_database.write(forget_conductors)
        again = build(DEFAULT__host="there", **DEADLINE)
        again.service.orphans.sweep()
        assert again.settled(node)["provision_state"] in ("clean wait", "clean failed")
        sweep(again)
        assert again.get(node)["provision_state"] == "clean failed", commits
        assert again.run(node)["error"]["code"] == "DeadlinePassed"
        again.bury()
        if not life.dead:
            break
        deaths += 1
    assert deaths >= 2


def forget_conductors(conn: Connection) -> None:
    """Let all conductors be long gone, and their leases with them."""
    conn.execute(models.conductors.delete())
    held = models.nodes.c.reservation.is_not(None)
    conn.execute(models.nodes.update().where(held), {"lock_expires": nodes.ENDED})


def test_few_nodes_fail_in_one_sweep(build: Build) -> None:
    rig = build(conductor__periodic_max_workers=2, **DEADLINE)
    late = [waiting(rig, HOUR) for _ in range(3)]
    sweep(rig)
    states = [rig.get(node)["provision_state"] for node in late]
    assert sorted(states) == ["clean failed", "clean failed", "clean wait"]
    sweep(rig)
    assert {rig.get(node)["provision_state"] for node in late} == {"clean failed"}


def test_step_in_a_thread_is_only_reported(build: Build) -> None:
    gate = Gate()
    rig = build(registry=gate.registry(), **DEADLINE)
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=[FACTORY_RESET])
    gate.wait()
    age_steps(rig.database, node, HOUR)
    rig.sweep("overdue steps")
    [event] = rig.events(node, "overdue")
    assert (event["data"]["deadline"], event["data"]["usual_p90"]) == (1800, None)
    gate.opened.set()
    assert rig.reaches(node, "manageable")["last_error"] is None
