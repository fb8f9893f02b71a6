"""Rules are applied when an inspection ends, whoever inspects, and may fail it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.queries import allocations, inspection_rules, inventories, ports, traits
from ironic_lite.drivers.fake.console import FakeConsole
from ironic_lite.drivers.registry import Registry, Settings
from tests.support.conductor_fixture import ConductorFixture, configure
from tests.support.database_rows import new_uuid

Json = dict[str, Any]
MAC = "52:54:00:00:00:01"


def rule(rig: ConductorFixture, *actions: Json, priority: int = 0, **more: Any) -> str:
    row = {
        "uuid": new_uuid(),
        "phase": "main",
        "priority": priority,
        "conditions": [],
        "actions": list(actions),
        **more,
    }
    rig.database.write(lambda conn: inspection_rules.insert(conn, row))
    return str(row["uuid"])


def act(name: str, /, **args: Any) -> Json:
    return {"op": name, "args": args}


def inspected(rig: ConductorFixture, **values: Any) -> Json:
    node = rig.node("manageable", fake_ports=[MAC], **values)
    return rig.call("inspect_hardware", node)


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a wait"])
def test_changes_by_rules_are_kept(rig: ConductorFixture, waits: bool) -> None:
    more = act("set-attribute", path="extra/cores", value="{inventory[cpu][count]}")
    seen = act("set-attribute", path="extra/seen", value="{node[extra][cores]}")
    rule(rig, seen, act("log", msg="{node.uuid}"))
    rule(
        rig,
        more,
        act("add-trait", name="CUSTOM_RULED"),
        act("set-capability", name="ruled", value="yes"),
        act("set-plugin-data", path="ruled", value=True),
        act("set-port-attribute", port_id=MAC, path="extra/ruled", value=1),
        priority=5,
    )
    rule(rig, act("fail", msg="no"), conditions=[act("eq", values=[1, 2])], priority=9)
    told: Json = {"fake_async_verbs": ["inspect"], "fake_step_seconds": 0} if waits else {}
    row = inspected(rig, **told)
    row = rig.reaches(row["uuid"], "manageable")
    cores = row["properties"]["cpus"]
    assert row["extra"] == {"cores": cores, "seen": cores}
    assert row["properties"]["capabilities"].endswith("ruled:yes")
    uuid = row["uuid"]
    assert rig.database.read(lambda conn: traits.get(conn, uuid)) == ["CUSTOM_RULED"]
    found = rig.database.read(lambda conn: inventories.get(conn, uuid))
    assert found["plugin_data"] == {"ruled": True}
    (port,) = rig.database.read(lambda conn: ports.of_node(conn, uuid))
    assert port.extra == {"ruled": 1}


def test_a_rule_may_fail_the_inspection(rig: ConductorFixture) -> None:
    put = act("set-attribute", path="extra/half", value=1)
    uuid = rule(rig, put, act("fail", msg="only {inventory[cpu][count]} cores"))
    row = inspected(rig)
    assert row["provision_state"] == "inspect failed"
    assert f"Inspection rule {uuid}: fail: only" in row["last_error"]
    assert row["extra"] == {}
    assert row["properties"]["cpus"]  # what was found stays, to be looked at
    rig.database.write(inspection_rules.clear)
    assert rig.call("inspect_hardware", row["uuid"])["provision_state"] == "manageable"


def test_without_rules_an_inspection_asks_for_them_once(rig: ConductorFixture) -> None:
    row = inspected(rig)
    assert (row["provision_state"], row["extra"]) == ("manageable", {})


@pytest.mark.parametrize("wanted", ["idrac", "redfish"], ids=["absent", "other"])
def test_a_driver_that_cannot_drive_the_node_fails_the_inspection(
    rig: ConductorFixture, wanted: str
) -> None:
    rule(rig, act("set-attribute", path="driver", value=wanted))
    fakes = {f"{kind}_interface": "fake" for kind in ("power", "management", "inspect")}
    row = rig.reaches(inspected(rig, **fakes)["uuid"], "inspect failed")
    assert row["driver"] == "fake-hardware"
    assert "A rule sets the driver" in row["last_error"]


@pytest.mark.parametrize("named", [False, True], ids=["all", "all others"])
def test_new_driver_of_a_rule_resets_the_interfaces(
    build: Callable[..., ConductorFixture], named: bool
) -> None:
    types = {"DEFAULT__enabled_hardware_types": ["fake-hardware", "manual-management"]}
    rig = build(registry=Registry.load(Settings.read(configure(**types))), **types)
    rule(rig, act("set-attribute", path="/driver", value="manual-management"))
    if named:
        rule(rig, act("set-attribute", path="/inspect_interface", value="no-inspect"))
    fakes = {f"{kind}_interface": "fake" for kind in ("power", "management", "vendor", "bios")}
    row = rig.reaches(inspected(rig, **fakes)["uuid"], "manageable")
    wanted = rig.service.runtime.registry.resolve(
        "manual-management", {"inspect": "no-inspect"} if named else {}
    )
    assert (row["driver"], row["last_error"]) == ("manual-management", None)
    assert {kind: row[f"{kind}_interface"] for kind in wanted} == wanted
    assert row["management_interface"] != "fake"


def test_a_driver_that_can_drive_the_node_is_kept(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="driver", value="fake-hardware"))
    row = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert (row["driver"], row["last_error"]) == ("fake-hardware", None)


def test_interfaces_are_changed_if_the_node_can_be_driven_with_them(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="vendor_interface", value="no-vendor"))
    row = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert row["vendor_interface"] == "no-vendor"
    rule(rig, act("set-attribute", path="raid_interface", value="nowhere"), priority=-1)
    row = rig.call("inspect_hardware", row["uuid"])
    assert (row["provision_state"], row["raid_interface"]) == ("inspect failed", None)
    assert "nowhere" in row["last_error"]


def test_a_console_that_runs_keeps_its_interface(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="console_interface", value="no-console"))
    row = rig.reaches(inspected(rig, console_enabled=True)["uuid"], "inspect failed")
    assert "while the console is enabled" in row["last_error"]


def test_a_rule_names_nodes_by_what_is_found(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="name", value="cores-{inventory[cpu][count]}"))
    first = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert first["name"] == f"cores-{first['properties']['cpus']}"
    second = rig.reaches(inspected(rig)["uuid"], "inspect failed")
    assert second["name"] != first["name"]
    assert first["name"] in second["last_error"]


def test_a_rule_switches_booting_by_a_port_off(rig: ConductorFixture) -> None:
    rule(rig, act("set-port-attribute", port_id=MAC, path="pxe_enabled", value=False))
    uuid = rig.reaches(inspected(rig)["uuid"], "manageable")["uuid"]
    (port,) = rig.database.read(lambda conn: ports.of_node(conn, uuid))
    assert port.pxe_enabled is False


def test_rules_of_a_file_run_among_the_others_by_their_priority(
    build: Callable[..., ConductorFixture], tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "rules.yaml"
    text = "- {priority: 2, actions: [{op: extend-attribute, args: {path: extra.l, value: file}}]}"
    file.write_text(text, encoding="utf-8")
    rig = build(inspection_rules__built_in_rules=str(file))
    for value, priority in (("low", 1), ("same", 2), ("high", 3)):
        rule(rig, act("extend-attribute", path="extra.l", value=value), priority=priority)
    row = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert row["extra"] == {"l": ["high", "same", "file", "low"]}
    file.write_text("nonsense", encoding="utf-8")
    row = rig.call("inspect_hardware", row["uuid"])
    assert row["provision_state"] == "inspect failed"
    assert f"The file {file}" in row["last_error"]


@pytest.mark.parametrize(
    ("mask", "sensitive", "seen"),
    [
        ("always", True, "******"),
        ("sensitive", True, "s3same"),
        ("sensitive", False, "******"),
        ("never", False, "s3same"),
    ],
)
def test_mask_secrets_decides_which_rules_see_secrets(
    build: Callable[..., ConductorFixture], mask: str, sensitive: bool, seen: str
) -> None:
    rig = build(inspection_rules__mask_secrets=mask)
    copy = act("set-attribute", path="extra/seen", value="{node.driver_info[own_password]}")
    rule(rig, copy, sensitive=sensitive)
    row = inspected(rig, driver_info={"own_password": "s3same"})
    assert rig.reaches(row["uuid"], "manageable")["extra"] == {"seen": seen}


def test_rule_that_sees_the_mask_of_a_secret_does_not_store_it_as_a_login(
    rig: ConductorFixture,
) -> None:
    rule(rig, act("set-attribute", path="driver_info/b_password", value="{node.driver_info.a_key}"))
    rule(rig, act("set-attribute", path="driver_info", value="{node.driver_info}"))
    row = inspected(rig, driver_info={"a_key": "fine", "redfish_password": "s3same"})
    row = rig.reaches(row["uuid"], "inspect failed")
    assert "/driver_info/redfish_password: would become ******" in row["last_error"]
    assert row["driver_info"]["redfish_password"] == "s3same"


@pytest.mark.parametrize("field", ["owner", "lessee"])
def test_rule_that_gives_a_node_to_others_ends_what_its_users_have(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(FakeConsole, "stop_console", lambda *_args: calls.append("stop"))
    rule(rig, act("set-attribute", path=field, value="p-new"))
    used = {"console_interface": "fake", "console_enabled": True, field: "p-old"}
    node = rig.node("manageable", fake_ports=[MAC], **used)
    ident = new_uuid()
    rig.database.write(lambda conn: allocations.insert(conn, _allocation(ident, node, "p-old")))
    info = {"traits": [], "kept": 1}
    rig.edit(node, allocation_uuid=ident, instance_uuid=ident, instance_info=info)
    row = rig.call("inspect_hardware", node)
    assert (row["provision_state"], row[field]) == ("manageable", "p-new")
    assert (row["console_enabled"], calls) == (False, ["stop"])
    assert (row["allocation_uuid"], row["instance_uuid"]) == (None, None)
    assert row["instance_info"] == {"kept": 1}
    with pytest.raises(errors.AllocationNotFound):
        rig.database.read(lambda conn: allocations.get(conn, ident))


def _allocation(uuid: str, node: str, project: str) -> Json:
    blank = dict.fromkeys(name for name in allocations.COLUMNS if name != "id")
    known = {"uuid": uuid, "owner": project, "node_uuid": node, "state": "active", "extra": {}}
    return {**blank, **known, "resource_class": "big", "created_at": clock.now()}


def test_rule_that_sets_the_present_owner_ends_nothing(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="owner", value="p-old"))
    row = inspected(rig, console_interface="fake", console_enabled=True, owner="p-old")
    assert (row["owner"], row["console_enabled"]) == ("p-old", True)
