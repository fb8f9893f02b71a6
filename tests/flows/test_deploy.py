"""Deploying, rebuilding and removing instances; deploy templates; deletion of nodes."""

from __future__ import annotations

import base64
import contextlib
import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.api.controllers import runs
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, resources
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers.fake.hardware import FakeConsole
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import conductor_fixture, crashes
from tests.support.conductor_fixture import ConductorFixture, drivers
from tests.support.crashes import Stage, rests
from tests.support.in_process import InProcess
from tests.support.statements import count_statements

# Deploying, rebuilding, and removing instances.

STEPS = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]
RAID = {
    "interface": "raid",
    "step": "apply_configuration",
    "args": {"raid_config": {"logical_disks": [{"size_gb": 1, "raid_level": "0"}]}},
    "priority": 90,
}


def test_a_deployment_runs_its_steps_and_ends_active_with_the_power_on(
    rig: ConductorFixture,
) -> None:
    node = rig.node("available")
    row = rig.call("deploy", node, configdrive={"meta_data": {}}, deploy_steps=[RAID])
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["power_state"] == "power on"
    assert row["instance_info"] == {"configdrive": {"meta_data": {}}}
    assert row["raid_config"]["logical_disks"] == [{"size_gb": 1, "raid_level": "0"}]
    assert row["deploy_step"] is None
    info = row["driver_internal_info"]
    assert info["deploy_steps"] is None
    assert "deploy_step_index" not in info
    assert rig.started(node) == [STEPS[0], "raid.apply_configuration", *STEPS[1:]]
    assert rig.path(node) == ["deploying", "active"]
    assert (rig.run(node)["verb"], rig.run(node)["state"]) == ("active", "done")


def test_a_waiting_deployment_shows_where_it_stands(rig: ConductorFixture) -> None:
    node = rig.node("available", fake_async_steps=["deploy.deploy"], fake_step_seconds=3600)
    row = rig.call("deploy", node, deploy_steps=[RAID])
    assert (row["provision_state"], row["target_provision_state"]) == ("wait call-back", "active")
    info = row["driver_internal_info"]
    assert info["deploy_step_index"] == 0
    assert info["user_deploy_steps"] == [RAID]
    assert info["deploy_steps"][1] == RAID
    assert info["deploy_steps"][2]["step"] == "write_image"
    assert row["deploy_step"] == info["deploy_steps"][0]
    assert row["deploy_step"]["step"] == "deploy"


def test_rebuild_deploys_again_without_cleaning(rig: ConductorFixture) -> None:
    node = rig.node("active")
    row = rig.call("rebuild", node)
    assert row["provision_state"] == "active"
    assert rig.path(node) == ["deploying", "active"]
    assert rig.started(node) == STEPS
    assert rig.run(node)["verb"] == "rebuild"


def test_a_failed_deployment_keeps_its_step_until_the_next_try(rig: ConductorFixture) -> None:
    node = rig.node("available", fake_fail_steps={"deploy.write_image": "no space"})
    row = rig.call("deploy", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("deploy failed", "active")
    assert row["last_error"] == "Deploy step deploy.write_image failed: no space"
    assert (row["maintenance"], row["fault"]) == (False, None)
    assert row["deploy_step"]["step"] == "write_image"
    assert row["driver_internal_info"]["deploy_step_index"] == 1
    assert len(row["driver_internal_info"]["deploy_steps"]) == 3
    assert rig.step_states(node) == ["done", "failed", "skipped"]
    rig.edit(node, driver_info={})
    row = rig.call("rebuild", node)
    assert (row["provision_state"], row["last_error"]) == ("active", None)
    assert row["deploy_step"] is None
    assert rig.started(node)[2:] == STEPS


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({**RAID, "args": {}}, "raid_config"),
        ({**RAID, "step": "no_such"}, "does not support"),
        ({"interface": "deploy", "step": "deploy", "args": {}, "priority": 5}, "core step"),
    ],
)
def test_a_deployment_that_cannot_work_is_refused_at_once(
    rig: ConductorFixture, step: dict[str, Any], said: str
) -> None:
    node = rig.node("available")
    before = rig.get(node)
    with pytest.raises(errors.InvalidRequest, match=said) as refusal:
        rig.call("deploy", node, deploy_steps=[step])
    assert "Failed to validate deploy or power info for node" in str(refusal.value)
    assert rig.get(node) == before


@pytest.mark.parametrize(
    ("drive", "said"),
    [
        ("ftp://images.example/drive", "http://, https://"),
        ("file:///etc/passwd", "must be of http or https"),
        ("http://169.254.169.254/drive", "closed by"),
        (base64.b64encode(gzip.compress(os.urandom(999))[:-20]).decode(), "truncated"),
    ],
    ids=["ftp", "file", "closed network", "half"],
)
def test_drive_of_a_request_is_checked_with_the_request(
    sqlite_database: Database, drive: str, said: str
) -> None:
    """With the paths of the node's own drive; a refusal stores nothing."""
    conf = conductor_fixture.configure(
        DEFAULT__enabled_hardware_types=["manual-management"],
        DEFAULT__enabled_deploy_interfaces=["direct"],
        DEFAULT__default_boot_interface="fake",
        DEFAULT__default_power_interface="fake",
    )
    registry = Registry.load(Settings.read(conf))
    rig = conductor_fixture.build(sqlite_database, registry)
    with contextlib.ExitStack() as ending:
        ending.callback(rig.bury)
        node = rig.node(
            "available",
            driver="manual-management",
            instance_info={"image_source": "http://x/y.raw", "image_checksum": "0" * 64},
        )
        before = rig.get(node)
        with pytest.raises(errors.InvalidParameter, match=said) as refusal:
            rig.call("deploy", node, configdrive=drive)
        assert refusal.value.facts["path"] == "instance_info/configdrive"
        assert rig.get(node) == before


@pytest.mark.parametrize("rebuild", [False, True])
def test_no_deployment_in_maintenance(rig: ConductorFixture, rebuild: bool) -> None:
    node = rig.node("active" if rebuild else "available", maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rig.call("rebuild" if rebuild else "deploy", node)


def test_a_protected_node_keeps_its_instance(rig: ConductorFixture) -> None:
    node = rig.node("active", protected=True)
    with pytest.raises(errors.NodeProtected):
        rig.call("rebuild", node)
    with pytest.raises(errors.NodeProtected):
        rig.call("delete", node)
    assert rig.get(node)["provision_state"] == "active"


# -- removing --------------------------------------------------------------------------------


def test_deleted_forgets_the_instance_cleans_and_ends_available(rig: ConductorFixture) -> None:
    node = rig.node(
        "active",
        instance_uuid="7e0ad7a2-0d2c-4dd5-8de7-3d6a1a8f7b5e",
        instance_name="web",
        instance_info={"image": "x", "rescue_password": "s"},
        power_state="power on",
        driver_internal_info={"user_deploy_steps": [], "deploy_steps": None},
    )
    row = rig.call("delete", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("available", None)
    assert (row["instance_uuid"], row["instance_name"], row["instance_info"]) == (None, None, {})
    assert row["power_state"] == "power off"
    assert not {"user_deploy_steps", "deploy_steps"} & set(row["driver_internal_info"])
    assert rig.path(node) == ["deleting", "cleaning", "available"]
    assert len(rig.runs(node)) == 1
    run = rig.run(node)
    assert (run["verb"], run["state"], len(run["steps"])) == ("deleted", "done", 2)


@pytest.mark.parametrize(
    "state",
    [
        "error",
        "deploy failed",
        "wait call-back",
        "rescue",
        "rescue wait",
        "rescue failed",
        "unrescue failed",
        "service wait",
        "service failed",
    ],
)
def test_an_instance_can_be_removed_from_each_state_that_may_have_one(
    rig: ConductorFixture, state: str
) -> None:
    node = rig.node(state, instance_info={"rescue_password": "s"}, deploy_step={"step": "x"})
    row = rig.call("delete", node)
    assert row["provision_state"] == "available"
    assert row["instance_info"] == {}
    assert row["deploy_step"] is None


def test_deleted_in_the_middle_of_a_deployment_ends_that_run_and_its_timer(
    rig: ConductorFixture,
) -> None:
    node = rig.node("available", fake_async_steps=["deploy.deploy"], fake_step_seconds=3600)
    rig.call("deploy", node)
    rig.edit(node, driver_info={})
    row = rig.call("delete", node)
    assert row["provision_state"] == "available"
    assert (row["deploy_step"], row["wake_at"]) == (None, None)
    deploy, delete = rig.runs(node)
    assert (deploy["verb"], deploy["state"]) == ("active", "aborted")
    assert "deleted" in deploy["error"]["text"]
    assert [step["state"] for step in deploy["steps"]] == ["aborted", "skipped", "skipped"]
    assert deploy["ended_at"] is not None
    assert (delete["verb"], delete["state"]) == ("deleted", "done")


def test_a_machine_that_cannot_be_torn_down_ends_in_error_and_may_be_tried_again(
    rig: ConductorFixture,
) -> None:
    node = rig.node("active", fake_fail_verbs={"delete": "switch gone"})
    row = rig.call("delete", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("error", None)
    assert "switch gone" in row["last_error"]
    rig.edit(node, driver_info={})
    assert rig.call("delete", node)["provision_state"] == "available"


def test_cleaning_that_fails_after_deletion_shows_clean_failed(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_fail_steps={"deploy.erase_devices": "stuck"})
    row = rig.call("delete", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("clean failed", "available")


# Deploy templates in a deployment: which are taken up, what wins over what, and for how long.

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
        rig.database.write(lambda conn, row=row: resources.DEPLOY_TEMPLATES.insert(conn, row))  # type: ignore[misc]


def node_with(
    rig: ConductorFixture, *names: str, asked: Any = ..., state: str = "available", **more: Any
) -> str:
    """Add a node that has traits, all of which its instance asks for unless told otherwise."""
    info = {"traits": list(names) if asked is ... else asked}
    node = rig.node(state, instance_info=info, **more)
    rig.database.write(lambda conn: nodes.replace_traits(conn, node, names, generation=0))
    return node


def deployed(rig: ConductorFixture, node: str, *, rebuild: bool = False, **args: Any) -> list[str]:
    """Deploy a node and return the steps that ran."""
    before = len(rig.started(node))
    rig.ask("rebuild" if rebuild else "deploy", node, **args)
    assert rig.reaches(node, "active")["last_error"] is None
    return rig.started(node)[before:]


def refused(
    rig: ConductorFixture, node: str, *, rebuild: bool = False, **args: Any
) -> errors.Error:
    """Ask for a deployment that is refused and changes nothing; return the refusal."""
    before = rig.get(node), rig.events(node)
    with pytest.raises(errors.InvalidRequest) as caught:
        rig.ask("rebuild" if rebuild else "deploy", node, **args)
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
        lambda c: resources.DEPLOY_TEMPLATES.update(
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
    assert rig.call("deploy", node)["provision_state"] == "deploy hold"
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
    row = rig.call("deploy", node)
    assert row["provision_state"] == "wait call-back"
    info = row["driver_internal_info"]
    assert info["deploy_templates"] == [{"name": "CUSTOM_A", "steps": [raid(90)]}]
    assert (info["user_deploy_steps"], info["deploy_steps"][1]) == ([], raid(90))
    rig.database.write(lambda conn: resources.DEPLOY_TEMPLATES.delete(conn, "CUSTOM_A"))
    rig.ring(node)
    rig.reaches(node, "active")
    assert rig.started(node) == [DRIVERS[0], "raid.apply_configuration", *DRIVERS[1:]]
    assert deployed(rig, node, rebuild=True) == DRIVERS
    assert "deploy_templates" not in rig.get(node)["driver_internal_info"]


def test_removing_the_instance_forgets_its_templates(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[raid(90)])
    node = node_with(rig, "CUSTOM_A")
    deployed(rig, node)
    row = rig.call("delete", node)
    assert (row["provision_state"], row["instance_info"]) == ("available", {})
    assert "deploy_templates" not in row["driver_internal_info"]
    assert deployed(rig, node) == DRIVERS


@pytest.mark.parametrize("change", ["edited", "removed"])
def test_after_any_death_the_deployment_goes_on_with_what_was_accepted(
    stage: Stage, change: str
) -> None:
    def ask(rig: ConductorFixture, node: str) -> None:
        rig.ask("deploy", node)

    for moment in stage.moments("commit", first=2):
        n = moment.number
        name = f"CUSTOM_{n}"
        row = {"uuid": f"00000000-0000-4000-8000-{n:012}", "name": name, "steps": [raid(90)]}
        stage.database.write(lambda conn: resources.DEPLOY_TEMPLATES.insert(conn, row))  # noqa: B023
        node = moment.die(lambda rig: node_with(rig, name), ask)  # noqa: B023
        _spoil(stage.database, row, change)
        again = moment.heir()
        # The second commit has accepted the deployment.
        assert rests(again, node)["provision_state"] == "active"
        assert set(again.started(node)) == {*DRIVERS, "raid.apply_configuration"}


def _spoil(database: Database, row: Mapping[str, Any], change: str) -> None:
    """Make of a template one that no node could take up, or nothing at all."""
    bad = {"steps": [step("raid.nope", 5)]}
    if change == "edited":
        database.write(lambda conn: resources.DEPLOY_TEMPLATES.update(conn, row["uuid"], bad))
    else:
        database.write(lambda conn: resources.DEPLOY_TEMPLATES.delete(conn, row["uuid"]))


# -- what it costs ---------------------------------------------------------------------------


def cost(rig: ConductorFixture, node: str) -> list[str]:
    """Return the statements of a whole deployment."""
    with count_statements(rig.database) as sent:
        rig.ask("deploy", node)
        assert rig.service.runtime.workers.wait_idle(60)
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
    rig.call("deploy", node)
    row = rig.reaches(node, "active")
    assert rig.started(node) == [*DRIVERS[:2], "deploy.inject_files", DRIVERS[2]]
    assert row["last_error"] is None


def test_a_step_that_the_agent_does_not_bring_fails_the_deployment(rig: ConductorFixture) -> None:
    teach(rig, CUSTOM_A=[step("deploy.nope", 70)])
    node = node_with(rig, "CUSTOM_A", fake_agent=AGENT)
    rig.call("deploy", node)
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
    assert rig.call("deploy", node)["provision_state"] == "wait call-back"
    rig.database.write(lambda conn: resources.DEPLOY_TEMPLATES.delete(conn, "CUSTOM_A"))
    rig.ring(node)
    rig.reaches(node, "active")
    assert "deploy.inject_files" in rig.started(node)


# The instance of a node: whose it is, and what is left of it when it is deleted.

INSTANCE = "0d9e8c4f-70a5-4f2b-9d46-9b1c3f1f7a55"


@pytest.fixture
def start(sqlite_database: Database) -> Iterator[Callable[..., InProcess]]:
    """A function that starts a service with options, as ``group__option``."""
    started: list[InProcess] = []

    def make(**options: Any) -> InProcess:
        started.append(InProcess(sqlite_database, **options))
        return started[-1]

    yield make
    for one in started:
        one.close()


def deployed_instance(whole: InProcess, *, lessee: str | None = None) -> str:
    """Deploy a node for the project p-nova, and return its UUID."""
    about = {"instance_info": {"project_id": "p-nova"}, "lessee": lessee}
    node = whole.rig.node("available", instance_uuid=INSTANCE, **about)
    ask(whole, node, "active")
    return node


def ask(whole: InProcess, node: str, target: str) -> None:
    place = f"/v1/nodes/{node}/states/provision"
    assert whole.api.put(place, {"target": target}).status == 202
    whole.rig.settled(node)


def lessee(whole: InProcess, node: str) -> tuple[str | None, bool]:
    shown = whole.api.get(f"/v1/nodes/{node}").json
    return shown["lessee"], shown["driver_internal_info"].get("automatic_lessee", False)


def found(whole: InProcess, project: str) -> list[str]:
    listed = whole.api.get(f"/v1/nodes?lessee={project}").json["nodes"]
    return [node["uuid"] for node in listed]


def test_instance_lends_its_node_to_its_project(start: Callable[..., InProcess]) -> None:
    whole = start()
    node = deployed_instance(whole)
    assert (lessee(whole, node), found(whole, "p-nova")) == (("p-nova", True), [node])
    ask(whole, node, "rebuild")
    assert lessee(whole, node) == ("p-nova", True)
    ask(whole, node, "deleted")
    assert (lessee(whole, node), found(whole, "p-nova")) == ((None, False), [])


def test_node_with_a_lessee_keeps_it(start: Callable[..., InProcess]) -> None:
    whole = start()
    node = deployed_instance(whole, lessee="p-other")
    assert lessee(whole, node) == ("p-other", False)
    ask(whole, node, "deleted")
    assert lessee(whole, node) == ("p-other", False)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"automatic_lessee_source": "none"}, None),
        ({"automatic_lessee_source": "request"}, "p-asks"),
        ({"automatic_lessee_source": "request", "automatic_lessee": False}, None),
    ],
)
def test_lessee_comes_from_where_the_option_says(
    build: Callable[..., ConductorFixture], options: dict[str, Any], wanted: str | None
) -> None:
    rig = build(**{f"conductor__{name}": value for name, value in options.items()})
    node = rig.node("available", instance_info={"project_id": "p-nova"})
    rig.endpoints.start_verb(
        Context("req-1", project="p-asks"), node_uuid=node, event="deploy", body={}
    )
    assert rig.settled(node)["lessee"] == wanted


@pytest.mark.parametrize(
    "columns",
    [
        {"properties": {"capabilities": "boot_mode:bios"}},
        {"properties": {"capabilities": '{"boot_mode": "BIOS"}'}},
        {"instance_info": {"capabilities": {"boot_mode": "bios"}}},
        {"boot_mode": "bios"},
        {"properties": {"boot_mode": " Bios"}},
    ],
)
@pytest.mark.parametrize(("state", "verb"), [("available", "deploy"), ("active", "rebuild")])
def test_forbidden_boot_mode_is_not_deployed(
    build: Callable[..., ConductorFixture], columns: dict[str, Any], state: str, verb: str
) -> None:
    rig = build(conductor__disallowed_deployment_boot_modes=["bios"])
    node = rig.node(state, **columns)
    with pytest.raises(errors.InvalidRequest, match="boot_mode bios is not allowed by") as why:
        rig.endpoints.start_verb(Context("req-1"), node_uuid=node, event=verb, body={})
    assert why.value.facts["path"] == "properties/capabilities"
    assert rig.settled(node)["provision_state"] == state
    allowed = rig.node("available", properties={"capabilities": "boot_mode:uefi"})
    rig.endpoints.start_verb(Context("req-1"), node_uuid=allowed, event="deploy", body={})
    assert rig.settled(allowed)["provision_state"] == "active"


def test_failed_teardown_forgets_the_instance(build: Callable[..., ConductorFixture]) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "tear_down":
            raise ZeroDivisionError("a bug")
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node("active", instance_uuid=INSTANCE, instance_info={"a": 1}, instance_name="i")
    row = rig.call("delete", node)
    assert row["provision_state"] == "error"
    assert "Failed to tear down" in row["last_error"]
    assert (row["instance_uuid"], row["instance_info"], row["instance_name"]) == (None, {}, None)


def test_console_of_the_lessee_ends_with_its_lease(
    start: Callable[..., InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("start_console", "stop_console"):
        monkeypatch.setattr(FakeConsole, name, lambda *_args, name=name: calls.append(name))
    whole = start()
    node = whole.rig.node(
        "available", instance_info={"project_id": "p-nova"}, console_interface="fake"
    )
    ask(whole, node, "active")
    assert whole.api.put(f"/v1/nodes/{node}/states/console", {"enabled": True}).status == 202
    whole.rig.settled(node)
    ask(whole, node, "deleted")
    row = whole.rig.reaches(node, "available")
    assert (row["lessee"], row["console_enabled"]) == (None, False)
    assert "console_paused" not in row["driver_internal_info"]
    ask(whole, node, "active")
    whole.rig.reaches(node, "active")
    assert calls == ["start_console", "stop_console"]


@pytest.mark.parametrize("project", ["p-nova", "p-owner", None])
def test_stop_by_the_lessee_ends_with_its_lease(
    build: Callable[..., ConductorFixture], project: str | None
) -> None:
    """The cleaning that follows is the owner's, so the former lessee must not hold it."""

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "tear_down":
            rig.database.write(lambda conn: runs.request_stop(conn, node, None, given, who))
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    given = runs.read_stop({"how": "hold", "reason": "mine"})
    who = Context("req-1", project=project)
    node = rig.node("available", owner="p-owner", instance_info={"project_id": "p-nova"})
    rig.ask("deploy", node)
    rig.reaches(node, "active")
    rig.ask("delete", node)
    gone = project == "p-nova"
    row = rig.reaches(node, "available" if gone else "clean hold")
    assert row["lessee"] is None
    told = [one["data"]["reason"] for one in rig.events(node, "stop_withdrawn")]
    assert told == (["mine"] if gone else [])


# A node can be forgotten when it is at rest, and never while it serves somebody.

AT_REST = frozenset({"enroll", "manageable", "available", "adopt failed"})
UNLOCKED = [state for state in State if states.kind(state) is not Kind.BUSY]
SOME_INSTANCE = "5d1c2f8e-8a2e-4f6b-9a55-0c6f6a3a7c01"


def refusal(rig: ConductorFixture, node: str) -> str | None:
    """Ask for the node's deletion; return why it is refused, None if it is gone."""
    try:
        rig.ask("destroy_node", node)
    except errors.Conflict as why:
        assert rig.get(node)["reservation"] is None
        return why.message
    with pytest.raises(errors.NodeNotFound):
        rig.database.read(lambda conn: nodes.get(conn, node))
    return None


@pytest.mark.parametrize("state", UNLOCKED, ids=str)
def test_a_node_is_forgotten_in_the_states_in_which_it_rests(
    rig: ConductorFixture, state: State
) -> None:
    said = refusal(rig, rig.node(state.value))
    if state.value in AT_REST:
        assert said is None
    else:
        named = "only in adopt failed, available, enroll, manageable or maintenance"
        assert f'it is in state "{state}"; {named} can it be deleted' in str(said)


@pytest.mark.parametrize("state", ["active", "error", "clean failed", "deploy failed"])
def test_a_node_in_maintenance_is_forgotten_in_every_state(
    rig: ConductorFixture, state: str
) -> None:
    assert refusal(rig, rig.node(state, maintenance=True, instance_uuid=SOME_INSTANCE)) is None


def test_a_node_of_an_instance_is_not_forgotten(rig: ConductorFixture) -> None:
    said = refusal(rig, rig.node("manageable", instance_uuid=SOME_INSTANCE))
    assert f"associated with instance {SOME_INSTANCE}" in str(said)


def test_an_option_spares_what_schedulers_may_be_about_to_take(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__allow_deleting_available_nodes=False)
    said = refusal(rig, rig.node("available"))
    assert "only in adopt failed, enroll, manageable or maintenance" in str(said)
    assert refusal(rig, rig.node("manageable")) is None
    assert refusal(rig, rig.node("available", maintenance=True)) is None
