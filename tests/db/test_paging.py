"""Pages walk every row once, in one order on all databases, whatever is sorted by."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import chassis, nodes, ports
from ironic_lite.db.tables import models
from ironic_lite.domain import fields
from tests.support.database_rows import NOON, add_node, new_uuid
from tests.support.statements import count_statements

SORTABLE = sorted(
    {field.stored for field in fields.NODE if field.sort and field.stored is not None} | {"id"}
)
# Few values for many rows, so that ties and NULL are everywhere; letters that languages order
# differently from code points.
_TEXTS = (None, "a", "B", "ä", "b", "_", "Z", "a b", "\N{PILE OF POO}")
_ROWS = 14


def sample(number: int, chassis_uuids: list[str]) -> dict[str, Any]:
    """Return values for all sortable columns of one node."""
    values: dict[str, Any] = {}
    for place, column in enumerate(models.nodes.c):
        value = _value(column, number + place)
        if value is not None:
            values[column.key] = value
    values.update(uuid=new_uuid(), chassis_uuid=(None, *chassis_uuids)[number % 3])
    for unique in ("name", "instance_uuid"):
        values[unique] = None if number % 4 == 0 else f"{_TEXTS[1 + number % 8]}{number}"
    return values


def _value(column: Any, number: int) -> Any:
    if column.key == "id" or column.type.python_type is dict:
        return None
    if column.nullable and number % 4 == 0:
        return None
    if column.type.python_type is bool:
        return number % 2 == 1
    if column.type.python_type is datetime.datetime:
        return NOON + datetime.timedelta(microseconds=number % 3)
    if column.type.python_type is int:
        return number % 5
    return str(_TEXTS[1 + number % 8])


def fill(database: Database) -> list[dict[str, Any]]:
    """Add the sample and return all rows as stored."""
    racks = [new_uuid(), new_uuid()]
    for uuid in racks:
        database.write(lambda conn, uuid=uuid: chassis.insert(conn, {"uuid": uuid}))  # type: ignore[misc]
    for number in range(_ROWS):
        add_node(database, **sample(number, racks))
    return listed(database, {"include_children": True})


def listed(database: Database, where: Mapping[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Return one page."""
    return database.read(lambda conn: nodes.page(conn, columns=None, where=where, **more))


def test_every_sort_key_walks_each_row_once_and_in_order(database: Database) -> None:
    rows = fill(database)
    assert len(rows) == _ROWS
    for sort in SORTABLE:
        for direction in ("asc", "desc"):
            expected = sorted(
                rows,
                key=lambda row, sort=sort: (
                    (row[sort] is not None, row[sort] or 0, row["id"])  # type: ignore[misc]
                    if not isinstance(row[sort], str | datetime.datetime)
                    else (True, row[sort], row["id"])
                ),
                reverse=direction == "desc",
            )
            walked: list[str] = []
            marker = None
            while some := listed(
                database,
                {"include_children": True},
                sort=sort,
                direction=direction,
                marker_id=marker,
                limit=3,
            ):
                walked += [row["uuid"] for row in some]
                marker = walked[-1]
            assert walked == [row["uuid"] for row in expected], (sort, direction)


def test_a_page_after_a_marker_is_one_statement(database: Database) -> None:
    first = add_node(database, name="a")
    add_node(database, name="b")
    for sort in ("id", "name"):
        with count_statements(database) as sent:
            rows = listed(database, {}, sort=sort, marker_id=first)
        assert [row["name"] for row in rows] == ["b"]
        assert len(sent) == 1, sent


def test_an_unknown_marker_is_not_found_but_the_last_one_ends_the_list(database: Database) -> None:
    node = add_node(database)
    assert listed(database, {}, marker_id=node) == []
    for sort in ("id", "name"):
        with pytest.raises(errors.NotFound):
            listed(database, {}, sort=sort, marker_id=new_uuid())


def test_row_of_another_project_is_an_unknown_marker(database: Database) -> None:
    """Of nodes, and of what hangs below them, which is found by what its node is."""
    node = [add_node(database, owner=owner) for owner in ("a", "b", "a")]
    port = [new_uuid() for _ in node]
    for number, mine in enumerate(zip(node, port, strict=True)):
        row = {"node_uuid": mine[0], "uuid": mine[1], "address": f"52:54:00:00:00:0{number}"}
        database.write(lambda conn, row=row: ports.insert(conn, row))  # type: ignore[misc]
    for family, uuids in ((nodes.LISTING, node), (ports.FAMILY.listing, port)):
        for sort in ("id", "uuid"):
            after: dict[str, Any] = {"marker_id": uuids[0], "where": {"project": "a"}, "sort": sort}
            order = "asc" if sort == "id" or uuids[0] < uuids[2] else "desc"
            found = database.read(lambda conn: family.page(conn, **after, direction=order))  # noqa: B023
            assert [row["uuid"] for row in found] == [uuids[2]]
            after["marker_id"] = uuids[1]
            for direction in ("asc", "desc"):
                with pytest.raises(errors.NotFound):
                    database.read(lambda conn: family.page(conn, **after, direction=direction))  # noqa: B023


def test_row_of_another_node_is_an_unknown_marker(database: Database) -> None:
    """Where what one node has is listed."""
    node = [add_node(database), add_node(database)]
    port = sorted(new_uuid() for _ in range(3))
    for number, (uuid, mine) in enumerate(zip(port, (0, 1, 0), strict=True)):
        row = {"node_uuid": node[mine], "uuid": uuid, "address": f"52:54:00:00:00:0{number}"}
        database.write(lambda conn, row=row: ports.insert(conn, row))  # type: ignore[misc]

    def after(marker: str, **more: Any) -> list[str]:
        where = {"node_uuid": node[0]}
        found = database.read(lambda conn: ports.page(conn, where=where, marker_id=marker, **more))
        return [row["uuid"] for row in found]

    for sort in ("id", "uuid"):
        assert after(port[0], sort=sort) == [port[2]]
        for direction in ("asc", "desc"):
            with pytest.raises(errors.NotFound):
                after(port[1], sort=sort, direction=direction)


# -- filters ---------------------------------------------------------------------------------


def names(database: Database, **where: Any) -> list[str]:
    """Return the names of the nodes that a filter picks."""
    return [row["name"] for row in listed(database, where)]


@pytest.fixture
def fleet(database: Database) -> dict[str, str]:
    """Four nodes that differ; name -> UUID."""
    uuids = {
        "a": add_node(database, name="a", instance_uuid=new_uuid(), shard="s1", owner="me"),
        "b": add_node(database, name="b", maintenance=True, shard="s2", lessee="me"),
        "c": add_node(database, name="c", driver="redfish", retired=True, fault="power failure"),
    }
    uuids["d"] = add_node(database, name="d", parent_node=uuids["a"], owner="you")
    return uuids


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, "abc"),
        ({"include_children": True}, "abcd"),
        ({"include_children": False}, "abc"),
        ({"associated": True}, "a"),
        ({"associated": False}, "bc"),
        ({"maintenance": True}, "b"),
        ({"maintenance": False, "include_children": True}, "acd"),
        ({"retired": True}, "c"),
        ({"fault": "power failure"}, "c"),
        ({"fault": None}, "ab"),
        ({"driver": "redfish"}, "c"),
        ({"provision_state": "manageable"}, "abc"),
        ({"provision_state": ["enroll", "manageable"]}, "abc"),
        ({"shard": ["s1", "s2"]}, "ab"),
        ({"shard": []}, ""),
        ({"sharded": True}, "ab"),
        ({"sharded": False}, "c"),
        ({"project": "me"}, "ab"),
        ({"owner": "you", "include_children": True}, "d"),
        ({"uuids": []}, ""),
        ({"name": "b", "maintenance": True}, "b"),
        ({"name": "b", "maintenance": False}, ""),
    ],
)
def test_a_filter_picks(
    database: Database, fleet: dict[str, str], where: dict[str, Any], expected: str
) -> None:
    assert names(database, **where) == list(expected)


def test_children_are_listed_by_their_parent(database: Database, fleet: dict[str, str]) -> None:
    assert names(database, parent_node=fleet["a"]) == ["d"]
    assert names(database, uuids=[fleet["a"], fleet["c"], new_uuid()]) == ["a", "c"]


@pytest.mark.parametrize(
    "wanted", ["%", "_", "!", "\\", "'", '"', "50%", "a_c", "x!y", "back\\slash", "emoji 😀"]
)
def test_description_filter_has_no_wildcards(database: Database, wanted: str) -> None:
    add_node(database, name="hit", description=f"there is {wanted.upper()} in it")
    add_node(database, name="miss", description="there 50 abc xy backslash emoji is none in it")
    add_node(database, name="empty")
    assert names(database, description_contains=wanted) == ["hit"]


def test_a_filter_and_a_marker_go_together(database: Database, fleet: dict[str, str]) -> None:
    found = listed(
        database,
        {"sharded": True, "maintenance": [True, False]},
        marker_id=fleet["a"],
        sort="shard",
    )
    assert [row["name"] for row in found] == ["b"]
