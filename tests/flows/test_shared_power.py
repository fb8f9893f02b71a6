"""Power of parent and child nodes: a parent on before its child, children off before the parent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.drivers.registry import Registry
from tests.flows.test_children import hold, on_children
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers

ON, OFF = "power on", "power off"
DEDICATED = {"has_dedicated_power_supply": True}


class House:
    """A parent, its children, and a grandchild, with the order of all power changes."""

    def __init__(self, build: Callable[..., ConductorFixture], **settings: Any) -> None:
        self.changes: list[tuple[str, str]] = []
        self.rig = build(
            registry=cast(Registry, crashes.Drivers(drivers(), self._record)), **settings
        )
        self.names: dict[str, str] = {}

    def add(self, name: str, parent: str | None = None, power: str = OFF, **more: Any) -> str:
        more["driver_internal_info"] = {"driver_notes": {"fake_power_state": power}}
        uuid = self.rig.node("manageable", parent_node=parent, power_state=power, **more)
        self.names[uuid] = name
        return uuid

    def _record(self, kind: str, name: str, call: Any) -> Any:
        found = call()
        if kind == "power" and name in ("set_power_state", "reboot"):
            uuid = call.args[0].node.uuid
            self.changes.append((self.names.get(uuid, uuid), (*call.args[1:], "reboot")[0]))
        return found

    def switch(self, uuid: str, target: str) -> dict[str, Any]:
        self.rig.ask("change_node_power_state", uuid, target=target)
        return self.rig.settled(uuid)

    def powers(self) -> dict[str, Any]:
        return {name: self.rig.get(uuid)["power_state"] for uuid, name in self.names.items()}


@pytest.fixture
def house(build: Callable[..., ConductorFixture]) -> House:
    return House(build, conductor__node_locked_retry_attempts=1)


@pytest.mark.parametrize("target", [ON, "rebooting", "soft rebooting"])
def test_parents_are_switched_on_before_their_child(house: House, target: str) -> None:
    top = house.add("top")
    middle = house.add("middle", top)
    low = house.add("low", middle)
    house.add("sibling", top)
    row = house.switch(low, target)
    assert row["last_error"] is None
    assert house.powers() == {"top": ON, "middle": ON, "low": ON, "sibling": OFF}
    assert [name for name, _ in house.changes][:3] == ["top", "middle", "low"]
    for uuid in (top, middle):
        told = [(one["event"], one["after"]) for one in house.rig.events(uuid, "power")]
        assert [one for one in told if one[0] != "changed"] == [("start", ON), ("end", ON)]
        assert house.rig.get(uuid)["target_power_state"] is None
        assert house.rig.get(uuid)["reservation"] is None


@pytest.mark.parametrize("target", [OFF, "soft power off"])
def test_children_are_switched_off_before_their_parent(house: House, target: str) -> None:
    top = house.add("top", power=ON)
    middle = house.add("middle", top, ON)
    house.add("low", middle, ON)
    house.add("sibling", top, ON)
    house.add("off", top, OFF)
    assert house.switch(top, target)["last_error"] is None
    assert set(house.powers().values()) == {OFF}
    assert house.changes == [(name, target) for name in ("low", "middle", "sibling", "top")]


def test_child_with_its_own_supply_is_independent(house: House) -> None:
    top = house.add("top", power=ON)
    own = house.add("own", top, ON, driver_info=DEDICATED)
    text = house.add("text", top, ON, driver_info={"has_dedicated_power_supply": "True"})
    house.switch(top, OFF)
    assert house.powers() == {"top": OFF, "own": ON, "text": ON}
    house.switch(own, OFF)
    house.switch(own, ON)
    assert house.switch(text, ON)["last_error"] is None
    assert house.powers()["top"] == OFF


def test_reboot_of_a_parent_leaves_its_children(house: House) -> None:
    top = house.add("top", power=ON)
    house.add("low", top, ON)
    house.switch(top, "rebooting")
    assert [name for name, _ in house.changes] == ["top"]
    assert house.powers() == {"top": ON, "low": ON}


def test_parent_that_is_on_needs_no_lock(house: House) -> None:
    top = house.add("top", power=ON)
    low = house.add("low", top)
    with house.rig.tasks.lock(house.rig.who, top):
        assert house.switch(low, ON)["last_error"] is None
    assert house.powers() == {"top": ON, "low": ON}


@pytest.mark.parametrize("fault", ["locked", "power", "driver"])
@pytest.mark.parametrize("target", [ON, OFF])
def test_node_whose_relative_cannot_be_switched_stays_as_it_is(
    house: House, target: str, fault: str
) -> None:
    power = OFF if target == ON else ON
    top, low = house.add("top", power=power), None
    low = house.add("low", top, power)
    house.add("sibling", top, power)
    asked, other = (low, top) if target == ON else (top, low)
    if fault == "power":
        house.rig.edit(other, driver_info={"fake_fail_power": "no current"})
    elif fault == "driver":
        house.rig.edit(other, driver="no-such")
    if fault == "locked":
        with house.rig.tasks.lock(house.rig.who, other):
            row = house.switch(asked, target)
    elif fault == "driver" and target == OFF:
        with pytest.raises(errors.Error, match=other):
            house.switch(asked, target)
        row = {**house.rig.get(asked), "last_error": other}
    else:
        row = house.switch(asked, target)
    assert other in row["last_error"]
    assert (row["power_state"], row["target_power_state"]) == (power, None)
    assert house.changes == []
    assert set(house.powers().values()) == {power}


@pytest.mark.parametrize("why", ["hold", "stay on", "clean wait"])
def test_child_that_may_not_be_switched_off_refuses_its_parent_at_once(
    house: House, why: str
) -> None:
    top = house.add("top", power=ON)
    low = house.add("low", top, ON)
    if why == "hold":
        hold(house.rig, low, "power")
    elif why == "stay on":
        house.rig.edit(low, disable_power_off=True)
    else:
        house.rig.edit(low, provision_state="clean wait")
    before = house.rig.get(top)
    with pytest.raises((errors.NodeHeld, errors.Conflict, errors.InvalidState), match=low):
        house.switch(top, OFF)
    after = house.rig.get(top)
    assert {**after, "updated_at": None} == {**before, "updated_at": None}
    assert house.powers() == {"top": ON, "low": ON}


def test_hold_of_a_parent_keeps_it_off_and_its_child_too(house: House) -> None:
    top = house.add("top")
    low = house.add("low", top)
    hold(house.rig, top, "power")
    row = house.switch(low, ON)
    assert "case 12" in row["last_error"]
    assert house.powers() == {"top": OFF, "low": OFF}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("target", [ON, OFF])
def test_ring_of_an_older_release_is_named(house: House, size: int, target: str) -> None:
    power = OFF if target == ON else ON
    nodes = [house.add(str(n), power=power) for n in range(size)]
    for n, uuid in enumerate(nodes):
        house.rig.edit(uuid, parent_node=nodes[(n + 1) % size])
    row = house.switch(nodes[0], target)
    assert "parents of each other" in row["last_error"]
    assert [house.rig.get(uuid)["reservation"] for uuid in nodes] == [None] * size


def test_parent_that_is_gone_does_not_stop_its_child(house: House) -> None:
    low = house.add("low", "00000000-0000-4000-8000-000000000000")
    assert house.switch(low, ON)["last_error"] is None


@pytest.mark.parametrize("verb", ["deploy", "delete", "clean", "reboot"])
def test_other_operations_switch_the_relatives_too(house: House, verb: str) -> None:
    top = house.add("top", power=OFF)
    low = house.add("low", top, OFF)
    if verb == "deploy":
        house.rig.edit(low, provision_state="available")
        house.rig.call("do_node_deploy", low)
        assert house.powers() == {"top": ON, "low": ON}
    elif verb == "delete":
        house.rig.edit(top, provision_state="active", power_state=ON)
        house.switch(low, ON)
        house.changes.clear()
        house.rig.call("do_node_tear_down", top)
        assert house.powers() == {"top": OFF, "low": OFF}
        assert house.changes[:2] == [("low", OFF), ("top", OFF)]
    elif verb == "clean":
        step = {"interface": "power", "step": "power_on"}
        house.rig.call("do_node_clean", low, clean_steps=[step])
        assert house.powers() == {"top": ON, "low": ON}
        step = {"interface": "power", "step": "power_off"}
        house.rig.call("do_node_clean", top, clean_steps=[step])
        assert house.powers() == {"top": OFF, "low": OFF}
    else:
        step = {"interface": "power", "step": "reboot"}
        house.rig.call("do_node_clean", low, clean_steps=[step])
        assert house.powers() == {"top": ON, "low": ON}


def test_step_on_children_switches_its_own_parent_on_first(house: House) -> None:
    top = house.add("top")
    house.add("low", top)
    house.add("sibling", top)
    row = house.rig.call("do_node_clean", top, clean_steps=[on_children("power.power_on")])
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert house.powers() == {"top": ON, "low": ON, "sibling": ON}
    assert [name for name, _ in house.changes] == ["top", "low", "sibling"]
    row = house.rig.call("do_node_clean", top, clean_steps=[on_children("power.power_off")])
    assert house.powers() == {"top": ON, "low": OFF, "sibling": OFF}


def test_power_sync_that_switches_a_child_on_switches_its_parent_on(
    build: Callable[..., ConductorFixture],
) -> None:
    house = House(build, conductor__force_power_state_during_sync=True)
    top = house.add("top")
    low = house.add("low", top)
    house.rig.edit(low, power_state=ON)
    house.rig.service.power.sweep()
    assert house.rig.service.power.settle(30)
    assert house.powers() == {"top": ON, "low": ON}
    assert [name for name, _ in house.changes] == ["top", "low"]


def test_deleted_parent_leaves_its_children_in_lists(house: House) -> None:
    top = house.add("top")
    low = house.add("low", top)
    before = house.rig.get(low)
    house.rig.ask("destroy_node", top)
    after = house.rig.get(low)
    assert (after["parent_node"], after["generation"]) == (None, before["generation"] + 1)
    (event,) = house.rig.events(low, "node_updated")
    assert event["data"] == {"fields": ["parent_node"]}
