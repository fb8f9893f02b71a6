"""Imports from Ironic on each database: their rows, and the numbers of their nodes."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import holds
from ironic_lite.domain.holds import KINDS, OBSERVE, TRIAL
from ironic_lite.features.move_in import rows
from tests.support.database_rows import add_node, new_uuid

pytestmark = pytest.mark.feature("move_in")


def add_import(database: Database, **values: Any) -> str:
    """Add an import."""
    row = {
        "uuid": new_uuid(),
        "at": clock.now(),
        "by": None,
        "release": "35 (2026.1)",
        "head": "2a3b4c5d6e7f",
        "source": "mysql://ironic@db/ironic",
        "trial": False,
        "selection": {},
        "maps": [],
        "left_out": {},
        "marks": {},
        "counts": {},
        "findings": [],
        **values,
    }
    database.write(lambda conn: rows.add(conn, row))
    return str(row["uuid"])


def add_imported(database: Database, one: str, values: dict[str, Any], kind: str = OBSERVE) -> str:
    """Add a node of an import; return its hold."""
    node = add_node(database, import_uuid=one, **values)
    hold = {
        "uuid": new_uuid(),
        "node_uuid": node,
        "kind": kind,
        "reason": "imported",
        "blocks": ",".join(KINDS[kind]),
        "created_at": clock.now(),
    }
    database.write(lambda conn: holds.add(conn, hold))
    return str(hold["uuid"])


def test_import_is_read_as_it_was_added(database: Database) -> None:
    maps = [{"kind": "driver", "old": "ilo", "new": "redfish"}]
    found = {"kind": "loss", "text": "\u2028 ' \\ \U0001f600", "nodes": 1}
    one = add_import(database, trial=True, by="ann", maps=maps, findings=[found] * 2)
    other = add_import(database)
    row = database.read(lambda conn: rows.get(conn, one))
    assert (row["trial"], row["by"], row["maps"], row["findings"]) == (
        True,
        "ann",
        maps,
        [found] * 2,
    )
    page = database.read(
        lambda conn: rows.page(conn, columns=("uuid", "trial"), direction="desc", limit=5)
    )
    assert page == [{"uuid": other, "trial": False}, {"uuid": one, "trial": True}]
    with pytest.raises(errors.NotFound, match="Import"):
        database.read(lambda conn: rows.get(conn, new_uuid()))


def test_nodes_of_imports_are_counted(database: Database) -> None:
    first, second, empty = (add_import(database) for _ in range(3))
    unread: dict[str, Any] = {"power_state": None, "provision_state": "active"}
    add_imported(database, first, {**unread, "power_state": "power on"})
    add_imported(database, first, unread)
    for more in ({"maintenance": True}, {"retired": True}, {"provision_state": "enroll"}):
        add_imported(database, first, {**unread, **more})
    ended = add_imported(database, first, unread)
    values = {"ended_at": clock.now(), "ended_by": None, "end_reason": "seen"}
    database.write(lambda conn: holds.end(conn, ended, values))
    add_imported(database, first, unread, "freeze")
    add_imported(database, second, unread, TRIAL)
    add_node(database, **unread)
    found = database.read(lambda conn: rows.count_nodes(conn, [first, second, empty]))
    assert found == {
        first: rows.ImportedNodes(nodes=7, observed=5, unread=1),
        second: rows.ImportedNodes(nodes=1, observed=1, unread=1),
    }
