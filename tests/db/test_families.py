"""Ports, traits, conductors."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import conductors, ports, traits
from tests.support.database_rows import NOON, add_node, get_node, lock_node, new_uuid
from tests.support.statements import count_statements

MAC = "52:54:00:00:00:0{}"
UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
MINUTE = datetime.timedelta(minutes=1)


def add_port(database: Database, node: str, number: int, **values: Any) -> str:
    """Insert a port and return its UUID."""
    row = {"uuid": new_uuid(), "address": MAC.format(number), "node_uuid": node, **values}
    database.write(lambda conn: ports.insert(conn, row))
    return str(row["uuid"])


# -- ports -----------------------------------------------------------------------------------


def test_a_port_is_found_by_uuid_address_and_name(database: Database) -> None:
    port = add_port(database, add_node(database), 1, name="left")
    for ident in (port, port.upper(), MAC.format(1).upper(), "left"):
        row = database.read(lambda conn, ident=ident: ports.get(conn, ident))  # type: ignore[misc]
        assert row["uuid"] == port
        assert (row["pxe_enabled"], row["is_smartnic"]) == (True, False)
    with pytest.raises(errors.PortNotFound):
        database.read(lambda conn: ports.get(conn, "right"))


@pytest.mark.parametrize(
    ("key", "value"), [("address", MAC.format(1)), ("name", "left"), ("uuid", UUID)]
)
def test_a_ports_taken_unique_value_is_named(database: Database, key: str, value: str) -> None:
    node = add_node(database)
    add_port(database, node, 1, **{key: value})
    called = "MAC address" if key == "address" else key
    with pytest.raises(errors.Duplicate, match=f"A port with {called} {value} already exists"):
        add_port(database, node, 2, **{key: value})


def test_a_port_needs_its_node(database: Database) -> None:
    with pytest.raises(errors.NodeNotFound):
        add_port(database, new_uuid(), 1)


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


def test_a_port_is_changed_and_removed(database: Database) -> None:
    node, other = add_node(database), add_node(database)
    port = add_port(database, node, 1)
    add_port(database, node, 2)
    database.write(lambda conn: ports.update(conn, port, {"node_uuid": other, "extra": {"a": 1}}))
    row = database.read(lambda conn: ports.get(conn, port))
    assert (row["node_uuid"], row["extra"]) == (other, {"a": 1})
    with pytest.raises(errors.Duplicate, match="address"):
        database.write(lambda conn: ports.update(conn, port, {"address": MAC.format(2)}))
    database.write(lambda conn: ports.delete(conn, port))
    acts: list[Callable[[Connection], Any]] = [
        lambda conn: ports.delete(conn, port),
        lambda conn: ports.update(conn, port, {}),
    ]
    for act in acts:
        with pytest.raises(errors.PortNotFound):
            database.write(act)


# -- traits ----------------------------------------------------------------------------------


def test_traits_change_the_generation_of_their_node(database: Database) -> None:
    node = add_node(database)

    def get() -> list[str]:
        return database.read(lambda conn: traits.get(conn, node))

    database.write(lambda conn: traits.replace(conn, node, ["B", "A", "B"], generation=0))
    assert get() == ["A", "B"]
    database.write(lambda conn: traits.add(conn, node, "C", generation=1))
    database.write(lambda conn: traits.add(conn, node, "C", generation=2))
    assert get() == ["A", "B", "C"]
    database.write(lambda conn: traits.remove(conn, node, "A", generation=3))
    assert get() == ["B", "C"]
    database.write(lambda conn: traits.replace(conn, node, [], generation=4))
    assert get() == []
    assert get_node(database, node)["generation"] == 5


def test_traits_of_a_locked_or_changed_node_stay(database: Database) -> None:
    node = add_node(database)
    with pytest.raises(errors.Conflict):
        database.write(lambda conn: traits.add(conn, node, "A", generation=7))
    lock_node(database, node, "mine")
    with pytest.raises(errors.NodeLocked):
        database.write(lambda conn: traits.replace(conn, node, ["A"], generation=0))
    assert database.read(lambda conn: traits.get(conn, node)) == []


def test_a_refused_trait_changes_nothing(database: Database) -> None:
    node = add_node(database)
    many = [f"T{number}" for number in range(traits.LIMIT)]
    with pytest.raises(errors.InvalidParameter, match="50 traits at most"):
        database.write(lambda conn: traits.replace(conn, node, [*many, "X"], generation=0))
    database.write(lambda conn: traits.replace(conn, node, many, generation=0))
    with pytest.raises(errors.InvalidParameter):
        database.write(lambda conn: traits.add(conn, node, "X", generation=1))
    with pytest.raises(errors.NotFound, match="doesn't have a trait 'X'"):
        database.write(lambda conn: traits.remove(conn, node, "X", generation=1))
    assert get_node(database, node)["generation"] == 1
    assert len(database.read(lambda conn: traits.get(conn, node))) == traits.LIMIT


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
