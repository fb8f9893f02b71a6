"""Waits and steps that take too long: limits, words, and fail states."""

from __future__ import annotations

import datetime
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, cast

import pytest
import sqlalchemy as sa

from ironic_lite.conductor.watch import timeouts
from ironic_lite.conductor.watch.timeouts import OverdueSteps
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import runs
from ironic_lite.db.tables import models
from ironic_lite.domain.steps import WAIT
from ironic_lite.drivers.agent import deploy
from ironic_lite.drivers.registry import Registry
from tests.support import crashes, scripted_agent
from tests.support.cleaning_fixture import Gate
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.crashes import Stage
from tests.support.database_rows import insert_run
from tests.support.statements import count_statements

# Waits that nobody ends: each wait state has its limit, its words, and its fail state.

STEP = {
    "interface": "raid",
    "step": "create_configuration",
    "args": {"password": "s3cret"},
    "abortable": True,
    "priority": 0,
}
WAITS = [
    # state, target, option, fail state, words, fault
    (
        "clean wait",
        "manageable",
        "clean_callback_timeout",
        "clean failed",
        "Timeout reached while cleaning the node",
        "clean failure",
    ),
    (
        "wait call-back",
        "active",
        "deploy_callback_timeout",
        "deploy failed",
        "Timeout reached while waiting for callback for node",
        None,
    ),
    (
        "service wait",
        "active",
        "service_callback_timeout",
        "service failed",
        "Timeout reached while servicing the node",
        "service failure",
    ),
    (
        "rescue wait",
        "rescue",
        "rescue_callback_timeout",
        "rescue failed",
        "Timeout reached while rescuing the node",
        None,
    ),
    (
        "inspect wait",
        "manageable",
        "inspect_wait_timeout",
        "inspect failed",
        "Timeout reached while inspecting the node",
        None,
    ),
]
COLUMNS = {
    "clean wait": "clean_step",
    "wait call-back": "deploy_step",
    "service wait": "service_step",
}


def waiting(rig: ConductorFixture, state: str, target: str | None = None, **values: Any) -> str:
    """Add a node that waits since an hour ago."""
    column = COLUMNS.get(state)
    return rig.node(
        state,
        target_provision_state=target,
        **{"provision_updated_at": clock.after(-3600), **values},
        **({column: STEP} if column else {}),
    )


def sweep(rig: ConductorFixture) -> None:
    """Look at all waits once, and let the workers finish."""
    rig.sweep("time-outs")
    assert rig.service.runtime.workers.wait_idle(60)


@pytest.mark.parametrize(("state", "target", "option", "end", "words", "fault"), WAITS)
def test_a_wait_ends_after_its_time(  # noqa: PLR0917  # the facts of a row
    build: Callable[..., ConductorFixture],
    state: str,
    target: str,
    option: str,
    end: str,
    words: str,
    fault: str | None,
) -> None:
    rig = build(**{f"conductor__{option}": 1800})
    node = waiting(rig, state, target)
    sweep(rig)
    row = rig.get(node)
    assert (row["provision_state"], row["target_provision_state"]) == (end, target)
    assert words in row["last_error"]
    assert node in row["last_error"]
    if state in COLUMNS:
        assert row["last_error"].endswith("Failed on step raid.create_configuration.")
        told = [row["maintenance_reason"], *(event["data"] for event in rig.events(node))]
        assert "s3cret" not in str(told)
    assert (row["maintenance"], row["fault"]) == (fault is not None, fault)
    assert row["reservation"] is None


@pytest.mark.parametrize(("state", "target", "option"), [row[:3] for row in WAITS])
def test_a_limit_of_zero_waits_for_ever(
    build: Callable[..., ConductorFixture], state: str, target: str, option: str
) -> None:
    rig = build(**{f"conductor__{option}": 0})
    node = waiting(rig, state, target)
    sweep(rig)
    assert rig.get(node)["provision_state"] == state


@pytest.mark.parametrize(
    "spared",
    [
        {"provision_updated_at": clock.after(-60)},
        {"maintenance": True},
        {"wake_at": clock.after(3600)},
        {"conductor_group": "elsewhere"},
        {"driver": "no-such-driver"},
    ],
    ids=lambda values: next(iter(values)),
)
def test_some_waits_go_on(rig: ConductorFixture, spared: dict[str, Any]) -> None:
    node = waiting(rig, "clean wait", "available", **spared)
    sweep(rig)
    assert rig.get(node)["provision_state"] == "clean wait"


def test_a_retired_node_times_out_too(rig: ConductorFixture) -> None:
    node = waiting(rig, "clean wait", "available", retired=True)
    sweep(rig)
    assert rig.get(node)["provision_state"] == "clean failed"


def test_a_step_of_an_earlier_deployment_is_not_blamed(rig: ConductorFixture) -> None:
    node = waiting(rig, "inspect wait", "manageable", deploy_step=STEP)
    sweep(rig)
    assert "raid" not in rig.get(node)["last_error"]


def test_nodes_of_others_do_not_hide_ours_and_the_oldest_come_first(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__periodic_max_workers=2)
    for _ in range(120):
        waiting(
            rig,
            "clean wait",
            conductor_group="elsewhere",
            provision_updated_at=clock.after(-9000),
        )
    ours = [
        waiting(rig, "clean wait", provision_updated_at=clock.after(-4000 - age))
        for age in (1, 3, 2)
    ]
    sweep(rig)
    states = [rig.get(node)["provision_state"] for node in ours]
    assert states == ["clean wait", "clean failed", "clean failed"]
    sweep(rig)
    assert rig.get(ours[0])["provision_state"] == "clean failed"


def test_the_step_that_waited_has_failed_in_its_run(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, "bios.factory_reset", "power.cycle")
    rig.service.timers.stop()  # which would lock the node at times
    rig.edit(node, provision_updated_at=clock.after(-7200), wake_at=clock.after(-7200))
    sweep(rig)
    assert rig.get(node)["provision_state"] == "clean failed"
    assert rig.step_states(node) == ["failed", "skipped"]
    error = rig.run(node)["error"]
    assert rig.run(node)["steps"][0]["error"] == error
    assert (error["code"], error["step"]) == ("TimedOut", "bios.factory_reset")


# -- clocks that are set ---------------------------------------------------------------------


class Asked(clock.Clock):
    """A clock that records of which stamps the age was asked."""

    def __init__(self, wall: Callable[[], datetime.datetime], steady: Callable[[], float]) -> None:
        super().__init__(wall, steady)
        self.asked: set[datetime.datetime] = set()

    def lived(self, stamp: datetime.datetime) -> float:
        self.asked.add(stamp)
        return super().lived(stamp)


class Wrong:
    """The clock on the wall of this process, which may be set; its monotonic one goes on."""

    def __init__(self) -> None:
        self._by = datetime.timedelta()
        self._passed = 0.0
        self.clock = Asked(self._wall, lambda: time.monotonic() + self._passed)

    def _wall(self) -> datetime.datetime:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        return now + self._by + datetime.timedelta(seconds=self._passed)

    def set(self, hours: float) -> None:
        self._by += datetime.timedelta(hours=hours)
        self.clock.now()

    def let_pass(self, seconds: float) -> None:
        self._passed += seconds

    def forget(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Know nothing of earlier settings, as a process that starts now."""
        self.clock = Asked(self._wall, lambda: time.monotonic() + self._passed)
        self.clock.now()
        monkeypatch.setattr(clock, "_CLOCK", self.clock)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> Wrong:
    made = Wrong()
    made.clock.now()
    monkeypatch.setattr(clock, "_CLOCK", made.clock)
    return made


def test_no_wait_times_out_because_the_clock_was_set_forward(
    rig: ConductorFixture, wrong: Wrong
) -> None:
    node = rig.node("clean wait", clean_step=STEP, provision_updated_at=clock.now())
    for hours in (1, 24, -1):
        wrong.set(hours)
        timeouts.Timeouts(rig.tasks, rig.service.ownership).sweep()
        assert rig.settled(node)["provision_state"] == "clean wait"
    wrong.let_pass(1801)
    rig.service.keepalive.beat()
    timeouts.Timeouts(rig.tasks, rig.service.ownership).sweep()
    assert rig.reaches(node, "clean failed")["last_error"].startswith("Timeout reached")


@pytest.mark.parametrize("hours", [1, -1])
def test_a_timer_rings_in_time_whatever_the_clock_is_set_to(
    rig: ConductorFixture, wrong: Wrong, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)
    early = rig.node(fake_async_steps=["*"], fake_step_seconds=600)
    soon = rig.node(fake_async_steps=["*"], fake_step_seconds=1)
    for node in (early, soon):
        rig.ask("clean", node, clean_steps=[{"interface": "power", "step": "cycle"}])
        rig.enters(node, "clean wait")
    assert rig.service.runtime.workers.wait_idle(60)  # their timers are set
    wrong.set(hours)
    rig.reaches(soon, "manageable")
    row = rig.settled(early)
    assert row["provision_state"] == "clean wait"
    assert len(rig.started(early)) == 1


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("years", [2, -2])
def test_wait_that_began_by_a_wrong_clock_ends_after_its_time(
    build: Callable[..., ConductorFixture], wrong: Wrong, years: int, known: bool
) -> None:
    """The clock was set by years and back; a conductor that starts later does not know that."""
    if not known and years < 0:
        return  # such a wait looks as old as one of a service that was off for years
    rig = build(conductor__clean_callback_timeout=600)
    began = clock.after(years * 8760 * 3600)
    if known:
        wrong.set(years * 8760)
        began = clock.now()
        wrong.set(-years * 8760)
    node = waiting(rig, "clean wait", "manageable", provision_updated_at=began)
    for seconds in (0, 4, 500, 600):
        assert rig.get(node)["provision_state"] == "clean wait"
        wrong.let_pass(seconds)
        rig.service.keepalive.beat()
        sweep(rig)
    assert rig.get(node)["provision_state"] == "clean failed"


def test_wait_of_a_clock_that_was_ahead_by_less_than_its_time_ends_in_time(
    build: Callable[..., ConductorFixture], wrong: Wrong
) -> None:
    """The clock shows the begin of the wait before its end."""
    rig = build(conductor__clean_callback_timeout=600)
    node = waiting(rig, "clean wait", "manageable", provision_updated_at=clock.after(400))
    for seconds in (0, 300, 200, 150):
        assert rig.get(node)["provision_state"] == "clean wait"
        wrong.let_pass(seconds)
        rig.service.keepalive.beat()
        sweep(rig)
    assert rig.get(node)["provision_state"] == "clean failed"


@pytest.mark.parametrize("by", [2 * 8760 * 3600, 400])
def test_timer_of_a_clock_that_was_ahead_rings_after_its_time(
    rig: ConductorFixture, wrong: Wrong, monkeypatch: pytest.MonkeyPatch, by: float
) -> None:
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=600)
    rig.ask("clean", node, clean_steps=[{"interface": "power", "step": "cycle"}])
    rig.enters(node, "clean wait")
    rig.settled(node)
    ahead = clock.after(by)
    values = {"updated_at": ahead, "wake_at": ahead + datetime.timedelta(seconds=900)}
    change = models.nodes.update().where(models.nodes.c.uuid == node).values(**values)
    rig.database.write(lambda conn: conn.execute(change))

    wait_for(lambda: ahead in wrong.clock.asked)
    wrong.let_pass(1000)
    rig.service.keepalive.beat()
    wait_for(lambda: rig.settled(node)["wake_at"] != values["wake_at"])


# -- drivers that say for ever that it goes on ------------------------------------------------


def endless(build: Callable[..., ConductorFixture], limit: int) -> ConductorFixture:
    """A conductor whose drivers find nothing ended that they are asked about."""

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if not name.startswith("poll_"):
            return call()
        asked = cast(Any, call).args[0]
        asked.wake_after(3600)
        return WAIT

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    return build(registry=registry, conductor__poll_timeout=limit)


SLOW: dict[str, Any] = {"fake_async_verbs": ["inspect", "rescue"], "fake_step_seconds": 3600}
HOUR: dict[str, Any] = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
POLLED: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], str]] = {
    # state: before, method, arguments, what the fake machine is told, fail state
    "clean wait": (
        "manageable",
        "clean",
        {"clean_steps": listed("bios.factory_reset")},
        HOUR,
        "clean failed",
    ),
    "wait call-back": ("available", "deploy", {}, HOUR, "deploy failed"),
    "service wait": (
        "active",
        "service",
        {"service_steps": listed("vendor.log_passthrough")},
        HOUR,
        "service failed",
    ),
    "inspect wait": ("manageable", "inspect", {}, SLOW, "inspect failed"),
    "rescue wait": (
        "active",
        "rescue",
        {"rescue_password": "sesame"},
        SLOW,
        "rescue failed",
    ),
}


def poll(rig: ConductorFixture, node: str) -> dict[str, Any]:
    """Let the timer ring, and return the node once its driver has been asked."""
    # A worker that has just saved the node sets its timer after that, and would replace this one.
    assert rig.service.runtime.workers.wait_idle(60)
    with rig.tasks.lock(rig.who, node) as task:
        task.wake_after(0)
        asked = task.node.wake_at
        task.save()
    return cast(
        dict[str, Any],
        wait_for(lambda: (row := rig.settled(node))["wake_at"] != asked and row),
    )


@pytest.mark.parametrize("state", POLLED)
def test_a_driver_that_says_for_ever_that_it_goes_on_is_believed_for_so_long(
    build: Callable[..., ConductorFixture], wrong: Wrong, state: str
) -> None:
    before, method, args, told, failed = POLLED[state]
    rig = endless(build, 86400)
    node = rig.node(before, **told)
    assert rig.call(method, node, **args)["provision_state"] == state
    for hours in (0, 48, -48):  # no clock that is set ends it
        wrong.set(hours)
        assert poll(rig, node)["provision_state"] == state
    wrong.let_pass(86000)
    row = poll(rig, node)
    assert row["provision_state"] == state
    assert "polled_since" in row["driver_internal_info"]
    wrong.let_pass(500)
    row = poll(rig, node)
    assert row["provision_state"] == failed
    assert "[conductor]poll_timeout" in row["last_error"]
    assert "polled_since" not in row["driver_internal_info"]
    assert rig.run(node)["state"] == "failed"


def test_each_wait_is_counted_for_itself(
    build: Callable[..., ConductorFixture], wrong: Wrong
) -> None:
    rig = endless(build, 86400)
    node = rig.node(**HOUR)
    rig.clean(node, "bios.factory_reset")
    poll(rig, node)
    wrong.let_pass(86000)
    rig.edit(node, wake_at=None)
    rig.call("continue_node_clean", node)  # somebody says that it has ended
    rig.clean(node, "bios.factory_reset")
    wrong.let_pass(500)
    assert poll(rig, node)["provision_state"] == "clean wait"


def test_a_poll_limit_of_zero_believes_for_ever(
    build: Callable[..., ConductorFixture], wrong: Wrong
) -> None:
    rig = endless(build, 0)
    node = rig.node(**HOUR)
    rig.clean(node, "bios.factory_reset")
    poll(rig, node)
    wrong.let_pass(10 * 365 * 86400)
    assert poll(rig, node)["provision_state"] == "clean wait"


def test_polls_of_a_clock_that_was_ahead_end_after_their_time(
    build: Callable[..., ConductorFixture], wrong: Wrong, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, method, args, told, failed = POLLED["clean wait"]
    rig = endless(build, 86400)
    node = rig.node(before, **told)
    rig.call(method, node, **args)
    wrong.set(17520)
    poll(rig, node)
    ahead = rig.get(node)["driver_internal_info"]["polled_since"]
    wrong.set(-17520)
    wrong.forget(monkeypatch)  # as a conductor that starts now
    assert poll(rig, node)["provision_state"] == "clean wait"
    assert rig.get(node)["driver_internal_info"]["polled_since"] == ahead
    wrong.let_pass(86500)
    assert poll(rig, node)["provision_state"] == failed


# Steps that take too long: each attempt is reported once, and a waiting step has its deadline.

ONE_HOUR = 3600.0
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
        rig.database.write(lambda conn, row=row: insert_run(conn, row))  # type: ignore[misc]
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


def waiting_step(rig: ConductorFixture, seconds: float, **values: Any) -> str:
    """Return a node whose step has waited for so long, with a driver that polls it."""
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=9 * ONE_HOUR, **values)
    rig.clean(node, "bios.factory_reset", "power.cycle")
    age_steps(rig.database, node, seconds)
    return node


def sweep_overdue(rig: ConductorFixture) -> None:
    rig.sweep("overdue steps")
    assert rig.service.runtime.workers.wait_idle(60)


# -- overdue steps ---------------------------------------------------------------------------


def test_overdue_step_is_reported_once_and_not_ended(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    node = waiting_step(rig, 2 * ONE_HOUR)
    sweep_overdue(rig)
    sweep_overdue(rig)
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
        ([], 9 * ONE_HOUR),
        ([600] * 4, 9 * ONE_HOUR),
        ([600] * 5, 1700),
        ([1] * 5, 880),
    ],
    ids=["no samples", "four samples", "three times not over", "a quarter of an hour not over"],
)
def test_other_steps_are_not_overdue(
    rig: ConductorFixture, past: list[float], seconds: float
) -> None:
    add_past_steps(rig, *past)
    node = waiting_step(rig, seconds)
    sweep_overdue(rig)
    assert rig.events(node, "overdue") == []
    assert rig.service.overdue.count == 0


def test_each_attempt_is_reported(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    node = waiting_step(rig, 2 * ONE_HOUR)
    sweep_overdue(rig)
    # The first report was an hour ago; the second attempt began after it.
    step = models.run_steps.c
    run = rig.run(node)["uuid"]
    change = models.run_steps.update().where(step.run_uuid == run, step.ordinal == 0)
    changed = change.values(attempt=2, overdue_at=clock.after(-3 * ONE_HOUR))
    rig.database.write(lambda conn: conn.execute(changed))
    sweep_overdue(rig)
    sweep_overdue(rig)
    assert [event["data"]["attempt"] for event in rig.events(node, "overdue")] == [1, 2]


def test_conductors_report_their_own_nodes(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    node = waiting_step(rig, 2 * ONE_HOUR)
    rig.edit(node, conductor_group="elsewhere")
    sweep_overdue(rig)
    assert rig.events(node, "overdue") == []
    assert rig.service.overdue.count == 0


def test_two_sweeps_at_once_report_a_step_once(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    node = waiting_step(rig, 2 * ONE_HOUR)
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
    waiting_step(rig, 60)
    with count_statements(rig.database) as sent:
        rig.sweep("overdue steps")
    assert len(sent) == 1, sent


def test_count_is_a_metric_of_the_conductor(rig: ConductorFixture) -> None:
    add_past_steps(rig, *([600] * 5))
    waiting_step(rig, 2 * ONE_HOUR)
    sweep_overdue(rig)
    rig.service.keepalive.beat()
    query = sa.select(models.conductors.c.counters)
    told = rig.database.read(lambda conn: conn.execute(query).scalar_one())
    assert told["overdue_runs"] == [{"value": 1}]


# -- deadlines -------------------------------------------------------------------------------


def test_waiting_step_fails_at_its_deadline(build: Build) -> None:
    rig = build(**DEADLINE)
    node = waiting_step(rig, ONE_HOUR)
    sweep_overdue(rig)
    row = rig.get(node)
    assert (row["provision_state"], row["fault"]) == ("clean failed", "clean failure")
    assert rig.step_states(node) == ["failed", "skipped"]
    error = rig.run(node)["error"]
    assert error == rig.run(node)["steps"][0]["error"]
    assert (error["code"], error["step"]) == ("DeadlinePassed", "bios.factory_reset")
    assert error["retryable"] is True
    assert "bios.factory_reset" in row["last_error"]
    assert "1800 s ([conductor]step_deadline)" in row["last_error"]


@pytest.mark.parametrize("ahead", [2 * 8760 * ONE_HOUR, 900])
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
    node = waiting_step(rig, -ahead)
    for seconds in (0, 1000, 700, 150):
        assert rig.get(node)["provision_state"] == "clean wait"
        passed[0] += seconds
        rig.service.keepalive.beat()
        sweep_overdue(rig)
    assert rig.reaches(node, "clean failed")["fault"] == "clean failure"


def test_poll_does_not_prolong_a_deadline(build: Build) -> None:
    rig = build(**DEADLINE)
    node = waiting_step(rig, ONE_HOUR)
    rig.edit(node, provision_updated_at=clock.now(), wake_at=clock.after(60))  # as a poll does
    sweep_overdue(rig)
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
            registry=scripted_agent.registry(machine, deploy.DirectDeploy(), crashes.Life()),
            agent__require_tls=False,
            conductor__step_deadline=[{"deploy.erase": 1800}],
        )
        machine.service = rig.service
        machine.node = node = rig.node()
        rig.ask("provide", node)
        wait_for(lambda: machine.ran == ["get_clean_steps", "erase"], lambda: rig.about(node))
        rig.reaches(node, "clean wait")
        age_steps(rig.database, node, ONE_HOUR)
        heard = last_heartbeat(rig, node)
        wait_for(lambda: last_heartbeat(rig, node) != heard)
        # A heartbeat may hold the lock during a sweep.
        wait_for(lambda: state_after_sweep(rig, node) == "clean failed")
        assert rig.run(node)["error"]["code"] == "DeadlinePassed"


def state_after_sweep(rig: ConductorFixture, node: str) -> str:
    sweep_overdue(rig)
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
    node = waiting_step(rig, spared.pop("seconds", ONE_HOUR))
    if spared:
        rig.edit(node, **spared)
    sweep_overdue(rig)
    assert rig.get(node)["provision_state"] == "clean wait"


def test_deadline_of_another_step_ends_nothing(build: Build) -> None:
    rig = build(conductor__step_deadline=[{"deploy.erase_devices": 60}])
    node = waiting_step(rig, ONE_HOUR)
    sweep_overdue(rig)
    assert rig.get(node)["provision_state"] == "clean wait"


def test_locked_node_has_its_deadline_in_a_later_sweep(build: Build) -> None:
    rig = build(**DEADLINE)
    node = waiting_step(rig, ONE_HOUR)
    with rig.tasks.lock(rig.who, node):
        rig.sweep("overdue steps")
    assert rig.get(node)["provision_state"] == "clean wait"
    sweep_overdue(rig)
    assert rig.get(node)["provision_state"] == "clean failed"


def test_next_owner_keeps_the_deadline_of_a_dead_conductor(build: Build) -> None:
    rig = build(**DEADLINE)
    node = waiting_step(rig, ONE_HOUR)
    rig.bury()
    other = build(**DEADLINE)
    sweep_overdue(other)
    assert other.get(node)["provision_state"] == "clean failed"
    assert other.run(node)["error"]["code"] == "DeadlinePassed"


def test_deadline_is_kept_wherever_a_conductor_dies(stages: Callable[..., Stage]) -> None:
    """The next owner of the node finds it waiting, or failed."""

    def begin(rig: ConductorFixture) -> str:
        return waiting_step(rig, ONE_HOUR)

    def act(rig: ConductorFixture, _node: str) -> None:
        rig.sweep("overdue steps")

    for moment in stages(dead="removed", **DEADLINE).moments("commit", least=2):
        again, node = moment.play(begin, act, "there", crashes.idle)
        assert again.get(node)["provision_state"] in ("clean wait", "clean failed")
        sweep_overdue(again)
        assert again.get(node)["provision_state"] == "clean failed", moment.number
        assert again.run(node)["error"]["code"] == "DeadlinePassed"


def test_few_nodes_fail_in_one_sweep(build: Build) -> None:
    rig = build(conductor__periodic_max_workers=2, **DEADLINE)
    late = [waiting_step(rig, ONE_HOUR) for _ in range(3)]
    sweep_overdue(rig)
    states = [rig.get(node)["provision_state"] for node in late]
    assert sorted(states) == ["clean failed", "clean failed", "clean wait"]
    sweep_overdue(rig)
    assert {rig.get(node)["provision_state"] for node in late} == {"clean failed"}


def test_step_in_a_thread_is_only_reported(build: Build) -> None:
    gate = Gate()
    rig = build(registry=gate.registry(), **DEADLINE)
    node = rig.node()
    rig.ask("clean", node, clean_steps=[FACTORY_RESET])
    gate.wait()
    age_steps(rig.database, node, ONE_HOUR)
    rig.sweep("overdue steps")
    [event] = rig.events(node, "overdue")
    assert (event["data"]["deadline"], event["data"]["usual_p90"]) == (1800, None)
    gate.opened.set()
    assert rig.reaches(node, "manageable")["last_error"] is None
