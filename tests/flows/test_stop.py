"""A graceful stop: short work ends, long work is left to the next owner, nothing is lost."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor import service
from ironic_lite.db.queries import conductors, nodes, sweeps
from ironic_lite.domain import recovery
from ironic_lite.drivers.fake import hardware
from ironic_lite.drivers.registry import Registry
from tests.flows.test_death_aside import times_out
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.thread_limit import no_new_threads


def online(rig: ConductorFixture) -> bool:
    """Tell whether the conductor's row says that it takes calls."""
    found: bool = rig.database.read(lambda conn: conductors.get(conn, "here"))["online"]
    return found


def test_a_long_step_is_left_and_done_again_by_the_next_life(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build()
    node = rig.node(fake_step_seconds=3600)
    rig.ask("clean", node, clean_steps=listed("bios.factory_reset", "power.cycle"))
    wait_for(lambda: rig.started(node))
    assert rig.service.stop(timeout=0.05) is False
    row = rig.get(node)
    assert (row["provision_state"], row["target_provision_state"]) == ("cleaning", "manageable")
    assert (row["reservation"], row["lock_token"], row["last_error"]) == (None, None, None)
    assert rig.run(node)["state"] == "running"
    rig.edit(node, driver_info={})
    again = build()
    row = again.reaches(node, "manageable")
    assert row["last_error"] is None
    assert again.started(node) == ["bios.factory_reset"] * 2 + ["power.cycle"]
    assert [step["attempt"] for step in again.run(node)["steps"]] == [2, 1]
    assert again.run(node)["state"] == "done"


def has_begun(rig: ConductorFixture, node: str, steps: int) -> bool:
    """Tell whether so many steps have begun, each counted as often as it did."""
    return len(rig.started(node)) == steps


def test_a_step_that_no_conductor_outlives_fails_in_the_end(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build()
    node = rig.node(fake_step_seconds=3600)
    rig.ask("clean", node, clean_steps=listed("power.cycle"))
    for begun in range(1, recovery.MOST_ATTEMPTS + 1):
        wait_for(functools.partial(has_begun, rig, node, begun))
        assert rig.service.stop(timeout=0.05) is False
        rig = build()
    row = rig.reaches(node, "clean failed")
    assert "10 times a conductor was lost during this step" in row["last_error"]
    assert (row["maintenance"], row["fault"]) == (True, "clean failure")
    assert len(rig.started(node)) == recovery.MOST_ATTEMPTS
    assert rig.step_states(node) == ["failed"]


def test_stop_in_a_system_without_threads_releases_the_locks(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build()
    node = rig.node(fake_step_seconds=3600)
    rig.ask("clean", node, clean_steps=listed("bios.factory_reset"))
    wait_for(lambda: rig.started(node))
    with no_new_threads():
        assert rig.service.stop(timeout=0.05) is False
    assert (rig.get(node)["lock_token"], online(rig)) == (None, False)


def test_stop_waits_for_short_work(build: Callable[..., ConductorFixture]) -> None:
    step = crashes.Held()
    rig = build(registry=step.drivers(drivers()))
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed("power.cycle"))
    assert step.reached.wait(60)
    ended: list[bool] = []
    stopping = threading.Thread(target=lambda: ended.append(rig.service.stop(timeout=10)))
    stopping.start()
    wait_for(lambda: not online(rig))
    rig.service.keepalive.beat()  # its locks live on, but no calls are drawn again
    assert not online(rig)
    assert rig.get(node)["reservation"] == "here"
    step.opened.set()
    stopping.join(60)
    assert ended == [True]
    assert rig.get(node)["provision_state"] == "manageable"


def test_hurried_stop_does_not_wait_for_running_work(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build()
    node = rig.node(fake_step_seconds=3600)
    rig.ask("clean", node, clean_steps=listed("power.cycle"))
    wait_for(lambda: rig.started(node))
    ended: list[bool] = []
    stopping = threading.Thread(target=lambda: ended.append(rig.service.stop(timeout=0)))
    stopping.start()
    wait_for(lambda: not online(rig))
    assert not ended
    rig.service.stop_waiting()
    stopping.join(60)
    assert ended == [True], "the step is left to the next owner"
    assert rig.get(node)["reservation"] is None


def test_work_that_does_not_end_is_released_at_once(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_GRACE", 0.01)
    opened = threading.Event()

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "execute_clean_step":
            assert opened.wait(60)
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed("power.cycle"))
    wait_for(lambda: rig.started(node))
    assert rig.service.stop(timeout=0.01) is False
    other = build(DEFAULT__host="there")
    other.service.orphans.sweep()
    assert other.reaches(node, "manageable")["last_error"] is None
    opened.set()
    assert rig.service.runtime.workers.wait_idle(60)
    assert other.get(node)["provision_state"] == "manageable"


class Slow:
    """Drivers one method of which pauses for an hour in its first call."""

    def __init__(self, method: str) -> None:
        self.calls = 0
        self._method = method

    def drivers(self) -> Registry:
        return cast(Registry, crashes.Drivers(drivers(), self._around))

    def _around(self, _kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == self._method:
            self.calls += 1
            if self.calls == 1:
                cast(functools.partial[Any], call).args[0].pause(3600)
        return call()


HOUR: dict[str, Any] = {"fake_async_steps": ["*"], "fake_async_verbs": ["inspect", "rescue"]}
ABORTS: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "clean": (
        "manageable",
        "clean",
        {"clean_steps": listed("deploy.erase_devices")},
        "tear_down_cleaning",
        "clean failed",
    ),
    "deploy": ("available", "deploy", {}, "clean_up", "deploy failed"),
    "service": (
        "active",
        "service",
        {"service_steps": listed("power.wait")},
        "tear_down_service",
        "active",
    ),
    "inspection": ("manageable", "inspect", {}, "abort", "inspect failed"),
    "rescue": ("active", "rescue", {"rescue_password": "a"}, "clean_up", "rescue failed"),
}
"""Of each abort: the state before, the verb and its arguments, the clean-up, the state after."""


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("name", ABORTS)
def test_clean_up_of_an_abort_is_left_to_the_next_owner(
    build: Callable[..., ConductorFixture], name: str, host: str
) -> None:
    before, verb, args, method, after = ABORTS[name]
    slow = Slow(method)
    rig = build(registry=slow.drivers())
    node = rig.node(before, fake_step_seconds=3600, **HOUR)
    rig.call(verb, node, **args)
    rig.edit(node, driver_info={})
    rig.ask("abort", node)
    wait_for(lambda: slow.calls)
    assert rig.service.stop(timeout=0.05) is False
    assert slow.calls == 1
    again = build(registry=slow.drivers(), DEFAULT__host=host)
    again.service.orphans.sweep()
    wait_for(lambda: slow.calls == 2)
    row = again.reaches(node, after)
    assert "untidied" not in row["driver_internal_info"]
    assert (row["maintenance"], row["fault"]) == (False, None)
    assert "Also" not in str(row["last_error"])


@pytest.mark.parametrize("host", ["here", "there"])
def test_abort_of_a_failed_service_is_left_to_the_next_owner(
    build: Callable[..., ConductorFixture], host: str
) -> None:
    slow = Slow("tear_down_service")
    rig = build(registry=slow.drivers())
    node = rig.node("service failed")
    rig.ask("abort", node)
    wait_for(lambda: slow.calls)
    assert rig.run(node)["state"] == "running"
    with pytest.raises(errors.NodeLocked):
        rig.ask("rescue", node, rescue_password="a")
    assert rig.service.stop(timeout=0.05) is False
    again = build(registry=slow.drivers(), DEFAULT__host=host)
    again.service.orphans.sweep()
    row = again.reaches(node, "active")
    assert slow.calls == 2
    assert "untidied" not in row["driver_internal_info"]
    assert row["last_error"] == "By request, the service operation was aborted."
    run = again.run(node)
    assert (run["verb"], run["state"], row["run_uuid"]) == ("abort", "done", None)


def test_abort_that_a_stop_leaves_without_a_worker_is_finished_at_once(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build()
    node = rig.node("manageable", fake_step_seconds=3600, **HOUR)
    rig.clean(node, "deploy.erase_devices")
    rig.service.runtime.workers.close()
    rig.ask("abort", node)
    assert rig.get(node)["lock_expires"] == nodes.ENDED
    rig.bury()
    again = build()
    row = again.reaches(node, "clean failed")
    assert "untidied" not in row["driver_internal_info"]


def test_time_out_whose_clean_up_a_stop_interrupts_is_repeated(
    build: Callable[..., ConductorFixture],
) -> None:
    slow = Slow("tear_down_cleaning")
    rig = build(registry=slow.drivers())
    node = rig.node(fake_step_seconds=3600, **HOUR)
    rig.clean(node, "deploy.erase_devices")
    times_out(rig, node)
    wait_for(lambda: slow.calls)
    assert rig.service.stop(timeout=0.05) is False
    assert rig.get(node)["provision_state"] == "clean wait"
    again = build(registry=slow.drivers())
    times_out(again, node)
    row = again.reaches(node, "clean failed")
    assert slow.calls == 2
    assert row["last_error"].endswith("Failed on step deploy.erase_devices.")
    assert again.step_states(node) == ["failed"]


def test_clean_up_of_a_failure_that_a_stop_interrupts_is_reported(
    build: Callable[..., ConductorFixture],
) -> None:
    slow = Slow("tear_down_cleaning")
    rig = build(registry=slow.drivers())
    node = rig.node(fake_fail_steps={"deploy.erase_devices": "A disk is broken."})
    rig.ask("clean", node, clean_steps=listed("deploy.erase_devices"))
    wait_for(lambda: slow.calls)
    assert rig.service.stop(timeout=0.05) is False
    row = rig.get(node)
    assert row["provision_state"] == "clean failed"
    assert "A disk is broken." in row["last_error"]
    assert row["last_error"].endswith(
        "Also, tearing down cleaning was not finished, because the conductor was stopped."
    )


def test_timers_query_nothing_after_their_stop(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, opened, ended = threading.Event(), threading.Event(), threading.Event()

    def due(*_: Any, **__: Any) -> list[Any]:
        begun.set()
        opened.wait(10)
        ended.set()
        return []

    monkeypatch.setattr(sweeps, "due", due)
    rig = build()
    assert begun.wait(60)
    threading.Timer(0.1, opened.set).start()
    rig.service.timers.stop()
    assert ended.is_set()


def test_stopping_an_idle_conductor_is_quick_and_says_so(rig: ConductorFixture) -> None:
    assert online(rig)
    assert rig.service.stop() is True
    assert not online(rig)


def test_an_unexpected_fault_of_the_last_act_is_logged_and_said(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("at the end")

    monkeypatch.setattr(rig.service, "_let_go", fail)
    rig.service.stop()
    assert "ZeroDivisionError: at the end" in caplog.text
    assert "The locks are not released yet" in caplog.text


def test_drivers_end_what_they_keep_open_after_all_work(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[object] = []
    rig = build()
    node = rig.node(fake_step_seconds=3600)
    monkeypatch.setattr(
        hardware.FakePower, "close", lambda self: held.append(rig.get(node)["reservation"])
    )
    monkeypatch.setattr(hardware.FakeManagement, "close", lambda self: 1 / 0)
    rig.ask("clean", node, clean_steps=listed("bios.factory_reset"))
    wait_for(lambda: rig.started(node))
    rig.service.stop(timeout=0.05)
    assert held == [None]


@pytest.mark.parametrize("ends_thread", [True, False])
def test_driver_that_does_not_close_keeps_no_conductor_from_its_stop(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch, ends_thread: bool
) -> None:
    opened, closed = threading.Event(), list[str]()

    def close(_self: object) -> None:
        if ends_thread:
            raise SystemExit
        opened.wait(60)

    monkeypatch.setattr(service, "_CLOSING", 0.1)
    rig = build()
    node = rig.node(fake_step_seconds=3600)
    monkeypatch.setattr(hardware.FakeManagement, "close", close)
    monkeypatch.setattr(hardware.FakePower, "close", lambda self: closed.append("power"))
    rig.ask("clean", node, clean_steps=listed("bios.factory_reset"))
    wait_for(lambda: rig.started(node))
    ends = threading.Thread(target=rig.service.stop, args=(0.05,), daemon=True)
    ends.start()
    ends.join(20)
    hung = ends.is_alive()
    opened.set()
    ends.join(20)
    assert not hung
    assert rig.get(node)["reservation"] is None
    wait_for(lambda: closed)


def test_waiting_nodes_are_not_touched_by_a_stop(build: Callable[..., ConductorFixture]) -> None:
    rig = build()
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, "bios.factory_reset")
    before = rig.get(node)
    assert rig.service.stop() is True
    build()
    assert rig.get(node) == before


def test_a_stop_goes_on_when_the_database_does_not_answer(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise errors.Unavailable("The database is busy.")

    with monkeypatch.context() as patch:
        patch.setattr(conductors, "offline", away)
        assert rig.service.stop() is True
    assert rig.service.runtime.stopping.is_set()
