"""S1, manual cleaning, its behaviour and its request: one test per requirement, by its number.

The list of steps is in test_manual_cleaning_steps, the command line in
test_manual_cleaning_programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain.states import State
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry
from tests.support.conductor_fixture import listed
from tests.support.operator import Operator

AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]
STEPS = listed("deploy.erase_devices")
SETTINGS = [{"name": "turbo", "value": "on"}]


def step(title: str, **args: Any) -> dict[str, Any]:
    """Return a step of a request, with arguments."""
    return {**listed(title)[0], "args": args}


def begun(operator: Operator, node: str) -> list[str]:
    """Return the clean steps begun, in order; the node was verified before."""
    first, *others = operator.rig.started(node)
    assert first == "management.verify_access"
    return others


# -- behaviour -------------------------------------------------------------------------------


def test_s1_01_both_cleanings_are_one_engine_and_nothing_is_called_zap(operator: Operator) -> None:
    waits = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
    by_hand, by_itself = operator.enroll(), operator.enroll()
    for node in (by_hand, by_itself):
        operator.patches(node, driver_info=waits)
    shown = {
        by_hand: operator.clean(by_hand, "deploy.erase_devices_metadata"),
        by_itself: operator.provision(by_itself, "provide"),
    }
    for node, seen in shown.items():
        assert seen["provision_state"] == "clean wait"
        assert seen["clean_step"]["step"] == "erase_devices_metadata"
        assert operator.rig.path(node)[-2:] == ["cleaning", "clean wait"]
        assert operator.rig.run(node)["steps"][0]["kind"] == "clean"
    assert [state for state in State if "zap" in state] == []
    node = operator.enroll()
    for target in ("zap", "zapping"):
        assert target in operator.refused(node, target, 400, clean_steps=STEPS)


def test_s1_02_only_a_manageable_node_is_cleaned_by_hand(operator: Operator) -> None:
    for state in set(State) - {State.MANAGEABLE}:
        node = operator.rig.node(str(state))
        assert str(state) in operator.refused(node, "clean", 400, clean_steps=STEPS)
        assert operator.rig.path(node) == []


def test_s1_03_a_good_clean_leads_back_to_manageable(operator: Operator) -> None:
    node = operator.enroll()
    shown = operator.clean(node, "deploy.erase_devices")
    assert (shown["provision_state"], shown["target_provision_state"]) == ("manageable", None)
    assert operator.rig.path(node)[-2:] == ["cleaning", "manageable"]


def test_s1_04_a_failure_leads_to_clean_failed_and_says_why(operator: Operator) -> None:
    node = operator.enroll(fake_fail_steps={"deploy.erase_devices": "disk on fire"})
    shown = operator.clean(node, "deploy.erase_devices", "power.cycle")
    assert shown["provision_state"] == "clean failed"
    for word in ("deploy.erase_devices", "disk on fire"):
        assert word in shown["last_error"]
    assert begun(operator, node) == ["deploy.erase_devices"]


def test_s1_05_the_decorator_takes_a_list_of_arguments_none_by_default(
    serve: Callable[..., Operator], stock: Callable[..., Registry]
) -> None:
    operator = serve(registry=stock(raid="Raid"))
    node = operator.enroll(raid_interface="workshop")
    offered = operator.api.get(f"/v1/nodes/{node}/cleaning/steps").json
    args = {found["step"]: found["args"] for found in offered}
    assert args["engrave"] == [
        {"name": "depth", "description": "How deep, a number from 1 to 9.", "required": True},
        {"name": "label", "description": "Any text. Default: none.", "required": False},
    ]
    assert args["polish"] == args["dust"] == []
    said = operator.provision(node, "clean", clean_steps=[step("raid.polish", x=1)])["last_error"]
    assert "unexpected arguments: x" in said
    entry = {"name": "depth", "description": "1 to 9.", "required": True}
    for wrong in (
        {**entry, "description": ""},
        {**entry, "description": None},
        {**entry, "required": "yes"},
        {**entry, "name": "no name"},
        {"description": "1 to 9."},
        {**entry, "default": 5},
        "depth",
    ):
        with pytest.raises(errors.InvalidParameter, match="args"):
            base.clean_step(priority=0, args=[wrong])  # type: ignore[list-item]  # on purpose
    with pytest.raises(errors.InvalidParameter, match="twice"):
        base.clean_step(priority=0, args=[entry, entry])


def test_s1_06_the_decorator_says_the_priority_and_whether_a_step_can_be_aborted(
    operator: Operator,
) -> None:
    waits = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
    titles = ("deploy.erase_devices", "management.reset_bmc")
    nodes = {title: operator.enroll() for title in titles}
    offered = operator.api.get(f"/v1/nodes/{nodes[titles[0]]}/cleaning/steps").json
    told = {f"{s['interface']}.{s['step']}": (s["priority"], s["abortable"]) for s in offered}
    assert [told[title] for title in titles] == [(10, True), (0, False)]
    for title, node in nodes.items():
        operator.patches(node, driver_info=waits)
        operator.clean(node, title, "power.cycle")
    # One ends at once, the other when its step has ended.
    abortable, stubborn = nodes.values()
    assert operator.provision(abortable, "abort")["provision_state"] == "clean failed"
    assert operator.rig.step_states(abortable)[0] == "aborted"
    assert operator.provision(stubborn, "abort")["provision_state"] == "clean wait"
    operator.rig.ring(stubborn)
    operator.rig.reaches(stubborn, "clean failed")
    assert operator.rig.step_states(stubborn)[0] == "done"


def test_s1_07_a_step_of_priority_0_runs_by_hand_and_never_by_itself(operator: Operator) -> None:
    node = operator.enroll()
    offered = operator.api.get(f"/v1/nodes/{node}/cleaning/steps").json
    titles = [f"{s['interface']}.{s['step']}" for s in offered if not s["priority"]]
    assert {"power.cycle", "management.reset_bmc", "raid.delete_configuration"} < set(titles)
    operator.provision(node, "provide")
    assert begun(operator, node) == AUTOMATED
    operator.provision(node, "manage")
    needy = ("configuration", "firmware.update")  # these take arguments
    plain = [title for title in titles if not any(word in title for word in needy)]
    assert operator.clean(node, *plain)["provision_state"] == "manageable"
    assert begun(operator, node) == [*AUTOMATED, *plain]


def test_s1_08_the_interface_that_owns_a_step_is_told_to_execute_it(
    serve: Callable[..., Operator], stock: Callable[..., Registry]
) -> None:
    operator = serve(registry=stock(raid="Raid", bios="Bios"))
    node = operator.enroll(raid_interface="workshop", bios_interface="workshop")
    titles = ("bios.factory_reset", "raid.polish", "deploy.erase_devices", "raid.dust")
    shown = operator.clean(node, *titles)
    assert shown["provision_state"] == "manageable"
    assert shown["driver_internal_info"]["driver_notes"]["workshop_executed"] == [
        # The interface, and what the step named.
        ["bios", "bios", "factory_reset"],
        ["raid", "raid", "polish"],
        ["raid", "raid", "dust"],
    ]


def test_s1_09_steps_run_in_the_order_of_the_request_whatever_their_priority(
    operator: Operator,
) -> None:
    titles = [
        "power.cycle",
        "deploy.erase_devices",
        "management.reset_bmc",
        "deploy.erase_devices_metadata",
        "power.cycle",
        "deploy.erase_devices",
    ]
    node = operator.enroll()
    operator.clean(node, *titles)
    assert begun(operator, node) == titles
    node = operator.enroll()
    operator.clean(node, *reversed(titles))
    assert begun(operator, node) == titles[::-1]


def test_s1_11_no_field_of_a_node_came_with_it(operator: Operator) -> None:
    node = operator.enroll()
    path = f"/v1/nodes/{node}"
    before = operator.api.at(14).get(path).json
    assert operator.api.at(15).get(path).json.keys() == before.keys()
    operator.clean(node, "deploy.erase_devices")
    assert operator.api.at(14).get(path).json.keys() == before.keys()


# -- transitions -----------------------------------------------------------------------------


def test_s1_12_clean_leads_from_manageable_to_cleaning(serve: Callable[..., Operator]) -> None:
    operator = serve(conductor__graceful_shutdown_timeout=1)
    node = operator.enroll()
    operator.patches(node, driver_info__fake_step_seconds=3600)
    assert operator.asks(node, "clean", clean_steps=STEPS).status == 202
    operator.rig.enters(node, "cleaning")
    shown = operator.shows(node)
    assert shown["target_provision_state"] == "manageable"
    last = operator.rig.events(node, "provision")[-1]
    assert (last["before"], last["event"], last["after"]) == ("manageable", "clean", "cleaning")


def test_s1_13_manage_ends_a_good_clean(operator: Operator) -> None:
    node = operator.enroll()
    operator.clean(node, "deploy.erase_devices")
    last = operator.rig.events(node, "provision")[-1]
    assert (last["before"], last["event"], last["after"]) == ("cleaning", "manage", "manageable")


# -- the request -----------------------------------------------------------------------------


def test_s1_14_clean_needs_at_least_one_step(operator: Operator) -> None:
    node = operator.enroll()
    assert "clean_steps" in operator.refused(node, "clean", 400)
    nothings: tuple[Any, ...] = (None, [], {}, "", 0, False)
    for nothing in nothings:
        assert "clean_steps" in operator.refused(node, "clean", 400, clean_steps=nothing)
    for target in ("manage", "provide", "inspect"):
        said = operator.refused(node, target, 400, clean_steps=STEPS)
        assert "clean_steps" in said or "manage" in said
    assert operator.clean(node, "deploy.erase_devices")["provision_state"] == "manageable"


GOOD = {"interface": "deploy", "step": "erase_devices"}


MISSHAPEN: list[tuple[Any, str]] = [
    ("deploy.erase_devices", "clean_steps"),
    ({"0": GOOD}, "clean_steps"),
    (["deploy.erase_devices"], "clean_steps/0"),
    ([GOOD, None], "clean_steps/1"),
    ([GOOD, []], "clean_steps/1"),
    ([{}], "clean_steps/0/interface"),
    ([GOOD, {"step": "erase_devices"}], "clean_steps/1/interface"),
    ([GOOD, GOOD, {"interface": "deploy"}], "clean_steps/2/step"),
    ([{**GOOD, "interface": "boot"}], "clean_steps/0/interface"),
    ([{**GOOD, "interface": "Deploy"}], "clean_steps/0/interface"),
    ([{**GOOD, "interface": None}], "clean_steps/0/interface"),
    ([{**GOOD, "interface": ["deploy"]}], "clean_steps/0/interface"),
    ([{**GOOD, "step": ""}], "clean_steps/0/step"),
    ([{**GOOD, "step": 7}], "clean_steps/0/step"),
    ([{**GOOD, "step": None}], "clean_steps/0/step"),
    ([{**GOOD, "args": []}], "clean_steps/0/args"),
    ([{**GOOD, "args": "depth=1"}], "clean_steps/0/args"),
    ([{**GOOD, "args": None}], "clean_steps/0/args"),
    ([{**GOOD, "argument": {}}], "clean_steps/0/argument"),
    ([{**GOOD, "priority": 5}], "clean_steps/0/priority"),
    ([GOOD] * 1001, "clean_steps"),
]


def test_s1_15_a_step_is_an_interface_a_name_and_perhaps_arguments(operator: Operator) -> None:
    node = operator.enroll()
    for wrong, path in MISSHAPEN:
        assert f"{path}: " in operator.refused(node, "clean", 400, clean_steps=wrong), wrong
    for good in (GOOD, {**GOOD, "args": {}}):
        shown = operator.provision(node, "clean", clean_steps=[good])
        assert shown["provision_state"] == "manageable"


def test_s1_16_missing_arguments_are_all_told_at_once_and_no_step_runs(operator: Operator) -> None:
    node = operator.enroll()
    wrong = [
        *listed("power.cycle", "bios.apply_configuration"),
        step("deploy.erase_devices", depth=3, colour="red"),
        step("bios.apply_configuration", speed=2),
        *listed("raid.nonesuch"),
    ]
    assert operator.asks(node, "clean", clean_steps=wrong).status == 202
    operator.rig.settled(node)
    shown = operator.shows(node)
    assert shown["provision_state"] == "clean failed"
    said = shown["last_error"]
    assert said.count("bios.apply_configuration is missing these required arguments: settings") == 2
    assert "deploy.erase_devices has these unexpected arguments: colour, depth" in said
    assert "bios.apply_configuration has these unexpected arguments: speed" in said
    assert "does not support this clean step: raid.nonesuch" in said
    assert begun(operator, node) == []
    assert shown["power_state"] == "power off"  # power.cycle would have left it on
    assert (shown["maintenance"], shown["fault"]) == (True, "clean failure")


def test_s1_17_a_step_that_finds_its_arguments_wrong_leaves_earlier_ones_done(
    operator: Operator,
) -> None:
    node = operator.enroll()
    wrong = [
        *listed("power.cycle"),
        step("bios.apply_configuration", settings="turbo=on"),
        *listed("deploy.erase_devices"),
    ]
    shown = operator.provision(node, "clean", clean_steps=wrong)
    assert shown["provision_state"] == "clean failed"
    for word in ("bios.apply_configuration", "settings"):
        assert word in shown["last_error"]
    assert begun(operator, node) == ["power.cycle", "bios.apply_configuration"]
    assert operator.rig.step_states(node)[:2] == ["done", "failed"]
    assert shown["power_state"] == "power on"


def test_s1_18_clean_begins_with_1_15(operator: Operator) -> None:
    node = operator.enroll()
    path, body = f"/v1/nodes/{node}/states/provision", {"target": "clean", "clean_steps": STEPS}
    before = operator.rig.get(node)
    for old in (1, 14):
        answer = operator.api.at(old).put(path, body)
        assert (answer.status, "1.15" in answer.text) == (406, True)
    assert operator.rig.get(node) == before
    # No header is the newest version (C32).
    for client in (operator.api.at(15), operator.api.at("latest"), operator.api):
        assert client.put(path, body).status == 202
        assert operator.rig.settled(node)["provision_state"] == "manageable"


def test_s1_19_arguments_reach_the_step_as_keywords_and_unchanged(
    serve: Callable[..., Operator], stock: Callable[..., Registry]
) -> None:
    operator = serve(registry=stock(raid="Raid"))
    node = operator.enroll(raid_interface="workshop")

    def engraved(**args: Any) -> dict[str, Any]:
        shown = operator.provision(node, "clean", clean_steps=[step("raid.engrave", **args)])
        assert shown["last_error"] is None
        kept: dict[str, Any] = shown["driver_internal_info"]["driver_notes"]["workshop_engraved"]
        return kept

    for value in (7, 0, -1.5, True, None, "", "söme", [1, [2]], {"a": {"b": None}}):
        assert engraved(label=value, depth=3) == {"depth": 3, "label": value}
        assert engraved(depth=value) == {"depth": value, "label": "none"}
