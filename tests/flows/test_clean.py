"""Cleaning: states and targets, steps from a runbook, restarts, and lists without a ramdisk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.engine import lists
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.engine.workers import WorkerSlot
from ironic_lite.conductor.watch import timeouts
from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, resources
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import client, deploy, steps
from ironic_lite.drivers.fake.hardware import FakeDeploy
from ironic_lite.drivers.registry import Registry
from tests.support import crashes, scripted_agent
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.database_rows import new_uuid

# Cleaning, automated and manual: states, targets, and what the wire shows at each moment.

AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]


def test_provide_cleans_by_priority_and_ends_available(rig: ConductorFixture) -> None:
    node = rig.node(last_error="an old one")
    row = rig.act("provide", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("available", None)
    assert rig.path(node) == ["cleaning", "available"]
    assert rig.started(node) == AUTOMATED
    assert row["clean_step"] is None
    assert row["driver_internal_info"]["clean_steps"] is None
    assert row["driver_internal_info"].keys() == {"clean_steps"}
    assert row["last_error"] is None


def test_a_manual_clean_runs_the_list_as_it_is_and_ends_manageable(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["bios.factory_reset"], fake_step_seconds=3600)
    row = rig.clean(node, "bios.factory_reset", "deploy.erase_devices", "power.cycle")
    assert (row["provision_state"], row["target_provision_state"]) == ("clean wait", "manageable")
    info = row["driver_internal_info"]
    assert info["clean_step_index"] == 0
    assert info["declarative_cleaning"] is True
    assert info["cleaning_disable_ramdisk"] is False
    assert [step["step"] for step in info["clean_steps"]] == [
        "factory_reset",
        "erase_devices",
        "cycle",
    ]
    assert row["clean_step"] == info["clean_steps"][0]
    assert row["clean_step"] == {
        "interface": "bios",
        "step": "factory_reset",
        "abortable": False,
        "priority": 0,
    }
    assert row["reservation"] is None
    assert rig.step_states(node) == ["waiting", "pending", "pending"]
    assert rig.run(node)["state"] == "waiting"
    rig.ring(node)
    row = rig.reaches(node, "manageable")
    assert row["target_provision_state"] is None
    assert row["clean_step"] is None
    assert row["driver_internal_info"]["clean_steps"] is None
    assert not {"clean_step_index", "declarative_cleaning", "cleaning_disable_ramdisk"} & set(
        row["driver_internal_info"]
    )
    assert rig.path(node) == ["cleaning", "clean wait", "cleaning", "manageable"]
    assert rig.started(node) == ["bios.factory_reset", "deploy.erase_devices", "power.cycle"]
    run = rig.run(node)
    assert (run["verb"], run["state"]) == ("clean", "done")
    assert [(step["state"], step["attempt"]) for step in run["steps"]] == [("done", 1)] * 3
    assert row["power_state"] == "power on"


def test_at_its_start_a_clean_shows_an_empty_step_and_a_null_index(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = rig.node(
        "clean failed",
        driver_internal_info={"clean_steps": listed("raid.old"), "clean_step_index": 4},
    )
    seen: list[dict[str, Any]] = []
    workers = rig.service.runtime.workers
    run = workers.run

    def look_first(work: Callable[[], None], *share: Any) -> WorkerSlot:
        seen.append(rig.get(node))
        return run(work, *share)

    monkeypatch.setattr(workers, "run", look_first)
    rig.act("provide", node)
    assert seen[0]["provision_state"] == "cleaning"
    assert seen[0]["clean_step"] == {}
    assert seen[0]["driver_internal_info"]["clean_step_index"] is None
    assert seen[0]["target_provision_state"] == "available"
    assert seen[0]["reservation"] == "here"


def test_arguments_reach_the_step(rig: ConductorFixture) -> None:
    node = rig.node()
    settings = [{"name": "turbo", "value": "on"}]
    step = {"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}}
    row = rig.call("clean", node, clean_steps=[step])
    assert row["provision_state"] == "manageable"
    assert row["driver_internal_info"]["driver_notes"] == {"fake_bios_settings": settings}
    assert rig.run(node)["steps"][0]["args"] == {"settings": settings}


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (listed("bios.factory_reset", "bios.apply_configuration"), "settings (List of"),
        (listed("bios.factory_reset", "raid.no_such"), "raid"),
        (
            [*listed("bios.factory_reset"), {**listed("power.cycle")[0], "args": {"x": 1}}],
            "unexpected arguments: x",
        ),
    ],
)
def test_nothing_runs_unless_the_whole_list_is_right(
    rig: ConductorFixture, steps: list[dict[str, Any]], said: str
) -> None:
    node = rig.node()
    row = rig.call("clean", node, clean_steps=steps)
    assert (row["provision_state"], row["target_provision_state"]) == ("clean failed", "manageable")
    assert row["last_error"].startswith(f"Cannot clean node {node}")
    assert said in row["last_error"]
    assert row["clean_step"] == {}
    assert (row["maintenance"], row["fault"]) == (True, "clean failure")
    assert rig.started(node) == []


def test_a_step_that_finds_bad_arguments_fails_and_earlier_steps_stand(
    rig: ConductorFixture,
) -> None:
    node = rig.node()
    bad = {"interface": "bios", "step": "apply_configuration", "args": {"settings": "none"}}
    row = rig.call("clean", node, clean_steps=[*listed("power.cycle"), bad])
    assert row["provision_state"] == "clean failed"
    assert "bios.apply_configuration" in row["last_error"]
    assert rig.step_states(node) == ["done", "failed"]
    assert row["power_state"] == "power on"


def test_steps_that_need_a_ramdisk_are_refused_without_one(rig: ConductorFixture) -> None:
    node = rig.node()
    row = rig.clean(node, "deploy.erase_devices", disable_ramdisk=True)
    assert row["provision_state"] == "clean failed"
    assert "requires booting a ramdisk" in row["last_error"]
    other = rig.node()
    assert rig.clean(other, "power.cycle", disable_ramdisk=True)["provision_state"] == "manageable"


def test_a_failed_clean_keeps_its_list_and_target_and_the_power(rig: ConductorFixture) -> None:
    node = rig.node(
        power_state="power on",
        driver_internal_info={"driver_notes": {"fake_power_state": "power on"}},
        fake_fail_steps={"deploy.erase_devices": "disk on fire"},
    )
    row = rig.clean(node, "bios.factory_reset", "deploy.erase_devices", "power.cycle")
    assert (row["provision_state"], row["target_provision_state"]) == ("clean failed", "manageable")
    assert row["last_error"] == "Clean step deploy.erase_devices failed: disk on fire"
    assert row["maintenance_reason"] == row["last_error"]
    assert (row["maintenance"], row["fault"]) == (True, "clean failure")
    assert row["clean_step"] == {}
    info = row["driver_internal_info"]
    assert [step["step"] for step in info["clean_steps"]][1] == "erase_devices"
    assert not {"clean_step_index", "declarative_cleaning"} & set(info)
    assert row["power_state"] == "power on"
    assert info["driver_notes"] == {"fake_power_state": "power on"}
    run = rig.run(node)
    assert run["state"] == "failed"
    assert run["error"]["step"] == "deploy.erase_devices"
    assert run["error"]["code"] == "CleanStepFailed"
    assert rig.step_states(node) == ["done", "failed", "skipped"]


def test_a_reason_for_maintenance_that_is_there_stays(rig: ConductorFixture) -> None:
    node = rig.node(
        maintenance=True,
        maintenance_reason="rack move",
        fake_fail_steps={"deploy.erase_devices": "no"},
    )
    row = rig.act("provide", node)
    assert row["provision_state"] == "clean failed"
    assert (row["maintenance_reason"], row["fault"]) == ("rack move", "clean failure")


@pytest.mark.parametrize(("option", "own"), [(False, None), (True, False), (False, False)])
def test_automated_cleaning_can_be_switched_off(
    build: Callable[..., ConductorFixture], option: bool, own: bool | None
) -> None:
    rig = build(conductor__automated_clean_enable=option)
    node = rig.node(automated_clean=own)
    row = rig.act("provide", node)
    assert row["provision_state"] == "available"
    assert rig.started(node) == []
    assert row["clean_step"] is None


def test_a_node_may_ask_for_cleaning_where_it_is_off_and_a_manual_clean_always_runs(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__automated_clean_enable=False)
    node = rig.node(automated_clean=True)
    rig.act("provide", node)
    assert rig.started(node) == AUTOMATED
    other = rig.node()
    rig.clean(other, "power.cycle")
    assert rig.started(other) == ["power.cycle"]


def test_configured_priorities_order_and_leave_out_steps(
    build: Callable[..., ConductorFixture],
) -> None:
    override = [{"deploy.erase_devices": 0, "bios.factory_reset": 200, "power.cycle": 0.5}]
    rig = build(conductor__clean_step_priority_override=override)
    node = rig.node()
    rig.act("provide", node)
    assert rig.started(node) == [
        "bios.factory_reset",
        "deploy.erase_devices_metadata",
        "power.cycle",
    ]


@pytest.mark.parametrize("own", [None, False])
def test_a_node_retired_while_cleaning_ends_manageable(
    rig: ConductorFixture, own: bool | None
) -> None:
    node = rig.node("active", fake_async_steps=["*"], fake_step_seconds=3600, retired=True)
    rig.edit(node, automated_clean=own)
    rig.ask("delete", node)
    if own is None:
        rig.reaches(node, "clean wait")
        rig.edit(node, driver_info={})
        rig.ring(node)
    row = rig.reaches(node, "manageable")
    assert row["target_provision_state"] is None
    assert "available" not in rig.path(node)


def test_a_node_retired_in_clean_wait_ends_manageable(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["deploy.erase_devices_metadata"], fake_step_seconds=3600)
    row = rig.act("provide", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("clean wait", "available")
    rig.edit(node, retired=True)
    rig.ring(node)
    rig.reaches(node, "manageable")


def test_a_manual_clean_is_refused_in_maintenance(rig: ConductorFixture) -> None:
    node = rig.node(maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rig.clean(node, "power.cycle")


def test_bad_settings_refuse_any_clean_at_once(rig: ConductorFixture) -> None:
    node = rig.node(fake_step_seconds=-1)
    with pytest.raises(errors.InvalidRequest, match="fake_step_seconds"):
        rig.clean(node, "power.cycle")
    with pytest.raises(errors.InvalidRequest, match="fake_step_seconds"):
        rig.act("provide", node)
    assert rig.get(node)["provision_state"] == "manageable"


def test_a_second_clean_knows_nothing_of_a_failed_first(rig: ConductorFixture) -> None:
    node = rig.node(fake_fail_steps={"power.cycle": "no"})
    rig.clean(node, "power.cycle")
    rig.edit(node, driver_info={}, maintenance=False, fault=None)
    rig.act("manage", node)
    row = rig.act("provide", node)
    assert (row["provision_state"], row["last_error"]) == ("available", None)
    assert rig.started(node) == ["power.cycle", *AUTOMATED]


# Automated cleaning has its steps from a runbook where the configuration says so.

Build = Callable[..., ConductorFixture]
STEPS = ["bios.factory_reset", "deploy.erase_devices"]
DRIVERS = ["deploy.erase_devices_metadata", "deploy.erase_devices"]
SOURCE = "conductor__automated_cleaning_step_source"


def book(rig: ConductorFixture, name: str, *steps: str, **values: Any) -> str:
    row = {
        "uuid": new_uuid(),
        "name": name,
        "steps": [
            {**step, "args": {}, "order": 9 - place}
            for place, step in enumerate(listed(*reversed(steps or STEPS)))
        ],
        "traits": ["CUSTOM_A"],
        "public": False,
        "disable_ramdisk": False,
        "extra": {},
        **values,
    }
    rig.database.write(lambda conn: resources.RUNBOOKS.insert(conn, row))
    return str(row["uuid"])


def node(
    rig: ConductorFixture, state: str = "manageable", *, trait: str = "CUSTOM_A", **values: Any
) -> str:
    uuid = rig.node(state, **values)
    rig.database.write(lambda conn: nodes.settle_traits(conn, uuid, added=[trait], removed=[]))
    return uuid


def test_a_runbook_cleans_in_its_order_and_the_node_becomes_available(build: Build) -> None:
    rig = build(**{SOURCE: "runbook", "conductor__automated_cleaning_runbook": "wipe"})
    uuid = book(rig, "wipe", *STEPS, "power.cycle")
    one = node(rig, fake_async_steps=["bios.factory_reset"], fake_step_seconds=3600)
    row = rig.act("provide", one)
    assert (row["provision_state"], row["target_provision_state"]) == ("clean wait", "available")
    assert row["driver_internal_info"]["cleaning_runbook"] == uuid
    rig.ring(one)
    row = rig.reaches(one, "available")
    assert rig.started(one) == [*STEPS, "power.cycle"]
    assert row["driver_internal_info"].keys() == {"clean_steps", "driver_notes"}


def test_history_says_of_it_what_it_says_of_automated_cleaning(build: Build) -> None:
    rig = build(**{SOURCE: "runbook", "conductor__automated_cleaning_runbook": "wipe"})
    book(rig, "wipe")
    one = node(rig)
    rig.act("provide", one)
    rig.reaches(one, "available")
    told = {event["event"] for event in rig.events(one) if event["kind"] == "flow_started"}
    assert told == {"automated_cleaning"}


@pytest.mark.parametrize("state", ["active", "manageable"])
@pytest.mark.parametrize(
    ("source", "named", "ran"),
    [
        ("autogenerated", True, DRIVERS),
        ("hybrid", True, STEPS),
        ("hybrid", False, DRIVERS),
        ("runbook", True, STEPS),
    ],
    ids=["drivers", "hybrid", "hybrid without", "runbook"],
)
def test_steps_of_the_runbook_run(
    build: Build, source: str, named: bool, ran: list[str], state: str
) -> None:
    more = {"conductor__automated_cleaning_runbook": "wipe"} if named else {}
    rig = build(**{SOURCE: source, **more})
    book(rig, "wipe")
    one = node(rig, state)
    if state == "active":
        rig.call("delete", one)
    else:
        rig.act("provide", one)
    rig.reaches(one, "available")
    assert rig.started(one) == ran


def test_the_nearest_word_names_the_runbook(build: Build) -> None:
    names: dict[str, Any] = {
        "conductor__automated_cleaning_runbook": "all",
        "conductor__automated_cleaning_runbook_by_resource_class": {"gpu": "class"},
        "conductor__automated_cleaning_runbook_from_node": True,
    }
    rig = build(**{SOURCE: "runbook", **names})
    for name, step in (("all", "bios.factory_reset"), ("class", "power.cycle")):
        book(rig, name, step)
    own = book(rig, "own", "deploy.erase_devices")
    ran = []
    for values in ({}, {"resource_class": "gpu"}, {"driver_info": {"cleaning_runbook": own}}):
        one = node(rig, **values)
        rig.act("provide", one)
        rig.reaches(one, "available")
        ran += rig.started(one)
    assert ran == ["bios.factory_reset", "power.cycle", "deploy.erase_devices"]


def test_driver_info_is_not_asked_unless_it_may_say(build: Build) -> None:
    rig = build(**{SOURCE: "hybrid"})
    one = node(rig, driver_info={"cleaning_runbook": book(rig, "own", "power.cycle")})
    rig.act("provide", one)
    rig.reaches(one, "available")
    assert rig.started(one) == DRIVERS


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "none is named": ({"conductor__automated_cleaning_runbook": None}, {}, "none is named"),
    "it is not there": (
        {"conductor__automated_cleaning_runbook": "nope"},
        {},
        "[conductor]automated_cleaning_runbook: Runbook nope could not be found",
    ),
    "no trait in common": ({}, {"traits": ["CUSTOM_B"]}, "is not approved for node"),
    "a step that is forbidden": (
        {"api__disallow_clean_steps": ["bios.factory_reset"]},
        {},
        "disallow_clean_steps forbids: bios.factory_reset",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_runbook_that_cannot_be_is_refused_while_the_caller_listens(
    build: Build, case: str
) -> None:
    conf, values, said = BAD[case]
    named = {"conductor__automated_cleaning_runbook": "wipe"}
    rig = build(**{SOURCE: "runbook", **named, **conf})
    book(rig, "wipe", **values)
    one = node(rig)
    with pytest.raises(errors.InvalidParameter) as why:
        rig.act("provide", one)
    assert said in why.value.message
    assert rig.get(one)["provision_state"] == "manageable"
    gone = node(rig, "active")
    rig.call("delete", gone)
    row = rig.reaches(gone, "clean failed")
    assert said in row["last_error"]
    assert row["maintenance"]


def test_traits_need_not_be_asked_for(build: Build) -> None:
    no_check = {"conductor__automated_cleaning_runbook_validate_traits": False}
    named = {"conductor__automated_cleaning_runbook": "wipe"}
    rig = build(**{SOURCE: "runbook", **named, **no_check})
    book(rig, "wipe", traits=[])
    one = node(rig)
    rig.act("provide", one)
    rig.reaches(one, "available")
    assert rig.started(one) == STEPS


@pytest.mark.parametrize(
    ("owner", "may"), [("us", True), ("renter", True), ("them", False), (None, True)]
)
def test_a_node_names_no_runbook_of_others(build: Build, owner: str | None, may: bool) -> None:
    asked = {"conductor__automated_cleaning_runbook_from_node": True}
    rig = build(**{SOURCE: "hybrid", **asked})
    own = book(rig, "own", "power.cycle", owner=owner)
    one = node(rig, owner="us", lessee="renter", driver_info={"cleaning_runbook": own})
    if may:
        rig.act("provide", one)
        rig.reaches(one, "available")
        assert rig.started(one) == ["power.cycle"]
    else:
        with pytest.raises(errors.InvalidParameter, match="could not be found"):
            rig.act("provide", one)


def test_a_runbook_without_a_ramdisk_asks_nothing_of_one(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: Any) -> None:
        raise errors.MissingParameter(path="driver_info/deploy_kernel")

    monkeypatch.setattr(FakeDeploy, "check_ramdisk", lacking)
    rig = build(**{SOURCE: "runbook", "conductor__automated_cleaning_runbook": "wipe"})
    uuid = book(rig, "wipe", "deploy.erase_devices")
    one = node(rig)
    with pytest.raises(errors.InvalidRequest, match="deploy_kernel"):
        rig.act("provide", one)
    rig.database.write(lambda conn: resources.RUNBOOKS.delete(conn, uuid))
    book(rig, "wipe", "power.cycle")
    rig.act("provide", one)
    rig.reaches(one, "available")
    assert rig.started(one) == ["power.cycle"]


def test_a_runbook_is_read_once(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked while the caller listened is what is done."""
    read, asked = lists.automated_runbook, list[str]()

    def counted(task: Task) -> lists.Runbook | None:
        asked.append(task.node.uuid)
        return read(task)

    monkeypatch.setattr(lists, "automated_runbook", counted)
    rig = build(**{SOURCE: "runbook", "conductor__automated_cleaning_runbook": "wipe"})
    book(rig, "wipe")
    one = node(rig)
    rig.act("provide", one)
    rig.reaches(one, "available")
    assert asked == [one]


def test_nodes_that_are_not_cleaned_need_no_runbook(build: Build) -> None:
    rig = build(**{SOURCE: "runbook"})
    one = node(rig, automated_clean=False)
    rig.act("provide", one)
    rig.reaches(one, "available")
    assert rig.started(one) == []


def test_a_conductor_that_is_started_again_goes_on_with_the_runbook(
    build: Build, sqlite_database: Database
) -> None:
    conf = {SOURCE: "runbook", "conductor__automated_cleaning_runbook": "wipe"}
    rig = build(sqlite_database, **conf)
    uuid = book(rig, "wipe")
    one = node(rig, fake_async_steps=["bios.factory_reset"], fake_step_seconds=3600)
    assert rig.act("provide", one)["provision_state"] == "clean wait"
    rig.bury()
    rig.database.write(lambda conn: resources.RUNBOOKS.delete(conn, uuid))
    again = build(sqlite_database, **conf)
    again.ring(one)
    again.reaches(one, "available")
    assert again.started(one) == STEPS


# Restarts in the middle of a list of steps: a machine boots its ramdisk once, then its disk.

ERASE = {"step": "erase", "interface": "deploy", "priority": 10, "abortable": True}
CHECK = {"step": "check", "interface": "deploy", "priority": 5}
IMAGE = {
    "image_source": "http://192.0.2.80/jammy.raw",
    "image_checksum": "a" * 64,
    "image_disk_format": "raw",
    "capabilities": {"boot_mode": "uefi"},
}


class Forgetful(scripted_agent.Machine):
    """Its BMC takes a boot device for one boot; then it is the disk's turn again."""

    def _switch(self, to: str) -> None:
        super()._switch(to)
        if to == base.POWER_ON:
            self.boots = "disk"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forgetful]:
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(steps, "SOON", 0.02)
    monkeypatch.setattr(deploy, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(client, "_PAUSE", 0.02)
    config.CONF([], default_config_files=[], default_config_dirs=[])
    found = Forgetful(clean=[ERASE, CHECK], deploy=[CHECK | {"priority": 0}], service=[CHECK])
    with scripted_agent.running(found):
        yield found
    config.CONF.reset()


@pytest.fixture
def booting_rig(build: Callable[..., ConductorFixture], machine: Forgetful) -> ConductorFixture:
    """A conductor that deploys on the machine by images."""
    drivers = scripted_agent.registry(machine, deploy.DirectDeploy(), crashes.Life())
    found = build(registry=drivers, agent__require_tls=False)
    machine.service = found.service
    return found


def booting_node(rig: ConductorFixture, machine: Forgetful, state: str, **values: Any) -> str:
    machine.node = rig.node(state, **values)
    return machine.node


@pytest.mark.parametrize(
    "restart",
    [["power.reboot"], ["power.power_off", "power.power_on"], ["power.reboot", "power.power_on"]],
    ids=",".join,
)
def test_steps_after_a_restart_run_in_the_rebooted_ramdisk(
    booting_rig: ConductorFixture, machine: Forgetful, restart: list[str]
) -> None:
    one = booting_node(booting_rig, machine, "manageable")
    booting_rig.clean(one, "deploy.erase", *restart, "deploy.check")
    row = booting_rig.reaches(one, "manageable")
    assert row["last_error"] is None
    assert [name for name in machine.ran if name in ("erase", "check")] == ["erase", "check"]
    assert set(booting_rig.step_states(one)) == {"done"}
    assert "agent_ramdisk" not in str(row["driver_internal_info"])


def test_a_service_gets_its_ramdisk_back_too(
    booting_rig: ConductorFixture, machine: Forgetful
) -> None:
    one = booting_node(booting_rig, machine, "active", instance_info=IMAGE)
    wanted = listed("deploy.check", "power.reboot", "deploy.check")
    booting_rig.ask("service", one, service_steps=wanted)
    assert booting_rig.reaches(one, "active")["last_error"] is None
    assert machine.ran.count("check") == 2


def test_a_deployment_goes_on_behind_a_restart(
    booting_rig: ConductorFixture, machine: Forgetful
) -> None:
    one = booting_node(booting_rig, machine, "available", instance_info=IMAGE)
    more = [{**listed("power.reboot")[0], "args": {}, "priority": 70}]
    booting_rig.ask("deploy", one, deploy_steps=more)
    assert booting_rig.reaches(one, "active")["last_error"] is None
    assert machine.ran.index("write_image") < machine.ran.index("install_bootloader")
    assert (machine.power, machine.runs) == (base.POWER_ON, "disk")


def test_a_restart_behind_the_ramdisk_is_one_of_the_instance(
    booting_rig: ConductorFixture, machine: Forgetful
) -> None:
    one = booting_node(booting_rig, machine, "available", instance_info=IMAGE)
    more = [{**listed("power.reboot")[0], "args": {}, "priority": 10}]
    booting_rig.ask("deploy", one, deploy_steps=more)
    assert booting_rig.reaches(one, "active")["last_error"] is None
    assert (machine.power, machine.runs) == (base.POWER_ON, "disk")


def test_a_step_for_the_ramdisk_of_a_machine_that_is_off_fails_at_once(
    booting_rig: ConductorFixture, machine: Forgetful
) -> None:
    one = booting_node(booting_rig, machine, "manageable")
    booting_rig.clean(one, "deploy.erase", "power.power_off", "deploy.check")
    assert "no heartbeat" in booting_rig.reaches(one, "clean failed")["last_error"]


def test_a_clean_without_a_ramdisk_restarts_into_whatever_there_is(
    booting_rig: ConductorFixture, machine: Forgetful
) -> None:
    one = booting_node(booting_rig, machine, "manageable")
    booting_rig.clean(one, "power.reboot", disable_ramdisk=True)
    assert booting_rig.reaches(one, "manageable")["last_error"] is None
    assert (machine.runs, machine.ran) == ("disk", [])


# Lists of steps that need no ramdisk boot none, and so have none to take away.

Json = dict[str, Any]
AROUND = ("prepare_cleaning", "tear_down_cleaning", "prepare_service", "tear_down_service")
NEEDLESS = ("bios.factory_reset", "raid.delete_configuration")


@pytest.fixture
def asked() -> list[str]:
    """What the deploy interface was asked for around the steps."""
    return []


@pytest.fixture
def bare_rig(build: Callable[..., ConductorFixture], asked: list[str]) -> ConductorFixture:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name in AROUND:
            asked.append(name)
        return call()

    return build(registry=cast(Registry, crashes.Drivers(drivers(), around)))


def runs(rig: ConductorFixture, state: str, steps: list[Json], **told: Any) -> str:
    """Begin a clean of a manageable node, or a service of an active one."""
    node = rig.node(state, **told)
    if state == "manageable":
        rig.ask("clean", node, clean_steps=steps)
    else:
        rig.ask("service", node, service_steps=steps)
    return node


def steps_of(state: str) -> list[Json]:
    return listed(*(NEEDLESS if state == "manageable" else NEEDLESS[1:]))


STATES = ["manageable", "active"]


@pytest.mark.parametrize("state", STATES)
def test_steps_without_a_ramdisk_boot_none(
    bare_rig: ConductorFixture, asked: list[str], state: str
) -> None:
    """An instance in service stays as it is."""
    node = runs(bare_rig, state, steps_of(state))
    bare_rig.reaches(node, state)
    assert bare_rig.get(node)["last_error"] is None
    assert asked == []
    assert not [key for key in bare_rig.get(node)["driver_internal_info"] if "ramdisk" in key]


@pytest.mark.parametrize("state", STATES)
def test_failure_without_a_ramdisk_tears_down_none(
    bare_rig: ConductorFixture, asked: list[str], state: str
) -> None:
    fails = {"raid.delete_configuration": "no"}
    node = runs(bare_rig, state, steps_of(state), fake_fail_steps=fails)
    bare_rig.reaches(node, "clean failed" if state == "manageable" else "service failed")
    assert asked == []


@pytest.mark.parametrize("state", STATES)
def test_abort_without_a_ramdisk_tears_down_none(
    bare_rig: ConductorFixture, asked: list[str], state: str
) -> None:
    steps = [*steps_of(state), {"interface": "power", "step": "hold"}]
    node = runs(bare_rig, state, steps)
    bare_rig.reaches(node, "clean hold" if state == "manageable" else "service hold")
    bare_rig.act("abort", node)
    wait_for(lambda: bare_rig.get(node)["reservation"] is None)
    assert bare_rig.get(node)["provision_state"] in {"clean failed", "active"}
    assert asked == []
    assert not [key for key in bare_rig.get(node)["driver_internal_info"] if "ramdisk" in key]


@pytest.mark.parametrize("ramdisk", [True, False])
def test_abort_of_a_failed_service_boots_the_instance_if_a_ramdisk_was_booted(
    bare_rig: ConductorFixture, asked: list[str], ramdisk: bool
) -> None:
    steps = listed("deploy.unheard_of") if ramdisk else steps_of("active")
    node = runs(bare_rig, "active", steps, fake_fail_steps={NEEDLESS[1]: "no"})
    bare_rig.reaches(node, "service failed")
    bare_rig.edit(node, maintenance=False, fault=None, maintenance_reason=None)
    asked.clear()
    bare_rig.act("abort", node)
    bare_rig.reaches(node, "active")
    assert asked == (["tear_down_service"] if ramdisk else [])
    assert not [key for key in bare_rig.get(node)["driver_internal_info"] if "ramdisk" in key]


NEEDS = {
    "a step of the ramdisk": listed("bios.factory_reset", "deploy.erase_devices"),
    "a step that nobody knows": listed("bios.factory_reset", "deploy.unheard_of"),
    "one that waits for a heartbeat": listed("bios.factory_reset", "power.wait"),
    "none that says so": listed("power.reboot"),
}


@pytest.mark.parametrize("case", NEEDS)
def test_the_ramdisk_is_booted_for_whatever_may_need_it(
    bare_rig: ConductorFixture, asked: list[str], case: str
) -> None:
    runs(bare_rig, "manageable", NEEDS[case])
    wait_for(lambda: asked[:1] == ["prepare_cleaning"])


def test_a_step_that_waits_for_a_time_needs_none(
    bare_rig: ConductorFixture, asked: list[str]
) -> None:
    steps = [*listed("bios.factory_reset", "power.wait")]
    steps[1]["args"] = {"seconds": 0}
    node = runs(bare_rig, "manageable", steps)
    bare_rig.reaches(node, "manageable")
    assert asked == []
