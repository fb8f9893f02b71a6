"""Asked twice, woken twice, taken over twice: no step runs more often than it should."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for


class Calls(Counter[str]):
    """Counts driver calls by name."""

    def registry(self) -> Registry:
        """Return drivers whose calls are counted."""

        def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
            self[name] += 1
            return call()

        return cast(Registry, crashes.Drivers(drivers(), around))


def at_once(times: int, act: Callable[[], None]) -> list[errors.Error]:
    """Do something in several threads together; return what was refused."""
    refused: list[errors.Error] = []
    ready = threading.Barrier(times)

    def run() -> None:
        ready.wait()
        try:
            act()
        except errors.Error as why:
            refused.append(why)

    threads = [threading.Thread(target=run) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


@pytest.mark.parametrize(
    ("kind", "before", "method", "end"),
    [
        ("clean", "manageable", "do_node_clean", "manageable"),
        ("service", "active", "do_node_service", "active"),
    ],
)
def test_going_on_is_done_once_however_often_it_is_asked(
    build: Callable[..., ConductorFixture], kind: str, before: str, method: str, end: str
) -> None:
    calls = Calls()
    rig = build(registry=calls.registry(), conductor__node_locked_retry_attempts=1)
    node = rig.node(before)
    later = "power.power_on" if kind == "clean" else "vendor.log_passthrough"
    rig.call(method, node, **{f"{kind}_steps": listed("power.wait", later)})
    refused = at_once(8, lambda: rig.ask(f"continue_node_{kind}", node))
    row = rig.reaches(node, end)
    assert row["last_error"] is None
    assert rig.started(node) == ["power.wait", later]
    assert {type(why) for why in refused} <= {errors.NodeLocked, errors.InvalidState}
    assert rig.run(node)["state"] == "done"


def test_continue_call_does_not_shorten_a_timer(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, "bios.factory_reset", "raid.delete_configuration")
    row = rig.call("continue_node_clean", node)
    assert row["provision_state"] == "clean wait"
    assert rig.step_states(node) == ["waiting", "pending"]


def step_id(rig: ConductorFixture, node: str) -> str:
    return str(rig.tasks.look(rig.who, node).step_id)


@pytest.mark.parametrize("kind", ["clean", "service"])
def test_a_late_word_about_one_step_does_not_end_another(
    rig: ConductorFixture, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before = {"clean": "manageable", "service": "active"}[kind]
    node = rig.node(before)
    waits = {f"{kind}_steps": listed("power.wait", "bios.wait")}
    rig.call(f"do_node_{kind}", node, **waits)
    first = step_id(rig, node)
    rig.call(f"continue_node_{kind}", node, step_id=first)
    assert rig.step_states(node) == ["done", "waiting"]
    rig.call(f"continue_node_{kind}", node, step_id=first)
    assert rig.step_states(node) == ["done", "waiting"]
    assert first in caplog.text
    second = step_id(rig, node)
    assert rig.call(f"continue_node_{kind}", node, step_id=second)["provision_state"] == before
    # The run is over: the same word, once more, is no fault of anybody, and moves nothing.
    rig.ask(f"continue_node_{kind}", node, step_id=second)
    rig.call(f"do_node_{kind}", node, **waits)
    rig.call(f"continue_node_{kind}", node, step_id=first)
    assert rig.step_states(node) == ["waiting", "pending"]
    rig.call(f"continue_node_{kind}", node)
    assert rig.step_states(node) == ["done", "waiting"]


@pytest.mark.parametrize("state", ["manageable", "cleaning", "clean failed", "active"])
def test_going_on_where_nothing_waits_changes_nothing(rig: ConductorFixture, state: str) -> None:
    node = rig.node(state)
    with pytest.raises(errors.InvalidState):
        rig.ask("continue_node_clean", node)
    assert rig.get(node)["provision_state"] == state


def test_many_bells_for_one_node_are_one_poll(build: Callable[..., ConductorFixture]) -> None:
    calls = Calls()
    rig = build(registry=calls.registry())
    other = build(registry=calls.registry(), DEFAULT__host="there")
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, "bios.factory_reset")
    rig.ring(node)
    at_once(4, lambda: rig.service.timers.wake(rig.tasks, node))
    at_once(4, lambda: other.service.timers.wake(other.tasks, node))
    rig.reaches(node, "manageable")
    assert calls["poll_step"] == 1
    assert calls["execute_clean_step"] == 1
    assert rig.step_states(node) == ["done"]


def test_a_verb_asked_twice_at_once_is_carried_out_once(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__node_locked_retry_attempts=1)
    node = rig.node()
    refused = at_once(6, lambda: rig.ask("do_provisioning_action", node, action="provide"))
    rig.reaches(node, "available")
    assert len(refused) == 5
    assert len(rig.runs(node)) == 1


def test_an_orphan_is_taken_over_once(build: Callable[..., ConductorFixture]) -> None:
    hosts = [build(DEFAULT__host=name) for name in ("here", "there", "yonder")]
    rig = hosts[0]
    orphans = [
        rig.node(
            "cleaning",
            target_provision_state="manageable",
            driver_internal_info={
                "clean_steps": listed("bios.factory_reset", "power.cycle"),
                "clean_step_index": 0,
            },
        )
        for _ in range(9)
    ]
    for each in (*hosts, *hosts):
        each.service.orphans.sweep()
    for node in orphans:
        rig.reaches(node, "manageable")
        assert rig.started(node) == ["bios.factory_reset", "power.cycle"]
    wait_for(lambda: all(each.service.runtime.workers.busy == 0 for each in hosts))
    taken = [rig.events(node, "taken_over") for node in orphans]
    assert {len(one) for one in taken} == {1}
    assert len({one[0]["conductor"] for one in taken}) > 1
