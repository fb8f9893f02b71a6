"""Ironic's tables from 24.1 to 39: each column with the revision that added it, and its rule. Pure.

`translate` makes our row of a row there, `changes` finds the columns there that a newer row of ours
changes.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, history
from ironic_lite.features.move_in import rules

_RUNBOOKS, _RULES, _REMOTABLE = rules.HEADS[1], rules.HEADS[3], rules.HEADS[5]
_DYNAMIC_PORTGROUPS = "2a3b4c5d6e7f"


class ColumnForm(enum.Enum):
    """The form of a column there."""

    NUMBER = "number"
    TEXT = "text"
    FLAG = "flag"
    TIME = "time"
    JSON = "JSON"


class IronicColumn(NamedTuple):
    """A column there.

    :ivar since: the revision that added it.
    :ivar ours: the column here, with the key in its object behind a slash; None if its value is
        dropped, or used by other columns' rules only.
    """

    name: str
    form: ColumnForm
    since: str
    ours: str | None
    rule: rules.ColumnRule


class IronicTable(NamedTuple):
    """A table there.

    :ivar ours: the table here. None if its rows become parts of other rows, or stay there.
    :ivar versions: of the object, each with the first revision whose releases write it.
    :ivar added: values of columns here that no column there decides.
    :ivar whole: the table of the rows that its rows are parts of.
    """

    name: str
    ours: str | None
    columns: tuple[IronicColumn, ...]
    versions: tuple[tuple[str, str], ...] = ()
    added: JsonView = MappingProxyType({})
    since: str = rules.FIRST
    whole: str | None = None

    @property
    def parent(self) -> str:
        """The column with the id of the row that a row is a part of."""
        return f"{(self.whole or '').removesuffix('s')}_id"

    def of_head(self, head: str) -> tuple[IronicColumn, ...]:
        """Return the columns that a revision has; none before the table's own."""
        known = rules.HEADS[: rules.HEADS.index(head) + 1]
        return tuple(one for one in self.columns if one.since in known and self.since in known)

    def version(self, head: str) -> str | None:
        """Return the object version that the releases of a revision write."""
        known = rules.HEADS[: rules.HEADS.index(head) + 1]
        found = (text for since, text in reversed(self.versions) if since in known)
        return next(found, None) if self.since in known else None


NUMBER, TEXT, FLAG, TIME, JSON = ColumnForm


def _columns(
    form: ColumnForm,
    names: str,
    rule: rules.ColumnRule = rules.SAME,
    *,
    since: str = rules.FIRST,
    ours: str | None = "",
) -> Iterator[IronicColumn]:
    """Yield columns of one form and rule.

    :param ours: the column here; "" for the same name, and a name that ends in a slash for the
        object that holds all of them.
    """
    for name in names.split():
        target = f"{ours}{name}" if ours is not None and (not ours or ours[-1] == "/") else ours
        yield IronicColumn(name, form, since, target, rule)


def _left(form: ColumnForm, names: str, since: str = rules.FIRST) -> Iterator[IronicColumn]:
    """Yield columns whose values have no place of their own here."""
    return _columns(form, names, since=since, ours=None)


def _times(*, kept: bool = True) -> Iterator[IronicColumn]:
    """Yield the columns that each table has."""
    yield from _columns(TIME, "created_at", rules.MADE, ours="" if kept else None)
    yield from _columns(TIME, "updated_at", ours="" if kept else None)
    yield from _left(TEXT, "version")


def _keys() -> Iterator[IronicColumn]:
    yield from _left(NUMBER, "id")
    yield from _columns(TEXT, "uuid", rules.UUID)
    yield from _times()


def _of_node() -> Iterator[IronicColumn]:
    return _columns(NUMBER, "node_id", rules.NODE, ours="node_uuid")


_NODES = IronicTable(
    "nodes",
    "nodes",
    (
        *_keys(),
        *_columns(TEXT, "name owner lessee shard resource_class description boot_mode"),
        *_columns(TEXT, "protected_reason retired_reason"),
        *_columns(TEXT, "instance_name", since="15e9d00367b0"),
        *_columns(TEXT, "instance_uuid parent_node", rules.UUID),
        *_columns(
            JSON, "extra properties network_data raid_config target_raid_config", rules.OBJECT
        ),
        *_columns(FLAG, "protected retired console_enabled", rules.OFF),
        *_columns(FLAG, "disable_power_off", rules.OFF, since="6e9cf6acce0b"),
        *_columns(FLAG, "automated_clean secure_boot"),
        *_columns(FLAG, "maintenance", rules.MAINTENANCE),
        *_columns(TEXT, "maintenance_reason", rules.REASON),
        *_columns(TEXT, "fault", rules.FAULT),
        *_columns(TEXT, "last_error", rules.ERROR),
        *_columns(TEXT, "health", rules.KNOWN, since="9f8c7d6e5b4a"),
        *_columns(TIME, "inspection_started_at inspection_finished_at"),
        *_columns(TIME, "provision_updated_at", rules.MOVED),
        *_columns(TEXT, "provision_state", rules.STATE),
        *_columns(TEXT, "target_provision_state", rules.TARGET),
        *_columns(TEXT, "power_state", rules.POWER),
        *_left(TEXT, "target_power_state reservation"),
        *_left(NUMBER, "conductor_affinity"),
        *_left(JSON, "clean_step deploy_step service_step"),
        *_columns(TEXT, "conductor_group", rules.GROUP),
        *_columns(NUMBER, "chassis_id", rules.reference("chassis"), ours="chassis_uuid"),
        *_columns(
            NUMBER,
            "allocation_id",
            rules.ALLOCATION,
            ours="allocation_uuid",
        ),
        *_columns(TEXT, rules.DRIVER, rules.HARDWARE_TYPE),
        *(
            column
            for place, kind in enumerate(fields.INTERFACE_KINDS)
            for column in _columns(TEXT, f"{kind}_interface", rules.interface(place))
        ),
        *_columns(JSON, "driver_info", rules.DRIVER_INFO),
        *_columns(JSON, "driver_internal_info", rules.NOTES),
        *_columns(JSON, "instance_info", rules.INSTANCE),
    ),
    (
        *((rules.FIRST, "1.40"), ("6e9cf6acce0b", "1.41"), (_REMOTABLE, "1.42")),
        *(("15e9d00367b0", "1.43"), ("9f8c7d6e5b4a", "1.44")),
    ),
    {"data_state": "unknown", "clean_step": {}, "deploy_step": {}, "service_step": {}},
)
_PORTS = IronicTable(
    "ports",
    "ports",
    (
        *_keys(),
        *_of_node(),
        *_columns(TEXT, "name physical_network"),
        *_columns(TEXT, "address", rules.LOWER),
        *_columns(TEXT, "description", since="1c14278d6e33"),
        *_columns(TEXT, "vendor category", since=_REMOTABLE),
        *_columns(JSON, "extra local_link_connection", rules.OBJECT),
        *_columns(JSON, "internal_info", rules.PORT_NOTES),
        *_columns(FLAG, "pxe_enabled", rules.ON),
        *_columns(FLAG, "is_smartnic", rules.OFF),
        *_columns(FLAG, "available_for_dynamic_portgroup", rules.ON, since=_DYNAMIC_PORTGROUPS),
        *_columns(NUMBER, "portgroup_id", rules.reference("portgroups"), ours="portgroup_uuid"),
    ),
    (
        *((rules.FIRST, "1.11"), ("1c14278d6e33", "1.12"), (_REMOTABLE, "1.15")),
        (_DYNAMIC_PORTGROUPS, "1.16"),
    ),
    whole="nodes",
)
_PORTGROUPS = IronicTable(
    "portgroups",
    "portgroups",
    (
        *_keys(),
        *_of_node(),
        *_columns(TEXT, "name"),
        *_columns(TEXT, "address", rules.LOWER),
        *_columns(TEXT, "physical_network category", since="15e9d00367b0"),
        *_columns(TEXT, "mode", rules.MODE),
        *_columns(JSON, "extra properties", rules.OBJECT),
        *_columns(JSON, "internal_info", rules.PORT_NOTES),
        *_columns(FLAG, "standalone_ports_supported", rules.ON),
        *_columns(FLAG, "dynamic_portgroup", rules.OFF, since=_DYNAMIC_PORTGROUPS),
    ),
    (
        *((rules.FIRST, "1.5"), (_REMOTABLE, "1.6"), ("15e9d00367b0", "1.8")),
        (_DYNAMIC_PORTGROUPS, "1.9"),
    ),
    whole="nodes",
)
_SETTINGS = IronicTable(
    "bios_settings",
    "bios_settings",
    (
        *_of_node(),
        *_times(),
        *_columns(TEXT, "name attribute_type"),
        *_columns(TEXT, "value", rules.SETTING),
        *_columns(JSON, "allowable_values"),
        *_columns(NUMBER, "lower_bound upper_bound min_length max_length"),
        *_columns(FLAG, "read_only reset_required unique"),
    ),
    ((rules.FIRST, "1.1"), (_REMOTABLE, "1.2")),
    whole="nodes",
)
_FIRMWARE = IronicTable(
    "firmware_information",
    "firmware_components",
    (
        *_left(NUMBER, "id"),
        *_of_node(),
        *_times(),
        *_columns(TEXT, "component initial_version current_version last_version_flashed"),
        *_columns(TEXT, "vendor model serial_number", since="9fb44677ef15"),
    ),
    ((rules.FIRST, "1.0"), (_REMOTABLE, "1.1"), ("9fb44677ef15", "1.2")),
    whole="nodes",
)
_HISTORY = IronicTable(
    "node_history",
    "events",
    (
        *_left(NUMBER, "id"),
        *_of_node(),
        *_left(TEXT, "uuid"),
        *_columns(TIME, "created_at", rules.MADE, ours="at"),
        *_left(TIME, "updated_at"),
        *_left(TEXT, "version"),
        *_columns(TEXT, "conductor"),
        *_columns(TEXT, "user", ours="requester"),
        *_columns(TEXT, "event", ours="data/error"),
        *_columns(TEXT, "event_type severity", ours="data/"),
        *_columns(TEXT, "project", since="16990309ad9d", ours="data/project"),
        *_columns(TEXT, "state", since="9fb44677ef15", ours="data/state"),
        *_columns(TEXT, "target_provision_state", since="9fb44677ef15", ours="data/target"),
        *_columns(NUMBER, "duration_seconds", since="9fb44677ef15", ours="data/seconds"),
    ),
    ((rules.FIRST, "1.0"), (_REMOTABLE, "1.1"), ("16990309ad9d", "1.2"), ("9fb44677ef15", "1.3")),
    {"kind": history.OF_IRONIC},
    whole="nodes",
)
_STEP = (
    *_left(NUMBER, "id"),
    *_times(kept=False),
    *_columns(TEXT, "interface step"),
    *_columns(JSON, "args", rules.OBJECT),
)

TABLES: Mapping[str, IronicTable] = {
    table.name: table
    for table in (
        IronicTable(
            "chassis",
            "chassis",
            (*_keys(), *_columns(TEXT, "description"), *_columns(JSON, "extra", rules.OBJECT)),
            ((rules.FIRST, "1.3"), (_REMOTABLE, "1.4")),
        ),
        _NODES,
        IronicTable(
            "node_traits",
            "node_traits",
            (*_of_node(), *_times(kept=False), *_columns(TEXT, "trait")),
            ((rules.FIRST, "1.0"), (_REMOTABLE, "1.1")),
            whole="nodes",
        ),
        IronicTable(
            "node_tags",
            None,
            (*_of_node(), *_times(kept=False), *_left(TEXT, "tag")),
            whole="nodes",
        ),
        _PORTGROUPS,
        _PORTS,
        IronicTable(
            "volume_connectors",
            "volume_connectors",
            (
                *_keys(),
                *_of_node(),
                *_columns(TEXT, "type connector_id"),
                *_columns(JSON, "extra", rules.OBJECT),
            ),
            ((rules.FIRST, "1.0"), (_REMOTABLE, "1.1")),
            whole="nodes",
        ),
        IronicTable(
            "volume_targets",
            "volume_targets",
            (
                *_keys(),
                *_of_node(),
                *_columns(TEXT, "volume_type volume_id"),
                *_columns(NUMBER, "boot_index"),
                *_columns(JSON, "extra properties", rules.OBJECT),
            ),
            ((rules.FIRST, "1.0"), (_REMOTABLE, "1.1")),
            whole="nodes",
        ),
        _SETTINGS,
        _FIRMWARE,
        IronicTable(
            "node_inventory",
            "inventories",
            (
                *_left(NUMBER, "id"),
                *_of_node(),
                *_times(),
                *_columns(JSON, "inventory_data", rules.OBJECT, ours="inventory"),
                *_columns(JSON, "plugin_data", rules.OBJECT),
            ),
            ((rules.FIRST, "1.0"), (_REMOTABLE, "1.1")),
            whole="nodes",
        ),
        IronicTable(
            "allocations",
            "allocations",
            (
                *_keys(),
                *_columns(NUMBER, "node_id", rules.ALLOCATED, ours="node_uuid"),
                *_columns(TEXT, "name owner resource_class"),
                *_columns(TEXT, "state", rules.ALLOCATION_STATE),
                *_columns(TEXT, "last_error", rules.ALLOCATION_ERROR),
                *_columns(JSON, "traits candidate_nodes", rules.LIST),
                *_columns(JSON, "extra", rules.OBJECT),
                *_left(NUMBER, "conductor_affinity"),
            ),
            ((rules.FIRST, "1.1"), (_REMOTABLE, "1.3")),
        ),
        IronicTable(
            "deploy_templates",
            "deploy_templates",
            (*_keys(), *_columns(TEXT, "name"), *_columns(JSON, "extra", rules.OBJECT)),
            ((rules.FIRST, "1.1"), (_REMOTABLE, "1.2")),
        ),
        IronicTable(
            "deploy_template_steps",
            None,
            (
                *_STEP,
                *_left(NUMBER, "deploy_template_id"),
                *_columns(NUMBER, "priority", rules.or_default(0)),
            ),
            whole="deploy_templates",
        ),
        IronicTable(
            "runbooks",
            "runbooks",
            (
                *_keys(),
                *_columns(TEXT, "name owner"),
                *_columns(TEXT, "description", since=rules.RUNBOOK_TRAITS),
                *_columns(FLAG, "public disable_ramdisk", rules.OFF),
                *_columns(JSON, "extra", rules.OBJECT),
            ),
            ((rules.FIRST, "1.0"), (_REMOTABLE, "1.1"), (rules.RUNBOOK_TRAITS, "1.2")),
            since=_RUNBOOKS,
        ),
        IronicTable(
            "runbook_steps",
            None,
            (*_STEP, *_left(NUMBER, "runbook_id"), *_columns(NUMBER, "order", rules.or_default(0))),
            since=_RUNBOOKS,
            whole="runbooks",
        ),
        IronicTable(
            "runbook_traits",
            None,
            (
                *_left(NUMBER, "runbook_id"),
                *_times(kept=False),
                *_columns(TEXT, "trait"),
            ),
            ((rules.FIRST, "1.0"),),
            since=rules.RUNBOOK_TRAITS,
            whole="runbooks",
        ),
        IronicTable(
            "inspection_rules",
            "inspection_rules",
            (
                *_keys(),
                *_columns(TEXT, "description"),
                *_columns(NUMBER, "priority", rules.or_default(0)),
                *_columns(FLAG, "sensitive", rules.OFF),
                *_columns(TEXT, "phase", rules.or_default("main")),
                *_left(TEXT, "scope"),
                *_columns(JSON, "conditions", rules.CONDITIONS),
                *_columns(JSON, "actions", rules.LIST),
            ),
            ((rules.FIRST, "1.0"), (_REMOTABLE, "1.1")),
            since=_RULES,
        ),
        _HISTORY,
        IronicTable(
            "conductors",
            None,
            (
                *_left(NUMBER, "id"),
                *_times(kept=False),
                *_left(TEXT, "hostname conductor_group"),
                *_left(JSON, "drivers"),
                *_left(FLAG, "online"),
            ),
        ),
        IronicTable(
            "conductor_hardware_interfaces",
            None,
            (
                *_left(NUMBER, "id conductor_id"),
                *_times(kept=False),
                *_left(TEXT, "hardware_type interface_type interface_name"),
                *_left(FLAG, "default"),
            ),
        ),
    )
}
"""By name, each after those that it refers to, apart from allocations."""
OF_NODES = tuple(table.name for table in TABLES.values() if table.whole == "nodes")
"""Tables whose rows are parts of nodes."""
STEPS: Mapping[str, IronicTable] = {
    table.whole: table
    for table in TABLES.values()
    if table.whole and any(one.name == "step" for one in table.columns)
}
"""Tables with the steps of the rows of another one, by its name."""
SHARED = ("chassis", *STEPS, "inspection_rules")
"""Tables here whose rows belong to no node."""


def parts(name: str) -> tuple[IronicTable, ...]:
    """Return the tables whose rows are parts of rows of a table, each after those it refers to."""
    return tuple(table for table in TABLES.values() if table.whole == name)


# Translations.


def translate(table: IronicTable, row: JsonView, move: rules.Move) -> Json:
    """Return our row of a row there, or the part of one: a step, or a trait.

    :param row: the columns of the head there, JSON decoded.
    """
    found: Json = dict(table.added)
    for source, name, key, here in _translations(table.name, move.head):
        value = here(row[source], row, move)
        if key:
            found[name] = {**found.get(name, {}), key: value}
        else:
            found[name] = value
    return found


@functools.cache
def _translations(name: str, head: str) -> tuple[tuple[str, str, str, rules.Here], ...]:
    """Return the columns there that have one here, its name, the key in it, and the rule."""
    columns = ((one, one.ours.partition("/")) for one in TABLES[name].of_head(head) if one.ours)
    return tuple((one.name, ours, key, one.rule.here) for one, (ours, _, key) in columns)


def reverse(table: IronicTable, ours: JsonView, theirs: JsonView, move: rules.Move) -> Json:
    """Return the columns there that a row of ours decides.

    :param theirs: the row there, empty for a new one.
    """
    found: Json = {}
    for column in table.of_head(move.head):
        if column.ours is None:
            continue
        name, _, key = column.ours.partition("/")
        value = (ours[name] or {}).get(key) if key else ours[name]
        back = column.rule.there(value, ours, theirs, move)
        if back is not rules.ABSENT:
            found[column.name] = back
    return found


def changes(table: IronicTable, theirs: JsonView, ours: JsonView, move: rules.Move) -> Json:
    """Return the columns there, with their new values, that differ here since the import."""
    before = reverse(table, translate(table, theirs, move), theirs, move)
    after = reverse(table, ours, theirs, move)
    return {
        name: value
        for name, value in after.items()
        if not rules.equal(value, theirs[name])
        and not (name in before and rules.equal(value, before[name]))
    }
