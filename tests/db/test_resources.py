"""Resources beside nodes: ports, portgroups, traits, volumes, conductors and deploy templates."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import allocations, conductors, nodes, ports, resources
from ironic_lite.db.queries.resources import ResourceTable
from ironic_lite.records import StoredTemplate
from tests.support.database_rows import NOON, add_node, get_node, lock_node, new_uuid
from tests.support.resource_families import FAMILIES, PRIORITISED
from tests.support.statements import count_statements

MAC = "52:54:00:00:00:0{}"
UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
MINUTE = datetime.timedelta(minutes=1)


def add_port(database: Database, node: str, number: int, **values: Any) -> str:
    """Insert a port and return its UUID."""
    row = {"uuid": new_uuid(), "address": MAC.format(number), "node_uuid": node, **values}
    database.write(lambda conn: ports.insert(conn, row))
    return str(row["uuid"])


# -- the contract of all families ------------------------------------------------------------

TABLES: Mapping[str, ResourceTable] = {
    "port": ports.FAMILY,
    "portgroup": ports.PORTGROUPS,
    "connector": resources.VOLUME_CONNECTORS,
    "target": resources.VOLUME_TARGETS,
    "chassis": resources.CHASSIS,
    "template": resources.DEPLOY_TEMPLATES,
    "runbook": resources.RUNBOOKS,
    "rule": resources.INSPECTION_RULES,
    "allocation": allocations.FAMILY,
}
NEEDED: Mapping[str, dict[str, Any]] = {
    "rule": {"phase": "main"},
    "allocation": {"state": "allocating"},
}
"""Columns without a default that the API fills."""
DEFAULTS: Mapping[str, dict[str, Any]] = {"port": {"pxe_enabled": True, "is_smartnic": False}}
"""Columns that the database fills."""
STEP = {
    "interface": "bios",
    "step": "apply_configuration",
    "args": {"settings": [{"name": "Ü😀", "value": None}], "deep": {"a": [1, 1.5, True]}},
    "priority": 150,
}
every = pytest.mark.parametrize("kind", TABLES)
of_node = pytest.mark.parametrize("kind", [kind for kind in TABLES if FAMILIES[kind].of_node])


def add(database: Database, kind: str, number: int = 0, **values: Any) -> str:
    """Insert a row, on a new node if it needs one, and return its UUID."""
    family = FAMILIES[kind]
    row = {"uuid": new_uuid(), **NEEDED.get(kind, {}), **family.values(number), **values}
    if family.of_node and "node_uuid" not in row:
        row["node_uuid"] = add_node(database)
    database.write(lambda conn: TABLES[kind].insert(conn, row))
    return str(row["uuid"])


def read(database: Database, kind: str, ident: str) -> dict[str, Any]:
    """Return a row."""
    return database.read(lambda conn: TABLES[kind].get(conn, ident))


def not_found(kind: str, ident: str) -> Any:
    """Return the block in which a row is reported as absent."""
    text = f"{FAMILIES[kind].word.capitalize()} {ident} could not be found"
    return pytest.raises(errors.NotFound, match=text)


@every
def test_row_is_found_as_it_was_written(database: Database, kind: str) -> None:
    named = {"name": "CUSTOM_A"} if FAMILIES[kind].named else {}
    given = {**FAMILIES[kind].values(0xAB), **named, "created_at": NOON}  # an address with letters
    if kind == "template":
        given |= {"steps": [{**PRIORITISED, "priority": 2**53}, STEP], "extra": {"a": "b"}}
    uuid = add(database, kind, **given)
    add(database, kind, 1)
    addresses = [given["address"], given["address"].upper()] if kind == "port" else []
    for ident in (uuid, uuid.upper(), *named.values(), *addresses):
        row = read(database, kind, ident)
        stored = {**given, **DEFAULTS.get(kind, {})}
        assert {name: row[name] for name in stored} == stored
        assert (row["uuid"], row["updated_at"]) == (uuid, None)
    for ident in (new_uuid(), *(("CUSTOM_B", "custom_a", "") if named else ())):
        with not_found(kind, ident):
            read(database, kind, ident)


UNIQUE: list[tuple[str, dict[str, Any], str]] = [
    ("port", {"address": MAC.format(1)}, f"MAC address {MAC.format(1)}"),
    ("port", {"name": "left"}, "name left"),
    ("portgroup", {"address": MAC.format(1)}, f"MAC address {MAC.format(1)}"),
    ("portgroup", {"name": "bond0"}, "name bond0"),
    ("connector", {"type": "iqn", "connector_id": "a"}, "type iqn and connector ID a"),
    ("target", {"boot_index": 7}, "boot index '7' for the same node"),
    ("template", {"name": "CUSTOM_A"}, "name CUSTOM_A"),
    ("runbook", {"name": "book"}, "name book"),
    ("allocation", {"name": "web"}, "name web"),
    ("allocation", {"node_uuid": None}, "node_uuid {node}"),
    *((kind, {"uuid": UUID}, f"uuid {UUID}") for kind in TABLES),
]


@pytest.mark.parametrize(("kind", "values", "named"), UNIQUE)
def test_value_in_use_is_named(
    database: Database, kind: str, values: dict[str, Any], named: str
) -> None:
    node = add_node(database)
    owner = {"node_uuid": node} if {"node_uuid", "boot_index"} & values.keys() else {}
    add(database, kind, **{**values, **owner})
    said = f"{FAMILIES[kind].word} with {named.replace('{node}', node)} already exists"
    with pytest.raises(errors.Duplicate, match=said):
        add(database, kind, 1, **{**values, **owner})
    if "uuid" not in values:
        other = add(database, kind, 1, **({"node_uuid": node} if kind == "target" else {}))
        change = {**values, **owner}
        with pytest.raises(errors.Duplicate, match=said):
            database.write(lambda conn: TABLES[kind].update(conn, other, change))


@every
def test_row_is_changed_and_removed(database: Database, kind: str) -> None:
    table, uuid, other = TABLES[kind], add(database, kind), add(database, kind, 1)
    change: dict[str, Any] = {"priority": 9} if kind == "rule" else {"extra": {"a": 1}}
    if FAMILIES[kind].of_node:
        change["node_uuid"] = add_node(database)
    if kind == "template":
        change["steps"] = [{**STEP, "priority": 0}]
    database.write(lambda conn: table.update(conn, uuid, {**change, "updated_at": NOON}))
    row = read(database, kind, uuid)
    assert {name: row[name] for name in change} == change
    assert (row["updated_at"], read(database, kind, other)["updated_at"]) == (NOON, None)
    for ident in (uuid.upper(), read(database, kind, other).get("name") or other):
        delete = functools.partial(table.delete, ident=ident)
        database.write(delete)
        with not_found(kind, ident):
            database.write(delete)
    with not_found(kind, uuid):
        database.write(lambda conn: table.update(conn, uuid, change))


@of_node
def test_row_goes_with_its_node(database: Database, kind: str) -> None:
    node = add_node(database)
    uuid = add(database, kind, node_uuid=node)
    assert lock_node(database, node, "mine")
    database.write(lambda conn: nodes.delete(conn, node, token="mine"))
    with not_found(kind, uuid):
        read(database, kind, uuid)


@of_node
def test_row_needs_its_node(database: Database, kind: str) -> None:
    with pytest.raises(errors.NodeNotFound):
        add(database, kind, node_uuid=new_uuid())


def test_targets_of_two_nodes_have_the_same_boot_index(database: Database) -> None:
    for _ in range(2):
        add(database, "target")


# -- ports -----------------------------------------------------------------------------------


def test_a_nodes_ports_are_records_in_their_order(database: Database) -> None:
    node = add_node(database)
    uuids = [add_port(database, node, number) for number in range(3)]
    add_port(database, add_node(database), 9)
    found = database.read(lambda conn: ports.of_node(conn, node))
    assert [port.uuid for port in found] == uuids
    assert (found[0].extra, found[0].internal_info) == ({}, {})


def test_addresses_lead_to_their_nodes(database: Database) -> None:
    one, other = add_node(database), add_node(database)
    add_port(database, one, 1)
    add_port(database, one, 2)
    add_port(database, other, 3)

    def owners(*numbers: int) -> set[str]:
        macs = [MAC.format(number).upper() for number in numbers]
        found = database.read(lambda conn: ports.by_addresses(conn, macs))
        assert len(found) == len(set(found))
        return set(found)

    assert owners(1, 2) == {one}
    assert owners(2, 3, 7) == {one, other}
    assert owners(7) == owners() == set()


def test_each_address_leads_to_the_node_that_has_it(database: Database) -> None:
    node = add_node(database)
    add_port(database, node, 2)
    macs = [MAC.format(number) for number in (3, 2, 1)]
    assert database.read(lambda conn: ports.owners(conn, macs)) == {macs[1]: node}
    assert database.read(lambda conn: ports.owners(conn, [])) == {}


def test_ports_are_listed_by_what_their_node_is(database: Database) -> None:
    left = add_node(database, shard="s1", conductor_group="g1")
    right = add_node(database, shard="s2")
    first = add_port(database, left, 1, description="100% left")
    second = add_port(database, right, 2)

    def listed(**more: Any) -> list[str]:
        rows = database.read(lambda conn: ports.page(conn, columns=("uuid",), **more))
        return [row["uuid"] for row in rows]

    assert listed() == [first, second]
    assert listed(where={"shard": ["s1", "s3"]}) == [first]
    assert listed(where={"conductor_groups": [""]}) == [second]
    assert listed(where={"node_uuid": right}) == [second]
    assert listed(where={"description_contains": "0%"}) == [first]
    assert listed(sort="address", direction="desc", marker_id=second) == [first]


# -- traits ----------------------------------------------------------------------------------


def test_traits_change_the_generation_of_their_node(database: Database) -> None:
    node = add_node(database)

    def get() -> list[str]:
        return database.read(lambda conn: nodes.get_traits(conn, node))

    database.write(lambda conn: nodes.replace_traits(conn, node, ["B", "A", "B"], generation=0))
    assert get() == ["A", "B"]
    database.write(lambda conn: nodes.add_trait(conn, node, "C", generation=1))
    database.write(lambda conn: nodes.add_trait(conn, node, "C", generation=2))
    assert get() == ["A", "B", "C"]
    database.write(lambda conn: nodes.remove_trait(conn, node, "A", generation=3))
    assert get() == ["B", "C"]
    database.write(lambda conn: nodes.replace_traits(conn, node, [], generation=4))
    assert get() == []
    assert get_node(database, node)["generation"] == 5


def test_traits_of_a_locked_or_changed_node_stay(database: Database) -> None:
    node = add_node(database)
    with pytest.raises(errors.Conflict):
        database.write(lambda conn: nodes.add_trait(conn, node, "A", generation=7))
    lock_node(database, node, "mine")
    with pytest.raises(errors.NodeLocked):
        database.write(lambda conn: nodes.replace_traits(conn, node, ["A"], generation=0))
    assert database.read(lambda conn: nodes.get_traits(conn, node)) == []


def test_a_refused_trait_changes_nothing(database: Database) -> None:
    node = add_node(database)
    many = [f"T{number}" for number in range(nodes.MOST_TRAITS)]
    with pytest.raises(errors.InvalidParameter, match="50 traits at most"):
        database.write(lambda conn: nodes.replace_traits(conn, node, [*many, "X"], generation=0))
    database.write(lambda conn: nodes.replace_traits(conn, node, many, generation=0))
    with pytest.raises(errors.InvalidParameter):
        database.write(lambda conn: nodes.add_trait(conn, node, "X", generation=1))
    with pytest.raises(errors.NotFound, match="doesn't have a trait 'X'"):
        database.write(lambda conn: nodes.remove_trait(conn, node, "X", generation=1))
    assert get_node(database, node)["generation"] == 1
    assert len(database.read(lambda conn: nodes.get_traits(conn, node))) == nodes.MOST_TRAITS


# -- conductors ------------------------------------------------------------------------------

POWER = {"interface_type": "power", "interface_name": "fake", "is_default": True}


def register(database: Database, host: str, *types: str, group: str = "") -> int:
    """Register a conductor at noon that can drive ``types``."""

    def work(conn: Connection) -> int:
        key = conductors.register(conn, host=host, group=group, version="1.0", now=NOON)
        conductors.set_interfaces(conn, key, [{**POWER, "hardware_type": name} for name in types])
        return key

    return database.write(work)


def members(database: Database) -> dict[str, set[str]]:
    """Return host -> hardware types of all."""
    rows = database.read(conductors.members)
    return {row["hostname"]: row["hardware_types"] for row in rows}


def test_a_conductor_that_registers_again_keeps_its_id_and_says_anew_what_it_can(
    database: Database,
) -> None:
    first = register(database, "host-1", "fake-hardware", "redfish")
    assert members(database) == {"host-1": {"fake-hardware", "redfish"}}
    assert register(database, "host-1", "redfish") == first
    assert members(database) == {"host-1": {"redfish"}}


def test_members_are_all_with_their_signs_of_life_by_one_statement(database: Database) -> None:
    register(database, "host-1", "redfish", "fake-hardware")
    register(database, "host-2", group="g")
    assert database.write(lambda conn: conductors.touch(conn, host="host-1", now=NOON + MINUTE))
    database.write(lambda conn: conductors.offline(conn, "host-2", NOON))
    with count_statements(database) as sent:
        rows = database.read(conductors.members)
    assert len(sent) == 1, sent
    assert rows == [
        {
            "hostname": "host-1",
            "conductor_group": "",
            "hardware_types": {"redfish", "fake-hardware"},
            "online": True,
            "updated_at": NOON + MINUTE,
        },
        {
            "hostname": "host-2",
            "conductor_group": "g",
            "hardware_types": set(),
            "online": False,
            "updated_at": NOON,
        },
    ]


def test_touching_an_unknown_conductor_says_so(database: Database) -> None:
    assert not database.write(lambda conn: conductors.touch(conn, host="nobody", now=NOON))
    with pytest.raises(errors.ConductorNotFound):
        database.read(lambda conn: conductors.get(conn, "nobody"))


def test_interfaces_are_listed_with_their_conductor(database: Database) -> None:
    register(database, "host-1", "redfish", group="g")
    register(database, "host-2", "fake-hardware")
    rows = database.read(conductors.interfaces)
    found = [(row["hardware_type"], row["hostname"], row["conductor_group"]) for row in rows]
    assert found == [("fake-hardware", "host-2", ""), ("redfish", "host-1", "g")]
    assert dict(rows[0]) | POWER == rows[0]
    assert (rows[0]["online"], rows[0]["updated_at"]) == (True, NOON)
    assert [row["hostname"] for row in database.read(conductors.all)] == ["host-1", "host-2"]


# -- shards ----------------------------------------------------------------------------------


def test_shards_are_counted(database: Database) -> None:
    for shard in ("b", "a", "a", None):
        add_node(database, shard=shard)
    assert [tuple(one.values()) for one in database.read(nodes.count_by_shard)] == [
        *(("a", 2), (None, 1), ("b", 1)),
    ]


# Deploy templates: found by either name, listed, unique, and asked for by many names at once.


def add_template(database: Database, name: str, **values: Any) -> str:
    """Insert a template and return its UUID."""
    row = {"uuid": new_uuid(), "name": name, "steps": [STEP], **values}
    database.write(lambda conn: resources.DEPLOY_TEMPLATES.insert(conn, row))
    return str(row["uuid"])


def get_template(database: Database, ident: str) -> dict[str, Any]:
    """Return a template."""
    return database.read(lambda conn: resources.DEPLOY_TEMPLATES.get(conn, ident))


def named(database: Database, *names: str) -> list[StoredTemplate]:
    """Return the templates with these names."""
    return database.read(lambda conn: resources.templates_named(conn, names))


def test_templates_are_asked_for_by_many_names_in_one_statement(database: Database) -> None:
    for name in ("CUSTOM_B", "CUSTOM_A", "CUSTOM_C", "HW_CPU_X86_VMX"):
        add_template(database, name, steps=[{**STEP, "step": name}])
    with count_statements(database) as sent:
        found = named(database, "HW_CPU_X86_VMX", "CUSTOM_NONE", "CUSTOM_B", "CUSTOM_A", "CUSTOM_B")
    assert len(sent) == 1, sent
    assert [row["name"] for row in found] == ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"]
    assert found[0] == {"name": "CUSTOM_A", "steps": [{**STEP, "step": "CUSTOM_A"}]}
    with count_statements(database) as sent:
        assert named(database) == []
    assert len(sent) == 0, sent


@pytest.mark.parametrize(
    ("sort", "direction"), [("id", "asc"), ("name", "asc"), ("name", "desc"), ("updated_at", "asc")]
)
def test_pages_walk_the_templates_in_one_order_everywhere(
    database: Database, sort: str, direction: str
) -> None:
    names = ["CUSTOM_A_", "CUSTOM_A", "CUSTOM_B", "CUSTOM_AA", "CUSTOM_A0"]
    uuids = {name: add_template(database, name) for name in names}
    expected = sorted(names, reverse=direction == "desc") if sort == "name" else names

    def page(marker: str | None) -> list[dict[str, Any]]:
        more: dict[str, Any] = {"sort": sort, "direction": direction, "marker_id": marker}
        return database.read(lambda conn: resources.DEPLOY_TEMPLATES.page(conn, limit=2, **more))

    walked: list[str] = []
    marker = None
    while some := page(marker):
        walked += [row["name"] for row in some]
        marker = some[-1]["uuid"]
    assert walked == expected
    assert marker == uuids[expected[-1]]
    with pytest.raises(errors.NotFound):
        page(new_uuid())


def test_changes_of_one_template_follow_each_other(database: Database) -> None:
    uuid = add_template(database, "CUSTOM_A", steps=[])

    def append(number: int) -> None:
        def work(conn: Connection) -> None:
            before = resources.DEPLOY_TEMPLATES.get(conn, uuid, lock_row=True)
            steps = [*before["steps"], {**STEP, "priority": number}]
            resources.DEPLOY_TEMPLATES.update(conn, uuid, {"steps": steps})

        database.write(work)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(append, range(20)))
    numbers = [step["priority"] for step in get_template(database, uuid)["steps"]]
    assert sorted(numbers) == list(range(20))
