"""Numbers of nodes by their fields, equal on each database."""

from __future__ import annotations

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from tests.support.database_rows import add_node


def test_groups_of_fields_are_counted(database: Database) -> None:
    for values in (
        {"provision_state": "active", "maintenance": True, "resource_class": "gpu"},
        {"provision_state": "active", "resource_class": "gpu"},
        {"provision_state": "active", "resource_class": "gpu"},
        {"provision_state": "active", "resource_class": "GPU"},
        {"provision_state": "available", "resource_class": None},
    ):
        add_node(database, **values)
    by = ("provision_state", "maintenance", "resource_class")
    found = database.read(lambda conn: nodes.counts(conn, by=by, where={}, most=10))
    assert {row[:3]: row[3] for row in found} == {
        ("active", True, "gpu"): 1,
        ("active", False, "gpu"): 2,
        ("active", False, "GPU"): 1,
        ("available", False, None): 1,
    }
    assert all(isinstance(row[1], bool) for row in found)
    some = {"provision_state": ["active", "enroll"], "maintenance": False, "held": False}
    found = database.read(lambda conn: nodes.counts(conn, by=("driver",), where=some, most=10))
    assert [row[1] for row in found] == [3]
    found = database.read(lambda conn: nodes.counts(conn, by=by, where={}, most=2))
    assert len(found) == 2
