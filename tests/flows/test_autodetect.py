"""Deploy autodetect: the chosen interface works, is shown meanwhile, and gives its place back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import fields
from ironic_lite.domain.fields import AUTODETECT
from ironic_lite.drivers.agent import deploy
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import conductor_fixture, crashes
from tests.support.conductor_fixture import ConductorFixture
from tests.support.crashes import Scene, Stage, rests

Build = Callable[..., ConductorFixture]
WHO = Context("req-test")
OPTIONS: dict[str, Any] = {
    "DEFAULT__enabled_deploy_interfaces": [AUTODETECT, "fake", "ramdisk", "direct"],
    "DEFAULT__autodetect_deploy_interfaces": ["ramdisk", "fake"],
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.load(Settings.read(conductor_fixture.configure(**OPTIONS)))


@pytest.fixture(autouse=True)
def _choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let drivers, which read the options of the process, choose from these."""
    monkeypatch.setattr(config, "CONF", conductor_fixture.configure(**OPTIONS))


@pytest.fixture
def rig(build: Build, registry: Registry) -> ConductorFixture:
    return build(registry=registry, **OPTIONS)


def shown(row: dict[str, Any]) -> tuple[str, str | None]:
    """Return the interface that a node shows, and the one that has chosen it."""
    return row["deploy_interface"], row["driver_internal_info"].get(fields.ORIGINAL_DEPLOY)


def both(row: dict[str, Any]) -> fields.DeployInterfaces | None:
    """Return the deploy interfaces that plans and explanations name."""
    return fields.deploy_interfaces(row, OPTIONS["DEFAULT__autodetect_deploy_interfaces"])


def test_interface_that_autodetect_does_not_choose_is_not_named_beside_it() -> None:
    columns: dict[str, Any] = {"driver_internal_info": None, "instance_info": {}}
    assert both({**columns, "deploy_interface": "direct"}) is None
    instance = {"instance_info": {"deploy_interface": "direct"}}
    assert both({**columns, **instance, "deploy_interface": AUTODETECT}) is None
    none = fields.deploy_interfaces({**columns, "deploy_interface": AUTODETECT}, ["bootc"])
    assert none == {"own": AUTODETECT, "used": None}


def test_plan_of_another_deployment_names_the_interface_chosen_anew() -> None:
    row = {
        "deploy_interface": "fake",
        "driver_internal_info": {fields.ORIGINAL_DEPLOY: AUTODETECT},
        "instance_info": {"boot_iso": "http://h/i.iso", "ironic_ramdisk_deploy": True},
    }
    assert both(row) == {"own": AUTODETECT, "used": "fake"}
    anew = fields.deploy_interfaces(row, ["ramdisk", "fake"], anew=True)
    assert anew == {"own": AUTODETECT, "used": "ramdisk"}


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ({}, "fake"),
        ({"image_source": "http://h/i"}, "fake"),
        ({"boot_iso": "http://h/i.iso"}, "fake"),
        ({"boot_iso": "http://h/i.iso", "ironic_ramdisk_deploy": True}, "ramdisk"),
        ({"kernel": "k", "ramdisk": "r", "ironic_ramdisk_deploy": "1"}, "ramdisk"),
        ({"kernel": "http://h/k", "ironic_ramdisk_deploy": True}, "fake"),
        ({"boot_iso": "http://h/i.iso", "ironic_ramdisk_deploy": "false"}, "fake"),
    ],
)
def test_instance_decides(rig: ConductorFixture, info: dict[str, Any], name: str) -> None:
    node = rig.node("available", deploy_interface=AUTODETECT, instance_info=info)
    task = rig.service.tasks.look(WHO, node)
    assert deploy.AutodetectDeploy().chosen(task) == name
    assert type(task.driver.deploy) is type(rig.service.runtime.registry.interfaces["deploy"][name])
    assert shown(rig.get(node)) == (AUTODETECT, None), "reading changes nothing"
    assert both(rig.get(node)) == {"own": AUTODETECT, "used": name}


def test_node_shows_the_chosen_interface_until_its_clean_after_the_delete(
    rig: ConductorFixture,
) -> None:
    node = rig.node(
        "available",
        deploy_interface=AUTODETECT,
        fake_async_steps=["deploy.deploy"],
        fake_step_seconds=3600,
    )
    rig.ask("deploy", node)
    rig.reaches(node, "wait call-back")
    assert shown(rig.get(node)) == ("fake", AUTODETECT)
    assert both(rig.get(node)) == {"own": AUTODETECT, "used": "fake"}
    rig.ring(node)
    row = rig.reaches(node, "active")
    assert shown(row) == ("fake", AUTODETECT)
    row = rig.call("delete", node)
    assert (row["provision_state"], shown(row)) == ("available", (AUTODETECT, None))


def test_clean_gives_the_place_back(rig: ConductorFixture) -> None:
    node = rig.node("manageable", deploy_interface=AUTODETECT)
    steps = [{"interface": "deploy", "step": "erase_devices_metadata"}]
    row = rig.call("clean", node, clean_steps=steps)
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert shown(row) == (AUTODETECT, None)


def test_serviced_instance_keeps_its_interface(rig: ConductorFixture) -> None:
    info = {"boot_iso": "http://h/i.iso", "ironic_ramdisk_deploy": True}
    node = rig.node("active", deploy_interface=AUTODETECT, instance_info=info)
    row = rig.call(
        "service", node, service_steps=[{"interface": "vendor", "step": "log_passthrough"}]
    )
    assert (row["provision_state"], row["last_error"]) == ("active", None)
    assert shown(row) == ("ramdisk", AUTODETECT)
    assert rig.service.tasks.look(WHO, node).driver.deploy.boots_ramdisk


@pytest.mark.parametrize("verb", ["deploy", "rebuild"])
def test_another_instance_is_judged_anew(rig: ConductorFixture, verb: str) -> None:
    fails = {"deploy.deploy": "no disk"} if verb == "deploy" else {}
    node = rig.node("available", deploy_interface=AUTODETECT, fake_fail_steps=fails)
    row = rig.call("deploy", node)
    assert row["provision_state"] == ("deploy failed" if fails else "active")
    assert shown(row) == ("fake", AUTODETECT)
    info = {"boot_iso": "http://h/i.iso", "ironic_ramdisk_deploy": True}
    rig.edit(node, instance_info=info, driver_info={})
    row = rig.call(verb, node)
    assert shown(row) == ("ramdisk", AUTODETECT)


def test_failed_work_keeps_the_chosen_interface_until_the_node_is_manageable(
    rig: ConductorFixture,
) -> None:
    node = rig.node(
        "manageable",
        deploy_interface=AUTODETECT,
        fake_fail_steps={"deploy.erase_devices_metadata": "no disk"},
    )
    steps = [{"interface": "deploy", "step": "erase_devices_metadata"}]
    row = rig.call("clean", node, clean_steps=steps)
    assert row["provision_state"] == "clean failed"
    assert shown(row) == ("fake", AUTODETECT)
    row = rig.call("manage", node)
    assert shown(row) == (AUTODETECT, None)


def test_conductor_tells_plans_what_it_chooses_from(rig: ConductorFixture) -> None:
    """An API process may have another list."""
    node = rig.node("available", deploy_interface=AUTODETECT)
    found = rig.endpoints.plan_provision(WHO, node_uuid=node, target="active", body={})
    assert found["autodetect"] == OPTIONS["DEFAULT__autodetect_deploy_interfaces"]


def test_refused_verb_changes_no_interface(rig: ConductorFixture) -> None:
    node = rig.node("available", deploy_interface=AUTODETECT, maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rig.ask("deploy", node)
    assert shown(rig.get(node)) == (AUTODETECT, None)


OWN, CHOSEN = (AUTODETECT, None), ("fake", AUTODETECT)
WIPE = [{"interface": "deploy", "step": "erase_devices_metadata"}]
LOG = [{"interface": "vendor", "step": "log_passthrough"}]
SCENES = {
    "deploy": (Scene("available", "deploy", {}, "active"), CHOSEN),
    "rebuild": (Scene("active", "rebuild", {}, "active"), CHOSEN),
    "service": (Scene("active", "service", {"service_steps": LOG}, "active"), CHOSEN),
    "adopt": (Scene("manageable", "adopt", {}, "active"), CHOSEN),
    "delete": (Scene("active", "delete", {}, "available"), OWN),
    "clean": (Scene("manageable", "clean", {"clean_steps": WIPE}, "manageable"), OWN),
    "provide": (Scene("manageable", "provide", {}, "available"), OWN),
}
"""Verbs, and what the node shows after them."""


@pytest.mark.parametrize("name", SCENES)
def test_death_at_any_commit_leaves_no_interface_behind(
    build: Build, sqlite_database: Database, registry: Registry, name: str
) -> None:
    """The note and the chosen interface are written together, and so is their end."""
    stage = Stage(build, sqlite_database, lambda life: crashes.drivers(registry, life), **OPTIONS)
    scene, after = SCENES[name]

    def begin(rig: ConductorFixture) -> str:
        if scene.before != "active":
            return rig.node(scene.before, deploy_interface=AUTODETECT)
        notes = {fields.ORIGINAL_DEPLOY: AUTODETECT}
        return rig.node("active", deploy_interface="fake", driver_internal_info=notes)

    for moment in stage.moments("commit", least=3):
        node = moment.die(begin, scene.ask)
        assert shown(moment.rig.get(node)) in {OWN, CHOSEN}
        rig = moment.heir()
        row = rests(rig, node)
        assert shown(row) in {OWN, CHOSEN}
        if rig.runs(node):
            assert (row["provision_state"], shown(row)) == (scene.end, after), moment.number


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["ramdisk", "direct"], None),
        (["bootc", "ramdisk"], None),
        (["custom-agent"], "autodetect_deploy_interfaces: custom-agent is not in enabled_deploy"),
        ([AUTODETECT], "autodetect_deploy_interfaces: autodetect is not in enabled_deploy"),
        (["bootc"], "autodetect_deploy_interfaces: names nothing to choose from"),
    ],
)
def test_names_to_choose_from_must_be_enabled(names: list[str], said: str | None) -> None:
    values = {**OPTIONS, "DEFAULT__autodetect_deploy_interfaces": names}
    settings = Settings.read(conductor_fixture.configure(**values))
    if said is None:
        Registry.load(settings)
        return
    with pytest.raises(config.ConfigError, match=said):
        Registry.load(settings)
