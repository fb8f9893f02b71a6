"""S1, manual cleaning, the list of steps and what carries it: one test per requirement."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
from collections.abc import Callable

import pytest

from ironic_lite import errors
from ironic_lite.api.validation import shapes
from ironic_lite.domain import steps
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry
from ironic_lite.rpc import interface
from tests.support import fake_task, vendor_driver
from tests.support.conductor_fixture import listed
from tests.support.docs_pages import lacks, section
from tests.support.operator import Operator
from tests.support.wsgi_client import Response

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


def test_s1_34_do_node_clean_is_a_call_that_tells_a_refusal_while_the_caller_listens(
    serve: Callable[..., Operator],
) -> None:
    assert "do_node_clean" in vars(interface.Conductor)
    assert "do_node_clean" not in interface.CASTS
    number = [tuple(map(int, version.split("."))) for version, _ in interface.HISTORY]
    assert number == sorted(set(number))
    assert interface.HISTORY[-1][0] == interface.VERSION
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

    ours = [kind for kind in tree(errors.Error) if kind.__name__ in errors.__all__]
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
