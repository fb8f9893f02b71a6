"""Steps that a node's run carries out on the node's children."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events, holds
from ironic_lite.domain import history
from ironic_lite.drivers.registry import Registry
from tests.flows.test_locks import seize
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for
from tests.support.crashes import Stage
from tests.support.operator import Operator

KINDS = {
    "clean": ("manageable", "clean", "bios.factory_reset"),
    "service": ("active", "service", "vendor.log_passthrough"),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def on_children(title: str, *limit: str, **more: Any) -> dict[str, Any]:
    interface, step = title.split(".")
    found = {"interface": interface, "step": step, "execute_on_child_nodes": True, **more}
    return {**found, "limit_child_node_execution": list(limit)} if limit else found


class Family(NamedTuple):
    """A node and its children."""

    rig: ConductorFixture
    parent: str
    children: list[str]

    def run(self, kind: str, *steps: dict[str, Any]) -> dict[str, Any]:
        return self.rig.call(KINDS[kind][1], self.parent, **{f"{kind}_steps": list(steps)})

    def powers(self) -> list[str | None]:
        return [self.rig.get(child)["power_state"] for child in self.children]

    def begun(self, child: str) -> list[str]:
        return self.rig.started(child)


def family(rig: ConductorFixture, kind: str, count: int = 3, **told: Any) -> Family:
    parent = rig.node(KINDS[kind][0])
    children = [rig.node("manageable", parent_node=parent, **told) for _ in range(count)]
    return Family(rig, parent, children)


def entries(rig: ConductorFixture, node: str) -> list[dict[str, Any]]:
    """Return a node's history, the oldest entry first."""
    rows = rig.database.read(
        lambda conn: events.entries(conn, node, marker=None, direction="asc", limit=100, own={})
    )
    return [history.entry(row) for row in rows]


# -- what happens ----------------------------------------------------------------------------


@each_kind
def test_a_power_step_runs_on_every_child_and_not_on_the_parent(
    rig: ConductorFixture, kind: str
) -> None:
    home = family(rig, kind, driver_info={"has_dedicated_power_supply": True})
    stranger = rig.node()
    row = home.run(kind, on_children("power.power_on"))
    assert (row["provision_state"], row["power_state"]) == (KINDS[kind][0], None)
    assert home.powers() == ["power on"] * 3
    assert rig.get(stranger)["power_state"] is None
    assert [step["state"] for step in rig.run(home.parent)["steps"]] == ["done"]
    home.run(kind, on_children("power.power_off"), on_children("deploy.reboot", home.children[1]))
    assert home.powers() == ["power off", "power on", "power off"]


@each_kind
def test_a_drivers_step_runs_on_every_child_with_its_arguments(
    build: Callable[..., ConductorFixture], kind: str
) -> None:
    seen = []

    def around(_kind: str, name: str, call: Any) -> Any:
        if name == f"execute_{kind}_step":
            seen.append((call.args[0].node.uuid, call.args[1]["step"], call.args[1].get("args")))
        return call()

    home = family(build(registry=crashes.Drivers(drivers(), around)), kind, 2)
    title = KINDS[kind][2]
    home.run(kind, on_children(title, args={}), on_children(title, home.children[1]))
    step = title.split(".")[1]
    assert seen == [
        (home.children[0], step, {}),
        (home.children[1], step, {}),
        (home.children[1], step, None),
    ]


@each_kind
def test_history_tells_of_it_on_the_child_too(rig: ConductorFixture, kind: str) -> None:
    home = family(rig, kind, 1)
    home.run(kind, on_children("power.power_on"))
    (child,) = home.children
    told = rig.events(child)
    assert [one["kind"] for one in told] == ["step_started", "step_ended", "power"]
    data = {"step": "power.power_on", "parent": home.parent}
    assert [data.items() <= one["data"].items() for one in told[:2]] == [True, True]
    (entry,) = entries(rig, child)
    assert (entry["severity"], entry["event_type"]) == ("INFO", "parent_step")
    assert entry["event"] == (
        f"The step power.power_on of the parent node {home.parent} has been done here."
    )
    assert (entry["state"], entry["conductor"]) == ("manageable", "here")
    # The parent's own history tells of the whole flow.
    assert "parent_step" not in {entry["event_type"] for entry in entries(rig, home.parent)}
    row = rig.get(child)
    assert (row["provision_state"], row["reservation"], row["run_uuid"]) == (
        *("manageable", None),
        None,
    )


@each_kind
def test_no_child_is_nothing_to_do(rig: ConductorFixture, kind: str) -> None:
    home = family(rig, kind, 0)
    row = home.run(kind, on_children("power.power_on"))
    assert (row["provision_state"], row["last_error"]) == (KINDS[kind][0], None)
    assert rig.step_states(home.parent) == ["done"]


def test_a_child_of_another_conductor_is_reached_all_the_same(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build()
    build(DEFAULT__host="there")
    home = family(rig, "clean", 8)
    home.run("clean", on_children("power.power_on"))
    assert home.powers() == ["power on"] * 8


# -- refused at once -------------------------------------------------------------------------


@pytest.fixture
def operator(sqlite_database: Database) -> Iterator[Operator]:
    """Somebody who asks over HTTP."""
    found = Operator(sqlite_database)
    yield found
    found.close()


LIMIT = "clean_steps/1/limit_child_node_execution"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no UUID": (on_children("power.power_on", "child-1"), f"{LIMIT}/0"),
    "no text": (on_children("power.power_on", 7), LIMIT),  # type: ignore[arg-type]
    "no list": (on_children("power.power_on", limit_child_node_execution="x"), LIMIT),
    "nobody": (on_children("power.power_on", str(uuid.UUID(int=1))), f"{LIMIT}/0"),
    "no truth": (on_children("power.power_on", execute_on_child_nodes="yes"), "clean_steps/1"),
    "a hold": (on_children("power.hold"), "clean_steps/1/step"),
    "a wait": (on_children("power.wait", args={"seconds": 1}), "clean_steps/1/step"),
    "arguments": (on_children("power.reboot", args={"x": 1}), "clean_steps/1/args"),
}


@pytest.mark.parametrize("name", WRONG)
def test_contradictory_child_step_is_refused_at_the_request(operator: Operator, name: str) -> None:
    node = operator.enroll()
    step, path = WRONG[name]
    said = operator.refused(
        node, "clean", 400, clean_steps=[{"interface": "power", "step": "power_on"}, step]
    )
    assert path in said


def test_only_own_children_may_be_named_in_any_case(operator: Operator) -> None:
    node, other = operator.enroll(), operator.enroll()
    own = operator.enroll(parent_node=node)
    step = on_children("power.power_on", own, other)
    said = operator.refused(node, "clean", 400, clean_steps=[step])
    assert "clean_steps/0/limit_child_node_execution/1" in said
    assert other in said
    operator.provision(node, "clean", clean_steps=[on_children("power.power_on", own.upper())])
    assert operator.shows(own)["power_state"] == "power on"


def test_a_limit_alone_does_not_run_the_step_on_the_parent(operator: Operator) -> None:
    node = operator.enroll()
    own = operator.enroll(parent_node=node)
    step = {**on_children("power.power_on", own), "execute_on_child_nodes": False}
    assert "execute_on_child_nodes" in operator.refused(node, "clean", 400, clean_steps=[step])


def test_a_child_in_maintenance_is_left_alone(rig: ConductorFixture) -> None:
    home = family(rig, "clean", 2)
    rig.edit(home.children[0], maintenance=True)
    before = rig.get(home.parent)
    with pytest.raises(errors.InvalidParameter, match=f"{home.children[0]} is in maintenance"):
        home.run("clean", on_children("power.power_on"))
    after = rig.get(home.parent)
    assert {**after, "updated_at": None} == {**before, "updated_at": None}
    home.run("clean", on_children("power.power_on", home.children[1]))
    assert home.powers() == [None, "power on"]


# -- refused before anything runs ------------------------------------------------------------


def hold(rig: ConductorFixture, node: str, blocks: str) -> None:
    """Set a hold, as the API does."""
    row = {
        **dict.fromkeys(holds.COLUMNS[1:]),
        "uuid": str(uuid.uuid4()),
        "node_uuid": node,
        "kind": "evidence",
        "reason": "case 12",
        "blocks": blocks,
        "created_at": clock.now(),
    }
    rig.database.write(lambda conn: holds.add(conn, row))


@each_kind
@pytest.mark.parametrize(
    ("blocks", "title"),
    [("erase", "driver"), ("verbs", "driver"), ("erase", "power"), ("power", "power")],
)
def test_hold_of_a_child_refuses_the_steps_of_its_parent_on_it(
    rig: ConductorFixture, kind: str, blocks: str, title: str
) -> None:
    home = family(rig, kind, count=2)
    title = "power.power_off" if title == "power" else KINDS[kind][2]
    hold(rig, home.children[1], blocks)
    before = [rig.get(node) for node in (home.parent, *home.children)]
    with pytest.raises(errors.NodeHeld, match="case 12") as refused:
        home.run(kind, on_children(title))
    assert refused.value.facts["node"] == home.children[1]
    assert [rig.get(node) for node in (home.parent, *home.children)] == before
    row = home.run(kind, on_children(title, home.children[0]))
    assert row["provision_state"] == KINDS[kind][0]


@each_kind
@pytest.mark.parametrize("blocks", ["use", "power", "forget"])
def test_hold_of_a_child_that_blocks_something_else_refuses_no_step(
    rig: ConductorFixture, kind: str, blocks: str
) -> None:
    home = family(rig, kind, count=1)
    hold(rig, home.children[0], blocks)
    assert home.run(kind, on_children(KINDS[kind][2]))["provision_state"] == KINDS[kind][0]


@each_kind
def test_hold_of_a_child_that_is_set_during_the_run_keeps_it_untouched(
    build: Callable[..., ConductorFixture], kind: str
) -> None:
    homes: list[Family] = []

    def around(_kind: str, name: str, call: Any) -> Any:
        if name.startswith("execute_") and homes:
            hold(homes.pop().rig, children[1], "erase")
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    home = family(rig, kind, count=2)
    children = home.children
    homes.append(home)
    row = home.run(kind, on_children(KINDS[kind][2]))
    assert row["provision_state"] == f"{kind} failed"
    assert "case 12" in row["last_error"]
    assert home.begun(children[1]) == []
    assert rig.run(home.parent)["error"]["cause"]["code"] == "NodeHeld"


@each_kind
def test_a_step_that_a_child_does_not_have_is_found_before_anything_runs(
    rig: ConductorFixture, kind: str
) -> None:
    home = family(rig, kind, 2)
    first = {"interface": "power", "step": "power_on"}
    row = home.run(
        kind, first, on_children("raid.no_such"), on_children(KINDS[kind][2], args={"x": 1})
    )
    assert row["provision_state"] == f"{kind} failed"
    for child in home.children:
        assert f"on child node {child}: node does not support" in row["last_error"]
    assert "unexpected arguments: x" in row["last_error"]
    assert rig.started(home.parent) == []
    assert row["power_state"] is None


def test_a_child_that_must_stay_on_is_found_before_anything_runs(rig: ConductorFixture) -> None:
    home = family(rig, "clean", 2)
    rig.edit(home.children[1], disable_power_off=True)
    row = home.run("clean", on_children("power.power_off"))
    assert f"on child node {home.children[1]}" in row["last_error"]
    assert "disable_power_off" in row["last_error"]
    assert home.powers() == [None, None]


def test_a_parent_that_must_stay_on_may_switch_its_children_off(rig: ConductorFixture) -> None:
    home = family(rig, "clean", 1)
    rig.edit(home.parent, disable_power_off=True)
    assert home.run("clean", on_children("power.power_off"))["provision_state"] == "manageable"
    assert home.powers() == ["power off"]


# -- faults ----------------------------------------------------------------------------------


@each_kind
def test_the_first_child_that_fails_ends_the_step_and_is_named(
    rig: ConductorFixture, kind: str
) -> None:
    home = family(rig, kind)
    second = home.children[1]
    rig.edit(second, driver_info={"fake_fail_power": "no current"})
    row = home.run(kind, on_children("power.power_on"))
    assert row["provision_state"] == f"{kind} failed"
    for word in ("step power.power_on failed", f"on child node {second}", "no current"):
        assert word in row["last_error"]
    assert home.powers() == ["power on", None, None]
    assert [home.begun(child) for child in home.children] == [
        ["power.power_on"],
        ["power.power_on"],
        [],
    ]
    told = [[one["severity"] for one in entries(rig, child)] for child in home.children]
    assert told == [["INFO"], ["ERROR"], []]
    (entry,) = entries(rig, second)
    for word in ("power.power_on", home.parent, "failed here", "no current"):
        assert word in entry["event"]
    child = rig.get(second)
    assert (child["provision_state"], child["reservation"]) == ("manageable", None)
    assert (child["maintenance"], child["fault"]) == (False, None)


@pytest.mark.parametrize("state", ["cleaning", "clean wait", "clean hold", "deploying"])
def test_a_child_in_the_middle_of_something_is_left_alone(
    rig: ConductorFixture, state: str
) -> None:
    home = family(rig, "clean", 1)
    rig.edit(home.children[0], provision_state=state)
    row = home.run("clean", on_children("power.power_on"))
    assert row["provision_state"] == "clean failed"
    child = home.children[0]
    said = f'on child node {child}: it is busy in state "{state}"'
    assert said in row["last_error"]
    assert home.powers() == [None]


def test_a_locked_child_is_tried_again_then_named(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__node_locked_retry_attempts=2)
    home = family(rig, "clean", 1)
    with rig.tasks.lock(rig.who, home.children[0]):
        row = home.run("clean", on_children("power.power_on"))
    assert row["provision_state"] == "clean failed"
    assert f"on child node {home.children[0]}" in row["last_error"]
    assert "locked by host here" in row["last_error"]


def test_a_child_locked_for_a_moment_is_waited_for(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__node_locked_retry_attempts=10)
    home = family(rig, "clean", 1)
    with rig.tasks.lock(rig.who, home.children[0]):
        rig.ask("clean", home.parent, clean_steps=[on_children("power.power_on")])
        wait_for(lambda: rig.started(home.parent))
    rig.reaches(home.parent, "manageable")
    assert home.powers() == ["power on"]


@pytest.mark.parametrize("permitted", [False, True])
def test_a_step_that_goes_on_by_itself_needs_a_permit(
    build: Callable[..., ConductorFixture], permitted: bool
) -> None:
    rig = build(conductor__permit_child_node_step_async_result=permitted)
    home = family(rig, "clean", 1, fake_async_steps=["*"])
    row = home.run("clean", on_children("bios.factory_reset"))
    assert row["provision_state"] == ("manageable" if permitted else "clean failed")
    assert permitted or "permit_child_node_step_async_result" in row["last_error"]
    child = rig.get(home.children[0])
    assert (child["provision_state"], child["wake_at"]) == ("manageable", None)


# -- crashes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("host", ["here", "there"])
def test_after_a_crash_every_child_has_had_its_step(
    stages: Callable[..., Stage], what: str, host: str
) -> None:
    steps = [on_children("bios.factory_reset"), on_children("power.power_on")]
    homes: list[Family] = []

    def begin(rig: ConductorFixture) -> str:
        homes.append(family(rig, "clean", 2))
        return homes[-1].parent

    def ask(rig: ConductorFixture, parent: str) -> None:
        rig.ask("clean", parent, clean_steps=steps)

    stage = stages(conductor__node_locked_retry_attempts=10)
    for moment in stage.moments(what, least=5):
        again, parent = moment.play(begin, ask, host)
        home = homes[-1]
        row = again.reaches(parent, "manageable")
        if again.runs(parent):  # else it died before the verb was accepted
            assert row["last_error"] is None
            assert home.powers() == ["power on"] * 2
            assert again.step_states(parent) == ["done", "done"]
        for child in home.children:
            assert again.settled(child)["provision_state"] == "manageable"


def test_a_stop_leaves_the_children_free_and_the_step_to_be_run_again(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build()
    home = family(rig, "clean", 2, fake_step_seconds=3600)
    steps = [on_children("bios.factory_reset")]
    rig.ask("clean", home.parent, clean_steps=steps)
    wait_for(lambda: rig.started(home.children[0]))
    rig.service.stop(0.001)
    row = rig.get(home.parent)
    assert (row["provision_state"], row["last_error"], row["reservation"]) == (
        *("cleaning", None),
        None,
    )
    assert [rig.get(child)["reservation"] for child in home.children] == [None, None]
    for child in home.children:
        rig.edit(child, driver_info={})
    again = build()
    again.reaches(home.parent, "manageable")
    assert [again.started(child) for child in home.children] == [
        ["bios.factory_reset"] * 2,
        ["bios.factory_reset"],
    ]


def test_a_parent_that_is_another_conductors_by_now_leaves_its_next_child_alone(
    build: Callable[..., ConductorFixture],
) -> None:
    """The new owner has the step run on all children: twice at once would be once too often."""
    begun: list[str] = []

    def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "execute_clean_step":
            begun.append(kind)
            if len(begun) == 1:
                seize(rig.database, some.parent, "theirs")
                rig.service.runtime.fence.doubt(0)
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    some = family(rig, "clean", 2)
    rig.ask("clean", some.parent, clean_steps=[on_children("bios.factory_reset")])
    assert rig.service.runtime.workers.wait_idle(60)
    assert len(begun) == 1
    assert rig.get(some.parent)["lock_token"] == "theirs"
