"""What the rows of an owner take, counted alike on each database."""

from __future__ import annotations

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import limits
from tests.support.database_rows import add_node

MINE = ("nodes", "owner", "p-mine")
LARGE = limits.Large("nodes", frozenset({"driver_info", "description", "extra", "owner"}))


def test_rows_of_an_owner_are_counted_up_to_the_limit(database: Database) -> None:
    for owner in ("p-mine", "p-mine", "p-other"):
        add_node(database, owner=owner)

    def found(most: int) -> bool:
        return database.read(lambda conn: limits.reached(conn, *MINE, most))

    assert [found(most) for most in (0, 1, 2, 3)] == [True, True, True, False]


def test_size_is_that_of_large_columns(database: Database) -> None:
    assert database.read(lambda conn: LARGE.size(conn, *MINE[1:])) == 0
    add_node(database, owner="p-other", extra={"text": "x" * 100_000})
    small = add_node(database, owner="p-mine")
    rest = database.read(lambda conn: LARGE.size(conn, *MINE[1:]))
    assert small
    assert rest < 1000
    info = {"text": "x" * 40_000, "null": None}
    more = {"driver_info": info, "description": "d" * 2000}
    add_node(database, owner="p-mine", driver_internal_info={"steps": "s" * 9000}, **more)
    both = database.read(lambda conn: LARGE.size(conn, *MINE[1:]))
    assert 42_000 <= both - rest <= 43_000
    row = {"driver_info": info, "description": "d" * 2000, "owner": "p-mine", "extra": None}
    assert 42_000 <= LARGE.size_of(row) <= 42_100
