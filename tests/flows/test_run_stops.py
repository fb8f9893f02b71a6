"""Stops of runs in each moment: hold or abort when a step has ended, taken back, and taken over."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.api.resources import run_stops
from ironic_lite.conductor.watch import timers
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries.run_stops import StopChanged
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
STEPS = ["bios.factory_reset", "raid.delete_configuration", "management.reset_bmc"]
SERVICE = ["vendor.log_passthrough"] * 3
DEPLOY = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]
CLEAN = ("manageable", "do_node_clean", {"clean_steps": listed(*STEPS)}, "clean", "manageable")
STEPS_OF = {"clean": STEPS, "deploy": DEPLOY, "service": SERVICE}
EXECUTE = {f"execute_{kind}_step" for kind in STEPS_OF}
BUSY = ("cleaning", "deploying", "servicing")
LISTS: dict[str, Any] = {
    "clean": CLEAN,
    "deploy": ("available", "do_node_deploy", {}, "deploy", "active"),
    "service": (
        "active",
        "do_node_service",
        {"service_steps": listed(*SERVICE)},
        "service",
        "active",
    ),
}


@pytest.fixture(autouse=True)
def quick_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers of dead conductors are looked for without delay."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)


def stop(
    rig: ConductorFixture, node: str, how: str = "hold", after: int | None = None, why: str = ""
) -> None:
    given = run_stops.read_body({"how": how, "after": after, "reason": why})
    rig.database.write(lambda conn: run_stops.ask(conn, node, None, given, rig.who))


def take_back(rig: ConductorFixture, node: str) -> None:
    rig.database.write(lambda conn: run_stops.take_back(conn, node, None, rig.who))


def around(act: Callable[[int], None]) -> Registry:
    """Return drivers that call ``act`` with the number of each step, before the step is done."""
    count = iter(range(1000))

    def wrapped(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name in EXECUTE:
            act(next(count))
        return call()

    return cast(Registry, crashes.Drivers(drivers(), wrapped))


def when(steps: tuple[int, ...], act: Callable[[], None]) -> Callable[[int], None]:
    """Return a function for `around` that acts in the steps with these numbers."""

    def check(number: int) -> None:
        if number in steps:
            act()

    return check


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("at", [0, 1])
def test_hold_asked_in_a_step_holds_after_it_and_unhold_goes_on(
    build: Any, name: str, at: int
) -> None:
    state, method, args, word, end = LISTS[name]
    rig: ConductorFixture
    node = ""

    def act(number: int) -> None:
        if number == at:
            stop(rig, node, why="look at the disks")

    rig = build(registry=around(act))
    node = rig.node(state)
    rig.ask(method, node, **args)
    rig.reaches(node, f"{word} hold")
    assert rig.step_states(node) == ["done"] * (at + 1) + ["pending"] * (2 - at)
    assert rig.run(node)["state"] == "waiting"
    with pytest.raises(errors.Conflict, match="happened"):
        take_back(rig, node)
    rig.ask("do_provisioning_action", node, action="unhold")
    row = rig.reaches(node, end)
    assert rig.step_states(node) == ["done"] * 3
    assert len(rig.started(node)) == 3
    assert (row["run_stop"], rig.run(node)["state"]) == (None, "done")
    (event,) = rig.events(node, "stop_requested")
    assert (event["event"], event["data"]["reason"]) == ("hold", "look at the disks")


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("how", ["hold", "abort"])
def test_abort_ends_the_run_after_the_step(build: Any, name: str, how: str) -> None:
    state, method, args, word, _end = LISTS[name]
    rig: ConductorFixture
    node = ""
    rig = build(registry=around(when((0,), lambda: stop(rig, node, how))))
    node = rig.node(state)
    rig.ask(method, node, **args)
    if how == "hold":
        rig.reaches(node, f"{word} hold")
        rig.ask("do_provisioning_action", node, action="abort")
    row = rig.reaches(node, "active" if name == "service" else f"{word} failed")
    assert (row["maintenance"], row["run_stop"]) == (False, None)
    assert rig.run(node)["state"] == "aborted"
    assert rig.step_states(node) == ["done", "skipped", "skipped"]
    assert "by request" in row["last_error"].lower()


def test_aborted_run_can_be_retried_from_the_next_step(build: Any) -> None:
    rig: ConductorFixture
    node = ""
    rig = build(registry=around(when((0,), lambda: stop(rig, node, "abort"))))
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "clean failed")
    rig.ask("do_node_retry", node)
    rig.reaches(node, "manageable")
    assert rig.started(node) == STEPS


@pytest.mark.parametrize("how", ["hold", "abort"])
def test_stop_before_the_first_step(build: Any, how: str) -> None:
    rig: ConductorFixture
    node = ""

    def wrapped(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "validate" and rig.get(node)["provision_state"] == "cleaning":
            stop(rig, node, how)
        return call()

    registry = crashes.Drivers(drivers(), wrapped, more=("validate",))
    rig = build(registry=cast(Registry, registry))
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=listed(*STEPS))
    if how == "abort":
        rig.reaches(node, "clean failed")
        assert rig.step_states(node) == ["skipped"] * 3
        return
    rig.reaches(node, "clean hold")
    assert rig.step_states(node) == ["pending"] * 3
    rig.ask("do_provisioning_action", node, action="unhold")
    rig.reaches(node, "manageable")
    assert rig.started(node) == STEPS
    assert rig.step_states(node) == ["done"] * 3


def test_stop_after_a_later_step(build: Any) -> None:
    rig: ConductorFixture
    node = ""
    rig = build(registry=around(when((0,), lambda: stop(rig, node, after=1))))
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "clean hold")
    assert rig.step_states(node) == ["done", "done", "pending"]
    rig.ask("do_provisioning_action", node, action="unhold")
    rig.reaches(node, "manageable")


def test_stop_in_the_last_step_is_refused(build: Any) -> None:
    refusals: list[errors.Error] = []
    rig: ConductorFixture
    node = ""

    def act(number: int) -> None:
        if number == 2:
            with pytest.raises(errors.Conflict, match="no step of its run follows") as why:
                stop(rig, node)
            refusals.append(why.value)

    rig = build(registry=around(act))
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "manageable")
    assert len(refusals) == 1
    with pytest.raises(errors.NotFound):
        stop(rig, node)
    with pytest.raises(errors.Conflict, match="has ended"):
        given = run_stops.read_body({"how": "hold"})
        run = rig.run(node)["uuid"]
        rig.database.write(lambda conn: run_stops.ask(conn, node, run, given, rig.who))


def test_stop_that_is_taken_back_does_nothing(build: Any) -> None:
    rig: ConductorFixture
    node = ""

    def act(number: int) -> None:
        if number == 0:
            stop(rig, node)
            take_back(rig, node)
            with pytest.raises(errors.NotFound):
                take_back(rig, node)

    rig = build(registry=around(act))
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "manageable")
    assert "clean hold" not in rig.path(node)
    assert len(rig.events(node, "stop_withdrawn")) == 1


def test_last_of_two_stops_counts(build: Any) -> None:
    rig: ConductorFixture
    node = ""

    def act(number: int) -> None:
        if number == 0:
            stop(rig, node, "hold")
            stop(rig, node, "abort")

    rig = build(registry=around(act))
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "clean failed")


def test_two_stops_at_once_leave_one(build: Any) -> None:
    rig: ConductorFixture
    node = ""

    def act(number: int) -> None:
        if number == 0:
            threads = [threading.Thread(target=stop, args=(rig, node)) for _ in range(4)]
            for one in threads:
                one.start()
            for one in threads:
                one.join(10)

    rig = build(registry=around(act))
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "clean hold")
    assert len(rig.events(node, "stop_requested")) == 4
    rig.ask("do_provisioning_action", node, action="unhold")
    rig.reaches(node, "manageable")
    assert rig.path(node).count("clean hold") == 1


def test_second_stop_holds_again(build: Any) -> None:
    rig: ConductorFixture
    node = ""
    rig = build(registry=around(when((0, 1), lambda: stop(rig, node))))
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=listed(*STEPS))
    for done in (1, 2):
        rig.reaches(node, "clean hold")
        assert rig.step_states(node).count("done") == done
        rig.ask("do_provisioning_action", node, action="unhold")
    rig.reaches(node, "manageable")
    assert rig.started(node) == STEPS


# -- while the node waits --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hold", "abort"])
def test_stop_of_a_waiting_step_follows_its_end(rig: ConductorFixture, how: str) -> None:
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.call("do_node_clean", node, clean_steps=listed(*STEPS))
    assert rig.get(node)["provision_state"] == "clean wait"
    stop(rig, node, how)
    row = rig.call("stop_run", node, run_uuid=rig.run(node)["uuid"])
    assert row["provision_state"] == "clean wait"  # the step must not be interrupted
    rig.ring(node)
    rig.reaches(node, "clean hold" if how == "hold" else "clean failed")
    assert rig.step_states(node)[0] == "done"
    assert len(rig.started(node)) == 1


def test_abort_of_an_interruptible_wait_is_carried_out_at_once(rig: ConductorFixture) -> None:
    node = rig.node()
    steps = [{"interface": "deploy", "step": "wait", "args": {"seconds": 3600}}, *listed(*STEPS)]
    rig.call("do_node_clean", node, clean_steps=steps)
    assert rig.get(node)["provision_state"] == "clean wait"
    stop(rig, node, "abort")
    rig.ask("stop_run", node, run_uuid=rig.run(node)["uuid"])
    rig.reaches(node, "clean failed")
    assert rig.run(node)["state"] == "aborted"


def test_late_order_to_stop_changes_nothing(rig: ConductorFixture) -> None:
    node = rig.node()
    steps = [{"interface": "deploy", "step": "wait", "args": {"seconds": 3600}}, *listed(*STEPS)]
    rig.call("do_node_clean", node, clean_steps=steps)
    stop(rig, node, "abort")
    take_back(rig, node)
    row = rig.call("stop_run", node, run_uuid=rig.run(node)["uuid"])
    assert row["provision_state"] == "clean wait"
    row = rig.call("stop_run", node, run_uuid="another")
    assert row["provision_state"] == "clean wait"


def test_held_run_needs_no_stop(build: Any) -> None:
    rig: ConductorFixture
    node = ""
    rig = build(registry=around(when((0,), lambda: stop(rig, node))))
    node = rig.node()
    rig.ask("do_node_clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "clean hold")
    with pytest.raises(errors.Conflict, match="is held"):
        stop(rig, node)
    stop(rig, node, after=1)
    rig.ask("do_provisioning_action", node, action="unhold")
    rig.reaches(node, "clean hold")
    assert rig.step_states(node) == ["done", "done", "pending"]


# -- the death of the conductor --------------------------------------------------------------


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("how", ["hold", "abort"])
@pytest.mark.parametrize("place", [-1, 0, 1])
def test_conductor_dies_after_each_save_of_a_stop(
    build: Any, sqlite_database: Database, name: str, how: str, place: int
) -> None:
    """The stop is asked before the first step (-1), or in a step; the next conductor goes on."""
    deaths = 0
    for commits in itertools.count(1):
        played = play_death(build, sqlite_database, (name, how, place), commits)
        if played is None:
            break
        deaths += 1
    assert deaths >= 2


def play_death(
    build: Any, database: Database, case: tuple[str, str, int], commits: int
) -> bool | None:
    """Return None if the conductor lived to the end."""
    name, how, place = case
    state, method, args, word, end = LISTS[name]
    life, asked = crashes.Life(), threading.Event()
    count = itertools.count(0)
    rig: ConductorFixture
    node = ""

    def begin_or_step(_kind: str, called: str, call: Callable[[], Any]) -> Any:
        life.check()
        number = next(count) if called in EXECUTE else None
        if called in ("validate", "prepare") and rig.get(node)["provision_state"] in BUSY:
            number = -1
        if number == place and not asked.is_set():
            asked.set()
            stop(rig, node, how)
            life.arm(commit=commits)
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), begin_or_step, more=("validate",)))
    rig = build(crashes.database(database, life), registry=registry)
    rig.database = database
    node = rig.node(state)
    rig.ask(method, node, **args)
    last = "active" if name == "service" else f"{word} failed"
    wanted = f"{word} hold" if how == "hold" else last

    def stopped() -> bool:
        row = rig.get(node)
        return row["provision_state"] == wanted and row["reservation"] is None

    wait_for(lambda: asked.is_set() and (life.dead or stopped()), lambda: rig.about(node))
    rig.bury()
    assert rig.service.runtime.workers.wait_idle(5)
    if not life.dead:
        return None
    heir: ConductorFixture = build(database)
    heir.reaches(node, wanted)
    done = place + 1
    left = "pending" if how == "hold" else "skipped"
    assert heir.step_states(node) == ["done"] * done + [left] * (3 - done)
    if how == "hold":
        heir.ask("do_provisioning_action", node, action="unhold")
        heir.reaches(node, end)
        assert heir.step_states(node) == ["done"] * 3
        assert heir.path(node).count(wanted) == 1
        assert len(set(heir.started(node))) == len(set(STEPS_OF[name]))
    else:
        assert heir.run(node)["state"] == "aborted"
    heir.bury()
    return True


def test_save_that_a_stop_prevents_notes_the_power_once(rig: ConductorFixture) -> None:
    node = rig.node(power_state="power off")
    with rig.tasks.lock(rig.who, node) as task:
        task.node.power_state = "power on"
        with pytest.raises(StopChanged):
            task.save_unless_stopped("another stop")
        assert task.journal.events == []
        task.save()
    (event,) = rig.events(node, "power")
    assert (event["before"], event["after"]) == ("power off", "power on")
