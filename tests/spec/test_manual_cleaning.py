"""S1, manual cleaning: behaviour, request, and list of steps; one test per requirement."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.api.validation import shapes
from ironic_lite.domain import steps
from ironic_lite.domain.states import State
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry
from ironic_lite.rpc import contract
from tests.support import fake_task, vendor_driver
from tests.support.conductor_fixture import listed
from tests.support.docs_pages import lacks, section
from tests.support.operator import Operator
from tests.support.wsgi_client import Response

# S1, manual cleaning, its behaviour and its request: one test per requirement, by its number.
#
# The list of steps stands below, the command line in
# test_manual_cleaning_programs.

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


# S1, manual cleaning, the list of steps and what carries it: one test per requirement.

ROOT = pathlib.Path(__file__).parents[2]
ALL = [
    # By falling priority, then in the order of the interfaces, then by name (C35).
    ("deploy.erase_devices_metadata", 99),
    ("deploy.erase_devices", 10),
    ("vendor.log_passthrough", 0),
    ("power.cycle", 0),
    ("management.reset_bmc", 0),
    ("firmware.update", 0),
    ("bios.apply_configuration", 0),
    ("bios.factory_reset", 0),
    ("raid.create_configuration", 0),
    ("raid.delete_configuration", 0),
]
HEADER = "retry-request-after"


def asks(operator: Operator, node: str, query: str = "") -> Response:
    """Ask for the list, and see that asking changes nothing."""
    before = operator.rig.get(node)
    answer = operator.api.get(f"/v1/nodes/{node}/cleaning/steps{query}")
    assert operator.rig.get(node) == before
    return answer


def offers(operator: Operator, node: str, query: str = "") -> list[tuple[str, float]]:
    """Return name and priority of the steps listed."""
    answer = asks(operator, node, query)
    assert answer.status == 200, answer.text
    assert HEADER not in answer.headers
    return [(f"{step['interface']}.{step['step']}", step["priority"]) for step in answer.json]


# -- the list --------------------------------------------------------------------------------


def test_s1_20_the_list_is_at_cleaning_steps_and_nowhere_else(operator: Operator) -> None:
    node = operator.enroll(name="rack-7")
    assert asks(operator, node).status == 200
    path = f"/v1/nodes/{node}/cleaning"
    assert operator.api.get("/v1/nodes/rack-7/cleaning/steps").status == 200
    for other in (path, f"{path}/clean_steps", f"{path}/step", f"{path}/steps/0"):
        assert operator.api.get(other).status == 404, other
    for method in ("PUT", "POST", "PATCH", "DELETE"):
        assert operator.api.request(method, f"{path}/steps").status == 405, method
    for nobody in ("/v1/nodes/nobody/cleaning/steps", f"/v1/nodes/{'0' * 36}/cleaning/steps"):
        assert operator.api.get(nobody).status == 404


def test_s1_21_list_has_every_step_by_default(operator: Operator) -> None:
    assert offers(operator, operator.enroll()) == ALL


def test_s1_22_min_priority_leaves_lower_ones_out(serve: Callable[..., Operator]) -> None:
    override = [{"power.cycle": 0.5}]
    operator = serve(conductor__clean_step_priority_override=override)
    node = operator.enroll()
    wanted = {
        "0": 10,
        "-1": 10,
        "-1e300": 10,
        "+0.25": 3,
        "0.5": 3,
        ".5": 3,
        "0.51": 2,
        "1": 2,
        "1.": 2,
        "10": 2,
        "1e1": 2,
        "10.000001": 1,
        "99": 1,
        "99.5": 0,
        "100": 0,
        "99999999999999999999": 0,
    }
    for value, count in wanted.items():
        found = offers(operator, node, f"?min_priority={value.replace('+', '%2B')}")
        assert len(found) == count, value
        assert min((number for _, number in found), default=1e99) >= float(value)
    for nonsense in ("", "high", "nan", "inf", "-infinity", "1,5", "0x1", "1_0", "%201", "[1]"):
        answer = asks(operator, node, f"?min_priority={nonsense}")
        assert (answer.status, "min_priority" in answer.text) == (400, True), nonsense
    assert asks(operator, node, "?max_priority=1").status == 400


def test_s1_23_list_is_bare_and_ordered_by_falling_priority(serve: Callable[..., Operator]) -> None:
    titles = ("raid.delete_configuration", "bios.factory_reset", "management.reset_bmc")
    override = [dict.fromkeys(titles, 10) | {"power.cycle": 10.0, "deploy.erase_devices": 3}]
    operator = serve(conductor__clean_step_priority_override=override)
    node = operator.enroll()
    assert isinstance(asks(operator, node).json, list)
    assert offers(operator, node, "?min_priority=1") == [
        ("deploy.erase_devices_metadata", 99),
        ("power.cycle", 10),
        ("management.reset_bmc", 10),
        ("bios.factory_reset", 10),
        ("raid.delete_configuration", 10),
        ("deploy.erase_devices", 3),
    ]


def test_s1_24_a_step_shows_interface_name_priority_abortable_and_arguments(
    operator: Operator,
) -> None:
    shown = asks(operator, operator.enroll()).json
    for step in shown:
        assert list(step) == ["interface", "step", "priority", "abortable", "args"]
        assert step["interface"] in shapes.STEP_INTERFACES
        assert step["step"]
        assert isinstance(step["priority"], int | float)
        assert isinstance(step["abortable"], bool)
        for arg in step["args"]:
            assert list(arg) == ["name", "description", "required"]
            assert arg["description"]
    found = {step["step"]: step for step in shown}
    assert found["erase_devices"]["args"] == []
    assert [(arg["name"], arg["required"]) for arg in found["apply_configuration"]["args"]] == [
        ("settings", True)
    ]
    assert [(arg["name"], arg["required"]) for arg in found["create_configuration"]["args"]] == [
        ("create_root_volume", False),
        ("create_nonroot_volumes", False),
        ("delete_existing", False),
    ]


# -- lists that only an agent knows ----------------------------------------------------------


def test_s1_25_the_list_of_the_latest_agent_is_kept_and_shown(
    serve: Callable[..., Operator],
    stock: Callable[..., Registry],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = stock(deploy="Agent")
    operator = serve(registry=registry)
    node = operator.enroll(deploy_interface="workshop", fake_steps_unavailable=30)
    assert asks(operator, node).status == 202
    operator.clean(node, "power.cycle")
    assert offers(operator, node) == ALL
    # The next ramdisk can do more; it has not run yet.
    marked = base.clean_step(priority=5)(lambda self, task: None)
    monkeypatch.setattr(vendor_driver.Agent, "scrub", marked, raising=False)
    steps.forget_classes()
    assert offers(operator, node) == ALL
    another = serve(registry=registry, DEFAULT__host="there")
    assert offers(another, node) == ALL
    operator.clean(node, "power.cycle")
    assert offers(another, node) == [*ALL[:2], ("deploy.scrub", 5), *ALL[2:]]


def test_s1_26_a_list_nobody_knows_is_a_202_with_a_header_and_a_message(
    operator: Operator,
) -> None:
    node = operator.enroll(fake_steps_unavailable=30)
    for query in ("", "?min_priority=1"):
        answer = asks(operator, node, query)
        assert answer.status == 202
        assert answer.headers[HEADER] == "30"
        assert answer.headers["content-type"].startswith("application/json")
        assert list(answer.json) == ["message"]
        assert "not available yet" in answer.json["message"]
    assert asks(operator, node, "?min_priority=high").status == 400


def test_s1_27_the_header_is_seconds_or_minus_one_if_nobody_knows(operator: Operator) -> None:
    for seconds in (0, 1, 45, 86400, -1):
        node = operator.enroll("enroll", fake_steps_unavailable=seconds)
        answer = asks(operator, node)
        assert (answer.status, answer.headers[HEADER]) == (202, str(seconds))
    assert (
        "is not an integer" in operator.patches(node, driver_info__fake_steps_unavailable=1.5).text
    )


def test_s1_28_a_driver_that_knows_its_steps_tells_them_at_once(operator: Operator) -> None:
    node = operator.enroll("enroll", fake_fail_power="the machine is not even racked")
    assert offers(operator, node) == ALL
    # Nor does the list wait for whoever holds the node.
    with operator.rig.tasks.lock(operator.rig.who, node):
        assert operator.shows(node)["reservation"] == "here"
        assert offers(operator, node) == ALL
    assert operator.rig.events(node) == operator.rig.events(node, "node_created")


def test_s1_29_the_list_begins_with_1_15(operator: Operator) -> None:
    path = f"/v1/nodes/{operator.enroll()}/cleaning/steps"
    for old in (1, 14):
        assert operator.api.at(old).get(path).status == 404
    for client in (operator.api.at(15), operator.api.at("latest"), operator.api):
        assert client.get(path).status == 200


# -- RPC, drivers, documentation -------------------------------------------------------------


def test_s1_34_clean_is_a_call_that_tells_a_refusal_while_the_caller_listens(
    serve: Callable[..., Operator],
) -> None:
    assert "start_verb" in vars(contract.Conductor)
    assert "start_verb" not in contract.CASTS
    number = [tuple(map(int, version.split("."))) for version, _ in contract.HISTORY]
    assert number == sorted(set(number))
    assert contract.HISTORY[-1][0] == contract.VERSION
    full = serve(conductor__max_concurrent_clean=1)
    full.rig.node("clean wait")
    steps = listed("power.cycle")
    assert "cleaning" in full.refused(full.enroll(), "clean", 503, clean_steps=steps)
    options = {"node_locked_retry_attempts": 1, "graceful_shutdown_timeout": 1}
    more = {f"conductor__{name}": value for name, value in options.items()}
    operator = serve(DEFAULT__host="there", **more)
    node = operator.enroll()
    with operator.rig.tasks.lock(operator.rig.who, node):
        assert "locked" in operator.refused(node, "clean", 409, clean_steps=steps)
    # Accepted means begun: the state has moved when the answer arrives.
    operator.patches(node, driver_info__fake_step_seconds=3600)
    assert operator.asks(node, "clean", clean_steps=steps).status == 202
    assert operator.shows(node)["provision_state"] == "cleaning"


def test_s1_35_the_kept_list_outlives_waits_failures_aborts_and_power(operator: Operator) -> None:
    node = operator.enroll(fake_steps_unavailable=-1)
    operator.patches(node, driver_info__fake_async_steps=["*"], driver_info__fake_step_seconds=3600)
    assert operator.clean(node, "deploy.erase_devices")["provision_state"] == "clean wait"
    assert offers(operator, node) == ALL
    assert operator.provision(node, "abort")["provision_state"] == "clean failed"
    assert offers(operator, node) == ALL
    operator.provision(node, "manage")
    told = {"fake_steps_unavailable": -1, "fake_fail_steps": {"deploy.erase_devices": "no"}}
    operator.patches(node, driver_info=told)
    assert operator.clean(node, "deploy.erase_devices")["provision_state"] == "clean failed"
    power = operator.api.put(f"/v1/nodes/{node}/states/power", {"target": "power off"})
    assert power.status == 202
    operator.rig.settled(node)
    assert offers(operator, node) == ALL


def test_s1_35_steps_without_an_agent_run_although_its_list_is_not_known(
    operator: Operator,
) -> None:
    node = operator.enroll(fake_steps_unavailable=-1)
    assert operator.clean(node, "power.cycle", disable_ramdisk=True)["last_error"] is None
    assert asks(operator, node).status == 202
    shown = operator.clean(node, "power.cycle", "deploy.erase_devices", disable_ramdisk=True)
    assert "does not support this clean step: deploy.erase_devices" in shown["last_error"]
    assert "Retry" not in shown["last_error"]


def test_s1_36_one_error_of_drivers_becomes_the_202_and_no_other_does(
    serve: Callable[..., Operator], stock: Callable[..., Registry]
) -> None:
    def tree(kind: type[errors.Error]) -> list[type[errors.Error]]:
        return [kind, *(found for child in kind.__subclasses__() for found in tree(child))]

    ours = [kind for kind in tree(errors.Error) if kind.__module__ == errors.__name__]
    assert [kind for kind in ours if kind.status == 202] == [errors.StepsUnavailable]
    operator = serve(registry=stock(power="Shy", raid="Raid"))
    shy = operator.rig.node(power_interface="workshop")
    answer = asks(operator, shy)
    assert (answer.status, answer.headers[HEADER]) == (202, "77")


def test_s1_36_another_error_of_a_driver_stays_an_error(
    serve: Callable[..., Operator], stock: Callable[..., Registry]
) -> None:
    operator = serve(registry=stock(power="Broken"))
    answer = asks(operator, operator.rig.node(power_interface="workshop"))
    assert (answer.status, "no route" in answer.text) == (500, True)
    assert HEADER not in answer.headers


def test_s1_37_every_step_for_hand_cleaning_has_a_test_among_those_of_its_driver() -> None:
    task = fake_task.FakeTask()
    points = importlib.metadata.entry_points()
    found: set[tuple[str, str]] = set()
    for kind in base.KINDS:
        for point in points.select(group=f"ironic_lite.hardware.interfaces.{kind}"):
            if point.module.startswith("ironic_lite."):
                steps = point.load()().get_clean_steps(task)
                driver = point.module.split(".")[2]
                found |= {(driver, step["step"]) for step in steps if not step["priority"]}
    assert {("fake", "create_configuration"), ("redfish", "reset_bmc")} < found
    for driver, step in found:
        folder = ROOT / "tests/drivers"
        files = [*folder.glob(f"test_{driver}_*.py"), *folder.glob(f"{driver}/**/test_*.py")]
        texts = [file.read_text() for file in files]
        assert any(re.search(rf"\b{step}\b", text) for text in texts), (driver, step)


def test_s1_38_the_page_on_cleaning_tells_the_two_kinds_apart_and_how_to_have_each() -> None:
    page = "cleaning.rst"
    told = section(page, "Cleaning")
    assert lacks(told, "*Automated cleaning*", "*Manual cleaning*", "one and the same engine") == []
    assert lacks(told, "priority is above 0", "order of the request", "``manageable``") == []
    by_hand = section(page, "Manual cleaning")
    assert lacks(by_hand, '"target": "clean"', '"clean_steps"', '"args"', "disable_ramdisk") == []
    by_itself = section(page, "Automated cleaning")
    assert lacks(by_itself, '"target": "provide"', "clean_step_priority_override") == []
    # Automated off for all, off or on for one node; manual in any case, single steps forbidden.
    off = ("[conductor]automated_clean_enable = false", "/automated_clean", "``clean_nodes``")
    assert lacks(by_itself, *off, "Manual cleaning works either way", "disallow_clean_steps") == []
    listing = section(page, "Available steps")
    assert lacks(listing, "cleaning/steps", "min_priority", "Retry-Request-After", "``-1``") == []
