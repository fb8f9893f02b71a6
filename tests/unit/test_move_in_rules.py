"""Rules of a move from Ironic: every column of every head, its value here, and the way back."""

from __future__ import annotations

import datetime
import json
import pathlib
import re
from typing import Any

import pytest

from ironic_lite.core.json_types import Json
from ironic_lite.db.tables import models
from ironic_lite.domain import fields
from ironic_lite.domain.states import State

pytestmark = pytest.mark.feature("move_in")
rules = pytest.importorskip("ironic_lite.features.move_in.rules")
tables = pytest.importorskip("ironic_lite.features.move_in.tables")

COLUMNS = pathlib.Path(__file__).parents[1] / "move_in/columns.json"
"""The columns that each revision adds, as MariaDB has them after Ironic's migrations."""
AT = datetime.datetime(2026, 11, 28, 12)
OLD = datetime.datetime(2025, 1, 2, 3)
LAST = rules.HEADS[-1]
NODE = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
OTHER = "2cf37d1c-1403-4e3f-bf98-d13e80440d34"
MOVE = rules.Move(
    AT,
    LAST,
    uuids={
        "nodes": {7: NODE, 8: OTHER},
        "chassis": {3: OTHER},
        "portgroups": {4: OTHER},
        "allocations": {5: OTHER},
    },
    ids={
        "nodes": {NODE: 7, OTHER: 8},
        "chassis": {OTHER: 3},
        "portgroups": {OTHER: 4},
        "allocations": {OTHER: 5},
    },
    links={5: 7},
)


def heads() -> dict[str, dict[str, set[str]]]:
    """Return the columns of each table by revision."""
    found: dict[str, dict[str, set[str]]] = {}
    known: dict[str, set[str]] = {}
    for head, added in json.loads(COLUMNS.read_text()).items():
        for table, names in added.items():
            known = {**known, table: known.get(table, set()) | set(names.split())}
        found[head] = known
    return found


def test_every_column_of_every_head_has_a_row() -> None:
    assert list(heads()) == list(rules.HEADS)
    for head, known in heads().items():
        rows = {
            name: [column.name for column in table.of_head(head)]
            for name, table in tables.TABLES.items()
        }
        assert all(len(names) == len(set(names)) for names in rows.values())
        assert {name: set(names) for name, names in rows.items() if names} == known


def test_every_column_here_exists_and_has_one_source() -> None:
    for table in tables.TABLES.values():
        targets = [column.ours for column in table.columns if column.ours is not None]
        assert len(targets) == len(set(targets)), table.name
        if table.ours is not None:
            there = set(models.metadata.tables[table.ours].c.keys())
            assert {name.partition("/")[0] for name in targets} <= there, table.name
            assert set(table.added) <= there, table.name


def empty(table: str, /, **values: object) -> Json:
    """Return a row there with NULL in every other column."""
    found: Json = {column.name: None for column in tables.TABLES[table].of_head(LAST)}
    assert set(values) <= set(found)
    return {**found, **values}


def here(table: str, column: str, move: Any = MOVE, /, **values: object) -> Any:
    """Return the value of a column here."""
    return tables.translate(tables.TABLES[table], empty(table, **values), move)[column]


SAMPLES: Any = {
    tables.ColumnForm.NUMBER: 12,
    tables.ColumnForm.TEXT: "Text",
    tables.ColumnForm.FLAG: True,
    tables.ColumnForm.TIME: OLD,
    tables.ColumnForm.JSON: {"key": ["value", None, 1.5]},
}
_PLAIN = [
    (table.name, column)
    for table in tables.TABLES.values()
    for column in table.columns
    if column.ours and column.rule in (rules.SAME, rules.OFF, rules.ON, rules.OBJECT, rules.MADE)
]


@pytest.mark.parametrize(("table", "column"), _PLAIN, ids=lambda one: getattr(one, "name", one))
def test_value_of_a_plain_column_is_the_same_both_ways(table: str, column: Any) -> None:
    row = empty(table, **{column.name: SAMPLES[column.form]})
    ours = tables.translate(tables.TABLES[table], row, MOVE)
    name, _, key = column.ours.partition("/")
    assert (ours[name][key] if key else ours[name]) == row[column.name]
    back = tables.reverse(tables.TABLES[table], ours, row, MOVE)
    assert back[column.name] == row[column.name]


_NULLS: list[tuple[str, str, object]] = [
    *(("nodes", name, False) for name in ("protected", "retired", "maintenance")),
    *(("nodes", name, False) for name in ("console_enabled", "disable_power_off")),
    *(("nodes", name, {}) for name in ("extra", "properties", "driver_info", "instance_info")),
    *(("nodes", name, {}) for name in ("network_data", "raid_config", "target_raid_config")),
    *(("nodes", name, {}) for name in ("driver_internal_info", "clean_step", "service_step")),
    *(("nodes", name, None) for name in ("automated_clean", "secure_boot", "name", "health")),
    ("nodes", "provision_state", "available"),
    ("nodes", "data_state", "unknown"),
    ("nodes", "conductor_group", ""),
    ("nodes", "created_at", AT),
    ("ports", "pxe_enabled", True),
    ("ports", "is_smartnic", False),
    ("ports", "available_for_dynamic_portgroup", True),
    ("ports", "internal_info", {}),
    ("portgroups", "mode", "active-backup"),
    ("portgroups", "standalone_ports_supported", True),
    ("portgroups", "dynamic_portgroup", False),
    *(("allocations", name, []) for name in ("traits", "candidate_nodes")),
    ("deploy_template_steps", "args", {}),
    ("runbooks", "public", False),
    ("inspection_rules", "phase", "main"),
    ("inspection_rules", "conditions", []),
    ("inspection_rules", "priority", 0),
    ("bios_settings", "allowable_values", None),
]


@pytest.mark.parametrize(("table", "column", "value"), _NULLS)
def test_null_becomes_the_default(table: str, column: str, value: object) -> None:
    more = {"driver": "ipmi"} if table == "nodes" else {}
    assert here(table, column, **more) == value


_ROWS: list[Any] = [
    # table, the row there, a column here, its value
    ("nodes", {"uuid": NODE.upper()}, "uuid", NODE),
    ("nodes", {"instance_uuid": NODE.replace("-", "")}, "instance_uuid", NODE),
    ("nodes", {"parent_node": NODE.upper()}, "parent_node", NODE),
    ("nodes", {"conductor_group": "Rack-A"}, "conductor_group", "rack-a"),
    ("nodes", {"chassis_id": 3}, "chassis_uuid", OTHER),
    ("nodes", {"id": 7, "allocation_id": 5}, "allocation_uuid", OTHER),
    ("nodes", {"id": 8, "allocation_id": 5}, "allocation_uuid", None),
    ("nodes", {"power_state": "power on"}, "power_state", None),
    ("nodes", {"power_state": "power on", "retired": True}, "power_state", "power on"),
    ("nodes", {"power_state": "power off", "maintenance": True}, "power_state", "power off"),
    ("nodes", {"provision_state": "active"}, "provision_state", "active"),
    (
        *("nodes", {"provision_state": "active", "target_provision_state": "available"}),
        *("target_provision_state", None),
    ),
    (
        *("nodes", {"provision_state": "clean failed", "target_provision_state": "manageable"}),
        *("target_provision_state", "manageable"),
    ),
    ("nodes", {"health": "Warning"}, "health", "Warning"),
    ("nodes", {"driver": "redfish"}, "driver", "redfish"),
    ("nodes", {"inspect_interface": "inspector"}, "inspect_interface", "agent"),
    *(
        ("nodes", {f"{kind}_interface": f"my-{kind}"}, f"{kind}_interface", f"my-{kind}")
        for kind in fields.INTERFACE_KINDS
    ),
    (
        *("nodes", {"driver_internal_info": {"is_whole_disk_image": True, "agent_url": "x"}}),
        *("driver_internal_info", {"is_whole_disk_image": True}),
    ),
    (
        *("nodes", {"instance_info": {"rescue_password": "a", "hashed_rescue_password": "b"}}),
        *("instance_info", {"hashed_rescue_password": "b"}),
    ),
    ("nodes", {"instance_info": {"image_source": "x"}}, "instance_info", {"image_source": "x"}),
    ("nodes", {"reservation": "c1", "last_error": "Oh"}, "last_error", "Oh"),
    ("nodes", {"clean_step": {"step": "erase"}}, "clean_step", {}),
    ("ports", {"address": "AA:BB:CC:00:11:22"}, "address", "aa:bb:cc:00:11:22"),
    ("ports", {"node_id": 7}, "node_uuid", NODE),
    ("ports", {"portgroup_id": 4}, "portgroup_uuid", OTHER),
    (
        *("ports", {"internal_info": {"cleaning_vif_port_id": "p", "tenant_vif_port_id": "t"}}),
        *("internal_info", {"tenant_vif_port_id": "t"}),
    ),
    ("portgroups", {"mode": "802.3ad"}, "mode", "802.3ad"),
    ("portgroups", {"address": "AA:BB:CC:00:11:22"}, "address", "aa:bb:cc:00:11:22"),
    ("bios_settings", {"value": "Enabled", "attribute_type": "String"}, "value", "Enabled"),
    ("bios_settings", {"value": "secret", "attribute_type": "Password"}, "value", None),
    ("allocations", {"id": 5, "node_id": 7, "state": "active"}, "node_uuid", NODE),
    ("allocations", {"id": 6, "node_id": 7, "state": "active"}, "node_uuid", None),
    ("allocations", {"state": "active"}, "state", "active"),
    ("allocations", {"state": "allocating"}, "state", "error"),
    ("allocations", {"state": "error", "last_error": "none"}, "last_error", "none"),
    (
        *("allocations", {"state": "allocating"}),
        *("last_error", "it was looking for a node when it was imported; create it again"),
    ),
    ("inspection_rules", {"phase": "main"}, "phase", "main"),
    ("node_inventory", {"inventory_data": {"cpu": 1}}, "inventory", {"cpu": 1}),
    ("node_traits", {"node_id": 8, "trait": "CUSTOM_A"}, "node_uuid", OTHER),
    ("runbook_steps", {"order": 3}, "order", 3),
    ("deploy_template_steps", {"priority": 50}, "priority", 50),
    (
        *("node_history", {"event": "It failed", "severity": "ERROR", "duration_seconds": 9}),
        "data",
        {
            **{"error": "It failed", "severity": "ERROR", "seconds": 9},
            **dict.fromkeys(("event_type", "project", "state", "target")),
        },
    ),
    ("node_history", {"created_at": OLD}, "at", OLD),
    ("node_history", {"user": "joe"}, "requester", "joe"),
    ("node_history", {}, "kind", "ironic_history"),
]


@pytest.mark.parametrize(("table", "row", "column", "value"), _ROWS)
def test_rows_become_ours(table: str, row: dict[str, object], column: str, value: object) -> None:
    more = {"driver": "ipmi"} if table == "nodes" else {}
    assert here(table, column, **{**more, **row}) == value


@pytest.mark.parametrize(("table", "row"), [(table, row) for table, row, *_ in _ROWS])
def test_imported_rows_have_no_changes(table: str, row: dict[str, object]) -> None:
    theirs = empty(table, **row)
    ours = tables.translate(tables.TABLES[table], theirs, MOVE)
    assert tables.changes(tables.TABLES[table], theirs, ours, MOVE) == {}


_CHANGES: list[Any] = [
    # table, the row there, changed columns here, the columns there that change
    ("nodes", {}, {"name": "new"}, {"name": "new"}),
    ("nodes", {"name": "old"}, {"name": None}, {"name": None}),
    ("nodes", {"extra": {"a": 1}}, {"extra": {"a": True}}, {"extra": {"a": True}}),
    ("nodes", {"power_state": "power on"}, {"power_state": "power on"}, {}),
    (
        *("nodes", {"power_state": "power on"}, {"power_state": "power off"}),
        {"power_state": "power off"},
    ),
    ("nodes", {"health": "OK"}, {"health": None}, {}),
    ("nodes", {"health": None}, {"health": "Critical"}, {"health": "Critical"}),
    ("nodes", {"chassis_id": 3}, {"chassis_uuid": None}, {"chassis_id": None}),
    ("nodes", {"chassis_id": None}, {"chassis_uuid": OTHER}, {"chassis_id": 3}),
    ("nodes", {"id": 8}, {"allocation_uuid": OTHER}, {"allocation_id": 5}),
    (
        "nodes",
        {"conductor_group": "Rack"},
        {"conductor_group": "other"},
        {"conductor_group": "other"},
    ),
    ("nodes", {}, {"provision_state": "manageable"}, {"provision_state": "manageable"}),
    (
        "nodes",
        {"driver_internal_info": {"agent_url": "x"}},
        {"driver_internal_info": {"steps": 1}},
        {},
    ),
    (
        "nodes",
        {"driver_internal_info": {"agent_url": "x"}},
        {"driver_internal_info": {"is_whole_disk_image": True}},
        {"driver_internal_info": {"agent_url": "x", "is_whole_disk_image": True}},
    ),
    (
        "ports",
        {"internal_info": {"cleaning_vif_port_id": "p"}},
        {"internal_info": {"a": 1}},
        {"internal_info": {"cleaning_vif_port_id": "p", "a": 1}},
    ),
    ("ports", {"node_id": 7}, {"node_uuid": OTHER}, {"node_id": 8}),
    ("ports", {"portgroup_id": 4}, {"portgroup_uuid": None}, {"portgroup_id": None}),
    ("bios_settings", {"value": "s", "attribute_type": "Password"}, {"value": "x"}, {}),
    ("bios_settings", {"value": "s"}, {"value": "x"}, {"value": "x"}),
    ("allocations", {"state": "allocating"}, {"extra": {"a": 1}}, {"extra": {"a": 1}}),
    ("allocations", {"id": 6, "state": "active"}, {"node_uuid": NODE}, {"node_id": 7}),
]


@pytest.mark.parametrize(("table", "row", "changed", "written"), _CHANGES)
def test_changes_here_are_written_there(
    table: str, row: dict[str, object], changed: dict[str, object], written: dict[str, object]
) -> None:
    more = {"driver": "ipmi"} if table == "nodes" else {}
    theirs = empty(table, **{**more, **row})
    ours = {**tables.translate(tables.TABLES[table], theirs, MOVE), **changed}
    assert tables.changes(tables.TABLES[table], theirs, ours, MOVE) == written


# -- work under way --------------------------------------------------------------------------

_ENDED = {
    "verifying": ("enroll", None),
    "deleting": ("error", None),
    "cleaning": ("clean failed", "clean failure"),
    "clean wait": ("clean failed", "clean failure"),
    "clean hold": ("clean failed", "clean failure"),
    "deploying": ("deploy failed", None),
    "wait call-back": ("deploy failed", None),
    "deploy hold": ("deploy failed", None),
    "inspecting": ("inspect failed", None),
    "inspect wait": ("inspect failed", None),
    "adopting": ("adopt failed", None),
    "rescuing": ("rescue failed", None),
    "rescue wait": ("rescue failed", None),
    "unrescuing": ("unrescue failed", None),
    "servicing": ("service failed", "service failure"),
    "service wait": ("service failed", "service failure"),
    "service hold": ("service failed", "service failure"),
}


def test_every_state_of_work_has_an_end() -> None:
    assert set(_ENDED) == set(map(str, rules.UNFINISHED))


@pytest.mark.parametrize("state", _ENDED)
def test_work_is_ended_as_after_a_restore(state: str) -> None:
    row = empty(
        "nodes",
        **{"driver": "ipmi", "provision_state": state, "reservation": "c1"},
        **{"target_provision_state": "available", "provision_updated_at": OLD},
    )
    ours = tables.translate(tables.TABLES["nodes"], row, MOVE._replace(end=True))
    wanted, fault = _ENDED[state]
    assert (ours["provision_state"], ours["fault"]) == (wanted, fault)
    assert ours["maintenance"] is (fault is not None)
    assert (ours["maintenance_reason"] is not None) is (fault is not None)
    assert ours["target_provision_state"] == ("available" if wanted.endswith("failed") else None)
    assert ours["provision_updated_at"] == AT
    assert ours["last_error"] == (
        f"It was in {state} when it was imported from Ironic, whose conductor c1 was stopped. "
        "Look at the machine before the next verb."
    )
    assert tables.changes(tables.TABLES["nodes"], row, ours, MOVE._replace(end=True)) == {}


@pytest.mark.parametrize("state", sorted(map(str, set(State) - rules.UNFINISHED)))
def test_states_of_rest_stay(state: str) -> None:
    for move in (MOVE, MOVE._replace(end=True)):
        assert here("nodes", "provision_state", move, provision_state=state, driver="x") == state


# -- maps ------------------------------------------------------------------------------------


def mapped(*paths: tuple[str, str], **names: dict[str, str]) -> Any:
    return MOVE._replace(maps=rules.Maps(names, paths))


def test_logins_follow_a_mapped_hardware_type_both_ways() -> None:
    move = mapped(driver={"ilo": "redfish"})
    info = {
        **{"ilo_address": "10.0.0.1", "ilo_username": "u", "ilo_password": "p"},
        **{"ca_file": "/etc/ironic/ca.pem", "deploy_kernel": "file:///k"},
    }
    theirs = empty("nodes", driver="ilo", driver_info=info)
    ours = tables.translate(tables.TABLES["nodes"], theirs, move)
    assert ours["driver"] == "redfish"
    assert ours["driver_info"] == {
        **{"redfish_address": "https://10.0.0.1", "redfish_username": "u"},
        **{"redfish_password": "p", "redfish_verify_ca": "/etc/ironic/ca.pem"},
        "deploy_kernel": "file:///k",
    }
    assert tables.changes(tables.TABLES["nodes"], theirs, ours, move) == {}
    ours["driver_info"] = {**ours["driver_info"], "redfish_password": "new"}
    written = tables.changes(tables.TABLES["nodes"], theirs, ours, move)
    assert written == {"driver_info": {**info, "ilo_password": "new"}}


@pytest.mark.parametrize(
    ("more", "unread"),
    [
        ({"ilo_verify_ca": "/etc/a"}, ["ca_file"]),
        ({"ilo_verify_ca": "/etc/a", "redfish_verify_ca": "/etc/b"}, ["ca_file", "ilo_verify_ca"]),
        ({"redfish_verify_ca": "/etc/b"}, ["ca_file"]),
        ({"redfish_address": "https://bmc"}, ["ilo_address"]),
    ],
)
def test_key_that_another_one_would_overwrite_stays(more: Json, unread: list[str]) -> None:
    move = mapped(driver={"ilo": "redfish"})
    info = {"ilo_address": "10.0.0.1", "ca_file": "/etc/old", **more}
    theirs = empty("nodes", driver="ilo", driver_info=info)
    ours = tables.translate(tables.TABLES["nodes"], theirs, move)
    assert rules.unread_keys(theirs, move) == unread
    assert {key: ours["driver_info"][key] for key in unread} == {key: info[key] for key in unread}
    read = {key: value for key, value in info.items() if key not in unread}
    assert sorted(ours["driver_info"].values()) == sorted(
        [info[key] for key in unread]
        + [f"https://{one}" if key == "ilo_address" else one for key, one in read.items()]
    )
    assert tables.changes(tables.TABLES["nodes"], theirs, ours, move) == {}


def test_paths_get_another_beginning_both_ways() -> None:
    move = mapped(("/etc/ironic/ca", "/etc/ironic-lite/ca"))
    info = {"redfish_verify_ca": "/etc/ironic/ca/a.pem", "deploy_iso": "file:///etc/ironic/ca/x"}
    theirs = empty("nodes", driver="redfish", driver_info=info)
    ours = tables.translate(tables.TABLES["nodes"], theirs, move)
    assert ours["driver_info"] == {
        "redfish_verify_ca": "/etc/ironic-lite/ca/a.pem",
        "deploy_iso": "file:///etc/ironic-lite/ca/x",
    }
    others = {"deploy_iso": "/etc/ironic/cache/x", "redfish_password": "/etc/ironic/ca/x"}
    theirs_too = empty("nodes", driver="redfish", driver_info=others)
    assert tables.translate(tables.TABLES["nodes"], theirs_too, move)["driver_info"] == others
    ours["driver_info"] = {**ours["driver_info"], "redfish_username": "u"}
    written = tables.changes(tables.TABLES["nodes"], theirs, ours, move)
    assert written == {"driver_info": {**info, "redfish_username": "u"}}


def test_interfaces_are_resolved_under_their_names_here() -> None:
    asked: list[Any] = []

    def resolve(driver: str, names: Any, changed: bool) -> Any:
        asked.append((driver, dict(zip(fields.INTERFACE_KINDS, names, strict=True)), changed))
        return tuple(name or "default" for name in names)

    move = mapped(network={"neutron": "noop"}, driver={"intel-ipmi": "ipmi"})
    row = {"driver": "intel-ipmi", "network_interface": "neutron", "boot_interface": "pxe"}
    ours = tables.translate(
        tables.TABLES["nodes"], empty("nodes", **row), move._replace(resolve=resolve)
    )
    assert ours["network_interface"] == "noop"
    assert (ours["boot_interface"], ours["power_interface"]) == ("pxe", "default")
    driver, names, changed = asked[0]
    assert (driver, changed, names["network"]) == ("ipmi", True, "noop")


# -- expressions -----------------------------------------------------------------------------

_EXPRESSIONS = ["abc", "a|b", "a.*", "^abc$", "(?i)ABC", "a+b?$", "x{2}", "[$]", r"a\$"]
_TEXTS = ["abc", "abcd", "a", "b", "ab", "xb", "ABC", "xx", "abc\n", "$", "a$", "", "a\nb"]


@pytest.mark.parametrize("expression", _EXPRESSIONS)
def test_expressions_match_the_same_texts_on_both_sides(expression: str) -> None:
    for text in _TEXTS:
        theirs = _matches_there(expression, text)
        ours = re.fullmatch(rules.expression_here(expression), text) is not None
        assert ours is theirs, text
        own = re.fullmatch(expression, text) is not None
        assert _matches_there(rules.expression_there(expression), text) is own, text


def _matches_there(expression: str, text: str) -> bool:
    """Match as Ironic 39 does."""
    whole = expression if expression.endswith("$") else f"{expression}$"
    return re.match(whole, text) is not None


def test_conditions_with_expressions_change_and_go_back() -> None:
    conditions = [
        {"op": "!matches", "args": {"value": "{node.name}", "regex": "r7-.*"}},
        {"op": "matches", "args": ["{node.name}", "r7-.*"]},
        {"op": "eq", "args": ["a", "matches"]},
    ]
    theirs = empty("inspection_rules", conditions=conditions, actions=[])
    ours = tables.translate(tables.TABLES["inspection_rules"], theirs, MOVE)
    assert ours["conditions"][0]["args"]["regex"] == "(?:r7-.*$)(?s:.*)"
    assert ours["conditions"][1]["args"] == ["{node.name}", "(?:r7-.*$)(?s:.*)"]
    assert ours["conditions"][2] == conditions[2]
    changed = {**ours, "conditions": ours["conditions"][:1]}
    back = tables.changes(tables.TABLES["inspection_rules"], theirs, changed, MOVE)
    assert len(back["conditions"]) == 1
    assert rules.expression_here(back["conditions"][0]["args"]["regex"]) == "(?:r7-.*$)(?s:.*)"


# -- object versions -------------------------------------------------------------------------

_VERSIONS: dict[str, dict[str, str | None]] = {
    # of some releases' own mappings
    "01f21d5e5195": {"nodes": "1.40", "ports": "1.11", "portgroups": "1.5", "runbooks": None},
    "21c48150dea9": {"nodes": "1.41", "ports": "1.11", "inspection_rules": "1.0"},
    "3ef27505c9fb": {"nodes": "1.42", "ports": "1.15", "portgroups": "1.6", "chassis": "1.4"},
    "15e9d00367b0": {"nodes": "1.43", "ports": "1.15", "portgroups": "1.8"},
    "2a3b4c5d6e7f": {"nodes": "1.44", "ports": "1.16", "runbooks": "1.1", "runbook_traits": None},
    "9fb44677ef15": {"node_history": "1.3", "firmware_information": "1.2", "runbooks": "1.2"},
}


@pytest.mark.parametrize("head", _VERSIONS)
def test_object_versions_are_those_of_the_releases(head: str) -> None:
    for table, version in _VERSIONS[head].items():
        assert tables.TABLES[table].version(head) == version
