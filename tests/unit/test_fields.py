"""The tables of fields agree with the tables of the database and with Ironic's microversions."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.db.tables import models
from ironic_lite.domain import fields

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
    1: "data_state data_state_at data_state_by "
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
