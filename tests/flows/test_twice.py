"""Asked, woken, taken over or delivered twice: no step or verb runs more often than it should."""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

from ironic_lite import errors
from ironic_lite.core.context import Context
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

# Asked twice, woken twice, taken over twice: no step runs more often than it should.


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
        ("clean", "manageable", "clean", "manageable"),
        ("service", "active", "service", "active"),
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
    rig.call(kind, node, **waits)
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
    rig.call(kind, node, **waits)
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
    refused = at_once(6, lambda: rig.ask("provide", node))
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


# A broker may deliver a message a second time: the verb in it is carried out once.

CLEAN: dict[str, Any] = {"clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
VERBS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("manageable", "clean", CLEAN, "manageable"),
    ("active", "rebuild", {}, "active"),
    ("manageable", "inspect", {}, "manageable"),
)
"""State before, method, arguments, state after: those in which the verb could start once more."""


@pytest.mark.parametrize(("state", "method", "args", "after"), VERBS, ids=str)
def test_a_message_that_comes_again_is_refused_when_its_run_is_over(
    rig: ConductorFixture, state: str, method: str, args: dict[str, Any], after: str
) -> None:
    node, who = rig.node(state), Context("req-1", user="tester")
    act = functools.partial(rig.send, method=method)
    act(who, node_uuid=node, **args)
    done = rig.settled(node)
    assert done["provision_state"] == after
    (run,) = rig.runs(node)
    with pytest.raises(errors.Conflict) as caught:
        act(who, node_uuid=node, **args)
    assert run["uuid"] in caught.value.message
    assert "req-1" in caught.value.message
    row = rig.settled(node)
    assert (row["provision_state"], row["last_error"]) == (after, None)
    assert row["lock_token"] is None
    assert row["generation"] == done["generation"]
    assert len(rig.runs(node)) == 1


def test_another_request_is_another_message(rig: ConductorFixture) -> None:
    node = rig.node("manageable")
    for request in ("req-1", "req-2"):
        rig.endpoints.start_verb(Context(request), node_uuid=node, event="clean", body={**CLEAN})
        rig.settled(node)
    assert len(rig.runs(node)) == 2


def test_one_request_may_have_a_run_on_each_of_several_nodes(rig: ConductorFixture) -> None:
    who = Context("req-1")
    for node in (rig.node("manageable"), rig.node("manageable")):
        rig.endpoints.start_verb(who, node_uuid=node, event="clean", body={**CLEAN})
        rig.settled(node)
        assert len(rig.runs(node)) == 1


# -- what opens no run -----------------------------------------------------------------------

HOUR: dict[str, Any] = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
SERVICE = {"service_steps": listed("power.hold", "power.hold")}
HELD = {"clean_steps": listed("power.hold", "power.hold")}
VOLUMES = {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}


class Order(NamedTuple):
    """What a message asks for, and the driver's call that it comes to once."""

    method: str
    args: dict[str, Any]
    call: str | None = None


ORDERS = {
    "power on": Order("change_node_power_state", {"target": "power on"}, "set_power_state"),
    "reboot": Order("change_node_power_state", {"target": "rebooting"}, "reboot"),
    "boot device": Order("set_boot_device", {"device": "pxe"}, "set_boot_device"),
    "volumes": Order("set_target_raid_config", {"target_raid_config": VOLUMES}),
    "boot mode": Order("change_node_boot_mode", {"mode": "uefi"}, "set_boot_mode"),
    "secure boot": Order("change_node_secure_boot", {"state": True}, "set_secure_boot_state"),
    "NMI": Order("inject_nmi", {}, "inject_nmi"),
    "lamp": Order(
        "set_indicator_state",
        {"component": "system", "indicator": "led", "state": "on"},
        "set_indicator_state",
    ),
    "media": Order(
        "attach_virtual_media",
        {"device_type": "cdrom", "image_url": "http://192.0.2.1/a.iso"},
        "attach_virtual_media",
    ),
    "empty drives": Order("detach_virtual_media", {}, "detach_virtual_media"),
    "vendor": Order(
        "vendor_passthru",
        {"vendor_method": "remember", "http_method": "POST", "info": {"value": 1}},
        "remember",
    ),
}


@pytest.fixture
def calls() -> Counter[str]:
    """How often each call of a driver was made."""
    return Counter()


@pytest.fixture
def counted(build: Callable[..., ConductorFixture], calls: Counter[str]) -> ConductorFixture:
    """A conductor whose drivers' calls are counted."""

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        calls[name] += 1
        return call()

    more = tuple({order.call for order in ORDERS.values() if order.call})
    return build(
        registry=cast(Registry, crashes.Drivers(drivers(), around, more=more)),
        conductor__node_locked_retry_attempts=1,
    )


def refused_again(rig: ConductorFixture, who: Context, method: str, node: str, **args: Any) -> None:
    """Deliver a message again; nothing may change."""
    before = rig.get(node)
    with pytest.raises(errors.Conflict) as caught:
        rig.send(who, method, node, **args)
    assert who.request_id in caught.value.message
    assert rig.service.runtime.workers.wait_idle(60)
    assert rig.get(node) == before
    assert rig.tasks.locks.held == frozenset()


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_that_comes_late_once_more_is_refused(
    counted: ConductorFixture, calls: Counter[str], name: str
) -> None:
    order, who = ORDERS[name], Context("req-1", user="tester")
    node = counted.node("active", power_state="power off", raid_interface="fake")
    counted.send(who, order.method, node, **order.args)
    counted.settled(node)
    assert counted.service.runtime.workers.wait_idle(60)
    once = dict(calls)
    assert order.call is None or calls[order.call] == 1
    refused_again(counted, who, order.method, node, **order.args)
    assert order.call is None or calls[order.call] == once[order.call]
    counted.ask(order.method, node, **order.args)  # another request is another order
    counted.settled(node)


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_that_comes_twice_at_once_is_carried_out_once(
    counted: ConductorFixture, calls: Counter[str], name: str
) -> None:
    order, who = ORDERS[name], Context("req-1", user="tester")
    node = counted.node("active", power_state="power off", raid_interface="fake")
    act = functools.partial(counted.send, method=order.method)
    refused = at_once(2, lambda: act(who, node_uuid=node, **order.args))
    counted.settled(node)
    assert counted.service.runtime.workers.wait_idle(60)
    assert [type(why) for why in refused] in ([errors.NodeLocked], [errors.Conflict])
    assert order.call is None or calls[order.call] == 1
    assert counted.get(node)["last_error"] is None


def test_an_abort_that_comes_late_does_not_end_another_run(rig: ConductorFixture) -> None:
    node, who = rig.node(**HOUR), Context("req-1", user="tester")
    rig.clean(node, "deploy.erase_devices")
    assert len(at_once(2, lambda: rig.send(who, "abort", node))) == 1
    rig.reaches(node, "clean failed")
    rig.act("manage", node)
    rig.clean(node, "deploy.erase_devices")
    refused_again(rig, who, "abort", node)
    assert rig.get(node)["provision_state"] == "clean wait"
    assert rig.act("abort", node)["provision_state"] == "clean failed"


def test_an_abort_that_waits_for_a_step_is_noted_once(rig: ConductorFixture) -> None:
    node, who = rig.node(**HOUR), Context("req-1", user="tester")
    rig.clean(node, "bios.factory_reset")
    rig.endpoints.start_verb(who, node_uuid=node, event="abort", body={})
    refused_again(rig, who, "abort", node)
    assert len(rig.events(node, "abort_requested")) == 1


@pytest.mark.parametrize(
    ("state", "method", "args"),
    [("manageable", "clean", HELD), ("active", "service", SERVICE)],
    ids=["clean", "service"],
)
def test_an_unhold_that_comes_late_does_not_end_another_hold(
    rig: ConductorFixture, state: str, method: str, args: dict[str, Any]
) -> None:
    node, who = rig.node(state), Context("req-1", user="tester")
    held = rig.call(method, node, **args)["provision_state"]
    rig.endpoints.start_verb(who, node_uuid=node, event="unhold", body={})
    assert rig.reaches(node, held)["provision_state"] == held
    refused_again(rig, who, "unhold", node)
    rig.ask("unhold", node)
    rig.reaches(node, state)


STATES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "manage": ("enroll", "manage", {}),
    "manage again": ("available", "manage", {}),
    "provide": ("manageable", "provide", {}),
    "available": ("clean failed", "available", {}),
    "adopt": ("manageable", "adopt", {}),
    "active": ("available", "deploy", {}),
    "deleted": ("active", "delete", {}),
    "rescue": ("active", "rescue", {"rescue_password": "sesame"}),
    "unrescue": ("rescue", "unrescue", {}),
    "service": ("active", "service", {"service_steps": listed("power.power_on")}),
    "inspect": ("manageable", "inspect", {}),
}


@pytest.mark.parametrize("name", STATES)
def test_a_verb_that_comes_twice_at_once_and_late_is_carried_out_once(
    build: Callable[..., ConductorFixture], name: str
) -> None:
    """Late: the node has come back to where it was, as if the verb had not been."""
    rig = build(conductor__node_locked_retry_attempts=1)
    state, method, args = STATES[name]
    node, who = rig.node(state), Context("req-1", user="tester")
    act = functools.partial(rig.send, method=method)
    refused = at_once(2, lambda: act(who, node_uuid=node, **args))
    assert len(refused) == 1
    assert isinstance(refused[0], errors.Conflict | errors.NodeLocked | errors.InvalidState)
    assert rig.service.runtime.workers.wait_idle(60)
    rig.settled(node)
    rig.edit(node, provision_state=state, target_provision_state=None)
    refused_again(rig, who, method, node, **args)
    assert len(rig.runs(node)) == 1
