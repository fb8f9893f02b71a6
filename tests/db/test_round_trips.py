"""What is written is read again, on every database: texts, times, JSON, booleans."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import sweeps
from tests.support.database_rows import NOON, add_node, get_node

LONG = "öé€😀" * 60_000  # some 600 kB in UTF-8


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("name", "emoji 😀 and ümläut and 漢字"),
        ("description", "line\nbreaks\tand 'quotes' \"and\" \\ % %s :name {x}"),
        ("last_error", LONG),
        ("maintenance_reason", ""),
        ("provision_updated_at", NOON),
        ("provision_updated_at", datetime.datetime(1970, 1, 1, 0, 0, 0, 1)),
        ("provision_updated_at", datetime.datetime(2038, 12, 31, 23, 59, 59, 999999)),
        ("secure_boot", None),
        ("secure_boot", False),
        ("secure_boot", True),
        ("generation", 2**40),
        ("extra", None),
        ("extra", {}),
        ("extra", {"a": [1, 1.5, None, True, "x\u0000y", {"ü😀": "\ud7ff"}], "": {}}),
        ("extra", {"long": LONG}),
        ("clean_step", {"args": {"number": 0}}),
    ],
)
def test_a_value_comes_back_as_it_was(database: Database, column: str, value: Any) -> None:
    found = get_node(database, add_node(database, **{column: value}))[column]
    assert found == value
    assert type(found) is type(value)


def test_a_time_in_json_is_written_as_utc(database: Database) -> None:
    node = add_node(database, extra={"at": NOON})
    assert get_node(database, node)["extra"] == {"at": "2026-01-31T12:00:00.123456+00:00"}


def test_names_that_differ_in_case_or_accent_are_different(database: Database) -> None:
    uuids = {name: add_node(database, name=name) for name in ("rack", "Rack", "räck")}
    for name, uuid in uuids.items():
        assert get_node(database, name)["uuid"] == uuid


def test_a_text_too_long_for_its_column_is_the_requests_fault(server_database: Database) -> None:
    with pytest.raises(errors.InvalidRequest, match="cannot store a value"):
        add_node(server_database, name="x" * 300)


def test_times_compare_in_the_database_as_they_do_here(database: Database) -> None:
    step = datetime.timedelta(microseconds=1)
    node = add_node(database, wake_at=NOON)
    ask = [NOON - step, NOON, NOON + step]
    found = [
        database.read(lambda conn, now=now: sweeps.due(conn, now=now, limit=5))  # type: ignore[misc]
        for now in ask
    ]
    assert [len(rows) for rows in found] == [0, 1, 1]
    assert found[1][0]["uuid"] == node
