"""The way back to Ironic: changed columns, new rows, what it cannot have, and the order."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from ironic_lite.core.json_types import Json

pytestmark = pytest.mark.feature("move_in")
rules = pytest.importorskip("ironic_lite.features.move_in.rules")
tables = pytest.importorskip("ironic_lite.features.move_in.tables")
reversal = pytest.importorskip("ironic_lite.features.move_in.reversal")
RowChange: Any = getattr(reversal, "RowChange", None)

AT = datetime.datetime(2026, 11, 28, 12)
OLD = datetime.datetime(2025, 1, 2, 3)
LAST, FIRST = rules.HEADS[-1], rules.HEADS[0]
NODE = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
MOVE = rules.Move(AT, LAST, uuids={"nodes": {7: NODE}}, ids={"nodes": {NODE: 7}})
NODES = tables.TABLES["nodes"]


def empty(table: str, head: str = LAST, /, **values: object) -> Json:
    """Return a row there with NULL in every other column."""
    known = {column.name: None for column in tables.TABLES[table].of_head(head)}
    return {**known, "version": tables.TABLES[table].version(head), **values}


def pair(**values: object) -> tuple[Json, Json]:
    """Return a node there, and the one that its import has made of it."""
    theirs = empty("nodes", id=7, uuid=NODE, driver="ipmi", **values)
    return theirs, tables.translate(NODES, theirs, MOVE)


def test_imported_node_has_no_changes() -> None:
    theirs, ours = pair(reservation="c1", driver_internal_info={"agent_url": "x"}, version="1.0")
    assert reversal.node_changes(theirs, ours, MOVE) == {}


def test_node_whose_state_is_written_has_nothing_of_its_work_left() -> None:
    theirs, ours = pair(
        provision_state="error",
        target_provision_state="available",
        reservation="c1",
        target_power_state="power on",
        deploy_step={"step": "deploy"},
        driver_internal_info={"agent_url": "x", "is_whole_disk_image": True},
    )
    found = reversal.node_changes(theirs, {**ours, "provision_state": "available"}, MOVE)
    assert found == {
        **{"provision_state": "available", "target_provision_state": None},
        **{"reservation": None, "target_power_state": None},
        **{"deploy_step": {}, "clean_step": {}, "service_step": {}},
        "driver_internal_info": {"is_whole_disk_image": True},
    }
    named = reversal.node_changes(theirs, {**ours, "name": "new"}, MOVE)
    assert named == {"name": "new"}


def test_changed_rows_get_the_version_of_the_release() -> None:
    theirs, ours = pair(version="1.36")
    assert reversal.node_changes(theirs, {**ours, "name": "n"}, MOVE) == {
        "name": "n",
        "version": "1.44",
    }


def test_new_rows_have_versions_ids_and_times() -> None:
    ours = tables.translate(
        tables.TABLES["ports"], empty("ports", uuid=NODE, node_id=7, created_at=OLD), MOVE
    )
    for head, version in ((FIRST, "1.11"), (LAST, "1.16")):
        found = reversal.new_row(tables.TABLES["ports"], ours, MOVE._replace(head=head), id=9)
        assert (found["version"], found["node_id"], found["id"]) == (version, 7, 9)
        assert found["created_at"] == OLD
        assert ("vendor" in found) is (head == LAST)
    trait = {"node_uuid": NODE, "trait": "CUSTOM_A"}
    found = reversal.new_row(tables.TABLES["node_traits"], trait, MOVE)
    assert found == {"node_id": 7, "trait": "CUSTOM_A", "version": "1.1", "created_at": AT}
    _, node = pair(driver_internal_info={"is_whole_disk_image": True})
    node["driver_internal_info"]["steps"] = [1]
    found = reversal.new_row(NODES, node, MOVE)
    assert found["driver_internal_info"] == {"is_whole_disk_image": True}
    assert (found["clean_step"], found["version"]) == ({}, "1.44")


@pytest.mark.parametrize(
    ("table", "column", "plain", "value"),
    [
        ("nodes", "health", None, "Warning"),
        ("nodes", "disable_power_off", False, True),
        ("nodes", "instance_name", None, "mail"),
        ("ports", "available_for_dynamic_portgroup", True, False),
        ("portgroups", "category", None, "fast"),
    ],
)
def test_columns_that_the_head_lacks_are_named_if_they_have_a_value(
    table: str, column: str, plain: object, value: object
) -> None:
    move = MOVE._replace(head=FIRST)
    theirs = empty(table, **({"driver": "ipmi"} if table == "nodes" else {}))
    ours = tables.translate(tables.TABLES[table], theirs, MOVE)
    lost = list(reversal.lost_columns(tables.TABLES[table], {**ours, column: plain}, move))
    assert column not in lost
    assert column in reversal.lost_columns(tables.TABLES[table], {**ours, column: value}, move)
    assert list(reversal.lost_columns(tables.TABLES[table], {**ours, column: value}, MOVE)) == []


def test_steps_are_rows_there() -> None:
    table = tables.TABLES["deploy_template_steps"]
    step = {"interface": "deploy", "step": "deploy", "args": {"a": 1}, "priority": 80}
    (row,) = reversal.steps_there(table, [step], MOVE)
    assert row == {**step, "version": None, "created_at": AT}
    assert reversal.same_steps(table, [step], [dict(step)], MOVE)
    assert not reversal.same_steps(table, [step], [{**step, "priority": 81}], MOVE)
    assert not reversal.same_steps(table, [step], [], MOVE)
    book = {"interface": "bios", "step": "factory_reset", "order": 2}
    (row,) = reversal.steps_there(tables.TABLES["runbook_steps"], [book], MOVE)
    assert (row["args"], row["order"]) == ({}, 2)


# -- what that Ironic cannot have ------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "used", "head", "found"),
    [
        ({"driver": "redfish", "boot_interface": "redfish-https"}, {}, FIRST, []),
        ({"deploy_interface": "autodetect"}, {}, "3ef27505c9fb", ["autodetect"]),
        ({"deploy_interface": "autodetect"}, {}, LAST, []),
        ({"driver": "my-type"}, {}, LAST, ["my-type"]),
        ({"driver": "my-type"}, {"driver": frozenset({"my-type"})}, LAST, []),
        ({"power_interface": None, "name": "x"}, {}, LAST, []),
    ],
)
def test_names_that_ironic_does_not_have(
    written: Json, used: Any, head: str, found: list[str]
) -> None:
    assert [name for _, name in reversal.unknown_names(written, used, head)] == found


def test_every_name_of_this_service_is_judged() -> None:
    from ironic_lite.core import options  # noqa: PLC0415
    from ironic_lite.domain import fields  # noqa: PLC0415
    from ironic_lite.drivers import registry  # noqa: PLC0415

    for kind in ("driver", *fields.INTERFACE_KINDS):
        asked = options.HARDWARE_TYPE if kind == "driver" else kind
        names = [
            *reversal.NAMES[kind].split(),
            *(n for k, n in reversal.LATER_NAMES if k == kind),
        ]
        found = registry.enabled_names(asked, names)
        assert len(found.points) == len(names), (kind, names)


def test_new_keys_of_a_mapped_login_have_no_way_back() -> None:
    move = MOVE._replace(maps=rules.Maps({"driver": {"ilo": "redfish"}}))
    theirs = empty("nodes", id=7, driver="ilo", driver_info={"ilo_address": "a"})
    ours = tables.translate(NODES, theirs, move)
    ours["driver_info"] = {**ours["driver_info"], "redfish_password": "p", "redfish_system_id": "1"}
    found = reversal.node_changes(theirs, ours, move)
    assert found["driver_info"]["ilo_password"] == "p"
    assert reversal.keys_without_way_back(theirs, found, move) == ["redfish_system_id"]
    assert reversal.keys_without_way_back(theirs, {"name": "n"}, move) == []
    assert reversal.keys_without_way_back(theirs, {**found, "driver": "redfish"}, move) == []


_LIMITS: Any = {
    "nodes": {
        "name": reversal.ColumnLimit(3, None, wide=False),
        "extra": reversal.ColumnLimit(None, 30, wide=False),
        "description": reversal.ColumnLimit(None, 20),
    }
}


@pytest.mark.parametrize(
    ("values", "paths"),
    [
        ({"name": "abc", "extra": {"a": "😀"}, "description": "😀"}, []),
        ({"name": "abcd"}, ["name"]),
        ({"name": "😀"}, ["name"]),
        ({"extra": {"key": "x" * 30}}, ["extra"]),
        ({"description": "ü" * 11}, ["description"]),
        ({"owner": "x" * 1000, "name": None}, []),
    ],
)
def test_values_that_do_not_fit_are_found(values: Json, paths: list[str]) -> None:
    found = reversal.too_large(RowChange("nodes", {"id": 7}, values), _LIMITS)
    assert [path for path, _ in found] == paths


def test_json_is_written_as_ironic_writes_it() -> None:
    assert reversal.stored("nodes", "extra", {"ä": 1}) == json.dumps({"ä": 1})
    assert reversal.stored("nodes", "extra", None) is None
    assert reversal.stored("nodes", "name", "ä") == "ä"


def _doubled(changes: list[Any], there: Any, *, fold: bool = True) -> list[tuple[str, ...]]:
    return [tuple(one) for one in reversal.doubled_values(changes, there, fold=fold)]


def test_names_that_differ_in_case_alone_are_found_where_it_does_not_matter() -> None:
    there = {"nodes": {1: {"name": "a"}, 2: {"name": "b"}, 3: {"name": "C"}}}
    changes = [
        RowChange("nodes", {"id": 2}, {"name": "A"}),
        RowChange("nodes", {"id": 3}, None),
        RowChange("nodes", {}, {"id": 4, "name": "c"}),
        RowChange("nodes", {"id": 1}, {"extra": {}}),
    ]
    assert _doubled(changes, there) == [("nodes", "name", "A", "a")]
    assert _doubled(changes, there, fold=False) == []
    swapped = [
        RowChange("nodes", {"id": 1}, {"name": "B"}),
        RowChange("nodes", {"id": 2}, {"name": "x"}),
    ]
    assert _doubled(swapped, there) == []


def test_values_of_two_rows_are_found_unless_one_of_them_goes() -> None:
    ports = {5: {"node_id": 1, "address": "aa"}, 6: {"node_id": 2, "address": "bb"}}
    targets = {7: {"node_id": 1, "boot_index": 0}, 8: {"node_id": 1, "boot_index": 1}}
    there = {"ports": ports, "volume_targets": targets}
    new = RowChange("ports", {}, {"node_id": 2, "address": "aa"})
    assert _doubled([new], there) == [("ports", "address", "aa", "aa")]
    assert _doubled([RowChange("nodes", {"id": 1}, None), new], there) == []
    moved = RowChange("ports", {"id": 5}, {"node_id": 2})
    found = _doubled([RowChange("nodes", {"id": 1}, None), moved, new], there)
    assert found == [("ports", "address", "aa", "aa")]
    same = RowChange("volume_targets", {"id": 8}, {"boot_index": 0})
    assert _doubled([same], there) == [("volume_targets", "boot_index", "0", "0")]
    assert _doubled([RowChange("ports", {"id": 6}, {"extra": {}})], {"ports": {**ports}}) == []


# -- what may not change with something else -------------------------------------------------


_PATHS = rules.Maps({"driver": {"ilo": "redfish"}}, (("/etc/ironic/ca", "/etc/lite/ca"),))


@pytest.mark.parametrize(
    ("info", "key", "value", "written"),
    [
        (
            {"a": "/etc/lite/ca/x.pem", "b": "/etc/ironic/ca/y.pem", "c": "1"},
            *("c", "2", {"c": "2"}),
        ),
        ({"a": "/etc/ironic/ca/x.pem"}, "a", "/etc/lite/ca/z.pem", {"a": "/etc/ironic/ca/z.pem"}),
        ({"ilo_address": "10.0.0.1"}, "redfish_address", "https://h", {"ilo_address": "h"}),
        (
            {"ilo_address": "https://10.0.0.1"},
            *("redfish_address", "https://h", {"ilo_address": "https://h"}),
        ),
        (
            {"ilo_verify_ca": "/a.pem", "ca_file": "/b.pem", "ilo_username": "u"},
            *("redfish_username", "v", {"ilo_username": "v"}),
        ),
    ],
    ids=["other keys", "a path", "an address", "an address with https", "doubled certificates"],
)
def test_other_keys_of_driver_info_stay_as_they_are(
    info: Json, key: str, value: str, written: Json
) -> None:
    move = MOVE._replace(maps=_PATHS)
    theirs = empty("nodes", id=7, driver="ilo", driver_info=info)
    ours = tables.translate(NODES, theirs, move)
    ours["driver_info"] = {**ours["driver_info"], key: value}
    found = reversal.node_changes(theirs, ours, move)
    assert found == {"driver_info": {**info, **written}}


def test_dropped_rescue_password_stays_beside_its_hash() -> None:
    info = {"rescue_password": "a", "hashed_rescue_password": "b"}
    theirs, ours = pair(instance_info=info)
    ours["instance_info"] = {**ours["instance_info"], "capabilities": {}}
    found = reversal.node_changes(theirs, ours, MOVE)
    assert found == {"instance_info": {**info, "capabilities": {}}}
    ours["instance_info"] = {"hashed_rescue_password": "c"}
    found = reversal.node_changes(theirs, ours, MOVE)
    assert found == {"instance_info": {"hashed_rescue_password": "c"}}


def test_other_conditions_of_a_rule_stay_as_they_are() -> None:
    table = tables.TABLES["inspection_rules"]
    old = {"op": "matches", "args": {"value": "v", "regex": "Del"}}
    theirs = empty("inspection_rules", id=7, uuid=NODE, conditions=[old], actions=[])
    ours = tables.translate(table, theirs, MOVE)
    new = {"op": "matches", "args": {"value": "v", "regex": "x.*"}}
    ours["conditions"] = [*ours["conditions"], new]
    (kept, back) = tables.changes(table, theirs, ours, MOVE)["conditions"]
    assert (kept, back["args"]["regex"]) == (old, "(?:x.*)\\Z$")


# -- the order -------------------------------------------------------------------------------


def test_changes_come_in_an_order_that_breaks_no_reference() -> None:
    changes = [
        RowChange("nodes", {"id": 1}, {"name": "b"}),
        RowChange("nodes", {"id": 2}, {"name": "a"}),
        RowChange("nodes", {"id": 3}, None),
        RowChange("nodes", {}, {"id": 9, "name": "n", "allocation_id": 5}),
        RowChange("allocations", {}, {"id": 5, "node_id": 9}),
        RowChange("portgroups", {"id": 4}, None),
        RowChange("ports", {"id": 6}, None),
        RowChange("ports", {}, {"node_id": 9}),
        RowChange("runbooks", {"id": 8}, None),
    ]
    found = [tuple(one) for one in reversal.ordered(changes, LAST)]
    assert found[:4] == [
        ("nodes", {"id": 1}, {"name": None}),
        ("nodes", {"id": 2}, {"name": None}),
        ("nodes", {"id": 3}, {"allocation_id": None}),
        ("allocations", {"node_id": 3}, {"node_id": None}),
    ]
    places = {name: found.index((name, {"node_id": 3}, None)) for name in ("ports", "node_tags")}
    last = found.index(("nodes", {"id": 3}, None))
    assert max(places.values()) < last
    assert found.index(("ports", {"id": 6}, None)) < found.index(("portgroups", {"id": 4}, None))
    for part in ("runbook_steps", "runbook_traits"):
        place = found.index((part, {"runbook_id": 8}, None))
        assert place < found.index(("runbooks", {"id": 8}, None))
    assert found[-6:] == [
        ("nodes", {}, {"id": 9, "name": "n", "allocation_id": None}),
        ("ports", {}, {"node_id": 9}),
        ("allocations", {}, {"id": 5, "node_id": 9}),
        ("nodes", {"id": 1}, {"name": "b"}),
        ("nodes", {"id": 2}, {"name": "a"}),
        ("nodes", {"id": 9}, {"allocation_id": 5}),
    ]


def test_tables_that_the_head_lacks_are_left_alone() -> None:
    found = list(reversal.ordered([RowChange("nodes", {"id": 3}, None)], FIRST))
    assert "runbook_traits" not in {one.table for one in found}
    assert found[-1] == RowChange("nodes", {"id": 3}, None)


@pytest.mark.parametrize(
    ("table", "column", "free"),
    [
        ("deploy_templates", "name", "moved-3"),
        ("volume_targets", "boot_index", -3),
        ("volume_connectors", "connector_id", "moved-3"),
        ("ports", "address", None),
    ],
)
def test_old_values_are_released_first(table: str, column: str, free: object) -> None:
    change = RowChange(table, {"id": 3}, {column: "new"})
    assert list(reversal.ordered([change], LAST)) == [
        RowChange(table, {"id": 3}, {column: free}),
        change,
    ]
