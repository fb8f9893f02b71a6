"""The tables of fields, and records that know what the next save has to write."""

from __future__ import annotations

import types
import typing
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.db.engine.encryption import EncryptedJSON
from ironic_lite.db.tables import models
from ironic_lite.domain import fields
from ironic_lite.records import Event, Node, Port, Portgroup, Record, Run, RunStep

# The tables of fields agree with the tables of the database and with Ironic's microversions.

TABLES = [
    (fields.NODE, models.nodes),
    (fields.PORT, models.ports),
    (fields.CHASSIS, models.chassis),
    (fields.DEPLOY_TEMPLATE, models.deploy_templates),
    (fields.ALLOCATION, models.allocations),
    (fields.RUNBOOK, models.runbooks),
    (fields.INSPECTION_RULE, models.inspection_rules),
    (fields.CONDUCTOR, models.conductors),
]
# Listed by microversion, as the reference of the API words it.
SINCE = {
    1: "data_state data_state_at data_state_by serial "
    "uuid driver driver_info properties extra instance_info instance_uuid chassis_uuid "
    "provision_state target_provision_state provision_updated_at power_state target_power_state "
    "last_error reservation maintenance maintenance_reason console_enabled created_at updated_at "
    "links",
    3: "driver_internal_info",
    5: "name",
    6: "inspection_started_at inspection_finished_at",
    7: "clean_step",
    12: "raid_config target_raid_config",
    20: "network_interface",
    21: "resource_class",
    31: "boot_interface console_interface deploy_interface inspect_interface "
    "management_interface power_interface raid_interface vendor_interface",
    33: "storage_interface",
    37: "traits",
    38: "rescue_interface",
    40: "bios_interface",
    42: "fault",
    44: "deploy_step",
    46: "conductor_group",
    47: "automated_clean",
    48: "protected protected_reason",
    49: "conductor",
    50: "owner",
    51: "description",
    52: "allocation_uuid",
    61: "retired retired_reason",
    65: "lessee",
    66: "network_data",
    75: "boot_mode secure_boot",
    82: "shard",
    83: "parent_node",
    86: "firmware_interface",
    87: "service_step",
    95: "disable_power_off",
    104: "instance_name",
    109: "health",
}


def test_every_node_field_appears_at_its_microversion() -> None:
    listed = {name: since for since, names in SINCE.items() for name in names.split()}
    assert {field.name: field.since for field in fields.NODE} == listed


@pytest.mark.parametrize(("table", "stored"), TABLES)
def test_every_stored_field_has_a_column(table, stored) -> None:  # type: ignore[no-untyped-def]
    columns = set(stored.columns.keys())
    assert {field.stored for field in table if field.stored} <= columns


@pytest.mark.parametrize(("table", "stored"), TABLES)
def test_every_field_that_may_be_sorted_by_has_a_column(table, stored) -> None:  # type: ignore[no-untyped-def]
    for field in table:
        if field.sort:
            assert field.stored in stored.columns


@pytest.mark.parametrize(("table", "stored"), TABLES)
def test_accepted_text_of_a_field_fits_its_column(table, stored) -> None:  # type: ignore[no-untyped-def]
    for field in table:
        room = getattr(stored.columns[field.stored].type, "length", None) if field.stored else None
        if room and field.creatable and field.type is fields.Type.STRING:
            assert field.length is not None
            assert field.length <= room, field.name


@pytest.mark.parametrize("table", [table for table, _ in TABLES])
def test_no_name_stands_twice(table: tuple[fields.Field, ...]) -> None:
    assert len(fields.by_name(table)) == len(table)


def test_selecting_keeps_the_order_asked_for() -> None:
    assert fields.select(fields.NODE, ["name", " UUID ", "name"], 115) == ("name", "uuid")


def test_sorting_by_a_newer_field_is_not_acceptable() -> None:
    assert fields.sort_column(fields.NODE, "retired", 61) == "retired"
    with pytest.raises(errors.NotAcceptable):
        fields.sort_column(fields.NODE, "retired", 60)


# A record knows what the next save has to write, no more and no less.

LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "b"])
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner),
    max_leaves=5,
)


def node(**values: Any) -> Node:
    return Node({"uuid": "u1", "name": None, "extra": {}, "maintenance": False, **values})


def test_a_column_reads_as_an_attribute() -> None:
    assert node(name="n1").name == "n1"


def test_an_assignment_is_seen_and_remembered_for_the_save() -> None:
    record = node()
    record.name = "n2"
    record.extra = {"a": 1}
    assert (record.name, record.extra) == ("n2", {"a": 1})
    assert record.changes == {"name": "n2", "extra": {"a": 1}}


def test_the_same_value_again_is_no_change() -> None:
    record = node(extra={"a": [1, {"b": None}]})
    record.name = None
    record.extra = {"a": [1, {"b": None}]}
    assert record.changes == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": [0]}, {"a": [False]}),
        ({"a": {"b": True}}, {"a": {"b": 1}}),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": [1]}, {"a": [1, 1]}),
        ({}, []),
    ],
)
def test_values_equal_in_python_but_not_in_json_are_a_change(before: Any, after: Any) -> None:
    record = node(extra=before)
    record.extra = after
    assert record.changes == {"extra": after}


@given(before=JSON, after=JSON)
def test_after_an_assignment_the_record_and_its_save_agree(before: Any, after: Any) -> None:
    record = node(extra=before)
    record.extra = after
    stored = record.changes.get("extra", before)
    assert repr(sort(stored)) == repr(sort(after))
    assert repr(sort(record.extra)) == repr(sort(after))


def sort(value: Any) -> Any:
    """Return JSON with the keys of its objects in order: their order means nothing."""
    if isinstance(value, dict):
        return {key: sort(value[key]) for key in sorted(value)}
    return [sort(each) for each in value] if isinstance(value, list) else value


def test_a_change_taken_back_is_written_as_it_stands() -> None:
    record = node(name="n1")
    record.name = "n2"
    record.name = "n1"
    assert record.changes == {"name": "n1"}


@pytest.mark.parametrize("name", ["nmae", "_other", "changed"])
def test_a_misspelt_column_is_refused_at_once(name: str) -> None:
    record = node()
    with pytest.raises(AttributeError, match=f"Node has no column {name}"):
        setattr(record, name, 1)
    with pytest.raises(AttributeError, match=f"Node has no column {name}"):
        getattr(record, name)


def test_a_save_settles_the_changes_and_what_it_wrote_itself() -> None:
    record = node(generation=3)
    record.name = "n2"
    record.settle(generation=4)
    assert (record.changes, record.generation, record.name) == ({}, 4, "n2")


def test_the_changes_handed_out_are_a_copy() -> None:
    record = node()
    record.name = "n2"
    record.changes.clear()
    record.as_dict().clear()
    assert record.changes == {"name": "n2"}
    assert record.uuid == "u1"


def test_a_record_does_not_write_into_the_row_it_was_made_of() -> None:
    row = {"uuid": "u1", "name": None}
    Node(row).name = "n2"
    assert row == {"uuid": "u1", "name": None}


def test_a_record_is_shown_by_its_uuid_alone_because_rows_hold_secrets() -> None:
    assert repr(node(driver_info={"password": "x"})) == "<Node u1>"


def promised(kind: type) -> dict[str, tuple[type, bool]]:
    """Return column -> (Python type, whether it may be None) by the annotations of a record."""
    found = {}
    for name, hint in typing.get_type_hints(kind).items():
        if name in Record.__annotations__:
            continue
        options = set(typing.get_args(hint) if isinstance(hint, types.UnionType) else [hint])
        (value,) = options - {types.NoneType}
        kind_of = dict if typing.is_typeddict(value) else typing.get_origin(value) or value
        found[name] = (kind_of, types.NoneType in options)
    return found


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (Node, models.nodes),
        (Port, models.ports),
        (Portgroup, models.portgroups),
        (Run, models.runs),
        (RunStep, models.run_steps),
        (Event, models.events),
    ],
)
def test_annotations_of_records_are_the_columns_of_their_tables(
    kind: type, table: sa.Table
) -> None:
    objects: tuple[str, ...] = getattr(kind, "objects", ())
    assert promised(kind) == {
        column.key: (
            dict if isinstance(column.type, sa.JSON | EncryptedJSON) else column.type.python_type,
            bool(column.nullable) and column.key not in objects,
        )
        for column in table.columns
    }


@pytest.mark.parametrize("kind", [Node, Port, Portgroup])
def test_a_record_has_slots_only_because_thousands_are_held(kind: type[Record]) -> None:
    assert not hasattr(kind({"uuid": "u1"}), "__dict__")
