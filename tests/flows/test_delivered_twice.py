"""A broker may deliver a message a second time: the verb in it is carried out once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

from ironic_lite import errors
from ironic_lite.core.context import Context
from ironic_lite.drivers.registry import Registry
from tests.flows.test_twice import at_once
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed

CLEAN: dict[str, Any] = {"clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
VERBS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("manageable", "do_node_clean", CLEAN, "manageable"),
    ("active", "do_node_deploy", {"rebuild": True}, "active"),
    ("manageable", "inspect_hardware", {}, "manageable"),
)
"""State before, method, arguments, state after: those in which the verb could start once more."""


@pytest.mark.parametrize(("state", "method", "args", "after"), VERBS, ids=str)
def test_a_message_that_comes_again_is_refused_when_its_run_is_over(
    rig: ConductorFixture, state: str, method: str, args: dict[str, Any], after: str
) -> None:
    node, who = rig.node(state), Context("req-1", user="tester")
    act = getattr(rig.endpoints, method)
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
        rig.endpoints.do_node_clean(Context(request), node_uuid=node, **CLEAN)
        rig.settled(node)
    assert len(rig.runs(node)) == 2


def test_one_request_may_have_a_run_on_each_of_several_nodes(rig: ConductorFixture) -> None:
    who = Context("req-1")
    for node in (rig.node("manageable"), rig.node("manageable")):
        rig.endpoints.do_node_clean(who, node_uuid=node, **CLEAN)
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
        getattr(rig.endpoints, method)(who, node_uuid=node, **args)
    assert who.request_id in caught.value.message
    assert rig.service.runtime.workers.wait_idle(5)
    assert rig.get(node) == before
    assert rig.tasks.held == frozenset()


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_that_comes_late_once_more_is_refused(
    counted: ConductorFixture, calls: Counter[str], name: str
) -> None:
    order, who = ORDERS[name], Context("req-1", user="tester")
    node = counted.node("active", power_state="power off", raid_interface="fake")
    getattr(counted.endpoints, order.method)(who, node_uuid=node, **order.args)
    counted.settled(node)
    assert counted.service.runtime.workers.wait_idle(5)
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
    act = getattr(counted.endpoints, order.method)
    refused = at_once(2, lambda: act(who, node_uuid=node, **order.args))
    counted.settled(node)
    assert counted.service.runtime.workers.wait_idle(5)
    assert [type(why) for why in refused] in ([errors.NodeLocked], [errors.Conflict])
    assert order.call is None or calls[order.call] == 1
    assert counted.get(node)["last_error"] is None


def test_an_abort_that_comes_late_does_not_end_another_run(rig: ConductorFixture) -> None:
    node, who = rig.node(**HOUR), Context("req-1", user="tester")
    rig.clean(node, "deploy.erase_devices")
    abort: dict[str, Any] = {"node_uuid": node, "action": "abort"}
    assert len(at_once(2, lambda: rig.endpoints.do_provisioning_action(who, **abort))) == 1
    rig.reaches(node, "clean failed")
    rig.act("manage", node)
    rig.clean(node, "deploy.erase_devices")
    refused_again(rig, who, "do_provisioning_action", node, action="abort")
    assert rig.get(node)["provision_state"] == "clean wait"
    assert rig.act("abort", node)["provision_state"] == "clean failed"


def test_an_abort_that_waits_for_a_step_is_noted_once(rig: ConductorFixture) -> None:
    node, who = rig.node(**HOUR), Context("req-1", user="tester")
    rig.clean(node, "bios.factory_reset")
    rig.endpoints.do_provisioning_action(who, node_uuid=node, action="abort")
    refused_again(rig, who, "do_provisioning_action", node, action="abort")
    assert len(rig.events(node, "abort_requested")) == 1


@pytest.mark.parametrize(
    ("state", "method", "args"),
    [("manageable", "do_node_clean", HELD), ("active", "do_node_service", SERVICE)],
    ids=["clean", "service"],
)
def test_an_unhold_that_comes_late_does_not_end_another_hold(
    rig: ConductorFixture, state: str, method: str, args: dict[str, Any]
) -> None:
    node, who = rig.node(state), Context("req-1", user="tester")
    held = rig.call(method, node, **args)["provision_state"]
    rig.endpoints.do_provisioning_action(who, node_uuid=node, action="unhold")
    assert rig.reaches(node, held)["provision_state"] == held
    refused_again(rig, who, "do_provisioning_action", node, action="unhold")
    rig.ask("do_provisioning_action", node, action="unhold")
    rig.reaches(node, state)


STATES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "manage": ("enroll", "do_provisioning_action", {"action": "manage"}),
    "manage again": ("available", "do_provisioning_action", {"action": "manage"}),
    "provide": ("manageable", "do_provisioning_action", {"action": "provide"}),
    "available": ("clean failed", "do_provisioning_action", {"action": "available"}),
    "adopt": ("manageable", "do_provisioning_action", {"action": "adopt"}),
    "active": ("available", "do_node_deploy", {}),
    "deleted": ("active", "do_node_tear_down", {}),
    "rescue": ("active", "do_node_rescue", {"rescue_password": "sesame"}),
    "unrescue": ("rescue", "do_node_unrescue", {}),
    "service": ("active", "do_node_service", {"service_steps": listed("power.power_on")}),
    "inspect": ("manageable", "inspect_hardware", {}),
}


@pytest.mark.parametrize("name", STATES)
def test_a_verb_that_comes_twice_at_once_and_late_is_carried_out_once(
    build: Callable[..., ConductorFixture], name: str
) -> None:
    """Late: the node has come back to where it was, as if the verb had not been."""
    rig = build(conductor__node_locked_retry_attempts=1)
    state, method, args = STATES[name]
    node, who = rig.node(state), Context("req-1", user="tester")
    act = getattr(rig.endpoints, method)
    refused = at_once(2, lambda: act(who, node_uuid=node, **args))
    assert len(refused) == 1
    assert isinstance(refused[0], errors.Conflict | errors.NodeLocked | errors.InvalidState)
    assert rig.service.runtime.workers.wait_idle(5)
    rig.settled(node)
    rig.edit(node, provision_state=state, target_provision_state=None)
    refused_again(rig, who, method, node, **args)
    assert len(rig.runs(node)) == 1
