"""Stops and aborts of runs in each moment."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.api.controllers import runs
from ironic_lite.conductor.watch import timeouts
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries.runs import StopChanged
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed
from tests.support.crashes import Scene, Stage

# Stops of runs in each moment: hold or abort when a step has ended, taken back, and taken over.

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
STEPS = ["bios.factory_reset", "raid.delete_configuration", "management.reset_bmc"]
SERVICE = ["vendor.log_passthrough"] * 3
DEPLOY = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]
CLEAN = ("manageable", "clean", {"clean_steps": listed(*STEPS)}, "clean", "manageable")
STEPS_OF = {"clean": STEPS, "deploy": DEPLOY, "service": SERVICE}
EXECUTE = {f"execute_{kind}_step" for kind in STEPS_OF}
BUSY = ("cleaning", "deploying", "servicing")
LISTS: dict[str, Any] = {
    "clean": CLEAN,
    "deploy": ("available", "deploy", {}, "deploy", "active"),
    "service": (
        "active",
        "service",
        {"service_steps": listed(*SERVICE)},
        "service",
        "active",
    ),
}


@pytest.fixture(autouse=True)
def quick_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers of dead conductors are looked for without delay."""
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)


def stop(
    rig: ConductorFixture, node: str, how: str = "hold", after: int | None = None, why: str = ""
) -> None:
    given = runs.read_stop({"how": how, "after": after, "reason": why})
    rig.database.write(lambda conn: runs.request_stop(conn, node, None, given, rig.who))


def take_back(rig: ConductorFixture, node: str) -> None:
    rig.database.write(lambda conn: runs.take_stop_back(conn, node, None, rig.who))


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
    rig.ask("unhold", node)
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
        rig.ask("abort", node)
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
    rig.ask("clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "clean failed")
    rig.ask("retry", node)
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
    rig.ask("clean", node, clean_steps=listed(*STEPS))
    if how == "abort":
        rig.reaches(node, "clean failed")
        assert rig.step_states(node) == ["skipped"] * 3
        return
    rig.reaches(node, "clean hold")
    assert rig.step_states(node) == ["pending"] * 3
    rig.ask("unhold", node)
    rig.reaches(node, "manageable")
    assert rig.started(node) == STEPS
    assert rig.step_states(node) == ["done"] * 3


def test_stop_after_a_later_step(build: Any) -> None:
    rig: ConductorFixture
    node = ""
    rig = build(registry=around(when((0,), lambda: stop(rig, node, after=1))))
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "clean hold")
    assert rig.step_states(node) == ["done", "done", "pending"]
    rig.ask("unhold", node)
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
    rig.ask("clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "manageable")
    assert len(refusals) == 1
    with pytest.raises(errors.NotFound):
        stop(rig, node)
    with pytest.raises(errors.Conflict, match="has ended"):
        given = runs.read_stop({"how": "hold"})
        run = rig.run(node)["uuid"]
        rig.database.write(lambda conn: runs.request_stop(conn, node, run, given, rig.who))


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
    rig.ask("clean", node, clean_steps=listed(*STEPS))
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
    rig.ask("clean", node, clean_steps=listed(*STEPS))
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
                one.join(60)

    rig = build(registry=around(act))
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "clean hold")
    assert len(rig.events(node, "stop_requested")) == 4
    rig.ask("unhold", node)
    rig.reaches(node, "manageable")
    assert rig.path(node).count("clean hold") == 1


def test_second_stop_holds_again(build: Any) -> None:
    rig: ConductorFixture
    node = ""
    rig = build(registry=around(when((0, 1), lambda: stop(rig, node))))
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed(*STEPS))
    for done in (1, 2):
        rig.reaches(node, "clean hold")
        assert rig.step_states(node).count("done") == done
        rig.ask("unhold", node)
    rig.reaches(node, "manageable")
    assert rig.started(node) == STEPS


# -- while the node waits --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hold", "abort"])
def test_stop_of_a_waiting_step_follows_its_end(rig: ConductorFixture, how: str) -> None:
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.call("clean", node, clean_steps=listed(*STEPS))
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
    rig.call("clean", node, clean_steps=steps)
    assert rig.get(node)["provision_state"] == "clean wait"
    stop(rig, node, "abort")
    rig.ask("stop_run", node, run_uuid=rig.run(node)["uuid"])
    rig.reaches(node, "clean failed")
    assert rig.run(node)["state"] == "aborted"


def test_late_order_to_stop_changes_nothing(rig: ConductorFixture) -> None:
    node = rig.node()
    steps = [{"interface": "deploy", "step": "wait", "args": {"seconds": 3600}}, *listed(*STEPS)]
    rig.call("clean", node, clean_steps=steps)
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
    rig.ask("clean", node, clean_steps=listed(*STEPS))
    rig.reaches(node, "clean hold")
    with pytest.raises(errors.Conflict, match="is held"):
        stop(rig, node)
    stop(rig, node, after=1)
    rig.ask("unhold", node)
    rig.reaches(node, "clean hold")
    assert rig.step_states(node) == ["done", "done", "pending"]


# -- the death of the conductor --------------------------------------------------------------


def numbered(act: Callable[[str, int], None], life: crashes.Life) -> Registry:
    """Return drivers that call ``act`` with the node before its first step (-1) and each step."""
    count = itertools.count()

    def wrapped(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        life.check()
        uuid = call.args[0].node.uuid  # type: ignore[attr-defined]  # a functools.partial
        if name in EXECUTE:
            act(uuid, next(count))
        elif name in ("validate", "prepare"):
            act(uuid, -1)
        return call()

    return cast(Registry, crashes.Drivers(drivers(), wrapped, more=("validate",)))


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("how", ["hold", "abort"])
@pytest.mark.parametrize("place", [-1, 0, 1])
def test_conductor_dies_after_each_save_of_a_stop(
    stages: Callable[..., Stage], name: str, how: str, place: int
) -> None:
    """The stop is asked before the first step (-1), or in a step; the next conductor goes on."""
    state, method, args, word, end = LISTS[name]
    last = "active" if name == "service" else f"{word} failed"
    wanted = f"{word} hold" if how == "hold" else last
    scene = Scene(state, method, args, wanted)
    asked = threading.Event()

    def arm(node: str, number: int) -> None:
        begun = number >= 0 or moment.rig.get(node)["provision_state"] in BUSY
        if number == place and begun and not asked.is_set():
            asked.set()
            stop(moment.rig, node, how)
            moment.life.arm(commit=moment.number)

    def ask(rig: ConductorFixture, node: str) -> None:
        moment.life.disarm()
        asked.clear()
        scene.ask(rig, node)

    def stopped(rig: ConductorFixture, node: str) -> bool:
        row = rig.get(node)
        ended = row["provision_state"] == wanted and row["reservation"] is None
        return asked.is_set() and ended

    stage = stages(functools.partial(numbered, arm))
    for moment in stage.moments("commit", least=2):
        heir, node = moment.play(scene.begin, ask, ended=stopped)
        done = place + 1
        left = "pending" if how == "hold" else "skipped"
        assert heir.step_states(node) == ["done"] * done + [left] * (3 - done)
        if how == "hold":
            heir.ask("unhold", node)
            heir.reaches(node, end)
            assert heir.step_states(node) == ["done"] * 3
            assert heir.path(node).count(wanted) == 1
            assert len(set(heir.started(node))) == len(set(STEPS_OF[name]))
        else:
            assert heir.run(node)["state"] == "aborted"


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


# Abort: where it is let in, what it leaves, and when it has to wait for a step.

ABORTABLE = "deploy.erase_devices"
STUBBORN = "bios.factory_reset"
HOUR: dict[str, Any] = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}


def test_an_abortable_clean_step_is_called_off_at_once(rig: ConductorFixture) -> None:
    node = rig.node(**HOUR)
    rig.clean(node, ABORTABLE, STUBBORN)
    row = rig.act("abort", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("clean failed", "manageable")
    assert row["last_error"] == (
        f'By request, the clean operation was aborted during the step "{ABORTABLE}".'
    )
    assert (row["maintenance"], row["maintenance_reason"], row["fault"]) == (False, None, None)
    assert (row["clean_step"], row["wake_at"]) == ({}, None)
    info = row["driver_internal_info"]
    assert info["clean_steps"] is None
    assert not {"clean_step_index", "declarative_cleaning"} & set(info)
    run = rig.run(node)
    assert (run["state"], run["error"]["code"]) == ("aborted", "Aborted")
    assert run["error"]["step"] == ABORTABLE
    assert rig.step_states(node) == ["aborted", "skipped"]


def test_a_step_that_must_not_be_cut_short_ends_before_the_abort_does(
    rig: ConductorFixture,
) -> None:
    node = rig.node(**HOUR)
    rig.clean(node, STUBBORN, ABORTABLE)
    row = rig.act("abort", node)
    assert row["provision_state"] == "clean wait"
    assert row["clean_step"]["abort_after"] is True
    assert row["last_error"] is None
    (asked,) = rig.events(node, "abort_requested")
    assert (asked["requester"], asked["data"]["step"]) == ("tester", STUBBORN)
    rig.ring(node)
    row = rig.reaches(node, "clean failed")
    assert row["last_error"] == (
        f'By request, the clean operation was aborted after the step "{STUBBORN}".'
    )
    assert not row["maintenance"]
    assert rig.step_states(node) == ["done", "skipped"]
    run = rig.run(node)
    assert (run["state"], run["error"]["step"]) == ("aborted", STUBBORN)
    assert rig.path(node) == ["cleaning", "clean wait", "clean failed"]


def test_a_held_clean_can_be_called_off(rig: ConductorFixture) -> None:
    node = rig.node()
    rig.clean(node, "power.hold")
    row = rig.act("abort", node)
    assert (row["provision_state"], row["maintenance"]) == ("clean failed", False)


@pytest.mark.parametrize("steps", [None, [{**listed("bios.hold")[0], "args": {}, "priority": 200}]])
def test_a_deployment_is_called_off_without_cleaning(
    rig: ConductorFixture, steps: list[dict[str, Any]] | None
) -> None:
    node = rig.node("available", **HOUR)
    row = rig.call("deploy", node, deploy_steps=steps)
    assert row["provision_state"] == ("deploy hold" if steps else "wait call-back")
    row = rig.act("abort", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("deploy failed", "active")
    assert row["last_error"] == "By request, the deploy operation was aborted."
    assert not row["maintenance"]
    run = rig.run(node)
    assert run["state"] == "aborted"
    assert rig.step_states(node)[0] == "aborted"
    first = run["steps"][0]
    assert run["error"]["step"] == f"{first['interface']}.{first['step']}"


def test_an_inspection_is_called_off(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_verbs=["inspect"], fake_step_seconds=3600)
    rig.call("inspect", node)
    row = rig.act("abort", node)
    assert (row["provision_state"], row["wake_at"]) == ("inspect failed", None)
    assert "By request" in row["last_error"]
    assert row["properties"] == {}


def test_a_rescue_is_called_off_and_forgets_its_password(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_async_verbs=["rescue"], fake_step_seconds=3600)
    rig.call("rescue", node, rescue_password="sesame")
    row = rig.act("abort", node)
    assert (row["provision_state"], row["instance_info"]) == ("rescue failed", {})
    assert (row["maintenance"], row["fault"]) == (False, None)


@pytest.mark.parametrize("last", ["raid.apply_configuration", "power.hold"])
def test_a_service_is_called_off_and_the_node_is_active_again(
    rig: ConductorFixture, last: str
) -> None:
    node = rig.node("active", **HOUR)
    config = {"raid_config": {"logical_disks": [{"size_gb": 1, "raid_level": "0"}]}}
    steps = [{**listed(last)[0], **({"args": config} if "raid" in last else {})}]
    rig.call("service", node, service_steps=steps)
    if "raid" in last:
        assert rig.act("abort", node)["service_step"]["abort_after"] is True
        rig.ring(node)
        row = rig.reaches(node, "active")
    else:
        row = rig.act("abort", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["last_error"] == "By request, the service operation was aborted."
    assert (row["service_step"], row["maintenance"]) == (None, False)
    assert rig.runs(node)[0]["error"]["step"] == last
    assert rig.path(node)[-2:] == ["service failed", "active"]
    assert rig.run(node)["state"] == "aborted"


def test_failed_service_is_aborted_after_the_end_of_maintenance(rig: ConductorFixture) -> None:
    node = rig.node("service failed", maintenance=True, last_error="kept")
    with pytest.raises(errors.Conflict, match="maintenance"):
        rig.act("abort", node)
    rig.edit(node, maintenance=False)
    row = rig.act("abort", node)
    assert row["provision_state"] == "active"
    assert row["last_error"] == "By request, the service operation was aborted."
    run = rig.run(node)
    assert (run["verb"], run["state"], row["run_uuid"]) == ("abort", "done", None)


def test_abort_of_a_failed_service_whose_driver_fails_ends_as_failed(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=failing("tear_down_service"))
    node = rig.node("service failed")
    row = rig.act("abort", node)
    assert row["provision_state"] == "active"
    assert row["last_error"].startswith("By request, the service operation was aborted. Also, ")
    assert "tearing down service failed: Unexpected KeyError" in row["last_error"]
    run = rig.run(node)
    assert (run["verb"], run["state"], row["run_uuid"]) == ("abort", "failed", None)


@pytest.mark.parametrize("state", ["cleaning", "deploying", "manageable", "active", "inspecting"])
def test_abort_is_refused_in_other_states(
    build: Callable[..., ConductorFixture], state: str
) -> None:
    rig = build()
    node = rig.node(state)
    with pytest.raises(errors.InvalidState):
        rig.act("abort", node)
    assert rig.get(node)["provision_state"] == state


def failing(name: str) -> Any:
    """Drivers that answer one call with an error nobody expects."""

    def around(_kind: str, called: str, call: Callable[[], Any]) -> Any:
        if called == name:
            raise KeyError("a bug")
        return call()

    return crashes.Drivers(drivers(), around)


def test_abort_stands_and_reports_a_failed_clean_up(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=failing("tear_down_cleaning"))
    node = rig.node(**HOUR)
    rig.clean(node, ABORTABLE)
    row = rig.act("abort", node)
    assert row["provision_state"] == "clean failed"
    assert "Also, tearing down cleaning failed: Unexpected KeyError" in row["last_error"]


def test_the_state_has_changed_when_the_caller_gets_its_answer(
    build: Callable[..., ConductorFixture],
) -> None:
    answered = threading.Event()

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "tear_down_cleaning":
            assert answered.wait(60)
        return call()

    rig = build(registry=crashes.Drivers(drivers(), around))
    node = rig.node(**HOUR)
    rig.clean(node, ABORTABLE)
    rig.ask("abort", node)
    row = rig.get(node)
    answered.set()
    assert (row["provision_state"], row["reservation"]) == ("clean failed", "here")
    assert "By request" in row["last_error"]
    rig.settled(node)


def test_a_rescue_that_cannot_be_put_away_is_a_fault(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=failing("clean_up"))
    node = rig.node("active", fake_async_verbs=["rescue"], fake_step_seconds=3600)
    rig.call("rescue", node, rescue_password="sesame")
    row = rig.act("abort", node)
    assert row["provision_state"] == "rescue failed"
    assert (row["maintenance"], row["fault"]) == (True, "rescue abort failure")


# -- a death in the middle -------------------------------------------------------------------

UNDER_WAY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "clean": ("manageable", "clean", {"clean_steps": listed(ABORTABLE)}),
    "deploy": ("available", "deploy", {}),
    "service": ("active", "service", {"service_steps": listed("power.wait")}),
    "rescue": ("active", "rescue", {"rescue_password": "secret"}),
}


@pytest.mark.parametrize("what", UNDER_WAY)
def test_a_death_right_after_an_abort_leaves_neither_token_nor_password(
    build: Callable[..., ConductorFixture], sqlite_database: Database, what: str
) -> None:
    life = crashes.Life()
    rig = build(crashes.database(sqlite_database, life))
    start, method, body = UNDER_WAY[what]
    deploy = [{"interface": "power", "step": "wait", "args": {}, "priority": 50}]
    body = body or {"deploy_steps": deploy}
    node = rig.node(start, **HOUR, fake_async_verbs=["rescue"])
    rig.call(method, node, **body)
    rig.endpoints.get_node_with_token(rig.who, node_uuid=node)
    life.arm(commit=2)  # takes the lock, then aborts
    with pytest.raises(crashes.Died):
        rig.ask("abort", node)
    again = build()
    row = again.settled(node)
    # What was set up is put away by whoever comes after; then an aborted service is over.
    assert row["provision_state"] == ("active" if what == "service" else f"{what} failed")
    assert not {"agent_secret_token", "untidied"} & row["driver_internal_info"].keys()
    assert row["instance_info"] == {}
    assert again.run(node)["state"] == "aborted"
