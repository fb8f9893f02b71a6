"""Questions about the database server, on each of them."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import server_health
from ironic_lite.db.tables import models
from tests.support import database_rows

PRODUCTS = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mysql": "MariaDB"}


def test_version_names_the_product(database: Database) -> None:
    product, version = database.read(server_health.version).split()
    assert product == PRODUCTS[database.kind]
    assert version[0].isdigit()


def test_time_of_a_server_is_in_utc(database: Database) -> None:
    found = database.read(server_health.present_time)
    if database.kind == "sqlite":
        assert found is None
    else:
        assert found is not None
        assert found.tzinfo is None
        assert abs((found - clock.now()).total_seconds()) < 60


def test_write_leaves_no_row(database: Database) -> None:
    before = database.read(lambda conn: conn.execute(sa.select(models.marks)).all())
    for _ in range(2):
        database.write(lambda conn: server_health.try_write(conn, "doctor-1"))
    assert database.read(lambda conn: conn.execute(sa.select(models.marks)).all()) == before


def test_nodes_are_counted_by_group_and_hardware_type(database: Database) -> None:
    for group, driver in (("", "ipmi"), ("b", "redfish"), ("b", "redfish"), ("b", "ipmi")):
        database_rows.add_node(database, conductor_group=group, driver=driver)
    found = database.read(server_health.node_groups)
    assert found == [("", "ipmi", 1), ("b", "ipmi", 1), ("b", "redfish", 2)]
