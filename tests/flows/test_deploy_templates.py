"""Deploy templates in a deployment: which are taken up, what wins over what, and for how long."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import deploy_templates, traits
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers
from tests.support.statements import count_statements

Json = dict[str, Any]

DRIVERS = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]


def step(title: str, priority: int, **args: Any) -> Json:
    """Return a deploy step of a template or of a request."""
    interface, name = title.split(".")
    return {"interface": interface, "step": name, "args": args, "priority": priority}


def raid(priority: int, size: int = 1) -> Json:
    config = {"logical_disks": [{"size_gb": size, "raid_level": "0"}]}
    return step("raid.apply_configuration", priority, raid_config=config)


def bios(priority: int, value: str = "on") -> Json:
    return step("bios.apply_configuration", priority, settings=[{"name": "a", "value": value}])


def teach(rig: ConductorFixture, **templates: list[Json]) -> None:
    """Add deploy templates: their names and steps."""
    for place, (name, steps) in enumerate(templates.items()):
        row = {"uuid": f"00000000-0000-4000-8000-{place:012}", "name": name, "steps": steps}
        rig.database.write(lambda conn, row=row: deploy_templates.insert(conn, row))  # type: ignore[misc]


def node_with(
    rig: ConductorFixture, *names: str, asked: Any = ..., state: str = "available", **more: Any
) -> str:
    """Add a node that has traits, all of which its instance asks for unless told otherwise."""
    info = {"traits": list(names) if asked is ... else asked}
    node = rig.node(state, instance_info=info, **more)
    rig.database.write(lambda conn: traits.replace(conn, node, names, generation=0))
    return node


def deployed(rig: ConductorFixture, node: str, **args: Any) -> list[str]:
    """Deploy a node and return the steps that ran."""
    before = len(rig.started(node))
    rig.ask("do_node_deploy", node, **args)
    assert rig.reaches(node, "active")["last_error"] is None
    return rig.started(node)[before:]


def refused(rig: ConductorFixture, node: str, **args: Any) -> errors.Error:
    """Ask for a deployment that is refused and changes nothing; return the refusal."""
    before = rig.get(node), rig.events(node)
    with pytest.raises(errors.InvalidRequest) as caught:
        rig.ask("do_node_deploy", node, **args)
    assert (rig.get(node), rig.events(node)) == before
    assert f"Failed to validate deploy or power info for node {node}: " in caught.value.message
    return caught.value


# -- which, and in which order ---------------------------------------------------------------


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_template_adds_its_steps_where_its_trait_is_asked_for(
    rig: ConductorFixture, rebuild: bool
) -> None:
    teach(rig, CUSTOM_A=[raid(90, size=7), bios(85)], CUSTOM_B=[bios(110)])
    node = node_with(rig, "CUSTOM_A", state="active" if rebuild else "available")
    expected = ["raid.apply_configuration", "bios.apply_configuration"]
    assert deployed(rig, node, rebuild=rebuild) == [DRIVERS[0], *expected, *DRIVERS[1:]]
    assert rig.get(node)["raid_config"]["logical_disks"] == [{"size_gb": 7, "raid_level": "0"}]
    ran = rig.run(node)["steps"][1]
    assert (ran["args"], ran["priority"]) == (raid(90, size=7)["args"], 90)


@pytest.mark.parametrize("asked", [[], None, ["CUSTOM_B"]])
def test_a_trait_that_the_instance_does_not_ask_for_brings_nothing(
    rig: ConductorFixture, asked: Any
) -> None:
    teach(rig, CUSTOM_A=[raid(90)])
    node = node_with(rig, "CUSTOM_A", "CUSTOM_B", asked=asked)
    assert deployed(rig, node) == DRIVERS


def test_templates_add_up_whatever_the_order_of_the_traits(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[raid(50)], CUSTOM_B=[bios(90)], HW_NIC_SRIOV=[step("deploy.deploy", 0)])
    names = ["CUSTOM_A", "HW_NIC_SRIOV", "CUSTOM_B", "CUSTOM_A"]
    expected = ["bios.apply_configuration", DRIVERS[1], "raid.apply_configuration", DRIVERS[2]]
    for asked in (names, names[::-1]):
        assert deployed(rig, node_with(rig, *names, asked=asked)) == expected


def test_a_template_goes_before_the_driver(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[step("deploy.write_image", 5), step("deploy.boot_instance", 0)])
    assert deployed(rig, node_with(rig, "CUSTOM_A")) == DRIVERS[:2]
    teach_last = [step("deploy.write_image", 101)]
    rig.database.write(
        lambda c: deploy_templates.update(
            c, "00000000-0000-4000-8000-000000000000", {"steps": teach_last}
        )
    )
    assert deployed(rig, node_with(rig, "CUSTOM_A")) == [DRIVERS[1], DRIVERS[0], DRIVERS[2]]


def test_the_user_goes_before_the_template(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[raid(90, size=1), bios(85)])
    asked = [raid(10, size=2), step("bios.apply_configuration", 0, settings=[])]
    ran = deployed(rig, node := node_with(rig, "CUSTOM_A"), deploy_steps=asked)
    assert ran == [*DRIVERS, "raid.apply_configuration"]
    assert rig.get(node)["raid_config"]["logical_disks"] == [{"size_gb": 2, "raid_level": "0"}]


def test_equal_priorities_are_ordered_by_interface_like_any(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[raid(80)], CUSTOM_B=[bios(80)])
    ran = deployed(rig, node_with(rig, "CUSTOM_A", "CUSTOM_B"))
    middle = [DRIVERS[1], "bios.apply_configuration", "raid.apply_configuration"]
    assert ran == [DRIVERS[0], *middle, DRIVERS[2]]


def test_a_reserved_step_of_a_template_holds_the_deployment(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[step("deploy.hold", 90)])
    node = node_with(rig, "CUSTOM_A")
    assert rig.call("do_node_deploy", node)["provision_state"] == "deploy hold"
    rig.act("unhold", node)
    assert rig.reaches(node, "active")["last_error"] is None


# -- refused at the verb ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "path", "said"),
    [
        ("CUSTOM_A", "instance_info/traits", "a list of strings"),
        ("", "instance_info/traits", "a list of strings"),
        ({"CUSTOM_A": 1}, "instance_info/traits", "a list of strings"),
        (5, "instance_info/traits", "a list of strings"),
        (False, "instance_info/traits", "a list of strings"),
        (["CUSTOM_A", 5], "instance_info/traits/1", "a string"),
        ([None], "instance_info/traits/0", "a string"),
        ([["CUSTOM_A"]], "instance_info/traits/0", "a string"),
        (["CUSTOM_A", "CUSTOM_C"], "instance_info/traits/1", "the trait 'CUSTOM_C'"),
        (["custom_a"], "instance_info/traits/0", "the trait 'custom_a'"),
        (["x" * 100_000], "instance_info/traits/0", f"the trait '{'x' * 80}'"),
    ],
    ids=lambda value: str(value)[:30],
)
@pytest.mark.parametrize("rebuild", [False, True])
def test_traits_are_a_list_of_the_nodes_own(
    rig: ConductorFixture, asked: Any, path: str, said: str, rebuild: bool
) -> None:
    teach(rig, CUSTOM_A=[raid(90)], CUSTOM_C=[bios(90)])
    state = "active" if rebuild else "available"
    node = node_with(rig, "CUSTOM_A", "CUSTOM_B", asked=asked, state=state)
    fault = refused(rig, node, rebuild=rebuild)
    assert fault.facts["path"] == path
    assert f"{path}: " in fault.message
    assert said in fault.message
    assert len(fault.message) < 500
    opinion = rig.endpoints.validate_driver_interfaces(rig.who, node_uuid=node)["deploy"]
    assert (opinion["result"], said in opinion["reason"]) == (False, True)


FAULTS: dict[str, tuple[list[Json], str]] = {
    "an unknown step": ([step("raid.nope", 90)], "does not support this deploy step: raid.nope"),
    "unknown, though it is 0": ([step("raid.nope", 0)], "does not support"),
    "an unexpected argument": ([step("deploy.write_image", 9, x=1)], "unexpected arguments: x"),
    "a missing argument": (
        [step("raid.apply_configuration", 9)],
        "required arguments: raid_config",
    ),
    "the core step": ([step("deploy.deploy", 9)], "deploy.deploy is a core step"),
    "a step of another": ([bios(1)], "bios.apply_configuration is in deploy template CUSTOM_A too"),
    "the same to remove": ([step("bios.apply_configuration", 0, settings=[])], "CUSTOM_A too"),
    "a wait for nonsense": ([step("deploy.wait", 9, seconds="x")], "not a number of seconds"),
    "power that must stay on": ([step("power.power_off", 9)], "disable_power_off is set"),
    "disallowed since": ([step("vendor.send_raw", 9)], "vendor.send_raw is not allowed"),
}


@pytest.mark.parametrize("user_steps", [[], [bios(5)]], ids=["alone", "with the user's"])
@pytest.mark.parametrize("case", FAULTS)
def test_a_template_that_cannot_be_carried_out_refuses_the_deployment(
    rig: ConductorFixture, case: str, user_steps: list[Json]
) -> None:
    steps, said = FAULTS[case]
    teach(rig, CUSTOM_A=[bios(90)], CUSTOM_BAD=steps)
    node = node_with(rig, "CUSTOM_A", "CUSTOM_BAD", disable_power_off=True)
    fault = refused(rig, node, deploy_steps=user_steps)
    assert fault.facts["path"] == "instance_info/traits"
    assert "deploy template CUSTOM_BAD: " in fault.message
    assert said in fault.message
    opinion = rig.endpoints.validate_driver_interfaces(rig.who, node_uuid=node)["deploy"]
    assert (opinion["result"], said in opinion["reason"]) == (False, True)
    rig.edit(node, instance_info={"traits": ["CUSTOM_A"]})
    assert rig.endpoints.validate_driver_interfaces(rig.who, node_uuid=node)["deploy"]["result"]


def test_all_faults_of_all_templates_are_told_at_once(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[step("raid.no", 1), step("bios.no", 1)], CUSTOM_B=[step("raid.no", 2)])
    message = refused(rig, node_with(rig, "CUSTOM_A", "CUSTOM_B")).message
    assert [message.count(name) for name in ("CUSTOM_A: node", "CUSTOM_B: node", "too")] == [
        2,
        1,
        1,
    ]


# -- for how long ----------------------------------------------------------------------------


def test_a_deployment_notes_what_it_took_up_and_the_next_forgets_it(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[raid(90)])
    node = node_with(rig, "CUSTOM_A", fake_async_steps=["deploy.deploy"], fake_step_seconds=3600)
    row = rig.call("do_node_deploy", node)
    assert row["provision_state"] == "wait call-back"
    info = row["driver_internal_info"]
    assert info["deploy_templates"] == [{"name": "CUSTOM_A", "steps": [raid(90)]}]
    assert (info["user_deploy_steps"], info["deploy_steps"][1]) == ([], raid(90))
    rig.database.write(lambda conn: deploy_templates.delete(conn, "CUSTOM_A"))
    rig.ring(node)
    rig.reaches(node, "active")
    assert rig.started(node) == [DRIVERS[0], "raid.apply_configuration", *DRIVERS[1:]]
    assert deployed(rig, node, rebuild=True) == DRIVERS
    assert "deploy_templates" not in rig.get(node)["driver_internal_info"]


def test_removing_the_instance_forgets_its_templates(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[raid(90)])
    node = node_with(rig, "CUSTOM_A")
    deployed(rig, node)
    row = rig.call("do_node_tear_down", node)
    assert (row["provision_state"], row["instance_info"]) == ("available", {})
    assert "deploy_templates" not in row["driver_internal_info"]
    assert deployed(rig, node) == DRIVERS


@pytest.mark.parametrize("change", ["edited", "removed"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_after_any_death_the_deployment_goes_on_with_what_was_accepted(
    build: Callable[..., ConductorFixture], sqlite_database: Database, change: str
) -> None:
    ended: set[str] = set()
    for n in itertools.count(1):
        life = crashes.Life()
        rig = build(
            crashes.database(sqlite_database, life), registry=crashes.drivers(drivers(), life)
        )
        rig.database = sqlite_database
        name = f"CUSTOM_{n}"
        row = {"uuid": f"00000000-0000-4000-8000-{n:012}", "name": name, "steps": [raid(90)]}
        sqlite_database.write(lambda conn, row=row: deploy_templates.insert(conn, row))  # type: ignore[misc]
        node = node_with(rig, name)
        life.arm(commit=n)
        with contextlib.suppress(crashes.Died):
            rig.ask("do_node_deploy", node)
        rig.service.runtime.workers.wait_idle(10)
        rig.bury()
        _spoil(sqlite_database, row, change)
        if not life.dead:
            break
        again = build(sqlite_database)
        assert again.service.runtime.workers.wait_idle(10)
        state = again.settled(node)["provision_state"]
        ended.add(state)
        assert set(again.started(node)) == (
            {*DRIVERS, "raid.apply_configuration"} if state == "active" else set()
        )
        again.bury()
    assert ended == {"active"}  # the first commit has accepted the deployment


def _spoil(database: Database, row: Mapping[str, Any], change: str) -> None:
    """Make of a template one that no node could take up, or nothing at all."""
    bad = {"steps": [step("raid.nope", 5)]}
    if change == "edited":
        database.write(lambda conn: deploy_templates.update(conn, row["uuid"], bad))
    else:
        database.write(lambda conn: deploy_templates.delete(conn, row["uuid"]))


# -- what it costs ---------------------------------------------------------------------------


def cost(rig: ConductorFixture, node: str) -> list[str]:
    """Return the statements of a whole deployment."""
    with count_statements(rig.database) as sent:
        rig.ask("do_node_deploy", node)
        assert rig.service.runtime.workers.wait_idle(10)
    assert rig.get(node)["provision_state"] == "active"
    return list(sent)


@pytest.mark.parametrize("info", [{}, {"traits": None}, {"traits": []}])
def test_a_deployment_without_traits_asks_for_no_template(
    rig: ConductorFixture, info: Json
) -> None:
    teach(rig, CUSTOM_A=[raid(90)])
    node = node_with(rig, "CUSTOM_A")
    rig.edit(node, instance_info=info)
    sent = cost(rig, node)
    assert [one for one in sent if "template" in one or "traits" in one] == []


def test_traits_cost_two_statements_however_many_they_are(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[step("deploy.write_image", 70)], CUSTOM_B=[step("deploy.deploy", 0)])
    plain = len(cost(rig, node_with(rig, asked=None)))
    assert len(cost(rig, node_with(rig, "CUSTOM_A"))) == plain + 2
    assert len(cost(rig, node_with(rig, "CUSTOM_A", "CUSTOM_C", "CUSTOM_D"))) == plain + 2


# -- with an agent ---------------------------------------------------------------------------

AGENT = [
    {
        "version": "1",
        "deploy_steps": [
            {"interface": "deploy", "step": "inject_files", "priority": 0},
            {"interface": "deploy", "step": "write_log", "priority": 30},
        ],
    }
]


def test_a_step_of_the_agent_joins_the_list_once_it_has_spoken(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[step("deploy.inject_files", 70), step("deploy.write_log", 0)])
    node = node_with(rig, "CUSTOM_A", fake_agent=AGENT)
    rig.call("do_node_deploy", node)
    row = rig.reaches(node, "active")
    assert rig.started(node) == [*DRIVERS[:2], "deploy.inject_files", DRIVERS[2]]
    assert row["last_error"] is None


def test_a_step_that_the_agent_does_not_bring_fails_the_deployment(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[step("deploy.nope", 70)])
    node = node_with(rig, "CUSTOM_A", fake_agent=AGENT)
    rig.call("do_node_deploy", node)
    row = rig.reaches(node, "deploy failed")
    said = "deploy template CUSTOM_A: node does not support this deploy step: deploy.nope"
    assert said in row["last_error"]
    assert rig.started(node) == DRIVERS[:1]


def test_the_agent_meets_the_template_as_it_was_accepted(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[step("deploy.inject_files", 70)])
    node = node_with(
        rig,
        "CUSTOM_A",
        fake_agent=AGENT,
        fake_async_steps=["deploy.deploy"],
        fake_step_seconds=3600,
    )
    assert rig.call("do_node_deploy", node)["provision_state"] == "wait call-back"
    rig.database.write(lambda conn: deploy_templates.delete(conn, "CUSTOM_A"))
    rig.ring(node)
    rig.reaches(node, "active")
    assert "deploy.inject_files" in rig.started(node)
