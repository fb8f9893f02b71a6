"""Timers, orphans, stale locks, several conductors, and the sweeps that find them."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.engine import stepper
from ironic_lite.conductor.watch import orphans, timeouts
from ironic_lite.conductor.watch.keepalive import Keepalive
from ironic_lite.conductor.watch.sweep_threads import Sweep, Sweeps
from ironic_lite.core import clock
from ironic_lite.db.queries import conductors, nodes
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, listed, wait_for


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers set by others are looked for without delay."""
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)


def stranded(rig: ConductorFixture, state: str = "cleaning", **values: Any) -> str:
    """Add a node in a busy state with a clean under way."""
    info = {"clean_steps": listed("bios.factory_reset"), "clean_step_index": 0}
    return rig.node(state, driver_internal_info=info, target_provision_state="manageable", **values)


def hold(
    rig: ConductorFixture, node: str, host: str, expires: datetime.datetime | None = None
) -> None:
    """Lock a node as ``host``, for an hour from now."""
    until = expires or clock.after(3600)
    rig.database.write(
        lambda conn: nodes.lock(conn, node, host=host, token=f"of {host}", expires=until)
    )


# -- timers ----------------------------------------------------------------------------------


def test_steps_that_wait_finish_by_themselves(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["*"])
    rig.ask("clean", node, clean_steps=listed(*["bios.factory_reset"] * 5))
    row = rig.reaches(node, "manageable")
    assert row["last_error"] is None
    assert rig.path(node) == ["cleaning", "clean wait"] * 5 + ["cleaning", "manageable"]
    assert rig.step_states(node) == ["done"] * 5


def test_timers_survive_their_conductor(build: Callable[..., ConductorFixture]) -> None:
    first = build()
    node = first.node(fake_async_steps=["*"], fake_step_seconds=3600)
    first.clean(node, "bios.factory_reset")
    first.bury()
    first.edit(node, wake_at=clock.after(-1))
    again = build()
    again.reaches(node, "manageable")


def test_timers_are_looked_for_after_the_clock_was_set_back(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build()
    node = first.node(fake_async_steps=["*"], fake_step_seconds=3600)
    first.clean(node, "bios.factory_reset")
    first.bury()
    again, real = build(), clock.now
    monkeypatch.setattr(clock, "now", lambda: real() - datetime.timedelta(hours=1))
    again.edit(node, wake_at=clock.after(-1))
    again.reaches(node, "manageable")


def test_timers_of_a_dead_peer_are_taken_over(build: Callable[..., ConductorFixture]) -> None:
    first = build(DEFAULT__host="there")
    node = first.node(fake_async_steps=["*"], fake_step_seconds=3600)
    first.clean(node, "bios.factory_reset")
    first.bury()
    first.database.write(lambda conn: conductors.offline(conn, "there", clock.now()))
    first.edit(node, wake_at=clock.after(-1))
    other = build()
    other.reaches(node, "manageable")


def test_a_node_that_cannot_be_woken_does_not_keep_others_asleep(rig: ConductorFixture) -> None:
    due = {"wake_at": clock.after(-5), "clean_step": {}}
    rig.node("clean wait", bios_interface="no-such-interface", **due)
    held = rig.node("clean wait", **due)
    hold(rig, held, "there")
    node = rig.node("clean wait", target_provision_state="available", **due)
    rig.reaches(node, "available")


def test_many_timers_ring_although_others_nodes_come_first(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "_TIMERS", 10)
    for _ in range(25):
        rig.node("clean wait", wake_at=clock.after(-60), conductor_group="elsewhere")
    ours = [
        rig.node(
            "clean wait", target_provision_state="available", wake_at=clock.after(-1), clean_step={}
        )
        for _ in range(12)
    ]
    for node in ours:
        rig.reaches(node, "available")


# -- orphans ---------------------------------------------------------------------------------


def test_at_start_a_conductor_goes_on_with_what_its_earlier_life_held(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(DEFAULT__host="witness", conductor__conductor_group="elsewhere")
    ours = stranded(rig)
    hold(rig, ours, "here")
    likeness = stranded(rig)
    hold(rig, likeness, "HERE")
    foreign = stranded(rig)
    hold(rig, foreign, "there")
    again = build()
    again.reaches(ours, "manageable")
    assert again.run is not None
    taken = again.events(ours, "taken_over")
    assert [event["data"]["from"] for event in taken] == ["here"]
    for node in (foreign, likeness):
        assert again.get(node)["provision_state"] == "cleaning"


@pytest.mark.parametrize(
    ("state", "end"),
    [
        ("verifying", "manageable"),
        ("inspecting", "manageable"),
        ("adopting", "active"),
        ("rescuing", "rescue"),
        ("unrescuing", "active"),
        ("deleting", "available"),
        ("deploying", "active"),
        ("cleaning", "available"),
        ("servicing", "active"),
    ],
)
def test_no_busy_state_stays_without_an_owner(rig: ConductorFixture, state: str, end: str) -> None:
    node = rig.node(state)
    rig.service.orphans.sweep()
    row = rig.reaches(node, end)
    assert row["last_error"] is None
    assert "begun" not in row["driver_internal_info"]


def test_a_step_whose_end_is_recorded_is_not_done_again(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = rig.node("available", fake_async_steps=["deploy.deploy"], fake_step_seconds=3600)
    rig.call("deploy", node)
    with monkeypatch.context() as patched:
        patched.setattr(stepper, "run", dies)
        rig.ring(node)
        rig.reaches(node, "deploying")
    rig.service.orphans.sweep()
    rig.reaches(node, "active")
    assert rig.started(node) == ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]


def dies(*_args: Any, **_more: Any) -> None:
    """End a worker as a crash does, right after its last save."""
    raise crashes.Died


def test_a_stale_lock_at_rest_is_cleared_with_its_power_change(rig: ConductorFixture) -> None:
    node = rig.node("active", target_power_state="power on")
    quiet = rig.node("active")
    waiting = rig.node("clean wait", clean_step={})
    for each in (node, quiet, waiting):
        hold(rig, each, "gone", nodes.ENDED)
    rig.service.orphans.sweep()
    row = rig.get(node)
    assert (row["reservation"], row["lock_token"], row["target_power_state"]) == (None, None, None)
    assert "gone was lost" in row["last_error"]
    assert (rig.get(quiet)["reservation"], rig.get(quiet)["last_error"]) == (None, None)
    assert (rig.get(waiting)["reservation"], rig.get(waiting)["provision_state"]) == (
        None,
        "clean wait",
    )


def test_a_living_lock_is_not_touched(rig: ConductorFixture) -> None:
    node = stranded(rig)
    hold(rig, node, "there")
    with rig.tasks.lock(rig.who, rig.node()) as task:
        token = rig.get(task.node.uuid)["lock_token"]
        rig.service.orphans.take_back().join(60)
        assert token is not None and rig.get(task.node.uuid)["lock_token"] == token
    assert rig.get(node)["reservation"] == "there"


def test_many_orphans_wait_for_workers_and_none_is_forgotten(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_PAGE", 7)
    witness = build(DEFAULT__host="witness", conductor__conductor_group="elsewhere")
    witness.node("cleaning", bios_interface="no-such-interface")
    left = [stranded(witness) for _ in range(40)]
    rig = build(conductor__workers_pool_size=4, conductor__periodic_max_workers=1)
    for node in left:
        rig.reaches(node, "manageable")


def test_a_full_pool_ends_the_sweep_for_orphans(rig: ConductorFixture) -> None:
    left = [stranded(rig) for _ in range(3)]
    workers = rig.service.runtime.workers
    for _ in range(20):
        workers.claim(reserved=True)
    rig.service.orphans.sweep()
    assert {rig.get(node)["provision_state"] for node in left} == {"cleaning"}
    for _ in range(20):
        workers.leave()
    rig.service.orphans.sweep()
    for node in left:
        rig.reaches(node, "manageable")


def test_each_orphan_belongs_to_one_of_the_living(build: Callable[..., ConductorFixture]) -> None:
    here, there = build(), build(DEFAULT__host="there")
    left = [stranded(here) for _ in range(20)]
    assert there.service.recovery is not None
    here.service.orphans.sweep()
    assert here.service.runtime.workers.wait_idle(60)
    mine = [node for node in left if here.get(node)["provision_state"] == "manageable"]
    assert 0 < len(mine) < len(left)
    there.service.orphans.sweep()
    for node in left:
        there.reaches(node, "manageable")


# -- sweeps ----------------------------------------------------------------------------------


def test_a_slow_sweep_delays_no_other_and_a_failing_one_runs_again() -> None:
    halted, release = threading.Event(), threading.Event()
    ran: list[str] = []

    def waits() -> None:
        release.wait(10)

    def fails() -> None:
        ran.append("fails")
        raise errors.Unavailable

    plan = [
        Sweep("slow", 0.001, waits),
        Sweep("failing", 0.001, fails),
        Sweep("never", 0, lambda: ran.append("never")),
    ]
    Sweeps(halted, plan).start()
    wait_for(lambda: len(ran) > 3)
    halted.set()
    release.set()
    assert set(ran) == {"fails"}


def test_a_sweep_tells_of_a_database_that_is_away_once_and_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    halted = threading.Event()
    ran: list[str] = []

    def act() -> None:
        ran.append("ran")
        if len(ran) in {*range(2, 9), 12}:
            raise errors.Unavailable

    with caplog.at_level("INFO", "ironic_lite.conductor.watch.sweep_threads"):
        Sweeps(halted, [Sweep("orphans", 0.001, act)]).start()
        wait_for(lambda: len(ran) > 14)
        halted.set()
    said = [line.partition(",")[0].partition(";")[0] for line in caplog.messages]
    away, back = "The sweep for orphans failed", "The sweep for orphans is run again"
    assert said == [away, back], "an outage that comes back at once is no new one"


def test_the_keepalive_tells_once_that_it_fails_and_renews_all_when_it_can(
    build: Callable[..., ConductorFixture],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = build()
    keepalive = Keepalive(rig.service.tasks)
    tried: list[bool] = []

    def beat() -> None:
        tried.append(True)
        if len(tried) in range(3, 9):
            raise errors.Unavailable

    monkeypatch.setattr(keepalive, "beat", beat)
    monkeypatch.setattr(keepalive._stopped, "wait", lambda _pause: len(tried) == 12)
    name = "ironic_lite.conductor.watch.keepalive"
    with caplog.at_level("INFO", name):
        keepalive.start()
        wait_for(lambda: not keepalive._thread.is_alive())
    # Another test of this process may have left other loggers as talkative.
    lines = [record.getMessage() for record in caplog.records if record.name == name]
    assert [line.partition(";")[0].partition(",")[0] for line in lines] == [
        "The keepalive failed",
        "The keepalive renews the leases again",
    ]


def test_timers_that_ring_while_the_database_is_away_ring_when_it_is_back(
    build: Callable[..., ConductorFixture],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = build()
    clockwork, woken = timeouts.Timers(), list[str]()
    monkeypatch.setattr(clockwork, "wake", lambda _tasks, node, _when: woken.append(node))
    looked: list[bool] = []

    def listed(*_: Any) -> dict[str, Any]:
        looked.append(True)
        if len(looked) == 1:
            raise errors.Unavailable
        return {}

    monkeypatch.setattr(timeouts, "_listed", listed)
    clockwork.set("n1", clock.after(-1))
    with caplog.at_level("INFO", "ironic_lite.conductor.watch.timeouts"):
        clockwork.start(rig.service.tasks, rig.service.ownership)
        wait_for(lambda: woken and len(caplog.records) > 1)
        clockwork.stop()
    assert woken == ["n1"]
    assert [record.exc_info for record in caplog.records] == [None, None], "told in one line each"


def test_the_configured_sweeps_run(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__check_provision_state_interval=1, conductor__clean_callback_timeout=1800)
    node = rig.node("clean wait", provision_updated_at=clock.after(-3600))
    rig.reaches(node, "clean failed")
